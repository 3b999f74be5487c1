//! Transcripts of sessions: reading, undo and redo.
//!
//! This module deletes no messages: `/undo` and `/retry` deactivate messages and mark them with the number of
//! the undo. The last undo can be restored until a newer message is added.

use hermes_core::ids::{SessionId, TurnId};
use hermes_core::transcript::{Message, Role};
use rusqlite::{Connection, Row, params};

use super::error::Fault;
use super::sql::{change, collect, collect_readable, first, parsed_list, readable, text};
use super::writer::Outcome;
use super::{MessageRow, Page, Result, SaidTurn, Store, Taken, sessions};

/// Columns that [`read_message`] reads.
const COLUMNS: &str =
    "id, turn_id, role, content, reasoning, tool_calls, tool_call_id, attachments, platform_ids, at_ms";

/// Name of a row for the log, and the column of its number.
const MESSAGE: (&str, usize) = ("message", 0);

impl Store {
    /// Returns the name of a received file by its id, from the events of the session's running turn or from the
    /// transcript.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn file_name(&self, session: &SessionId, media: &str) -> Result<Option<String>> {
        let (session, media) = (session.clone(), media.to_owned());
        self.read(move |db| {
            let named = db.prepare_cached(
                "SELECT json_extract(file.value, '$.name') FROM messages, json_each(messages.attachments) AS file
                 WHERE messages.session_id = ?1 AND json_extract(file.value, '$.media') = ?2
                 UNION ALL
                 SELECT json_extract(file.value, '$.name')
                 FROM turns INDEXED BY turns_running
                 JOIN inbox ON inbox.id IN (SELECT value FROM json_each('[' || turns.inbox || ']')),
                     json_each(inbox.event, '$.attachments') AS file
                 WHERE turns.session_id = ?1 AND turns.state = 'running' AND json_extract(file.value, '$.media') = ?2
                 LIMIT 1",
            )?;
            let name = first(named, params![session.0, media], |row| Ok(row.get::<_, Option<String>>(0)?))?;
            Ok(name.flatten().filter(|name| !name.is_empty()))
        })
        .await
    }

    /// Returns the last `limit` active messages of a session, oldest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn history(&self, session: &SessionId, limit: u32) -> Result<Vec<MessageRow>> {
        let session = session.0.clone();
        self.read(move |db| {
            let statement = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id DESC LIMIT ?2"
            ))?;
            let mut messages = collect_readable(statement, params![session, limit], MESSAGE, read_message)?;
            messages.reverse();
            Ok(messages)
        })
        .await
    }

    /// Returns the active messages of a session after message `after`, oldest first: at most `page.rows_max`
    /// messages and about `page.bytes_max` bytes of text, but at least one message.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn messages_after(&self, session: &SessionId, after: i64, page: Page) -> Result<Vec<MessageRow>> {
        let session = session.0.clone();
        self.read(move |db| {
            let mut statement = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM messages WHERE session_id = ?1 AND active = 1 AND id > ?2 ORDER BY id LIMIT ?3"
            ))?;
            let mut rows = statement.query(params![session, after, page.rows_max])?;
            let (mut messages, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let Some(message) = readable(row, MESSAGE, read_message)? else { continue };
                bytes += message.message.content.len();
                if bytes > page.bytes_max && !messages.is_empty() {
                    break;
                }
                messages.push(message);
            }
            Ok(messages)
        })
        .await
    }

    /// Returns the last `count` turns with active messages, newest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn last_turns(&self, session: &SessionId, count: u32) -> Result<Vec<SaidTurn>> {
        let session = session.clone();
        self.read(move |db| last_turns(db, &session, count)).await
    }

    /// Returns the last undo that can be restored.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn last_taken(&self, session: &SessionId) -> Result<Option<Taken>> {
        let session = session.clone();
        self.read(move |db| last_taken(db, &session)).await
    }
}

fn last_turns(db: &Connection, session: &SessionId, count: u32) -> Outcome<Vec<SaidTurn>> {
    let turns = db.prepare_cached(
        "SELECT turn_id, min(id) FROM messages WHERE session_id = ?1 AND active = 1 AND turn_id IS NOT NULL
         GROUP BY turn_id ORDER BY min(id) DESC LIMIT ?2",
    )?;
    let turns = collect(turns, params![session.0, count], |row| Ok((TurnId(row.get(0)?), row.get::<_, i64>(1)?)))?;
    turns.into_iter().map(|(turn, first)| Ok(SaidTurn { first, heard: heard(db, session, turn)? })).collect()
}

/// Returns the messages of people in a turn.
fn heard(db: &Connection, session: &SessionId, turn: TurnId) -> Outcome<Vec<Message>> {
    let said = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM messages WHERE session_id = ?1 AND turn_id = ?2 AND active = 1 AND role = 'user'
         ORDER BY id"
    ))?;
    collect_readable(said, params![session.0, turn.0], MESSAGE, |row| Ok(read_message(row)?.message))
}

fn last_taken(db: &Connection, session: &SessionId) -> Outcome<Option<Taken>> {
    let taken = db.prepare_cached(
        "SELECT undone, count(DISTINCT turn_id), min(id) FROM messages
         WHERE session_id = ?1 AND undone = (SELECT max(undone) FROM messages WHERE session_id = ?1)
         GROUP BY undone",
    )?;
    let taken = first(taken, [&session.0], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?)))?;
    let Some((number, turns, begin)) = taken else { return Ok(None) };
    let newer = db.prepare_cached("SELECT 1 FROM messages WHERE session_id = ?1 AND active = 1 AND id > ?2")?;
    let overtaken = first(newer, params![session.0, begin], |_| Ok(()))?.is_some();
    Ok(Some(Taken { number, turns, overtaken }))
}

/// Deactivates all active messages of a session from message `from` on.
pub(super) fn take_back(db: &Connection, session: &SessionId, from: i64) -> Outcome<()> {
    let taken = change(
        db,
        "UPDATE messages SET active = 0,
             undone = (SELECT COALESCE(max(undone), 0) + 1 FROM messages WHERE session_id = ?1)
         WHERE session_id = ?1 AND active = 1 AND id >= ?2",
        params![session.0, from],
    )?;
    if taken == 0 {
        return Err(Fault::conflict(sessions::name(session)));
    }
    changed(db, session)
}

/// Restores the messages of undo `number`, unless there are newer ones.
pub(super) fn bring_back(db: &Connection, session: &SessionId, number: i64) -> Outcome<()> {
    match last_taken(db, session)? {
        Some(taken) if taken.number == number && !taken.overtaken => {}
        _ => return Err(Fault::conflict(sessions::name(session))),
    }
    change(
        db,
        "UPDATE messages SET active = 1, undone = NULL WHERE session_id = ?1 AND undone = ?2",
        params![session.0, number],
    )?;
    changed(db, session)
}

/// Updates the message count of a changed transcript and removes the runtimes' states of the former one.
pub(super) fn changed(db: &Connection, session: &SessionId) -> Outcome<()> {
    sessions::change_session(
        db,
        session,
        "UPDATE sessions SET messages = (SELECT count(*) FROM messages WHERE session_id = ?1 AND active = 1)
         WHERE id = ?1",
        [&session.0],
    )?;
    change(db, "DELETE FROM agent_state WHERE session_id = ?1", [&session.0])?;
    Ok(())
}

/// Copies the active messages of a session from message `after` on to another one.
pub(super) fn copy(db: &Connection, from: &SessionId, to: &SessionId, after: i64) -> Outcome<()> {
    // The id of the turn is kept, so that an undo still covers the messages of one turn together.
    change(
        db,
        "INSERT INTO messages (session_id, turn_id, role, content, reasoning, tool_calls, tool_call_id, attachments,
             platform_ids, at_ms)
         SELECT ?2, turn_id, role, content, reasoning, tool_calls, tool_call_id, attachments, platform_ids, at_ms
         FROM messages WHERE session_id = ?1 AND active = 1 AND id >= ?3 ORDER BY id",
        params![from.0, to.0, after],
    )?;
    changed(db, to)
}

/// Returns the first message of the last `turns` turns of a session, or an id beyond its end if there are none.
pub(super) fn begin_of_last(db: &Connection, session: &SessionId, turns: u32) -> Outcome<i64> {
    if turns == 0 {
        return Ok(i64::MAX);
    }
    Ok(last_turns(db, session, turns)?.last().map_or(i64::MAX, |turn| turn.first))
}

fn read_message(row: &Row<'_>) -> Outcome<MessageRow> {
    let role = text(row, 2)?;
    let role = Role::from_word(role).ok_or_else(|| Fault::unreadable(format_args!("role {role:?}")))?;
    let mut message = Message::new(role, row.get::<_, String>(3)?);
    message.reasoning = row.get(4)?;
    message.tool_calls = parsed_list(row, 5)?;
    message.tool_call_id = row.get(6)?;
    message.attachments = parsed_list(row, 7)?;
    Ok(MessageRow {
        id: row.get(0)?,
        turn: row.get::<_, Option<i64>>(1)?.map(TurnId),
        message,
        platform_ids: parsed_list(row, 8)?,
        at_ms: row.get(9)?,
    })
}

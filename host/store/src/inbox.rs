//! Incoming events: transactions (a) and (f).

use hermes_core::file_refs;
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::transcript::Message;
use hermes_protocol::{Attachment, Event};
use rusqlite::{Connection, Row, params};

use super::error::Fault;
use super::sql::{change, change_one, first, json, parsed, parsed_or_none, text};
use super::writer::Outcome;
use super::{Accepted, InboxRow, InboxState, NewInbox, NewWake, PairingOffer, Result, Store, outbox, pairing};
use hermes_core::message_edit;

/// Number of drops after which stray events beyond the limit are removed; the sweep removes the rest.
const STRAY_CHECK_EVERY: i64 = 64;

/// Messages with the same platform id that are compared, because some platforms number the messages of each
/// chat separately.
const ALIKE_MAX: u32 = 64;

/// Messages of an instance whose last edit is kept.
const LAST_EDITS_MAX: u32 = 256;

/// Time for which an edit waits for its message, in milliseconds. A platform repeats a message for some minutes.
const LAST_EDIT_MS: i64 = 10 * 60 * 1_000;

impl Store {
    /// (a) Stores an event once. Only after this may the platform discard it.
    ///
    /// # Errors
    ///
    /// The commit failed; the platform must offer the event again.
    pub async fn accept(&self, new: NewInbox) -> Result<Accepted> {
        self.write_single(move |db| accept(db, &new)).await
    }

    /// (a) Stores a message once, with the edit that arrived before it. Returns the message if that edit changed it.
    ///
    /// # Errors
    ///
    /// As for [`Store::accept`].
    pub async fn accept_message(&self, new: NewInbox, message_id: String) -> Result<(Accepted, Option<Event>)> {
        self.write_single(move |db| {
            let accepted = accept(db, &new)?;
            let Accepted::New(own) = accepted else { return Ok((accepted, None)) };
            let changed = change_what_waits(db, &new.instance, &message_id)?;
            Ok((accepted, changed.into_iter().find(|(id, _)| *id == own).map(|(_, event)| event)))
        })
        .await
    }

    /// (a) Stores an edit once and applies it to the edited message, unless a turn or a command has already
    /// taken that message, or a later edit arrived before. A message that arrives after its edit is accepted as the
    /// edit left it.
    ///
    /// # Errors
    ///
    /// As for [`Store::accept`].
    pub async fn accept_edit(&self, new: NewInbox, edit: Event) -> Result<Accepted> {
        self.write_single(move |db| {
            let accepted = accept(db, &new)?;
            if let (Accepted::New(_), Some(message_id)) = (accepted, &edit.message_id) {
                keep_edit(db, &new, message_id, &edit)?;
                change_what_waits(db, &new.instance, message_id)?;
            }
            Ok(accepted)
        })
        .await
    }

    /// Returns those events that were edited while they waited, with their last text.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn edited(&self, events: Vec<InboxId>) -> Result<Vec<(InboxId, Event)>> {
        self.read(move |db| {
            let mut edited = Vec::new();
            for id in events {
                let sql = db.prepare_cached("SELECT event FROM inbox WHERE id = ?1 AND edited = 1")?;
                let said = first(sql, [id.0], |row| Ok(text(row, 0)?.to_owned()))?;
                edited.extend(said.and_then(|said| Some((id, serde_json::from_str(&said).ok()?))));
            }
            Ok(edited)
        })
        .await
    }

    /// Replaces the file references of an event by the fetched files, unless it was already taken or dropped.
    ///
    /// # Errors
    ///
    /// The commit failed, or the event is unreadable.
    pub async fn fetched(&self, inbox: InboxId, files: Vec<(String, Attachment)>) -> Result<()> {
        self.write(move |db| {
            let row = db.prepare_cached("SELECT event FROM inbox WHERE id = ?1 AND state = 'accepted'")?;
            let Some(event) = first(row, [inbox.0], |row| parsed::<Event>(row, 0))? else { return Ok(()) };
            let event = json(&file_refs::put(event, &files))?;
            change(db, "UPDATE inbox SET event = ?2 WHERE id = ?1 AND state = 'accepted'", params![inbox.0, event])?;
            Ok(())
        })
        .await
    }

    /// (f) Drops an accepted event that was not admitted or not addressed. Its text is removed at once; its key
    /// stays. With `offer`, the pairing request, which keeps the message, and the reply to the unknown sender are
    /// stored too. Returns the delivery of that reply.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the event is not `accepted`.
    pub async fn drop_event(
        &self,
        inbox: InboxId,
        why: &str,
        offer: Option<PairingOffer>,
    ) -> Result<Option<DeliveryId>> {
        let (why, nonce, strays_max) = (why.to_owned(), self.nonce(), self.keep().stray_events_max);
        self.write(move |db| {
            let kept = if offer.is_some() { pairing::kept(db, inbox)? } else { None };
            drop_one(db, inbox, &why, true)?;
            if inbox.0 % STRAY_CHECK_EVERY == 0 {
                trim_strays_beside(db, inbox, strays_max)?;
            }
            let Some(offer) = offer else { return Ok(None) };
            pairing::write_request(db, &offer.request)?;
            pairing::keep(db, &offer.request, kept)?;
            offer.reply.map(|reply| outbox::insert(db, &nonce, &reply, None)).transpose()
        })
        .await
    }
}

fn accept(db: &Connection, new: &NewInbox) -> Outcome<Accepted> {
    let inserted = change(
        db,
        "INSERT INTO inbox (instance, event_id, at_ms, received_ms, event, state) VALUES (?1, ?2, ?3, ?4, ?5, 'accepted')
         ON CONFLICT (instance, event_id) DO NOTHING",
        params![new.instance, new.event_id, new.at_ms, new.received_ms, new.event],
    )?;
    if inserted == 1 {
        return Ok(Accepted::New(InboxId(db.last_insert_rowid())));
    }
    let known = db.prepare_cached("SELECT id FROM inbox WHERE instance = ?1 AND event_id = ?2")?;
    let id = first(known, params![new.instance, new.event_id], |row| Ok(InboxId(row.get(0)?)))?;
    id.map(Accepted::Duplicate).ok_or_else(|| Fault::missing(format_args!("event {}", new.event_id)))
}

/// Keeps the last edit of a message, by the time at which it was made.
fn keep_edit(db: &Connection, new: &NewInbox, message_id: &str, edit: &Event) -> Outcome<()> {
    let mut edit = edit.clone();
    edit.raw = serde_json::Value::Null;
    change(
        db,
        "INSERT INTO last_edits (instance, message_id, chat, sender, at_ms, received_ms, event)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE
             SET at_ms = excluded.at_ms, received_ms = excluded.received_ms, event = excluded.event
             WHERE excluded.at_ms >= at_ms",
        params![new.instance, message_id, edit.chat.id, edit.sender.id, new.at_ms, new.received_ms, json(&edit)?],
    )?;
    change(
        db,
        "DELETE FROM last_edits WHERE instance = ?1 AND (message_id, chat, sender) IN (
             SELECT message_id, chat, sender FROM last_edits WHERE instance = ?1
             ORDER BY received_ms DESC LIMIT -1 OFFSET ?2)",
        params![new.instance, LAST_EDITS_MAX],
    )?;
    Ok(())
}

/// Removes edits whose messages do not arrive any more.
pub(super) fn sweep_edits(db: &Connection, now_ms: i64) -> Outcome<usize> {
    change(db, "DELETE FROM last_edits WHERE received_ms < ?1", [now_ms.saturating_sub(LAST_EDIT_MS)])
}

/// Removes the edits in the chats of a session.
pub(super) fn forget_edits(db: &Connection, session: &SessionId) -> Outcome<usize> {
    change(
        db,
        "DELETE FROM last_edits WHERE (instance, chat) IN (
             SELECT instance, json_extract(origin, '$.id') FROM routes WHERE session_id = ?1)",
        [&session.0],
    )
}

/// Applies the last edit of a message to it while no turn has taken it. Returns what changed.
fn change_what_waits(db: &Connection, instance: &str, message_id: &str) -> Outcome<Vec<(InboxId, Event)>> {
    let sql = db.prepare_cached("SELECT event FROM last_edits WHERE instance = ?1 AND message_id = ?2")?;
    let edits = super::sql::collect(sql, [instance, message_id], |row| Ok(text(row, 0)?.to_owned()))?;
    let edits: Vec<Event> = edits.iter().filter_map(|edit| serde_json::from_str(edit).ok()).collect();
    let mut changed = Vec::new();
    if edits.is_empty() {
        return Ok(changed);
    }
    let sql = db.prepare_cached(
        "SELECT id, event FROM inbox INDEXED BY inbox_accepted
         WHERE state = 'accepted' AND instance = ?1 AND wakes IS NULL AND json_extract(event, '$.message_id') = ?2
         ORDER BY id LIMIT ?3",
    )?;
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, text(row, 1)?.to_owned()));
    for (id, said) in super::sql::collect(sql, params![instance, message_id, ALIKE_MAX], read)? {
        // An unreadable message is not changed; the turn that needs it reports the error.
        let Ok(event) = serde_json::from_str::<Event>(&said) else { continue };
        if let Some(edit) = edits.iter().find(|edit| message_edit::is_of(edit, &event)) {
            let event = message_edit::changed(event, edit);
            let sql = "UPDATE inbox SET event = ?2, edited = 1 WHERE id = ?1 AND state = 'accepted'";
            change(db, sql, params![id, json(&event)?])?;
            changed.push((InboxId(id), event));
        }
    }
    Ok(changed)
}

/// Accepts an event that was dropped before its sender got access, under its own key: a repeat of the platform stays a
/// duplicate. Returns `None` if the event is on its way already.
pub(super) fn accept_again(db: &Connection, new: &NewInbox) -> Outcome<Option<InboxId>> {
    let accepted = change(
        db,
        "INSERT INTO inbox (instance, event_id, at_ms, received_ms, event, state) VALUES (?1, ?2, ?3, ?4, ?5, 'accepted')
         ON CONFLICT (instance, event_id) DO UPDATE
             SET state = 'accepted', why = NULL, stray = 0, received_ms = excluded.received_ms, event = excluded.event
             WHERE state = 'dropped'",
        params![new.instance, new.event_id, new.at_ms, new.received_ms, new.event],
    )?;
    if accepted == 0 {
        return Ok(None);
    }
    let id = db.prepare_cached("SELECT id FROM inbox WHERE instance = ?1 AND event_id = ?2")?;
    first(id, params![new.instance, new.event_id], |row| Ok(InboxId(row.get(0)?)))
}

/// Stores an event of the host itself and the input of its turn.
pub(super) fn host_said(db: &Connection, new: &NewInbox, input: &[Message]) -> Outcome<InboxId> {
    match accept(db, new)? {
        Accepted::New(id) => hear(db, id, input).map(|()| id),
        Accepted::Duplicate(id) => Err(Fault::conflict(format_args!("event {id}"))),
    }
}

/// Stores the event that wakes a session, once. Returns `None` if it was stored before.
pub(super) fn woken(db: &Connection, wake: &NewWake) -> Outcome<Option<InboxId>> {
    let Accepted::New(id) = accept(db, &wake.event)? else { return Ok(None) };
    hear(db, id, &wake.input)?;
    let sql = "UPDATE inbox SET wakes = ?2 WHERE id = ?1 AND state = 'accepted'";
    change_one(db, sql, params![id.0, wake.session.0], || format!("event {id}"))?;
    Ok(Some(id))
}

/// Changes the state from `accepted` to `turned`.
pub(super) fn turned(db: &Connection, inbox: InboxId) -> Outcome<()> {
    change_one(db, "UPDATE inbox SET state = 'turned' WHERE id = ?1 AND state = 'accepted'", [inbox.0], || {
        format!("event {inbox}")
    })
}

/// Returns true if all events come from the host to wake a session.
pub(super) fn only_wakes(db: &Connection, events: &[InboxId]) -> Outcome<bool> {
    for event in events {
        let wakes = db.prepare_cached("SELECT wakes IS NOT NULL FROM inbox WHERE id = ?1")?;
        if first(wakes, [event.0], |row| Ok(row.get(0)?))? != Some(true) {
            return Ok(false);
        }
    }
    Ok(!events.is_empty())
}

/// Changes the state from `turned` to `answered`. The text is in the transcript from here on.
pub(super) fn turn_answered(db: &Connection, inbox: InboxId) -> Outcome<()> {
    change_one(
        db,
        "UPDATE inbox SET state = 'answered', event = NULL, input = NULL WHERE id = ?1 AND state = 'turned'",
        [inbox.0],
        || format!("event {inbox}"),
    )
}

/// Sets the input of the turn, which replaces the text of an accepted event.
pub(super) fn hear(db: &Connection, inbox: InboxId, input: &[Message]) -> Outcome<()> {
    let sql = "UPDATE inbox SET input = ?2 WHERE id = ?1 AND state = 'accepted'";
    change_one(db, sql, params![inbox.0, json(&input)?], || format!("event {inbox}"))
}

/// Changes the state from `accepted` to `answered`, for a command.
pub(super) fn command_answered(db: &Connection, inbox: InboxId) -> Outcome<()> {
    change_one(
        db,
        "UPDATE inbox SET state = 'answered', event = NULL, input = NULL WHERE id = ?1 AND state = 'accepted'",
        [inbox.0],
        || format!("event {inbox}"),
    )
}

/// Changes the state from `accepted` to `dropped`. The key of a stray event may be removed early, because it
/// would be dropped again.
pub(super) fn drop_one(db: &Connection, inbox: InboxId, why: &str, stray: bool) -> Outcome<()> {
    change_one(
        db,
        "UPDATE inbox SET state = 'dropped', why = ?2, stray = ?3, event = NULL, input = NULL WHERE id = ?1 AND state = 'accepted'",
        params![inbox.0, why, stray],
        || format!("event {inbox}"),
    )
}

fn trim_strays_beside(db: &Connection, inbox: InboxId, max: i64) -> Outcome<()> {
    let instance = db.prepare_cached("SELECT instance FROM inbox WHERE id = ?1")?;
    if let Some(instance) = first(instance, [inbox.0], |row| Ok(text(row, 0)?.to_owned()))? {
        trim_strays(db, &instance, max, u32::MAX)?;
    }
    Ok(())
}

/// Removes the oldest stray events of an instance beyond `max`, at most `rows` at once.
pub(super) fn trim_strays(db: &Connection, instance: &str, max: i64, rows: u32) -> Outcome<usize> {
    change(
        db,
        "DELETE FROM inbox WHERE id IN (
             SELECT id FROM inbox INDEXED BY inbox_stray WHERE instance = ?1 AND stray = 1
             ORDER BY id DESC LIMIT ?3 OFFSET ?2)",
        params![instance, max, rows],
    )
}

const COLUMNS: &str = "id, instance, event_id, at_ms, received_ms, event, state, input, wakes";

fn read(row: &Row<'_>) -> Outcome<InboxRow> {
    let state = text(row, 6)?;
    Ok(InboxRow {
        id: InboxId(row.get(0)?),
        instance: row.get(1)?,
        event_id: row.get(2)?,
        at_ms: row.get(3)?,
        received_ms: row.get(4)?,
        event: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
        state: InboxState::from_word(state).ok_or_else(|| Fault::unreadable(format_args!("inbox state {state:?}")))?,
        input: parsed_or_none(row, 7)?,
        wakes: row.get::<_, Option<String>>(8)?.map(SessionId),
    })
}

/// Returns one event.
pub(super) fn one(db: &Connection, inbox: InboxId) -> Outcome<Option<InboxRow>> {
    first(db.prepare_cached(&format!("SELECT {COLUMNS} FROM inbox WHERE id = ?1"))?, [inbox.0], read)
}

/// Returns the events whose text is still needed. The text is removed when they end.
pub(super) fn unsettled(db: &Connection) -> Outcome<Vec<Event>> {
    let sql = db.prepare_cached("SELECT event FROM inbox WHERE event IS NOT NULL")?;
    let events = super::sql::collect(sql, [], |row| Ok(text(row, 0)?.to_owned()))?;
    // An unreadable event names no files; the turn that needs it reports the error.
    Ok(events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect())
}

/// Returns accepted events of the host itself that no turn has taken, in id order: at most `limit` after
/// `after`.
pub(super) fn wakes(db: &Connection, after: InboxId, limit: u32) -> Outcome<Vec<InboxRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM inbox INDEXED BY inbox_accepted
         WHERE state = 'accepted' AND id > ?1 AND wakes IS NOT NULL ORDER BY id LIMIT ?2"
    );
    super::sql::collect(db.prepare_cached(&sql)?, params![after.0, limit], read)
}

/// Returns accepted events that no turn has taken, in id order: after the start of `ids` up to and including
/// its end.
pub(super) fn pending(db: &Connection, ids: std::ops::Range<i64>, limit: u32) -> Outcome<Vec<InboxRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM inbox INDEXED BY inbox_accepted
         WHERE state = 'accepted' AND id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3"
    );
    super::sql::collect(db.prepare_cached(&sql)?, params![ids.start, ids.end, limit], read)
}

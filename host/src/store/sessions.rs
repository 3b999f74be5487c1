//! Sessions, their routes and transcripts.

use hermes_agent::{Message, Role};
use hermes_core::ids::{SessionId, TurnId};
use hermes_protocol::Usage;
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::error::{Fault, StoreError};
use super::sql::{change, change_one, collect, count, first, json, parsed, parsed_list, parsed_or_none, text};
use super::writer::Outcome;
use super::{
    LISTING_ROWS_MAX, MessageRow, NewSession, QueueCounts, Resolved, Result, RouteRow, SessionFilter, SessionRow,
    Store, search,
};

/// The longest title of a session.
const TITLE_CHARS_MAX: usize = 100;
/// Sessions that an ambiguous name lists.
const AMBIGUOUS_MAX: u32 = 10;
/// Numbered variants of a title that are looked at.
const VARIANTS_MAX: u32 = 1_000;

impl Store {
    /// Returns the last `limit` active messages of a session, oldest first.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn history(&self, session: &SessionId, limit: u32) -> Result<Vec<MessageRow>> {
        let session = session.0.clone();
        self.read(move |db| {
            let statement = db.prepare_cached(
                "SELECT id, turn_id, role, content, reasoning, tool_calls, tool_call_id, attachments, platform_ids, at_ms
                 FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id DESC LIMIT ?2",
            )?;
            let mut messages = collect(statement, params![session, limit], read_message)?;
            messages.reverse();
            Ok(messages)
        })
        .await
    }

    /// Lists sessions, newest activity first.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>> {
        self.read(move |db| {
            let statement = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM sessions
                 WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR source = ?2) AND (?3 OR ended_ms IS NULL)
                 ORDER BY active_ms DESC, id DESC LIMIT ?4"
            ))?;
            let limit = if filter.limit == 0 { LISTING_ROWS_MAX } else { filter.limit.min(LISTING_ROWS_MAX) };
            collect(statement, params![filter.owner, filter.source, filter.with_ended, limit], read)
        })
        .await
    }

    /// Returns one session.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        let id = id.0.clone();
        self.read(move |db| one(db, &id)).await
    }

    /// Finds a session by its id, its title (of `title #2`, `title #3` … the newest), or an unambiguous beginning
    /// of its id.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn resolve_session(&self, name: &str) -> Result<Resolved> {
        let name = name.trim().to_owned();
        self.read(move |db| resolve(db, &name)).await
    }

    /// Ends a session; one that has ended keeps its first reason.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`] when there is none.
    pub async fn session_end(&self, id: &SessionId, reason: &str) -> Result<()> {
        let (id, reason, now_ms) = (id.clone(), reason.to_owned(), self.now_ms());
        self.write(move |db| end(db, &id, &reason, now_ms)).await
    }

    /// Names a session; `None` takes the name away.
    ///
    /// # Errors
    ///
    /// [`StoreError::TitleTaken`], [`StoreError::TitleTooLong`], [`StoreError::Missing`].
    pub async fn session_rename(&self, id: &SessionId, title: Option<&str>) -> Result<()> {
        let (id, title) = (id.clone(), title.map(str::to_owned));
        self.write(move |db| rename(db, &id, title.as_deref())).await
    }

    /// Deletes a session with its transcript and routes; what was said to chats stays in the outbox until its
    /// retention ends.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] while a turn of it is queued or running.
    pub async fn session_delete(&self, id: &SessionId) -> Result<()> {
        let id = id.clone();
        self.write(move |db| delete(db, &id)).await
    }

    /// Returns how much is waiting where.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn counts(&self) -> Result<QueueCounts> {
        self.read(|db| {
            let statement = db.prepare_cached(
                "SELECT
                     (SELECT count(*) FROM inbox WHERE state = 'accepted'),
                     (SELECT count(*) FROM turns WHERE state = 'running')
                         + (SELECT count(*) FROM turns WHERE state = 'queued'),
                     (SELECT count(*) FROM outbox WHERE state IN ('drafting', 'owed')),
                     (SELECT count(*) FROM sessions WHERE handoff_state IN ('pending', 'running')),
                     (SELECT count(*) FROM outbox WHERE why IS NOT NULL AND dismissed = 0),
                     (SELECT count(*) FROM sessions WHERE ended_ms IS NULL),
                     (SELECT count(*) FROM sessions)",
            )?;
            let counts = first(statement, [], |row| {
                Ok(QueueCounts {
                    inbox: count(row, 0)?,
                    turns: count(row, 1)?,
                    outbox: count(row, 2)?,
                    handoffs: count(row, 3)?,
                    dead: count(row, 4)?,
                    sessions_open: count(row, 5)?,
                    sessions: count(row, 6)?,
                })
            })?;
            Ok(counts.unwrap_or_default())
        })
        .await
    }
}

fn name(id: &SessionId) -> String {
    format!("session {id}")
}

pub(super) fn insert(db: &Connection, new: &NewSession) -> Outcome<()> {
    let title = new.title.as_deref().map(clean_title).transpose()?.flatten();
    let inserted = change(
        db,
        "INSERT INTO sessions (id, profile, title, source, owner, model, parent, started_ms, active_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
        params![
            new.id.0,
            new.profile,
            title,
            new.source,
            new.owner,
            new.model,
            new.parent.as_ref().map(|parent| &parent.0),
            new.started_ms,
        ],
    );
    match inserted {
        Err(Fault::Sql(error)) if Fault::is_unique_violation(&error) => match title {
            Some(title) if !exists(db, &new.id)? => Err(StoreError::TitleTaken { title }.into()),
            _ => Err(Fault::conflict(name(&new.id))),
        },
        other => other.map(|_| ()),
    }
}

fn exists(db: &Connection, id: &SessionId) -> Outcome<bool> {
    Ok(first(db.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?, [&id.0], |_| Ok(()))?.is_some())
}

/// One change of one session that exists.
fn change_session(db: &Connection, id: &SessionId, sql: &str, values: impl rusqlite::Params) -> Outcome<()> {
    if change(db, sql, values)? == 1 { Ok(()) } else { Err(Fault::missing(name(id))) }
}

pub(super) fn end(db: &Connection, id: &SessionId, reason: &str, now_ms: i64) -> Outcome<()> {
    change_session(
        db,
        id,
        "UPDATE sessions SET ended_ms = COALESCE(ended_ms, ?2), end_reason = COALESCE(end_reason, ?3) WHERE id = ?1",
        params![id.0, now_ms, reason],
    )
}

pub(super) fn reopen(db: &Connection, id: &SessionId) -> Outcome<()> {
    change_session(db, id, "UPDATE sessions SET ended_ms = NULL, end_reason = NULL WHERE id = ?1", [&id.0])
}

pub(super) fn set_model(db: &Connection, id: &SessionId, model: Option<&str>) -> Outcome<()> {
    change_session(db, id, "UPDATE sessions SET model = ?2 WHERE id = ?1", params![id.0, model])
}

pub(super) fn rename(db: &Connection, id: &SessionId, title: Option<&str>) -> Outcome<()> {
    let title = title.map(clean_title).transpose()?.flatten();
    let renamed = change_session(db, id, "UPDATE sessions SET title = ?2 WHERE id = ?1", params![id.0, title]);
    match (renamed, title) {
        (Err(Fault::Sql(error)), Some(title)) if Fault::is_unique_violation(&error) => {
            Err(StoreError::TitleTaken { title }.into())
        }
        (renamed, _) => renamed,
    }
}

/// A title as it is kept: nothing invisible, one space between words; nothing left is no title.
fn clean_title(title: &str) -> Outcome<Option<String>> {
    let invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let visible: String = title.chars().filter(|c| c.is_whitespace() || !invisible(*c)).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    let title = words.join(" ");
    if title.chars().count() > TITLE_CHARS_MAX {
        return Err(StoreError::TitleTooLong { chars_max: TITLE_CHARS_MAX }.into());
    }
    Ok((!title.is_empty()).then_some(title))
}

fn delete(db: &Connection, id: &SessionId) -> Outcome<()> {
    if !exists(db, id)? {
        return Err(Fault::missing(name(id)));
    }
    let live = db.prepare_cached(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM turns WHERE session_id = ?1 AND state = 'running')
             OR EXISTS (SELECT 1 FROM turns WHERE session_id = ?1 AND state = 'queued')",
    )?;
    if first(live, [&id.0], |_| Ok(()))?.is_some() {
        return Err(Fault::conflict(name(id)));
    }
    search::forget_session(db, id)?;
    for table in ["messages", "routes", "agent_state", "attachments"] {
        change(db, &format!("DELETE FROM {table} WHERE session_id = ?1"), [&id.0])?;
    }
    change_one(db, "DELETE FROM sessions WHERE id = ?1", [&id.0], || name(id))
}

const COLUMNS: &str = "id, profile, title, source, owner, model, parent, started_ms, active_ms, ended_ms, end_reason,
    messages, tool_calls, api_calls, input_tokens, output_tokens, summary";

fn read(row: &Row<'_>) -> Outcome<SessionRow> {
    let mut usage = Usage::default();
    usage.tool_calls = count(row, 12)?;
    usage.api_calls = count(row, 13)?;
    usage.input_tokens = count(row, 14)?;
    usage.output_tokens = count(row, 15)?;
    Ok(SessionRow {
        id: SessionId(row.get(0)?),
        profile: row.get(1)?,
        title: row.get(2)?,
        source: row.get(3)?,
        owner: row.get(4)?,
        model: row.get(5)?,
        parent: row.get::<_, Option<String>>(6)?.map(SessionId),
        started_ms: row.get(7)?,
        active_ms: row.get(8)?,
        ended_ms: row.get(9)?,
        end_reason: row.get(10)?,
        messages: count(row, 11)?,
        usage,
        summary: row.get(16)?,
    })
}

fn one(db: &Connection, id: &str) -> Outcome<Option<SessionRow>> {
    first(db.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"))?, [id], read)
}

fn resolve(db: &Connection, name: &str) -> Outcome<Resolved> {
    if name.is_empty() {
        return Ok(Resolved::Unknown);
    }
    if let Some(session) = one(db, name)? {
        return Ok(Resolved::Found(Box::new(session)));
    }
    if let Some(session) = titled(db, name)? {
        return Ok(Resolved::Found(Box::new(session)));
    }
    let beginning =
        db.prepare_cached("SELECT id FROM sessions WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3")?;
    // No id has a character that sorts behind this one.
    let end = format!("{name}\u{10ffff}");
    let mut ids = collect(beginning, params![name, end, AMBIGUOUS_MAX], |row| Ok(SessionId(row.get(0)?)))?;
    match (ids.pop(), ids.is_empty()) {
        (Some(only), true) => Ok(match one(db, &only.0)? {
            Some(session) => Resolved::Found(Box::new(session)),
            None => Resolved::Unknown,
        }),
        (Some(last), false) => {
            ids.push(last);
            Ok(Resolved::Ambiguous(ids))
        }
        (None, _) => Ok(Resolved::Unknown),
    }
}

/// The newest numbered variant of a title, or the title itself.
fn titled(db: &Connection, title: &str) -> Outcome<Option<SessionRow>> {
    let variants = db.prepare_cached(
        "SELECT id, title FROM sessions WHERE title LIKE ?1 ESCAPE '\\' ORDER BY length(title) DESC, title DESC LIMIT ?2",
    )?;
    let pattern = format!("{} #%", search::escape_like(title));
    let number = |text: &str| -> Option<u64> { text.rsplit_once(" #")?.1.parse().ok() };
    let numbered =
        collect(variants, params![pattern, VARIANTS_MAX], |row| Ok((row.get::<_, String>(0)?, number(text(row, 1)?))))?;
    let newest = numbered.into_iter().filter_map(|(id, number)| Some((number?, id))).max();
    if let Some((_, id)) = newest {
        return one(db, &id);
    }
    let exact = format!("SELECT {COLUMNS} FROM sessions WHERE title = ?1 COLLATE NOCASE");
    first(db.prepare_cached(&exact)?, [title], read)
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

pub(super) fn bind_route(db: &Connection, route: &RouteRow) -> Outcome<()> {
    let overrides = (!route.overrides.is_null()).then(|| json(&route.overrides)).transpose()?;
    change(
        db,
        "INSERT INTO routes (key, profile, instance, session_id, origin, created_ms, updated_ms, shared, participates,
             suspended, resume_pending, resume_reason, resume_count, overrides)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
         ON CONFLICT DO UPDATE SET session_id = excluded.session_id, origin = excluded.origin,
             updated_ms = excluded.updated_ms, shared = excluded.shared, participates = excluded.participates,
             suspended = excluded.suspended, resume_pending = excluded.resume_pending,
             resume_reason = excluded.resume_reason, resume_count = excluded.resume_count,
             overrides = excluded.overrides",
        params![
            route.key,
            route.profile,
            route.instance,
            route.session.0,
            json(&route.origin)?,
            route.created_ms,
            route.updated_ms,
            route.shared,
            route.participates,
            route.suspended,
            route.resume_pending,
            route.resume_reason,
            route.resume_count,
            overrides,
        ],
    )?;
    Ok(())
}

pub(super) fn unbind_route(db: &Connection, key: &str) -> Outcome<()> {
    change(db, "DELETE FROM routes WHERE key = ?1", [key])?;
    Ok(())
}

pub(super) fn routes(db: &Connection) -> Outcome<Vec<RouteRow>> {
    let statement = db.prepare_cached(
        "SELECT key, routes.profile, instance, session_id, origin, created_ms,
             max(updated_ms, COALESCE(sessions.active_ms, 0)), shared, participates, suspended, resume_pending,
             resume_reason, resume_count, overrides
         FROM routes LEFT JOIN sessions ON sessions.id = routes.session_id ORDER BY key",
    )?;
    collect(statement, [], |row| {
        Ok(RouteRow {
            key: row.get(0)?,
            profile: row.get(1)?,
            instance: row.get(2)?,
            session: SessionId(row.get(3)?),
            origin: parsed(row, 4)?,
            created_ms: row.get(5)?,
            updated_ms: row.get(6)?,
            shared: row.get(7)?,
            participates: row.get(8)?,
            suspended: row.get(9)?,
            resume_pending: row.get(10)?,
            resume_reason: row.get(11)?,
            resume_count: row.get(12)?,
            overrides: parsed_or_none(row, 13)?.unwrap_or(Value::Null),
        })
    })
}

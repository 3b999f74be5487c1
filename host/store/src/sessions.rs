//! Sessions and their routes. See [`super::titles`] for titles and [`super::transcript`] for messages.

use hermes_core::handoff::TERMINAL;
use hermes_core::ids::SessionId;
use hermes_core::settings::SessionSettings;
use hermes_protocol::Usage;
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::error::{Fault, StoreError};
use super::sql::{change, collect, count, first, json, parsed, parsed_or_none};
use super::titles::clean_title;
use super::writer::Outcome;
use super::{LISTING_ROWS_MAX, Lineage, NewSession, QueueCounts, Result, RouteRow, SessionFilter, SessionRow, Store};

impl Store {
    /// Returns sessions, most recent activity first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>> {
        self.read(move |db| {
            let statement = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM sessions
                 WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR source = ?2) AND (?3 OR ended_ms IS NULL)
                     AND (NOT ?4 OR (messages > 0 AND end_reason IS NOT 'compression'))
                 ORDER BY active_ms DESC, id DESC LIMIT ?5 OFFSET ?6"
            ))?;
            let limit = if filter.limit == 0 { LISTING_ROWS_MAX } else { filter.limit.min(LISTING_ROWS_MAX) };
            let SessionFilter { owner, source, with_ended, resumable, offset, .. } = filter;
            collect(statement, params![owner, source, with_ended, resumable, limit, offset], read)
        })
        .await
    }

    /// Returns one session.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        let id = id.0.clone();
        self.read(move |db| one(db, &id)).await
    }

    /// Ends a session. An ended session keeps its first reason.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`] if the session does not exist.
    pub async fn session_end(&self, id: &SessionId, reason: &str) -> Result<()> {
        let (id, reason, now_ms) = (id.clone(), reason.to_owned(), self.now_ms());
        self.write(move |db| end(db, &id, &reason, now_ms)).await
    }

    /// Returns the sizes of the queues.
    ///
    /// # Errors
    ///
    /// The error of the disk.
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

pub(super) fn name(id: &SessionId) -> String {
    format!("session {id}")
}

pub(super) fn insert(db: &Connection, new: &NewSession) -> Outcome<()> {
    let title = new.title.as_deref().map(clean_title).transpose()?.flatten();
    let inserted = change(
        db,
        "INSERT INTO sessions (id, profile, title, source, owner, settings, parent, lineage, started_ms, active_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
        params![
            new.id.0,
            new.profile,
            title,
            new.source,
            new.owner,
            settings_json(&new.settings)?,
            new.parent.as_ref().map(|parent| &parent.session.0),
            new.parent.as_ref().map(|parent| parent.lineage.as_str()),
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

pub(super) fn exists(db: &Connection, id: &SessionId) -> Outcome<bool> {
    Ok(first(db.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?, [&id.0], |_| Ok(()))?.is_some())
}

/// Applies a change to one existing session.
pub(super) fn change_session(db: &Connection, id: &SessionId, sql: &str, values: impl rusqlite::Params) -> Outcome<()> {
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

pub(super) fn set_settings(db: &Connection, id: &SessionId, settings: &SessionSettings) -> Outcome<()> {
    let settings = settings_json(settings)?;
    change_session(db, id, "UPDATE sessions SET settings = ?2 WHERE id = ?1", params![id.0, settings])
}

/// Returns the settings as JSON, or `None` if there are none.
fn settings_json(settings: &SessionSettings) -> Outcome<Option<String>> {
    if settings.is_empty() { Ok(None) } else { json(settings).map(Some) }
}

pub(super) const COLUMNS: &str = "id, profile, title, source, owner, settings, parent, started_ms, active_ms, ended_ms,
    end_reason, messages, tool_calls, api_calls, input_tokens, output_tokens, summary, lineage, turns, woken";

pub(super) fn read(row: &Row<'_>) -> Outcome<SessionRow> {
    let lineage = row.get_ref(17)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let lineage =
        lineage.map(|word| Lineage::from_word(word).ok_or_else(|| Fault::unreadable(format_args!("lineage {word:?}"))));
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
        settings: read_settings(row)?,
        parent: row.get::<_, Option<String>>(6)?.map(SessionId),
        started_ms: row.get(7)?,
        active_ms: row.get(8)?,
        ended_ms: row.get(9)?,
        end_reason: row.get(10)?,
        messages: count(row, 11)?,
        usage,
        summary: row.get(16)?,
        lineage: lineage.transpose()?,
        turns: count(row, 18)?,
        woken: row.get(19)?,
    })
}

/// Reads the settings of a session. Unreadable settings of a later version must not make the session
/// unreadable.
fn read_settings(row: &Row<'_>) -> Outcome<SessionSettings> {
    let Some(written) = row.get::<_, Option<String>>(5)? else { return Ok(SessionSettings::default()) };
    Ok(serde_json::from_str(&written).unwrap_or_else(|error| {
        tracing::warn!(%error, "unreadable settings of a session, using the configuration");
        SessionSettings::default()
    }))
}

pub(super) fn one(db: &Connection, id: &str) -> Outcome<Option<SessionRow>> {
    first(db.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"))?, [id], read)
}

pub(super) fn bind_route(db: &Connection, route: &RouteRow) -> Outcome<()> {
    if route.instance != TERMINAL {
        // A session with a chat is no longer offered to other chats.
        super::pairing::offer_taken(db, &route.session)?;
    }
    let overrides = (!route.overrides.is_null()).then(|| json(&route.overrides)).transpose()?;
    change(
        db,
        "INSERT INTO routes (key, profile, instance, session_id, origin, created_ms, updated_ms, shared, participates,
             suspended, resume_pending, resume_reason, resume_count, overrides, completes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT DO UPDATE SET session_id = excluded.session_id, origin = excluded.origin,
             updated_ms = excluded.updated_ms, shared = excluded.shared, participates = excluded.participates,
             suspended = excluded.suspended, resume_pending = excluded.resume_pending,
             resume_reason = excluded.resume_reason, resume_count = excluded.resume_count,
             overrides = excluded.overrides, completes = excluded.completes",
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
            route.completes,
        ],
    )?;
    Ok(())
}

/// Ends sessions that end with their only turn, if the host ended between both. A session that was moved to
/// another chat continues there. Called before this run reads any routes.
pub(super) fn complete(db: &Connection, now_ms: i64) -> Outcome<()> {
    let over = "SELECT key, session_id FROM routes WHERE completes = 1
             AND (SELECT count(*) FROM routes AS one WHERE one.session_id = routes.session_id) = 1
             AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session_id = routes.session_id
                 AND turns.state IN ('queued', 'running'))";
    let over = collect(db.prepare_cached(over)?, [], |row| Ok((row.get::<_, String>(0)?, SessionId(row.get(1)?))))?;
    for (key, session) in over {
        // The order matters: the next run can complete it after a crash.
        end(db, &session, "complete", now_ms)?;
        unbind_route(db, &key)?;
    }
    Ok(())
}

pub(super) fn unbind_route(db: &Connection, key: &str) -> Outcome<bool> {
    Ok(change(db, "DELETE FROM routes WHERE key = ?1", [key])? > 0)
}

pub(super) fn routes(db: &Connection) -> Outcome<Vec<RouteRow>> {
    let statement = db.prepare_cached(
        "SELECT key, routes.profile, instance, session_id, origin, created_ms,
             max(updated_ms, COALESCE(sessions.active_ms, 0)), shared, participates, suspended, resume_pending,
             resume_reason, resume_count, overrides, sessions.end_reason, completes
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
            ended: row.get(14)?,
            completes: row.get(15)?,
        })
    })
}

//! Subscriptions of sessions to background commands and tasks, and the events that wake the sessions.
//!
//! ```text
//! followed   running{epoch}        before anything is promised
//! notified   running → running     with its event in the inbox, and the reported progress
//! last one   running → told        likewise
//! forgotten  running → known       the session knows of the end in another way
//! recovered  running{dead} → running{epoch}; an activity that is not recovered is reported as lost
//! ```

use std::collections::BTreeSet;

use hermes_core::ids::{Epoch, InboxId, SessionId};
use hermes_protocol::{Chat, Event, Sender};
use rusqlite::{Connection, Row, params};

use super::error::Fault;
use super::recovery::BATCH_ROWS_MAX;
use super::sql::{change, change_one, collect, first, json, parsed, parsed_or_none};
use super::writer::Outcome;
use super::{InboxRow, NewWake, NewWatch, Result, Store, WatchRow, WatchTold, inbox, turns};

/// Ended rows that one sweep removes.
const SWEPT_ROWS_MAX: u32 = 1_000;

impl Store {
    /// Stores an event that wakes a session. Returns `None` if it was stored before.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn wake(&self, wake: NewWake) -> Result<Option<InboxId>> {
        self.write(move |db| inbox::woken(db, &wake)).await
    }

    /// Returns waking events without a turn, in id order: at most [`BATCH_ROWS_MAX`] after `after`.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn waiting_wakes(&self, after: InboxId) -> Result<Vec<InboxRow>> {
        self.read(move |db| inbox::wakes(db, after, BATCH_ROWS_MAX)).await
    }

    /// Stores the subscription of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`](super::StoreError::Missing) if the chat of the request is unknown.
    pub async fn follow(&self, watch: NewWatch) -> Result<()> {
        let now_ms = self.now_ms();
        self.write(move |db| follow(db, &watch, now_ms)).await
    }

    /// Returns a subscription, or `None` if it does not exist or has ended.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn watch(&self, id: &str) -> Result<Option<WatchRow>> {
        let id = id.to_owned();
        self.read(move |db| one(db, &id)).await
    }

    /// Stores a notification: the state of the subscription and the event that wakes its session, atomically.
    /// Returns `None` if it was stored before.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn tell(&self, told: WatchTold) -> Result<Option<InboxId>> {
        let now_ms = self.now_ms();
        self.write(move |db| tell(db, &told, now_ms)).await
    }

    /// Ends a subscription whose session already knows of the end.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn forget_watch(&self, id: &str) -> Result<()> {
        let (id, now_ms) = (id.to_owned(), self.now_ms());
        self.write(move |db| {
            let sql = "UPDATE watches SET state = 'known', ended_ms = ?2 WHERE id = ?1 AND state = 'running'";
            change(db, sql, params![id, now_ms]).map(drop)
        })
        .await
    }

    /// (i) Takes over the subscriptions of earlier epochs to the activities in `known`. Returns the others,
    /// whose outcome is unknown.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn take_up_watches(&self, epoch: Epoch, known: BTreeSet<String>) -> Result<Vec<WatchRow>> {
        self.write(move |db| {
            for id in &known {
                let sql = "UPDATE watches SET epoch = ?2 WHERE id = ?1 AND state = 'running'";
                change(db, sql, params![id, epoch.0])?;
            }
            let lost = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM watches INDEXED BY watches_running
                 WHERE state = 'running' AND epoch <> ?1 ORDER BY id"
            ))?;
            collect(lost, [epoch.0], read)
        })
        .await
    }
}

const COLUMNS: &str = "id, session_id, instance, chat, sender, what, told, seen_upto";

fn read(row: &Row<'_>) -> Outcome<WatchRow> {
    Ok(WatchRow {
        id: row.get(0)?,
        session: SessionId(row.get(1)?),
        instance: row.get(2)?,
        chat: parsed(row, 3)?,
        sender: parsed_or_none(row, 4)?,
        what: row.get(5)?,
        told: row.get(6)?,
        upto: u64::try_from(row.get::<_, i64>(7)?).unwrap_or_default(),
    })
}

fn one(db: &Connection, id: &str) -> Outcome<Option<WatchRow>> {
    let sql = format!("SELECT {COLUMNS} FROM watches WHERE id = ?1 AND state = 'running'");
    first(db.prepare_cached(&sql)?, [id], read)
}

fn follow(db: &Connection, watch: &NewWatch, now_ms: i64) -> Outcome<()> {
    let asked = match asked_in(db, watch)? {
        Some(asked) => Some(asked),
        None => led_to(db, watch)?,
    };
    let (chat, sender) = asked.ok_or_else(|| Fault::missing(format_args!("chat of session {}", watch.session)))?;
    let sender = sender.as_ref().map(json).transpose()?;
    change_one(
        db,
        "INSERT INTO watches (id, session_id, instance, chat, sender, what, state, epoch, created_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?8)",
        params![watch.id, watch.session.0, watch.instance, json(&chat)?, sender, watch.what, watch.epoch.0, now_ms],
        || format!("watch {}", watch.id),
    )
}

/// Returns the chat of the running turn and its requester.
fn asked_in(db: &Connection, watch: &NewWatch) -> Outcome<Option<(Chat, Option<Sender>)>> {
    let running = db.prepare_cached(
        "SELECT inbox FROM turns INDEXED BY turns_running WHERE session_id = ?1 AND state = 'running'",
    )?;
    let events = first(running, [&watch.session.0], |row| turns::split(super::sql::text(row, 0)?))?;
    let Some(last) = events.and_then(|events| events.last().copied()) else { return Ok(None) };
    let Some(row) = inbox::one(db, last)?.filter(|row| row.instance == watch.instance) else { return Ok(None) };
    let event: Option<Event> = serde_json::from_str(&row.event).ok();
    // An event of the host itself may have been redirected since.
    let event = event.filter(|event| event.chat.id == watch.chat_id);
    Ok(event.map(|event| (event.chat, Some(event.sender))))
}

/// Returns a chat that is bound to the session, preferably the one in the request.
fn led_to(db: &Connection, watch: &NewWatch) -> Outcome<Option<(Chat, Option<Sender>)>> {
    let routes = db.prepare_cached("SELECT instance, origin FROM routes WHERE session_id = ?1 ORDER BY key")?;
    let routes = collect(routes, [&watch.session.0], |row| Ok((row.get::<_, String>(0)?, parsed::<Chat>(row, 1)?)))?;
    let here = routes.into_iter().filter(|(instance, _)| *instance == watch.instance).map(|(_, chat)| chat);
    let mut here: Vec<Chat> = here.collect();
    here.sort_by_key(|chat| chat.id != watch.chat_id);
    Ok(here.into_iter().next().map(|chat| (chat, watch.sender.clone())))
}

fn tell(db: &Connection, told: &WatchTold, now_ms: i64) -> Outcome<Option<InboxId>> {
    let upto = i64::try_from(told.upto).unwrap_or(i64::MAX);
    let changed = change(
        db,
        "UPDATE watches SET told = told + 1, seen_upto = ?3, state = iif(?4, 'told', 'running'),
             ended_ms = iif(?4, ?5, NULL)
         WHERE id = ?1 AND told = ?2 AND state = 'running'",
        params![told.id, told.before, upto, told.last, now_ms],
    )?;
    if changed == 0 { Ok(None) } else { inbox::woken(db, &told.wake) }
}

/// Removes subscriptions that ended long ago.
pub(super) fn sweep(db: &Connection, before_ms: i64) -> Outcome<usize> {
    let sql = "DELETE FROM watches WHERE id IN
             (SELECT id FROM watches WHERE state <> 'running' AND ended_ms < ?1 LIMIT ?2)";
    change(db, sql, params![before_ms, SWEPT_ROWS_MAX])
}

//! Messages of groups that were not addressed to the agent, kept as context for the next turn there.
//!
//! One row per chat holds the newest messages, bounded in number and bytes. A turn reads them when it starts,
//! and its end removes them in the transaction that stores the transcript; an interrupted turn reads them
//! again. `/new` removes them and refuses earlier messages that arrive later.

use hermes_protocol::Chat;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::sql::{change, first, json, text};
use super::writer::Outcome;
use super::{Observed, ObservedUpTo, Result, Store, kv};

/// Highest number of messages per chat.
pub const LINES_MAX: usize = 50;
/// Highest number of bytes of the messages per chat, including names.
pub const BYTES_MAX: usize = 16 * 1024;
/// Highest number of chats per instance.
const CHATS_MAX: u32 = 1_000;

/// The stored value of one chat.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// Id of the newest event that a turn has read or `/new` has removed; earlier events are refused.
    after: i64,
    /// Time of the last change, in Unix milliseconds.
    at_ms: i64,
    lines: Vec<Observed>,
}

impl Store {
    /// Returns the messages for the next turn of a chat, oldest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn observed(&self, instance: &str, chat: &Chat) -> Result<Vec<Observed>> {
        let (scope, key) = (scope(instance), key(chat));
        self.read(move |db| Ok(read(db, &scope, &key)?.unwrap_or_default().lines)).await
    }
}

/// Stores a message once. Beyond the limits the oldest messages of the chat are removed.
pub(super) fn keep(db: &Connection, instance: &str, chat: &Chat, line: &Observed) -> Outcome<()> {
    let (scope, key) = (scope(instance), key(chat));
    let found = read(db, &scope, &key)?;
    if found.is_none() && chats(db, &scope)? >= CHATS_MAX {
        return Ok(());
    }
    let mut kept = found.unwrap_or_default();
    if line.inbox <= kept.after || kept.lines.iter().any(|other| other.inbox == line.inbox) {
        return Ok(());
    }
    kept.lines.push(line.clone());
    let bytes = |lines: &[Observed]| lines.iter().map(|line| line.name.len() + line.text.len()).sum::<usize>();
    while kept.lines.len() > LINES_MAX || bytes(&kept.lines) > BYTES_MAX {
        kept.lines.remove(0);
    }
    kept.at_ms = kept.at_ms.max(line.at_ms);
    kv::set(db, &scope, &key, &json(&kept)?)
}

/// Removes the messages of a chat up to an event, and refuses earlier ones that arrive later.
pub(super) fn forget(db: &Connection, upto: &ObservedUpTo) -> Outcome<()> {
    let (scope, key) = (scope(&upto.instance), key(&upto.chat));
    let found = read(db, &scope, &key)?;
    if found.is_none() && chats(db, &scope)? >= CHATS_MAX {
        return Ok(());
    }
    let mut kept = found.unwrap_or_default();
    kept.after = kept.after.max(upto.inbox.0);
    kept.at_ms = kept.at_ms.max(upto.now_ms);
    let after = kept.after;
    kept.lines.retain(|line| line.inbox > after);
    kv::set(db, &scope, &key, &json(&kept)?)
}

/// Removes the rows of chats without a change since `before_ms`.
pub(super) fn sweep(db: &Connection, before_ms: i64) -> Outcome<()> {
    let sql = "DELETE FROM kv WHERE scope >= 'observed:' AND scope < 'observed;'
               AND CASE WHEN json_valid(value) THEN coalesce(value ->> '$.at_ms', 0) ELSE 0 END < ?1";
    change(db, sql, [before_ms]).map(drop)
}

/// Returns the scope of an instance's chats. No instance has a name with a colon.
fn scope(instance: &str) -> String {
    format!("observed:{instance}")
}

fn key(chat: &Chat) -> String {
    serde_json::json!([chat.kind, chat.id, chat.thread]).to_string()
}

fn chats(db: &Connection, scope: &str) -> Outcome<u32> {
    let count = db.prepare_cached("SELECT count(*) FROM kv WHERE scope = ?1")?;
    Ok(first(count, [scope], |row| Ok(row.get(0)?))?.unwrap_or_default())
}

/// Reads the row of a chat. An unreadable row counts as empty, because only context is lost.
fn read(db: &Connection, scope: &str, key: &str) -> Outcome<Option<Kept>> {
    let sql = db.prepare_cached("SELECT value FROM kv WHERE scope = ?1 AND key = ?2")?;
    let value = first(sql, params![scope, key], |row| Ok(text(row, 0)?.to_owned()))?;
    Ok(value.map(|value| serde_json::from_str(&value).unwrap_or_default()))
}

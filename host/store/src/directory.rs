//! The directory of known chats, in which people can refer to chats by name. Filled from incoming events and
//! from the lists of adapters; bounded, with the least recently seen chats removed first.

use hermes_protocol::Chat;
use rusqlite::{Connection, params};

use super::sql::{change, collect, json, parsed};
use super::writer::Outcome;
use super::{KnownChat, Result, Store};

/// Chats kept per instance.
pub const CHATS_PER_INSTANCE_MAX: u32 = 5_000;

impl Store {
    /// Returns the known chats of an instance, the most recently seen first.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn known_chats(&self, instance: &str) -> Result<Vec<KnownChat>> {
        let instance = instance.to_owned();
        self.read(move |db| {
            let statement = db.prepare_cached(
                "SELECT name, chat, seen_ms FROM chat_directory WHERE instance = ?1 ORDER BY seen_ms DESC, chat_id LIMIT ?2",
            )?;
            collect(statement, params![instance, CHATS_PER_INSTANCE_MAX], |row| {
                Ok(KnownChat { name: row.get(0)?, chat: parsed(row, 1)?, seen_ms: row.get(2)? })
            })
        })
        .await
    }
}

/// Stores a chat with its name. Missing details do not overwrite known ones.
pub(super) fn saw(db: &Connection, instance: &str, chat: &Chat, seen_ms: i64) -> Outcome<()> {
    change(
        db,
        "INSERT INTO chat_directory (instance, chat_type, chat_id, thread, name, chat, seen_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET seen_ms = max(seen_ms, excluded.seen_ms),
             name = CASE excluded.name WHEN '' THEN name ELSE excluded.name END,
             chat = CASE excluded.name WHEN '' THEN chat ELSE excluded.chat END",
        params![
            instance,
            chat.kind.as_str(),
            chat.id,
            chat.thread.as_deref().unwrap_or_default(),
            name_of(chat),
            json(chat)?,
            seen_ms
        ],
    )?;
    Ok(())
}

/// Replaces a chat by its new id and keeps its details.
pub(super) fn moved(db: &Connection, instance: &str, from: &Chat, to: &Chat) -> Outcome<()> {
    let statement = db.prepare_cached(
        "SELECT chat, seen_ms FROM chat_directory WHERE instance = ?1 AND chat_type = ?2 AND chat_id = ?3",
    )?;
    let known = collect(statement, params![instance, from.kind.as_str(), from.id], |row| {
        Ok((parsed::<Chat>(row, 0)?, row.get::<_, i64>(1)?))
    })?;
    for (mut chat, seen_ms) in known {
        chat.id.clone_from(&to.id);
        chat.kind = to.kind.clone();
        saw(db, instance, &chat, seen_ms)?;
    }
    change(
        db,
        "DELETE FROM chat_directory WHERE instance = ?1 AND chat_type = ?2 AND chat_id = ?3",
        params![instance, from.kind.as_str(), from.id],
    )?;
    Ok(())
}

/// Removes the least recently seen chats beyond the limit and returns their number.
pub(super) fn trim(db: &Connection) -> Outcome<usize> {
    let full = db.prepare_cached("SELECT instance FROM chat_directory GROUP BY instance HAVING count(*) > ?1")?;
    let full: Vec<String> = collect(full, [CHATS_PER_INSTANCE_MAX], |row| Ok(row.get(0)?))?;
    let mut removed = 0;
    for instance in full {
        removed += change(
            db,
            "DELETE FROM chat_directory WHERE (instance, chat_type, chat_id, thread) IN (
                 SELECT instance, chat_type, chat_id, thread FROM chat_directory WHERE instance = ?1
                 ORDER BY seen_ms DESC, chat_id LIMIT -1 OFFSET ?2)",
            params![instance, CHATS_PER_INSTANCE_MAX],
        )?;
    }
    Ok(removed)
}

/// Returns the display name of a chat. A thread is named after itself, or else after its chat and its id.
fn name_of(chat: &Chat) -> String {
    let name = chat.name.as_deref().unwrap_or_default();
    match (&chat.thread, chat.thread_name.as_deref()) {
        (None, _) => name.to_owned(),
        (Some(_), Some(thread)) if name.is_empty() => thread.to_owned(),
        (Some(_), Some(thread)) => format!("{name} / {thread}"),
        (Some(_), None) if name.is_empty() => String::new(),
        (Some(thread), None) => format!("{name} / {thread}"),
    }
}

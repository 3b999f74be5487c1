//! Deletion of a conversation: its transcript, the texts sent and received for it, and its files.
//!
//! Ids, keys and states of events and deliveries stay until the end of their retention, so that nothing is
//! accepted or sent twice. Earlier sessions of the conversation, left behind by compressions, are deleted with
//! it, unless another session branched from them. Files named by a branch are kept.

use std::collections::BTreeSet;

use hermes_core::ids::{DeliveryId, SessionId};
use hermes_protocol::OutMedia;
use rusqlite::Connection;

use super::error::Fault;
use super::sql::{change, change_one, collect, first, parsed_list};
use super::writer::Outcome;
use super::{MediaFile, Result, Store, handoff, inbox, outbox, search, sessions};

/// Reason for abandoning the deliveries of a deleted conversation.
const DELETED: &str = "the conversation was deleted";

impl Store {
    /// Deletes a conversation and returns its files, which the caller removes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`](super::StoreError::Missing) if the session does not exist,
    /// [`StoreError::Conflict`](super::StoreError::Conflict) while one of its turns runs or a handoff is in
    /// progress.
    pub async fn session_delete(&self, id: &SessionId) -> Result<Vec<MediaFile>> {
        let (id, now_ms) = (id.clone(), self.now_ms());
        self.write(move |db| delete(db, &id, now_ms)).await
    }
}

fn delete(db: &Connection, id: &SessionId, now_ms: i64) -> Outcome<Vec<MediaFile>> {
    if !sessions::exists(db, id)? {
        return Err(Fault::missing(sessions::name(id)));
    }
    let mut files = BTreeSet::new();
    let mut next = Some(id.clone());
    while let Some(id) = next {
        if handoff::has_turn(db, &id)? || handoff::is_leased(db, &id, &[])? {
            return Err(Fault::conflict(sessions::name(&id)));
        }
        next = compressed_from(db, &id)?;
        let branched = named_by_relatives(db, &id)?;
        let own = files_and_texts(db, &id, now_ms)?;
        files.extend(own.into_iter().filter(|file| !branched.contains(&file.id)));
        search::forget_session(db, &id)?;
        inbox::forget_edits(db, &id)?;
        for table in ["messages", "routes", "agent_state", "attachments", "handoff_offers"] {
            change(db, &format!("DELETE FROM {table} WHERE session_id = ?1"), [&id.0])?;
        }
        change_one(db, "DELETE FROM sessions WHERE id = ?1", [&id.0], || sessions::name(&id))?;
    }
    Ok(files.into_iter().collect())
}

/// Returns the session that was compressed into this one, unless another session continues from it.
fn compressed_from(db: &Connection, id: &SessionId) -> Outcome<Option<SessionId>> {
    let parent = db.prepare_cached(
        "SELECT parent FROM sessions AS own WHERE id = ?1 AND lineage = 'compression'
             AND EXISTS (SELECT 1 FROM sessions WHERE id = own.parent)
             AND NOT EXISTS (SELECT 1 FROM sessions WHERE parent = own.parent AND id <> ?1)
             AND NOT EXISTS (SELECT 1 FROM routes WHERE session_id = own.parent)",
    )?;
    first(parent, [&id.0], |row| Ok(SessionId(row.get(0)?)))
}

/// Returns the files named by the transcripts of the session's ancestors and branches, because a branch copies
/// messages.
fn named_by_relatives(db: &Connection, id: &SessionId) -> Outcome<BTreeSet<String>> {
    let named = db.prepare_cached(
        "WITH RECURSIVE
             up (id) AS (
                 SELECT ?1 UNION SELECT parent FROM sessions JOIN up ON sessions.id = up.id WHERE parent IS NOT NULL
             ),
             family (id) AS (
                 SELECT id FROM up UNION SELECT sessions.id FROM sessions JOIN family ON sessions.parent = family.id
             )
         SELECT DISTINCT json_extract(file.value, '$.media') FROM messages, json_each(messages.attachments) AS file
         WHERE messages.session_id IN (SELECT id FROM family WHERE id <> ?1) AND messages.attachments IS NOT NULL",
    )?;
    let named = collect(named, [&id.0], |row| Ok(row.get::<_, Option<String>>(0)?))?;
    Ok(named.into_iter().flatten().collect())
}

/// Removes the texts of a session's deliveries and tool calls; the texts of its events were removed when they
/// were answered. Returns the files that the session names.
fn files_and_texts(db: &Connection, id: &SessionId, now_ms: i64) -> Outcome<BTreeSet<MediaFile>> {
    let mut files = received(db, id)?;
    let ended = db.prepare_cached("SELECT id FROM turns WHERE session_id = ?1")?;
    for turn in collect(ended, [&id.0], |row| Ok(row.get::<_, i64>(0)?))? {
        change(db, "DELETE FROM tool_calls WHERE turn_id = ?1", [turn])?;
        change(db, "UPDATE turns SET error = NULL WHERE id = ?1", [turn])?;
    }
    let sent = db.prepare_cached(
        "SELECT id, instance, state IN ('drafting', 'owed') FROM outbox
         WHERE session_id = ?1 OR turn_id IN (SELECT id FROM turns WHERE session_id = ?1)",
    )?;
    let sent: Vec<(DeliveryId, String, bool)> =
        collect(sent, [&id.0], |row| Ok((DeliveryId(row.get(0)?), row.get(1)?, row.get(2)?)))?;
    for (delivery, instance, is_live) in sent {
        let lent = lent(db, delivery)?.into_iter();
        files.extend(lent.map(|id| MediaFile { instance: instance.clone(), incoming: false, id }));
        if is_live {
            outbox::abandon(db, delivery, DELETED, now_ms)?;
        }
        forget_delivery(db, delivery)?;
    }
    Ok(files)
}

fn lent(db: &Connection, delivery: DeliveryId) -> Outcome<Vec<String>> {
    let media = db.prepare_cached("SELECT media FROM outbox_parts WHERE delivery = ?1 AND media IS NOT NULL")?;
    let media: Vec<Vec<OutMedia>> = collect(media, [delivery.0], |row| parsed_list(row, 0))?;
    Ok(media.into_iter().flatten().map(|file| file.id).collect())
}

fn forget_delivery(db: &Connection, delivery: DeliveryId) -> Outcome<()> {
    let sql = "UPDATE outbox_parts SET text = '', source = NULL, media = NULL WHERE delivery = ?1";
    change(db, sql, [delivery.0])?;
    let sql = "UPDATE outbox SET markdown = '', choices = NULL, asking = 0, dismissed = 1 WHERE id = ?1";
    change(db, sql, [delivery.0]).map(drop)
}

/// Returns the files named by the transcript, in the folder of every instance on which the session was
/// answered. An id is random and exists in only one of them.
fn received(db: &Connection, id: &SessionId) -> Outcome<BTreeSet<MediaFile>> {
    let named = db.prepare_cached(
        "SELECT DISTINCT json_extract(file.value, '$.media') FROM messages, json_each(messages.attachments) AS file
         WHERE messages.session_id = ?1 AND messages.attachments IS NOT NULL",
    )?;
    let named = collect(named, [&id.0], |row| Ok(row.get::<_, Option<String>>(0)?))?;
    if named.is_empty() {
        return Ok(BTreeSet::new());
    }
    let instances = db.prepare_cached(
        "SELECT source FROM sessions WHERE id = ?1
         UNION SELECT inbox.instance FROM turns
         JOIN inbox ON inbox.id IN (SELECT value FROM json_each('[' || turns.inbox || ']'))
         WHERE turns.session_id = ?1",
    )?;
    let instances: Vec<String> = collect(instances, [&id.0], |row| Ok(row.get(0)?))?;
    let file = |id: &String| {
        let of = |instance: &String| MediaFile { instance: instance.clone(), incoming: true, id: id.clone() };
        instances.iter().map(of).collect::<Vec<_>>()
    };
    Ok(named.iter().flatten().flat_map(file).collect())
}

//! Access grants, pairing requests, wrong codes, and conversations offered by a code.

use hermes_core::delivery::PartState;
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::limits::GUESSERS_MAX;
use hermes_core::pairing::{CodePurpose, code_ms};
use hermes_protocol::{Event, EventKind};
use rusqlite::{Connection, params};

use super::sql::{change, collect, json, parsed, parsed_or_none};
use super::writer::Outcome;
use super::{
    GrantRow, LockoutRow, NewcomerRow, OfferedRow, OwedDelivery, OwedPart, PairingRequestRow, Result, Store, Welcome,
    inbox, outbox,
};

/// The longest message that a pairing request keeps, in bytes of its JSON.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The parts of a dropped event that a pairing request keeps.
pub(super) struct Kept {
    chat: String,
    event_id: String,
    event: Option<String>,
}

pub(super) fn grant(db: &Connection, grant: &GrantRow) -> Outcome<()> {
    change(
        db,
        "INSERT INTO grants (instance, user, name, granted_by, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET name = excluded.name, granted_by = excluded.granted_by, at_ms = excluded.at_ms",
        params![grant.instance, grant.user, grant.name, grant.granted_by, grant.at_ms],
    )?;
    Ok(())
}

pub(super) fn revoke(db: &Connection, instance: &str, user: &str) -> Outcome<()> {
    change(db, "DELETE FROM grants WHERE instance = ?1 AND user = ?2", [instance, user])?;
    Ok(())
}

pub(super) fn grants(db: &Connection) -> Outcome<Vec<GrantRow>> {
    let statement = db.prepare_cached("SELECT instance, user, name, granted_by, at_ms FROM grants")?;
    collect(statement, [], |row| {
        Ok(GrantRow {
            instance: row.get(0)?,
            user: row.get(1)?,
            name: row.get(2)?,
            granted_by: row.get(3)?,
            at_ms: row.get(4)?,
        })
    })
}

/// Stores a pairing request. An older request of the same user with another code is removed.
pub(super) fn write_request(db: &Connection, request: &PairingRequestRow) -> Outcome<()> {
    let PairingRequestRow { instance, user, name, salt, hash, made_ms, reminders } = request;
    if !user.is_empty() {
        change(
            db,
            "DELETE FROM pairing_requests WHERE instance = ?1 AND user = ?2 AND hash <> ?3",
            [instance, user, hash],
        )?;
    }
    change(
        db,
        "INSERT INTO pairing_requests (instance, user, name, salt, hash, made_ms, reminders)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET reminders = excluded.reminders",
        params![instance, user, name, salt, hash, made_ms, reminders],
    )?;
    Ok(())
}

/// Reads the parts of an event that outlive its drop; `None` if it cannot be read.
pub(super) fn kept(db: &Connection, inbox: InboxId) -> Outcome<Option<Kept>> {
    let Some(row) = inbox::one(db, inbox)? else { return Ok(None) };
    let Ok(mut event) = serde_json::from_str::<Event>(&row.event) else { return Ok(None) };
    event.raw = serde_json::Value::Null;
    let says_something = !event.text.trim().is_empty() || !event.attachments.is_empty();
    let is_message = event.kind == EventKind::Message && says_something;
    let chat = json(&event.chat)?;
    let event = json(&event)?;
    Ok(Some(Kept {
        chat,
        event_id: row.event_id,
        event: (is_message && event.len() <= KEPT_BYTES_MAX).then_some(event),
    }))
}

/// Keeps the message for which a code was given; a later message does not replace it.
pub(super) fn keep(db: &Connection, request: &PairingRequestRow, kept: Option<Kept>) -> Outcome<()> {
    let Some(Kept { chat, event_id, event }) = kept else { return Ok(()) };
    change(
        db,
        "UPDATE pairing_requests SET chat = ?3, event_id = ?4, event = ?5
         WHERE instance = ?1 AND hash = ?2 AND chat IS NULL",
        params![request.instance, request.hash, chat, event_id, event],
    )?;
    Ok(())
}

/// Closes a request whose code worked, and removes the wrong codes of the person who entered it. The row stays until
/// its sender is notified; an invitation has nobody to notify.
pub(super) fn done(db: &Connection, request: &PairingRequestRow, counted_as: &str, now_ms: i64) -> Outcome<()> {
    let PairingRequestRow { instance, hash, .. } = request;
    change(db, "DELETE FROM pairing_requests WHERE instance = ?1 AND hash = ?2 AND chat IS NULL", [instance, hash])?;
    change(
        db,
        "UPDATE pairing_requests SET approved_ms = ?3 WHERE instance = ?1 AND hash = ?2",
        params![instance, hash, now_ms],
    )?;
    change(db, "DELETE FROM pairing_lockouts WHERE instance = ?1", [counted_as])?;
    Ok(())
}

impl Store {
    /// Returns the senders whose pairing codes worked and who are still to be notified.
    ///
    /// # Errors
    ///
    /// Fails if the disk fails.
    pub async fn newcomers(&self) -> Result<Vec<NewcomerRow>> {
        self.read(newcomers).await
    }

    /// Ends a pairing, once: the request goes, its sender is notified and their first message waits in the inbox.
    /// Returns `None` if it ended before.
    ///
    /// # Errors
    ///
    /// Fails if the commit fails.
    pub async fn welcome(&self, welcome: Welcome) -> Result<Option<(Option<DeliveryId>, Option<InboxId>)>> {
        let nonce = self.nonce();
        self.write(move |db| {
            let Welcome { instance, hash, notice, first } = &welcome;
            let over = "DELETE FROM pairing_requests WHERE instance = ?1 AND hash = ?2 AND approved_ms IS NOT NULL";
            if change(db, over, [instance, hash])? == 0 {
                return Ok(None);
            }
            let notice = notice.as_ref().map(|notice| outbox::insert(db, &nonce, notice, None)).transpose()?;
            let first = first.as_ref().map_or(Ok(None), |first| inbox::accept_again(db, first))?;
            Ok(Some((notice, first)))
        })
        .await
    }
}

fn newcomers(db: &Connection) -> Outcome<Vec<NewcomerRow>> {
    let statement = db.prepare_cached(
        "SELECT asked.instance, hash, chat, event_id, event, reminders > 0, granted_by
         FROM pairing_requests AS asked LEFT JOIN grants ON grants.instance = asked.instance AND grants.user = asked.user
         WHERE approved_ms IS NOT NULL AND chat IS NOT NULL ORDER BY approved_ms",
    )?;
    collect(statement, [], |row| {
        let key: Option<String> = row.get(3)?;
        Ok(NewcomerRow {
            instance: row.get(0)?,
            hash: row.get(1)?,
            chat: parsed(row, 2)?,
            first: key.zip(parsed_or_none(row, 4)?),
            wrote_again: row.get(5)?,
            granted_by: row.get(6)?,
        })
    })
}

/// Removes a request after its code could not be sent.
pub(super) fn take_back(db: &Connection, hash: &str) -> Outcome<()> {
    change(db, "DELETE FROM pairing_requests WHERE hash = ?1 AND approved_ms IS NULL", [hash])?;
    Ok(())
}

/// Removes all requests and wrong codes of one instance or of all.
pub(super) fn clear(db: &Connection, instance: Option<&str>) -> Outcome<()> {
    change(db, "DELETE FROM pairing_requests WHERE (?1 IS NULL OR instance = ?1) AND approved_ms IS NULL", [instance])?;
    change(
        db,
        "DELETE FROM pairing_lockouts WHERE ?1 IS NULL OR instance = ?1
             OR substr(instance, 1, length(?1) + 1) = ?1 || '/'",
        [instance],
    )?;
    Ok(())
}

pub(super) fn requests(db: &Connection) -> Outcome<Vec<PairingRequestRow>> {
    let statement = db.prepare_cached(
        "SELECT instance, user, name, salt, hash, made_ms, reminders FROM pairing_requests
         WHERE approved_ms IS NULL ORDER BY made_ms",
    )?;
    collect(statement, [], |row| {
        Ok(PairingRequestRow {
            instance: row.get(0)?,
            user: row.get(1)?,
            name: row.get(2)?,
            salt: row.get(3)?,
            hash: row.get(4)?,
            made_ms: row.get(5)?,
            reminders: row.get(6)?,
        })
    })
}

pub(super) fn lockout(db: &Connection, lockout: &LockoutRow) -> Outcome<()> {
    change(
        db,
        "INSERT INTO pairing_lockouts (instance, wrong, until_ms) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET wrong = excluded.wrong, until_ms = excluded.until_ms",
        params![lockout.instance, lockout.wrong, lockout.until_ms],
    )?;
    let Some(kind) = CodePurpose::of(&lockout.instance) else { return Ok(()) };
    change(
        db,
        "DELETE FROM pairing_lockouts WHERE instance IN (SELECT instance FROM pairing_lockouts
             WHERE substr(instance, instr(instance, '/'), length(?2)) = ?2 ORDER BY until_ms DESC LIMIT -1 OFFSET ?1)",
        params![i64::try_from(GUESSERS_MAX).unwrap_or(i64::MAX), kind.word()],
    )?;
    Ok(())
}

pub(super) fn lockouts(db: &Connection) -> Outcome<Vec<LockoutRow>> {
    let statement = db.prepare_cached("SELECT instance, wrong, until_ms FROM pairing_lockouts")?;
    collect(statement, [], |row| Ok(LockoutRow { instance: row.get(0)?, wrong: row.get(1)?, until_ms: row.get(2)? }))
}

/// Stores an offered session and removes expired offers.
pub(super) fn put_up(db: &Connection, offer: &OfferedRow) -> Outcome<()> {
    let OfferedRow { session, salt, hash, made_ms } = offer;
    change(db, "DELETE FROM handoff_offers WHERE made_ms <= ?1", [made_ms.saturating_sub(code_ms())])?;
    change(
        db,
        "INSERT INTO handoff_offers (session_id, salt, hash, made_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET salt = excluded.salt, hash = excluded.hash, made_ms = excluded.made_ms",
        params![session.0, salt, hash, made_ms],
    )?;
    Ok(())
}

pub(super) fn offer_taken(db: &Connection, session: &SessionId) -> Outcome<()> {
    change(db, "DELETE FROM handoff_offers WHERE session_id = ?1", [&session.0])?;
    Ok(())
}

pub(super) fn offers(db: &Connection) -> Outcome<Vec<OfferedRow>> {
    let statement = db.prepare_cached("SELECT session_id, salt, hash, made_ms FROM handoff_offers ORDER BY made_ms")?;
    collect(statement, [], |row| {
        Ok(OfferedRow { session: SessionId(row.get(0)?), salt: row.get(1)?, hash: row.get(2)?, made_ms: row.get(3)? })
    })
}

/// Removes expired requests and returns their number.
pub(super) fn expire(db: &Connection, made_before_ms: i64) -> Outcome<usize> {
    change(db, "DELETE FROM pairing_requests WHERE made_ms < ?1 AND approved_ms IS NULL", [made_before_ms])
}

impl OwedDelivery {
    /// Returns the hash of the pairing request whose code was certainly not sent, if this delivery is abandoned
    /// now.
    pub fn untold(&self) -> Option<&str> {
        let told = |part: &OwedPart| {
            let sent = matches!(
                part.state,
                PartState::Delivered { .. } | PartState::InFlight { .. } | PartState::Unknown { .. }
            );
            sent || part.facts.doubts > 0
        };
        self.code.as_deref().filter(|_| self.state.is_live() && !self.parts.iter().any(told))
    }
}

/// Removes the pairing request of an abandoned delivery whose code was certainly not sent. Equivalent to
/// [`super::OwedDelivery::untold`] for a loaded row.
pub(super) fn forget_untold_by(db: &Connection, delivery: i64) -> Outcome<usize> {
    change(
        db,
        "DELETE FROM pairing_requests WHERE approved_ms IS NULL AND hash = (
             SELECT code FROM outbox WHERE id = ?1 AND state IN ('drafting', 'owed') AND NOT EXISTS (
                 SELECT 1 FROM outbox_parts WHERE delivery = outbox.id
                     AND (state IN ('delivered', 'in_flight', 'unknown') OR facts ->> 'doubts' > 0)))",
        [delivery],
    )
}

/// Removes pairing requests whose codes were not sent before an earlier run of the host ended.
pub(super) fn forget_untold(db: &Connection) -> Outcome<usize> {
    change(
        db,
        "DELETE FROM pairing_requests WHERE approved_ms IS NULL AND hash IN (
             SELECT code FROM outbox INDEXED BY outbox_live
             WHERE state IN ('drafting', 'owed') AND code IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM outbox_parts WHERE delivery = outbox.id
                     AND (state = 'delivered' OR state = 'in_flight' OR state = 'unknown')))",
        [],
    )
}

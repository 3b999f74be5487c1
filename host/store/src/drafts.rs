//! Growing messages of running turns: transaction (h).
//!
//! A growing message is a delivery in the state `drafting` with one part, number 0: its first piece. The part
//! is committed before it is sent and has the states of any part; the id in its receipt becomes
//! `draft_message`. Intermediate states of the text are not stored.
//!
//! ```text
//! drafting → owed      final text: parts from 1 on, the first one settled by an edit
//! drafting → settled   the message gets no further text
//! ```
//!
//! A delivery is `drafting` only while its turn runs or waits to be resumed. The end of a turn and the recovery
//! ensure this in their own transactions.

use hermes_core::delivery::PartState;
use hermes_core::ids::{DeliveryId, TurnId};
use hermes_protocol::Purpose;
use rusqlite::{Connection, params};

use super::error::StoreError;
use super::sql::{change, change_one, collect, json};
use super::writer::Outcome;
use super::{DeliveryState, NewDelivery, NewPart, OwedDelivery, PartFacts, Result, Settled, Store, outbox};

/// Mark below a text whose turn was interrupted.
const INTERRUPTED: &str = "(interrupted)";

impl Store {
    /// (h) Stores a growing message with its first piece, which may be sent after that.
    ///
    /// # Errors
    ///
    /// The commit failed; nothing may be sent.
    pub async fn draft(&self, new: NewDelivery) -> Result<DeliveryId> {
        let nonce = self.nonce();
        self.write(move |db| match new.parts.as_slice() {
            [first] if first.n == 0 => outbox::insert_as(db, &nonce, &new, None, (DeliveryState::Drafting, 0)),
            _ => Err(StoreError::Internal { detail: "a growing message begins with part 0".to_owned() }.into()),
        })
        .await
    }

    /// Returns the growing messages of a turn, oldest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn drafts_of(&self, turn: TurnId) -> Result<Vec<OwedDelivery>> {
        self.read(move |db| of(db, turn)).await
    }
}

/// Sets the final text of a growing message. Returns false if it is no longer growing.
pub(super) fn becomes(db: &Connection, nonce: &str, id: DeliveryId, new: &NewDelivery) -> Outcome<bool> {
    let met = change(
        db,
        "UPDATE outbox SET state = 'owed', purpose = ?2, markdown = ?3, choices = ?4, open_parts = ?5,
             deadline_ms = ?6, max_attempts = ?7
         WHERE id = ?1 AND state = 'drafting'",
        params![
            id.0,
            new.purpose.as_str(),
            new.markdown,
            new.choices.as_ref().map(json).transpose()?,
            new.parts.len() as i64,
            new.deadline_ms,
            new.max_attempts,
        ],
    )?;
    if met == 0 {
        return Ok(false);
    }
    // A first piece without an attempt is replaced by the final text.
    change(db, "DELETE FROM outbox_parts WHERE delivery = ?1 AND n = 0 AND state = 'owed' AND attempts = 0", [id.0])?;
    for part in &new.parts {
        outbox::insert_part(db, nonce, id, part, &PartFacts::default(), (0, None))?;
    }
    Ok(true)
}

/// Records the outcome of the first piece.
pub(super) fn first_piece_settled(db: &Connection, id: DeliveryId, state: &PartState) -> Outcome<Settled> {
    if let PartState::Delivered { receipt } = state
        && let Some(message) = receipt.message_ids.last()
    {
        let what = || format!("delivery {id}");
        change_one(db, "UPDATE outbox SET draft_message = ?2 WHERE id = ?1", params![id.0, message], what)?;
    }
    Ok(Settled { over: false, report: None })
}

/// Clears the message id, because the message can no longer be edited.
pub(super) fn gone(db: &Connection, id: DeliveryId) -> Outcome<()> {
    change_one(db, "UPDATE outbox SET draft_message = NULL WHERE id = ?1", [id.0], || format!("delivery {id}"))
}

/// Ends all growing messages of an ended turn as interrupted and returns the deliveries that show it.
pub(super) fn interrupt_those_of(db: &Connection, nonce: &str, turn: TurnId, now_ms: i64) -> Outcome<Vec<DeliveryId>> {
    let mut owed = Vec::new();
    for draft in of(db, turn)? {
        if interrupt(db, nonce, &draft, now_ms)? {
            owed.push(draft.id);
        }
    }
    Ok(owed)
}

/// Ends the growing messages of earlier runs of the host, except the answers of resumed turns.
pub(super) fn recover(db: &Connection, nonce: &str, now_ms: i64) -> Outcome<()> {
    let waits = "SELECT 1 FROM turns WHERE id = ?1 AND state = 'queued'";
    for draft in outbox::live(db, DeliveryState::Drafting, 0..i64::MAX, u32::MAX)? {
        let resumed = match draft.turn {
            Some(turn) => super::sql::first(db.prepare_cached(waits)?, [turn.0], |_| Ok(()))?.is_some(),
            None => false,
        };
        if !resumed || draft.purpose != Purpose::Reply {
            interrupt(db, nonce, &draft, now_ms)?;
        }
    }
    Ok(())
}

/// Ends a message whose turn adds no more text. Returns true if the interruption must be shown.
fn interrupt(db: &Connection, nonce: &str, draft: &OwedDelivery, now_ms: i64) -> Outcome<bool> {
    let first = draft.parts.iter().find(|part| part.n == 0);
    let Some(first) = first.filter(|_| draft.purpose == Purpose::Reply) else {
        return close(db, draft.id, now_ms).map(|()| false);
    };
    let was_seen = match first.state {
        PartState::InFlight { .. } | PartState::Unknown { .. } | PartState::Delivered { .. } => true,
        // An attempt with an unknown outcome may have arrived.
        PartState::Owed | PartState::Deferred | PartState::Refused { .. } | PartState::Abandoned { .. } => {
            first.facts.doubts > 0
        }
    };
    if !was_seen {
        return close(db, draft.id, now_ms).map(|()| false);
    }
    let part = NewPart {
        n: 1,
        text: interrupted(&first.text),
        format: first.format.clone(),
        source: interrupted(&first.source),
        media: Vec::new(),
        key: String::new(),
    };
    let end = NewDelivery {
        instance: draft.instance.clone(),
        chat: draft.chat.clone(),
        session: draft.session.clone(),
        turn: draft.turn,
        in_reply_to: draft.in_reply_to,
        reply_to: draft.reply_to.clone(),
        draft: Some(draft.id),
        edits: None,
        purpose: draft.purpose.clone(),
        markdown: interrupted(&draft.markdown),
        parts: vec![part],
        choices: None,
        ephemeral_to: draft.ephemeral_to.clone(),
        silent: draft.silent,
        deadline_ms: draft.deadline_ms,
        code: None,
        max_attempts: draft.max_attempts,
        created_ms: draft.created_ms,
    };
    becomes(db, nonce, draft.id, &end)
}

/// Appends the mark of an interrupted text.
pub fn interrupted(text: &str) -> String {
    format!("{}\n\n{INTERRUPTED}", text.trim_end())
}

fn close(db: &Connection, id: DeliveryId, now_ms: i64) -> Outcome<()> {
    let met = change(
        db,
        "UPDATE outbox SET state = 'settled', settled_ms = ?2 WHERE id = ?1 AND state = 'drafting'",
        params![id.0, now_ms],
    )?;
    if met == 0 {
        return Ok(());
    }
    change(
        db,
        "UPDATE outbox_parts SET state = 'abandoned', detail = 'not needed any more'
         WHERE delivery = ?1 AND n = 0 AND state IN ('owed', 'deferred')",
        [id.0],
    )?;
    Ok(())
}

fn of(db: &Connection, turn: TurnId) -> Outcome<Vec<OwedDelivery>> {
    let ids = db.prepare_cached(
        "SELECT id FROM outbox INDEXED BY outbox_drafting WHERE state = 'drafting' AND turn_id = ?1 ORDER BY id",
    )?;
    let ids: Vec<DeliveryId> = collect(ids, [turn.0], |row| Ok(DeliveryId(row.get(0)?)))?;
    let mut drafts = Vec::new();
    for id in ids {
        drafts.extend(outbox::one(db, id)?);
    }
    Ok(drafts)
}

//! Outgoing deliveries: transactions (d) and (e), and the operator's actions on dead letters.

use std::collections::BTreeSet;

use hermes_core::file_refs;
use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId, TurnId};
use hermes_core::limits::REPLY_DEADLINE_S;
use hermes_protocol::{Format, OutMedia, Purpose, Receipt, RefusalKind};
use rusqlite::{Connection, Row, params};

use super::error::{Fault, StoreError};
use super::sql::{change, change_one, collect, first, json, json_list, parsed, parsed_list, parsed_or_none, text};
use super::writer::Outcome;
use super::{
    DeliveryFilter, DeliveryState, LISTING_ROWS_MAX, NewDelivery, NewPart, OwedDelivery, OwedPart, PartFacts,
    PartState, Result, Settle, Settled, Store, asks, drafts, effects, handoff, inbox, pairing,
};

/// Shortest time for which a dead letter is retried, in milliseconds.
const RETRY_MS_MIN: i64 = 60_000;

impl Store {
    /// Queues a delivery of the host itself (`send`, notices).
    ///
    /// # Errors
    ///
    /// The commit failed; nothing may be sent.
    pub async fn owe(&self, delivery: NewDelivery) -> Result<DeliveryId> {
        let nonce = self.nonce();
        self.write(move |db| insert(db, &nonce, &delivery, None)).await
    }

    /// (e) Marks a part as in flight before it is sent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the part is in flight or settled; it must not be sent then.
    pub async fn claim(&self, delivery: DeliveryId, n: u32, epoch: Epoch, attempt: u32) -> Result<()> {
        self.write_single(move |db| {
            change_one(
                db,
                "UPDATE outbox_parts SET state = 'in_flight', epoch = ?3, attempts = ?4
                 WHERE delivery = ?1 AND n = ?2 AND (state = 'owed' OR state = 'unknown' OR state = 'deferred')",
                params![delivery.0, n, epoch.0, attempt],
                || part_name(delivery, n),
            )
        })
        .await
    }

    /// (d) Stores the outcome of a part and its side effects.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the part is already settled.
    pub async fn settle(&self, settle: Settle) -> Result<Settled> {
        let nonce = self.nonce();
        self.write(move |db| {
            let mut settled = match &settle.parts {
                None => settle_part(db, &settle)?,
                Some(parts) => replace_parts(db, &nonce, &settle, parts)?,
            };
            for effect in &settle.effects {
                effects::apply(db, &nonce, settle.delivery, effect, &mut settled)?;
            }
            handoff::part_settled(db, settle.delivery, settle.now_ms)?;
            Ok(settled)
        })
        .await
    }

    /// Queues the refused, abandoned and uncertain parts of a delivery again, with the original time limit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if it has no such part, [`StoreError::QuestionOver`] if it contains a closed
    /// question.
    pub async fn outbox_retry(&self, delivery: DeliveryId) -> Result<OwedDelivery> {
        let now_ms = self.now_ms();
        self.write(move |db| {
            retry(db, delivery, now_ms)?;
            one(db, delivery)?.ok_or_else(|| missing(delivery))
        })
        .await
    }

    /// Removes the wait of a delivery's waiting parts. Returns false if none waits.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn outbox_hurry(&self, delivery: DeliveryId) -> Result<bool> {
        self.write(move |db| {
            let waiting = change(
                db,
                "UPDATE outbox_parts SET not_before_ms = 0
                 WHERE delivery = ?1 AND n > 0 AND state IN ('owed', 'deferred', 'in_flight')",
                [delivery.0],
            )?;
            Ok(waiting > 0)
        })
        .await
    }

    /// Abandons the open parts of a delivery, or removes an ended delivery from the list of dead letters.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if it was delivered.
    pub async fn outbox_drop(&self, delivery: DeliveryId, why: &str) -> Result<()> {
        let (now_ms, why) = (self.now_ms(), why.to_owned());
        self.write(move |db| {
            abandon(db, delivery, &why, now_ms)?;
            handoff::part_settled(db, delivery, now_ms)
        })
        .await
    }

    /// Returns deliveries with their parts, newest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn deliveries(&self, filter: DeliveryFilter) -> Result<Vec<OwedDelivery>> {
        self.read(move |db| listed(db, &filter)).await
    }

    /// Returns one delivery with its parts.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<OwedDelivery>> {
        self.read(move |db| one(db, id)).await
    }

    /// Returns the ids of all files named by unsettled deliveries and events.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn media_in_use(&self) -> Result<BTreeSet<String>> {
        self.read(|db| {
            let out = db.prepare_cached(
                "SELECT media FROM outbox_parts WHERE media IS NOT NULL AND delivery IN
                     (SELECT id FROM outbox INDEXED BY outbox_live WHERE state IN ('drafting', 'owed'))",
            )?;
            let out: Vec<Vec<OutMedia>> = collect(out, [], |row| parsed_list(row, 0))?;
            let events = inbox::unsettled(db)?;
            let coming = events.iter().flat_map(file_refs::files).filter_map(|file| file.media.clone());
            Ok(out.into_iter().flatten().map(|file| file.id).chain(coming).collect())
        })
        .await
    }

    /// Returns the pending deliveries, oldest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn owed(&self, limit: u32) -> Result<Vec<OwedDelivery>> {
        self.read(move |db| live(db, DeliveryState::Owed, 0..i64::MAX, limit)).await
    }
}

/// Returns the idempotency key of a part without an explicit one.
pub(super) fn part_key(nonce: &str, delivery: DeliveryId, n: u32) -> String {
    format!("{nonce}-{delivery}-{n}")
}

fn part_name(delivery: DeliveryId, n: u32) -> String {
    format!("part {n} of delivery {delivery}")
}

fn missing(delivery: DeliveryId) -> Fault {
    Fault::missing(format_args!("delivery {delivery}"))
}

/// Stores a delivery and all its parts.
pub(super) fn insert(db: &Connection, nonce: &str, new: &NewDelivery, turn: Option<TurnId>) -> Outcome<DeliveryId> {
    if let Some(draft) = new.draft
        && drafts::becomes(db, nonce, draft, new)?
    {
        return Ok(draft);
    }
    let open_parts = new.parts.iter().filter(|part| part.n > 0).count();
    insert_as(db, nonce, new, turn, (DeliveryState::Owed, open_parts))
}

/// Stores a delivery in one state, with the number of its open parts.
pub(super) fn insert_as(
    db: &Connection,
    nonce: &str,
    new: &NewDelivery,
    turn: Option<TurnId>,
    (state, open_parts): (DeliveryState, usize),
) -> Outcome<DeliveryId> {
    if new.parts.is_empty() {
        return Err(
            StoreError::Internal { detail: "a delivery without parts would never be settled".to_owned() }.into()
        );
    }
    change(
        db,
        "INSERT INTO outbox (instance, chat, session_id, turn_id, in_reply_to, reply_to, purpose, markdown, choices,
             asking, ephemeral_to, silent, state, open_parts, deadline_ms, max_attempts, created_ms, code,
             draft_message)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9 IS NOT NULL, ?10, ?11, ?16, ?12, ?13, ?14, ?15, ?17, ?18)",
        params![
            new.instance,
            json(&new.chat)?,
            new.session.as_ref().map(|session| &session.0),
            new.turn.or(turn).map(|turn| turn.0),
            new.in_reply_to.map(|inbox| inbox.0),
            new.reply_to,
            new.purpose.as_str(),
            new.markdown,
            new.choices.as_ref().map(json).transpose()?,
            new.ephemeral_to,
            new.silent,
            open_parts as i64,
            new.deadline_ms,
            new.max_attempts,
            new.created_ms,
            state.as_str(),
            new.code,
            new.edits,
        ],
    )?;
    let delivery = DeliveryId(db.last_insert_rowid());
    for part in &new.parts {
        insert_part(db, nonce, delivery, part, &PartFacts::default(), (0, None))?;
    }
    Ok(delivery)
}

pub(super) fn insert_part(
    db: &Connection,
    nonce: &str,
    delivery: DeliveryId,
    part: &NewPart,
    facts: &PartFacts,
    (not_before_ms, detail): (i64, Option<&str>),
) -> Outcome<()> {
    let made;
    let key = if part.key.is_empty() {
        made = part_key(nonce, delivery, part.n);
        &made
    } else {
        &part.key
    };
    // The source of most texts is the text itself, which is then stored only once.
    let source = (part.source != part.text).then_some(part.source.as_str());
    change(
        db,
        "INSERT INTO outbox_parts (delivery, n, text, format, source, media, key, state, attempts, facts,
             not_before_ms, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'owed', ?8, ?9, ?10, ?11)",
        params![
            delivery.0,
            part.n,
            part.text,
            part.format.as_str(),
            source,
            json_list(&part.media)?,
            key,
            facts.attempts,
            facts_json(facts)?,
            not_before_ms,
            detail
        ],
    )?;
    Ok(())
}

fn settle_part(db: &Connection, settle: &Settle) -> Outcome<Settled> {
    let Settle { delivery, n, .. } = *settle;
    let (receipt, refusal, detail) = match &settle.state {
        PartState::Owed | PartState::Deferred => (None, None, settle.detail.as_deref()),
        PartState::Delivered { receipt } => (Some(json(receipt)?), None, None),
        PartState::Refused { kind, detail } => (None, Some(kind.as_str()), Some(detail.as_str())),
        PartState::Unknown { detail } => (None, None, Some(detail.as_str())),
        PartState::Abandoned { why } => (None, None, Some(why.as_str())),
        PartState::InFlight { .. } => {
            return Err(
                StoreError::Internal { detail: "a part is claimed, never settled as in flight".to_owned() }.into()
            );
        }
    };
    let values = params![
        delivery.0,
        n,
        settle.state.word(),
        settle.facts.attempts,
        settle.not_before_ms,
        receipt,
        refusal,
        detail,
        facts_json(&settle.facts)?
    ];
    change_one(db, settle_sql(&settle.state), values, || part_name(delivery, n))?;
    if n == 0 {
        return drafts::first_piece_settled(db, delivery, &settle.state);
    }
    if !settle.state.is_settled() {
        return Ok(Settled { over: false, report: None });
    }
    let why = match &settle.state {
        PartState::Refused { kind, detail } => Some(format!("refused ({kind}): {detail}")),
        PartState::Abandoned { why } => Some(why.clone()),
        _ => None,
    };
    close_part(db, delivery, why.as_deref(), settle.now_ms)
}

/// Returns the statement that changes a part to `next` from the states with a transition to it
/// ([`PartState::after`]).
fn settle_sql(next: &PartState) -> &'static str {
    macro_rules! from {
        ($states:literal) => {
            concat!(
                "UPDATE outbox_parts SET state = ?3, epoch = NULL, attempts = ?4, not_before_ms = ?5, receipt = ?6,
                     refusal = ?7, detail = ?8, facts = ?9
                 WHERE delivery = ?1 AND n = ?2 AND state IN (",
                $states,
                ")"
            )
        };
    }
    match next {
        PartState::Refused { .. } | PartState::InFlight { .. } => from!("'in_flight'"),
        PartState::Owed | PartState::Delivered { .. } | PartState::Unknown { .. } => from!("'in_flight', 'unknown'"),
        PartState::Deferred | PartState::Abandoned { .. } => from!("'in_flight', 'unknown', 'owed', 'deferred'"),
    }
}

/// Returns the facts of a part as JSON, without the attempts, which have a separate column. Returns `None` if
/// there are no others.
fn facts_json(facts: &PartFacts) -> Outcome<Option<String>> {
    let plain = PartFacts { attempts: facts.attempts, ..PartFacts::default() };
    if *facts == plain { Ok(None) } else { json(facts).map(Some) }
}

/// Closes one part of a delivery. With the last part the delivery is settled or abandoned.
fn close_part(db: &Connection, delivery: DeliveryId, why: Option<&str>, now_ms: i64) -> Outcome<Settled> {
    // RETURNING would create a temporary table for its row, which costs more than the change.
    let open = db.prepare_cached("SELECT open_parts FROM outbox WHERE id = ?1 AND state = 'owed'")?;
    let open = first(open, [delivery.0], |row| Ok(row.get::<_, i64>(0)?))?;
    let left = match open {
        Some(open) if open > 0 => open - 1,
        _ => return Err(Fault::conflict(format_args!("delivery {delivery}"))),
    };
    let over = left == 0;
    let state = if !over {
        DeliveryState::Owed
    } else if has_abandoned(db, delivery)? {
        DeliveryState::Abandoned
    } else {
        DeliveryState::Settled
    };
    change_one(
        db,
        "UPDATE outbox SET open_parts = ?2, state = ?3, why = COALESCE(why, ?4), settled_ms = ?5
         WHERE id = ?1 AND state = 'owed'",
        params![delivery.0, left, state.as_str(), why, over.then_some(now_ms)],
        || format!("delivery {delivery}"),
    )?;
    Ok(Settled { over, report: None })
}

fn has_abandoned(db: &Connection, delivery: DeliveryId) -> Outcome<bool> {
    let abandoned =
        db.prepare_cached("SELECT 1 FROM outbox_parts WHERE delivery = ?1 AND n > 0 AND state = 'abandoned'")?;
    Ok(first(abandoned, [delivery.0], |_| Ok(()))?.is_some())
}

/// Replaces part `settle.n` and all later parts by `parts`.
fn replace_parts(db: &Connection, nonce: &str, settle: &Settle, parts: &[NewPart]) -> Outcome<Settled> {
    let Settle { delivery, n, .. } = *settle;
    let numbered = parts.iter().zip(n..).all(|(part, n)| part.n == n);
    if settle.state != PartState::Owed || parts.is_empty() || !numbered {
        return Err(StoreError::Internal {
            detail: "new parts are owed and numbered from the one they replace".to_owned(),
        }
        .into());
    }
    let open = "SELECT count(*), sum(state IN ('owed', 'in_flight', 'unknown', 'deferred')) FROM outbox_parts
         WHERE delivery = ?1 AND n >= ?2";
    let counts = first(db.prepare_cached(open)?, params![delivery.0, n], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
    })?;
    let Some((_, open)) = counts.filter(|(all, open)| all == open && *all > 0) else {
        return Err(Fault::conflict(part_name(delivery, n)));
    };
    change(db, "DELETE FROM outbox_parts WHERE delivery = ?1 AND n >= ?2", params![delivery.0, n])?;
    for part in parts {
        let first = if part.n == n { (settle.not_before_ms, settle.detail.as_deref()) } else { (0, None) };
        insert_part(db, nonce, delivery, part, &settle.facts, first)?;
    }
    change_one(
        db,
        "UPDATE outbox SET open_parts = open_parts - ?2 + ?3 WHERE id = ?1 AND state = 'owed'",
        params![delivery.0, open, parts.len() as i64],
        || format!("delivery {delivery}"),
    )?;
    Ok(Settled { over: false, report: None })
}

fn retry(db: &Connection, delivery: DeliveryId, now_ms: i64) -> Outcome<()> {
    let known = db.prepare_cached("SELECT deadline_ms - created_ms FROM outbox WHERE id = ?1")?;
    let span = first(known, [delivery.0], |row| Ok(row.get::<_, i64>(0)?))?.ok_or_else(|| missing(delivery))?;
    if asks::is_over(db, delivery)? {
        return Err(StoreError::QuestionOver { delivery }.into());
    }
    let span = span.clamp(RETRY_MS_MIN, REPLY_DEADLINE_S as i64 * 1_000);
    let again = change(
        db,
        "UPDATE outbox_parts SET state = 'owed', attempts = 0, facts = NULL, not_before_ms = 0, refusal = NULL, detail = NULL
         WHERE delivery = ?1 AND n > 0 AND state IN ('refused', 'abandoned', 'unknown')",
        [delivery.0],
    )?;
    if again == 0 {
        return Err(Fault::conflict(format_args!("delivery {delivery}")));
    }
    change_one(
        db,
        "UPDATE outbox SET state = 'owed', why = NULL, dismissed = 0, settled_ms = NULL, deadline_ms = ?2,
             open_parts = (SELECT count(*) FROM outbox_parts WHERE delivery = ?1 AND n > 0 AND state <> 'delivered')
         WHERE id = ?1 AND state IN ('owed', 'settled', 'abandoned')",
        params![delivery.0, now_ms.saturating_add(span)],
        || format!("delivery {delivery}"),
    )
}

/// Abandons the open parts of a delivery, or removes an ended delivery from the list of dead letters.
pub(super) fn abandon(db: &Connection, delivery: DeliveryId, why: &str, now_ms: i64) -> Outcome<()> {
    let state = first(db.prepare_cached("SELECT state FROM outbox WHERE id = ?1")?, [delivery.0], |row| {
        Ok(text(row, 0)?.to_owned())
    })?;
    let state = state.ok_or_else(|| missing(delivery))?;
    if DeliveryState::from_word(&state).is_some_and(DeliveryState::is_live) {
        // The check precedes the change of the parts, because their states show which of them were sent.
        pairing::forget_untold_by(db, delivery.0)?;
        change(
            db,
            "UPDATE outbox_parts SET state = 'abandoned', epoch = NULL, detail = ?2 || COALESCE('; last: ' || detail, '')
             WHERE delivery = ?1 AND state IN ('owed', 'in_flight', 'unknown', 'deferred')",
            params![delivery.0, why],
        )?;
        return change_one(
            db,
            "UPDATE outbox SET state = 'abandoned', why = COALESCE(why, ?2), open_parts = 0, settled_ms = ?3
             WHERE id = ?1 AND state IN ('drafting', 'owed')",
            params![delivery.0, why, now_ms],
            || format!("delivery {delivery}"),
        );
    }
    change_one(
        db,
        "UPDATE outbox SET dismissed = 1 WHERE id = ?1 AND state IN ('settled', 'abandoned') AND why IS NOT NULL",
        [delivery.0],
        || format!("delivery {delivery}"),
    )
}

const COLUMNS: &str = "id, instance, chat, session_id, turn_id, in_reply_to, reply_to, purpose, markdown, choices,
    ephemeral_to, silent, state, why, draft_message, deadline_ms, max_attempts, created_ms, settled_ms, code";

fn read(db: &Connection, row: &Row<'_>) -> Outcome<OwedDelivery> {
    let id = DeliveryId(row.get(0)?);
    let state = text(row, 12)?;
    Ok(OwedDelivery {
        id,
        instance: row.get(1)?,
        chat: parsed(row, 2)?,
        session: row.get::<_, Option<String>>(3)?.map(SessionId),
        turn: row.get::<_, Option<i64>>(4)?.map(TurnId),
        in_reply_to: row.get::<_, Option<i64>>(5)?.map(InboxId),
        reply_to: row.get(6)?,
        purpose: Purpose::from(text(row, 7)?),
        markdown: row.get(8)?,
        choices: parsed_or_none(row, 9)?,
        ephemeral_to: row.get(10)?,
        silent: row.get(11)?,
        state: DeliveryState::from_word(state)
            .ok_or_else(|| Fault::unreadable(format_args!("state {state:?} of delivery {id}")))?,
        why: row.get(13)?,
        draft_message: row.get(14)?,
        deadline_ms: row.get(15)?,
        max_attempts: row.get(16)?,
        created_ms: row.get(17)?,
        settled_ms: row.get(18)?,
        code: row.get(19)?,
        parts: parts(db, id)?,
    })
}

fn parts(db: &Connection, delivery: DeliveryId) -> Outcome<Vec<OwedPart>> {
    let statement = db.prepare_cached(
        "SELECT n, text, format, source, media, key, state, attempts, not_before_ms, epoch, receipt, refusal, detail,
             facts
         FROM outbox_parts WHERE delivery = ?1 ORDER BY n",
    )?;
    collect(statement, [delivery.0], |row| {
        let text_ = row.get::<_, String>(1)?;
        let attempts = row.get(7)?;
        Ok(OwedPart {
            n: row.get(0)?,
            source: row.get::<_, Option<String>>(3)?.unwrap_or_else(|| text_.clone()),
            text: text_,
            format: Format::from(text(row, 2)?),
            media: parsed_list(row, 4)?,
            key: row.get(5)?,
            state: part_state(row, attempts)?,
            facts: PartFacts { attempts, ..parsed_or_none::<PartFacts>(row, 13)?.unwrap_or_default() },
            not_before_ms: row.get(8)?,
            detail: row.get(12)?,
        })
    })
}

fn part_state(row: &Row<'_>, attempt: u32) -> Outcome<PartState> {
    let detail = || Ok::<_, Fault>(row.get::<_, Option<String>>(12)?.unwrap_or_default());
    Ok(match text(row, 6)? {
        "owed" => PartState::Owed,
        "in_flight" => PartState::InFlight { epoch: Epoch(row.get(9)?), attempt },
        "delivered" => PartState::Delivered { receipt: parsed::<Receipt>(row, 10)? },
        "refused" => PartState::Refused { kind: RefusalKind::from(text(row, 11)?), detail: detail()? },
        "unknown" => PartState::Unknown { detail: detail()? },
        "deferred" => PartState::Deferred,
        "abandoned" => PartState::Abandoned { why: detail()? },
        other => return Err(Fault::unreadable(format_args!("state {other:?} of a part"))),
    })
}

/// Returns one delivery with its parts.
pub(super) fn one(db: &Connection, id: DeliveryId) -> Outcome<Option<OwedDelivery>> {
    let statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM outbox WHERE id = ?1"))?;
    first(statement, [id.0], |row| read(db, row))
}

/// Returns unsettled deliveries in one state, oldest first: after the start of `ids` up to and including its
/// end.
pub(super) fn live(
    db: &Connection,
    state: DeliveryState,
    ids: std::ops::Range<i64>,
    limit: u32,
) -> Outcome<Vec<OwedDelivery>> {
    let statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM outbox INDEXED BY outbox_live
         WHERE state IN ('drafting', 'owed') AND state = ?1 AND id > ?2 AND id <= ?3 ORDER BY id LIMIT ?4"
    ))?;
    collect(statement, params![state.as_str(), ids.start, ids.end, limit], |row| read(db, row))
}

fn listed(db: &Connection, filter: &DeliveryFilter) -> Outcome<Vec<OwedDelivery>> {
    let source = if filter.dead {
        "outbox INDEXED BY outbox_dead WHERE why IS NOT NULL AND dismissed = 0"
    } else {
        "outbox WHERE 1"
    };
    let statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM {source} AND (?1 IS NULL OR instance = ?1) AND (?2 IS NULL OR session_id = ?2)
             AND (?3 IS NULL OR state = ?3)
         ORDER BY id DESC LIMIT ?4"
    ))?;
    let limit = if filter.limit == 0 { LISTING_ROWS_MAX } else { filter.limit.min(LISTING_ROWS_MAX) };
    let session = filter.session.as_ref().map(|session| &session.0);
    collect(statement, params![filter.instance, session, filter.state.map(DeliveryState::as_str), limit], |row| {
        read(db, row)
    })
}

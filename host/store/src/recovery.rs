//! Recovery at the start of a run: the state for the dispatcher's memory, and the work that earlier epochs left
//! behind (transaction (i)).
//!
//! ```text
//! turn    running{dead}   → queued    resumed, or failed with a notice
//! part    in_flight{dead} → unknown   looked up, repeated with a mark, or abandoned
//! event   accepted                    handled like a new event
//! draft   drafting                    continued by the resumed turn, or queued as "(interrupted)"
//! handoff running{dead}   → pending   claimed again, or failed after the second claim
//! task    running{dead}   → crashed   or continued with its turn
//! ```
//!
//! These are the transitions `OwnerDied` and `ClaimerDied` of `hermes_core`. A turn that was resumed too often
//! also stays `queued`: only the caller can write the notice that belongs to its failure.

use std::collections::BTreeSet;

use hermes_core::delivery::{PartChange, PartFacts, PartState};
use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId, TurnId};
use rusqlite::{Connection, params};

use super::error::Fault;
use super::sql::{change, collect, json, parsed, parsed_or_none, text};
use super::writer::Outcome;
use super::{
    CutOffTurn, DeadTargetRow, DeliveryState, HomeChannelRow, InboxRow, Left, Loaded, OwedDelivery, Result, Store,
    drafts, handoff, inbox, kv, outbox, pairing, sessions, tasks, turns,
};

/// Longest wait of an earlier run that a new run keeps, in milliseconds. Waits are stored as a time of day, and
/// the clock may have been set since. Without this limit, a clock that is one hour off would delay an answer by
/// one hour.
pub const PUT_OFF_MS_MAX: i64 = 30_000;

/// Rows of recovered work that are loaded at once.
pub const BATCH_ROWS_MAX: u32 = 256;

impl Store {
    /// (i) Takes over the work of earlier epochs: their running turns become `queued`, their parts in flight
    /// become `unknown`, and their waits are shortened. Called once, after the opening and before the first
    /// event; the work is then read in batches.
    ///
    /// # Errors
    ///
    /// The commit failed; the host must not start.
    pub async fn recover(&self, epoch: Epoch, now_ms: i64) -> Result<Left> {
        let nonce = self.nonce();
        self.write(move |db| recover(db, &nonce, epoch, now_ms)).await
    }

    /// Returns the instances with parts in flight at the end of an earlier run of the host.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn instances_in_flight(&self, epoch: Epoch) -> Result<BTreeSet<String>> {
        self.read(move |db| {
            let instances = db.prepare_cached(
                "SELECT DISTINCT instance FROM outbox INDEXED BY outbox_live
                     JOIN outbox_parts ON outbox_parts.delivery = outbox.id
                 WHERE outbox.state IN ('drafting', 'owed') AND outbox_parts.state = 'in_flight' AND epoch <> ?1",
            )?;
            let instances: Vec<String> = collect(instances, [epoch.0], |row| Ok(row.get(0)?))?;
            Ok(instances.into_iter().collect())
        })
        .await
    }

    /// Returns the limit of the events that are stored now, without any work to recover.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn left_by_now(&self) -> Result<Left> {
        self.read(|db| {
            let event = db.query_row("SELECT coalesce(max(id), 0) FROM inbox", [], |row| row.get(0))?;
            Ok(Left { event, turn: 0, delivery: 0, drafts: Vec::new(), failed_handoffs: Vec::new() })
        })
        .await
    }

    /// Returns the next interrupted turns in id order: at most [`BATCH_ROWS_MAX`] after `after`.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn left_turns(&self, left: &Left, after: TurnId) -> Result<Vec<CutOffTurn>> {
        let last = left.turn;
        self.read(move |db| cut_off(db, after, last)).await
    }

    /// Returns the next accepted events that no turn has taken, in the same way.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn left_events(&self, left: &Left, after: InboxId) -> Result<Vec<InboxRow>> {
        let ids = after.0..left.event;
        self.read(move |db| inbox::pending(db, ids, BATCH_ROWS_MAX)).await
    }

    /// Returns the next pending deliveries in the same way; parts that were in flight are `unknown`.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn left_deliveries(&self, left: &Left, after: DeliveryId) -> Result<Vec<OwedDelivery>> {
        let ids = after.0..left.delivery;
        self.read(move |db| outbox::live(db, DeliveryState::Owed, ids, BATCH_ROWS_MAX)).await
    }
}

fn recover(db: &Connection, nonce: &str, epoch: Epoch, now_ms: i64) -> Outcome<Left> {
    let turns = change(
        db,
        "UPDATE turns INDEXED BY turns_running SET state = 'queued', epoch = NULL
         WHERE state = 'running' AND epoch <> ?1",
        [epoch.0],
    )?;
    let parts = cut_off_parts(db, epoch)?;
    // The statement uses the index of pending deliveries, because a search through all parts would become
    // slower with time.
    change(
        db,
        "UPDATE outbox_parts SET not_before_ms = ?1
         WHERE delivery IN (SELECT id FROM outbox WHERE state IN ('drafting', 'owed')) AND not_before_ms > ?1",
        [now_ms.saturating_add(PUT_OFF_MS_MAX)],
    )?;
    let failed_handoffs = handoff::recover(db, epoch, now_ms)?;
    drafts::recover(db, nonce, now_ms)?;
    tasks::recover(db, epoch, now_ms)?;
    if turns + parts > 0 {
        tracing::info!(turns, parts, now_ms, "store: took over the claims of the previous run");
    }
    let last = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(Left {
        event: last("SELECT coalesce(max(id), 0) FROM inbox")?,
        turn: last("SELECT coalesce(max(id), 0) FROM turns")?,
        delivery: last("SELECT coalesce(max(id), 0) FROM outbox")?,
        drafts: drafting(db)?,
        failed_handoffs,
    })
}

/// Changes parts in flight to `unknown` and records in their facts that the host caused the uncertainty.
/// Returns their number.
fn cut_off_parts(db: &Connection, epoch: Epoch) -> Outcome<usize> {
    let parts = db.prepare_cached(
        "SELECT delivery, n, attempts, facts FROM outbox_parts
         WHERE delivery IN (SELECT id FROM outbox WHERE state IN ('drafting', 'owed'))
             AND state = 'in_flight' AND epoch <> ?1",
    )?;
    let parts: Vec<(i64, i64, PartFacts)> = collect(parts, [epoch.0], |row| {
        let attempts = row.get(2)?;
        let facts = parsed_or_none::<PartFacts>(row, 3)?.unwrap_or_default();
        Ok((row.get(0)?, row.get(1)?, PartFacts { attempts, ..facts }))
    })?;
    let detail = doubt();
    for (delivery, n, mut facts) in parts.iter().cloned() {
        facts.cut_off(false);
        change(
            db,
            "UPDATE outbox_parts SET state = 'unknown', epoch = NULL, detail = ?3, facts = ?4
             WHERE delivery = ?1 AND n = ?2",
            params![delivery, n, detail, json(&facts)?],
        )?;
    }
    Ok(parts.len())
}

fn drafting(db: &Connection) -> Outcome<Vec<DeliveryId>> {
    let statement = db.prepare_cached(
        "SELECT id FROM outbox INDEXED BY outbox_live
         WHERE state IN ('drafting', 'owed') AND state = 'drafting' ORDER BY id",
    )?;
    collect(statement, [], |row| Ok(DeliveryId(row.get(0)?)))
}

/// Returns the detail of a part whose claimer has ended.
fn doubt() -> String {
    let in_flight = PartState::InFlight { epoch: Epoch(0), attempt: 1 };
    match in_flight.after(PartChange::ClaimerDied) {
        Ok(PartState::Unknown { detail }) => detail,
        _ => String::new(),
    }
}

fn cut_off(db: &Connection, after: TurnId, last: i64) -> Outcome<Vec<CutOffTurn>> {
    let statement = db.prepare_cached(
        "SELECT id, session_id, attempts, inbox FROM turns INDEXED BY turns_queued
         WHERE state = 'queued' AND id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3",
    )?;
    collect(statement, params![after.0, last, BATCH_ROWS_MAX], |row| {
        let turn = TurnId(row.get(0)?);
        let event = |id| inbox::one(db, id)?.ok_or_else(|| Fault::unreadable(format_args!("event of turn {turn}")));
        Ok(CutOffTurn {
            turn,
            session: SessionId(row.get(1)?),
            attempts: row.get(2)?,
            inbox: turns::split(text(row, 3)?)?.into_iter().map(event).collect::<Outcome<_>>()?,
        })
    })
}

/// Loads the state that the dispatcher keeps in memory.
pub(super) fn load(db: &Connection) -> Outcome<Loaded> {
    Ok(Loaded {
        routes: sessions::routes(db)?,
        grants: pairing::grants(db)?,
        pairing: pairing::requests(db)?,
        lockouts: pairing::lockouts(db)?,
        offers: pairing::offers(db)?,
        dead_targets: dead_targets(db)?,
        home_channels: home_channels(db)?,
        disabled_adapters: disabled_adapters(db)?,
        flags: flags(db)?.into_iter().collect(),
    })
}

fn dead_targets(db: &Connection) -> Outcome<Vec<DeadTargetRow>> {
    let statement = db.prepare_cached("SELECT instance, chat, why, since_ms FROM dead_targets")?;
    collect(statement, [], |row| {
        Ok(DeadTargetRow { instance: row.get(0)?, chat: parsed(row, 1)?, why: row.get(2)?, since_ms: row.get(3)? })
    })
}

fn home_channels(db: &Connection) -> Outcome<Vec<HomeChannelRow>> {
    let statement = db.prepare_cached("SELECT instance, chat, set_by, set_ms FROM home_channels")?;
    collect(statement, [], |row| {
        Ok(HomeChannelRow { instance: row.get(0)?, chat: parsed(row, 1)?, set_by: row.get(2)?, set_ms: row.get(3)? })
    })
}

fn disabled_adapters(db: &Connection) -> Outcome<Vec<String>> {
    let statement = db.prepare_cached("SELECT instance FROM adapters WHERE enabled = 0 ORDER BY instance")?;
    collect(statement, [], |row| Ok(row.get(0)?))
}

fn flags(db: &Connection) -> Outcome<Vec<(String, String)>> {
    let statement = db.prepare_cached("SELECT key, value FROM kv WHERE scope = ?1")?;
    collect(statement, [kv::HOST_SCOPE], |row| Ok((row.get(0)?, row.get(1)?)))
}

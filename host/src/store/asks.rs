//! Questions whose choices wait for an answer.
//!
//! A question is a delivery with choices; while it is open, `asking` says so. The turn
//! that waits for it lives in memory only, so what is still open when the host starts
//! belongs to nobody any more.

use hermes_core::ids::DeliveryId;
use rusqlite::{Connection, params};

use super::error::Fault;
use super::sql::{change_one, collect, first};
use super::writer::Outcome;
use super::{OwedDelivery, Result, Store, outbox};

/// Open questions that are in memory at once.
const BATCH_ROWS_MAX: u32 = 256;

impl Store {
    /// Returns the next questions that are open, in id order: at most 256 behind `after`.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn open_asks(&self, after: DeliveryId) -> Result<Vec<OwedDelivery>> {
        self.read(move |db| {
            let ids = db.prepare_cached(
                "SELECT id FROM outbox INDEXED BY outbox_asking WHERE asking = 1 AND id > ?1 ORDER BY id LIMIT ?2",
            )?;
            let ids: Vec<DeliveryId> =
                collect(ids, params![after.0, BATCH_ROWS_MAX], |row| Ok(DeliveryId(row.get(0)?)))?;
            ids.into_iter().filter_map(|id| outbox::one(db, id).transpose()).collect()
        })
        .await
    }

    /// Returns the question of this id, while it is open.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn open_ask(&self, ask: &str) -> Result<Option<OwedDelivery>> {
        let ask = ask.to_owned();
        self.read(move |db| {
            let id = db.prepare_cached(
                "SELECT id FROM outbox INDEXED BY outbox_asking WHERE asking = 1 AND choices ->> '$.ask' = ?1",
            )?;
            match first(id, [ask], |row| Ok(DeliveryId(row.get(0)?)))? {
                Some(id) => outbox::one(db, id),
                None => Ok(None),
            }
        })
        .await
    }

    /// Returns the question of this id, open or not, as long as its delivery is kept.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn asked(&self, ask: &str) -> Result<Option<Posed>> {
        let ask = ask.to_owned();
        self.read(move |db| {
            let id = db.prepare_cached(
                "SELECT id FROM outbox INDEXED BY outbox_asks
                 WHERE choices IS NOT NULL AND choices ->> '$.ask' = ?1 ORDER BY id DESC LIMIT 1",
            )?;
            match first(id, [ask], |row| Ok(DeliveryId(row.get(0)?)))? {
                Some(id) => posed(db, id),
                None => Ok(None),
            }
        })
        .await
    }

    /// Gives up what asks a question that is over and was not sent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) when it was settled, or is being sent.
    pub async fn ask_withdraw(&self, delivery: DeliveryId) -> Result<()> {
        let now_ms = self.now_ms();
        self.write(move |db| {
            let flies = db.prepare_cached("SELECT 1 FROM outbox_parts WHERE delivery = ?1 AND state = 'in_flight'")?;
            if first(flies, [delivery.0], |_| Ok(()))?.is_some() {
                return Err(Fault::conflict(format_args!("delivery {delivery}")));
            }
            outbox::abandon(db, delivery, "its question is over", now_ms)
        })
        .await
    }

    /// Returns the question that a delivery asks; `None` where it asks nothing.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn posed(&self, delivery: DeliveryId) -> Result<Option<Posed>> {
        self.read(move |db| posed(db, delivery)).await
    }
}

/// A question as it was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Posed {
    /// What asks it.
    pub delivery: OwedDelivery,
    /// What became of it, in words; none while it is open.
    pub outcome: Option<String>,
}

fn posed(db: &Connection, id: DeliveryId) -> Outcome<Option<Posed>> {
    let outcome = db.prepare_cached("SELECT outcome FROM outbox WHERE id = ?1 AND choices IS NOT NULL")?;
    let Some(outcome) = first(outcome, [id.0], |row| Ok(row.get::<_, Option<String>>(0)?))? else { return Ok(None) };
    Ok(outbox::one(db, id)?.map(|delivery| Posed { delivery, outcome }))
}

/// The choices of a delivery wait for no answer any more. What became of them first stays.
pub(super) fn over(db: &Connection, delivery: DeliveryId, outcome: &str) -> Outcome<()> {
    let sql = "UPDATE outbox SET asking = 0, outcome = COALESCE(outcome, ?2) WHERE id = ?1";
    change_one(db, sql, params![delivery.0, outcome], || format!("delivery {delivery}"))
}

/// Whether a delivery asked a question that is over.
pub(super) fn is_over(db: &Connection, delivery: DeliveryId) -> Outcome<bool> {
    let over = db.prepare_cached("SELECT 1 FROM outbox WHERE id = ?1 AND choices IS NOT NULL AND asking = 0")?;
    Ok(first(over, [delivery.0], |_| Ok(()))?.is_some())
}

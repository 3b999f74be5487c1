//! Questions with choices that wait for an answer.
//!
//! A question is a delivery with choices; the flag `asking` is set while it is open. The waiting turn exists
//! only in memory, so questions that are still open when the host starts have no owner.

use hermes_core::ids::DeliveryId;
use rusqlite::{Connection, params};

use super::error::Fault;
use super::sql::{change_one, collect, first};
use super::writer::Outcome;
use super::{OwedDelivery, Result, Store, outbox};

/// Open questions loaded at once.
const BATCH_ROWS_MAX: u32 = 256;

impl Store {
    /// Returns the next open questions in id order: at most 256 after `after`.
    ///
    /// # Errors
    ///
    /// The error of the disk.
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

    /// Returns the open question with this id.
    ///
    /// # Errors
    ///
    /// The error of the disk.
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

    /// Returns the question with this id, open or closed, as long as its delivery is kept.
    ///
    /// # Errors
    ///
    /// The error of the disk.
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

    /// Abandons the delivery of a closed question that was not sent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the delivery is settled or being sent.
    pub async fn ask_withdraw(&self, delivery: DeliveryId) -> Result<()> {
        let now_ms = self.now_ms();
        self.write(move |db| {
            let flies = db.prepare_cached("SELECT 1 FROM outbox_parts WHERE delivery = ?1 AND state = 'in_flight'")?;
            if first(flies, [delivery.0], |_| Ok(()))?.is_some() {
                return Err(Fault::conflict(format_args!("delivery {delivery}")));
            }
            outbox::abandon(db, delivery, "the question is closed", now_ms)
        })
        .await
    }

    /// Returns the question of a delivery, or `None` if it contains none.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn posed(&self, delivery: DeliveryId) -> Result<Option<Posed>> {
        self.read(move |db| posed(db, delivery)).await
    }
}

/// A question and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Posed {
    /// Delivery of the question.
    pub delivery: OwedDelivery,
    /// Outcome in words; `None` while the question is open.
    pub outcome: Option<String>,
}

fn posed(db: &Connection, id: DeliveryId) -> Outcome<Option<Posed>> {
    let outcome = db.prepare_cached("SELECT outcome FROM outbox WHERE id = ?1 AND choices IS NOT NULL")?;
    let Some(outcome) = first(outcome, [id.0], |row| Ok(row.get::<_, Option<String>>(0)?))? else { return Ok(None) };
    Ok(outbox::one(db, id)?.map(|delivery| Posed { delivery, outcome }))
}

/// Closes the question of a delivery. The first recorded outcome is kept.
pub(super) fn over(db: &Connection, delivery: DeliveryId, outcome: &str) -> Outcome<()> {
    let sql = "UPDATE outbox SET asking = 0, outcome = COALESCE(outcome, ?2) WHERE id = ?1";
    change_one(db, sql, params![delivery.0, outcome], || format!("delivery {delivery}"))
}

/// Returns true if a delivery contains a closed question.
pub(super) fn is_over(db: &Connection, delivery: DeliveryId) -> Outcome<bool> {
    let over = db.prepare_cached("SELECT 1 FROM outbox WHERE id = ?1 AND choices IS NOT NULL AND asking = 0")?;
    Ok(first(over, [delivery.0], |_| Ok(()))?.is_some())
}

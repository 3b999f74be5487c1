//! Questions whose choices wait for an answer.
//!
//! A question is a delivery with choices; while it is open, `asking` says so. The turn
//! that waits for it lives in memory only, so what is still open when the host starts
//! belongs to nobody any more.

use hermes_core::ids::DeliveryId;
use rusqlite::Connection;

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
                collect(ids, rusqlite::params![after.0, BATCH_ROWS_MAX], |row| Ok(DeliveryId(row.get(0)?)))?;
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
    pub async fn asked(&self, ask: &str) -> Result<Option<OwedDelivery>> {
        let ask = ask.to_owned();
        self.read(move |db| of(db, &ask)).await
    }
}

/// The delivery that asked a question of this id, open or not.
fn of(db: &Connection, ask: &str) -> Outcome<Option<OwedDelivery>> {
    let id = db.prepare_cached(
        "SELECT id FROM outbox INDEXED BY outbox_asks
         WHERE choices IS NOT NULL AND choices ->> '$.ask' = ?1 ORDER BY id DESC LIMIT 1",
    )?;
    match first(id, [ask], |row| Ok(DeliveryId(row.get(0)?)))? {
        Some(id) => outbox::one(db, id),
        None => Ok(None),
    }
}

/// The choices of a delivery wait for no answer any more.
pub(super) fn over(db: &Connection, delivery: DeliveryId) -> Outcome<()> {
    change_one(db, "UPDATE outbox SET asking = 0 WHERE id = ?1", [delivery.0], || format!("delivery {delivery}"))
}

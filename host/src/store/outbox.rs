//! What is owed: transactions (d) and (e), and the operator's hand on dead letters.

use hermes_core::ids::{DeliveryId, Epoch};

use super::{DeliveryFilter, NewDelivery, OwedDelivery, Result, Settle, Settled, Store};

impl Store {
    /// Owes what the host itself says (`send`, notices).
    pub async fn owe(&self, delivery: NewDelivery) -> Result<DeliveryId> {
        todo!()
    }

    /// (e) Marks a part as being sent, before the call is made.
    pub async fn claim(&self, delivery: DeliveryId, n: u32, epoch: Epoch, attempt: u32) -> Result<()> {
        todo!()
    }

    /// (d) Writes what became of a part and what it causes.
    pub async fn settle(&self, settle: Settle) -> Result<Settled> {
        todo!()
    }

    /// Owes the refused, abandoned and doubtful parts of a delivery anew, for as long as they were owed at first.
    pub async fn outbox_retry(&self, delivery: DeliveryId) -> Result<OwedDelivery> {
        todo!()
    }

    /// Gives up what is still open of a delivery.
    pub async fn outbox_drop(&self, delivery: DeliveryId, why: &str) -> Result<()> {
        todo!()
    }

    /// Lists deliveries with their parts, newest first.
    pub async fn deliveries(&self, filter: DeliveryFilter) -> Result<Vec<OwedDelivery>> {
        todo!()
    }

    /// Returns one delivery with its parts.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<OwedDelivery>> {
        todo!()
    }

    /// Lists what is owed, oldest first.
    pub async fn owed(&self, limit: u32) -> Result<Vec<OwedDelivery>> {
        todo!()
    }
}

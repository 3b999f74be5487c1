//! What came in: transactions (a) and (f).

use hermes_core::ids::InboxId;

use super::{Accepted, NewInbox, PairingOffer, Result, Store};

impl Store {
    /// (a) Keeps an event, once: only after this may the platform forget it.
    pub async fn accept(&self, new: NewInbox) -> Result<Accepted> {
        todo!()
    }

    /// (f) Drops an accepted event: its text goes at once, its key stays. With `offer` the stranger's pairing
    /// request and what he is told are written too; returns the delivery of that reply.
    pub async fn drop_event(
        &self,
        inbox: InboxId,
        why: &str,
        offer: Option<PairingOffer>,
    ) -> Result<Option<hermes_core::ids::DeliveryId>> {
        todo!()
    }
}

//! What a dead epoch left behind: transaction (i).

use hermes_core::ids::Epoch;

use super::{Recovery, Result, Store};

impl Store {
    /// (i) Takes over what dead epochs left: their running turns become `queued`, their parts in flight
    /// `unknown`. Called once, after open and before the first event.
    pub async fn recover(&self, epoch: Epoch, now_ms: i64) -> Result<Recovery> {
        todo!()
    }
}

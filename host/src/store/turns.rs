//! Turns: transactions (b) and (c).

use hermes_core::ids::{DeliveryId, Epoch, TurnId};

use super::{Admit, EndTurn, Result, Store};

impl Store {
    /// (b) Starts a turn: opens its session and route where given, marks its events `turned`.
    pub async fn admit(&self, admit: Admit) -> Result<TurnId> {
        todo!()
    }

    /// (c) Ends a turn: transcript, deliveries and their parts, its events `answered`. A `queued` turn can only fail or be interrupted.
    pub async fn end_turn(&self, end: EndTurn) -> Result<Vec<DeliveryId>> {
        todo!()
    }

    /// Starts a `queued` turn again in this epoch; returns how often it was started by now.
    pub async fn resume_turn(&self, turn: TurnId, epoch: Epoch) -> Result<u32> {
        todo!()
    }
}

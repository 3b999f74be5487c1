//! The recovery of a lane from a fault of its own.
//!
//! The current message is closed with a notice, because it would cause the fault again; so is the running turn. All
//! other messages still wait in their order and are processed next.

use hermes_core::guard::Guard;
use hermes_protocol::{Purpose, Usage};

use super::{Lane, Waiting};
use crate::engine::context::{Heard, Urge};
use hermes_store::{CommandTx, EndTurn, StoreError, TurnEnd};

/// The notice for the chat.
const BROKEN: &str = "The host failed on this message. Your conversation is intact; please try again or rephrase it.";

impl Lane {
    /// Continues after a fault.
    pub(super) async fn heal(&mut self) {
        tracing::error!(session = %self.session, heals = self.heals, "session actor failed; continuing with the waiting messages");
        self.memory.forget();
        if let Some(mut running) = self.running.take() {
            let asks = running.asks.take_all();
            running.abandon();
            self.close_asks(asks).await;
        }
        if let Some(compressing) = self.compressing.take() {
            self.not_compressed(compressing, "the host failed meanwhile").await;
        }
        self.close_written().await;
        self.close_in_hand().await;
        self.guard = Guard::new(self.limits.queue_max, self.limits.windows);
        // A turn that waits for its adapter comes first, as before.
        let resuming = self.resuming.take().map(|(turn, events)| Waiting::CutOff(turn, events));
        let waiting = std::mem::take(&mut self.waiting);
        for waiting in resuming.into_iter().chain(waiting.into_values()) {
            self.wait_again(waiting).await;
        }
    }

    /// Ends the turn that is stored as running, so that another one can start.
    async fn close_written(&mut self) {
        let Some((turn, place)) = self.written.take() else { return };
        if self.in_hand.as_ref().is_some_and(|held| held.inbox == place.inbox) {
            self.in_hand = None;
        }
        let end = EndTurn {
            turn,
            state: TurnEnd::Failed,
            error: Some("the session actor failed".to_owned()),
            session: self.session.clone(),
            messages: Vec::new(),
            deliveries: vec![place.say(&self.host, Purpose::Notice, BROKEN.to_owned()).await],
            usage: Usage::default(),
            agent_state: None,
            observed: None,
            now_ms: self.host.now_ms(),
        };
        match self.host.store.end_turn(end.clone()).await {
            Ok(ids) => self.host.carry(ids, end.deliveries).await,
            // The end was written before the fault.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => tracing::error!(%turn, %error, "end of a turn could not be committed"),
        }
    }

    /// Answers the current message, unless it waits or was answered before the fault.
    async fn close_in_hand(&mut self) {
        let Some(place) = self.in_hand.take() else { return };
        if self.waiting.contains_key(&place.inbox) {
            return;
        }
        let reply = vec![place.say(&self.host, Purpose::Notice, BROKEN.to_owned()).await];
        let (inbox, now_ms) = (Some(place.inbox), self.host.now_ms());
        let order = CommandTx { inbox, changes: Vec::new(), reply, now_ms };
        match self.host.store.command(order.clone()).await {
            Ok(ids) => self.host.carry(ids, order.reply).await,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => tracing::error!(%error, "message that failed the session actor could not be answered"),
        }
    }

    /// Returns a waiting message to the guard, in order.
    async fn wait_again(&mut self, waiting: Waiting) {
        match waiting {
            Waiting::Heard(heard) => {
                // The sender was notified of the wait already.
                let heard = Box::new(Heard { urge: Urge::InOrder, ..*heard });
                if let Some(heard) = self.hear(heard).await {
                    self.refuse(vec![*heard]).await;
                }
            }
            Waiting::CutOff(turn, events) => self.wait_for_its_turn(turn, 0, events).await,
        }
    }
}

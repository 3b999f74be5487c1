//! Settled parts of deliveries that ask a question.
//!
//! A question counts as asked once all of its parts have a receipt; from then on, text can answer it. A question with a
//! part that will not arrive cannot be answered, and its waiting turn is notified at once instead of at the timeout.
//! The dispatcher keeps the list of open questions and is notified of both events.

use hermes_core::ids::DeliveryId;
use hermes_protocol::Receipt;

use super::job::Job;
use crate::engine::approvals;
use crate::engine::messages::{DeliveryNews, HostEvent};
use crate::engine::outbox::queue::{OutboxLane, Which};
use crate::engine::runtime::Host;
use hermes_store::{OwedDelivery, PartState};

impl OutboxLane {
    /// Reports that the last part of a question arrived, before its receipt is written. Text that comes after this
    /// report answers the question.
    pub(super) async fn note_arrival(&mut self, which: Which, state: &PartState) {
        let Some(job) = self.job(which).filter(|job| job.delivery.choices.is_some()) else { return };
        let Some(receipt) = arrived(job, state) else { return };
        let ask = job.delivery.choices.as_ref().map(|choices| choices.ask.clone()).unwrap_or_default();
        let chat = job.delivery.chat.clone();
        self.host.tell(HostEvent::Delivery(DeliveryNews::Asked { ask, chat, receipt })).await;
    }

    /// Reports a part of a question after its settlement is written.
    pub(super) async fn note_asked(&mut self, which: Which, state: &PartState) {
        let host = self.host.clone();
        let Some(job) = self.job(which).filter(|job| job.delivery.choices.is_some()) else { return };
        match state {
            PartState::Delivered { .. } if arrived(job, state).is_some() => {
                let id = job.id();
                approvals::take_buttons_away(&host, id).await;
            }
            PartState::Refused { kind, detail } => {
                let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
                not_asked(&host, &job.delivery, &format!("refused ({kind}){detail}")).await;
            }
            PartState::Abandoned { why } => not_asked(&host, &job.delivery, why).await,
            _ => {}
        }
    }

    /// Reports an abandoned delivery of which only the id is known.
    pub(super) async fn note_given_up(&self, id: DeliveryId, why: &str) {
        match self.host.store.posed(id).await {
            Ok(Some(posed)) => not_asked(&self.host, &posed.delivery, why).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(delivery = %id, %error, "question of a failed delivery could not be read; its turn may wait until the timeout")
            }
        }
    }
}

/// Reports that a question will not be asked, if a delivery asks one.
pub async fn not_asked(host: &Host, delivery: &OwedDelivery, why: &str) {
    if let Some(choices) = &delivery.choices {
        let (ask, why) = (choices.ask.clone(), why.to_owned());
        host.tell(HostEvent::Delivery(DeliveryNews::NotAsked { ask, why })).await;
    }
}

/// Returns the messages of a delivery whose next part ends with `state`; `None`: it is not the last part, or another
/// part did not arrive.
fn arrived(job: &Job, state: &PartState) -> Option<Receipt> {
    let mut all = Receipt::default();
    let last = job.delivery.parts.last()?.n;
    for part in job.delivery.parts.iter().filter(|part| part.n > 0) {
        let state = if part.n == job.part().n { state } else { &part.state };
        let PartState::Delivered { receipt } = state else { return None };
        all.message_ids.extend(receipt.message_ids.iter().cloned());
        all.at_ms = receipt.at_ms;
    }
    (job.part().n == last).then_some(all)
}

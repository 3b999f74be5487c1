//! What an earlier life of the host left behind goes on its way, before anything new.
//!
//! The order matters: cut-off turns first, so that each is at the head of its session;
//! then the events that wait, in the order in which they came; then what is owed, in
//! the order in which it was decided. Adapters are heard only after that.

use std::sync::Arc;

use hermes_protocol::Event;

use crate::events::{Control, DeliveryNews, HostEvent, Inbound};
use crate::host::Host;
use crate::store::{Change, CommandTx, StoreError};

/// How much an earlier life of the host left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Turns that were cut off.
    pub cut_off: usize,
    /// Events that wait for a turn.
    pub pending: usize,
    /// Deliveries that are owed.
    pub owed: usize,
}

/// Reads what is left and hands it to the dispatcher, then lets adapters be heard.
///
/// # Errors
///
/// When the store cannot be read; the host must not start then.
pub async fn recover(host: &Arc<Host>) -> Result<Found, StoreError> {
    let left = host.store.recover(host.epoch, host.now_ms()).await?;
    let found = Found { cut_off: left.cut_off.len(), pending: left.pending.len(), owed: left.deliveries.len() };
    for cut_off in left.cut_off {
        host.tell(HostEvent::control(Control::Resume(cut_off))).await;
    }
    let mut unreadable = Vec::new();
    for row in left.pending {
        match serde_json::from_str::<Box<Event>>(&row.event) {
            Ok(event) => {
                let instance = Arc::from(row.instance);
                host.tell(HostEvent::Inbound(Inbound { id: row.id, instance, event, input: row.input, permit: None }))
                    .await;
            }
            Err(error) => {
                tracing::error!(inbox = %row.id, %error, "an event in the inbox cannot be read");
                unreadable.push(row.id);
            }
        }
    }
    if !unreadable.is_empty() {
        let changes = vec![Change::DropInbox { ids: unreadable, why: "cannot be read".to_owned() }];
        host.store.command(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: host.now_ms() }).await?;
    }
    for delivery in left.deliveries {
        host.tell(HostEvent::Delivery(DeliveryNews::Owed(Box::new(delivery)))).await;
    }
    // A first piece that was on its way is resolved now; the resumed turn goes on from there.
    for draft in left.drafts {
        host.tell(HostEvent::Delivery(DeliveryNews::Owed(Box::new(draft)))).await;
    }
    host.recovered.cancel();
    Ok(found)
}

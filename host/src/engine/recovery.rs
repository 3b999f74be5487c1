//! Recovery: the work of an earlier run is resumed before any new event.
//!
//! The order matters. Owed deliveries come first, in the order of their decisions, so that they precede any answer to a
//! later message. Interrupted turns follow, so that each is first in its session; then waiting events, in the order of
//! their arrival. Events of adapters are accepted only after that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_core::ids::{DeliveryId, InboxId, TurnId};
use hermes_protocol::Event;
use serde_json::Value;

use crate::engine::approvals;
use crate::engine::background::tasks;
use crate::engine::background::wakeups;
use crate::engine::dispatcher::pairing;
use crate::engine::handoff;
use crate::engine::messages::{Control, DeliveryNews, HostEvent, Inbound};
use crate::engine::runtime::Host;
use hermes_store::{Change, CommandTx, InboxRow, Left, StoreError};

/// The amount of work that an earlier run left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Interrupted turns.
    pub cut_off: usize,
    /// Events that wait for a turn.
    pub pending: usize,
    /// Owed deliveries.
    pub owed: usize,
}

/// Reads the left work in bounded batches and hands it to the dispatcher; then lets the adapters' events in.
///
/// # Errors
///
/// Fails if the store cannot be read; the host must not start then.
pub async fn recover(host: &Arc<Host>) -> Result<Found, StoreError> {
    let left = host.store.recover(host.epoch, host.now_ms()).await?;
    approvals::close_all(host).await?;
    handoff::take_up(host, left.failed_handoffs.clone()).await?;
    let mut found = Found::default();
    let mut after = DeliveryId(0);
    // A first piece in flight is resolved at its position in the queue; the resumed turn continues from there.
    let mut drafts = left.drafts.iter().copied().peekable();
    loop {
        let batch = host.store.left_deliveries(&left, after).await?;
        let Some(last) = batch.last() else { break };
        after = last.id;
        found.owed += batch.len();
        for delivery in batch {
            while let Some(draft) = drafts.next_if(|draft| *draft < delivery.id) {
                line_up_draft(host, draft).await?;
            }
            host.tell(HostEvent::Delivery(DeliveryNews::Owed(Box::new(delivery)))).await;
        }
    }
    for draft in drafts {
        line_up_draft(host, draft).await?;
    }
    let mut after = TurnId(0);
    loop {
        let batch = host.store.left_turns(&left, after).await?;
        let Some(last) = batch.last() else { break };
        after = last.turn;
        found.cut_off += batch.len();
        for cut_off in batch {
            host.tell(HostEvent::control(Control::Resume(cut_off))).await;
        }
    }
    found.pending = hear_again(host, &left).await?;
    host.recovered.cancel();
    tokio::spawn(pairing::welcome(Arc::clone(host)));
    Ok(found)
}

/// Hands the first piece of a growing message to its lane.
async fn line_up_draft(host: &Arc<Host>, id: DeliveryId) -> Result<(), StoreError> {
    if let Some(draft) = host.store.delivery(id).await? {
        host.tell(HostEvent::Delivery(DeliveryNews::Owed(Box::new(draft)))).await;
    }
    Ok(())
}

/// Ends a drain; returns the number of events that have waited since it began.
///
/// # Errors
///
/// Fails if the store cannot be read.
pub async fn go_on(host: &Arc<Host>) -> Result<usize, StoreError> {
    host.rests.store(false, Ordering::Relaxed);
    host.tell(HostEvent::control(Control::UndrainLanes)).await;
    // Events that were left to the inbox before are in it by now. A lane recognizes an event that it has already.
    let left = host.store.left_by_now().await?;
    hear_again(host, &left).await
}

/// Processes accepted events that no turn has taken up, such as after a drain. Events that wait in a lane are skipped
/// there. Returns the number of events.
///
/// # Errors
///
/// Fails if the store cannot be read.
pub async fn hear_again(host: &Arc<Host>, left: &Left) -> Result<usize, StoreError> {
    let (mut after, mut heard) = (InboxId(0), 0);
    loop {
        let batch = host.store.left_events(left, after).await?;
        let Some(last) = batch.last() else { return Ok(heard) };
        after = last.id;
        heard += batch.len();
        hear(host, batch).await?;
    }
}

/// Hands events to the dispatcher as if they arrived now; unreadable ones are dropped.
async fn hear(host: &Arc<Host>, rows: Vec<InboxRow>) -> Result<(), StoreError> {
    let (mut unreadable, mut over) = (Vec::new(), Vec::new());
    for row in rows {
        match serde_json::from_str::<Box<Event>>(&row.event) {
            Ok(event) if row.wakes.is_some() => wakeups::due(host, row, *event).await,
            Ok(event) if tasks::is_run(&row) => {
                let inbox = row.id;
                if !tasks::run_again(host, row, *event).await? {
                    over.push(inbox);
                }
            }
            Ok(mut event) => {
                event.raw = Value::Null;
                let instance = Arc::from(row.instance);
                host.tell(HostEvent::Inbound(Inbound { id: row.id, instance, event, input: row.input, permit: None }))
                    .await;
            }
            Err(error) => {
                tracing::error!(inbox = %row.id, %error, "inbox event could not be read");
                unreadable.push(row.id);
            }
        }
    }
    for (ids, why) in [(unreadable, "cannot be read"), (over, "its task has ended")] {
        if ids.is_empty() {
            continue;
        }
        let changes = vec![Change::DropInbox { ids, why: why.to_owned() }];
        host.store.command(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: host.now_ms() }).await?;
    }
    Ok(())
}

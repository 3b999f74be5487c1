//! The outcome of a closed question.
//!
//! A question ends with one outcome. The outcome is stored with its delivery and shown in its message. The first
//! outcome counts; a later button press only makes the message show it again. If a question is answered during its
//! delivery, the later of the two, its answer or its receipt, removes the buttons.

use std::sync::Arc;

use hermes_core::approvals::Question;
use hermes_core::delivery::PartState;
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::session::is_dm;
use hermes_protocol::{Capabilities, Chat, Purpose};

use super::NO_LONGER_OPEN;
use crate::engine::context::compose;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::outbox::Target;
use crate::engine::runtime::Host;
use hermes_store::{Change, CommandTx, NewDelivery, OwedDelivery, Posed, StoreError};

/// A closed question.
#[derive(Debug)]
pub struct Over {
    /// Its id.
    pub id: String,
    /// The instance through which it was asked.
    pub instance: String,
    /// The chat of its message.
    pub chat: Chat,
    /// Its session.
    pub session: Option<SessionId>,
    /// Its outcome.
    pub outcome: String,
    /// True if the outcome is sent as a message if the question's message cannot be edited.
    pub says: bool,
    /// The event that answered the question, which this outcome answers.
    pub inbox: Option<InboxId>,
    /// The changes of the same transaction.
    pub changes: Vec<Change>,
}

impl Over {
    /// Creates the outcome of a question with nothing else to report.
    pub fn of(question: &Question, outcome: String, says: bool) -> Self {
        Self {
            id: question.id.clone(),
            instance: question.instance.clone(),
            chat: question.chat.clone(),
            session: Some(question.session.clone()),
            outcome,
            says,
            inbox: None,
            changes: Vec::new(),
        }
    }
}

/// Removes the buttons of a question and shows the outcome in its message, or else sends the outcome. One transaction
/// with the changes.
pub async fn close(host: &Arc<Host>, over: Over) {
    let posed = match host.store.open_ask(&over.id).await {
        Ok(posed) => posed,
        Err(error) => {
            tracing::error!(ask = over.id, %error, "question could not be read; its buttons may remain");
            None
        }
    };
    if let Some(posed) = &posed {
        withdraw(host, posed).await;
    }
    let has_buttons = has(host, &over.instance, |can| can.buttons);
    let message = posed.as_ref().filter(|_| has_buttons).and_then(message_of);
    // A message in flight shows the outcome once it has arrived.
    let is_coming = posed.as_ref().filter(|_| has_buttons).is_some_and(is_in_flight);
    let is_shown = message.is_some();
    let mut changes = over.changes;
    changes.extend(posed.as_ref().map(|posed| Change::AskOver { delivery: posed.id, outcome: over.outcome.clone() }));
    let mut reply = Vec::new();
    if let (Some(posed), Some(message)) = (&posed, message) {
        reply.push(ended(host, posed, &over.outcome, message).await);
    } else if over.says && !is_coming {
        let mut delivery = compose(host, &over.instance, over.chat, Purpose::Notice, over.outcome).await;
        delivery.session = over.session;
        reply.push(delivery);
    }
    let order = CommandTx { inbox: over.inbox, changes, reply, now_ms: host.now_ms() };
    if order.inbox.is_none() && order.changes.is_empty() && order.reply.is_empty() {
        return;
    }
    if let Some(ids) = host.until_written("the end of a question", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
    if let Some(posed) = posed.filter(|_| !is_shown) {
        take_buttons_away(host, posed.id).await;
    }
}

/// Removes the buttons of a question that was closed before its arrival was known. Both sides check after their own
/// write: the later one finds both, and showing the outcome twice changes nothing.
pub async fn take_buttons_away(host: &Arc<Host>, delivery: DeliveryId) {
    let posed = host.store.posed(delivery).await.unwrap_or_else(|error| {
        tracing::error!(%delivery, %error, "question could not be read; its buttons may remain");
        None
    });
    let Some(Posed { delivery: posed, outcome: Some(outcome) }) = posed else { return };
    let message = message_of(&posed).filter(|_| has(host, &posed.instance, |can| can.buttons));
    let Some(message) = message else { return };
    let edit = ended(host, &posed, &outcome, message).await;
    if let Some(id) = host.until_written("the end of a question", || host.store.owe(edit.clone())).await {
        host.carry(vec![id], vec![edit]).await;
    }
}

/// Builds the edit that shows the outcome in the message of a question.
async fn ended(host: &Arc<Host>, posed: &OwedDelivery, outcome: &str, message: String) -> NewDelivery {
    let text = format!("{}\n\n{outcome}", posed.markdown);
    let mut delivery = compose(host, &posed.instance, posed.chat.clone(), Purpose::Notice, text).await;
    delivery.edits = Some(message);
    delivery.session = posed.session.clone();
    delivery
}

fn has(host: &Arc<Host>, instance: &str, can: impl Fn(&Capabilities) -> bool) -> bool {
    host.adapter(instance).is_some_and(|adapter| can(&adapter.capabilities()))
}

/// A button press for a question that is not open.
#[derive(Debug)]
pub struct Stale {
    /// The question that the event names.
    pub ask: String,
    /// The instance of the event.
    pub instance: Arc<str>,
    /// The chat of the event.
    pub chat: Chat,
    /// The message that the event names.
    pub message: Option<String>,
    /// The id of the sender who pressed.
    pub by: String,
    /// True if the sender is notified if no button can be removed.
    pub tells: bool,
    /// The event.
    pub inbox: InboxId,
}

/// Answers a button press for a question that is not open: its message shows the outcome again. The event only claims
/// to name a message: a message that was not sent with this question stays as it is, and a question that is being
/// closed is left to that caller.
pub async fn stale(host: &Arc<Host>, press: Stale) {
    let posed = host.store.asked(&press.ask).await.unwrap_or_else(|error| {
        tracing::error!(ask = press.ask, %error, "question could not be read; its buttons may remain");
        None
    });
    let posed = posed.filter(|posed| carries(&posed.delivery, &press));
    let can_say = has(host, &press.instance, |can| can.edit);
    let message = posed.as_ref().and_then(|posed| message_of(&posed.delivery)).filter(|_| can_say);
    let mut reply = Vec::new();
    match (posed, message) {
        (Some(Posed { delivery: posed, outcome: Some(outcome) }), Some(message)) => {
            let mut edit = ended(host, &posed, &outcome, message).await;
            edit.in_reply_to = Some(press.inbox);
            reply.push(edit);
        }
        _ if press.tells => {
            let is_private = is_dm(&press.chat.kind) || press.by.is_empty();
            let words = NO_LONGER_OPEN.to_owned();
            let mut delivery = compose(host, &press.instance, press.chat, Purpose::Notice, words).await;
            delivery.in_reply_to = Some(press.inbox);
            delivery.ephemeral_to = (!is_private).then_some(press.by);
            reply.push(delivery);
        }
        _ => {}
    }
    let order = CommandTx { inbox: Some(press.inbox), changes: Vec::new(), reply, now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("a late button press", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}

/// Returns whether the pressed message belongs to the question.
fn carries(posed: &OwedDelivery, press: &Stale) -> bool {
    let is_there = |id: &String| {
        posed.parts.iter().any(|part| match &part.state {
            PartState::Delivered { receipt } => receipt.message_ids.contains(id),
            _ => false,
        })
    };
    *posed.instance == *press.instance && posed.chat == press.chat && press.message.as_ref().is_some_and(is_there)
}

/// Closes the questions of an earlier run of the host, for which no turn waits any more.
///
/// # Errors
///
/// Fails if the store cannot be read; the host must not start then.
pub async fn close_all(host: &Arc<Host>) -> Result<(), StoreError> {
    let mut after = DeliveryId(0);
    loop {
        let batch = host.store.open_asks(after).await?;
        let Some(last) = batch.last() else { return Ok(()) };
        after = last.id;
        for posed in batch {
            // The form of the message is known once its adapter is.
            let shown = message_of(&posed).and_then(|_| host.adapter(&posed.instance));
            let shown = shown.filter(|adapter| adapter.capabilities().buttons);
            match shown {
                None => close(host, left_open(posed)).await,
                Some(adapter) => {
                    let host = Arc::clone(host);
                    tokio::spawn(async move {
                        if host.parking.run_until_cancelled(adapter.online()).await.is_some() {
                            close(&host, left_open(posed)).await;
                        }
                    });
                }
            }
        }
    }
}

fn left_open(posed: OwedDelivery) -> Over {
    Over {
        id: posed.choices.map(|choices| choices.ask).unwrap_or_default(),
        instance: posed.instance,
        chat: posed.chat,
        session: posed.session,
        outcome: format!("{NO_LONGER_OPEN} The host has restarted since."),
        says: false,
        inbox: None,
        changes: Vec::new(),
    }
}

/// Returns the id of the platform message with the buttons, if it is known to have arrived.
fn message_of(posed: &OwedDelivery) -> Option<String> {
    match &posed.parts.last()?.state {
        PartState::Delivered { receipt } => receipt.message_ids.last().cloned(),
        _ => None,
    }
}

fn is_in_flight(posed: &OwedDelivery) -> bool {
    posed.parts.iter().any(|part| matches!(part.state, PartState::InFlight { .. }))
}

/// Withdraws a question that nobody has seen yet.
async fn withdraw(host: &Arc<Host>, posed: &OwedDelivery) {
    // A part in flight loses its buttons if it arrives.
    if !posed.state.is_live() || is_in_flight(posed) {
        return;
    }
    match host.store.ask_withdraw(posed.id).await {
        Ok(()) => {
            let target = Target::of(&posed.instance, &posed.chat);
            host.tell(HostEvent::control(Control::Refresh { target, owed: None, id: posed.id })).await;
        }
        // The delivery was settled meanwhile, or is being sent.
        Err(StoreError::Conflict { .. }) => {}
        Err(error) => tracing::warn!(delivery = %posed.id, %error, "closed question may still be sent"),
    }
}

//! Deliveries to a chat other than the origin of their event: services call and do not wait, and their adapter names
//! the destination ([`Deliver`]).
//!
//! Nothing is lost. If an adapter cannot be asked about a chat at present, the chat is used as written, and its
//! deliveries wait in the outbox. A delivery without any chat stays with the adapter of the event, with the reason
//! before its text.

use std::sync::Arc;

use hermes_core::access::Trust;
use hermes_core::delivery::Target;
use hermes_core::ids::InboxId;
use hermes_protocol::{Chat, Deliver, Event, Purpose};

use crate::engine::attachments::outgoing;
use crate::engine::context::{Place, compose};
use crate::engine::messages::Permit;
use crate::engine::runtime::Host;
use crate::engine::targets;
use crate::engine::targets::{Address, Destination};
use hermes_loader::AdapterHandle;
use hermes_store::{CommandTx, NewDelivery};

/// Returns the destination that the event names, if its adapter may name one.
pub fn wanted<'e>(adapter: Option<&AdapterHandle>, event: &'e Event) -> Option<&'e Deliver> {
    let vouches = |adapter: &AdapterHandle| Trust::of(adapter.trusted(), &adapter.capabilities()) == Trust::Upstream;
    event.deliver.as_ref().filter(|_| adapter.is_some_and(vouches))
}

/// Renders the agent's answer, with the files that it names, for its destination.
pub async fn answer(host: &Host, place: &Place, deliver: &Deliver, reply: String) -> NewDelivery {
    let (address, why) = find(host, place, &deliver.to).await;
    let (text, files) = outgoing::from_reply(host, &address.instance, &place.session, reply).await;
    let text = explained(text, why);
    let Address { instance, chat } = address;
    let delivery = outgoing::with_files(host, &instance, chat, Purpose::Reply, text, files).await;
    of(place, delivery)
}

/// An event whose text is forwarded unchanged.
#[derive(Debug)]
pub struct PassedOn {
    /// The row of the event.
    pub inbox: InboxId,
    /// The origin and the destination.
    pub place: Place,
    /// The text. Its author is not the agent, so the files that it names are not opened.
    pub text: String,
    /// The slot in the queue.
    pub permit: Permit,
}

/// Sends the text of an event to its destination. The next start finds an unwritten event again.
pub async fn pass_on(host: Arc<Host>, passed: PassedOn) {
    let PassedOn { inbox, place, text, permit } = passed;
    let Some(deliver) = &place.deliver else { return };
    let (Address { instance, chat }, why) = find(&host, &place, &deliver.to).await;
    let mut delivery = compose(&host, &instance, chat, Purpose::Reply, explained(text, why)).await;
    if stays(&delivery, &place) {
        delivery.in_reply_to = Some(inbox);
    }
    let order = CommandTx { inbox: Some(inbox), changes: Vec::new(), reply: vec![delivery], now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("a forwarded text", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
    drop(permit);
}

/// Adds the facts about the event. Only the adapter of the event knows its number.
fn of(place: &Place, mut delivery: NewDelivery) -> NewDelivery {
    delivery.session = Some(place.session.clone());
    if stays(&delivery, place) {
        delivery.in_reply_to = Some(place.inbox);
    }
    delivery
}

fn stays(delivery: &NewDelivery, place: &Place) -> bool {
    *delivery.instance == *place.instance && delivery.chat == place.chat
}

/// Returns the destination, and the reason if it is not the requested one.
async fn find(host: &Host, place: &Place, to: &str) -> (Address, Option<String>) {
    let origin = Address { instance: place.instance.to_string(), chat: place.chat.clone() };
    if matches!(to.parse(), Ok(Target::Origin | Target::Local)) {
        return (origin, None);
    }
    let why = match targets::resolve(host, to, None).await {
        Ok(Destination::Chat(address)) => return (address, None),
        Ok(Destination::Local) => return (origin, None),
        Err(why) => why,
    };
    if let Some(address) = as_written(host, to) {
        tracing::warn!(instance = %place.instance, chat = %place.chat.id, to, "delivery waits for its target: {why}");
        return (address, None);
    }
    tracing::warn!(instance = %place.instance, chat = %place.chat.id, to, "target not found, so the reply goes to the chat of origin: {why}");
    (origin, Some(format!("(not delivered to {to:?}: {why})")))
}

/// Returns the chat as written if its instance is offline or not started yet, because deliveries can wait for it.
fn as_written(host: &Host, to: &str) -> Option<Address> {
    let target: Target = to.parse().ok()?;
    let (Target::Place { instance, .. } | Target::Home { instance }) = &target else { return None };
    let adapter = host.adapter(instance);
    if adapter.as_ref().is_some_and(|one| one.is_online() || !one.capabilities().supports_async_delivery) {
        return None;
    }
    let chat = match &target {
        Target::Place { place, .. } => targets::literal(adapter.as_ref(), place),
        _ => configured_home(host, adapter.as_ref(), instance)?,
    };
    Some(Address { instance: instance.clone(), chat })
}

fn configured_home(host: &Host, adapter: Option<&AdapterHandle>, instance: &str) -> Option<Chat> {
    let live = host.live();
    let home = live.config.adapters.get(instance)?.home_channel.as_ref().filter(|home| !home.chat.starts_with('@'))?;
    let mut chat = targets::literal(adapter, &home.chat);
    if home.thread.is_some() {
        chat.thread.clone_from(&home.thread);
    }
    Some(chat)
}

fn explained(text: String, why: Option<String>) -> String {
    match why {
        Some(why) => format!("{why}\n\n{text}"),
        None => text,
    }
}

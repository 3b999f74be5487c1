//! What follows from an event may go somewhere else than back to its chat: services call and do not wait, and their
//! adapter says where the answer goes ([`Deliver`]).
//!
//! Nothing is lost on the way. A chat that an adapter cannot be asked about for now is taken as it is written, and what
//! goes there waits in the outbox. What leads to no chat at all stays with the adapter that brought the event,
//! with the reason in front of it.

use std::sync::Arc;

use hermes_core::access::Trust;
use hermes_core::delivery::Target;
use hermes_core::ids::InboxId;
use hermes_protocol::{Chat, Deliver, Event, Purpose};

use crate::context::{Place, compose};
use crate::enclose;
use crate::events::Permit;
use crate::host::Host;
use crate::plugins::AdapterHandle;
use crate::store::{CommandTx, NewDelivery};
use crate::targets::{self, Address, Destination};

/// Where what follows from this event goes, if its adapter may say so.
pub fn wanted<'e>(adapter: Option<&AdapterHandle>, event: &'e Event) -> Option<&'e Deliver> {
    let vouches = |adapter: &AdapterHandle| Trust::of(adapter.trusted(), &adapter.capabilities()) == Trust::Upstream;
    event.deliver.as_ref().filter(|_| adapter.is_some_and(vouches))
}

/// The agent's answer, with the files it names, to where it goes.
pub async fn answer(host: &Host, place: &Place, deliver: &Deliver, reply: String) -> NewDelivery {
    let (address, why) = find(host, place, &deliver.to).await;
    let (text, files) = enclose::from_reply(host, &address.instance, &place.session, reply).await;
    let text = explained(text, why);
    let Address { instance, chat } = address;
    let delivery = enclose::with_files(host, &instance, chat, Purpose::Reply, text, files).await;
    of(place, delivery)
}

/// An event whose text goes somewhere as it is.
#[derive(Debug)]
pub struct PassedOn {
    /// Its row.
    pub inbox: InboxId,
    /// Where it came from, and where it goes.
    pub place: Place,
    /// The text. Whoever wrote it is not the agent: what it names is not opened.
    pub text: String,
    /// Its place in the queue.
    pub permit: Permit,
}

/// Sends the text of an event to where it goes. What is not written is found again at the next start.
pub async fn pass_on(host: Arc<Host>, passed: PassedOn) {
    let PassedOn { inbox, place, text, permit } = passed;
    let Some(deliver) = &place.deliver else { return };
    let (Address { instance, chat }, why) = find(&host, &place, &deliver.to).await;
    let mut delivery = compose(&host, &instance, chat, Purpose::Reply, explained(text, why)).await;
    if stays(&delivery, &place) {
        delivery.in_reply_to = Some(inbox);
    }
    let order = CommandTx { inbox: Some(inbox), changes: Vec::new(), reply: vec![delivery], now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("a text that is passed on", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
    drop(permit);
}

/// What is kept of the event beside its answer: its own adapter knows its number, no other does.
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

/// Where it goes; and why not where it was to go.
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
        tracing::warn!(instance = %place.instance, chat = %place.chat.id, to, "what goes there waits: {why}");
        return (address, None);
    }
    tracing::warn!(instance = %place.instance, chat = %place.chat.id, to, "it is not delivered there, and stays here: {why}");
    (origin, Some(format!("(not delivered to {to:?}: {why})")))
}

/// The chat as it is written, where its instance is away or not there yet: what goes there can wait for it.
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

//! The writer for events that reach no session, so that the dispatcher need not wait.
//!
//! Drops are written in batches: one transaction for all notes that arrived during the previous one. An offer to an
//! unknown sender is a transaction of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_core::ids::InboxId;
use hermes_core::session::is_dm;
use hermes_protocol::{Chat, Purpose};
use tokio::sync::mpsc;

use crate::engine::context::compose;
use crate::engine::dispatcher::pairing::greet;
use crate::engine::messages::Permit;
use crate::engine::pairing_codes::STAND_IN;
use crate::engine::runtime::Host;
use hermes_store::{Change, CommandTx, Observed, PairingOffer, PairingRequestRow};

/// Largest number of notes in one batch.
const BATCH_MAX: usize = 256;

/// A pending write.
#[derive(Debug)]
pub enum Note {
    /// An event is dropped.
    Drop {
        /// The event.
        id: InboxId,
        /// The reason.
        why: &'static str,
        /// The slot in the queue.
        permit: Permit,
    },
    /// An event starts no turn and is kept as context.
    Observe {
        /// The event.
        id: InboxId,
        /// The instance of the event.
        instance: Arc<str>,
        /// The group.
        chat: Chat,
        /// The kept message.
        line: Observed,
        /// The slot in the queue.
        permit: Permit,
    },
    /// An unknown sender is offered a code, or receives no further reply.
    Offer {
        /// The event.
        id: InboxId,
        /// The instance of the event.
        instance: Arc<str>,
        /// The chat for the reply.
        chat: Chat,
        /// The updated request.
        request: PairingRequestRow,
        /// The text of the reply.
        words: String,
        /// The slot in the queue.
        permit: Permit,
    },
    /// An unknown sender sent a valid or a wrong code.
    Welcome {
        /// The event.
        id: InboxId,
        /// The instance of the event.
        instance: Arc<str>,
        /// The chat for the reply.
        chat: Chat,
        /// The changes of the same transaction.
        changes: Vec<Change>,
        /// The text of the reply.
        words: String,
        /// The slot in the queue.
        permit: Permit,
    },
    /// An event is answered with a text that only its sender needs to see.
    Tell {
        /// The event.
        id: InboxId,
        /// The instance of the event.
        instance: Arc<str>,
        /// The chat for the reply.
        chat: Chat,
        /// The text of the reply.
        words: String,
        /// The id of the recipient.
        to: String,
        /// The slot in the queue.
        permit: Permit,
    },
    /// A notice is sent to a chat.
    Say {
        /// The instance.
        instance: Arc<str>,
        /// The chat.
        chat: Chat,
        /// The text.
        words: String,
    },
    /// Other changes of the state in memory that have to be written.
    Changes(Vec<Change>),
}

/// Starts the clerk. The channel has no bound of its own: notes about events hold their permits.
pub fn start(host: Arc<Host>) -> mpsc::UnboundedSender<Note> {
    let (sender, notes) = mpsc::unbounded_channel();
    tokio::spawn(write_all(host, notes));
    sender
}

pub(crate) async fn write_all(host: Arc<Host>, mut notes: mpsc::UnboundedReceiver<Note>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while notes.recv_many(&mut batch, BATCH_MAX).await > 0 {
        // An event can arrive twice, such as after a drain. The second drop would make the whole batch fail, so the
        // event is dropped once.
        let mut dropped: BTreeMap<InboxId, &'static str> = BTreeMap::new();
        let mut changes = Vec::new();
        let mut permits = Vec::new();
        let mut observed = 0;
        for note in batch.drain(..) {
            match note {
                Note::Drop { id, why, permit } => {
                    dropped.entry(id).or_insert(why);
                    permits.push(permit);
                }
                Note::Observe { id, instance, chat, line, permit } => {
                    dropped.entry(id).or_insert("kept as context");
                    changes.push(vec![Change::Observe { instance: instance.to_string(), chat, line }]);
                    observed += 1;
                    permits.push(permit);
                }
                Note::Changes(more) => changes.push(more),
                Note::Welcome { id, instance, chat, changes, words, permit } => {
                    welcome(&host, id, &instance, chat, changes, words, None).await;
                    drop(permit);
                }
                Note::Tell { id, instance, chat, words, to, permit } => {
                    let to = Some(to).filter(|to| !is_dm(&chat.kind) && !to.is_empty());
                    welcome(&host, id, &instance, chat, Vec::new(), words, to).await;
                    drop(permit);
                }
                Note::Say { instance, chat, words } => say(&host, &instance, chat, words).await,
                Note::Offer { id, instance, chat, request, words, permit } => {
                    offer_code(&host, id, &instance, chat, request, words).await;
                    drop(permit);
                }
            }
        }
        let drops = dropped.into_iter().map(|(id, why)| Change::DropInbox { ids: vec![id], why: why.to_owned() });
        changes.extend(drops.map(|drop| vec![drop]));
        // An event may have been dropped with an earlier batch already. Then each note is written alone, so that the
        // others succeed.
        let together = changes.len() > 1 && write(&host, changes.concat()).await;
        for changes in changes.into_iter().filter(|_| !together) {
            write(&host, changes).await;
        }
        host.observing.written(observed);
    }
}

/// Writes changes, all or none; returns whether they were written. The next start finds the unwritten events again and
/// decides in the same way.
async fn write(host: &Arc<Host>, changes: Vec<Change>) -> bool {
    let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: host.now_ms() };
    host.until_written("dropped events", || host.store.command(order.clone())).await.is_some()
}

async fn offer_code(
    host: &Arc<Host>,
    id: InboxId,
    instance: &str,
    chat: Chat,
    request: PairingRequestRow,
    words: String,
) {
    let tells_code = words.contains(STAND_IN);
    let mut reply = compose(host, instance, chat, Purpose::Notice, words).await;
    reply.in_reply_to = Some(id);
    reply.code = tells_code.then(|| request.hash.clone());
    let offer = PairingOffer { request, reply: Some(reply.clone()) };
    let write = || host.store.drop_event(id, "a stranger", Some(offer.clone()));
    if let Some(Some(delivery)) = host.until_written("a pairing offer", write).await {
        host.carry(vec![delivery], vec![reply]).await;
    }
}

async fn say(host: &Arc<Host>, instance: &str, chat: Chat, words: String) {
    let said = compose(host, instance, chat, Purpose::Notice, words).await;
    if let Some(id) = host.until_written("a notice", || host.store.owe(said.clone())).await {
        host.carry(vec![id], vec![said]).await;
    }
}

async fn welcome(
    host: &Arc<Host>,
    id: InboxId,
    instance: &str,
    chat: Chat,
    changes: Vec<Change>,
    words: String,
    only_to: Option<String>,
) {
    let mut reply = compose(host, instance, chat, Purpose::Notice, words).await;
    reply.in_reply_to = Some(id);
    reply.ephemeral_to = only_to;
    let order = CommandTx { inbox: Some(id), changes, reply: vec![reply], now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("a new user", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
        greet(host, &order.changes);
    }
}

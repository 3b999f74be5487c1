//! Writes what became of events that reach no session, so that the dispatcher need not wait.
//!
//! Drops are written in batches, one transaction for all that came in while the last
//! was written; an offer to a stranger is a transaction of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_core::ids::InboxId;
use hermes_core::session::is_dm;
use hermes_protocol::{Chat, Purpose};
use tokio::sync::mpsc;

use crate::codes::STAND_IN;
use crate::context::compose;
use crate::events::Permit;
use crate::host::Host;
use crate::pairing::greet;
use crate::store::{Change, CommandTx, Observed, PairingOffer, PairingRequestRow};

/// Notes written together at most.
const BATCH_MAX: usize = 256;

/// Something to write.
#[derive(Debug)]
pub enum Note {
    /// An event leads to nothing.
    Drop {
        /// The event.
        id: InboxId,
        /// Why.
        why: &'static str,
        /// Its place in the queue.
        permit: Permit,
    },
    /// An event leads to no turn and is kept as context.
    Observe {
        /// The event.
        id: InboxId,
        /// The instance it came through.
        instance: Arc<str>,
        /// The group.
        chat: Chat,
        /// What is kept.
        line: Observed,
        /// Its place in the queue.
        permit: Permit,
    },
    /// A stranger is offered a code, or told nothing more.
    Offer {
        /// The event.
        id: InboxId,
        /// The instance it came through.
        instance: Arc<str>,
        /// Where to answer.
        chat: Chat,
        /// The request as it is from here on.
        request: PairingRequestRow,
        /// What is said.
        words: String,
        /// Its place in the queue.
        permit: Permit,
    },
    /// A stranger sent a code that lets them in, or a wrong one.
    Welcome {
        /// The event.
        id: InboxId,
        /// The instance it came through.
        instance: Arc<str>,
        /// Where to answer.
        chat: Chat,
        /// What changes with it.
        changes: Vec<Change>,
        /// What is said.
        words: String,
        /// Its place in the queue.
        permit: Permit,
    },
    /// An event is answered with words that only its sender needs to see.
    Tell {
        /// The event.
        id: InboxId,
        /// The instance it came through.
        instance: Arc<str>,
        /// Where to answer.
        chat: Chat,
        /// What is said.
        words: String,
        /// To whom.
        to: String,
        /// Its place in the queue.
        permit: Permit,
    },
    /// Something is said in a chat by itself.
    Say {
        /// The instance.
        instance: Arc<str>,
        /// Where.
        chat: Chat,
        /// What.
        words: String,
    },
    /// Something else changed in memory and has to be written.
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
        // What is heard twice, as after a rest, is dropped once: a second time would keep the whole batch from being written.
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
        // What was heard twice may have been dropped with an earlier batch: that costs no other note.
        let together = changes.len() > 1 && write(&host, changes.concat()).await;
        for changes in changes.into_iter().filter(|_| !together) {
            write(&host, changes).await;
        }
        host.observing.written(observed);
    }
}

/// Whether these are written, all or none. What is not is found again at the next start and decided alike.
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
    if let Some(Some(delivery)) = host.until_written("an offer to a stranger", write).await {
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

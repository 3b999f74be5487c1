//! The outbox: committed deliveries until they are settled. The host sends messages in no other way.
//!
//! A delivery is committed with all its parts before anything is sent. It then goes to the lane of its target
//! (instance, chat, thread), a task that the dispatcher creates on demand:
//!
//! * Parts are sent strictly in order, one at a time: claim → send → settle, where claim and settle are commits. A
//!   crash between them leaves a part that recovery finds as *unknown* and resolves by the class of the adapter.
//! * [`hermes_core::delivery::next_step`] decides what follows from an outcome; [`attempt`] only carries it out.
//! * A wait that the platform demands holds the chat or the whole instance ([`holds`]). A part that keeps failing on
//!   its own is deferred and retried alone ([`job`]).
//! * A growing message is committed with its first piece. Until its final text is owed, it is shown by edits that may
//!   be lost ([`growing`]).
//! * The delivery of a question reports when the question has arrived, or will not arrive ([`questions`]).
//! * A message that will not arrive is reported in its chat, once ([`report`]).
//! * A lane waits while its adapter is not online. Nothing is lost by waiting: the rows are in the store, and beyond
//!   [`queue::HELD_MAX`] only their ids are in memory.
//!
//! Other modules decide about the content of messages (see [`crate::engine::session::outcome`]) and render it ([`crate::engine::reply::render`]).

mod attempt;
mod budget;
pub mod growing;
pub mod holds;
mod job;
mod questions;
pub(crate) mod queue;
mod report;
mod split;

use std::sync::Arc;

use hermes_core::ids::DeliveryId;
use hermes_protocol::Chat;

pub use budget::HintKind;
pub use growing::Growing;
pub use growing::PARKED;
use hermes_store::{DeliveryState, NewDelivery, OwedDelivery, OwedPart, PartFacts, PartState};
pub use holds::{AllHolds, Holds};
pub use questions::not_asked;
pub use queue::OutboxLane;

/// The target of one lane: one chat and thread of one instance, whose deliveries are sent in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The instance.
    pub instance: Arc<str>,
    /// The id of the chat.
    pub chat: String,
    /// The thread of the chat.
    pub thread: Option<String>,
}

impl Target {
    /// Returns the target of deliveries to `chat`.
    pub fn of(instance: &str, chat: &Chat) -> Self {
        Self { instance: Arc::from(instance), chat: chat.id.clone(), thread: chat.thread.clone() }
    }
}

/// A message from the dispatcher to a lane.
#[derive(Debug)]
pub enum OutboxMessage {
    /// A delivery is committed and can be sent.
    Owed(Box<OwedDelivery>),
    /// The first piece of a growing message is committed and can be sent.
    Draft(Box<OwedDelivery>, Arc<Growing>),
    /// A growing message has new text.
    Grows(Arc<Growing>),
    /// A growing message has ended; the store has its owed parts.
    Grown(DeliveryId),
    /// The store has another state of this delivery: it starts again, or is no longer sent.
    Refresh(DeliveryId, Option<Box<OwedDelivery>>),
    /// The chat cannot be written to until it sends an event again.
    Dead(String),
    /// The chat continues under another id.
    Moved(Chat),
    /// The adapter may have been replaced.
    Look,
    /// The adapter has a link: parts that did not reach the platform are tried at once.
    Linked,
    /// Every job is tried at once, whatever it waits for.
    Now,
    /// Send what can be sent at once, then end.
    Drain,
}

/// Returns the delivery that `end_turn`, `command` or `owe` has just committed, as the store holds it.
pub fn owed(id: DeliveryId, new: NewDelivery, key: impl Fn(u32) -> String) -> OwedDelivery {
    let state = if new.is_draft() { DeliveryState::Drafting } else { DeliveryState::Owed };
    let parts = new
        .parts
        .into_iter()
        .map(|part| OwedPart {
            key: if part.key.is_empty() { key(part.n) } else { part.key },
            n: part.n,
            text: part.text,
            format: part.format,
            source: part.source,
            media: part.media,
            state: PartState::Owed,
            facts: PartFacts::default(),
            not_before_ms: 0,
            detail: None,
        })
        .collect();
    OwedDelivery {
        id,
        instance: new.instance,
        chat: new.chat,
        session: new.session,
        turn: new.turn,
        in_reply_to: new.in_reply_to,
        reply_to: new.reply_to,
        purpose: new.purpose,
        markdown: new.markdown,
        choices: new.choices,
        code: new.code,
        ephemeral_to: new.ephemeral_to,
        silent: new.silent,
        state,
        why: None,
        draft_message: new.edits,
        deadline_ms: new.deadline_ms,
        max_attempts: new.max_attempts,
        created_ms: new.created_ms,
        settled_ms: None,
        parts,
    }
}

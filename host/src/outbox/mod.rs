//! What is owed, until it is settled: the only way by which the host speaks.
//!
//! A delivery is committed with all its parts before anything is sent. It then goes
//! to the lane of its target (instance, chat, thread), a task that the dispatcher
//! makes on demand:
//!
//! * parts go strictly in order, one at a time: claim → send → settle, where claim
//!   and settle are commits; a crash between them leaves a part that recovery finds
//!   as *unknown* and resolves by the class of the adapter;
//! * what an outcome leads to is [`hermes_core::delivery::next_step`]; here it is
//!   only carried out ([`attempt`]);
//! * what a platform asked to wait for holds the chat or the whole instance
//!   ([`holds`]); a part that fails for its own sake steps aside after a while and is
//!   retried alone ([`job`]);
//! * a message that grows is committed with its first piece; what is shown of it before
//!   its final text is owed are edits that may be lost ([`growing`]);
//! * what asks a question says so when it is there, or will not be ([`asked`]);
//! * what will not arrive is reported in its chat, once ([`report`]);
//! * while the adapter is not online the lane waits, and nothing is lost by waiting:
//!   the rows are in the store, and beyond [`lane::HELD_MAX`] only their ids in memory.
//!
//! Not here: what is said and why (see [`crate::turn`]), and how it is rendered
//! ([`crate::render`]).

mod asked;
mod attempt;
mod budget;
pub mod growing;
pub mod holds;
mod job;
pub(crate) mod lane;
mod report;
mod split;

use std::sync::Arc;

use hermes_core::ids::DeliveryId;
use hermes_protocol::Chat;

use crate::store::{DeliveryState, NewDelivery, OwedDelivery, OwedPart, PartFacts, PartState};
pub use asked::not_asked;
pub use budget::HintKind;
pub use growing::Growing;
pub use growing::PARKED;
pub use holds::{AllHolds, Holds};
pub use lane::OutboxLane;

/// What one lane serves: everything for one chat and thread of one instance, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The instance.
    pub instance: Arc<str>,
    /// Id of the chat.
    pub chat: String,
    /// The thread in it.
    pub thread: Option<String>,
}

impl Target {
    /// The target of what goes to `chat`.
    pub fn of(instance: &str, chat: &Chat) -> Self {
        Self { instance: Arc::from(instance), chat: chat.id.clone(), thread: chat.thread.clone() }
    }
}

/// What the dispatcher tells a lane.
#[derive(Debug)]
pub enum OutboxMessage {
    /// A delivery is committed and wants to go.
    Owed(Box<OwedDelivery>),
    /// The first piece of a growing message is committed and wants to go.
    Draft(Box<OwedDelivery>, Arc<Growing>),
    /// A growing message has something new.
    Grows(Arc<Growing>),
    /// A growing message has ended; the store has what is owed of it.
    Grown(DeliveryId),
    /// A delivery is as the store has it: it begins anew, or goes no more.
    Refresh(DeliveryId, Option<Box<OwedDelivery>>),
    /// Nobody can write to this chat until it speaks again.
    Dead(String),
    /// The chat continues under another id.
    Moved(Chat),
    /// The adapter may be another one than before.
    Look,
    /// The adapter has a link: parts that did not reach the platform are tried at once.
    Linked,
    /// Everything is tried at once, whatever it waits for.
    Now,
    /// Send what can be sent at once, then end.
    Drain,
}

/// The delivery that `end_turn`, `command` or `owe` has just committed, as the store holds it.
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

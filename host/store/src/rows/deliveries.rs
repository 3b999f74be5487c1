//! Deliveries to chats and their outcomes.

use hermes_core::delivery::{PartFacts, PartState};
use hermes_core::ids::{DeliveryId, InboxId, SessionId, TurnId};
use hermes_protocol::{Chat, Choices, Format, OutMedia, Purpose};

use crate::words::DeliveryState;

use super::{DeadTargetRow, RouteRow};

/// A delivery to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDelivery {
    /// Instance that sends it.
    pub instance: String,
    /// Destination.
    pub chat: Chat,
    /// Session of the delivery.
    pub session: Option<SessionId>,
    /// Turn of the delivery; `None` is replaced by the turn that ends with it.
    pub turn: Option<TurnId>,
    /// Event that it answers.
    pub in_reply_to: Option<InboxId>,
    /// Platform message to which it replies.
    pub reply_to: Option<String>,
    /// Growing message that gets this text. If it is no longer growing, the delivery is sent as a new message.
    pub draft: Option<DeliveryId>,
    /// Platform message to be edited. If this is impossible, the delivery is sent as a new message.
    pub edits: Option<String>,
    /// Purpose of the delivery.
    pub purpose: Purpose,
    /// Text as house markdown.
    pub markdown: String,
    /// Rendered parts, numbered from 1 without gaps. A growing message has one part with number 0: its first
    /// piece.
    pub parts: Vec<NewPart>,
    /// Question, shown as buttons if the adapter supports them. Open until [`super::Change::AskOver`].
    pub choices: Option<Choices>,
    /// Hash of the pairing request whose code is sent; the stored text contains a placeholder.
    pub code: Option<String>,
    /// Only user who may see the message.
    pub ephemeral_to: Option<String>,
    /// Sends without a notification sound.
    pub silent: bool,
    /// Deadline, in Unix milliseconds.
    pub deadline_ms: i64,
    /// Highest number of attempts per part; `None` if only the deadline counts.
    pub max_attempts: Option<u32>,
    /// Current time, in Unix milliseconds.
    pub created_ms: i64,
}

impl NewDelivery {
    /// Returns true if the delivery begins a growing message.
    pub fn is_draft(&self) -> bool {
        self.parts.iter().any(|part| part.n == 0)
    }
}

/// A part to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPart {
    /// Number, from 1; 0 is the first piece of a growing message.
    pub n: u32,
    /// Rendered text.
    pub text: String,
    /// Format of the text.
    pub format: Format,
    /// Plain source of the text.
    pub source: String,
    /// Attached files.
    pub media: Vec<OutMedia>,
    /// Idempotency key; an empty one is replaced by [`crate::Store::part_key`].
    pub key: String,
}

impl NewPart {
    /// Creates part `n` with a plain text.
    pub fn plain(n: u32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { n, source: text.clone(), text, format: Format::Plain, media: Vec::new(), key: String::new() }
    }
}

/// A stored part of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct OwedPart {
    /// Number, from 1; 0 is the first piece of a growing message.
    pub n: u32,
    /// Rendered text.
    pub text: String,
    /// Format of the text.
    pub format: Format,
    /// Plain source of the text.
    pub source: String,
    /// Attached files.
    pub media: Vec<OutMedia>,
    /// Idempotency key.
    pub key: String,
    /// State of the part.
    pub state: PartState,
    /// History of the attempts.
    pub facts: PartFacts,
    /// Earliest time of the next attempt, in Unix milliseconds.
    pub not_before_ms: i64,
    /// Last reason for which the part did not arrive.
    pub detail: Option<String>,
}

/// A stored delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct OwedDelivery {
    /// Id of the delivery.
    pub id: DeliveryId,
    /// Instance that sends it.
    pub instance: String,
    /// Destination.
    pub chat: Chat,
    /// Session of the delivery.
    pub session: Option<SessionId>,
    /// Turn of the delivery.
    pub turn: Option<TurnId>,
    /// Event that it answers.
    pub in_reply_to: Option<InboxId>,
    /// Platform message to which it replies.
    pub reply_to: Option<String>,
    /// Purpose of the delivery.
    pub purpose: Purpose,
    /// Text as house markdown.
    pub markdown: String,
    /// Question.
    pub choices: Option<Choices>,
    /// Hash of the pairing request whose code is sent; the stored text contains a placeholder.
    pub code: Option<String>,
    /// Only user who may see the message.
    pub ephemeral_to: Option<String>,
    /// Sends without a notification sound.
    pub silent: bool,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Reason of a failure, for people.
    pub why: Option<String>,
    /// Platform id of the growing message, if it was sent.
    pub draft_message: Option<String>,
    /// Deadline, in Unix milliseconds.
    pub deadline_ms: i64,
    /// Highest number of attempts per part; `None` if only the deadline counts.
    pub max_attempts: Option<u32>,
    /// Time of creation, in Unix milliseconds.
    pub created_ms: i64,
    /// Time at which it was settled or abandoned, in Unix milliseconds.
    pub settled_ms: Option<i64>,
    /// Parts in order.
    pub parts: Vec<OwedPart>,
}

/// The filter of a listing of deliveries, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Shows only deliveries of this instance.
    pub instance: Option<String>,
    /// Shows only deliveries of this session.
    pub session: Option<SessionId>,
    /// Shows only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Shows only deliveries with a refused or abandoned part.
    pub dead: bool,
    /// Highest number of rows; 0 means [`crate::LISTING_ROWS_MAX`].
    pub limit: u32,
}

/// The result of one attempt, or of a decision about a part: transaction (d).
#[derive(Clone, Debug)]
pub struct Settle {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Number of the part.
    pub n: u32,
    /// New state.
    pub state: PartState,
    /// History of the attempts, including this one.
    pub facts: PartFacts,
    /// Earliest time of the next attempt, in Unix milliseconds; ignored for a final state.
    pub not_before_ms: i64,
    /// Last reason for which the part did not arrive, unless the state contains it.
    pub detail: Option<String>,
    /// Side effects.
    pub effects: Vec<Effect>,
    /// Replacements of part `n` and all later ones, numbered from `n`; only with `state: Owed`.
    pub parts: Option<Vec<NewPart>>,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

impl Settle {
    /// Creates a result without side effects.
    pub fn new(delivery: DeliveryId, n: u32, state: PartState, facts: PartFacts, now_ms: i64) -> Self {
        Self { delivery, n, state, facts, not_before_ms: 0, detail: None, effects: Vec::new(), parts: None, now_ms }
    }
}

/// Side effect of a settled part.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Marks the chat as unreachable until a message arrives from it.
    DeadTarget(DeadTargetRow),
    /// Marks the chat as reachable again.
    Revive {
        /// Instance of the chat.
        instance: String,
        /// The chat.
        chat: Chat,
    },
    /// Redirects all pending deliveries of the chat to its new id.
    Migrated {
        /// Instance of the chat.
        instance: String,
        /// Former chat.
        from: Chat,
        /// New chat.
        to: Chat,
        /// Old key and new row of each route to the chat.
        routes: Vec<(String, RouteRow)>,
    },
    /// Removes the thread from this delivery.
    ThreadGone,
    /// Records that the growing message can no longer be edited, so its text is sent as a new message.
    DraftGone,
    /// Queues the notice to the chat about a part that will not arrive.
    Report(Box<NewDelivery>),
    /// Removes the pairing request whose code was not sent.
    CodeUntold {
        /// Hash of the request.
        hash: String,
    },
}

/// The state of a delivery after one of its parts was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// True if no part of the delivery is open.
    pub over: bool,
    /// Delivery of an [`Effect::Report`].
    pub report: Option<DeliveryId>,
}

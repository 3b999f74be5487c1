//! What is owed to a chat, and what became of it.

use hermes_core::delivery::{PartFacts, PartState};
use hermes_core::ids::{DeliveryId, InboxId, SessionId, TurnId};
use hermes_protocol::{Chat, Choices, Format, OutMedia, Purpose};

use crate::store::words::DeliveryState;

use super::{DeadTargetRow, RouteRow};

/// A text the host decided to say.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDelivery {
    /// Instance that carries it.
    pub instance: String,
    /// Where to.
    pub chat: Chat,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The turn that said it; `end_turn` fills in its own where this is empty.
    pub turn: Option<TurnId>,
    /// The event it answers.
    pub in_reply_to: Option<InboxId>,
    /// The platform message it answers.
    pub reply_to: Option<String>,
    /// The growing message that becomes this; one that does not grow any more becomes nothing, and this is sent.
    pub draft: Option<DeliveryId>,
    /// The message on the platform that is to say this instead; where it cannot, this is sent.
    pub edits: Option<String>,
    /// Why it is said.
    pub purpose: Purpose,
    /// The text as house markdown.
    pub markdown: String,
    /// Its rendered parts, numbered from 1 without gaps; of a growing message one, number 0: its first piece.
    pub parts: Vec<NewPart>,
    /// What it asks; that waits for an answer until [`super::Change::AskOver`]. Buttons, where its adapter has some.
    pub choices: Option<Choices>,
    /// The hash of the pairing request whose code it tells; its text holds a stand-in.
    pub code: Option<String>,
    /// Only this sender may see it.
    pub ephemeral_to: Option<String>,
    /// Without a sound.
    pub silent: bool,
    /// When it is given up.
    pub deadline_ms: i64,
    /// How often a part is tried at most, where time alone does not decide.
    pub max_attempts: Option<u32>,
    /// Now.
    pub created_ms: i64,
}

impl NewDelivery {
    /// Whether it begins a growing message.
    pub fn is_draft(&self) -> bool {
        self.parts.iter().any(|part| part.n == 0)
    }
}

/// One part of a delivery to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPart {
    /// Number, from 1; 0 is the first piece of a growing message.
    pub n: u32,
    /// Rendered text.
    pub text: String,
    /// How it is written.
    pub format: Format,
    /// The plain text behind it.
    pub source: String,
    /// Files sent along.
    pub media: Vec<OutMedia>,
    /// Idempotency key; when empty the store writes [`crate::store::Store::part_key`].
    pub key: String,
}

impl NewPart {
    /// Part `n` that says `text` plainly.
    pub fn plain(n: u32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { n, source: text.clone(), text, format: Format::Plain, media: Vec::new(), key: String::new() }
    }
}

/// One part of a delivery as the store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct OwedPart {
    /// Number, from 1.
    pub n: u32,
    /// Rendered text.
    pub text: String,
    /// How it is written.
    pub format: Format,
    /// The plain text behind it.
    pub source: String,
    /// Files sent along.
    pub media: Vec<OutMedia>,
    /// Idempotency key.
    pub key: String,
    /// How far it got.
    pub state: PartState,
    /// What was tried so far.
    pub facts: PartFacts,
    /// Not to be tried before.
    pub not_before_ms: i64,
    /// What was last said about why it did not arrive.
    pub detail: Option<String>,
}

/// A delivery as the store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct OwedDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// Instance that carries it.
    pub instance: String,
    /// Where to.
    pub chat: Chat,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The turn that said it.
    pub turn: Option<TurnId>,
    /// The event it answers.
    pub in_reply_to: Option<InboxId>,
    /// The platform message it answers.
    pub reply_to: Option<String>,
    /// Why it is said.
    pub purpose: Purpose,
    /// The text as house markdown.
    pub markdown: String,
    /// What it asks.
    pub choices: Option<Choices>,
    /// The hash of the pairing request whose code it tells; its text holds a stand-in.
    pub code: Option<String>,
    /// Only this sender may see it.
    pub ephemeral_to: Option<String>,
    /// Without a sound.
    pub silent: bool,
    /// How far it got.
    pub state: DeliveryState,
    /// What went wrong, for people.
    pub why: Option<String>,
    /// The platform message a draft has become, where it has one.
    pub draft_message: Option<String>,
    /// When it is given up.
    pub deadline_ms: i64,
    /// How often a part is tried at most.
    pub max_attempts: Option<u32>,
    /// When it was owed.
    pub created_ms: i64,
    /// When it was settled or abandoned.
    pub settled_ms: Option<i64>,
    /// Its parts in order.
    pub parts: Vec<OwedPart>,
}

/// Which deliveries a listing shows, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Only those of this instance.
    pub instance: Option<String>,
    /// Only those of this session.
    pub session: Option<SessionId>,
    /// Only those in this state.
    pub state: Option<DeliveryState>,
    /// Only those of which a part was refused or abandoned.
    pub dead: bool,
    /// At most so many; 0 means [`crate::store::LISTING_ROWS_MAX`].
    pub limit: u32,
}

/// What one attempt, or a decision about a part, changes: transaction (d).
#[derive(Clone, Debug)]
pub struct Settle {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The part.
    pub n: u32,
    /// What it becomes.
    pub state: PartState,
    /// What was tried so far, this attempt included.
    pub facts: PartFacts,
    /// Not to be tried before; meaningless for a final state.
    pub not_before_ms: i64,
    /// What was last said about why it did not arrive, where the state itself has no place for it.
    pub detail: Option<String>,
    /// What else follows from it.
    pub effects: Vec<Effect>,
    /// Replaces part `n` and all after it, numbered from `n`; with `state: Owed` only.
    pub parts: Option<Vec<NewPart>>,
    /// Now.
    pub now_ms: i64,
}

impl Settle {
    /// Part `n` of `delivery` becomes `state`; nothing else follows.
    pub fn new(delivery: DeliveryId, n: u32, state: PartState, facts: PartFacts, now_ms: i64) -> Self {
        Self { delivery, n, state, facts, not_before_ms: 0, detail: None, effects: Vec::new(), parts: None, now_ms }
    }
}

/// What settling one part causes elsewhere.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Nobody can write to this chat until it speaks again.
    DeadTarget(DeadTargetRow),
    /// It spoke again.
    Revive {
        /// Instance of the chat.
        instance: String,
        /// The chat.
        chat: Chat,
    },
    /// The chat continues under another id: whatever is owed to it goes there.
    Migrated {
        /// Instance of the chat.
        instance: String,
        /// Its old descriptor.
        from: Chat,
        /// Its new descriptor.
        to: Chat,
        /// Old key and new row of each route that leads there.
        routes: Vec<(String, RouteRow)>,
    },
    /// This delivery goes on without its thread.
    ThreadGone,
    /// What the message had grown to cannot be changed any more: its text is sent.
    DraftGone,
    /// The part will not arrive, and its chat learns of it by this delivery.
    Report(Box<NewDelivery>),
    /// Nobody was told the code of a pairing request: it is taken back.
    CodeUntold {
        /// The hash of the request.
        hash: String,
    },
}

/// What a settled part left of its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Whether no part of the delivery is open any more.
    pub over: bool,
    /// The delivery of an [`Effect::Report`].
    pub report: Option<DeliveryId>,
}

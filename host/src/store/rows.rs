//! What goes into the store and what comes out of it, as plain values.
//!
//! `New…` is written by the caller, `…Row` is read back. Times are milliseconds
//! since the Unix epoch. Nothing here knows SQL.

use std::collections::BTreeMap;

use hermes_agent::Message;
use hermes_core::handoff::HandoffState;
use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId, TurnId};
use hermes_core::limits::{PAIRING_CODE_S, PAIRING_INTERVAL_S, RETENTION_DAYS, STRANGER_EVENTS_MAX};
use hermes_core::settings::SessionSettings;
use hermes_protocol::{Chat, Choices, Format, OutMedia, Purpose, Sender, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use hermes_core::access::Grant as GrantRow;
pub use hermes_core::delivery::{PartFacts, PartState};
pub use hermes_core::pairing::{Lockout as LockoutRow, Offered as OfferedRow, PairingRequest as PairingRequestRow};

pub use super::words::{DeliveryState, InboxState, Lineage, TurnEnd};

/// What the dispatcher keeps in memory, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Every route.
    pub routes: Vec<RouteRow>,
    /// Access granted by the operator.
    pub grants: Vec<GrantRow>,
    /// Open requests of strangers and codes handed out by admins.
    pub pairing: Vec<PairingRequestRow>,
    /// Instances where too many wrong codes were tried.
    pub lockouts: Vec<LockoutRow>,
    /// Conversations that the terminal offers.
    pub offers: Vec<OfferedRow>,
    /// Chats that cannot be written to.
    pub dead_targets: Vec<DeadTargetRow>,
    /// The chat an instance may address unasked, set by `/sethome`.
    pub home_channels: Vec<HomeChannelRow>,
    /// Instances that `adapter disable` switched off.
    pub disabled_adapters: Vec<String>,
    /// Small facts of the host (kv scope `host`).
    pub flags: BTreeMap<String, String>,
}

/// An event as it is taken in: transaction (a).
#[derive(Clone, Debug)]
pub struct NewInbox {
    /// Instance it came through.
    pub instance: String,
    /// The platform's name of the change.
    pub event_id: String,
    /// When the platform says it happened.
    pub at_ms: i64,
    /// When it reached the host.
    pub received_ms: i64,
    /// The `Event` as JSON.
    pub event: String,
}

/// What became of an event handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Seen for the first time and committed.
    New(InboxId),
    /// The same platform event was committed before, under this id.
    Duplicate(InboxId),
}

/// An event as the inbox holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    /// Its id.
    pub id: InboxId,
    /// Instance it came through.
    pub instance: String,
    /// The platform's name of the change.
    pub event_id: String,
    /// When the platform says it happened.
    pub at_ms: i64,
    /// When it reached the host.
    pub received_ms: i64,
    /// The `Event` as JSON; empty once the text of a dropped event is gone.
    pub event: String,
    /// How far it got.
    pub state: InboxState,
    /// What its turn hears instead of the event's own words.
    pub input: Option<Vec<Message>>,
    /// The session that it is said to; only what the host itself says has one.
    pub wakes: Option<SessionId>,
}

/// Something that a session wants to hear of after its turn.
#[derive(Clone, Debug)]
pub struct NewWatch {
    /// What is followed, unique for ever.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// The instance over which it asked.
    pub instance: String,
    /// The chat in which it asked.
    pub chat_id: String,
    /// Who asked, where no turn runs that says it better.
    pub sender: Option<Sender>,
    /// What it is, in words.
    pub what: String,
    /// This life of the host.
    pub epoch: Epoch,
}

/// Something that a session follows.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchRow {
    /// What is followed.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// The instance over which it asked.
    pub instance: String,
    /// The chat in which it asked.
    pub chat: Chat,
    /// Who asked.
    pub sender: Option<Sender>,
    /// What it is, in words.
    pub what: String,
    /// How often the session was woken.
    pub told: u32,
    /// How far that went.
    pub upto: u64,
}

/// News of something that is followed.
#[derive(Clone, Debug)]
pub struct WatchTold {
    /// What is followed.
    pub id: String,
    /// How often it was told before.
    pub before: u32,
    /// How far this goes.
    pub upto: u64,
    /// Whether nothing follows.
    pub last: bool,
    /// What wakes the session.
    pub wake: NewWake,
}

/// What the host itself says to a session that something has news for.
#[derive(Clone, Debug)]
pub struct NewWake {
    /// The session that asked.
    pub session: SessionId,
    /// The event; its id makes it happen once.
    pub event: NewInbox,
    /// What its turn hears.
    pub input: Vec<Message>,
}

/// A conversation to be opened.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Id made by the caller: `YYYYMMDD_HHMMSS_<8 hex>`.
    pub id: SessionId,
    /// Profile it belongs to.
    pub profile: String,
    /// Instance it began on.
    pub source: String,
    /// Who began it, `<instance>:<user>`.
    pub owner: Option<String>,
    /// What was chosen for it.
    pub settings: SessionSettings,
    /// The session it follows, and how.
    pub parent: Option<Parent>,
    /// Title, where one is known.
    pub title: Option<String>,
    /// When it began.
    pub started_ms: i64,
}

/// Where a session comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The session before it.
    pub session: SessionId,
    /// How it follows.
    pub lineage: Lineage,
}

/// A conversation as the store holds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Profile it belongs to.
    pub profile: String,
    /// Title, unique among the sessions of its owner.
    pub title: Option<String>,
    /// Instance it began on.
    pub source: String,
    /// Who began it.
    pub owner: Option<String>,
    /// What was chosen for it.
    pub settings: SessionSettings,
    /// The session it follows.
    pub parent: Option<SessionId>,
    /// How it follows its parent.
    pub lineage: Option<Lineage>,
    /// When it began.
    pub started_ms: i64,
    /// When its last turn ended, or when it began.
    pub active_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// Messages in its transcript.
    pub messages: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Turns in a row to which it was woken, up to now, while nobody wrote to it.
    pub woken: u32,
    /// What its turns cost together.
    pub usage: Usage,
    /// Summary of what was compacted away.
    pub summary: Option<String>,
}

/// A session that is made from another one.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// The session whose transcript, model and settings it takes over.
    pub from: SessionId,
    /// Id made by the caller.
    pub id: SessionId,
    /// Instance it begins on.
    pub source: String,
    /// Who it belongs to; none: whom its parent belongs to.
    pub owner: Option<String>,
    /// Its title; none: that of its parent. Numbered where it is taken.
    pub title: Option<String>,
    /// When it begins.
    pub started_ms: i64,
}

/// A session that goes on from a summary of another one.
#[derive(Clone, Debug)]
pub struct NewSummary {
    /// The session; its title is that of its parent.
    pub fork: NewFork,
    /// What was said before.
    pub summary: String,
    /// So many of the last turns are kept as they are.
    pub keep_turns: u32,
    /// What the summary cost.
    pub usage: Usage,
}

/// Why a session cannot be gone on with elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// A turn of it runs, or waits to be resumed.
    Turn,
    /// It is being handed over.
    Handoff,
}

/// A session, and how it stands with its handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffRow {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// Whom it belongs to.
    pub owner: Option<String>,
    /// How far the handoff is.
    pub state: HandoffState,
    /// Where it leads; empty where it was never asked for.
    pub instance: String,
    /// How often it was claimed.
    pub attempts: u32,
    /// The chat in which the conversation goes on.
    pub chat: Option<Chat>,
    /// The session that the chat was in before.
    pub former: Option<SessionId>,
    /// How to lead the chats back.
    pub routes: Option<HandoffRoutes>,
    /// The event that opens the conversation in the chat.
    pub inbox: Option<InboxId>,
    /// What is owed for that event comes behind this one.
    pub behind: Option<DeliveryId>,
    /// When it was asked for.
    pub asked_ms: i64,
    /// When it came into its state.
    pub at_ms: i64,
    /// Whether a chat of that instance is in it.
    pub is_there: bool,
}

/// One claim of one request for a handoff: whoever carries it out acts for no other.
/// Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandoffClaim {
    /// When the handoff was asked for; no two requests for a session have the same.
    pub asked_ms: i64,
    /// How often it was claimed, this one included.
    pub attempts: u32,
}

/// Which handoff of a session is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichHandoff {
    /// The one that was asked for then.
    Asked(i64),
    /// This claim of it and no later one.
    Claim(HandoffClaim),
}

impl HandoffRow {
    /// Whether it is the one that is meant.
    pub fn is(&self, which: WhichHandoff) -> bool {
        match which {
            WhichHandoff::Asked(asked_ms) => self.asked_ms == asked_ms,
            WhichHandoff::Claim(claim) => self.claim() == claim,
        }
    }

    /// The claim under which it stands.
    pub fn claim(&self) -> HandoffClaim {
        HandoffClaim { asked_ms: self.asked_ms, attempts: self.attempts }
    }
}

/// What a handoff changed of the ways of chats, as it was before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRoutes {
    /// The stored key that it bound.
    pub bound: String,
    /// The routes that it replaced or took away.
    pub before: Vec<KeptRoute>,
}

/// A route as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRoute {
    /// Its stored key.
    pub key: String,
    /// Profile of the key.
    pub profile: String,
    /// Instance of the key.
    pub instance: String,
    /// The session it led to.
    pub session: SessionId,
    /// The chat.
    pub origin: Chat,
    /// When it was last used.
    pub used_ms: i64,
    /// Whether everybody in the chat and thread shared it.
    pub shared: bool,
    /// Whether the agent took part there.
    pub participates: bool,
}

/// What a chat gets bound to a session by: the middle of a handoff.
#[derive(Clone, Debug)]
pub struct HandoffBind {
    /// The session.
    pub session: SessionId,
    /// The claim that is carried out.
    pub claim: HandoffClaim,
    /// The life of the host that runs the handoff.
    pub epoch: Epoch,
    /// The event that opens the conversation in the chat.
    pub event: NewInbox,
    /// What its turn hears.
    pub input: Vec<Message>,
    /// The route of the chat.
    pub route: RouteRow,
    /// How it was before.
    pub routes: HandoffRoutes,
    /// The session that the chat was in; it ends.
    pub former: Option<SessionId>,
    /// Stored keys that do not lead to the session any more.
    pub freed: Vec<String>,
    /// Now.
    pub now_ms: i64,
}

/// What became of asking for a handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoffAsked {
    /// It is pending.
    Made {
        /// When it was asked for, by which it is known.
        asked_ms: i64,
    },
    /// There is no such session.
    Unknown,
    /// A turn of the session runs, or waits to be resumed.
    MidTurn,
    /// It is on its way already.
    UnderWay(Box<HandoffRow>),
}

/// What sessions cost together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// How many there are.
    pub sessions: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Tokens.
    pub usage: Usage,
}

/// A turn of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct SaidTurn {
    /// Its first message.
    pub first: i64,
    /// What people said in it.
    pub heard: Vec<Message>,
}

/// What was last taken out of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which undo it was.
    pub number: i64,
    /// How many turns it took.
    pub turns: u32,
    /// Whether something newer was said, so that it cannot come back.
    pub overtaken: bool,
}

/// How much of a transcript is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Messages.
    pub rows_max: u32,
    /// Bytes of text.
    pub bytes_max: usize,
}

/// Which sessions a listing shows, newest activity first.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only those this person began.
    pub owner: Option<String>,
    /// Only those that began on this instance.
    pub source: Option<String>,
    /// Whether ended ones are shown.
    pub with_ended: bool,
    /// Only those that can be gone on with: something was said, and no compression took their place.
    pub resumable: bool,
    /// Skips so many.
    pub offset: u32,
    /// At most so many; 0 means [`super::LISTING_ROWS_MAX`].
    pub limit: u32,
}

/// What a name led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// Exactly one session.
    Found(Box<SessionRow>),
    /// Several sessions begin like that.
    Ambiguous(Vec<SessionId>),
    /// None does.
    Unknown,
}

/// Which session a place in the world leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRow {
    /// `SessionKey::stored()`.
    pub key: String,
    /// Profile of the key.
    pub profile: String,
    /// Instance of the key.
    pub instance: String,
    /// The session it leads to.
    pub session: SessionId,
    /// Full descriptor of the chat.
    pub origin: Chat,
    /// When it was first bound.
    pub created_ms: i64,
    /// When it was last used; read back it is not older than its session's last turn.
    pub updated_ms: i64,
    /// Bound without participant: everyone in this chat and thread shares it.
    pub shared: bool,
    /// Whether the agent has spoken in this thread and need not be addressed again.
    pub participates: bool,
    /// The next event opens a new session.
    pub suspended: bool,
    /// A turn was cut off and is to be resumed.
    pub resume_pending: bool,
    /// Why it is to be resumed.
    pub resume_reason: Option<String>,
    /// How often that was tried.
    pub resume_count: u32,
    /// Settings of this conversation (`busy`, `model`, …), an object or null.
    pub overrides: Value,
    /// Why its session has ended, where it has. Only read.
    pub ended: Option<String>,
}

impl RouteRow {
    /// A plain route from `key` to `session`, made at `now_ms`.
    pub fn new(
        key: impl Into<String>,
        profile: impl Into<String>,
        instance: impl Into<String>,
        session: SessionId,
        origin: Chat,
        now_ms: i64,
    ) -> Self {
        Self {
            key: key.into(),
            profile: profile.into(),
            instance: instance.into(),
            session,
            origin,
            created_ms: now_ms,
            updated_ms: now_ms,
            shared: false,
            participates: false,
            suspended: false,
            resume_pending: false,
            resume_reason: None,
            resume_count: 0,
            overrides: Value::Null,
            ended: None,
        }
    }
}

/// A turn to be started: transaction (b).
#[derive(Clone, Debug)]
pub struct Admit {
    /// The session whose turn it is.
    pub session: SessionId,
    /// The session itself, where it does not exist yet.
    pub new_session: Option<NewSession>,
    /// The route to be bound or refreshed, where it changed.
    pub route: Option<RouteRow>,
    /// The events it answers, in order; none for a turn the host makes itself.
    pub inbox: Vec<InboxId>,
    /// The life of the host that runs it.
    pub epoch: Epoch,
    /// Now.
    pub now_ms: i64,
}

/// A transcript entry to be kept.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// What is kept.
    pub message: Message,
    /// Ids the platform gave it.
    pub platform_ids: Vec<String>,
    /// When it was said.
    pub at_ms: i64,
}

impl NewMessage {
    /// `message` said at `at_ms`, without platform ids.
    pub fn new(message: Message, at_ms: i64) -> Self {
        Self { message, platform_ids: Vec::new(), at_ms }
    }
}

/// A transcript entry as the store holds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageRow {
    /// Its id, ascending within a session.
    pub id: i64,
    /// The turn it belongs to.
    pub turn: Option<TurnId>,
    /// What was said.
    pub message: Message,
    /// Ids the platform gave it.
    pub platform_ids: Vec<String>,
    /// When it was said.
    pub at_ms: i64,
}

/// How a turn ended: transaction (c).
#[derive(Clone, Debug)]
pub struct EndTurn {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub state: TurnEnd,
    /// Why it failed, without secrets.
    pub error: Option<String>,
    /// Its session.
    pub session: SessionId,
    /// What is added to the transcript.
    pub messages: Vec<NewMessage>,
    /// What is owed because of it.
    pub deliveries: Vec<NewDelivery>,
    /// What it cost.
    pub usage: Usage,
    /// The runtime's own continuity data: runtime name and value.
    pub agent_state: Option<(String, Value)>,
    /// Now.
    pub now_ms: i64,
}

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
    /// What it asks; that waits for an answer until [`Change::AskOver`]. Buttons, where its adapter has some.
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
    /// Idempotency key; when empty the store writes [`super::Store::part_key`].
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
    /// At most so many; 0 means [`super::LISTING_ROWS_MAX`].
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
}

/// What a command changes: transaction (g).
#[derive(Clone, Debug)]
pub struct CommandTx {
    /// The event it came with; becomes `answered`.
    pub inbox: Option<InboxId>,
    /// What changes, in order.
    pub changes: Vec<Change>,
    /// What is said about it.
    pub reply: Vec<NewDelivery>,
    /// Now.
    pub now_ms: i64,
}

/// One change an order of a person or of the host makes.
#[derive(Clone, Debug)]
pub enum Change {
    /// Ends a session; one that has ended keeps its first reason.
    EndSession {
        /// The session.
        session: SessionId,
        /// Why.
        reason: String,
    },
    /// Opens an ended session again.
    ReopenSession {
        /// The session.
        session: SessionId,
    },
    /// Opens a session.
    NewSession(NewSession),
    /// Opens a branch of a session.
    Fork(NewFork),
    /// Lets a session go on from a summary, and ends the one before.
    Compress(Box<NewSummary>),
    /// Takes messages back; nothing is deleted.
    Undo {
        /// The session.
        session: SessionId,
        /// The first of them.
        from: i64,
    },
    /// Brings back what was last taken back.
    Redo {
        /// The session.
        session: SessionId,
        /// The number of that undo.
        number: i64,
    },
    /// What the turn of a waiting event hears instead of the event's own words.
    Hear {
        /// The event.
        inbox: InboxId,
        /// What it hears, oldest first.
        input: Vec<Message>,
    },
    /// Binds or rewrites a route.
    BindRoute(RouteRow),
    /// A chat pulled a session to it by its code: it stands there as one that was handed over.
    Claimed {
        /// The session.
        session: SessionId,
        /// The instance of the chat.
        instance: String,
        /// The chat.
        chat: Chat,
    },
    /// Lead a chat to a session that was begun for it, unless a conversation was handed over to it since.
    BindBorn(RouteRow),
    /// Removes a route.
    UnbindRoute {
        /// Its stored key.
        key: String,
    },
    /// Names a session; none takes the name away.
    SetTitle {
        /// The session.
        session: SessionId,
        /// Its title.
        title: Option<String>,
    },
    /// Chooses how a session behaves.
    Settings {
        /// The session.
        session: SessionId,
        /// Everything that is chosen for it from now on.
        settings: SessionSettings,
    },
    /// Grants access.
    Grant(GrantRow),
    /// Takes access away.
    Revoke {
        /// Instance.
        instance: String,
        /// User.
        user: String,
    },
    /// Writes a pairing request.
    PairingRequest(PairingRequestRow),
    /// Removes a pairing request whose code worked, and with it the wrong codes counted on its instance.
    PairingDone(PairingRequestRow),
    /// Removes the open requests of one user.
    ForgetPairing {
        /// Instance.
        instance: String,
        /// User.
        user: String,
    },
    /// Removes all pairing requests and lockouts, of one instance or of all.
    ClearPairing {
        /// Instance.
        instance: Option<String>,
    },
    /// Counts wrong codes of an instance.
    Lockout(LockoutRow),
    /// Offers a session to whoever sends its code.
    Offered(OfferedRow),
    /// An offered session was claimed.
    OfferTaken {
        /// The session.
        session: SessionId,
    },
    /// Sets the home channel of an instance.
    HomeChannel(HomeChannelRow),
    /// Forgets the home channel of an instance.
    ForgetHomeChannel {
        /// Instance.
        instance: String,
    },
    /// The choices of a delivery wait for no answer any more.
    AskOver {
        /// The delivery.
        delivery: DeliveryId,
        /// What became of them, in words.
        outcome: String,
    },
    /// A chat can, or cannot, be written to.
    DeadTarget(DeadTargetRow),
    /// A chat can be written to again.
    Revive {
        /// Instance.
        instance: String,
        /// The chat.
        chat: Chat,
    },
    /// A chat continues under another id: what is owed to it, its routes, its home channel and its name follow.
    Migrated {
        /// Instance.
        instance: String,
        /// Old place.
        from: Chat,
        /// New place.
        to: Chat,
        /// The old key and the new row of each route.
        routes: Vec<(String, RouteRow)>,
    },
    /// A chat spoke, or its adapter listed it: it can be named from now on.
    SawChat {
        /// Instance.
        instance: String,
        /// The chat, with its names.
        chat: Chat,
        /// When.
        seen_ms: i64,
    },
    /// What the host said in a chat by itself stands in the transcript of its session.
    Mirror {
        /// The session, which must be open.
        session: SessionId,
        /// What was said.
        said: NewMessage,
    },
    /// Switches an instance on or off.
    AdapterEnabled {
        /// Instance.
        instance: String,
        /// On or off.
        on: bool,
    },
    /// Drops waiting events.
    DropInbox {
        /// The events.
        ids: Vec<InboxId>,
        /// Why.
        why: String,
    },
    /// Writes a small fact of the host; none forgets it.
    Flag {
        /// Name.
        key: String,
        /// Value.
        value: Option<String>,
    },
}

/// What a stranger is offered: the second half of transaction (f).
#[derive(Clone, Debug)]
pub struct PairingOffer {
    /// The request as it is now.
    pub request: PairingRequestRow,
    /// What the stranger is told.
    pub reply: Option<NewDelivery>,
}

/// A chat that cannot be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTargetRow {
    /// Instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// What the platform said.
    pub why: String,
    /// Since when.
    pub since_ms: i64,
}

/// The chat an instance may address unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChannelRow {
    /// Instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_ms: i64,
}

/// A chat that people can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownChat {
    /// The name it goes by; empty while none was told.
    pub name: String,
    /// The chat.
    pub chat: Chat,
    /// When it was last seen.
    pub seen_ms: i64,
}

/// A turn that a dead epoch left behind.
#[derive(Clone, Debug)]
pub struct CutOffTurn {
    /// The turn; its state is `queued`.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// How often it was started.
    pub attempts: u32,
    /// The events it answers, in order.
    pub inbox: Vec<InboxRow>,
}

/// How far what an earlier life left behind goes. What this life adds has larger ids, so it is
/// never read as something that was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The last event.
    pub event: i64,
    /// The last turn.
    pub turn: i64,
    /// The last delivery.
    pub delivery: i64,
    /// Growing messages whose turn will be resumed: at most one for each turn that ran. They are named
    /// here since a turn that ends while the rest is read makes its own an owed delivery like others.
    pub drafts: Vec<DeliveryId>,
    /// Handoffs that failed for good with the life before: their chats lead where they led before.
    pub failed_handoffs: Vec<HandoffRow>,
}

/// How much is waiting where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Events accepted and not yet in a turn.
    pub inbox: u64,
    /// Turns queued or running.
    pub turns: u64,
    /// Deliveries owed or drafted.
    pub outbox: u64,
    /// Handoffs pending or running.
    pub handoffs: u64,
    /// Deliveries of which a part was refused or abandoned.
    pub dead: u64,
    /// Sessions that have not ended.
    pub sessions_open: u64,
    /// All sessions.
    pub sessions: u64,
}

/// One place where a search found its words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    /// Session of the message.
    pub session: SessionId,
    /// Title of that session.
    pub title: Option<String>,
    /// The message.
    pub message: i64,
    /// Word of its role.
    pub role: String,
    /// When it was said.
    pub at_ms: i64,
    /// The place itself, matches between `>>>` and `<<<`.
    pub snippet: String,
}

/// How much of the past is kept; the sweep removes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How long settled rows are kept.
    pub settled_ms: i64,
    /// Events of strangers that one instance may leave behind.
    pub stray_events_max: i64,
    /// How long a pairing request counts, by its code or by the wait for the next one.
    pub pairing_ms: i64,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            settled_ms: RETENTION_DAYS as i64 * 86_400_000,
            stray_events_max: STRANGER_EVENTS_MAX as i64,
            pairing_ms: PAIRING_CODE_S.max(PAIRING_INTERVAL_S) as i64 * 1_000,
        }
    }
}

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Inbox rows removed.
    pub inbox: u64,
    /// Turns removed.
    pub turns: u64,
    /// Deliveries removed.
    pub deliveries: u64,
    /// Pairing requests removed.
    pub pairing: u64,
    /// Messages made searchable.
    pub indexed: u64,
    /// Whether a bound was met, so that another sweep finds more.
    pub more: bool,
}

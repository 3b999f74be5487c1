//! What can wake the dispatcher: a closed set, so that a new kind of event is a
//! new arm of one `match`.

use std::sync::Arc;

use hermes_agent::Message;
use hermes_core::access::Tier;
use hermes_core::asks::Question;
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::pairing::{Code, Offered};
use hermes_protocol::{Chat, Event, Receipt, Sender};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::lane::Freed;
use crate::outbox::{Growing, Target};
use crate::plugins::AdapterEvent;
use crate::store::{CutOffTurn, DeadTargetRow, HandoffClaim, HandoffRoutes, OwedDelivery, RouteRow};
use crate::tasks::RunTask;

/// Something happened.
#[derive(Debug)]
pub enum HostEvent {
    /// An event came in and is committed.
    Inbound(Inbound),
    /// Somebody with the right to do so wants something of the host.
    Control(Box<Control>),
    /// A session's lane has news.
    Turn(TurnNews),
    /// Something is owed, or an outbox lane has news.
    Delivery(DeliveryNews),
    /// An adapter changed its state.
    Adapter(AdapterEvent),
    /// Something that outlives a turn has news for its session.
    Watch(WatchNews),
    /// Time has passed.
    Due(Due),
}

impl HostEvent {
    /// Somebody wants this.
    pub fn control(control: Control) -> Self {
        Self::Control(Box::new(control))
    }
}

/// News of what outlives a turn.
#[derive(Debug)]
pub enum WatchNews {
    /// A session is to be woken; the event is committed.
    Woken(Box<Woken>),
    /// What was to wake a session waits in the inbox; it is read again when an adapter comes back, or with the minute.
    PutBack,
    /// The same of a session that is on its way to a chat; it is read again as soon as that is over.
    Leased(SessionId),
    /// A session is on its way no more.
    Arrived,
}

/// What the host itself says to a session, as the inbox holds it.
#[derive(Debug)]
pub struct Woken {
    /// Its row.
    pub inbox: InboxId,
    /// The session that asked.
    pub session: SessionId,
    /// The instance over which it asked.
    pub instance: Arc<str>,
    /// Where, who, and the words.
    pub event: Event,
    /// What its turn hears.
    pub input: Vec<Message>,
}

/// An event as the inbox holds it, on its way to a session.
#[derive(Debug)]
pub struct Inbound {
    /// Its row.
    pub id: InboxId,
    /// The instance it came through.
    pub instance: Arc<str>,
    /// What happened.
    pub event: Box<Event>,
    /// What its turn hears instead of the event's own words, where that was decided before.
    pub input: Option<Vec<Message>>,
    /// Its place in the queue between its adapter and the lanes; recovery needs none.
    pub permit: Permit,
}

/// A place in the queue between one instance and the lanes, given back when a lane has the event.
pub type Permit = Option<Place>;

/// What an event occupies until a lane has it.
#[derive(Debug)]
pub struct Place {
    /// One place of its instance.
    pub(crate) _place: OwnedSemaphorePermit,
    /// Its bytes, in the room that all instances share.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// What the operator, an adapter or the process itself wants.
#[derive(Debug)]
pub enum Control {
    /// A turn that a crash cut off is to go on.
    Resume(CutOffTurn),
    /// Stop or describe the turn that answers an event of this instance.
    Turn {
        /// Whose event it is.
        instance: Arc<str>,
        /// The event.
        inbox: InboxId,
        /// What is wanted.
        wish: TurnWish,
        /// Hears the state word from the lane that has it; closed when none has.
        reply: mpsc::Sender<&'static str>,
    },
    /// A conversation goes on in another session.
    Rebind(Rebind),
    /// Bind the key of a chat to a session that exists.
    Bind {
        /// The route.
        route: Box<RouteRow>,
    },
    /// A session was deleted: forget where it was bound and what its lane remembers.
    Forget {
        /// The session.
        session: SessionId,
        /// Hears that it is forgotten.
        reply: oneshot::Sender<()>,
    },
    /// End a session; its chat begins anew.
    End {
        /// The session.
        session: SessionId,
        /// Hears whether it is written.
        reply: oneshot::Sender<bool>,
    },
    /// A turn asks something of people.
    Ask(Box<Asking>),
    /// An adapter answers a question for somebody.
    Answer {
        /// The adapter.
        instance: Arc<str>,
        /// The question.
        ask: String,
        /// The option.
        option: String,
        /// Who chose it.
        sender: Box<Sender>,
        /// What they may do.
        tier: Tier,
        /// Hears why not, with the word of the error, where it is not taken.
        reply: oneshot::Sender<Result<(), (&'static str, String)>>,
    },
    /// Something about pairing.
    Pairing(crate::pairing::PairingCall),
    /// The configuration was replaced.
    Reloaded,
    /// Lanes that were to end go on.
    UndrainLanes,
    /// Lanes end as soon as they have nothing running; answered when all have.
    DrainLanes(oneshot::Sender<()>),
    /// Outbox lanes send what can be sent and end; answered when all have.
    DrainOutbox(oneshot::Sender<()>),
    /// A delivery is to be tried anew, or not any more: its lane reads it again.
    Refresh {
        /// Where it goes.
        target: Target,
        /// The delivery as the store has it, when it is still open.
        owed: Option<Box<OwedDelivery>>,
        /// Which.
        id: hermes_core::ids::DeliveryId,
    },
    /// What waits in the lane of a target is tried at once; waits of its chat and instance end.
    Hurry {
        /// Where it goes.
        target: Target,
    },
    /// The chats of an instance that have spoken.
    Chats {
        /// Which instance.
        instance: String,
        /// Hears them.
        reply: oneshot::Sender<Vec<Chat>>,
    },
    /// Where a session goes on.
    Places {
        /// Which session.
        session: SessionId,
        /// Hears the instance and the chat of each place.
        reply: oneshot::Sender<Vec<(String, Chat)>>,
    },
    /// Where the conversations of an instance go on.
    Led {
        /// Which instance.
        instance: Arc<str>,
        /// Hears each chat with its session.
        reply: oneshot::Sender<Vec<(SessionId, Chat)>>,
    },
    /// An instance did not take its command menu; it is offered anew when the instance is next ready, or the
    /// configuration is next read.
    MenuLost {
        /// Which instance.
        instance: Arc<str>,
    },
    /// An adapter has read the home channel that the configuration names.
    Home {
        /// Which instance.
        instance: String,
        /// What the configuration said.
        home: crate::config::HomeChannel,
        /// The chat.
        chat: Chat,
    },
    /// The one session that goes on in a chat and thread.
    SessionOf {
        /// Which instance.
        instance: String,
        /// The chat.
        chat: Chat,
        /// Hears it; `None` where there is none, or more than one.
        reply: oneshot::Sender<Option<SessionId>>,
    },
    /// The chats that lead to a session.
    LedTo {
        /// The session.
        session: SessionId,
        /// Hears each instance and chat.
        reply: oneshot::Sender<Vec<(String, Chat)>>,
    },
    /// A chat is led to a session that is handed over to it; the terminal is free of it.
    Take {
        /// The session.
        session: SessionId,
        /// The claim that takes it; a later one has precedence.
        claim: HandoffClaim,
        /// The instance of the chat.
        instance: String,
        /// The chat.
        chat: Chat,
        /// Hears what has to be written, or why it cannot be.
        reply: oneshot::Sender<Result<Taken, String>>,
    },
    /// A chat lets go of a session, which stays.
    Free {
        /// The session; its lane asks.
        session: SessionId,
        /// The stored key of the chat.
        key: String,
        /// Hears what has to be written; `None` when the chat leads elsewhere by now.
        reply: oneshot::Sender<Option<Freed>>,
    },
    /// Offer a session to whoever sends its code.
    PutUp {
        /// The session.
        session: SessionId,
        /// Hears the code, and what has to be written before it is told; `None` when too many are offered.
        reply: oneshot::Sender<Option<(Code, Offered)>>,
    },
    /// The code of an offered session was sent.
    TakeOffer {
        /// The session.
        session: SessionId,
        /// Hears whether it was still offered.
        reply: oneshot::Sender<bool>,
    },
    /// A conversation that was handed over begins in its chat.
    Open(Box<Opening>),
    /// The host does a task by itself.
    Run(Box<RunTask>),
    /// A handoff did not come about: its chats lead where they led before.
    LeadBack {
        /// The session.
        session: SessionId,
        /// The claim that is over. What a later one has taken stays with that.
        claim: HandoffClaim,
        /// How it was.
        routes: Box<HandoffRoutes>,
    },
    /// Nobody speaks in a chat any more for now: its next message begins a session.
    Unbind {
        /// The stored key of the chat.
        key: String,
        /// Hears whether it led anywhere.
        reply: oneshot::Sender<bool>,
    },
    /// The transcript of a session was written to from outside of its lane.
    Reread {
        /// The session.
        session: SessionId,
    },
    /// How much there is in memory, for status.
    Census(oneshot::Sender<Census>),
}

/// What follows from leading a chat to a session that is handed over to it.
#[derive(Debug)]
pub struct Taken {
    /// The route of the chat.
    pub route: RouteRow,
    /// How it was before.
    pub routes: HandoffRoutes,
    /// The session that the chat was in, where no other chat leads there.
    pub former: Option<SessionId>,
    /// Stored keys of the terminal that do not lead to the session any more.
    pub freed: Vec<String>,
}

/// What opens a conversation in the chat to which it was handed over. The host itself says it.
#[derive(Debug)]
pub struct Opening {
    /// The session.
    pub session: SessionId,
    /// The instance of the chat.
    pub instance: Arc<str>,
    /// The event.
    pub event: Event,
    /// What its turn hears.
    pub input: Vec<Message>,
    /// The row of the event.
    pub inbox: InboxId,
    /// Whom the session belongs to.
    pub owner: Option<String>,
}

/// A question on its way to the book of those that are open.
#[derive(Debug)]
pub struct Asking {
    /// The question.
    pub question: Question,
    /// Whether its requester cannot answer it, so that an admin has to be asked.
    pub elsewhere: bool,
    /// Hears it as it was opened; `None` when nobody can be asked.
    pub reply: oneshot::Sender<Option<Question>>,
}

/// Chats are to be led from one session to another.
#[derive(Debug)]
pub struct Rebind {
    /// The session that is left; its lane asks.
    pub from: SessionId,
    /// The stored key of the chat that moves; `None`: all that lead there.
    pub key: Option<String>,
    /// The session they are led to.
    pub to: SessionId,
    /// Hears what has to be written.
    pub reply: oneshot::Sender<Rebound>,
}

/// What follows from leading chats elsewhere.
#[derive(Debug, Default)]
pub struct Rebound {
    /// The routes as they are from here on; none when the chat led elsewhere already.
    pub routes: Vec<RouteRow>,
    /// Whether other chats still lead to the session that was left.
    pub still_led_to: bool,
}

/// What is wanted of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnWish {
    /// It should end.
    Stop,
    /// Its state.
    Tell,
}

/// What the dispatcher has in memory.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Lanes of sessions.
    pub lanes: usize,
    /// Lanes of the outbox.
    pub outbox_lanes: usize,
    /// Parts held per instance.
    pub held: std::collections::BTreeMap<String, u64>,
    /// Chats that cannot be written to; the first of them.
    pub dead: Vec<DeadTargetRow>,
    /// How many there are.
    pub dead_chats: usize,
}

/// News of a session's lane.
#[derive(Debug)]
pub enum TurnNews {
    /// It has nothing to do and has taken this many messages.
    Idle {
        /// The session.
        session: SessionId,
        /// Messages taken so far.
        taken: u64,
        /// Whether the session was never written.
        unborn: bool,
    },
    /// A turn in the background is over.
    Aside {
        /// The session it had for itself.
        session: SessionId,
    },
    /// It answered what nothing more follows.
    Complete {
        /// The session.
        session: SessionId,
    },
    /// What its turn asked is over without an answer.
    AskOver {
        /// The question.
        ask: String,
    },
    /// Its task is over.
    Over(LaneOver<SessionId>),
}

/// News of the outbox.
#[derive(Debug)]
pub enum DeliveryNews {
    /// A delivery is committed and wants to go.
    Owed(Box<OwedDelivery>),
    /// The first piece of a growing message is committed and wants to go.
    Draft(Box<OwedDelivery>, Arc<Growing>),
    /// A growing message has something new.
    Grows(Target, Arc<Growing>),
    /// A growing message has ended.
    Grown {
        /// Where it is.
        instance: String,
        /// Where it is.
        chat: Chat,
        /// Which.
        id: DeliveryId,
    },
    /// A chat cannot be written to.
    Dead {
        /// Instance.
        instance: String,
        /// The chat.
        chat: Chat,
        /// What the platform said.
        why: String,
    },
    /// A question is there.
    Asked {
        /// The question.
        ask: String,
        /// Where it arrived.
        chat: Chat,
        /// What proves it.
        receipt: Receipt,
    },
    /// A question will not be asked.
    NotAsked {
        /// The question.
        ask: String,
        /// Why, as the platform or the outbox said it.
        why: String,
    },
    /// Nobody will be told the code of a pairing request.
    Untold {
        /// The hash of the request.
        hash: String,
    },
    /// A chat continues under another id.
    Migrating(Box<Migration>),
    /// A lane has nothing to do and has taken this many messages.
    Idle {
        /// Which lane.
        target: Target,
        /// Messages taken so far.
        taken: u64,
    },
    /// A lane's task is over.
    Over(LaneOver<Target>),
}

/// A chat continues under another id: its routes are to be led there.
#[derive(Debug)]
pub struct Migration {
    /// Instance.
    pub instance: String,
    /// Old place.
    pub from: Chat,
    /// New place.
    pub to: Chat,
    /// Hears the old key and the new row of each route, to be written with the part.
    pub reply: oneshot::Sender<Vec<(String, RouteRow)>>,
}

/// The end of a lane's task.
#[derive(Debug)]
pub struct LaneOver<K> {
    /// Which lane.
    pub key: K,
    /// Which of all lanes ever made.
    pub serial: u64,
    /// Whether the task broke.
    pub broken: bool,
}

/// What the passing of time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A minute has passed: forget what has expired.
    Sweep,
}

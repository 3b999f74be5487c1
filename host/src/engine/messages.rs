//! The events of the dispatcher: a closed set, so that a new kind of event is a new arm of one `match`.

use std::sync::Arc;

use hermes_agent::Message;
use hermes_core::access::Tier;
use hermes_core::approvals::Question;
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::pairing::{Code, Offered};
use hermes_protocol::{Chat, Event, Receipt, Sender};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::engine::background::tasks::RunTask;
use crate::engine::outbox::{Growing, Target};
use crate::engine::session::Freed;
use hermes_loader::AdapterEvent;
use hermes_store::{CutOffTurn, DeadTargetRow, HandoffClaim, HandoffRoutes, OwedDelivery, RouteRow};

/// An event of the dispatcher.
#[derive(Debug)]
pub enum HostEvent {
    /// An event of an adapter is committed.
    Inbound(Inbound),
    /// An event of an unknown sender arrived and is not committed.
    Stray(Stray),
    /// An authorized caller requests an operation of the host.
    Control(Box<Control>),
    /// A report of a session's lane.
    Turn(TurnNews),
    /// A delivery is owed, or an outbox lane reports.
    Delivery(DeliveryNews),
    /// An adapter changed its state.
    Adapter(AdapterEvent),
    /// Background work has news for its session.
    Watch(WatchNews),
    /// A timer fired.
    Due(Due),
}

impl HostEvent {
    /// Wraps a request.
    pub fn control(control: Control) -> Self {
        Self::Control(Box::new(control))
    }
}

/// A report of background work.
#[derive(Debug)]
pub enum WatchNews {
    /// An event that wakes a session is committed.
    Woken(Box<Woken>),
    /// A wake-up waits in the inbox; it is read again when an adapter comes online, or by the timer of one minute.
    PutBack,
    /// A wake-up waits because its session has a handoff; it is read again as soon as that is over.
    Leased(SessionId),
    /// The handoff of a session is over.
    Arrived,
}

/// A wake-up of the host for a session, as the inbox holds it.
#[derive(Debug)]
pub struct Woken {
    /// The row of the event.
    pub inbox: InboxId,
    /// The session to wake.
    pub session: SessionId,
    /// The instance of the session's request.
    pub instance: Arc<str>,
    /// The event with its chat, sender and text.
    pub event: Event,
    /// The input of the turn.
    pub input: Vec<Message>,
}

/// An event as the inbox holds it, for its session.
#[derive(Debug)]
pub struct Inbound {
    /// The row of the event.
    pub id: InboxId,
    /// The instance of the event.
    pub instance: Arc<str>,
    /// The event.
    pub event: Box<Event>,
    /// The input of the turn if it was decided before and differs from the event's own text.
    pub input: Option<Vec<Message>>,
    /// The slot in the queue between its adapter and the lanes; recovery needs none.
    pub permit: Permit,
}

/// An event of an unknown sender that the inbox does not hold.
#[derive(Debug)]
pub struct Stray {
    /// The instance of the event.
    pub instance: Arc<str>,
    /// The event.
    pub event: Box<Event>,
    /// Receives the event if it changes something or is answered, so that it has to be kept.
    pub verdict: oneshot::Sender<Option<Box<Event>>>,
}

/// A slot in the queue between one instance and the lanes, released when a lane has the event.
pub type Permit = Option<Place>;

/// The queue capacity that an event occupies until a lane has it.
#[derive(Debug)]
pub struct Place {
    /// One slot of its instance.
    pub(crate) _place: OwnedSemaphorePermit,
    /// The bytes of the event, from the capacity that all instances share.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// A request of the operator, an adapter or the process itself.
#[derive(Debug)]
pub enum Control {
    /// Resume a turn that a crash interrupted.
    Resume(CutOffTurn),
    /// Stop or describe the turn that answers an event of this instance.
    Turn {
        /// The instance of the event.
        instance: Arc<str>,
        /// The event.
        inbox: InboxId,
        /// The operation.
        wish: TurnWish,
        /// Receives the state word from the lane of the turn; closed when no lane has it.
        reply: mpsc::Sender<&'static str>,
    },
    /// Move a conversation to another session.
    Rebind(Rebind),
    /// Bind the key of a chat to an existing session.
    Bind {
        /// The route.
        route: Box<RouteRow>,
    },
    /// A session was deleted: remove its routes and the state of its lane.
    Forget {
        /// The session.
        session: SessionId,
        /// Receives the confirmation.
        reply: oneshot::Sender<()>,
    },
    /// End a session; its chat starts another one.
    End {
        /// The session.
        session: SessionId,
        /// Receives whether the end is stored.
        reply: oneshot::Sender<bool>,
    },
    /// Ask the question of a turn.
    Ask(Box<Asking>),
    /// An adapter answers a question for a person.
    Answer {
        /// The adapter.
        instance: Arc<str>,
        /// The question.
        ask: String,
        /// The option.
        option: String,
        /// The person who chose the option.
        sender: Box<Sender>,
        /// The rights of that person.
        tier: Tier,
        /// Receives the error code and the reason of a refused answer.
        reply: oneshot::Sender<Result<(), (&'static str, String)>>,
    },
    /// An operation on pairing.
    Pairing(crate::engine::dispatcher::pairing::PairingCall),
    /// The configuration was replaced.
    Reloaded,
    /// Lanes that were draining continue.
    UndrainLanes,
    /// Lanes end as soon as they run nothing; answered when all have ended.
    DrainLanes(oneshot::Sender<()>),
    /// Outbox lanes send every part that can be sent and end; answered when all have ended.
    DrainOutbox(oneshot::Sender<()>),
    /// A delivery is retried or dropped: its lane reads it again.
    Refresh {
        /// The target of the delivery.
        target: Target,
        /// The delivery as the store has it, when it is still open.
        owed: Option<Box<OwedDelivery>>,
        /// The id of the delivery.
        id: hermes_core::ids::DeliveryId,
    },
    /// Try the jobs of a target's lane at once; the waits of its chat and instance end.
    Hurry {
        /// The target.
        target: Target,
    },
    /// List the chats of an instance that have sent events.
    Chats {
        /// The instance.
        instance: String,
        /// Receives the chats.
        reply: oneshot::Sender<Vec<Chat>>,
    },
    /// List the chats in which a session continues.
    Places {
        /// The session.
        session: SessionId,
        /// Receives the instance and the chat of each place.
        reply: oneshot::Sender<Vec<(String, Chat)>>,
    },
    /// List the chats in which the conversations of an instance continue.
    Led {
        /// The instance.
        instance: Arc<str>,
        /// Receives each chat with its session.
        reply: oneshot::Sender<Vec<(SessionId, Chat)>>,
    },
    /// An instance did not take its command menu; the menu is offered again when the instance is next online, or when
    /// the configuration is next read.
    MenuLost {
        /// The instance.
        instance: Arc<str>,
    },
    /// An adapter has resolved the home channel of the configuration.
    Home {
        /// The instance.
        instance: String,
        /// The value of the configuration.
        home: hermes_config::HomeChannel,
        /// The chat.
        chat: Chat,
    },
    /// Find the only session that continues in a chat and thread.
    SessionOf {
        /// The instance.
        instance: String,
        /// The chat.
        chat: Chat,
        /// Receives the session; `None`: there is none, or more than one.
        reply: oneshot::Sender<Option<SessionId>>,
    },
    /// List the chats that lead to a session.
    LedTo {
        /// The session.
        session: SessionId,
        /// Receives each instance and chat.
        reply: oneshot::Sender<Vec<(String, Chat)>>,
    },
    /// Bind a chat to a session that is handed over to it, and release the session from the terminal.
    Take {
        /// The session.
        session: SessionId,
        /// The claim that takes it; a later one has precedence.
        claim: HandoffClaim,
        /// The instance of the chat.
        instance: String,
        /// The chat.
        chat: Chat,
        /// Receives the changes to write, or the reason of the refusal.
        reply: oneshot::Sender<Result<Taken, String>>,
    },
    /// Release a chat from a session, which remains.
    Free {
        /// The session, whose lane sends the request.
        session: SessionId,
        /// The stored key of the chat.
        key: String,
        /// Receives the changes to write; `None`: the chat leads elsewhere by now.
        reply: oneshot::Sender<Option<Freed>>,
    },
    /// Offer a session to the sender who sends its code.
    PutUp {
        /// The session.
        session: SessionId,
        /// Receives the code, and the changes to write before the code is shown; `None`: too many sessions are offered.
        reply: oneshot::Sender<Option<(Code, Offered)>>,
    },
    /// The code of an offered session was sent.
    TakeOffer {
        /// The session.
        session: SessionId,
        /// Receives whether the session was still offered.
        reply: oneshot::Sender<bool>,
    },
    /// Start a conversation in the chat to which it was handed over.
    Open(Box<Opening>),
    /// Start a task that the host does by itself.
    Run(Box<RunTask>),
    /// A handoff failed: restore the routes of its chats.
    LeadBack {
        /// The session.
        session: SessionId,
        /// The ended claim. Chats that a later claim has taken stay with that claim.
        claim: HandoffClaim,
        /// The earlier routes.
        routes: Box<HandoffRoutes>,
    },
    /// Unbind a chat: its next message begins a session.
    Unbind {
        /// The stored key of the chat.
        key: String,
        /// Receives whether the chat had a route.
        reply: oneshot::Sender<bool>,
    },
    /// The transcript of a session was changed outside of its lane.
    Reread {
        /// The session.
        session: SessionId,
    },
    /// Count the state in memory, for status.
    Census(oneshot::Sender<Census>),
}

/// The changes that bind a chat to a session after a handoff.
#[derive(Debug)]
pub struct Taken {
    /// The route of the chat.
    pub route: RouteRow,
    /// The earlier routes.
    pub routes: HandoffRoutes,
    /// The former session of the chat, if no other chat leads to it.
    pub former: Option<SessionId>,
    /// Stored keys of the terminal that no longer lead to the session.
    pub freed: Vec<String>,
}

/// The event that opens a conversation in the chat to which it was handed over. The host itself is the sender.
#[derive(Debug)]
pub struct Opening {
    /// The session.
    pub session: SessionId,
    /// The instance of the chat.
    pub instance: Arc<str>,
    /// The event.
    pub event: Event,
    /// The input of the turn.
    pub input: Vec<Message>,
    /// The row of the event.
    pub inbox: InboxId,
    /// The owner of the session.
    pub owner: Option<String>,
}

/// A question for the list of open questions.
#[derive(Debug)]
pub struct Asking {
    /// The question.
    pub question: Question,
    /// True if its requester cannot answer it, so that an admin has to.
    pub elsewhere: bool,
    /// Receives the opened question; `None`: nobody can answer it.
    pub reply: oneshot::Sender<Option<Question>>,
}

/// A request to bind chats to another session.
#[derive(Debug)]
pub struct Rebind {
    /// The former session, whose lane sends the request.
    pub from: SessionId,
    /// The stored key of the chat that moves; `None`: all chats of the session.
    pub key: Option<String>,
    /// The new session.
    pub to: SessionId,
    /// Receives the changes to write.
    pub reply: oneshot::Sender<Rebound>,
}

/// The result of binding chats to another session.
#[derive(Debug, Default)]
pub struct Rebound {
    /// The new routes; none if the chat led elsewhere already.
    pub routes: Vec<RouteRow>,
    /// True if other chats still lead to the former session.
    pub still_led_to: bool,
}

/// An operation on a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnWish {
    /// Stop the turn.
    Stop,
    /// Report the state of the turn.
    Tell,
}

/// Figures about the state of the dispatcher.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Lanes of sessions.
    pub lanes: usize,
    /// Lanes of the outbox.
    pub outbox_lanes: usize,
    /// Waiting deliveries per instance.
    pub held: std::collections::BTreeMap<String, u64>,
    /// The first chats that cannot be written to.
    pub dead: Vec<DeadTargetRow>,
    /// The number of these chats.
    pub dead_chats: usize,
}

/// A report of a session's lane.
#[derive(Debug)]
pub enum TurnNews {
    /// The lane is idle and has taken this number of messages.
    Idle {
        /// The session.
        session: SessionId,
        /// Messages taken so far.
        taken: u64,
        /// True if the session was never stored.
        unborn: bool,
    },
    /// A background turn is over.
    Aside {
        /// The session of the turn.
        session: SessionId,
    },
    /// The lane answered an event after which the session ends.
    Complete {
        /// The session.
        session: SessionId,
    },
    /// A question of the turn is over without an answer.
    AskOver {
        /// The question.
        ask: String,
    },
    /// The lane's task is over.
    Over(LaneOver<SessionId>),
}

/// A report of the outbox.
#[derive(Debug)]
pub enum DeliveryNews {
    /// A delivery is committed and can be sent.
    Owed(Box<OwedDelivery>),
    /// The first piece of a growing message is committed and can be sent.
    Draft(Box<OwedDelivery>, Arc<Growing>),
    /// A growing message has new text.
    Grows(Target, Arc<Growing>),
    /// A growing message has ended.
    Grown {
        /// The instance.
        instance: String,
        /// The chat.
        chat: Chat,
        /// The delivery.
        id: DeliveryId,
    },
    /// A chat cannot be written to.
    Dead {
        /// The instance.
        instance: String,
        /// The chat.
        chat: Chat,
        /// The detail of the platform.
        why: String,
    },
    /// A question has arrived.
    Asked {
        /// The question.
        ask: String,
        /// The chat of the question.
        chat: Chat,
        /// The proof of its arrival.
        receipt: Receipt,
    },
    /// A question will not be asked.
    NotAsked {
        /// The question.
        ask: String,
        /// The reason, from the platform or the outbox.
        why: String,
    },
    /// The code of a pairing request will not be delivered.
    Untold {
        /// The hash of the request.
        hash: String,
    },
    /// A chat continues under another id.
    Migrating(Box<Migration>),
    /// A lane is idle and has taken this number of messages.
    Idle {
        /// The target of the lane.
        target: Target,
        /// Messages taken so far.
        taken: u64,
    },
    /// A lane's task is over.
    Over(LaneOver<Target>),
}

/// The move of a chat to another id: its routes are changed.
#[derive(Debug)]
pub struct Migration {
    /// The instance.
    pub instance: String,
    /// The old chat.
    pub from: Chat,
    /// The new chat.
    pub to: Chat,
    /// Receives the old key and the new row of each route, to be written with the part.
    pub reply: oneshot::Sender<Vec<(String, RouteRow)>>,
}

/// The end of a lane's task.
#[derive(Debug)]
pub struct LaneOver<K> {
    /// The key of the lane.
    pub key: K,
    /// The number of the lane among all that were ever created.
    pub serial: u64,
    /// True if the task panicked.
    pub broken: bool,
}

/// The timers of the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A minute has passed: forget what has expired.
    Sweep,
}

//! What an order changes.

use hermes_agent::Message;
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::settings::SessionSettings;
use hermes_protocol::Chat;

use super::{
    DeadTargetRow, GrantRow, HomeChannelRow, LockoutRow, NewDelivery, NewFork, NewMessage, NewSession, NewSummary,
    OfferedRow, PairingRequestRow, RouteRow,
};

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
    /// A pairing code worked: its request is over, and so are the wrong codes of the person who entered it.
    PairingDone {
        /// The request.
        request: PairingRequestRow,
        /// The count of that person.
        counted_as: String,
    },
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
    /// Counts wrong codes of a sender.
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

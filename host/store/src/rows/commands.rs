//! Changes by commands.

use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::settings::SessionSettings;
use hermes_core::transcript::Message;
use hermes_protocol::Chat;

use super::{
    DeadTargetRow, GrantRow, HomeChannelRow, LockoutRow, NewDelivery, NewFork, NewMessage, NewSession, NewSummary,
    Observed, ObservedUpTo, OfferedRow, PairingRequestRow, RouteRow,
};

/// The changes of a command: transaction (g).
#[derive(Clone, Debug)]
pub struct CommandTx {
    /// Event of the command; becomes `answered`.
    pub inbox: Option<InboxId>,
    /// Changes, in order.
    pub changes: Vec<Change>,
    /// Replies.
    pub reply: Vec<NewDelivery>,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

/// Change by a command of a person or of the host.
#[derive(Clone, Debug)]
pub enum Change {
    /// Ends a session. An ended session keeps its first reason.
    EndSession {
        /// The session.
        session: SessionId,
        /// Reason of the end.
        reason: String,
    },
    /// Reopens an ended session.
    ReopenSession {
        /// The session.
        session: SessionId,
    },
    /// Creates a session.
    NewSession(NewSession),
    /// Creates a branch of a session.
    Fork(NewFork),
    /// Creates a session that continues from a summary, and ends the former one.
    Compress(Box<NewSummary>),
    /// Hides messages; nothing is deleted.
    Undo {
        /// The session.
        session: SessionId,
        /// Id of the first message.
        from: i64,
    },
    /// Restores the messages of the last undo.
    Redo {
        /// The session.
        session: SessionId,
        /// Number of the undo.
        number: i64,
    },
    /// Replaces the input of a waiting event's turn.
    Hear {
        /// The event.
        inbox: InboxId,
        /// Input, oldest first.
        input: Vec<Message>,
    },
    /// Binds or replaces a route.
    BindRoute(RouteRow),
    /// Records that a chat claimed a session with its code, like a handoff.
    Claimed {
        /// The session.
        session: SessionId,
        /// The instance of the chat.
        instance: String,
        /// The chat.
        chat: Chat,
    },
    /// Binds a chat to a session that was created for it, unless another conversation was handed over to the
    /// chat in the meantime.
    BindBorn(RouteRow),
    /// Removes a route.
    UnbindRoute {
        /// Stored key of the route.
        key: String,
    },
    /// Sets the title of a session; `None` removes it.
    SetTitle {
        /// The session.
        session: SessionId,
        /// New title.
        title: Option<String>,
    },
    /// Replaces the settings of a session.
    Settings {
        /// The session.
        session: SessionId,
        /// New settings.
        settings: SessionSettings,
    },
    /// Grants access.
    Grant(GrantRow),
    /// Revokes access.
    Revoke {
        /// Name of the instance.
        instance: String,
        /// Id of the user.
        user: String,
    },
    /// Stores a pairing request.
    PairingRequest(PairingRequestRow),
    /// Removes a pairing request after its code was used, together with the wrong codes of the sender.
    PairingDone {
        /// The request.
        request: PairingRequestRow,
        /// Name of the sender's count of wrong codes.
        counted_as: String,
    },
    /// Removes all pairing requests and lockouts of one instance or of all.
    ClearPairing {
        /// Name of the instance; `None` for all.
        instance: Option<String>,
    },
    /// Stores the number of wrong codes of a sender.
    Lockout(LockoutRow),
    /// Offers a session, to be claimed with its code.
    Offered(OfferedRow),
    /// Removes the offer of a claimed session.
    OfferTaken {
        /// The session.
        session: SessionId,
    },
    /// Sets the home channel of an instance.
    HomeChannel(HomeChannelRow),
    /// Removes the home channel of an instance.
    ForgetHomeChannel {
        /// Name of the instance.
        instance: String,
    },
    /// Closes the question of a delivery.
    AskOver {
        /// The delivery.
        delivery: DeliveryId,
        /// Outcome in words.
        outcome: String,
    },
    /// Records that a chat is unreachable.
    DeadTarget(DeadTargetRow),
    /// Records that a chat is reachable again.
    Revive {
        /// Name of the instance.
        instance: String,
        /// The chat.
        chat: Chat,
    },
    /// Replaces a chat by its new id in pending deliveries, routes, the home channel and the directory.
    Migrated {
        /// Name of the instance.
        instance: String,
        /// Former chat.
        from: Chat,
        /// New chat.
        to: Chat,
        /// Old key and new row of each route.
        routes: Vec<(String, RouteRow)>,
    },
    /// Stores a chat in the directory after a message from it or a listing by its adapter.
    SawChat {
        /// Name of the instance.
        instance: String,
        /// The chat with its names.
        chat: Chat,
        /// Time of the message or listing, in Unix milliseconds.
        seen_ms: i64,
    },
    /// Adds a message that the host sent on its own to the transcript of the chat's session.
    Mirror {
        /// The session, which must be open.
        session: SessionId,
        /// The message.
        said: NewMessage,
    },
    /// Enables or disables an instance.
    AdapterEnabled {
        /// Name of the instance.
        instance: String,
        /// True to enable.
        on: bool,
    },
    /// Stores a message of a group as context for the next turn of that group.
    Observe {
        /// The instance.
        instance: String,
        /// The chat.
        chat: Chat,
        /// The message.
        line: Observed,
    },
    /// Removes the stored messages of a group up to an event.
    ForgetObserved(ObservedUpTo),
    /// Drops waiting events.
    DropInbox {
        /// The events.
        ids: Vec<InboxId>,
        /// Reason, stored with the events.
        why: String,
    },
    /// Sets a value of the host; `None` removes it.
    Flag {
        /// Key.
        key: String,
        /// Value.
        value: Option<String>,
    },
}

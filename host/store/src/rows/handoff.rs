//! Handoffs of conversations.

use hermes_core::handoff::HandoffState;
use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId};
use hermes_core::transcript::Message;
use hermes_protocol::Chat;
use serde::{Deserialize, Serialize};

use super::{NewInbox, RouteRow};

/// The handoff of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffRow {
    /// The session.
    pub session: SessionId,
    /// Title of the session.
    pub title: Option<String>,
    /// Owner of the session.
    pub owner: Option<String>,
    /// State of the handoff.
    pub state: HandoffState,
    /// Target instance; empty if there was no request.
    pub instance: String,
    /// Number of claims.
    pub attempts: u32,
    /// Chat in which the conversation continues.
    pub chat: Option<Chat>,
    /// Former session of the chat.
    pub former: Option<SessionId>,
    /// Former routes of the chats, to be restored after a failure.
    pub routes: Option<HandoffRoutes>,
    /// Event that opens the conversation in the chat.
    pub inbox: Option<InboxId>,
    /// Last delivery before those of the opening event.
    pub behind: Option<DeliveryId>,
    /// Time of the request, in Unix milliseconds.
    pub asked_ms: i64,
    /// Start of the state, in Unix milliseconds.
    pub at_ms: i64,
    /// True if a chat of the target instance is bound to the session.
    pub is_there: bool,
}

/// The claim of one handoff request. An action with a claim affects only that claim. Later claims are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandoffClaim {
    /// Time of the request, in Unix milliseconds; unique among the requests for a session.
    pub asked_ms: i64,
    /// Number of claims, including this one.
    pub attempts: u32,
}

/// Selector of a handoff of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichHandoff {
    /// The request with this time, in Unix milliseconds.
    Asked(i64),
    /// Exactly this claim.
    Claim(HandoffClaim),
}

impl HandoffRow {
    /// Returns true if the selector matches this handoff.
    pub fn is(&self, which: WhichHandoff) -> bool {
        match which {
            WhichHandoff::Asked(asked_ms) => self.asked_ms == asked_ms,
            WhichHandoff::Claim(claim) => self.claim() == claim,
        }
    }

    /// Returns the current claim.
    pub fn claim(&self) -> HandoffClaim {
        HandoffClaim { asked_ms: self.asked_ms, attempts: self.attempts }
    }
}

/// The routes that a handoff changed, in their former state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRoutes {
    /// Stored key that it bound.
    pub bound: String,
    /// Routes that it replaced or removed.
    pub before: Vec<KeptRoute>,
}

/// A saved route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRoute {
    /// Stored key.
    pub key: String,
    /// Profile of the key.
    pub profile: String,
    /// Instance of the key.
    pub instance: String,
    /// Session of the route.
    pub session: SessionId,
    /// Chat of the route.
    pub origin: Chat,
    /// Time of the last use, in Unix milliseconds.
    pub used_ms: i64,
    /// True if all members of the chat and thread shared it.
    pub shared: bool,
    /// True if the agent took part there.
    pub participates: bool,
}

/// The binding of a chat to a session, the central step of a handoff.
#[derive(Clone, Debug)]
pub struct HandoffBind {
    /// The session.
    pub session: SessionId,
    /// Claim of the handoff.
    pub claim: HandoffClaim,
    /// Run of the host that carries out the handoff.
    pub epoch: Epoch,
    /// Event that opens the conversation in the chat.
    pub event: NewInbox,
    /// Input of its turn.
    pub input: Vec<Message>,
    /// New route of the chat.
    pub route: RouteRow,
    /// Former routes.
    pub routes: HandoffRoutes,
    /// Former session of the chat, which ends.
    pub former: Option<SessionId>,
    /// Stored keys of routes to be removed from the session.
    pub freed: Vec<String>,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

/// Result of a handoff request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoffAsked {
    /// The handoff is pending.
    Made {
        /// Time of the request in Unix milliseconds, which identifies it.
        asked_ms: i64,
    },
    /// The session does not exist.
    Unknown,
    /// A turn of the session runs or waits to be resumed.
    MidTurn,
    /// A handoff of the session is already in progress.
    UnderWay(Box<HandoffRow>),
}

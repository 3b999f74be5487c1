//! A conversation on its way to another place.

use hermes_agent::Message;
use hermes_core::handoff::HandoffState;
use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId};
use hermes_protocol::Chat;
use serde::{Deserialize, Serialize};

use super::{NewInbox, RouteRow};

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

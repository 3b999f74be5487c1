//! A turn from its admission to its end.

use hermes_agent::Message;
use hermes_core::ids::{Epoch, InboxId, SessionId, TurnId};
use hermes_protocol::Usage;
use serde::Serialize;
use serde_json::Value;

use crate::store::words::TurnEnd;

use super::{InboxRow, NewDelivery, NewSession, RouteRow};

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

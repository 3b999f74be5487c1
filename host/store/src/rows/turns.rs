//! Turns from their admission to their end.

use hermes_core::ids::{Epoch, InboxId, SessionId, TurnId};
use hermes_core::transcript::Message;
use hermes_protocol::Usage;
use serde::Serialize;
use serde_json::Value;

use crate::words::TurnEnd;

use super::{InboxRow, NewDelivery, NewSession, ObservedUpTo, RouteRow};

/// A turn to be started: transaction (b).
#[derive(Clone, Debug)]
pub struct Admit {
    /// Session of the turn.
    pub session: SessionId,
    /// The session itself, if it does not exist yet.
    pub new_session: Option<NewSession>,
    /// Route to be bound or refreshed, if it changed.
    pub route: Option<RouteRow>,
    /// Events that the turn answers, in order; none for a turn of the host itself.
    pub inbox: Vec<InboxId>,
    /// Run of the host that runs the turn.
    pub epoch: Epoch,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

/// A transcript entry to be stored.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The message.
    pub message: Message,
    /// Ids of the message on the platform.
    pub platform_ids: Vec<String>,
    /// Time of the message, in Unix milliseconds.
    pub at_ms: i64,
}

impl NewMessage {
    /// Creates an entry without platform ids.
    pub fn new(message: Message, at_ms: i64) -> Self {
        Self { message, platform_ids: Vec::new(), at_ms }
    }
}

/// A stored transcript entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageRow {
    /// Id, ascending within a session.
    pub id: i64,
    /// Turn of the message.
    pub turn: Option<TurnId>,
    /// The message.
    pub message: Message,
    /// Ids of the message on the platform.
    pub platform_ids: Vec<String>,
    /// Time of the message, in Unix milliseconds.
    pub at_ms: i64,
}

/// The end of a turn: transaction (c).
#[derive(Clone, Debug)]
pub struct EndTurn {
    /// The turn.
    pub turn: TurnId,
    /// Kind of the end.
    pub state: TurnEnd,
    /// Error of a failed turn, without secrets.
    pub error: Option<String>,
    /// Its session.
    pub session: SessionId,
    /// Messages to be added to the transcript.
    pub messages: Vec<NewMessage>,
    /// Deliveries of the turn.
    pub deliveries: Vec<NewDelivery>,
    /// Usage of the turn.
    pub usage: Usage,
    /// Opaque state of the runtime: name of the runtime and value.
    pub agent_state: Option<(String, Value)>,
    /// Messages of the group that the turn had as context. They are removed with the end of the turn.
    pub observed: Option<ObservedUpTo>,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

/// A turn interrupted by the end of an earlier epoch.
#[derive(Clone, Debug)]
pub struct CutOffTurn {
    /// The turn; its state is `queued`.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// Number of starts.
    pub attempts: u32,
    /// Events that the turn answers, in order.
    pub inbox: Vec<InboxRow>,
}

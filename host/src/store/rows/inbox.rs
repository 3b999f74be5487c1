//! An event on its way in.

use hermes_agent::Message;
use hermes_core::ids::{InboxId, SessionId};

use crate::store::words::InboxState;

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

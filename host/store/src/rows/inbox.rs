//! Incoming events.

use hermes_core::ids::{InboxId, SessionId};
use hermes_core::transcript::Message;

use crate::words::InboxState;

/// An event to be stored: transaction (a).
#[derive(Clone, Debug)]
pub struct NewInbox {
    /// Instance of the event.
    pub instance: String,
    /// Id of the event on the platform.
    pub event_id: String,
    /// Time of the event by the platform's clock, in Unix milliseconds.
    pub at_ms: i64,
    /// Time of arrival at the host, in Unix milliseconds.
    pub received_ms: i64,
    /// The `Event` as JSON.
    pub event: String,
}

/// Result of storing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The event is new and committed.
    New(InboxId),
    /// The same platform event was committed before, with this id.
    Duplicate(InboxId),
}

/// A stored event.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    /// Id of the row.
    pub id: InboxId,
    /// Instance of the event.
    pub instance: String,
    /// Id of the event on the platform.
    pub event_id: String,
    /// Time of the event by the platform's clock, in Unix milliseconds.
    pub at_ms: i64,
    /// Time of arrival at the host, in Unix milliseconds.
    pub received_ms: i64,
    /// The `Event` as JSON; empty after the text was removed.
    pub event: String,
    /// State of the event.
    pub state: InboxState,
    /// Input of the turn, which replaces the text of the event.
    pub input: Option<Vec<Message>>,
    /// Session that the event wakes; only for events of the host itself.
    pub wakes: Option<SessionId>,
}

//! Subscriptions of sessions to activities, and the events that wake sessions.

use hermes_core::ids::{Epoch, SessionId};
use hermes_core::transcript::Message;
use hermes_protocol::{Chat, Sender};

use super::NewInbox;

/// A subscription to be stored.
#[derive(Clone, Debug)]
pub struct NewWatch {
    /// Id of the activity, unique forever.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// Instance of the request.
    pub instance: String,
    /// Id of the chat of the request.
    pub chat_id: String,
    /// Requester, if no running turn determines it.
    pub sender: Option<Sender>,
    /// Description of the activity.
    pub what: String,
    /// Epoch of this run of the host.
    pub epoch: Epoch,
}

/// A stored subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchRow {
    /// Id of the activity.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// Instance of the request.
    pub instance: String,
    /// Chat of the request.
    pub chat: Chat,
    /// Requester.
    pub sender: Option<Sender>,
    /// Description of the activity.
    pub what: String,
    /// Number of notifications.
    pub told: u32,
    /// Reported progress, in the unit of the activity.
    pub upto: u64,
}

/// A notification about an activity.
#[derive(Clone, Debug)]
pub struct WatchTold {
    /// Id of the activity.
    pub id: String,
    /// Number of earlier notifications.
    pub before: u32,
    /// Reported progress, in the unit of the activity.
    pub upto: u64,
    /// True for the last notification.
    pub last: bool,
    /// Event that wakes the session.
    pub wake: NewWake,
}

/// An event of the host itself that wakes a session.
#[derive(Clone, Debug)]
pub struct NewWake {
    /// The session.
    pub session: SessionId,
    /// The event; its id prevents a repetition.
    pub event: NewInbox,
    /// Input of its turn.
    pub input: Vec<Message>,
}

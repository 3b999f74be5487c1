//! Messages of groups that were not addressed to the agent.

use hermes_core::ids::InboxId;
use hermes_protocol::Chat;
use serde::{Deserialize, Serialize};

/// One message of a group, as shown to the next turn of that group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Id of the event in the inbox.
    pub inbox: i64,
    /// Time of the message, in Unix milliseconds.
    pub at_ms: i64,
    /// Name of the sender.
    pub name: String,
    /// Text, including the names of attached files.
    pub text: String,
}

/// The messages of one chat up to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedUpTo {
    /// The instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// Event of the last message.
    pub inbox: InboxId,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

//! Messages that were not addressed to the agent.

use hermes_core::ids::InboxId;
use hermes_protocol::Chat;
use serde::{Deserialize, Serialize};

/// One message of a group, as the next turn there sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The row of its event.
    pub inbox: i64,
    /// The time it was said.
    pub at_ms: i64,
    /// The name of its sender.
    pub name: String,
    /// Its text, with the names of its files.
    pub text: String,
}

/// The messages of one chat up to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedUpTo {
    /// The instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// The last of them.
    pub inbox: InboxId,
    /// The current time.
    pub now_ms: i64,
}

//! Where a turn came from, as a value.

use crate::ids::SessionId;

/// The interface a turn was asked on. Handed to whoever needs it; nothing is ambient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnContext {
    /// Id of the adapter.
    pub platform: String,
    /// Name of the instance.
    pub source: String,
    /// The chat.
    pub chat_id: String,
    /// Its display name.
    pub chat_name: String,
    /// The thread; empty when there is none.
    pub thread_id: String,
    /// Who asked.
    pub user_id: String,
    /// Their display name.
    pub user_name: String,
    /// The session key, printed.
    pub session_key: String,
    /// The session.
    pub session_id: Option<SessionId>,
    /// The message that a reply answers.
    pub message_id: String,
    /// The profile.
    pub profile: String,
    /// Whether something can be delivered after the turn.
    pub async_delivery: bool,
}

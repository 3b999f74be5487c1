//! Chats and senders.

use serde::{Deserialize, Serialize};

use crate::word::words;

words! {
    /// The kind of a chat. Only these four exist; `private` is read as `dm`.
    pub enum ChatType {
        /// A conversation of one person with the agent.
        Dm = "dm",
        /// A conversation of several people.
        Group = "group",
        /// A broadcast: few members write, many read.
        Channel = "channel",
        /// A conversation inside a group or channel with its own history.
        Thread = "thread",
    }
}

/// The place of a message. An adapter uses the same value on every path: message, edit,
/// reaction, button, slash interaction, handoff thread.
///
/// Two chats are equal if `type`, `id` and `thread` are equal; the names are for display. A
/// workspace or guild that the ids need is part of `id`; `space` names it for the host and
/// is not compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Chat {
    /// The kind of the chat.
    #[serde(rename = "type")]
    pub kind: ChatType,
    /// The platform's stable id in canonical form, never a display name.
    pub id: String,
    /// The thread or topic inside the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The chat that contains the thread, if the thread has an id of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The display name of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<String>,
    /// The platform's stable id of the guild, team or server that the chat belongs to. Since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
}

impl Chat {
    /// Creates a chat without a thread or names.
    pub fn new(kind: ChatType, id: impl Into<String>) -> Self {
        Self { kind, id: id.into(), thread: None, parent: None, name: None, thread_name: None, space: None }
    }

    /// Creates a direct message chat.
    pub fn dm(id: impl Into<String>) -> Self {
        Self::new(ChatType::Dm, id)
    }

    /// Returns the chat with this thread.
    pub fn in_thread(mut self, thread: impl Into<String>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Returns the chat as a part of this guild, team or server. Since 1.1.
    pub fn in_space(mut self, space: impl Into<String>) -> Self {
        self.space = Some(space.into());
        self
    }

    /// Returns the chat with a display name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl PartialEq for Chat {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.id == other.id && self.thread == other.thread
    }
}

impl Eq for Chat {}

impl std::hash::Hash for Chat {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.kind, &self.id, &self.thread).hash(state);
    }
}

/// The author of an event. Only `id` and `alt_id` take part in decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Sender {
    /// The platform's stable id of the account; empty if there is none.
    #[serde(default)]
    pub id: String,
    /// A second stable id, on platforms with two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_id: Option<String>,
    /// The display name. Never compared with anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the platform reports the account as a bot.
    #[serde(default)]
    pub is_bot: bool,
    /// Roles confirmed by the adapter. Counted only under `trust_upstream`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

impl Sender {
    /// Creates a human sender with this id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Returns the sender with a display name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the sender, marked as a bot or a person.
    pub fn bot(mut self, is_bot: bool) -> Self {
        self.is_bot = is_bot;
        self
    }

    /// Returns the sender with an additional role.
    pub fn with_role(mut self, role: impl Into<String>) -> Self {
        self.roles.push(role.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn the_space_is_no_part_of_the_comparison() {
        let (with, without) = (Chat::dm("7").in_space("guild"), Chat::dm("7"));
        assert_eq!(with, without);
        let hashes = RandomState::new();
        assert_eq!(hashes.hash_one(&with), hashes.hash_one(&without));
        assert_ne!(with, Chat::dm("8").in_space("guild"));
    }
}

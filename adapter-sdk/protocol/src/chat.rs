//! Where and who.

use serde::{Deserialize, Serialize};

use crate::word::words;

words! {
    /// The kind of a chat. Only the first four exist; `private` is read as `dm`.
    pub enum ChatType {
        /// One person and the agent.
        Dm = "dm",
        /// Several people.
        Group = "group",
        /// A broadcast: few write, many read.
        Channel = "channel",
        /// A conversation inside a group or channel that has its own scrollback.
        Thread = "thread",
    }
}

/// Where something was said. The same value on every path of one adapter:
/// message, edit, reaction, button, slash interaction, handoff thread.
///
/// Two chats are the same when `type`, `id` and `thread` are equal; the names
/// are for people. A workspace or guild that ids need is part of `id`; `space`
/// names it for the host and is no part of the comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Chat {
    /// Kind of the chat.
    #[serde(rename = "type")]
    pub kind: ChatType,
    /// The platform's stable id, canonical, never a display name.
    pub id: String,
    /// The thread or topic inside the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The chat that a thread belongs to, where the thread has an id of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Display name of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<String>,
    /// The platform's stable id of the guild, team or server that the chat belongs to. Since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
}

impl Chat {
    /// A chat without a thread or names.
    pub fn new(kind: ChatType, id: impl Into<String>) -> Self {
        Self { kind, id: id.into(), thread: None, parent: None, name: None, thread_name: None, space: None }
    }

    /// A direct message chat.
    pub fn dm(id: impl Into<String>) -> Self {
        Self::new(ChatType::Dm, id)
    }

    /// The same chat, inside `thread`.
    pub fn in_thread(mut self, thread: impl Into<String>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Returns the chat as a part of this guild, team or server. Since 1.1.
    pub fn in_space(mut self, space: impl Into<String>) -> Self {
        self.space = Some(space.into());
        self
    }

    /// The same chat with a display name.
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

/// Who said something. Only `id` and `alt_id` ever decide anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Sender {
    /// The platform's stable id of the account; empty when there is none.
    #[serde(default)]
    pub id: String,
    /// A second stable id, where a platform has two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_id: Option<String>,
    /// Display name. Never matched against anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the platform says that this is a bot.
    #[serde(default)]
    pub is_bot: bool,
    /// Roles the adapter vouches for; they count only under `trust_upstream`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

impl Sender {
    /// A human sender with this id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// The same sender with a display name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same sender, marked as a bot or not.
    pub fn bot(mut self, is_bot: bool) -> Self {
        self.is_bot = is_bot;
        self
    }

    /// The same sender with a role.
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

//! Keys that identify the conversation of an event.
//!
//! A [`SessionKey`] is compared, stored and printed, but never split: ids contain arbitrary characters,
//! including colons. Its text is therefore escaped and positional, so that different keys always have different
//! texts:
//!
//! ```text
//! agent:main:telegram:dm:123            a direct message
//! agent:main:telegram:dm:123:7          its topic 7
//! agent:main:slack:thread:C1:17.5       all members of a thread
//! agent:main:slack:group:C1::U1         one person in a group; the thread's place is empty
//! agent:main:matrix:dm:!room%3Aserver   an id with a colon
//! ```
//!
//! [`crate::routes`] maps keys to sessions.

use std::fmt;

use hermes_protocol::{Chat, ChatType, Sender};

mod title;

#[cfg(test)]
mod tests;

pub use title::title_from;

/// Namespace of the default profile.
pub const MAIN_PROFILE: &str = "main";

/// Policy for conversations outside of direct messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPolicy {
    /// Gives each person in a group a separate conversation.
    pub group_sessions_per_user: bool,
    /// Applies `group_sessions_per_user` inside threads too.
    pub thread_sessions_per_user: bool,
}

impl Default for KeyPolicy {
    fn default() -> Self {
        Self { group_sessions_per_user: true, thread_sessions_per_user: false }
    }
}

/// The key of one conversation.
// The order of the fields is the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    profile: String,
    instance: String,
    kind: ChatKind,
    chat: String,
    thread: Option<String>,
    user: Option<String>,
}

/// The closed set of chat types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ChatKind {
    Dm,
    Group,
    Channel,
    Thread,
}

/// Reason for which a message opens no session. A fault of the adapter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingIdentity {
    /// The direct message names neither its chat nor its sender.
    #[error("a direct message names neither its chat nor its sender")]
    Dm,
    /// The chat has no id.
    #[error("a {0} chat has no id")]
    Chat(String),
    /// The chat type is not in the closed set.
    #[error("{0:?} is not a chat type; use dm, group, channel or thread")]
    Kind(String),
}

impl SessionKey {
    /// Returns the key of a message of `sender` in `chat`.
    ///
    /// A direct message is identified by its chat, or else by the person (`alt_id` before `id`). In other chats
    /// the person is part of the key if `policy` requires it.
    ///
    /// # Errors
    ///
    /// A message without any identity opens no session.
    pub fn for_chat(
        profile: &str,
        instance: &str,
        chat: &Chat,
        sender: &Sender,
        policy: KeyPolicy,
    ) -> Result<Self, MissingIdentity> {
        let mut key = Self::place(profile, instance, chat)?;
        if key.kind == ChatKind::Dm {
            if key.chat.is_empty() {
                key.chat = participant(sender).ok_or(MissingIdentity::Dm)?.to_owned();
            }
            return Ok(key);
        }
        if key.chat.is_empty() {
            return Err(MissingIdentity::Chat(chat.kind.to_string()));
        }
        let isolated = policy.group_sessions_per_user && (key.thread.is_none() || policy.thread_sessions_per_user);
        if isolated {
            key.user = participant(sender).map(str::to_owned);
        }
        Ok(key)
    }

    /// Returns the key that all members of `chat` and its thread share.
    ///
    /// # Errors
    ///
    /// A chat without an id has no such key.
    pub fn shared(profile: &str, instance: &str, chat: &Chat) -> Result<Self, MissingIdentity> {
        let key = Self::place(profile, instance, chat)?;
        if key.chat.is_empty() {
            return Err(MissingIdentity::Chat(chat.kind.to_string()));
        }
        Ok(key)
    }

    /// Returns the stored form: escaped, identical to the printed text.
    pub fn stored(&self) -> String {
        self.to_string()
    }

    /// Returns the instance of the conversation.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the profile of the conversation.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Returns the person to whom the conversation is limited; `None` if several people may share it.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns true if several people may take part, so that the agent needs the name of each sender.
    pub fn is_shared_by_several(&self) -> bool {
        self.kind != ChatKind::Dm && self.user.is_none()
    }

    /// Returns the key of a place without a participant; the chat id may still be empty.
    fn place(profile: &str, instance: &str, chat: &Chat) -> Result<Self, MissingIdentity> {
        Ok(Self {
            profile: canonical_profile(profile).to_owned(),
            instance: instance.to_owned(),
            kind: ChatKind::of(&chat.kind)?,
            chat: chat.id.clone(),
            thread: filled(chat.thread.as_deref()).map(str::to_owned),
            user: None,
        })
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "agent:{}:{}:{}:{}",
            Escaped(&self.profile),
            Escaped(&self.instance),
            self.kind.as_str(),
            Escaped(&self.chat)
        )?;
        match (&self.thread, &self.user) {
            (None, None) => Ok(()),
            (Some(thread), None) => write!(f, ":{}", Escaped(thread)),
            (None, Some(user)) => write!(f, "::{}", Escaped(user)),
            (Some(thread), Some(user)) => write!(f, ":{}:{}", Escaped(thread), Escaped(user)),
        }
    }
}

impl ChatKind {
    fn of(kind: &ChatType) -> Result<Self, MissingIdentity> {
        match kind {
            _ if is_dm(kind) => Ok(Self::Dm),
            ChatType::Group => Ok(Self::Group),
            ChatType::Channel => Ok(Self::Channel),
            ChatType::Thread => Ok(Self::Thread),
            other => Err(MissingIdentity::Kind(other.to_string())),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Thread => "thread",
        }
    }
}

/// Returns true for a chat between one person and the agent. The type `private` counts as `dm`.
pub fn is_dm(kind: &ChatType) -> bool {
    match kind {
        ChatType::Dm => true,
        ChatType::Unknown(word) => word == "private",
        _ => false,
    }
}

/// Returns the id that identifies a person in keys: `alt_id` before `id`.
pub fn participant(sender: &Sender) -> Option<&str> {
    filled(sender.alt_id.as_deref()).or_else(|| filled(Some(&sender.id)))
}

/// Maps all spellings of the default profile to one name.
fn canonical_profile(profile: &str) -> &str {
    match profile {
        "" | "default" => MAIN_PROFILE,
        other => other,
    }
}

/// Treats an empty id as missing.
fn filled(id: Option<&str>) -> Option<&str> {
    id.filter(|id| !id.is_empty())
}

/// A field of a key as text, in which the bytes of `%`, `:`, whitespace and control characters become `%XX`.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for c in self.0.chars() {
            if c == '%' || c == ':' || c.is_control() || c.is_whitespace() {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    write!(f, "%{byte:02X}")?;
                }
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

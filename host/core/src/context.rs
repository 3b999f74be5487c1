//! The origin of a turn, as a value.
//!
//! The context of a turn is passed explicitly; a spawned task inherits nothing. It follows the interface of
//! this turn, never the session. Code that may run outside of a turn (the terminal, scheduled work, tests)
//! holds a [`Binding`], which distinguishes *never bound*, *bound to empty values* and *cleared*.

use std::collections::BTreeMap;

use hermes_protocol::Chat;

use crate::ids::SessionId;

#[cfg(test)]
mod tests;

/// The interface on which a turn was requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnContext {
    /// Id of the adapter.
    pub platform: String,
    /// Name of the instance.
    pub source: String,
    /// Chat to which answers are addressed.
    pub chat: Option<Chat>,
    /// Id of the chat.
    pub chat_id: String,
    /// Display name of the chat.
    pub chat_name: String,
    /// Id of the thread; empty if there is none.
    pub thread_id: String,
    /// Id of the requester.
    pub user_id: String,
    /// Display name of the requester.
    pub user_name: String,
    /// Owner of the conversation, as `<instance>:<user>` or `operator`. Data that tools search and store is
    /// bound to this owner. Empty if nobody is known, or if several people read the answer, which is the case
    /// in every chat that is not a direct message.
    pub owner: String,
    /// Requester in the format of `owner`, set also if several people read the answer. Owner of objects created
    /// on the requester's behalf.
    pub person: String,
    /// Session key as text.
    pub session_key: String,
    /// Id of the session. Replaced at once when the session rotates during the turn.
    pub session_id: Option<SessionId>,
    /// Message to which a reply refers.
    pub message_id: String,
    /// Name of the profile.
    pub profile: String,
    /// Working folder of tools; empty for the folder of the host.
    pub cwd: String,
    /// True if results can be delivered after the turn.
    pub async_delivery: bool,
    /// Delivery target of scheduled work; `None` for other turns.
    pub cron: Option<CronTarget>,
    /// Access token for the control socket, for the processes of this turn. Expires with the turn.
    pub control: ControlToken,
}

/// A secret that lets the processes of one run use the control socket. Empty if they have no access.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ControlToken(String);

impl ControlToken {
    /// Wraps a secret.
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Returns the secret. Pass it only to the environment of a child process.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlToken")
    }
}

/// Environment variable that holds the [`ControlToken`] of a run.
pub const CONTROL_TOKEN: &str = "HERMES_CONTROL_TOKEN";

/// Delivery target of scheduled work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronTarget {
    /// Id of the adapter.
    pub platform: String,
    /// Id of the chat.
    pub chat_id: String,
    /// Id of the thread; empty if there is none.
    pub thread_id: String,
}

/// Environment variables of a turn, in the order of the fields.
pub const SESSION_VARIABLES: [&str; 11] = [
    "HERMES_SESSION_PLATFORM",
    "HERMES_SESSION_SOURCE",
    "HERMES_SESSION_CHAT_ID",
    "HERMES_SESSION_CHAT_NAME",
    "HERMES_SESSION_THREAD_ID",
    "HERMES_SESSION_USER_ID",
    "HERMES_SESSION_USER_NAME",
    "HERMES_SESSION_KEY",
    "HERMES_SESSION_ID",
    "HERMES_SESSION_MESSAGE_ID",
    "HERMES_SESSION_PROFILE",
];

/// Environment variables of scheduled work.
pub const CRON_VARIABLES: [&str; 3] =
    ["HERMES_CRON_AUTO_DELIVER_PLATFORM", "HERMES_CRON_AUTO_DELIVER_CHAT_ID", "HERMES_CRON_AUTO_DELIVER_THREAD_ID"];

impl TurnContext {
    /// Replaces the session after a rotation (compression, branch). Later child processes get the new id.
    pub fn rotate(&mut self, session: SessionId) {
        self.session_id = Some(session);
    }

    /// Returns the value of one variable, or `None` if this context does not bind the name.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.bound().find(|(bound, _)| *bound == name).map(|(_, value)| value)
    }

    /// Returns the environment changes for a child process of this turn (a tool, a hook).
    pub fn child_environment(&self) -> ChildEnvironment {
        let mut set: BTreeMap<_, _> = self.bound().map(|(name, value)| (name, without_nul(value))).collect();
        let mut remove = if self.cron.is_some() { Vec::new() } else { CRON_VARIABLES.to_vec() };
        match self.control.expose() {
            "" => remove.push(CONTROL_TOKEN),
            token => _ = set.insert(CONTROL_TOKEN, without_nul(token)),
        }
        ChildEnvironment { set, remove }
    }

    fn bound(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let session = [
            self.platform.as_str(),
            &self.source,
            &self.chat_id,
            &self.chat_name,
            &self.thread_id,
            &self.user_id,
            &self.user_name,
            &self.session_key,
            self.session_id.as_ref().map_or("", SessionId::as_str),
            &self.message_id,
            &self.profile,
        ];
        let cron = self.cron.as_ref().map(|cron| [cron.platform.as_str(), &cron.chat_id, &cron.thread_id]);
        SESSION_VARIABLES.into_iter().zip(session).chain(CRON_VARIABLES.into_iter().zip(cron.into_iter().flatten()))
    }
}

/// Removes NUL characters. Users choose chat names freely, and a NUL would prevent the start of the child
/// process.
fn without_nul(value: &str) -> String {
    value.replace('\0', "")
}

/// Changes to the environment of a child process, applied after all other filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// Variables to set, including those with an empty value.
    pub set: BTreeMap<&'static str, String>,
    /// Variables to remove even if the parent has them.
    pub remove: Vec<&'static str>,
}

/// State of the context for a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Never bound; the environment of the process applies.
    #[default]
    Unbound,
    /// Bound, possibly to empty values; no fallback.
    Bound(Box<TurnContext>),
    /// The turn has ended: empty, no fallback.
    Cleared,
}

impl Binding {
    /// Returns the value of a variable; `environment` reads a variable of the process.
    pub fn variable(&self, name: &str, environment: impl FnOnce(&str) -> Option<String>) -> Option<String> {
        match self {
            Self::Bound(context) => context.variable(name).map(str::to_owned).or_else(|| environment(name)),
            Self::Cleared if SESSION_VARIABLES.contains(&name) => Some(String::new()),
            Self::Unbound | Self::Cleared => environment(name),
        }
    }

    /// Returns true if results can be delivered after the turn.
    pub fn async_delivery(&self) -> bool {
        match self {
            Self::Bound(context) => context.async_delivery,
            Self::Unbound | Self::Cleared => true,
        }
    }

    /// Returns the environment changes for a child process. `engaged` is true once this process has run a turn.
    pub fn child_environment(&self, engaged: bool) -> ChildEnvironment {
        match self {
            Self::Bound(context) => context.child_environment(),
            Self::Cleared => ChildEnvironment {
                set: SESSION_VARIABLES.into_iter().map(|name| (name, String::new())).collect(),
                remove: CRON_VARIABLES.into_iter().chain([CONTROL_TOKEN]).collect(),
            },
            Self::Unbound if engaged => ChildEnvironment {
                set: BTreeMap::new(),
                remove: SESSION_VARIABLES.into_iter().chain(CRON_VARIABLES).chain([CONTROL_TOKEN]).collect(),
            },
            Self::Unbound => ChildEnvironment::default(),
        }
    }
}

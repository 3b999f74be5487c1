//! Where a turn came from, as a value.
//!
//! A turn's context is handed to whoever needs it: a spawned task inherits
//! nothing. It follows the interface of this turn, never the session. Readers
//! that may run outside of any turn (the terminal, scheduled work, tests) hold a
//! [`Binding`], which tells *never bound* from *bound to nothing* from *cleared*.

use std::collections::BTreeMap;

use hermes_protocol::Chat;

use crate::ids::SessionId;

#[cfg(test)]
mod tests;

/// The interface a turn was asked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnContext {
    /// Id of the adapter.
    pub platform: String,
    /// Name of the instance.
    pub source: String,
    /// The chat, as answers are addressed to it.
    pub chat: Option<Chat>,
    /// Its id.
    pub chat_id: String,
    /// Its display name.
    pub chat_name: String,
    /// The thread; empty when there is none.
    pub thread_id: String,
    /// Who asked.
    pub user_id: String,
    /// Their display name.
    pub user_name: String,
    /// Whom a conversation of theirs belongs to, as `<instance>:<user>` or `operator`: what tools find and keep is bound to it.
    /// Empty where nobody is known, or where several people read the answer: in every chat that is not a dm.
    pub owner: String,
    /// Who asked, named as owners are, also where several people read the answer: what is made for them is theirs.
    pub person: String,
    /// The session key, printed.
    pub session_key: String,
    /// The session. Replaced at once when it rotates in mid-turn.
    pub session_id: Option<SessionId>,
    /// The message that a reply answers.
    pub message_id: String,
    /// The profile.
    pub profile: String,
    /// The working folder of tools; empty: the host's.
    pub cwd: String,
    /// Whether something can be delivered after the turn.
    pub async_delivery: bool,
    /// Where scheduled work delivers by itself; `None` outside of it.
    pub cron: Option<CronTarget>,
    /// The right of its processes to use the control socket; it ends with the turn.
    pub control: ControlToken,
}

/// The secret by which the processes of one run may use the control socket; empty: they have none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ControlToken(String);

impl ControlToken {
    /// Wraps a secret.
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Returns the secret. It belongs into the environment of a child and nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlToken")
    }
}

/// The variable that holds the [`ControlToken`] of a run.
pub const CONTROL_TOKEN: &str = "HERMES_CONTROL_TOKEN";

/// Where scheduled work delivers by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronTarget {
    /// Id of the adapter.
    pub platform: String,
    /// The chat.
    pub chat_id: String,
    /// The thread; empty when there is none.
    pub thread_id: String,
}

/// The variables of a turn, in the order of its fields.
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

/// The variables of scheduled work.
pub const CRON_VARIABLES: [&str; 3] =
    ["HERMES_CRON_AUTO_DELIVER_PLATFORM", "HERMES_CRON_AUTO_DELIVER_CHAT_ID", "HERMES_CRON_AUTO_DELIVER_THREAD_ID"];

impl TurnContext {
    /// Replaces the session after it rotated (compression, branch): later children get the new one.
    pub fn rotate(&mut self, session: SessionId) {
        self.session_id = Some(session);
    }

    /// Returns the value of one variable; `None` for a name that this context does not bind.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.bound().find(|(bound, _)| *bound == name).map(|(_, value)| value)
    }

    /// Returns what a child of this turn (a tool, a hook) gets in its environment.
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

/// A chat's name is whatever somebody typed; a NUL would keep the child from starting.
fn without_nul(value: &str) -> String {
    value.replace('\0', "")
}

/// What is changed in the environment of a child process, after everything else was filtered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// Variables to set, also to the empty string.
    pub set: BTreeMap<&'static str, String>,
    /// Variables to take out, whatever the parent has.
    pub remove: Vec<&'static str>,
}

/// What a reader sees of the context: three states, not two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Never bound here: the environment of the process counts.
    #[default]
    Unbound,
    /// Bound, even to empty values: no fallback.
    Bound(Box<TurnContext>),
    /// The turn is over: empty, no fallback.
    Cleared,
}

impl Binding {
    /// Returns the value of a variable; `environment` reads the process's own.
    pub fn variable(&self, name: &str, environment: impl FnOnce(&str) -> Option<String>) -> Option<String> {
        match self {
            Self::Bound(context) => context.variable(name).map(str::to_owned).or_else(|| environment(name)),
            Self::Cleared if SESSION_VARIABLES.contains(&name) => Some(String::new()),
            Self::Unbound | Self::Cleared => environment(name),
        }
    }

    /// Whether something can be delivered after the turn.
    pub fn async_delivery(&self) -> bool {
        match self {
            Self::Bound(context) => context.async_delivery,
            Self::Unbound | Self::Cleared => true,
        }
    }

    /// Returns the changes to a child's environment; `engaged`: this process has hosted a turn.
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

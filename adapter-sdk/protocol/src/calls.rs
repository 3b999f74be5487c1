//! Method names, and the small payloads without a file of their own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Attachment, Chat, TurnEvent, word::words};

/// Methods that the host calls on an adapter.
pub mod method {
    /// Opens the link. `{}` → `{}`, or a [`ConnectError`](crate::ConnectError).
    pub const CONNECT: &str = "connect";
    /// Receives events until the link is lost. `{}` → a [`ConnectError`](crate::ConnectError).
    pub const RUN: &str = "run";
    /// Checks the link with a round trip to the platform. `{}` → `{}`.
    pub const HEALTH: &str = "health";
    /// Closes the link. `{}` → `{}`.
    pub const DISCONNECT: &str = "disconnect";
    /// Sends one part. [`Outgoing`](crate::Outgoing) → [`SendOutcome`](crate::SendOutcome).
    pub const SEND: &str = "send";
    /// Edits a sent message. [`EditCall`](crate::EditCall) → [`SendOutcome`](crate::SendOutcome).
    pub const EDIT: &str = "edit";
    /// Deletes a sent message. [`SentMessage`](crate::SentMessage) → `{}`.
    pub const DELETE: &str = "delete";
    /// Shows or ends the typing indicator. [`TypingCall`](crate::TypingCall) → `{}`.
    pub const TYPING: &str = "typing";
    /// Reacts to a message. [`ReactCall`](crate::ReactCall) → `{}`.
    pub const REACT: &str = "react";
    /// Opens a thread for a handoff. [`HandoffThreadCall`](crate::HandoffThreadCall) → [`Chat`](crate::Chat) or `null`.
    pub const CREATE_HANDOFF_THREAD: &str = "create_handoff_thread";
    /// Renames a thread. [`RenameThreadCall`](crate::RenameThreadCall) → `{}`.
    pub const RENAME_THREAD: &str = "rename_thread";
    /// Renders and splits house markdown. [`RenderCall`](crate::RenderCall) → list of
    /// [`RenderedPart`](crate::RenderedPart).
    pub const RENDER: &str = "render";
    /// Replaces the command menu. [`CommandsCall`](crate::CommandsCall) → `{}`.
    pub const SET_COMMANDS: &str = "set_commands";
    /// Resolves a target that a person wrote to a chat. `{"target"}` → [`Chat`](crate::Chat) or `null`.
    pub const RESOLVE_TARGET: &str = "resolve_target";
    /// Describes a chat. [`Chat`](crate::Chat) → [`Chat`](crate::Chat) or `null`.
    pub const CHAT_INFO: &str = "chat.info";
    /// Lists known chats. `{}` → list of [`Chat`](crate::Chat).
    pub const CHAT_LIST: &str = "chat.list";
    /// Shows a draft that is not sent yet. [`DraftCall`](crate::DraftCall) → `{}`.
    pub const DRAFT: &str = "draft";
    /// Reports one event of a running turn. [`TurnEventCall`](crate::TurnEventCall) → `{}`.
    pub const TURN_EVENT: &str = "turn_event";
    /// Downloads a file that an event named. [`FetchCall`](crate::FetchCall) → [`Attachment`](crate::Attachment).
    pub const FETCH: &str = "fetch";
    /// Checks whether a send with a given key arrived. [`LookupCall`](crate::LookupCall) →
    /// [`LookupReply`](crate::LookupReply).
    pub const LOOKUP: &str = "lookup";
}

/// Methods that an adapter calls on the host.
pub mod host_method {
    /// Hands an event to the host. [`Event`](crate::Event) → [`Emitted`](crate::Emitted), after the event is committed.
    pub const EMIT: &str = "emit";
    /// Reads a value. `{"key"}` → `{"value"}` or `{"value": null}`.
    pub const KV_GET: &str = "kv.get";
    /// Writes a value of at most 64 KiB. `{"key", "value"}` → `{}`, after the value is committed.
    pub const KV_SET: &str = "kv.set";
    /// Deletes a value. `{"key"}` → `{}`.
    pub const KV_DELETE: &str = "kv.delete";
    /// Reserves a path for an incoming file. [`MediaCreate`](crate::MediaCreate) → [`MediaSlot`](crate::MediaSlot).
    pub const MEDIA_CREATE: &str = "media.create";
    /// Commits an incoming file after it is written. `{"id"}` → `{"size", "sha256"}`.
    pub const MEDIA_COMMIT: &str = "media.commit";
    /// Reads a secret from this instance's configuration. `{"name"}` → `{"value"}`.
    pub const SECRET: &str = "secret";
    /// Adds `value` to a metric. `{"name", "value"}` → `{}`.
    pub const METRIC: &str = "metric";
    /// Reports the state of the link. [`LinkState`](crate::LinkState) → `{}`.
    pub const LINK: &str = "link";
    /// Reports that a round trip with data has just succeeded. `{}` → `{}`.
    pub const PROVED: &str = "proved";
    /// Announces an address for the start-up output and `status`. [`Announce`](crate::Announce) → `{}`.
    pub const ANNOUNCE: &str = "announce";
    /// Claims a credential for this instance. `{"identity"}` → `{}` or `credential_in_use`.
    pub const LOCK_CREDENTIAL: &str = "lock_credential";
    /// Classifies a failure of `create`, right before `create` returns its error text: a
    /// [`CallError`](crate::CallError) with the code `panic`, `late` or `refused` → `{}`. Since 1.1.
    pub const CREATE_FAILED: &str = "create_failed";
    /// Stops the turn of an event. `{"inbox_id"}` → `{"stopped"}`.
    pub const TURNS_STOP: &str = "turns.stop";
    /// Returns the state of an event's turn. `{"inbox_id"}` → `{"state"}`.
    pub const TURNS_STATUS: &str = "turns.status";
    /// Answers a question with one of its options. `{"ask", "option", "sender"}` → `{}`.
    pub const CHOICES_ANSWER: &str = "choices.answer";
    /// Lists the sender's sessions. `{"sender", "limit"?, "before_ms"?}` → list of session objects.
    pub const SESSIONS_LIST: &str = "sessions.list";
    /// Returns one session. `{"sender", "session_id"}` → session object.
    pub const SESSIONS_GET: &str = "sessions.get";
    /// Returns the messages of a session. `{"sender", "session_id", "limit"?}` → list of messages.
    pub const SESSIONS_HISTORY: &str = "sessions.history";
    /// Creates a session for a chat. `{"sender", "chat", "title"?}` → session object.
    pub const SESSIONS_CREATE: &str = "sessions.create";
    /// Renames a session. `{"sender", "session_id", "title"}` → `{}`.
    pub const SESSIONS_RENAME: &str = "sessions.rename";
    /// Deletes a session. `{"sender", "session_id"}` → `{}`.
    pub const SESSIONS_DELETE: &str = "sessions.delete";
    /// Forks a session, for `chat` if it is given. `{"sender", "session_id", "chat"?, "title"?}` → session object.
    pub const SESSIONS_FORK: &str = "sessions.fork";
    /// Searches the sender's sessions. `{"sender", "query", "limit"?}` → list of hits.
    pub const SESSIONS_SEARCH: &str = "sessions.search";
    /// Lists the available models. `{}` → list of `{id}`.
    pub const MODELS_LIST: &str = "models.list";
    /// Lists the slash commands: those in the public menu, or those that `sender` may run in a direct
    /// message. `{"sender"?}` → list of [`CommandInfo`](crate::CommandInfo).
    pub const COMMANDS_LIST: &str = "commands.list";
}

/// The argument of `create`: the host, the instance and its configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Envelope {
    /// Facts about the host.
    pub host: HostInfo,
    /// The name of the instance.
    pub instance: String,
    /// The configuration of the instance, with secrets resolved.
    #[serde(default)]
    pub config: Value,
    /// The absolute path of the folder for the instance's own files. Since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
}

impl Envelope {
    /// Creates an envelope for `instance`.
    pub fn new(host: HostInfo, instance: impl Into<String>, config: Value) -> Self {
        Self { host, instance: instance.into(), config, data_dir: None }
    }

    /// Returns the envelope with the instance's own folder. Since 1.1.
    pub fn with_data_dir(mut self, data_dir: impl Into<String>) -> Self {
        self.data_dir = Some(data_dir.into());
        self
    }
}

/// Facts about the host that an adapter may use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HostInfo {
    /// The SDK version that the host supports.
    pub sdk: String,
    /// Named features of the host beyond its version.
    #[serde(default)]
    pub features: Vec<String>,
    /// The proxies for the instance's outgoing connections.
    #[serde(default, skip_serializing_if = "ProxySettings::is_direct")]
    pub proxy: ProxySettings,
}

impl HostInfo {
    /// Creates the facts of a host with this SDK version.
    pub fn new(sdk: impl Into<String>, features: Vec<String>) -> Self {
        Self { sdk: sdk.into(), features, proxy: ProxySettings::default() }
    }
}

/// The proxies for outgoing connections of one instance. Addresses of this machine are always connected directly.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProxySettings {
    /// The proxy for `http` addresses: `scheme://user:password@host:port`. The scheme is `http`, `https`, `socks5` or `socks5h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// The proxy for `https` addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
    /// Names, domains, addresses and networks that are connected directly, as in `NO_PROXY`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<String>,
}

impl ProxySettings {
    /// Returns whether every address is connected directly.
    pub fn is_direct(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }
}

impl std::fmt::Debug for ProxySettings {
    /// Leaves out credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = |proxy: &Option<String>| {
            proxy
                .as_deref()
                .map(|proxy| proxy.rsplit(['@', '/']).find(|part| !part.is_empty()).unwrap_or("").to_owned())
        };
        f.debug_struct("ProxySettings")
            .field("http", &host(&self.http))
            .field("https", &host(&self.https))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// The body of status ERR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CallError {
    /// A stable error code: `not_found`, `refused`, `invalid`, `unavailable`, `credential_in_use`, `not_granted`, …
    pub code: String,
    /// The error in one sentence.
    pub message: String,
    /// The wait that the platform requested, in milliseconds. The host makes no call for
    /// this chat before it has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl CallError {
    /// Creates an error with a stable code and a message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retry_after_ms: None }
    }

    /// Returns the error with the wait that the platform requested, if any, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(mut self, wait_ms: Option<u64>) -> Self {
        self.retry_after_ms = wait_ms;
        self
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

/// The reason for a missing link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConnectError {
    /// A person has to act first.
    Fatal {
        /// The cause.
        reason: String,
        /// The action that fixes it.
        mend: String,
    },
    /// A later attempt may succeed. The host decides the backoff.
    Retry {
        /// The cause.
        reason: String,
        /// The wait that the platform requested, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
        /// True if the connection itself failed (refused, unreachable, unknown host name), so that nothing reached
        /// the platform. The host retries within seconds, because each attempt is cheap.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unreachable: bool,
    },
    /// An error of a later version, treated as [`ConnectError::Retry`].
    #[serde(other, skip_serializing)]
    Unrecognised,
}

impl ConnectError {
    /// Creates an error that a person has to fix.
    pub fn fatal(reason: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Fatal { reason: reason.into(), mend: mend.into() }
    }

    /// Creates an error that a later attempt may resolve.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), after_ms: None, unreachable: false }
    }

    /// Creates an error for an unreachable platform: the connection was refused, or no route or address was found.
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), after_ms: None, unreachable: true }
    }

    /// Creates an error for which the platform requested a wait of `after_ms` milliseconds.
    pub fn retry_after_ms(reason: impl Into<String>, after_ms: u64) -> Self {
        Self::Retry { reason: reason.into(), after_ms: Some(after_ms), unreachable: false }
    }

    /// Creates the error of a failed credential lock. The error is fatal (`mend` names the fix) if the credential is in
    /// use or cannot be locked at all. A temporary failure of the host, such as a full disk or too many calls, is
    /// retried.
    pub fn not_locked(error: &CallError, mend: impl Into<String>) -> Self {
        match error.code.as_str() {
            "unavailable" | "busy" | "failed" => Self::retry(error.to_string()),
            _ => Self::fatal(error.to_string(), mend),
        }
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fatal { reason, mend } => write!(f, "{reason}; {mend}"),
            Self::Retry { reason, .. } => f.write_str(reason),
            Self::Unrecognised => f.write_str("the connection was lost"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// The link state reported by a client library that reconnects itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LinkState {
    /// `online`, `lost` or `degraded`.
    pub state: LinkWord,
    /// The cause, or the duty that fails.
    #[serde(default)]
    pub reason: String,
}

impl LinkState {
    /// Creates a report of `state` with its cause.
    pub fn new(state: LinkWord, reason: impl Into<String>) -> Self {
        Self { state, reason: reason.into() }
    }
}

words! {
    /// The state of a link.
    pub enum LinkWord {
        /// The link works.
        Online = "online",
        /// The link is lost, and the library reconnects.
        Lost = "lost",
        /// The link works, but one of its duties fails.
        Degraded = "degraded",
    }
}

/// An address for the start-up output and `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Announce {
    /// The name of the page or service.
    pub label: String,
    /// The address to open.
    #[serde(default)]
    pub url: String,
}

impl Announce {
    /// Creates an announcement of `label` at `url`.
    pub fn new(label: impl Into<String>, url: impl Into<String>) -> Self {
        Self { label: label.into(), url: url.into() }
    }
}

/// Arguments of `edit`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EditCall {
    /// The message to change.
    pub message: crate::SentMessage,
    /// The new content.
    pub outgoing: crate::Outgoing,
}

impl EditCall {
    /// Creates a call that changes `message` to `outgoing`.
    pub fn new(message: crate::SentMessage, outgoing: crate::Outgoing) -> Self {
        Self { message, outgoing }
    }
}

/// Arguments of `typing`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TypingCall {
    /// The chat.
    pub chat: Chat,
    /// True to show the indicator, false to end it.
    pub on: bool,
}

impl TypingCall {
    /// Creates a call that shows or ends the typing indicator in `chat`.
    pub fn new(chat: Chat, on: bool) -> Self {
        Self { chat, on }
    }
}

/// Arguments of `react`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReactCall {
    /// The message.
    pub message: crate::SentMessage,
    /// The emoji; empty removes the reaction.
    pub emoji: String,
    /// The earlier emoji of this account that the new one replaces; absent if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
}

impl ReactCall {
    /// Creates a call that reacts to `message` with `emoji`.
    pub fn new(message: crate::SentMessage, emoji: impl Into<String>) -> Self {
        Self { message, emoji: emoji.into(), instead_of: None }
    }

    /// Returns the call with the earlier emoji that it replaces.
    pub fn instead_of(mut self, emoji: Option<&str>) -> Self {
        self.instead_of = emoji.map(str::to_owned);
        self
    }
}

/// Arguments of `create_handoff_thread`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HandoffThreadCall {
    /// The home chat in which to open the thread.
    pub chat: Chat,
    /// The name of the thread.
    pub name: String,
    /// The idempotency key.
    pub key: String,
}

impl HandoffThreadCall {
    /// Creates a call for a thread `name` in `chat`.
    pub fn new(chat: Chat, name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { chat, name: name.into(), key: key.into() }
    }
}

/// Arguments of `rename_thread`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RenameThreadCall {
    /// The thread.
    pub chat: Chat,
    /// The new name.
    pub name: String,
}

impl RenameThreadCall {
    /// Creates a call that renames the thread `chat` to `name`.
    pub fn new(chat: Chat, name: impl Into<String>) -> Self {
        Self { chat, name: name.into() }
    }
}

/// Arguments of `render`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RenderCall {
    /// The text in house markdown.
    pub markdown: String,
    /// The maximum length, in the adapter's declared unit. Smaller than declared after a `too_long`.
    pub limit: u32,
}

impl RenderCall {
    /// Creates a call that renders `markdown` into parts of at most `limit` units.
    pub fn new(markdown: impl Into<String>, limit: u32) -> Self {
        Self { markdown: markdown.into(), limit }
    }
}

/// One part of a rendered text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RenderedPart {
    /// The text for the platform.
    pub text: String,
    /// The plain text with the same content.
    pub source: String,
}

impl RenderedPart {
    /// Creates a part of `text` and its plain `source`.
    pub fn new(text: impl Into<String>, source: impl Into<String>) -> Self {
        Self { text: text.into(), source: source.into() }
    }
}

/// Arguments of `set_commands`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CommandsCall {
    /// The commands, in the order of the menu.
    pub commands: Vec<CommandInfo>,
}

impl CommandsCall {
    /// Creates a call that replaces the whole menu.
    pub fn new(commands: Vec<CommandInfo>) -> Self {
        Self { commands }
    }
}

/// One slash command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CommandInfo {
    /// Name without the slash.
    pub name: String,
    /// The description, in one line.
    pub help: String,
    /// The arguments in readable form, such as `[title]`.
    #[serde(default)]
    pub args: String,
    /// Known values of the first argument. Other values may be valid, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl CommandInfo {
    /// Creates a command.
    pub fn new(name: impl Into<String>, help: impl Into<String>, args: impl Into<String>) -> Self {
        Self { name: name.into(), help: help.into(), args: args.into(), values: Vec::new() }
    }

    /// Returns the command with known values of its argument.
    #[must_use]
    pub fn with_values(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.values = values.into_iter().map(Into::into).collect();
        self
    }
}

/// Arguments of `draft`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DraftCall {
    /// The chat.
    pub chat: Chat,
    /// The text so far.
    pub text: String,
}

impl DraftCall {
    /// Creates a call that shows the draft `text` in `chat`.
    pub fn new(chat: Chat, text: impl Into<String>) -> Self {
        Self { chat, text: text.into() }
    }
}

/// Arguments of `turn_event`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TurnEventCall {
    /// The `inbox_id` of the event that the turn answers.
    pub inbox_id: i64,
    /// The number of this event in the turn, from 1, without gaps.
    pub seq: u64,
    /// The event.
    pub event: TurnEvent,
}

impl TurnEventCall {
    /// Creates the call for event number `seq` of the turn that answers `inbox_id`.
    pub fn new(inbox_id: i64, seq: u64, event: TurnEvent) -> Self {
        Self { inbox_id, seq, event }
    }
}

/// Arguments of `fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FetchCall {
    /// The file, as the event named it.
    pub file: Attachment,
    /// The time that the host waits, in milliseconds. After that the call is cancelled and the file counts as missing.
    pub within_ms: u64,
}

impl FetchCall {
    /// Creates a call that downloads `file` within `within_ms` milliseconds.
    pub fn new(file: Attachment, within_ms: u64) -> Self {
        Self { file, within_ms }
    }
}

/// Arguments of `lookup`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LookupCall {
    /// The key of the send whose result is unknown.
    pub key: String,
    /// The chat of the send.
    pub chat: Chat,
}

impl LookupCall {
    /// Creates a call that asks whether `key` arrived in `chat`.
    pub fn new(key: impl Into<String>, chat: Chat) -> Self {
        Self { key: key.into(), chat }
    }
}

/// The reply to `lookup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LookupReply {
    /// The message arrived.
    Found {
        /// The platform's proof.
        receipt: crate::Receipt,
    },
    /// The message did not arrive and may be sent again.
    Absent,
    /// The adapter cannot tell; also a reply of a later version.
    #[serde(other)]
    Unclear,
}

/// Arguments of `media.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MediaCreate {
    /// The file name for display; only its last component is used.
    pub name: String,
    /// The MIME type.
    #[serde(default)]
    pub mime: String,
    /// The size in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl MediaCreate {
    /// Creates a request for a file of this name, type and size.
    pub fn new(name: impl Into<String>, mime: impl Into<String>, size: Option<u64>) -> Self {
        Self { name: name.into(), mime: mime.into(), size }
    }
}

/// The reserved path for an incoming file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MediaSlot {
    /// The id to commit, and to name in the event.
    pub id: String,
    /// The path to write to.
    pub path: String,
}

impl MediaSlot {
    /// Creates a slot.
    pub fn new(id: impl Into<String>, path: impl Into<String>) -> Self {
        Self { id: id.into(), path: path.into() }
    }
}

//! Methods by name, and the small payloads that have no file of their own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Attachment, Chat, TurnEvent, word::words};

/// Methods the host calls on an adapter.
pub mod method {
    /// Opens the link. `{}` → `{}`, or a [`ConnectError`](crate::ConnectError).
    pub const CONNECT: &str = "connect";
    /// Receives until the link is lost. `{}` → a [`ConnectError`](crate::ConnectError).
    pub const RUN: &str = "run";
    /// Proves a round trip. `{}` → `{}`.
    pub const HEALTH: &str = "health";
    /// Closes the link. `{}` → `{}`.
    pub const DISCONNECT: &str = "disconnect";
    /// Sends one part. [`Outgoing`](crate::Outgoing) → [`SendOutcome`](crate::SendOutcome).
    pub const SEND: &str = "send";
    /// Changes a sent message. [`EditCall`](crate::EditCall) → [`SendOutcome`](crate::SendOutcome).
    pub const EDIT: &str = "edit";
    /// Takes a message back. [`SentMessage`](crate::SentMessage) → `{}`.
    pub const DELETE: &str = "delete";
    /// Shows typing once. [`TypingCall`](crate::TypingCall) → `{}`.
    pub const TYPING: &str = "typing";
    /// Reacts to a message. [`ReactCall`](crate::ReactCall) → `{}`.
    pub const REACT: &str = "react";
    /// Opens a thread for a handoff. [`HandoffThreadCall`](crate::HandoffThreadCall) → [`Chat`](crate::Chat) or `null`.
    pub const CREATE_HANDOFF_THREAD: &str = "create_handoff_thread";
    /// Gives a thread another name. [`RenameThreadCall`](crate::RenameThreadCall) → `{}`.
    pub const RENAME_THREAD: &str = "rename_thread";
    /// Renders and splits house markdown. [`RenderCall`](crate::RenderCall) → list of [`RenderedPart`](crate::RenderedPart).
    pub const RENDER: &str = "render";
    /// Replaces the command menu. [`CommandsCall`](crate::CommandsCall) → `{}`.
    pub const SET_COMMANDS: &str = "set_commands";
    /// Turns what a person wrote into a chat. `{"target"}` → [`Chat`](crate::Chat) or `null`.
    pub const RESOLVE_TARGET: &str = "resolve_target";
    /// Describes a chat. [`Chat`](crate::Chat) → [`Chat`](crate::Chat) or `null`.
    pub const CHAT_INFO: &str = "chat.info";
    /// Lists known chats. `{}` → list of [`Chat`](crate::Chat).
    pub const CHAT_LIST: &str = "chat.list";
    /// Shows an unsent draft. [`DraftCall`](crate::DraftCall) → `{}`.
    pub const DRAFT: &str = "draft";
    /// One event of a running turn. [`TurnEventCall`](crate::TurnEventCall) → `{}`.
    pub const TURN_EVENT: &str = "turn_event";
    /// Brings a file that an event named. [`FetchCall`](crate::FetchCall) → [`Attachment`](crate::Attachment).
    pub const FETCH: &str = "fetch";
    /// Whether a key arrived. [`LookupCall`](crate::LookupCall) → [`LookupReply`](crate::LookupReply).
    pub const LOOKUP: &str = "lookup";
}

/// Methods an adapter calls on the host.
pub mod host_method {
    /// Hands an event over. [`Event`](crate::Event) → [`Emitted`](crate::Emitted), once it is committed.
    pub const EMIT: &str = "emit";
    /// Reads a value. `{"key"}` → `{"value"}` or `{"value": null}`.
    pub const KV_GET: &str = "kv.get";
    /// Writes a value of at most 64 KiB. `{"key", "value"}` → `{}`, once it is committed.
    pub const KV_SET: &str = "kv.set";
    /// Forgets a value. `{"key"}` → `{}`.
    pub const KV_DELETE: &str = "kv.delete";
    /// Makes room for a file that came in. [`MediaCreate`](crate::MediaCreate) → [`MediaSlot`](crate::MediaSlot).
    pub const MEDIA_CREATE: &str = "media.create";
    /// Says that the file is written. `{"id"}` → `{"size", "sha256"}`.
    pub const MEDIA_COMMIT: &str = "media.commit";
    /// Reads a secret of this instance's config. `{"name"}` → `{"value"}`.
    pub const SECRET: &str = "secret";
    /// Counts something. `{"name", "value"}` → `{}`.
    pub const METRIC: &str = "metric";
    /// Reports the link. [`LinkState`](crate::LinkState) → `{}`.
    pub const LINK: &str = "link";
    /// Says that a data-carrying round trip just worked. `{}` → `{}`.
    pub const PROVED: &str = "proved";
    /// A line for start-up and `status`. [`Announce`](crate::Announce) → `{}`.
    pub const ANNOUNCE: &str = "announce";
    /// Claims a credential for this instance. `{"identity"}` → `{}` or `credential_in_use`.
    pub const LOCK_CREDENTIAL: &str = "lock_credential";
    /// Tells how `create` failed, right before it answers with its sentence: a [`CallError`](crate::CallError) with the
    /// code `panic`, `late` or `refused` → `{}`. Since 1.1.
    pub const CREATE_FAILED: &str = "create_failed";
    /// Stops the turn of an event. `{"inbox_id"}` → `{"stopped"}`.
    pub const TURNS_STOP: &str = "turns.stop";
    /// Tells the state of the turn of an event. `{"inbox_id"}` → `{"state"}`.
    pub const TURNS_STATUS: &str = "turns.status";
    /// Answers a question. `{"ask", "option", "sender"}` → `{}`.
    pub const CHOICES_ANSWER: &str = "choices.answer";
    /// Lists the sender's sessions. `{"sender", "limit"?, "before_ms"?}` → list of session objects.
    pub const SESSIONS_LIST: &str = "sessions.list";
    /// One session. `{"sender", "session_id"}` → session object.
    pub const SESSIONS_GET: &str = "sessions.get";
    /// Messages of a session. `{"sender", "session_id", "limit"?}` → list of messages.
    pub const SESSIONS_HISTORY: &str = "sessions.history";
    /// Makes a session for a chat. `{"sender", "chat", "title"?}` → session object.
    pub const SESSIONS_CREATE: &str = "sessions.create";
    /// Renames a session. `{"sender", "session_id", "title"}` → `{}`.
    pub const SESSIONS_RENAME: &str = "sessions.rename";
    /// Deletes a session. `{"sender", "session_id"}` → `{}`.
    pub const SESSIONS_DELETE: &str = "sessions.delete";
    /// Makes a branch of a session, for a chat where one is named. `{"sender", "session_id", "chat"?, "title"?}` → session object.
    pub const SESSIONS_FORK: &str = "sessions.fork";
    /// Searches the sender's sessions. `{"sender", "query", "limit"?}` → list of hits.
    pub const SESSIONS_SEARCH: &str = "sessions.search";
    /// The models one can ask for. `{}` → list of `{id}`.
    pub const MODELS_LIST: &str = "models.list";
    /// The slash commands: those of everybody's menu, or those that a sender may run in a direct message.
    /// `{"sender"?}` → list of [`CommandInfo`](crate::CommandInfo).
    pub const COMMANDS_LIST: &str = "commands.list";
}

/// What `create` gets: the host, the instance, its configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Envelope {
    /// The host.
    pub host: HostInfo,
    /// Name of the instance.
    pub instance: String,
    /// Its configuration, secrets resolved.
    #[serde(default)]
    pub config: Value,
    /// Absolute path of the folder in which the instance keeps its own files. Since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
}

impl Envelope {
    /// The envelope of `instance`.
    pub fn new(host: HostInfo, instance: impl Into<String>, config: Value) -> Self {
        Self { host, instance: instance.into(), config, data_dir: None }
    }

    /// Returns the envelope with the instance's own folder. Since 1.1.
    pub fn with_data_dir(mut self, data_dir: impl Into<String>) -> Self {
        self.data_dir = Some(data_dir.into());
        self
    }
}

/// What an adapter may know about the host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HostInfo {
    /// SDK version the host speaks.
    pub sdk: String,
    /// Named features beyond the version.
    #[serde(default)]
    pub features: Vec<String>,
    /// The proxies for the instance's outgoing connections.
    #[serde(default, skip_serializing_if = "ProxySettings::is_direct")]
    pub proxy: ProxySettings,
}

impl HostInfo {
    /// A host of this SDK version.
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
    /// A stable word: `not_found`, `refused`, `invalid`, `unavailable`, `credential_in_use`, `not_granted`, …
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The wait that the platform asked for, in milliseconds: until then the host calls nothing in this chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl CallError {
    /// An error with a stable word and a sentence.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retry_after_ms: None }
    }

    /// The same error with the wait that the platform asked for, where it did.
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

/// Why there is no link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConnectError {
    /// A person has to do something first.
    Fatal {
        /// What is wrong.
        reason: String,
        /// What to do about it.
        mend: String,
    },
    /// It may work later; the host owns the backoff.
    Retry {
        /// What is wrong.
        reason: String,
        /// How long the platform asked us to wait, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
        /// The connection itself failed (refused, unreachable, no such name): nothing reached the platform. The host
        /// tries again within seconds, because each try is cheap.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unreachable: bool,
    },
    /// A word of a later version; it counts as a retry.
    #[serde(other, skip_serializing)]
    Unrecognised,
}

impl ConnectError {
    /// It needs a person.
    pub fn fatal(reason: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Fatal { reason: reason.into(), mend: mend.into() }
    }

    /// It may work later.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), after_ms: None, unreachable: false }
    }

    /// The platform cannot be reached: the connection was refused, or no route or name leads there.
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), after_ms: None, unreachable: true }
    }

    /// It may work after this time.
    pub fn retry_after_ms(reason: impl Into<String>, after_ms: u64) -> Self {
        Self::Retry { reason: reason.into(), after_ms: Some(after_ms), unreachable: false }
    }

    /// Its credential could not be locked: a person has to do something (`mend`) only where the credential is in use
    /// or cannot be locked at all. A host that cannot at the moment (a full disk, many calls) is asked again.
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
            Self::Unrecognised => f.write_str("the link was lost"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// What a library that reconnects itself says about its link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LinkState {
    /// `online`, `lost` or `degraded`.
    pub state: LinkWord,
    /// Why, or which duty fails.
    #[serde(default)]
    pub reason: String,
}

impl LinkState {
    /// This state for this reason.
    pub fn new(state: LinkWord, reason: impl Into<String>) -> Self {
        Self { state, reason: reason.into() }
    }
}

words! {
    /// States of a link.
    pub enum LinkWord {
        /// It works.
        Online = "online",
        /// It is being rebuilt.
        Lost = "lost",
        /// It is up, but a duty fails.
        Degraded = "degraded",
    }
}

/// A line for start-up and `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Announce {
    /// What it is.
    pub label: String,
    /// Where to open it.
    #[serde(default)]
    pub url: String,
}

impl Announce {
    /// `label` at `url`.
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
    /// What it should say.
    pub outgoing: crate::Outgoing,
}

impl EditCall {
    /// `message` should say `outgoing`.
    pub fn new(message: crate::SentMessage, outgoing: crate::Outgoing) -> Self {
        Self { message, outgoing }
    }
}

/// Arguments of `typing`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TypingCall {
    /// Where.
    pub chat: Chat,
    /// Whether to show it or to end it.
    pub on: bool,
}

impl TypingCall {
    /// Show or end typing in `chat`.
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
    /// The emoji; empty takes the reaction back.
    pub emoji: String,
    /// The emoji that this account reacted with before and that goes; nothing where nobody knows of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
}

impl ReactCall {
    /// React to `message` with `emoji`.
    pub fn new(message: crate::SentMessage, emoji: impl Into<String>) -> Self {
        Self { message, emoji: emoji.into(), instead_of: None }
    }

    /// The same, in place of an earlier one.
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
    /// The home chat to open it in.
    pub chat: Chat,
    /// Name of the thread.
    pub name: String,
    /// Idempotency key.
    pub key: String,
}

impl HandoffThreadCall {
    /// A thread `name` in `chat`.
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
    /// Its new name.
    pub name: String,
}

impl RenameThreadCall {
    /// The thread `chat` is called `name` from now on.
    pub fn new(chat: Chat, name: impl Into<String>) -> Self {
        Self { chat, name: name.into() }
    }
}

/// Arguments of `render`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RenderCall {
    /// House markdown.
    pub markdown: String,
    /// The limit, in the adapter's declared unit; smaller than declared after a `too_long`.
    pub limit: u32,
}

impl RenderCall {
    /// Render `markdown` into parts of at most `limit`.
    pub fn new(markdown: impl Into<String>, limit: u32) -> Self {
        Self { markdown: markdown.into(), limit }
    }
}

/// One part of a rendered text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RenderedPart {
    /// The text as the platform gets it.
    pub text: String,
    /// The plain text behind it.
    pub source: String,
}

impl RenderedPart {
    /// `text`, and the plain `source` behind it.
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
    /// The whole menu.
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
    /// One line.
    pub help: String,
    /// Arguments as a person reads them, `[title]`.
    #[serde(default)]
    pub args: String,
    /// Words that may stand behind the name, as far as the host knows them; others may be right too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl CommandInfo {
    /// Command `name`.
    pub fn new(name: impl Into<String>, help: impl Into<String>, args: impl Into<String>) -> Self {
        Self { name: name.into(), help: help.into(), args: args.into(), values: Vec::new() }
    }

    /// With the words that may stand behind it.
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
    /// Where.
    pub chat: Chat,
    /// The text so far.
    pub text: String,
}

impl DraftCall {
    /// The draft `text` in `chat`.
    pub fn new(chat: Chat, text: impl Into<String>) -> Self {
        Self { chat, text: text.into() }
    }
}

/// Arguments of `turn_event`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TurnEventCall {
    /// The event that the turn answers.
    pub inbox_id: i64,
    /// Number of this event in the turn, from 1, without gaps.
    pub seq: u64,
    /// The event.
    pub event: TurnEvent,
}

impl TurnEventCall {
    /// Event number `seq` of the turn that answers `inbox_id`.
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
    /// How long the host waits for it, in milliseconds. What takes longer is cancelled, and the file is missing.
    pub within_ms: u64,
}

impl FetchCall {
    /// Brings `file` within this time.
    pub fn new(file: Attachment, within_ms: u64) -> Self {
        Self { file, within_ms }
    }
}

/// Arguments of `lookup`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LookupCall {
    /// The key of the doubtful send.
    pub key: String,
    /// Where it went.
    pub chat: Chat,
}

impl LookupCall {
    /// Did `key` arrive in `chat`?
    pub fn new(key: impl Into<String>, chat: Chat) -> Self {
        Self { key: key.into(), chat }
    }
}

/// What `lookup` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LookupReply {
    /// It arrived.
    Found {
        /// The platform's proof.
        receipt: crate::Receipt,
    },
    /// It did not arrive and may be sent again.
    Absent,
    /// The adapter cannot tell. Also what a word of a later version means.
    #[serde(other)]
    Unclear,
}

/// Arguments of `media.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MediaCreate {
    /// File name for people; only its last component is used.
    pub name: String,
    /// MIME type.
    #[serde(default)]
    pub mime: String,
    /// Size in bytes, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl MediaCreate {
    /// A file of this name and type.
    pub fn new(name: impl Into<String>, mime: impl Into<String>, size: Option<u64>) -> Self {
        Self { name: name.into(), mime: mime.into(), size }
    }
}

/// Where the adapter writes a file that came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MediaSlot {
    /// Id to commit and to name in the event.
    pub id: String,
    /// Path to write to.
    pub path: String,
}

impl MediaSlot {
    /// Slot `id` at `path`.
    pub fn new(id: impl Into<String>, path: impl Into<String>) -> Self {
        Self { id: id.into(), path: path.into() }
    }
}

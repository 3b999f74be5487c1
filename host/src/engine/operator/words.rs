//! The protocol of `host.sock`: one JSON object per line.
//!
//! The client's first line is [`Hello`], and the server answers with its own. After that each request gets exactly one
//! reply, in order.

use std::path::PathBuf;
use std::time::Duration;

use hermes_core::limits::HANDOFF_WAIT_MS_MAX;
use serde::{Deserialize, Serialize};

use super::StatusJson;
use super::{TaskEventInfo, TaskInfo};

/// The version of the protocol.
pub const CONTROL_VERSION: u32 = 1;

/// The longest line that either side accepts, in bytes, including its newline.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The first line of each side.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "hello")]
pub struct Hello {
    /// Version of the protocol, [`CONTROL_VERSION`].
    pub version: u32,
    /// Version of the program.
    #[serde(default)]
    pub program: String,
    /// The token of the run to which the client belongs; only processes of a run have one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

impl Hello {
    /// Creates the greeting of this program.
    pub fn ours(token: &str) -> Self {
        Self { version: CONTROL_VERSION, program: env!("CARGO_PKG_VERSION").to_owned(), token: token.to_owned() }
    }
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello").field("version", &self.version).field("program", &self.program).finish_non_exhaustive()
    }
}

/// The requests of clients. The rights that each needs are in [`super::rights`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ControlRequest {
    /// Get the state of the host.
    Status {},
    /// Stop as planned: drain, then end with 0.
    Stop {},
    /// Stop as planned and start again, by the service manager or by the host itself.
    Restart {},
    /// Accept no new events, finish the running work, stay up.
    Drain {
        /// `true`: accept events again.
        #[serde(default)]
        undo: bool,
    },
    /// Read the configuration again.
    Reload {},
    /// Deliver a text through the outbox.
    Send {
        /// `<instance>`, `<instance>:<chat>[:<thread>]` or `<instance>:@name`.
        target: String,
        /// House markdown.
        text: String,
        /// The absolute path of a file to send with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
        /// `true` if the text is also added to the transcript of that chat's session.
        #[serde(default)]
        mirror: bool,
    },
    /// List the adapters and the libraries found.
    AdapterList {},
    /// Start an instance and keep it started.
    AdapterEnable {
        /// The instance.
        instance: String,
    },
    /// Stop an instance and keep it stopped.
    AdapterDisable {
        /// The instance.
        instance: String,
    },
    /// Stop an instance and start it from the current file.
    AdapterReload {
        /// The instance.
        instance: String,
    },
    /// Get the announced URLs of an instance, with their secrets.
    AdapterLink {
        /// An instance, its plugin, or a unique prefix of either.
        instance: String,
        /// `true` if the secrets of the adapter are replaced first.
        #[serde(default)]
        rotate: bool,
    },
    /// List open requests and grants.
    PairingList {},
    /// Admit the sender that was shown this code.
    PairingApprove {
        /// The instance that showed the code.
        instance: String,
        /// The code.
        code: String,
    },
    /// Revoke a grant.
    PairingRevoke {
        /// The instance of the grant.
        instance: String,
        /// The user id.
        user: String,
    },
    /// Forget open requests and lockouts.
    PairingClear {
        /// Only of this instance; `None`: of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<String>,
    },
    /// List sessions, newest first.
    SessionList {
        /// The most sessions to return.
        limit: u32,
        /// `true`: ended ones too.
        #[serde(default)]
        all: bool,
    },
    /// Get one session with its messages.
    SessionShow {
        /// An id, a unique prefix of one, or a title.
        session: String,
        /// The most messages to return, from the end.
        limit: u32,
    },
    /// Get a page of a session's transcript. The client repeats this until the page is empty.
    SessionTranscript {
        /// An id, a unique prefix of one, or a title.
        session: String,
        /// The message after which the page begins; 0: from the beginning.
        #[serde(default)]
        after: i64,
        /// The byte at which the text of the page's first message begins.
        #[serde(default)]
        from_byte: usize,
    },
    /// Search messages by words.
    SessionSearch {
        /// The words.
        query: String,
        /// The most hits to return.
        limit: u32,
    },
    /// End a session; its chat begins a new one.
    SessionEnd {
        /// An id, a unique prefix of one, or a title.
        session: String,
    },
    /// Delete a session and its messages.
    SessionDelete {
        /// An id, a unique prefix of one, or a title.
        session: String,
    },
    /// Hand a session off to a chat.
    Handoff {
        /// An id, a unique prefix of one, or a title.
        session: String,
        /// The destination: an instance, or a plugin that has one, for its home channel; `INSTANCE:CHAT` for another
        /// chat.
        instance: String,
        /// Wait for the end, in milliseconds; at most five minutes. The answer contains the state at that time.
        #[serde(default = "handoff_wait_ms")]
        wait_ms: u64,
    },
    /// Offer a session to the user who sends its code in a chat: `/claim CODE`.
    HandoffOffer {
        /// An id, a unique prefix of one, or a title.
        session: String,
    },
    /// List handoffs, newest first.
    HandoffList {
        /// The most handoffs to return.
        limit: u32,
        /// `true`: ended ones too.
        #[serde(default)]
        all: bool,
    },
    /// Get the handoff of one session.
    HandoffShow {
        /// An id, a unique prefix of one, or a title.
        session: String,
    },
    /// Cancel a handoff; its session stays in its chat.
    HandoffCancel {
        /// An id, a unique prefix of one, or a title.
        session: String,
    },
    /// List tasks, newest first.
    TaskList {
        /// The most tasks to return.
        limit: u32,
        /// `true`: ended ones too.
        #[serde(default)]
        all: bool,
    },
    /// Get one task with its events.
    TaskShow {
        /// An id, or a unique prefix of one.
        task: String,
    },
    /// Cancel a task and stop the host's work on it.
    TaskCancel {
        /// An id, or a unique prefix of one.
        task: String,
        /// The reason, for the subscribers.
        why: String,
    },
    /// List deliveries, newest first.
    OutboxList {
        /// The most deliveries to return.
        limit: u32,
        /// `true`: settled ones too.
        #[serde(default)]
        all: bool,
    },
    /// Get one delivery with its parts.
    OutboxShow {
        /// The delivery id.
        delivery: i64,
    },
    /// Retry an abandoned or waiting delivery.
    OutboxRetry {
        /// The delivery id.
        delivery: i64,
    },
    /// Abandon a delivery.
    OutboxDrop {
        /// The delivery id.
        delivery: i64,
        /// The reason to record.
        why: String,
    },
    /// Take a terminal slot. After the answer the connection carries frames.
    Chat {
        /// The session to continue: an id, a unique prefix of one, or a title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<String>,
        /// `true` if the terminal leaves after the answer to its first message.
        #[serde(default)]
        once: bool,
    },
    /// Ask a host that runs for a terminal only to end, so that another host can take over.
    HandOver {},
}

/// The answer of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlReply {
    /// Success, with one sentence for people.
    Done {
        /// The sentence.
        message: String,
    },
    /// Failure, with one sentence that contains the fix.
    Error {
        /// The kind of the error.
        kind: ErrorKind,
        /// The sentence.
        message: String,
    },
    /// The answer to `status` and `adapter_list`.
    Status(Box<StatusJson>),
    /// The answer to `send`.
    Owed {
        /// The id of the new delivery.
        delivery: i64,
        /// The part of the request that was not carried out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The answer to `pairing_list`.
    Pairing {
        /// Requests that wait for approval.
        requests: Vec<PairingInfo>,
        /// Approved grants.
        grants: Vec<GrantInfo>,
    },
    /// The answer to `session_list`.
    Sessions {
        /// Sessions, newest first.
        sessions: Vec<SessionInfo>,
    },
    /// The answer to `session_show`.
    Session {
        /// The session.
        session: SessionInfo,
        /// Its messages, oldest first.
        messages: Vec<MessageInfo>,
    },
    /// The answer to `session_transcript`.
    Transcript {
        /// The session.
        session: Box<SessionDetail>,
        /// Messages, oldest first; empty at the end.
        messages: Vec<FullMessage>,
    },
    /// The answer to `session_search`.
    Hits {
        /// Hits, best first.
        hits: Vec<HitInfo>,
    },
    /// The answer to `handoff`, `handoff_show` and `handoff_cancel`.
    Handoff {
        /// The handoff.
        handoff: Box<HandoffInfo>,
    },
    /// The answer to `handoff_offer`.
    HandoffCode {
        /// The session.
        session: String,
        /// The code to send, shown only here.
        code: String,
        /// End of its validity, Unix ms.
        expires_ms: i64,
        /// One sentence for people.
        message: String,
    },
    /// The answer to `handoff_list`.
    Handoffs {
        /// Handoffs, newest first.
        handoffs: Vec<HandoffInfo>,
    },
    /// The answer to `task_list`.
    Tasks {
        /// Tasks, newest first.
        tasks: Vec<TaskInfo>,
    },
    /// The answer to `task_show`.
    Task {
        /// The task.
        task: Box<TaskInfo>,
        /// Its events, oldest first.
        events: Vec<TaskEventInfo>,
    },
    /// The answer to `outbox_list`.
    Outbox {
        /// Deliveries, newest first.
        deliveries: Vec<DeliveryInfo>,
    },
    /// The answer to `outbox_show`.
    Delivery {
        /// The delivery.
        delivery: DeliveryInfo,
        /// The text, in house markdown.
        text: String,
        /// Its parts.
        parts: Vec<PartInfo>,
    },
    /// The answer to `chat`.
    Chat(Box<SeatInfo>),
}

/// Default wait of the requester of a handoff, in milliseconds.
pub const HANDOFF_WAIT_MS: u64 = 60_000;

fn handoff_wait_ms() -> u64 {
    HANDOFF_WAIT_MS
}

impl ControlRequest {
    /// Returns the additional deadline of this request compared with others.
    pub fn waits(&self) -> Duration {
        match self {
            Self::Handoff { wait_ms, .. } => Duration::from_millis((*wait_ms).min(HANDOFF_WAIT_MS_MAX)),
            _ => Duration::ZERO,
        }
    }
}

impl ControlReply {
    /// Creates a success with `message`.
    pub fn done(message: impl Into<String>) -> Self {
        Self::Done { message: message.into() }
    }

    /// Creates a failure with a sentence that contains the reason and the fix.
    pub fn error(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Error { kind, message: message.into() }
    }
}

/// The kind of an error, which shows who can fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid. The caller corrects it.
    Invalid,
    /// The named object does not exist. The caller corrects the name.
    NotFound,
    /// Not allowed in this state.
    Refused,
    /// Temporarily not possible. The caller tries again later.
    Busy,
    /// A fault of the host.
    Failed,
    /// `plugins.toml` has problems; nothing was changed. The operator corrects it.
    Config,
}

/// A pairing request. Only the sender who was shown the code knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingInfo {
    /// The instance.
    pub instance: String,
    /// The user id.
    pub user: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of the request, Unix ms.
    pub since_ms: i64,
    /// End of its validity, Unix ms.
    pub expires_ms: i64,
}

/// A grant by pairing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantInfo {
    /// The instance.
    pub instance: String,
    /// The user id.
    pub user: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of the grant, Unix ms.
    pub since_ms: i64,
}

/// The slot of a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatInfo {
    /// The id of its chat.
    pub chat: String,
    /// The current session of the slot; `None`: the first message starts one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionInfo>,
    /// The last messages of the session, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<MessageInfo>,
    /// The other chats of the session, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
    /// The instances that the host runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
    /// `true` if the host runs for a terminal only, without adapters.
    #[serde(default)]
    pub alone: bool,
}

/// One session in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Id.
    pub id: String,
    /// Title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The origin: an instance, or a word of the host.
    pub source: String,
    /// Count of messages.
    pub messages: u64,
    /// Start, Unix ms.
    pub started_ms: i64,
    /// End, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    /// The reason of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// Last use, Unix ms.
    pub last_ms: i64,
}

/// The details of a session except its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDetail {
    /// The fields of a listing.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// The owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The previous session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The relation to the previous session: `reset`, `branch`, `compression`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// The summary of the previous messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Count of ended turns.
    pub turns: u64,
    /// Count of input tokens.
    pub input_tokens: u64,
    /// Count of output tokens.
    pub output_tokens: u64,
}

/// One message with all stored fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullMessage {
    /// Id, ascending.
    pub id: i64,
    /// Time, Unix ms.
    pub at_ms: i64,
    /// The byte at which the rest of the text begins, if the text is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_from_byte: Option<usize>,
    /// The stored message.
    #[serde(flatten)]
    pub message: hermes_agent::Message,
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageInfo {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text.
    pub content: String,
    /// Time, Unix ms.
    pub at_ms: i64,
}

/// One message that matched a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitInfo {
    /// The session id.
    pub session: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The role of the author.
    pub role: String,
    /// The text around the match.
    pub snippet: String,
    /// Time, Unix ms.
    pub at_ms: i64,
}

/// The handoff of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffInfo {
    /// The session.
    pub session: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The destination instance.
    pub instance: String,
    /// `none`, `pending`, `running`, `completed` or `failed`.
    pub state: String,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The destination chat, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// Time of the request, Unix ms.
    pub asked_ms: i64,
    /// Time of the last state change, Unix ms.
    pub since_ms: i64,
    /// One sentence for people: the state and the next step.
    pub message: String,
    /// The command that resumes the session at the terminal.
    pub resume_here: String,
    /// The command that resumes the session in a chat.
    pub resume_in_chat: String,
}

/// One delivery in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryInfo {
    /// Id.
    pub id: i64,
    /// The instance.
    pub instance: String,
    /// The chat, for people.
    pub chat: String,
    /// The session, if the delivery belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// `reply`, `notice`, `ask`, `cron`.
    pub purpose: String,
    /// `owed`, `settled`, `abandoned`, …
    pub state: String,
    /// The reason of the state, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Start of the state, Unix ms.
    pub since_ms: i64,
    /// Deadline of the attempts, Unix ms.
    pub deadline_ms: i64,
    /// Earliest next attempt, Unix ms; absent if none is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<i64>,
    /// The bare id of the chat, for the host's own use.
    #[serde(skip)]
    pub chat_id: String,
    /// Count of parts.
    pub parts: u32,
    /// Count of delivered parts.
    pub delivered: u32,
}

/// One part of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// Number, from 1.
    pub n: u32,
    /// State word.
    pub state: String,
    /// Count of attempts.
    pub attempts: u32,
    /// Earliest next attempt, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<i64>,
    /// The message ids of the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub message_ids: Vec<String>,
    /// The last reason why it was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The rendered text.
    pub text: String,
}

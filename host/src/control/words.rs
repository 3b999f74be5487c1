//! What is said over `host.sock`: one JSON object a line.
//!
//! The client's first line is [`Hello`], the server answers with its own; then
//! each request gets exactly one reply, in order.

use std::path::PathBuf;
use std::time::Duration;

use hermes_core::limits::HANDOFF_WAIT_MS_MAX;
use serde::{Deserialize, Serialize};

use super::{TaskEventInfo, TaskInfo};
use crate::status::StatusJson;

/// The version of these words.
pub const CONTROL_VERSION: u32 = 1;

/// The longest line either side accepts, in bytes, its newline included.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The first line of each side.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "hello")]
pub struct Hello {
    /// Version of the words, [`CONTROL_VERSION`].
    pub version: u32,
    /// Version of the program.
    #[serde(default)]
    pub program: String,
    /// The token of the run in which the client works; only the processes of a run have one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

impl Hello {
    /// The greeting of this program.
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
    /// The state of everything.
    Status {},
    /// A planned stop: drain, then end with 0.
    Stop {},
    /// A planned stop after which the host is started again: by its service manager, or by itself.
    Restart {},
    /// Take no new events, finish what runs, stay up.
    Drain {
        /// Take events again.
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
        /// A file to send with it; absolute.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
        /// Whether it also stands in the transcript of that chat's session.
        #[serde(default)]
        mirror: bool,
    },
    /// The adapters and the libraries found.
    AdapterList {},
    /// Start an instance and keep it started.
    AdapterEnable {
        /// Which.
        instance: String,
    },
    /// Stop an instance and keep it stopped.
    AdapterDisable {
        /// Which.
        instance: String,
    },
    /// Stop an instance and start it from the file that lies there.
    AdapterReload {
        /// Which.
        instance: String,
    },
    /// The addresses that an instance announced, with the secrets in them.
    AdapterLink {
        /// An instance, its plugin, or a unique beginning of either.
        instance: String,
        /// Whether the secrets that the adapter made are replaced first.
        #[serde(default)]
        rotate: bool,
    },
    /// Open requests and grants.
    PairingList {},
    /// Admit who was shown this code.
    PairingApprove {
        /// Where the code was shown.
        instance: String,
        /// The code.
        code: String,
    },
    /// Take a grant back.
    PairingRevoke {
        /// Where it holds.
        instance: String,
        /// Whose it is.
        user: String,
    },
    /// Forget open requests and lockouts.
    PairingClear {
        /// Only of this instance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<String>,
    },
    /// Sessions, newest first.
    SessionList {
        /// How many.
        limit: u32,
        /// Ended ones too.
        #[serde(default)]
        all: bool,
    },
    /// One session with its messages.
    SessionShow {
        /// An id, a unique beginning of one, or a title.
        session: String,
        /// How many messages, from the end.
        limit: u32,
    },
    /// A piece of a session's transcript, to be asked for until nothing follows.
    SessionTranscript {
        /// An id, a unique beginning of one, or a title.
        session: String,
        /// Only what follows this message; 0 from the beginning.
        #[serde(default)]
        after: i64,
        /// Only what follows this byte of the first such message.
        #[serde(default)]
        from_byte: usize,
    },
    /// Messages that contain words.
    SessionSearch {
        /// The words.
        query: String,
        /// How many.
        limit: u32,
    },
    /// End a session; its chat begins anew.
    SessionEnd {
        /// An id, a unique beginning of one, or a title.
        session: String,
    },
    /// Delete a session and its messages.
    SessionDelete {
        /// An id, a unique beginning of one, or a title.
        session: String,
    },
    /// Hand a session over to a chat.
    Handoff {
        /// An id, a unique beginning of one, or a title.
        session: String,
        /// Where it goes on: an instance, or a plugin that has one, for its home channel; `INSTANCE:CHAT` for another
        /// chat.
        instance: String,
        /// How long to wait for the end of it, in milliseconds; at most five minutes. The answer says how it stands then.
        #[serde(default = "handoff_wait_ms")]
        wait_ms: u64,
    },
    /// Offer a session to whoever sends its code in a chat: `/claim CODE`.
    HandoffOffer {
        /// An id, a unique beginning of one, or a title.
        session: String,
    },
    /// Handoffs, newest first.
    HandoffList {
        /// How many.
        limit: u32,
        /// Those that are over too.
        #[serde(default)]
        all: bool,
    },
    /// How one session stands with its handoff.
    HandoffShow {
        /// An id, a unique beginning of one, or a title.
        session: String,
    },
    /// Give a handoff up: its session stays where it was.
    HandoffCancel {
        /// An id, a unique beginning of one, or a title.
        session: String,
    },
    /// Tasks, newest first.
    TaskList {
        /// How many.
        limit: u32,
        /// Those at their end too.
        #[serde(default)]
        all: bool,
    },
    /// One task with what happened to it.
    TaskShow {
        /// An id, or a unique beginning of one.
        task: String,
    },
    /// Give a task up; what the host does for it is stopped.
    TaskCancel {
        /// An id, or a unique beginning of one.
        task: String,
        /// Why, for whoever is told.
        why: String,
    },
    /// Deliveries, newest first.
    OutboxList {
        /// How many.
        limit: u32,
        /// Settled ones too.
        #[serde(default)]
        all: bool,
    },
    /// One delivery with its parts.
    OutboxShow {
        /// Which.
        delivery: i64,
    },
    /// Try an abandoned or waiting delivery anew.
    OutboxRetry {
        /// Which.
        delivery: i64,
    },
    /// Give a delivery up.
    OutboxDrop {
        /// Which.
        delivery: i64,
        /// What to write beside it.
        why: String,
    },
    /// A terminal wants a seat. After the answer the connection carries frames.
    Chat {
        /// An id, a unique beginning of one, or a title: the session to go on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<String>,
        /// Whether it leaves with the answer to its first message.
        #[serde(default)]
        once: bool,
    },
    /// Another host wants to take over from one that runs for a terminal only.
    HandOver {},
}

/// What the host answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlReply {
    /// It is done; one sentence for people.
    Done {
        /// What is true after it.
        message: String,
    },
    /// It was not done; one sentence with the mend.
    Error {
        /// Whose turn it is.
        kind: ErrorKind,
        /// The sentence.
        message: String,
    },
    /// To `status` and `adapter_list`.
    Status(Box<StatusJson>),
    /// To `send`.
    Owed {
        /// The delivery that carries it.
        delivery: i64,
        /// What was asked for and was not done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// To `pairing_list`.
    Pairing {
        /// Waiting for approval.
        requests: Vec<PairingInfo>,
        /// Approved.
        grants: Vec<GrantInfo>,
    },
    /// To `session_list`.
    Sessions {
        /// Newest first.
        sessions: Vec<SessionInfo>,
    },
    /// To `session_show`.
    Session {
        /// The session.
        session: SessionInfo,
        /// Its messages, oldest first.
        messages: Vec<MessageInfo>,
    },
    /// To `session_transcript`.
    Transcript {
        /// The session.
        session: Box<SessionDetail>,
        /// Messages, oldest first; none when nothing follows.
        messages: Vec<FullMessage>,
    },
    /// To `session_search`.
    Hits {
        /// Best first.
        hits: Vec<HitInfo>,
    },
    /// To `handoff`, `handoff_show` and `handoff_cancel`.
    Handoff {
        /// How it stands.
        handoff: Box<HandoffInfo>,
    },
    /// To `handoff_offer`.
    HandoffCode {
        /// The session.
        session: String,
        /// What somebody has to send; told here and nowhere else.
        code: String,
        /// Until when it works, Unix ms.
        expires_ms: i64,
        /// One sentence for people.
        message: String,
    },
    /// To `handoff_list`.
    Handoffs {
        /// Newest first.
        handoffs: Vec<HandoffInfo>,
    },
    /// To `task_list`.
    Tasks {
        /// Newest first.
        tasks: Vec<TaskInfo>,
    },
    /// To `task_show`.
    Task {
        /// The task.
        task: Box<TaskInfo>,
        /// What happened to it, oldest first.
        events: Vec<TaskEventInfo>,
    },
    /// To `outbox_list`.
    Outbox {
        /// Newest first.
        deliveries: Vec<DeliveryInfo>,
    },
    /// To `outbox_show`.
    Delivery {
        /// The delivery.
        delivery: DeliveryInfo,
        /// House markdown.
        text: String,
        /// What goes out.
        parts: Vec<PartInfo>,
    },
    /// To `chat`.
    Chat(Box<SeatInfo>),
}

/// How long the requester of a handoff waits unless it says otherwise.
pub const HANDOFF_WAIT_MS: u64 = 60_000;

fn handoff_wait_ms() -> u64 {
    HANDOFF_WAIT_MS
}

impl ControlRequest {
    /// How much longer than other requests this one may take until it is answered.
    pub(super) fn waits(&self) -> Duration {
        match self {
            Self::Handoff { wait_ms, .. } => Duration::from_millis((*wait_ms).min(HANDOFF_WAIT_MS_MAX)),
            _ => Duration::ZERO,
        }
    }
}

impl ControlReply {
    /// Done, with `message`.
    pub fn done(message: impl Into<String>) -> Self {
        Self::Done { message: message.into() }
    }

    /// Not done, with the sentence that says why and what to do.
    pub fn error(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Error { kind, message: message.into() }
    }
}

/// Whose turn it is after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's: the words make no sense to the host.
    Invalid,
    /// The caller's: there is no such thing.
    NotFound,
    /// The caller's: it may not be done in this state.
    Refused,
    /// Nobody's: ask again later.
    Busy,
    /// Ours.
    Failed,
    /// The caller's: `plugins.toml` has problems; nothing was changed.
    Config,
}

/// A pairing request. The code itself is known only to who was shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingInfo {
    /// Where.
    pub instance: String,
    /// Who.
    pub user: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Since when, Unix ms.
    pub since_ms: i64,
    /// Until when, Unix ms.
    pub expires_ms: i64,
}

/// A grant by pairing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantInfo {
    /// Where.
    pub instance: String,
    /// Who.
    pub user: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Since when, Unix ms.
    pub since_ms: i64,
}

/// Where a terminal sits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatInfo {
    /// The id of its chat.
    pub chat: String,
    /// The session that goes on there; `None`: its first message begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionInfo>,
    /// What was said last in it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<MessageInfo>,
    /// The chats in which it goes on as well, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
    /// Instances that the host runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
    /// Whether the host runs for a terminal only, without adapters.
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
    /// Where it began: an instance, or the host's own word.
    pub source: String,
    /// How many messages.
    pub messages: u64,
    /// Since when, Unix ms.
    pub started_ms: i64,
    /// Until when, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// When it was last used, Unix ms.
    pub last_ms: i64,
}

/// All there is about a session besides its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDetail {
    /// What a listing shows of it.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// Whom it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The session it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How it follows: `reset`, `branch`, `compression`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// What was said before it began, summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Turns that ended.
    pub turns: u64,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
}

/// One message with everything that is kept of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullMessage {
    /// Id, ascending.
    pub id: i64,
    /// When, Unix ms.
    pub at_ms: i64,
    /// The byte with which the rest of its text begins, where this is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_from_byte: Option<usize>,
    /// What was said.
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
    /// When, Unix ms.
    pub at_ms: i64,
}

/// One message that matched a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitInfo {
    /// In which session.
    pub session: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whose words.
    pub role: String,
    /// The words around the match.
    pub snippet: String,
    /// When, Unix ms.
    pub at_ms: i64,
}

/// How a session stands with its handoff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffInfo {
    /// The session.
    pub session: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where it leads.
    pub instance: String,
    /// `none`, `pending`, `running`, `completed` or `failed`.
    pub state: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The chat in which the conversation goes on, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// When it was asked for, Unix ms.
    pub asked_ms: i64,
    /// When it came into its state, Unix ms.
    pub since_ms: i64,
    /// One sentence for people: what is true, and what to do.
    pub message: String,
    /// What to type to go on with the session at the terminal.
    pub resume_here: String,
    /// What to type in a chat to go on with the session there.
    pub resume_in_chat: String,
}

/// One delivery in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryInfo {
    /// Id.
    pub id: i64,
    /// Through which instance.
    pub instance: String,
    /// To which chat, for people.
    pub chat: String,
    /// The session it belongs to, where it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// `reply`, `notice`, `ask`, `cron`.
    pub purpose: String,
    /// `owed`, `settled`, `abandoned`, …
    pub state: String,
    /// Why it is in that state, where there is a why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Since when, Unix ms.
    pub since_ms: i64,
    /// Until when it is tried, Unix ms.
    pub deadline_ms: i64,
    /// Not tried again before, Unix ms; absent where nothing is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<i64>,
    /// The id of the chat alone, for the host's own use.
    #[serde(skip)]
    pub chat_id: String,
    /// How many parts.
    pub parts: u32,
    /// How many of them arrived.
    pub delivered: u32,
}

/// One part of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// Which, from 1.
    pub n: u32,
    /// State word.
    pub state: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Not before, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<i64>,
    /// What the platform called it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub message_ids: Vec<String>,
    /// What was last said about why it did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The rendered text.
    pub text: String,
}

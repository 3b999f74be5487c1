//! Conversations, their usage and the values of searches.

use hermes_core::ids::SessionId;
use hermes_core::settings::SessionSettings;
use hermes_core::transcript::Message;
use hermes_protocol::Usage;
use serde::Serialize;

use crate::words::Lineage;

/// A session to be created.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Id from the caller: `YYYYMMDD_HHMMSS_<8 hex>`.
    pub id: SessionId,
    /// Profile of the session.
    pub profile: String,
    /// Instance on which it began.
    pub source: String,
    /// Owner, as `<instance>:<user>`.
    pub owner: Option<String>,
    /// Settings.
    pub settings: SessionSettings,
    /// Parent session.
    pub parent: Option<Parent>,
    /// Title, if known.
    pub title: Option<String>,
    /// Time of creation, in Unix milliseconds.
    pub started_ms: i64,
}

/// The parent of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Parent session.
    pub session: SessionId,
    /// Relation to the parent.
    pub lineage: Lineage,
}

/// A stored session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// Id of the session.
    pub id: SessionId,
    /// Profile of the session.
    pub profile: String,
    /// Title, unique among the sessions of its owner.
    pub title: Option<String>,
    /// Instance on which it began.
    pub source: String,
    /// Owner, as `<instance>:<user>`.
    pub owner: Option<String>,
    /// Settings.
    pub settings: SessionSettings,
    /// Parent session.
    pub parent: Option<SessionId>,
    /// Relation to the parent.
    pub lineage: Option<Lineage>,
    /// Time of creation, in Unix milliseconds.
    pub started_ms: i64,
    /// End of the last turn, or time of creation, in Unix milliseconds.
    pub active_ms: i64,
    /// Time of the end, in Unix milliseconds.
    pub ended_ms: Option<i64>,
    /// Reason of the end.
    pub end_reason: Option<String>,
    /// Messages in the transcript.
    pub messages: u64,
    /// Ended turns.
    pub turns: u64,
    /// Consecutive turns that the host started, since the last message of a person.
    pub woken: u32,
    /// Total usage of the turns.
    pub usage: Usage,
    /// Summary of the compressed history.
    pub summary: Option<String>,
}

/// A session to be created from another one.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// Session whose transcript, model and settings are copied.
    pub from: SessionId,
    /// Id from the caller.
    pub id: SessionId,
    /// Instance on which it begins.
    pub source: String,
    /// Owner; `None` for that of the parent.
    pub owner: Option<String>,
    /// Title; `None` for that of the parent. A number is appended if it is taken.
    pub title: Option<String>,
    /// Time of creation, in Unix milliseconds.
    pub started_ms: i64,
}

/// A session that continues from a summary of another one.
#[derive(Clone, Debug)]
pub struct NewSummary {
    /// The session; its title is that of its parent.
    pub fork: NewFork,
    /// Summary of the earlier messages.
    pub summary: String,
    /// Number of last turns that are copied unchanged.
    pub keep_turns: u32,
    /// Usage of the summary.
    pub usage: Usage,
}

/// Reason for which a session cannot be continued elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// A turn of the session runs or waits to be resumed.
    Turn,
    /// A handoff is in progress.
    Handoff,
}

/// The total usage of several sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Number of sessions.
    pub sessions: u64,
    /// Ended turns.
    pub turns: u64,
    /// Total usage.
    pub usage: Usage,
}

/// A turn of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct SaidTurn {
    /// Id of its first message.
    pub first: i64,
    /// Messages of people in the turn.
    pub heard: Vec<Message>,
}

/// The last undo of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number of the undo.
    pub number: i64,
    /// Number of hidden turns.
    pub turns: u32,
    /// True if there are newer messages, so that it cannot be restored.
    pub overtaken: bool,
}

/// The size of one read of a transcript.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Highest number of messages.
    pub rows_max: u32,
    /// Highest number of bytes of text.
    pub bytes_max: usize,
}

/// The filter of a listing of sessions, most recent activity first.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Shows only sessions of this owner.
    pub owner: Option<String>,
    /// Shows only sessions that began on this instance.
    pub source: Option<String>,
    /// Includes ended sessions.
    pub with_ended: bool,
    /// Shows only sessions that can be continued: with messages, and not replaced by a compression.
    pub resumable: bool,
    /// Number of skipped rows.
    pub offset: u32,
    /// Highest number of rows; 0 means [`crate::LISTING_ROWS_MAX`].
    pub limit: u32,
}

/// Result of a lookup by name.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// Exactly one session.
    Found(Box<SessionRow>),
    /// Several sessions with this prefix.
    Ambiguous(Vec<SessionId>),
    /// No session.
    Unknown,
}

/// A result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    /// Session of the message.
    pub session: SessionId,
    /// Title of the session.
    pub title: Option<String>,
    /// Id of the message.
    pub message: i64,
    /// Role of the author, as a word.
    pub role: String,
    /// Time of the message, in Unix milliseconds.
    pub at_ms: i64,
    /// Text around the match, with the matches between `>>>` and `<<<`.
    pub snippet: String,
}

/// A file in the media folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MediaFile {
    /// Instance in whose folder it is.
    pub instance: String,
    /// True for a received file, false for a sent one.
    pub incoming: bool,
    /// Id of the file.
    pub id: String,
}

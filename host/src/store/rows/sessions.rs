//! Conversations, what they cost and how they are found.

use hermes_agent::Message;
use hermes_core::ids::SessionId;
use hermes_core::settings::SessionSettings;
use hermes_protocol::Usage;
use serde::Serialize;

use crate::store::words::Lineage;

/// A conversation to be opened.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Id made by the caller: `YYYYMMDD_HHMMSS_<8 hex>`.
    pub id: SessionId,
    /// Profile it belongs to.
    pub profile: String,
    /// Instance it began on.
    pub source: String,
    /// Who began it, `<instance>:<user>`.
    pub owner: Option<String>,
    /// What was chosen for it.
    pub settings: SessionSettings,
    /// The session it follows, and how.
    pub parent: Option<Parent>,
    /// Title, where one is known.
    pub title: Option<String>,
    /// When it began.
    pub started_ms: i64,
}

/// Where a session comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The session before it.
    pub session: SessionId,
    /// How it follows.
    pub lineage: Lineage,
}

/// A conversation as the store holds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Profile it belongs to.
    pub profile: String,
    /// Title, unique among the sessions of its owner.
    pub title: Option<String>,
    /// Instance it began on.
    pub source: String,
    /// Who began it.
    pub owner: Option<String>,
    /// What was chosen for it.
    pub settings: SessionSettings,
    /// The session it follows.
    pub parent: Option<SessionId>,
    /// How it follows its parent.
    pub lineage: Option<Lineage>,
    /// When it began.
    pub started_ms: i64,
    /// When its last turn ended, or when it began.
    pub active_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// Messages in its transcript.
    pub messages: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Turns in a row to which it was woken, up to now, while nobody wrote to it.
    pub woken: u32,
    /// What its turns cost together.
    pub usage: Usage,
    /// Summary of what was compacted away.
    pub summary: Option<String>,
}

/// A session that is made from another one.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// The session whose transcript, model and settings it takes over.
    pub from: SessionId,
    /// Id made by the caller.
    pub id: SessionId,
    /// Instance it begins on.
    pub source: String,
    /// Who it belongs to; none: whom its parent belongs to.
    pub owner: Option<String>,
    /// Its title; none: that of its parent. Numbered where it is taken.
    pub title: Option<String>,
    /// When it begins.
    pub started_ms: i64,
}

/// A session that goes on from a summary of another one.
#[derive(Clone, Debug)]
pub struct NewSummary {
    /// The session; its title is that of its parent.
    pub fork: NewFork,
    /// What was said before.
    pub summary: String,
    /// So many of the last turns are kept as they are.
    pub keep_turns: u32,
    /// What the summary cost.
    pub usage: Usage,
}

/// Why a session cannot be gone on with elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// A turn of it runs, or waits to be resumed.
    Turn,
    /// It is being handed over.
    Handoff,
}

/// What sessions cost together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// How many there are.
    pub sessions: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Tokens.
    pub usage: Usage,
}

/// A turn of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct SaidTurn {
    /// Its first message.
    pub first: i64,
    /// What people said in it.
    pub heard: Vec<Message>,
}

/// What was last taken out of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which undo it was.
    pub number: i64,
    /// How many turns it took.
    pub turns: u32,
    /// Whether something newer was said, so that it cannot come back.
    pub overtaken: bool,
}

/// How much of a transcript is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Messages.
    pub rows_max: u32,
    /// Bytes of text.
    pub bytes_max: usize,
}

/// Which sessions a listing shows, newest activity first.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only those this person began.
    pub owner: Option<String>,
    /// Only those that began on this instance.
    pub source: Option<String>,
    /// Whether ended ones are shown.
    pub with_ended: bool,
    /// Only those that can be gone on with: something was said, and no compression took their place.
    pub resumable: bool,
    /// Skips so many.
    pub offset: u32,
    /// At most so many; 0 means [`crate::store::LISTING_ROWS_MAX`].
    pub limit: u32,
}

/// What a name led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// Exactly one session.
    Found(Box<SessionRow>),
    /// Several sessions begin like that.
    Ambiguous(Vec<SessionId>),
    /// None does.
    Unknown,
}

/// One place where a search found its words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    /// Session of the message.
    pub session: SessionId,
    /// Title of that session.
    pub title: Option<String>,
    /// The message.
    pub message: i64,
    /// Word of its role.
    pub role: String,
    /// When it was said.
    pub at_ms: i64,
    /// The place itself, matches between `>>>` and `<<<`.
    pub snippet: String,
}

/// A file of the media folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MediaFile {
    /// The instance in whose folder it lies.
    pub instance: String,
    /// Whether it was received; otherwise it was sent.
    pub incoming: bool,
    /// Its id.
    pub id: String,
}

//! Conversations and their entries, as they are stored.

use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The maximum text size of one record, in bytes; a longer text continues in the next record.
pub(crate) const RECORD_TEXT_BYTES_MAX: usize = 16 * 1024;

/// The maximum length of a title, in characters.
pub(crate) const TITLE_CHARS_MAX: usize = 80;

/// One conversation in the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: String,
    /// The title to use while the session has none.
    pub(crate) title: String,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    /// True if an incoming entry was not read yet.
    #[serde(default)]
    pub(crate) unread: bool,
    /// The host's session of the conversation, as far as the host has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// The `inbox_id`s of the latest events.
    #[serde(default)]
    pub(crate) inbox: Vec<i64>,
    #[serde(default)]
    pub(crate) first_page: u32,
    #[serde(default)]
    pub(crate) last_page: u32,
}

/// The author of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Author {
    /// The person at the page.
    Me,
    /// The agent.
    Agent,
    /// The host.
    Notice,
}

/// One message in a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) from: Author,
    pub(crate) text: String,
    pub(crate) at_ms: i64,
    /// True if `text` is markdown.
    #[serde(default)]
    pub(crate) markdown: bool,
    /// For a message of the person: the `inbox_id` of its event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inbox_id: Option<i64>,
    /// For an answer: the `inbox_id` of the answered event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_reply_to: Option<i64>,
    /// The host's idempotency key of the part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<File>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) choices: Option<Choices>,
    /// The id of the pressed option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chosen: Option<String>,
    /// True if this record continues the text of the previous one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) continues: bool,
}

impl Entry {
    pub(crate) fn new(id: String, from: Author, text: String, at_ms: i64) -> Self {
        Self {
            id,
            from,
            text,
            at_ms,
            markdown: false,
            inbox_id: None,
            in_reply_to: None,
            key: String::new(),
            files: Vec::new(),
            choices: None,
            chosen: None,
            continues: false,
        }
    }
}

/// A file of an entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) size: u64,
    /// The path in the host's media folder, until the host deletes the file. The page never receives it.
    pub(crate) path: String,
}

/// Returns the index in a page at which a new entry belongs. An answer is inserted before the person's first later
/// message without an answer, so that the answer of an interrupted turn stays below its question. A question of the
/// host is appended.
pub(crate) fn insert_position(entries: &[Entry], new: &Entry) -> usize {
    let end = entries.len();
    let Some(answered) = new.in_reply_to.filter(|_| new.from == Author::Agent && new.choices.is_none()) else {
        return end;
    };
    let is_later = |entry: &Entry| entry.from == Author::Me && entry.inbox_id.is_some_and(|id| id > answered);
    match entries.iter().position(is_later) {
        Some(at) if !entries[at..].iter().any(|entry| entry.from == Author::Agent) => at,
        _ => end,
    }
}

/// Splits an entry into records whose text fits a page.
pub(crate) fn records(entry: &Entry) -> Vec<Entry> {
    let mut records = Vec::new();
    let mut rest = entry.text.as_str();
    loop {
        let mut at = rest.len().min(RECORD_TEXT_BYTES_MAX);
        while !rest.is_char_boundary(at) {
            at -= 1;
        }
        let (now, later) = rest.split_at(at);
        let record = if records.is_empty() {
            Entry { text: now.to_owned(), ..entry.clone() }
        } else {
            Entry { continues: true, ..Entry::new(entry.id.clone(), entry.from, now.to_owned(), entry.at_ms) }
        };
        records.push(record);
        if later.is_empty() {
            return records;
        }
        rest = later;
    }
}

/// Joins the records of each entry.
pub(crate) fn join(records: Vec<Entry>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(records.len());
    for record in records {
        match entries.last_mut() {
            Some(last) if record.continues && last.id == record.id => last.text.push_str(&record.text),
            _ => entries.push(record),
        }
    }
    entries
}

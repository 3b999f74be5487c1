//! The log of the conversations, in pages in the host's key-value store.
//!
//! One value `index` lists the conversations; each has numbered pages
//! `log/<conversation>/<page>` of at most [`PAGE_BYTES_MAX`]. A new page is listed in the
//! index before it is written, so a missing page is an empty one and no written page is
//! unreachable. Writes are sequential.
//!
//! The host stores the session itself (`hermes-host session list`). This log contains the
//! entries that the page shows, including notices and files, and it makes a delivery
//! durable.

use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::sync::Mutex;

use crate::entry::{
    Author, Conversation, Entry, File, RECORD_TEXT_BYTES_MAX, TITLE_CHARS_MAX, insert_position, join, records,
};

/// The maximum number of conversations; a new one replaces the one that was inactive longest.
const CONVERSATIONS_MAX: usize = 100;

/// The maximum size of one page, in bytes; below the host's limit of 64 KiB per value.
const PAGE_BYTES_MAX: usize = 48 * 1024;

/// The maximum number of pages per conversation; the oldest are deleted first.
const PAGES_MAX: u32 = 64;

/// Pages of all conversations: less than the host lets an instance keep. The oldest pages of the conversation that was
/// quiet longest make room.
const PAGES_TOTAL_MAX: usize = 1_000;

/// The minimum number of entries per read, if there are as many.
const ENTRIES_AT_ONCE: usize = 40;

/// The number of latest events remembered per conversation, to find the conversation of a turn.
const INBOX_MAX: usize = 8;

/// The number of remembered deleted conversations.
const DELETED_MAX: usize = 100;

/// The number of last pages cached in memory.
const TAILS_MAX: usize = 16;

#[derive(Default, Serialize, Deserialize)]
struct Index {
    conversations: Vec<Conversation>,
    /// The ids of recently deleted conversations. A late delivery does not recreate them.
    #[serde(default)]
    deleted: Vec<String>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Page {
    entries: Vec<Entry>,
}

impl Page {
    fn bytes(&self) -> usize {
        json(self).len()
    }
}

/// A section of a conversation for the page.
#[derive(Debug, Serialize)]
pub(crate) struct Excerpt {
    pub(crate) entries: Vec<Entry>,
    /// The page number before which there are more entries.
    pub(crate) before: Option<u32>,
}

/// The conversations of one instance.
pub(crate) struct Log {
    host: Host,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    index: Index,
    /// The last page of each recently used conversation.
    tails: BTreeMap<String, Page>,
}

impl Log {
    pub(crate) fn new(host: Host) -> Self {
        Self { host, state: Mutex::default() }
    }

    /// Loads the index.
    pub(crate) async fn load(&self) -> Result<(), CallError> {
        let mut state = self.state.lock().await;
        if let Some(text) = self.host.kv().get("index").await? {
            state.index = serde_json::from_str(&text).map_err(|error| {
                CallError::new("invalid", format!("the stored list of conversations cannot be read: {error}"))
            })?;
        }
        state.tails.clear();
        Ok(())
    }

    /// Lists the conversations, the most recently updated first.
    pub(crate) async fn conversations(&self) -> Vec<Conversation> {
        let mut list = self.state.lock().await.index.conversations.clone();
        list.sort_by(|a, b| b.updated_ms.cmp(&a.updated_ms).then_with(|| a.id.cmp(&b.id)));
        list
    }

    pub(crate) async fn conversation(&self, id: &str) -> Option<Conversation> {
        self.state.lock().await.index.conversations.iter().find(|c| c.id == id).cloned()
    }

    /// Returns the conversation of an event.
    pub(crate) async fn conversation_of(&self, inbox_id: i64) -> Option<String> {
        let state = self.state.lock().await;
        state.index.conversations.iter().find(|c| c.inbox.contains(&inbox_id)).map(|c| c.id.clone())
    }

    /// Creates a conversation or returns the existing one. A conversation that was deleted at the page is
    /// `not_found` and is not recreated.
    pub(crate) async fn open(&self, id: &str, title: &str, at_ms: i64) -> Result<Conversation, CallError> {
        let mut state = self.state.lock().await;
        if let Some(conversation) = state.index.conversations.iter().find(|c| c.id == id) {
            return Ok(conversation.clone());
        }
        if state.index.deleted.iter().any(|deleted| deleted == id) {
            return Err(CallError::new("not_found", "the conversation was deleted"));
        }
        while state.index.conversations.len() >= CONVERSATIONS_MAX {
            let Some(oldest) = state.index.conversations.iter().min_by_key(|c| c.updated_ms).map(|c| c.id.clone())
            else {
                break;
            };
            self.remove(&mut state, &oldest).await?;
        }
        let conversation = Conversation {
            id: id.to_owned(),
            title: title.chars().take(TITLE_CHARS_MAX).collect(),
            created_ms: at_ms,
            updated_ms: at_ms,
            unread: false,
            session: None,
            inbox: Vec::new(),
            first_page: 0,
            last_page: 0,
        };
        state.index.conversations.push(conversation.clone());
        self.write_index(&state).await?;
        Ok(conversation)
    }

    /// Changes a conversation in the list and returns it.
    pub(crate) async fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Conversation),
    ) -> Result<Option<Conversation>, CallError> {
        let mut state = self.state.lock().await;
        let Some(conversation) = state.index.conversations.iter_mut().find(|c| c.id == id) else { return Ok(None) };
        change(conversation);
        let changed = conversation.clone();
        self.write_index(&state).await?;
        Ok(Some(changed))
    }

    /// Deletes a conversation and its pages.
    pub(crate) async fn delete(&self, id: &str) -> Result<bool, CallError> {
        let mut state = self.state.lock().await;
        // The host may write to the inbox unasked, so the inbox can be created again after its deletion.
        if id != "inbox" {
            state.index.deleted.push(id.to_owned());
            let extra = state.index.deleted.len().saturating_sub(DELETED_MAX);
            state.index.deleted.drain(..extra);
        }
        self.remove(&mut state, id).await
    }

    /// Appends an entry unless one with its id or key is among the latest. Returns the
    /// entry in the log. An answer is inserted below its own question.
    pub(crate) async fn append(&self, conversation: &str, entry: Entry) -> Result<Entry, CallError> {
        let mut state = self.state.lock().await;
        let Some(at) = state.index.conversations.iter().position(|c| c.id == conversation) else {
            return Err(CallError::new("not_found", "this conversation does not exist"));
        };
        let (first, last) = {
            let c = &state.index.conversations[at];
            (c.first_page, c.last_page)
        };
        let mut tail = self.tail(&mut state, conversation, last).await?;
        let same = |known: &&Entry| known.id == entry.id || (!entry.key.is_empty() && known.key == entry.key);
        if let Some(known) = tail.entries.iter().find(same) {
            return Ok(known.clone());
        }
        if last > first {
            let before = self.page(conversation, last - 1).await?;
            if let Some(known) = before.entries.iter().find(same) {
                return Ok(known.clone());
            }
        }
        let mut number = last;
        let mut pages: Vec<(u32, Page)> = Vec::new();
        let later = tail.entries.split_off(insert_position(&tail.entries, &entry));
        for record in records(&entry).into_iter().chain(later) {
            if !tail.entries.is_empty() && tail.bytes() + json(&record).len() > PAGE_BYTES_MAX {
                pages.push((number, std::mem::take(&mut tail)));
                number += 1;
            }
            tail.entries.push(record);
        }
        pages.push((number, tail.clone()));
        let oldest = number.saturating_sub(PAGES_MAX - 1).max(first);
        let line = &mut state.index.conversations[at];
        line.updated_ms = line.updated_ms.max(entry.at_ms);
        line.last_page = number;
        line.first_page = oldest;
        line.unread |= entry.from != Author::Me;
        if let Some(inbox_id) = entry.inbox_id {
            line.inbox.push(inbox_id);
            let extra = line.inbox.len().saturating_sub(INBOX_MAX);
            line.inbox.drain(..extra);
        }
        self.make_room(&mut state).await?;
        self.write_index(&state).await?;
        for (number, page) in &pages {
            self.host.kv().set(&page_key(conversation, *number), &json(page)).await?;
        }
        for number in first..oldest {
            self.host.kv().delete(&page_key(conversation, number)).await?;
        }
        cache_tail(&mut state, conversation, tail);
        Ok(entry)
    }

    /// Fills an empty conversation with entries from elsewhere.
    pub(crate) async fn copy(&self, conversation: &str, entries: Vec<Entry>) -> Result<(), CallError> {
        let mut state = self.state.lock().await;
        let Some(at) = state.index.conversations.iter().position(|c| c.id == conversation) else {
            return Err(CallError::new("not_found", "this conversation does not exist"));
        };
        let mut pages = vec![Page::default()];
        for record in entries.iter().flat_map(records) {
            let full = pages.last().is_some_and(|page: &Page| {
                !page.entries.is_empty() && page.bytes() + json(&record).len() > PAGE_BYTES_MAX
            });
            if full {
                pages.push(Page::default());
            }
            pages.last_mut().expect("there is one").entries.push(record);
        }
        let skipped = pages.len().saturating_sub(PAGES_MAX as usize);
        let pages: Vec<Page> = pages.into_iter().skip(skipped).collect();
        let line = &mut state.index.conversations[at];
        line.first_page = 0;
        line.last_page = u32::try_from(pages.len() - 1).unwrap_or(PAGES_MAX);
        self.make_room(&mut state).await?;
        self.write_index(&state).await?;
        for (number, page) in (0..).zip(&pages) {
            self.host.kv().set(&page_key(conversation, number), &json(page)).await?;
        }
        state.tails.remove(conversation);
        Ok(())
    }

    /// Returns the text of the entry that answers this event, if there is one.
    pub(crate) async fn answer_to(&self, conversation: &str, inbox_id: i64) -> Result<Option<String>, CallError> {
        let excerpt = self.read(conversation, None).await?;
        let entries = excerpt.map(|excerpt| excerpt.entries).unwrap_or_default();
        Ok(entries.into_iter().rev().find(|entry| entry.in_reply_to == Some(inbox_id)).map(|entry| entry.text))
    }

    /// Changes an entry in the latest two pages. `None` if it is not there or too long to be changed in place.
    pub(crate) async fn edit(
        &self,
        conversation: &str,
        entry_id: &str,
        change: impl FnOnce(&mut Entry),
    ) -> Result<Option<Entry>, CallError> {
        let mut state = self.state.lock().await;
        let Some(line) = state.index.conversations.iter().find(|c| c.id == conversation) else { return Ok(None) };
        let (first, last) = (line.first_page, line.last_page);
        for number in (first.max(last.saturating_sub(1))..=last).rev() {
            let mut page = if number == last {
                self.tail(&mut state, conversation, last).await?
            } else {
                self.page(conversation, number).await?
            };
            let mut found = page.entries.iter_mut().filter(|entry| entry.id == entry_id);
            let Some(entry) = found.next() else { continue };
            if found.next().is_some() {
                return Ok(None);
            }
            change(entry);
            let changed = entry.clone();
            if changed.text.len() > RECORD_TEXT_BYTES_MAX || page.bytes() > PAGE_BYTES_MAX + RECORD_TEXT_BYTES_MAX / 2 {
                return Ok(None);
            }
            self.host.kv().set(&page_key(conversation, number), &json(&page)).await?;
            if number == last {
                cache_tail(&mut state, conversation, page);
            }
            return Ok(Some(changed));
        }
        Ok(None)
    }

    /// Returns the latest entries, or those before a page.
    pub(crate) async fn read(&self, conversation: &str, before: Option<u32>) -> Result<Option<Excerpt>, CallError> {
        let mut state = self.state.lock().await;
        let Some(line) = state.index.conversations.iter().find(|c| c.id == conversation) else { return Ok(None) };
        let (first, last) = (line.first_page, line.last_page);
        let mut number = match before {
            None => last + 1,
            Some(before) => before.min(last + 1),
        };
        let mut records: Vec<Entry> = Vec::new();
        while number > first
            && (records.len() < ENTRIES_AT_ONCE || records.first().is_some_and(|entry| entry.continues))
        {
            number -= 1;
            let page = if number == last {
                self.tail(&mut state, conversation, last).await?
            } else {
                self.page(conversation, number).await?
            };
            records.splice(0..0, page.entries);
        }
        Ok(Some(Excerpt { entries: join(records), before: (number > first).then_some(number) }))
    }

    /// Returns a file named by an entry of this conversation.
    pub(crate) async fn file(&self, conversation: &str, file: &str) -> Result<Option<File>, CallError> {
        let mut before = None;
        while let Some(excerpt) = self.read(conversation, before).await? {
            let mut files = excerpt.entries.iter().flat_map(|entry| &entry.files);
            if let Some(found) = files.find(|known| known.id == file) {
                return Ok(Some(found.clone()));
            }
            match excerpt.before {
                Some(page) => before = Some(page),
                None => break,
            }
        }
        Ok(None)
    }

    async fn remove(&self, state: &mut LogState, id: &str) -> Result<bool, CallError> {
        let Some(at) = state.index.conversations.iter().position(|c| c.id == id) else { return Ok(false) };
        let line = state.index.conversations.remove(at);
        state.tails.remove(id);
        self.write_index(state).await?;
        for number in line.first_page..=line.last_page {
            self.host.kv().delete(&page_key(id, number)).await?;
        }
        Ok(true)
    }

    async fn tail(&self, state: &mut LogState, conversation: &str, number: u32) -> Result<Page, CallError> {
        if let Some(page) = state.tails.get(conversation) {
            return Ok(page.clone());
        }
        let page = self.page(conversation, number).await?;
        cache_tail(state, conversation, page.clone());
        Ok(page)
    }

    async fn page(&self, conversation: &str, number: u32) -> Result<Page, CallError> {
        let Some(text) = self.host.kv().get(&page_key(conversation, number)).await? else { return Ok(Page::default()) };
        serde_json::from_str(&text).map_err(|error| {
            CallError::new("invalid", format!("page {number} of conversation {conversation} cannot be read: {error}"))
        })
    }

    /// Deletes pages beyond the bound. The index follows: a page that is missing is an empty one.
    async fn make_room(&self, state: &mut LogState) -> Result<(), CallError> {
        for key in excess_pages(&mut state.index.conversations, PAGES_TOTAL_MAX) {
            self.host.kv().delete(&key).await?;
        }
        Ok(())
    }

    async fn write_index(&self, state: &LogState) -> Result<(), CallError> {
        self.host.kv().set("index", &json(&state.index)).await
    }
}

fn cache_tail(state: &mut LogState, conversation: &str, page: Page) {
    if state.tails.len() >= TAILS_MAX && !state.tails.contains_key(conversation) {
        state.tails.pop_first();
    }
    state.tails.insert(conversation.to_owned(), page);
}

/// Takes the oldest pages beyond `pages_max` out of the conversations that were quiet longest, and returns their keys.
/// Each conversation keeps its last page.
fn excess_pages(conversations: &mut [Conversation], pages_max: usize) -> Vec<String> {
    let pages = |c: &Conversation| c.last_page.saturating_sub(c.first_page) as usize + 1;
    let extra = conversations.iter().map(pages).sum::<usize>().saturating_sub(pages_max);
    let mut keys = Vec::new();
    while keys.len() < extra {
        let with_more = conversations.iter_mut().filter(|c| c.first_page < c.last_page);
        let Some(quiet) = with_more.min_by_key(|c| c.updated_ms) else { break };
        keys.push(page_key(&quiet.id, quiet.first_page));
        quiet.first_page += 1;
    }
    keys
}

fn page_key(conversation: &str, number: u32) -> String {
    format!("log/{conversation}/{number}")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("entries and conversations are plain JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(id: &str, updated_ms: i64, (first_page, last_page): (u32, u32)) -> Conversation {
        let (id, title) = (id.to_owned(), String::new());
        let (unread, session, inbox, created_ms) = (false, None, Vec::new(), 0);
        Conversation { id, title, created_ms, updated_ms, unread, session, inbox, first_page, last_page }
    }

    #[test]
    fn the_oldest_pages_of_the_quietest_conversations_make_room_and_every_last_page_stays() {
        let mut list = [conversation("new", 9, (0, 3)), conversation("old", 1, (4, 6)), conversation("one", 0, (2, 2))];
        assert!(excess_pages(&mut list, 8).is_empty());
        assert_eq!(excess_pages(&mut list, 5), ["log/old/4", "log/old/5", "log/new/0"]);
        assert_eq!(list.each_ref().map(|c| (c.first_page, c.last_page)), [(1, 3), (6, 6), (2, 2)]);
        assert_eq!(excess_pages(&mut list, 0), ["log/new/1", "log/new/2"], "nothing is left to give");
    }
}

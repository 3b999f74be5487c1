//! Topics that were opened for the host. Telegram has no idempotency keys. The adapter stores each key before its
//! request, and the opened topic after it, so that the same key never opens two topics, even after an
//! interruption.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The key of the stored topics.
pub const KEPT_AS: &str = "topics_opened";

/// The maximum number of remembered topics; the host retries soon or never.
const OPENED_MAX: usize = 16;

/// The latest requested topics, with their keys. An entry without a topic number may have opened one: its request was
/// interrupted.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", transparent)]
pub struct Opened(VecDeque<(String, Option<i64>)>);

/// The state of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// The key is unknown.
    No,
    /// A topic was requested; the result is unknown.
    Asked,
    /// The key opened this topic.
    Topic(i64),
}

impl Opened {
    /// Parses the stored topics; an invalid value counts as empty.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// Returns the state of a key.
    pub fn by(&self, key: &str) -> Known {
        match self.0.iter().find(|(by, _)| by == key) {
            None => Known::No,
            Some((_, None)) => Known::Asked,
            Some((_, Some(topic))) => Known::Topic(*topic),
        }
    }

    /// Records the request of a key, or its opened topic. Returns the value to store.
    pub fn note(&mut self, key: &str, topic: Option<i64>) -> String {
        self.0.retain(|(by, _)| by != key);
        self.0.push_back((key.to_owned(), topic));
        while self.0.len() > OPENED_MAX {
            self.0.pop_front();
        }
        self.kept()
    }

    /// Records that a key certainly opened no topic. Returns the value to store.
    pub fn forget(&mut self, key: &str) -> String {
        self.0.retain(|(by, _)| by != key);
        self.kept()
    }

    fn kept(&self) -> String {
        serde_json::to_string(self).expect("keys and numbers are always JSON")
    }
}

/// The maximum number of remembered forums.
const FORUMS_MAX: usize = 1024;

/// The groups known to be forums. In a forum, typing outside of topics is visible only with
/// the id of the general topic.
#[derive(Debug, Default)]
pub struct Forums(Mutex<BTreeSet<i64>>);

impl Forums {
    /// Records a forum. Above the limit the other forums are forgotten, and recorded again with their next message.
    pub fn note(&self, forum: Option<i64>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(forum);
        if known.len() > FORUMS_MAX {
            known.retain(|id| Some(*id) == forum);
        }
    }

    /// Returns whether a chat is a known forum.
    pub fn has(&self, chat: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chat.parse().is_ok_and(|id: i64| known.contains(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_topics_are_known_by_their_keys() {
        let mut opened = Opened::default();
        let mut kept = String::new();
        for n in 0..20 {
            kept = opened.note(&format!("key {n}"), Some(n));
        }
        assert_eq!(Opened::read(Some(&kept)), opened);
        assert_eq!(opened.by("key 19"), Known::Topic(19));
        assert_eq!((opened.by("key 4"), opened.by("key 3")), (Known::Topic(4), Known::No));
        assert_eq!(Opened::read(Some("{")), Opened::default());
        assert_eq!(Opened::read(None), Opened::default());
    }

    #[test]
    fn a_key_that_was_cut_off_is_known_until_it_is_known_what_came_of_it() {
        let mut opened = Opened::read(Some(&Opened::default().note("one", None)));
        assert_eq!(opened.by("one"), Known::Asked);
        opened.note("one", Some(7));
        assert_eq!(opened.by("one"), Known::Topic(7));
        opened.note("two", None);
        assert_eq!(Opened::read(Some(&opened.forget("two"))).by("two"), Known::No);
        assert_eq!(Opened::read(Some(r#"[["one",7]]"#)).by("one"), Known::Topic(7));
    }

    #[test]
    fn a_forum_is_known_once_it_was_heard_from() {
        let forums = Forums::default();
        forums.note(None);
        forums.note(Some(-100));
        assert!(forums.has("-100") && !forums.has("-101") && !forums.has("general"));
        (0..2_000).for_each(|id| forums.note(Some(id)));
        assert!(forums.has("1999") && forums.0.lock().unwrap().len() <= FORUMS_MAX);
    }
}

//! Threads: those that the host opened by a key, and those that their first answer will open.
//!
//! A person who mentions the bot in a channel gets a new thread. The thread has the id of that message, so the
//! event can name it before it exists; it is opened with the first message in it. So a stranger whom the host does
//! not answer opens none, and a restart loses none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The key of the stored threads.
pub const KEPT_AS: &str = "threads";
/// The maximum number of remembered threads by key; the host retries soon or never.
const OPENED_MAX: usize = 16;
/// The maximum number of threads still to be opened.
const PROMISED_MAX: usize = 256;

/// The stored threads.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub struct Threads {
    /// The threads requested by a key, the oldest first.
    #[serde(default)]
    opened: VecDeque<Opened>,
    /// The messages that will open a thread, the oldest first.
    #[serde(default)]
    promised: VecDeque<String>,
}

/// A thread requested by a key.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
struct Opened {
    key: String,
    /// The id of the thread; `None` if the request was interrupted.
    thread: Option<String>,
    asked_ms: i64,
}

/// The state of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// The key is unknown.
    No,
    /// A thread was requested at this time; whether it exists must be looked up.
    Asked {
        /// The time in milliseconds since the Unix epoch.
        at_ms: i64,
    },
    /// The key opened this thread.
    Thread(String),
}

impl Threads {
    /// Parses the stored threads; an invalid value counts as empty.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// Returns the value to store.
    pub fn written(&self) -> String {
        serde_json::to_string(self).expect("texts are always JSON")
    }

    /// Returns the state of a key.
    pub fn by_key(&self, key: &str) -> Known {
        match self.opened.iter().find(|opened| opened.key == key) {
            None => Known::No,
            Some(Opened { thread: None, asked_ms, .. }) => Known::Asked { at_ms: *asked_ms },
            Some(Opened { thread: Some(thread), .. }) => Known::Thread(thread.clone()),
        }
    }

    /// Records the request of a key.
    pub fn ask(&mut self, key: &str, now_ms: i64) {
        if self.by_key(key) == Known::No {
            self.opened.push_back(Opened { key: key.to_owned(), thread: None, asked_ms: now_ms });
        }
        while self.opened.len() > OPENED_MAX {
            self.opened.pop_front();
        }
    }

    /// Records the thread of a key; `None`: it certainly has none.
    pub fn answer(&mut self, key: &str, thread: Option<&str>) {
        match (self.opened.iter_mut().find(|opened| opened.key == key), thread) {
            (Some(opened), Some(thread)) => opened.thread = Some(thread.to_owned()),
            (_, None) => self.opened.retain(|opened| opened.key != key),
            (None, Some(_)) => {}
        }
    }

    /// Records that a message will open a thread; returns `true` if that is new.
    pub fn promise(&mut self, message: &str) -> bool {
        if self.is_promised(message) {
            return false;
        }
        self.promised.push_back(message.to_owned());
        while self.promised.len() > PROMISED_MAX {
            self.promised.pop_front();
        }
        true
    }

    /// Returns whether the thread of this message is still to be opened.
    pub fn is_promised(&self, message: &str) -> bool {
        self.promised.iter().any(|promised| promised == message)
    }

    /// Records that the thread of this message exists, or never will.
    pub fn settle(&mut self, message: &str) {
        self.promised.retain(|promised| promised != message);
    }
}

/// Locks for opening threads, one per name, so that two requests open one thread, and a slow one does not delay the
/// others.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Returns the lock for opening a thread with this name.
    pub fn of(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(name).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(name.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_threads_are_known_by_their_keys() {
        let mut threads = Threads::default();
        for n in 0..20 {
            threads.ask(&format!("key {n}"), n);
            threads.answer(&format!("key {n}"), Some(&n.to_string()));
        }
        assert_eq!(Threads::read(Some(&threads.written())), threads);
        assert_eq!(threads.by_key("key 19"), Known::Thread("19".into()));
        assert_eq!((threads.by_key("key 4"), threads.by_key("key 3")), (Known::Thread("4".into()), Known::No));
        assert_eq!(Threads::read(Some("{")), Threads::default());
    }

    #[test]
    fn a_key_that_was_cut_off_is_known_to_have_asked_and_one_without_a_thread_is_forgotten() {
        let mut threads = Threads::default();
        threads.ask("k", 7);
        threads.ask("k", 9);
        let mut later = Threads::read(Some(&threads.written()));
        assert_eq!(later.by_key("k"), Known::Asked { at_ms: 7 });
        later.answer("k", None);
        assert_eq!(later.by_key("k"), Known::No);
        later.answer("k", Some("1"));
        assert_eq!(later.by_key("k"), Known::No, "it never asked");
    }

    #[tokio::test]
    async fn turns_of_one_name_follow_each_other_and_others_do_not_wait() {
        let turns = Turns::default();
        let one = turns.of("1");
        let held = one.lock().await;
        assert!(turns.of("1").try_lock().is_err() && turns.of("2").try_lock().is_ok());
        drop(held);
        assert!(turns.of("1").try_lock().is_ok());
        drop(one);
        turns.of("3");
        assert_eq!(turns.0.lock().unwrap().len(), 1, "who is done is forgotten");
    }

    #[test]
    fn a_promise_is_kept_until_it_is_settled_and_the_oldest_go_first() {
        let mut threads = Threads::default();
        assert!(threads.promise("1") && !threads.promise("1"));
        assert!(Threads::read(Some(&threads.written())).is_promised("1"));
        threads.settle("1");
        assert!(!threads.is_promised("1"));
        for n in 0..=PROMISED_MAX {
            threads.promise(&format!("m{n}"));
        }
        assert!(!threads.is_promised("m0") && threads.is_promised(&format!("m{PROMISED_MAX}")));
    }
}

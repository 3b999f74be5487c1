//! Threads: those that the host opened by a key, and those that their first answer will open.
//!
//! A person who mentions the bot in a channel gets a new thread. The thread has the id of that message, so the
//! event can name it before it exists; it is opened with the first message in it. So an unknown sender whom the host does
//! not answer opens none, and a restart loses none.

use std::collections::VecDeque;

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The key of the stored threads.
pub(crate) const STORE_KEY: &str = "threads";
/// The maximum number of remembered threads by key; the host retries soon or never.
const REQUESTS_MAX: usize = 16;
/// The maximum number of threads still to be opened.
const PENDING_MAX: usize = 256;

/// The stored threads.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub(crate) struct Threads {
    /// The threads requested by a key, the oldest first.
    #[serde(default, rename = "opened")]
    requests: VecDeque<ThreadRequest>,
    /// The messages that will open a thread, the oldest first.
    #[serde(default, rename = "promised")]
    pending: VecDeque<String>,
}

/// A thread requested by a key.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
struct ThreadRequest {
    key: String,
    /// The id of the thread; `None` if the request was interrupted.
    thread: Option<String>,
    #[serde(rename = "asked_ms")]
    requested_ms: i64,
}

/// The state of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// The key is unknown.
    Unknown,
    /// A thread was requested at this time; whether it exists must be looked up.
    Requested {
        /// The time in milliseconds since the Unix epoch.
        at_ms: i64,
    },
    /// The key opened this thread.
    Opened(String),
}

impl Threads {
    /// Parses the stored threads; an invalid value counts as empty.
    pub(crate) fn parse(stored: Option<&str>) -> Self {
        stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default()
    }

    /// Returns the value to store.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts are always JSON")
    }

    /// Returns the state of a key.
    pub(crate) fn state_of(&self, key: &str) -> ThreadState {
        match self.requests.iter().find(|request| request.key == key) {
            None => ThreadState::Unknown,
            Some(ThreadRequest { thread: None, requested_ms, .. }) => ThreadState::Requested { at_ms: *requested_ms },
            Some(ThreadRequest { thread: Some(thread), .. }) => ThreadState::Opened(thread.clone()),
        }
    }

    /// Records the request of a key.
    pub(crate) fn add_request(&mut self, key: &str, now_ms: i64) {
        if self.state_of(key) == ThreadState::Unknown {
            self.requests.push_back(ThreadRequest { key: key.to_owned(), thread: None, requested_ms: now_ms });
        }
        while self.requests.len() > REQUESTS_MAX {
            self.requests.pop_front();
        }
    }

    /// Records the thread of a key; `None`: it certainly has none.
    pub(crate) fn set_thread(&mut self, key: &str, thread: Option<&str>) {
        match (self.requests.iter_mut().find(|request| request.key == key), thread) {
            (Some(request), Some(thread)) => request.thread = Some(thread.to_owned()),
            (_, None) => self.requests.retain(|request| request.key != key),
            (None, Some(_)) => {}
        }
    }

    /// Records that a message will open a thread; returns `true` if that is new.
    pub(crate) fn add_pending(&mut self, message: &str) -> bool {
        if self.is_pending(message) {
            return false;
        }
        self.pending.push_back(message.to_owned());
        while self.pending.len() > PENDING_MAX {
            self.pending.pop_front();
        }
        true
    }

    /// Returns whether the thread of this message is still to be opened.
    pub(crate) fn is_pending(&self, message: &str) -> bool {
        self.pending.iter().any(|pending| pending == message)
    }

    /// Records that the thread of this message exists, or never will.
    pub(crate) fn remove_pending(&mut self, message: &str) {
        self.pending.retain(|pending| pending != message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_threads_are_known_by_their_keys() {
        let mut threads = Threads::default();
        for n in 0..20 {
            threads.add_request(&format!("key {n}"), n);
            threads.set_thread(&format!("key {n}"), Some(&n.to_string()));
        }
        assert_eq!(Threads::parse(Some(&threads.to_json())), threads);
        assert_eq!(threads.state_of("key 19"), ThreadState::Opened("19".into()));
        assert_eq!(
            (threads.state_of("key 4"), threads.state_of("key 3")),
            (ThreadState::Opened("4".into()), ThreadState::Unknown)
        );
        assert_eq!(Threads::parse(Some("{")), Threads::default());
    }

    #[test]
    fn a_key_that_was_cut_off_is_known_to_have_asked_and_one_without_a_thread_is_forgotten() {
        let mut threads = Threads::default();
        threads.add_request("k", 7);
        threads.add_request("k", 9);
        let mut later = Threads::parse(Some(&threads.to_json()));
        assert_eq!(later.state_of("k"), ThreadState::Requested { at_ms: 7 });
        later.set_thread("k", None);
        assert_eq!(later.state_of("k"), ThreadState::Unknown);
        later.set_thread("k", Some("1"));
        assert_eq!(later.state_of("k"), ThreadState::Unknown, "it never asked");
    }

    #[test]
    fn the_stored_form_of_earlier_versions_stays() {
        let stored = r#"{"opened":[{"key":"k","thread":"5","asked_ms":7},{"key":"c","thread":null,"asked_ms":8}],"promised":["9"]}"#;
        let threads = Threads::parse(Some(stored));
        assert_eq!(threads.state_of("k"), ThreadState::Opened("5".into()));
        assert_eq!((threads.state_of("c"), threads.is_pending("9")), (ThreadState::Requested { at_ms: 8 }, true));
        assert_eq!(threads.to_json(), stored);
    }

    #[test]
    fn a_promise_is_kept_until_it_is_settled_and_the_oldest_go_first() {
        let mut threads = Threads::default();
        assert!(threads.add_pending("1") && !threads.add_pending("1"));
        assert!(Threads::parse(Some(&threads.to_json())).is_pending("1"));
        threads.remove_pending("1");
        assert!(!threads.is_pending("1"));
        for n in 0..=PENDING_MAX {
            threads.add_pending(&format!("m{n}"));
        }
        assert!(!threads.is_pending("m0") && threads.is_pending(&format!("m{PENDING_MAX}")));
    }
}

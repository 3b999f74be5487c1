//! Threads: those that the host opened by a key, and those that are still to be opened by their first answer.
//!
//! A person who calls the bot in a channel gets a thread of their own. It has the id of their message, so the event
//! can name it before it exists; it is opened when something is said in it. So a stranger, whom the host does not
//! answer, opens none, and a restart in between loses none.

use std::collections::VecDeque;

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The name under which the host keeps them.
pub const KEPT_AS: &str = "threads";
/// Threads by key that are remembered; the host asks again soon or never.
const OPENED_MAX: usize = 16;
/// Threads that are still to be opened.
const PROMISED_MAX: usize = 256;

/// What is remembered about threads.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub struct Threads {
    /// Key and thread, the oldest first.
    #[serde(default)]
    opened: VecDeque<(String, String)>,
    /// The messages that are to open one, the oldest first.
    #[serde(default)]
    promised: VecDeque<String>,
}

impl Threads {
    /// Reads what the host kept; what cannot be read is forgotten.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// What the host is to keep.
    pub fn written(&self) -> String {
        serde_json::to_string(self).expect("texts are always JSON")
    }

    /// The thread that a key opened.
    pub fn by_key(&self, key: &str) -> Option<&str> {
        self.opened.iter().find(|(by, _)| by == key).map(|(_, thread)| thread.as_str())
    }

    /// A key has opened a thread.
    pub fn note(&mut self, key: String, thread: String) {
        self.opened.push_back((key, thread));
        while self.opened.len() > OPENED_MAX {
            self.opened.pop_front();
        }
    }

    /// A message is to open a thread; `true`: that is news.
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

    /// Whether the thread of this message is still to be opened.
    pub fn is_promised(&self, message: &str) -> bool {
        self.promised.iter().any(|promised| promised == message)
    }

    /// The thread of this message is there, or never will be.
    pub fn settle(&mut self, message: &str) {
        self.promised.retain(|promised| promised != message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_threads_are_known_by_their_keys() {
        let mut threads = Threads::default();
        for n in 0..20 {
            threads.note(format!("key {n}"), n.to_string());
        }
        assert_eq!(Threads::read(Some(&threads.written())), threads);
        let by_key = |key: &str| threads.by_key(key).map(str::to_owned);
        assert_eq!((by_key("key 19"), by_key("key 4"), by_key("key 3")), (Some("19".into()), Some("4".into()), None));
        assert_eq!(Threads::read(Some("{")), Threads::default());
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

//! Threads that were opened for the host. A thread begins with a message, and Slack has no idempotency keys: that a
//! key asks for one, and which message came of it, is kept with the host, so that the same key begins none twice.

use std::collections::VecDeque;

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The name under which the host keeps them.
pub const KEPT_AS: &str = "threads_opened";

/// Threads that are remembered; the host asks again soon or never.
const SEEDS_MAX: usize = 16;

/// The last threads that were asked for: the key, and the `ts` of the message that begins it. Without one it may
/// have been posted: whoever asked was cut off before it was known.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", transparent)]
pub struct Seeds(VecDeque<(String, Option<String>)>);

impl Seeds {
    /// Reads what the host kept; what cannot be read is forgotten.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// What came of a key: `None` when it never asked, `Some(None)` when nobody knows.
    pub fn of(&self, key: &str) -> Option<Option<&str>> {
        self.0.iter().find(|(by, _)| by == key).map(|(_, ts)| ts.as_deref())
    }

    /// A key asks, or has its message.
    pub fn note(&mut self, key: &str, ts: Option<&str>) {
        self.forget(key);
        self.0.push_back((key.to_owned(), ts.map(str::to_owned)));
        while self.0.len() > SEEDS_MAX {
            self.0.pop_front();
        }
    }

    /// A key has begun none for sure.
    pub fn forget(&mut self, key: &str) {
        self.0.retain(|(by, _)| by != key);
    }

    /// What the host is to keep.
    pub fn kept(&self) -> String {
        serde_json::to_string(self).expect("keys and times are always JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_keys_know_what_came_of_them() {
        let mut seeds = Seeds::default();
        for n in 0..20 {
            seeds.note(&format!("key {n}"), None);
            seeds.note(&format!("key {n}"), Some("1.2"));
        }
        seeds.note("cut off", None);
        let again = Seeds::read(Some(&seeds.kept()));
        assert_eq!(again, seeds);
        assert_eq!(again.of("key 19"), Some(Some("1.2")));
        assert_eq!(again.of("cut off"), Some(None));
        assert_eq!(again.of("key 4"), None);
        seeds.forget("cut off");
        assert_eq!(seeds.of("cut off"), None);
        assert_eq!(Seeds::read(Some("{")), Seeds::default());
    }
}

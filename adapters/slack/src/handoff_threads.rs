//! Threads that were opened for the host. A thread starts with a message, and Slack has no idempotency keys. The
//! adapter stores each key before its request and the resulting message after it, so that a key never starts two
//! threads.

use std::collections::VecDeque;

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The key of the stored threads.
pub const KEPT_AS: &str = "threads_opened";

/// The maximum number of remembered threads; the host retries soon or never.
const SEEDS_MAX: usize = 16;

/// The latest requested threads: the key, and the `ts` of the first message. An entry without `ts` may have been
/// posted: its request was interrupted.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", transparent)]
pub struct Seeds(VecDeque<(String, Option<String>)>);

impl Seeds {
    /// Parses the stored threads; an invalid value counts as empty.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// Returns the result of a key: `None` if it is unknown, `Some(None)` if its result is unknown.
    pub fn of(&self, key: &str) -> Option<Option<&str>> {
        self.0.iter().find(|(by, _)| by == key).map(|(_, ts)| ts.as_deref())
    }

    /// Records the request of a key, or its message.
    pub fn note(&mut self, key: &str, ts: Option<&str>) {
        self.forget(key);
        self.0.push_back((key.to_owned(), ts.map(str::to_owned)));
        while self.0.len() > SEEDS_MAX {
            self.0.pop_front();
        }
    }

    /// Records that a key certainly posted no message.
    pub fn forget(&mut self, key: &str) {
        self.0.retain(|(by, _)| by != key);
    }

    /// Returns the value to store.
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

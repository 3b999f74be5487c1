//! Topics that were opened for the host. Telegram has no idempotency keys: which topic a key has opened is kept
//! with the host, so that the same key opens none twice.

use std::collections::VecDeque;

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The name under which the host keeps them.
pub const KEPT_AS: &str = "topics_opened";

/// Topics that are remembered; the host asks again soon or never.
const OPENED_MAX: usize = 16;

/// The last topics that were opened, with the keys that asked for them.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", transparent)]
pub struct Opened(VecDeque<(String, i64)>);

impl Opened {
    /// Reads what the host kept; what cannot be read is forgotten.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// The topic that a key opened.
    pub fn by(&self, key: &str) -> Option<i64> {
        self.0.iter().find(|(by, _)| by == key).map(|(_, topic)| *topic)
    }

    /// A key has opened a topic; returns what the host is to keep.
    pub fn note(&mut self, key: String, topic: i64) -> String {
        self.0.push_back((key, topic));
        while self.0.len() > OPENED_MAX {
            self.0.pop_front();
        }
        serde_json::to_string(self).expect("keys and numbers are always JSON")
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
            kept = opened.note(format!("key {n}"), n);
        }
        assert_eq!(Opened::read(Some(&kept)), opened);
        assert_eq!((opened.by("key 19"), opened.by("key 4"), opened.by("key 3")), (Some(19), Some(4), None));
        assert_eq!(Opened::read(Some("{")), Opened::default());
        assert_eq!(Opened::read(None), Opened::default());
    }
}

//! Threads that were opened for the host.
//!
//! A thread starts with a message, and Slack has no idempotency keys. The adapter stores each key before its request
//! and the resulting message after it, so that a key never starts two threads.

use std::collections::VecDeque;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::tokio::sync::Mutex;

use crate::api::ApiError;
use crate::errors::call_error;
use crate::outbound;
use crate::workspace::Destination;

/// The key of the stored threads.
const STORE_KEY: &str = "threads_opened";

/// The maximum number of remembered threads; the host retries soon or never.
const REQUESTS_MAX: usize = 16;
/// The maximum length of a name in the first message of a thread, in characters.
const NAME_CHARS_MAX: usize = 80;
/// The reason for not starting a thread again.
const REQUESTED_BEFORE: &str =
    "the outcome of an earlier request for this thread is unknown; no second thread is started";

/// The starter of threads.
#[derive(Default)]
pub(crate) struct HandoffThreads {
    /// A lock that is held while a thread is started and stored.
    starting: Mutex<()>,
}

impl HandoffThreads {
    /// Returns the first message of a key's thread, or posts a new one. A key whose earlier request was interrupted
    /// posts none.
    pub(crate) async fn open(
        &self,
        host: &Host,
        destination: &Destination<'_>,
        name: &str,
        key: &str,
    ) -> Result<String, CallError> {
        let text: String = name.chars().take(NAME_CHARS_MAX).collect();
        let text = if text.trim().is_empty() { "A conversation".to_owned() } else { text };
        let _guard = self.starting.lock().await;
        let kv = host.kv();
        let mut requests = ThreadRequests::parse(kv.get(STORE_KEY).await?.as_deref());
        match requests.get(key) {
            Some(Some(ts)) => return Ok(ts.to_owned()),
            Some(None) => return Err(CallError::new("unavailable", REQUESTED_BEFORE)),
            None => requests.record(key, None),
        }
        kv.set(STORE_KEY, &requests.to_json()).await?;
        let posted = outbound::post_first_message(destination, &text).await;
        match &posted {
            Ok(ts) => requests.record(key, Some(ts)),
            Err(ApiError::Refused(_) | ApiError::NotSent(_) | ApiError::NoEffect(_)) => requests.remove(key),
            // The message may exist, so the key must not post another one.
            Err(ApiError::Unknown(_)) => {}
        }
        if let Err(error) = kv.set(STORE_KEY, &requests.to_json()).await {
            // At worst the same key posts no message.
            tracing::warn!(%error, "outcome of starting a thread cannot be saved");
        }
        posted.map_err(call_error)
    }
}

/// The latest requested threads: the key, and the `ts` of the first message. An entry without `ts` may have been
/// posted: its request was interrupted.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", transparent)]
struct ThreadRequests(VecDeque<(String, Option<String>)>);

impl ThreadRequests {
    /// Parses the stored threads; an invalid value counts as empty.
    fn parse(stored: Option<&str>) -> Self {
        stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default()
    }

    /// Returns the result of a key: `None` if it is unknown, `Some(None)` if its result is unknown.
    fn get(&self, key: &str) -> Option<Option<&str>> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, ts)| ts.as_deref())
    }

    /// Records the request of a key, or its message.
    fn record(&mut self, key: &str, ts: Option<&str>) {
        self.remove(key);
        self.0.push_back((key.to_owned(), ts.map(str::to_owned)));
        while self.0.len() > REQUESTS_MAX {
            self.0.pop_front();
        }
    }

    /// Records that a key certainly posted no message.
    fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| known != key);
    }

    /// Returns the value to store.
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("keys and times are always JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_keys_know_what_came_of_them() {
        let mut requests = ThreadRequests::default();
        for n in 0..20 {
            requests.record(&format!("key {n}"), None);
            requests.record(&format!("key {n}"), Some("1.2"));
        }
        requests.record("cut off", None);
        let again = ThreadRequests::parse(Some(&requests.to_json()));
        assert_eq!(again, requests);
        assert_eq!(again.get("key 19"), Some(Some("1.2")));
        assert_eq!(again.get("cut off"), Some(None));
        assert_eq!(again.get("key 4"), None);
        requests.remove("cut off");
        assert_eq!(requests.get("cut off"), None);
        assert_eq!(ThreadRequests::parse(Some("{")), ThreadRequests::default());
    }
}

//! Topics that were opened for the host.
//!
//! Telegram has no idempotency keys. The adapter stores each key before its request, and the opened topic after it, so
//! that the same key never opens two topics, even after an interruption.

use std::collections::VecDeque;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::tokio::sync::Mutex;
use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::connection::Connection;
use crate::errors::call_error;
use crate::objects::Topic;

/// The key of the stored topics.
const STORE_KEY: &str = "topics_opened";

/// The maximum number of remembered topics; the host retries soon or never.
const REQUESTS_MAX: usize = 16;

/// The reason for not requesting a topic again.
const REQUESTED_BEFORE: &str = "the outcome of an earlier request for this topic is unknown; no second topic is opened";

/// The opener of topics.
#[derive(Default)]
pub(crate) struct HandoffTopics {
    /// A lock that is held while a topic is opened and stored.
    opening: Mutex<()>,
}

impl HandoffTopics {
    /// Returns the topic of a key: the one opened earlier, or a new one. A key whose earlier request was interrupted
    /// opens none.
    pub(crate) async fn open(
        &self,
        connection: &Connection,
        parameters: &Map<String, Value>,
        key: &str,
    ) -> Result<Topic, CallError> {
        let _guard = self.opening.lock().await;
        let kv = connection.host.kv();
        let mut requests = TopicRequests::parse(kv.get(STORE_KEY).await?.as_deref());
        match requests.state(key) {
            TopicState::Unknown => {}
            TopicState::Requested => return Err(CallError::new("unavailable", REQUESTED_BEFORE)),
            TopicState::Opened(message_thread_id) => return Ok(Topic { message_thread_id }),
        }
        kv.set(STORE_KEY, &requests.record(key, None)).await?;
        let opened: Result<Topic, ApiError> = connection.api.call("createForumTopic", parameters).await;
        let stored = match &opened {
            Ok(topic) => Some(requests.record(key, Some(topic.message_thread_id))),
            Err(ApiError::Refused(_) | ApiError::NotSent(_) | ApiError::Invalid(_)) => Some(requests.remove(key)),
            // The topic may exist, so the key must not open another one.
            Err(ApiError::TooLarge(_) | ApiError::Unknown(_)) => None,
        };
        if let Some(stored) = stored {
            if let Err(error) = kv.set(STORE_KEY, &stored).await {
                // At worst the same key opens no topic.
                tracing::warn!(%error, "outcome of opening a topic cannot be saved");
            }
        }
        opened.map_err(call_error)
    }
}

/// The latest requested topics, with their keys. An entry without a topic number may have opened one: its request was
/// interrupted.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", transparent)]
struct TopicRequests(VecDeque<(String, Option<i64>)>);

/// The state of a key.
#[derive(Debug, PartialEq, Eq)]
enum TopicState {
    /// The key is unknown.
    Unknown,
    /// A topic was requested; the result is unknown.
    Requested,
    /// The key opened this topic.
    Opened(i64),
}

impl TopicRequests {
    /// Parses the stored topics; an invalid value counts as empty.
    fn parse(stored: Option<&str>) -> Self {
        stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default()
    }

    /// Returns the state of a key.
    fn state(&self, key: &str) -> TopicState {
        match self.0.iter().find(|(known, _)| known == key) {
            None => TopicState::Unknown,
            Some((_, None)) => TopicState::Requested,
            Some((_, Some(topic))) => TopicState::Opened(*topic),
        }
    }

    /// Records the request of a key, or its opened topic. Returns the value to store.
    fn record(&mut self, key: &str, topic: Option<i64>) -> String {
        self.0.retain(|(known, _)| known != key);
        self.0.push_back((key.to_owned(), topic));
        while self.0.len() > REQUESTS_MAX {
            self.0.pop_front();
        }
        self.to_json()
    }

    /// Records that a key certainly opened no topic. Returns the value to store.
    fn remove(&mut self, key: &str) -> String {
        self.0.retain(|(known, _)| known != key);
        self.to_json()
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("keys and numbers are always JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_topics_are_known_by_their_keys() {
        let mut requests = TopicRequests::default();
        let mut stored = String::new();
        for n in 0..20 {
            stored = requests.record(&format!("key {n}"), Some(n));
        }
        assert_eq!(TopicRequests::parse(Some(&stored)), requests);
        assert_eq!(requests.state("key 19"), TopicState::Opened(19));
        assert_eq!((requests.state("key 4"), requests.state("key 3")), (TopicState::Opened(4), TopicState::Unknown));
        assert_eq!(TopicRequests::parse(Some("{")), TopicRequests::default());
        assert_eq!(TopicRequests::parse(None), TopicRequests::default());
    }

    #[test]
    fn a_key_that_was_cut_off_is_known_until_it_is_known_what_came_of_it() {
        let mut requests = TopicRequests::parse(Some(&TopicRequests::default().record("one", None)));
        assert_eq!(requests.state("one"), TopicState::Requested);
        requests.record("one", Some(7));
        assert_eq!(requests.state("one"), TopicState::Opened(7));
        requests.record("two", None);
        assert_eq!(TopicRequests::parse(Some(&requests.remove("two"))).state("two"), TopicState::Unknown);
        assert_eq!(TopicRequests::parse(Some(r#"[["one",7]]"#)).state("one"), TopicState::Opened(7));
    }
}

//! Answers stored under their idempotency keys, so that a repeated request gets the same
//! answer without a second turn, also after a restart.
//!
//! The host's key-value store contains an index under `kept`, the oldest first, and each
//! answer under `kept:<id>`. The index is limited, which limits the storage.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::end::End;

/// The maximum number of remembered requests with a key, which keeps the index below 64 KiB.
const ANSWERS_MAX: usize = 500;

/// The maximum size of a stored answer, with its quotes and escapes, in bytes; the host's limit is 64 KiB.
const ANSWER_BYTES_MAX: usize = 63 * 1024;

const INDEX: &str = "kept";

/// The stored answers, and their index in memory.
pub(crate) struct AnswerStore {
    host: Host,
    index: Mutex<VecDeque<Entry>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// The event id.
    e: String,
    /// The `inbox_id`.
    i: i64,
}

impl AnswerStore {
    /// Creates a store with an empty index.
    pub(crate) fn new(host: Host) -> Self {
        Self { host, index: Mutex::default() }
    }

    /// Loads the index. Called before the first request.
    pub(crate) async fn load(&self) -> Result<(), CallError> {
        if let Some(text) = self.host.kv().get(INDEX).await? {
            match serde_json::from_str(&text) {
                Ok(index) => *self.lock() = index,
                Err(error) => {
                    tracing::warn!(%error, "index of stored answers cannot be read; starting with an empty one");
                }
            }
        }
        Ok(())
    }

    /// Adds a request with a key to the index.
    pub(crate) async fn add(&self, event_id: &str, inbox_id: i64) {
        let mut dropped = Vec::new();
        let text = {
            let mut index = self.lock();
            if index.iter().any(|entry| entry.e == event_id) {
                return;
            }
            index.push_back(Entry { e: event_id.to_owned(), i: inbox_id });
            while index.len() > ANSWERS_MAX {
                dropped.extend(index.pop_front());
            }
            serde_json::to_string(&*index).unwrap_or_default()
        };
        for entry in dropped {
            warn(self.host.kv().delete(&answer_key(&entry.e)).await);
        }
        warn(self.host.kv().set(INDEX, &text).await);
    }

    /// Stores the result of a request with a key.
    pub(crate) async fn store(&self, event_id: &str, end: &End) {
        let text = serde_json::to_string(end).unwrap_or_default();
        if text.len() > ANSWER_BYTES_MAX {
            tracing::info!(bytes = text.len(), "answer is too long to be stored under its idempotency key");
            return;
        }
        warn(self.host.kv().set(&answer_key(event_id), &text).await);
    }

    /// Stores an answer without an open request, if its request had a key.
    pub(crate) async fn store_late(&self, inbox_id: i64, end: &End) {
        let event_id = self.lock().iter().find(|entry| entry.i == inbox_id).map(|entry| entry.e.clone());
        if let Some(event_id) = event_id {
            self.store(&event_id, end).await;
        }
    }

    /// Returns the stored result of a request.
    pub(crate) async fn find(&self, event_id: &str) -> Option<End> {
        if !self.lock().iter().any(|entry| entry.e == event_id) {
            return None;
        }
        let text = self.host.kv().get(&answer_key(event_id)).await.ok()??;
        serde_json::from_str(&text).ok()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer_key(event_id: &str) -> String {
    format!("{INDEX}:{event_id}")
}

/// Logs a failed write. The only consequence is that a repeated request gets no stored answer.
fn warn(written: Result<(), CallError>) {
    if let Err(error) = written {
        tracing::warn!(%error, "answer cannot be stored under its idempotency key");
    }
}

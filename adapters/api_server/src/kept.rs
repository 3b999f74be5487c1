//! Answers kept under their idempotency keys, so that a repeated request gets the
//! same answer and never a second turn, across restarts too.
//!
//! The host's `kv` holds an index under `kept`, oldest first, and each answer under
//! `kept:<id>`. The index is bounded, so the store is.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::server::Server;
use crate::turn::End;

/// Requests with a key that are remembered; the index stays below the 64 KiB of a kv value.
const KEPT_MAX: usize = 500;

/// The longest answer that is kept, with its quotes and escapes; a kv value holds 64 KiB.
const ANSWER_BYTES_MAX: usize = 63 * 1024;

const INDEX: &str = "kept";

/// The index, as it is in memory.
#[derive(Default)]
pub struct Kept {
    index: Mutex<VecDeque<Entry>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// The event's id.
    e: String,
    /// The host's id of it.
    i: i64,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the index. Called before the first request.
pub async fn load(server: &Server) -> Result<(), CallError> {
    if let Some(text) = server.host.kv().get(INDEX).await? {
        match serde_json::from_str(&text) {
            Ok(index) => *server.kept.lock() = index,
            Err(error) => tracing::warn!(%error, "the index of kept answers cannot be read and begins anew"),
        }
    }
    Ok(())
}

/// Remembers that `event_id` is a request with a key.
pub async fn begin(server: &Server, event_id: &str, inbox_id: i64) {
    let mut dropped = Vec::new();
    let text = {
        let mut index = server.kept.lock();
        if index.iter().any(|entry| entry.e == event_id) {
            return;
        }
        index.push_back(Entry { e: event_id.to_owned(), i: inbox_id });
        while index.len() > KEPT_MAX {
            dropped.extend(index.pop_front());
        }
        serde_json::to_string(&*index).unwrap_or_default()
    };
    for entry in dropped {
        warn(server.host.kv().delete(&place(&entry.e)).await);
    }
    warn(server.host.kv().set(INDEX, &text).await);
}

/// Keeps how a request with a key ended.
pub async fn keep(server: &Server, event_id: &str, end: &End) {
    let text = serde_json::to_string(end).unwrap_or_default();
    if text.len() > ANSWER_BYTES_MAX {
        tracing::info!(bytes = text.len(), "an answer is too long to be kept under its idempotency key");
        return;
    }
    warn(server.host.kv().set(&place(event_id), &text).await);
}

/// Keeps an answer for whose event no request is open, if that had a key.
pub async fn keep_late(server: &Server, inbox_id: i64, end: &End) {
    let event_id = server.kept.lock().iter().find(|entry| entry.i == inbox_id).map(|entry| entry.e.clone());
    if let Some(event_id) = event_id {
        keep(server, &event_id, end).await;
    }
}

/// How the request ended, if that is kept.
pub async fn find(server: &Server, event_id: &str) -> Option<End> {
    if !server.kept.lock().iter().any(|entry| entry.e == event_id) {
        return None;
    }
    let text = server.host.kv().get(&place(event_id)).await.ok()??;
    serde_json::from_str(&text).ok()
}

fn place(event_id: &str) -> String {
    format!("{INDEX}:{event_id}")
}

/// What cannot be kept costs a repeated request its answer, nothing else.
fn warn(written: Result<(), CallError>) {
    if let Err(error) = written {
        tracing::warn!(%error, "an answer cannot be kept under its idempotency key");
    }
}

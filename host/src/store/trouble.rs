//! Whether writing works: what the disk said last, until it takes something again.

use std::sync::{Mutex, PoisonError};

use super::kv;
use super::{Result, Store, StoreError};

/// What is written to find out whether writing works again: a few pages, so that the room that is
/// left for a handful of bytes is not taken for a mended disk.
const PROBE_BYTES: usize = 32 << 10;
/// No instance can be called so.
const PROBE_SCOPE: &str = "host:probe";

/// What keeps the writer from writing.
#[derive(Default)]
pub(super) struct Trouble(Mutex<Option<StoreError>>);

impl Trouble {
    /// A request failed with `error`, for which the disk or its file is to blame.
    pub(super) fn failed(&self, error: &StoreError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }

    /// Something was written, and nothing of its group failed.
    pub(super) fn worked(&self) {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(error) = ended {
            tracing::info!(was = %error, "store: writing works again");
        }
    }

    pub(super) fn now(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Store {
    /// Returns why nothing can be written, if that is so. It asks the disk again first, so the answer
    /// is true even where nothing else is written.
    pub async fn trouble(&self) -> Option<StoreError> {
        self.inner.writer.trouble()?;
        // The writer keeps what becomes of it.
        let _: Result<()> = self.write(|db| kv::set(db, PROBE_SCOPE, "", &"x".repeat(PROBE_BYTES))).await;
        self.inner.writer.trouble()
    }
}

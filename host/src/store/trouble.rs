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
        let full = self.is_full();
        if self.inner.writer.trouble().is_none() && !full {
            return None;
        }
        // The writer keeps what becomes of it.
        let _: Result<()> = self.write(|db| kv::set(db, PROBE_SCOPE, "", &"x".repeat(PROBE_BYTES))).await;
        // The log of the database may have room for a while where the disk has none.
        self.inner
            .writer
            .trouble()
            .or_else(|| full.then(|| StoreError::DiskFull { path: self.inner.writer.path.clone() }))
    }

    /// Whether the disk has no room for what the probe writes.
    fn is_full(&self) -> bool {
        let path = &self.inner.writer.path;
        let room =
            rustix::fs::statvfs(path.parent().unwrap_or(path)).map(|disk| match rustix::process::geteuid().is_root() {
                true => disk.f_bfree.saturating_mul(disk.f_frsize),
                false => disk.f_bavail.saturating_mul(disk.f_frsize),
            });
        room.is_ok_and(|room| room < PROBE_BYTES as u64)
    }
}

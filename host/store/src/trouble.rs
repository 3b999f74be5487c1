//! The last write error of the disk, until a write succeeds again.

use std::sync::{Mutex, PoisonError};

use super::kv;
use super::{Result, Store, StoreError};

/// Size of the test write that checks whether writing works again, in bytes. Several pages, so that a nearly
/// full disk with room for a few bytes does not count as repaired.
const PROBE_BYTES: usize = 32 << 10;
/// Scope of the test write, which no instance can have as a name.
const PROBE_SCOPE: &str = "host:probe";

/// The error that prevents writing.
#[derive(Default)]
pub(super) struct Trouble(Mutex<Option<StoreError>>);

impl Trouble {
    /// Records an error caused by the disk or its file.
    pub(super) fn failed(&self, error: &StoreError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }

    /// Records a successful write in a group without errors.
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
    /// Returns the error that prevents writing, if there is one. Tries a write first, so the answer is current
    /// even if no other data is written.
    pub async fn trouble(&self) -> Option<StoreError> {
        let full = self.is_full();
        if self.inner.writer.trouble().is_none() && !full {
            return None;
        }
        // The writer records the result.
        let _: Result<()> = self.write(|db| kv::set(db, PROBE_SCOPE, "", &"x".repeat(PROBE_BYTES))).await;
        // The write-ahead log may still have room while the disk has none.
        self.inner
            .writer
            .trouble()
            .or_else(|| full.then(|| StoreError::DiskFull { path: self.inner.writer.path.clone() }))
    }

    /// Returns true if the disk has no room for the test write.
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

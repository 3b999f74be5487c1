//! The location of the database: detects that the path no longer leads to the open files.
//!
//! A deleted or replaced file stays open, and all data written to it is lost with the process. The writer
//! checks before each commit, and the host checks once per second. Files are compared by inode number without
//! opening them, because closing a second descriptor would release the locks of SQLite.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::StoreError;
use super::{Result, Store};

/// Device and inode number of a file.
type Number = (u64, u64);

/// The files of the database at the time of opening.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: Option<Number>,
    /// Write-ahead log; `None` until it exists.
    log: Mutex<Option<Number>>,
}

impl Place {
    /// Records the files of an open database.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), file: number(path), log: Mutex::default() }
    }

    /// Checks that the files are in their place.
    pub(super) fn check(&self) -> Result<()> {
        let mut log_path = self.path.as_os_str().to_owned();
        log_path.push("-wal");
        let log_path = PathBuf::from(log_path);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, known) in [(&self.path, &mut self.file.clone()), (&log_path, &mut *log)] {
            let found = number(path);
            match known {
                Some(_) if found == *known => {}
                Some(_) => return Err(StoreError::Gone { path: path.clone() }),
                None => *known = found,
            }
        }
        Ok(())
    }
}

fn number(path: &Path) -> Option<Number> {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

impl Store {
    /// Checks that the files of the database are in their place, and records an error if not. Once they are
    /// back, a write clears the error.
    pub async fn look_after(&self) {
        let before = self.inner.writer.trouble();
        match self.inner.writer.check_place() {
            Ok(()) if matches!(before, Some(StoreError::Gone { .. })) => drop(self.trouble().await),
            Ok(()) => {}
            Err(error) if before.as_ref() != Some(&error) => {
                tracing::error!(%error, "store: the database is unavailable, so no messages are accepted");
                self.inner.writer.failed(&error);
            }
            Err(_) => {}
        }
    }
}

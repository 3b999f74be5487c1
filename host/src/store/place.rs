//! The place of the database: whether its path still leads to the files that are open.
//!
//! A file that is deleted or replaced stays open, and what is written into it is lost with the process. The writer looks
//! before each commit, and the host once a second. Files are compared by number, without opening them: to close a second
//! descriptor would drop the locks of SQLite.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::StoreError;
use super::{Result, Store};

/// The device and the number of a file.
type Number = (u64, u64);

/// The files of the database as they were opened.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: Option<Number>,
    /// The write-ahead log; `None` until one is seen.
    log: Mutex<Option<Number>>,
}

impl Place {
    /// Remembers the files of an open database.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), file: number(path), log: Mutex::default() }
    }

    /// Checks that the files are where they were.
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
    /// Checks that the files of the database are where they were, and remembers the trouble if not. When they are back,
    /// something is written, which ends the trouble.
    pub async fn look_after(&self) {
        let before = self.inner.writer.trouble();
        match self.inner.writer.check_place() {
            Ok(()) if matches!(before, Some(StoreError::Gone { .. })) => drop(self.trouble().await),
            Ok(()) => {}
            Err(error) if before.as_ref() != Some(&error) => {
                tracing::error!(%error, "store: nothing is stored, and no message is taken");
                self.inner.writer.failed(&error);
            }
            Err(_) => {}
        }
    }
}

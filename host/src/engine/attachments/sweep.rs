//! Removal of files whose last unsettled row was settled long ago.
//!
//! The modification time of a file is its clock. As long as an unsettled event or part names the file, each sweep
//! renews that time; after that the file ages.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Media;
use super::text::EXTRACTED;
use hermes_store::{Store, StoreError};

/// Files of one folder that one sweep checks.
const FILES_MAX: usize = 10_000;

/// The divisor of the retention that gives the age from which a file is checked.
const SHARE: u32 = 16;

impl Media {
    /// Removes files that nothing unsettled has named for `retention`; returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot list the named files; nothing is removed then.
    pub async fn sweep(&self, store: &Store, now_ms: i64, retention: Duration) -> Result<usize, StoreError> {
        self.forget(now_ms).await;
        let root = self.folder.clone();
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
        let aged = blocking(move || aged(&root, now, retention / SHARE)).await;
        if aged.is_empty() {
            return Ok(0);
        }
        let named = store.media_in_use().await?;
        Ok(blocking(move || settle(aged, &named, now, retention)).await)
    }
}

async fn blocking<T: Send + Default + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

/// Returns the files older than `age`, with their age.
fn aged(root: &Path, now: SystemTime, age: Duration) -> Vec<(PathBuf, Duration)> {
    let mut files = Vec::new();
    for instance in fs::read_dir(root).into_iter().flatten().flatten() {
        for side in ["in", "out"] {
            let entries = fs::read_dir(instance.path().join(side)).into_iter().flatten().flatten();
            for entry in entries.take(FILES_MAX) {
                let Ok(meta) = entry.metadata() else { continue };
                let old = meta.modified().ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
                if !meta.is_dir() && old > age {
                    files.push((entry.path(), old));
                }
            }
        }
    }
    files
}

fn settle(aged: Vec<(PathBuf, Duration)>, named: &BTreeSet<String>, now: SystemTime, retention: Duration) -> usize {
    let mut removed = 0;
    for (path, old) in aged {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // An extracted text stays as long as its file.
        let id = name.strip_suffix(EXTRACTED).unwrap_or(&name);
        let done = if named.contains(id) {
            File::options().append(true).open(&path).and_then(|file| file.set_modified(now))
        } else if old > retention {
            removed += 1;
            fs::remove_file(&path)
        } else {
            Ok(())
        };
        if let Err(error) = done {
            tracing::warn!(path = %path.display(), %error, "media file could not be cleaned up");
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_go_unless_something_unsettled_names_them() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("chat/out");
        fs::create_dir_all(&folder).unwrap();
        let day = Duration::from_secs(86_400);
        let now = UNIX_EPOCH + 20_000 * day;
        let files = [
            ("named", day * 3),
            ("named.txt", day * 3),
            ("old", day * 2),
            ("old.txt", day * 2),
            ("young", day / 2),
            ("new", Duration::ZERO),
        ];
        for (name, age) in files {
            fs::write(folder.join(name), b"x").unwrap();
            File::options().append(true).open(folder.join(name)).unwrap().set_modified(now - age).unwrap();
        }
        let found = aged(root.path(), now, day / SHARE);
        assert_eq!(found.len(), 5, "what is new is not even asked about");
        assert_eq!(settle(found, &BTreeSet::from(["named".to_owned()]), now, day), 2);
        let there = |name: &str| folder.join(name).exists();
        assert_eq!((there("named"), there("old"), there("young"), there("new")), (true, false, true, true));
        assert_eq!((there("named.txt"), there("old.txt")), (true, false));
        let again = aged(root.path(), now, day / SHARE);
        assert_eq!(again.len(), 1, "what is named is young again: {again:?}");
    }
}

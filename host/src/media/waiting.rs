//! Files that came in and whose sender nobody has judged yet.
//!
//! An adapter writes a file before its event is admitted, so a stranger can make it
//! write. What an instance may hold of such files is bounded in number and bytes; a
//! file beyond that is refused, and its event says that it is missing. With an event
//! that leads to nothing its files go at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Files of one instance whose sender is not judged.
pub const WAITING_FILES_MAX: usize = 256;

/// Their bytes, as far as they are known.
pub const WAITING_BYTES_MAX: u64 = 512 << 20;

/// A file that no event has named for so long is forgotten here: its adapter has lost it, and it is swept away.
const FORGOTTEN_MS: i64 = 60 * 60 * 1000;

/// The same for one that is still not written: it did not arrive.
const UNWRITTEN_MS: i64 = 10 * 60 * 1000;

/// The files of all instances that wait for a judgement.
#[derive(Debug, Default)]
pub struct Waiting {
    files: Mutex<BTreeMap<String, VecDeque<File>>>,
}

#[derive(Debug)]
struct File {
    id: String,
    bytes: u64,
    since_ms: i64,
    is_written: bool,
    /// Whether an event that is kept names it.
    is_named: bool,
}

impl File {
    fn kept_ms(&self) -> i64 {
        if self.is_written { FORGOTTEN_MS } else { UNWRITTEN_MS }
    }
}

impl Waiting {
    /// Takes a file of so many bytes in; `false`: there is no room for it.
    pub fn begins(&self, instance: &str, id: &str, bytes: u64, now_ms: i64) -> bool {
        self.locked(|all| {
            let files = all.entry(instance.to_owned()).or_default();
            files.retain(|file| now_ms.saturating_sub(file.since_ms) <= file.kept_ms());
            let held: u64 = files.iter().map(|file| file.bytes).sum();
            let fits = files.len() < WAITING_FILES_MAX && held.saturating_add(bytes) <= WAITING_BYTES_MAX;
            // One alone is bounded by what a file may have, which the operator may set higher.
            let has_room = files.is_empty() || fits;
            if has_room {
                files.push_back(File {
                    id: id.to_owned(),
                    bytes,
                    since_ms: now_ms,
                    is_written: false,
                    is_named: false,
                });
            }
            has_room
        })
    }

    /// Notes that a file is written, and how large it is.
    pub fn measured(&self, instance: &str, id: &str, bytes: u64) {
        self.locked(|all| {
            let file = all.get_mut(instance).and_then(|files| files.iter_mut().find(|file| file.id == id));
            if let Some(file) = file {
                (file.bytes, file.is_written) = (bytes, true);
            }
        });
    }

    /// An event that is kept names a file.
    pub fn is_named(&self, instance: &str, id: &str) {
        self.locked(|all| {
            let file = all.get_mut(instance).and_then(|files| files.iter_mut().find(|file| file.id == id));
            if let Some(file) = file {
                file.is_named = true;
            }
        });
    }

    /// A file that no kept event names waits no more; `false`: there is none.
    pub fn ends_unnamed(&self, instance: &str, id: &str) -> bool {
        let is_unnamed = |files: &VecDeque<File>| files.iter().any(|file| file.id == id && !file.is_named);
        self.locked(|all| all.get(instance).is_some_and(is_unnamed)) && self.ends(instance, id)
    }

    /// A file waits no more; `false`: it did not wait.
    pub fn ends(&self, instance: &str, id: &str) -> bool {
        self.locked(|all| {
            let Some(files) = all.get_mut(instance) else { return false };
            let before = files.len();
            files.retain(|file| file.id != id);
            files.len() < before
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<String, VecDeque<File>>) -> T) -> T {
        work(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_judgement_is_bounded_in_number_and_in_bytes() {
        let waiting = Waiting::default();
        assert!(waiting.begins("a", "large", WAITING_BYTES_MAX, 0));
        assert!(!waiting.begins("a", "one more", 1, 0));
        assert!(waiting.begins("b", "of another", 1, 0));
        assert!(waiting.begins("c", "as large as the operator wants", WAITING_BYTES_MAX + 1, 0));
        assert!(!waiting.begins("c", "beside it", 1, 0));
        assert!(waiting.ends("a", "large") && !waiting.ends("a", "large"));
        for n in 0..WAITING_FILES_MAX {
            assert!(waiting.begins("a", &n.to_string(), 0, 0));
        }
        assert!(!waiting.begins("a", "one more", 0, 0));
        waiting.measured("a", "0", WAITING_BYTES_MAX);
        assert!(waiting.ends("a", "1"));
        assert!(!waiting.begins("a", "one more", 1, 0), "what was written counts, not what was said");
        assert!(!waiting.begins("a", "later", 1, UNWRITTEN_MS + 1), "what is written stays");
        assert!(waiting.begins("a", "later", 0, UNWRITTEN_MS + 1), "what never arrived is forgotten");
        assert!(waiting.begins("a", "later", 1, FORGOTTEN_MS + 1), "and so is what its adapter has lost");
    }
}

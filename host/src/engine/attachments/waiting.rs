//! Received files whose sender was not checked yet.
//!
//! An adapter writes a file before its event is admitted, so an unknown sender can make it write. Such files of one
//! instance are bounded in number and bytes. If there is no room, old files that no event names are removed first, such
//! as an upload that was never sent. A further file is refused, and its event reports that it is missing. The files of
//! a dropped event are removed at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Files of one instance whose sender was not checked.
pub const WAITING_FILES_MAX: usize = 256;

/// Their total size in bytes, as far as it is known.
pub const WAITING_BYTES_MAX: u64 = 512 << 20;

/// Time after which a written file that no event has named is forgotten, in milliseconds: its adapter has lost it, and
/// the sweep removes it.
const FORGOTTEN_MS: i64 = 60 * 60 * 1000;

/// The same time for a file that is not written yet, in milliseconds; it did not arrive.
const UNWRITTEN_MS: i64 = 10 * 60 * 1000;

/// The lowest rate of a transfer, in bytes per millisecond: a large file gets more time.
const BYTES_PER_MS_MIN: u64 = 1 << 10;

/// Time after which a written file that no event names gives its room to another one, in milliseconds.
const YIELDS_MS: i64 = 5 * 60 * 1000;

/// The files of all instances whose senders were not checked.
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
    /// True if a stored event names the file.
    is_named: bool,
}

impl File {
    fn kept_ms(&self) -> i64 {
        if self.is_written {
            return FORGOTTEN_MS;
        }
        UNWRITTEN_MS.saturating_add(i64::try_from(self.bytes / BYTES_PER_MS_MIN).unwrap_or(i64::MAX))
    }

    fn is_over(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.since_ms) > self.kept_ms()
    }

    fn yields(&self, now_ms: i64) -> bool {
        self.is_written && !self.is_named && now_ms.saturating_sub(self.since_ms) > YIELDS_MS
    }
}

/// The result of the request for a new file.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun {
    /// True if there is room for the file.
    pub has_room: bool,
    /// Removed files that no stored event names.
    pub gone: Vec<String>,
}

impl Waiting {
    /// Adds a file of this size if there is room for it.
    pub fn begins(&self, instance: &str, id: &str, bytes: u64, now_ms: i64) -> Begun {
        self.locked(|all| {
            let files = all.entry(instance.to_owned()).or_default();
            let mut gone = forget(files, now_ms);
            while !fits(files, bytes) {
                let Some(oldest) = files.iter().position(|file| file.yields(now_ms)) else { break };
                gone.extend(files.remove(oldest).map(|file| file.id));
            }
            let has_room = fits(files, bytes);
            if has_room {
                let (is_written, is_named) = (false, false);
                files.push_back(File { id: id.to_owned(), bytes, since_ms: now_ms, is_written, is_named });
            }
            Begun { has_room, gone }
        })
    }

    /// Forgets files that waited too long; returns those that no stored event names, each with its instance.
    pub fn forget(&self, now_ms: i64) -> Vec<(String, String)> {
        let gone = |(instance, files): (&String, &mut VecDeque<File>)| {
            let gone = forget(files, now_ms).into_iter();
            gone.map(|id| (instance.clone(), id)).collect::<Vec<_>>()
        };
        self.locked(|all| all.iter_mut().flat_map(gone).collect())
    }

    /// Notes the size of a file that was written.
    pub fn measured(&self, instance: &str, id: &str, bytes: u64) {
        self.locked(|all| {
            let file = all.get_mut(instance).and_then(|files| files.iter_mut().find(|file| file.id == id));
            if let Some(file) = file {
                (file.bytes, file.is_written) = (bytes, true);
            }
        });
    }

    /// Notes that a stored event names a file.
    pub fn is_named(&self, instance: &str, id: &str) {
        self.locked(|all| {
            let file = all.get_mut(instance).and_then(|files| files.iter_mut().find(|file| file.id == id));
            if let Some(file) = file {
                file.is_named = true;
            }
        });
    }

    /// Removes a file that no stored event names; `false`: there is none.
    pub fn ends_unnamed(&self, instance: &str, id: &str) -> bool {
        let is_unnamed = |files: &VecDeque<File>| files.iter().any(|file| file.id == id && !file.is_named);
        self.locked(|all| all.get(instance).is_some_and(is_unnamed)) && self.ends(instance, id)
    }

    /// Removes a file; `false`: it was not here.
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

/// Removes files that waited too long; returns those that no stored event names.
fn forget(files: &mut VecDeque<File>, now_ms: i64) -> Vec<String> {
    let mut gone = Vec::new();
    files.retain(|file| {
        let is_over = file.is_over(now_ms);
        gone.extend((is_over && !file.is_named).then(|| file.id.clone()));
        !is_over
    });
    gone
}

/// Returns whether there is room for this number of bytes. A single file is bounded only by the limit of a file, which
/// the operator may set higher.
fn fits(files: &VecDeque<File>, bytes: u64) -> bool {
    let held: u64 = files.iter().map(|file| file.bytes).sum();
    files.is_empty() || files.len() < WAITING_FILES_MAX && held.saturating_add(bytes) <= WAITING_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(waiting: &Waiting, instance: &str, id: &str, bytes: u64, now_ms: i64) -> bool {
        waiting.begins(instance, id, bytes, now_ms).has_room
    }

    #[test]
    fn what_waits_for_a_judgement_is_bounded_in_number_and_in_bytes() {
        let waiting = Waiting::default();
        assert!(begins(&waiting, "a", "large", WAITING_BYTES_MAX, 0));
        assert!(!begins(&waiting, "a", "one more", 1, 0));
        assert!(begins(&waiting, "b", "of another", 1, 0));
        assert!(begins(&waiting, "c", "as large as the operator wants", WAITING_BYTES_MAX + 1, 0));
        assert!(!begins(&waiting, "c", "beside it", 1, 0));
        assert!(waiting.ends("a", "large") && !waiting.ends("a", "large"));
        for n in 0..WAITING_FILES_MAX {
            assert!(begins(&waiting, "a", &n.to_string(), 0, 0));
        }
        assert!(!begins(&waiting, "a", "one more", 0, 0));
        waiting.measured("a", "0", WAITING_BYTES_MAX);
        waiting.is_named("a", "0");
        assert!(waiting.ends("a", "1"));
        assert!(!begins(&waiting, "a", "one more", 1, 0), "what was written counts, not what was said");
        assert!(!begins(&waiting, "a", "later", 1, UNWRITTEN_MS + 1), "what is written and named stays");
        assert!(begins(&waiting, "a", "later", 0, UNWRITTEN_MS + 1), "what never arrived is forgotten");
        assert!(begins(&waiting, "a", "later", 1, FORGOTTEN_MS + 1), "and so is what its adapter has lost");
    }

    #[test]
    fn what_never_arrived_and_what_no_event_named_in_its_time_are_told_once_to_be_removed() {
        let waiting = Waiting::default();
        for (id, at_ms) in [("unwritten", 0), ("unsent", 1), ("named", 2)] {
            assert!(begins(&waiting, "a", id, 1, at_ms));
        }
        waiting.measured("a", "unsent", 1);
        waiting.measured("a", "named", 1);
        waiting.is_named("a", "named");
        let gone = |now_ms: i64| waiting.begins("a", &now_ms.to_string(), 1, now_ms).gone;
        assert_eq!(gone(UNWRITTEN_MS), Vec::<String>::new());
        assert_eq!(gone(UNWRITTEN_MS + 1), ["unwritten"]);
        let swept = waiting.forget(FORGOTTEN_MS + 3);
        assert!(swept.contains(&("a".to_owned(), "unsent".to_owned())), "{swept:?}");
        assert!(swept.iter().all(|(_, id)| id != "named"), "an event that is kept has it: {swept:?}");
        assert!(!waiting.ends("a", "named"), "but it holds no room any more");
        assert_eq!(waiting.forget(FORGOTTEN_MS + 3), []);
        assert!(begins(&waiting, "b", "large", 2 << 30, 0));
        assert_eq!(waiting.forget(3 * UNWRITTEN_MS), [], "a large one has the time that it needs");
        assert_eq!(waiting.forget(5 * UNWRITTEN_MS), [("b".to_owned(), "large".to_owned())]);
    }

    #[test]
    fn where_there_is_no_room_the_oldest_uploads_that_nobody_sent_go_first() {
        let waiting = Waiting::default();
        let half = WAITING_BYTES_MAX / 2;
        for (id, at_ms) in [("old", 0), ("older than it looks", 1)] {
            assert!(begins(&waiting, "a", id, half, at_ms));
            waiting.measured("a", id, half);
        }
        assert!(!begins(&waiting, "a", "at once", 1, YIELDS_MS), "an event may still name them");
        let begun = waiting.begins("a", "later", half, YIELDS_MS + 1);
        assert_eq!(begun, Begun { has_room: true, gone: vec!["old".to_owned()] }, "no more than has to");
        waiting.is_named("a", "older than it looks");
        let begun = waiting.begins("a", "much later", half, 2 * YIELDS_MS);
        assert_eq!(begun, Begun { has_room: false, gone: Vec::new() }, "what an event names stays");
    }
}

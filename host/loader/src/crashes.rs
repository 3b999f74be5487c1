//! Crashes of the host that a library inside it caused, found at the next start.
//!
//! While a library runs inside the host, a file in `run/inside` names its instance, its hash and its phase. A crashing
//! process writes the signal and the name of the thread to `run/last-words` ([`crate::ffi`]); the threads of an
//! instance carry its name. The next start reads both. A library that crashed the host runs in a process of its own
//! until its bytes change. Records are stored in `run/crashed`, named by the hash of the bytes.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::files;
use crate::ffi::{self, LAST_WORDS_EXIT};

/// Ends of the host during load or connect after which the library is blamed. A single one may have been a kill.
const DEATHS: u32 = 2;
/// Bytes of a thread's name that the kernel keeps.
const THREAD_NAME_BYTES: usize = 15;
/// The largest of these files that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The progress of an instance inside the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// Its library is loading or its instance is being created.
    Loading,
    /// Its first connect has not answered yet.
    Connecting,
    /// Its first connect has answered.
    Running,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    instance: String,
    sha256: String,
    phase: Phase,
}

/// The record of a library that may have crashed the host.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    deaths: u32,
    why: String,
}

/// The crash records below one home.
pub(super) struct Crashes {
    run: PathBuf,
    next: AtomicU64,
}

impl Crashes {
    /// Evaluates the end of the previous run and removes its traces.
    pub(super) fn judge(home: &Path) -> Self {
        let crashes = Self::of(home);
        let words = fs::read_to_string(crashes.last_words()).unwrap_or_default();
        let words: Vec<(&str, &str)> = words.lines().filter_map(|line| line.split_once(' ')).collect();
        let left: Vec<Entry> = crashes.left().iter().filter_map(|path| read(path)).collect();
        let is_known = |(_, thread): &(&str, &str)| left.iter().any(|entry| is_thread_of(thread, &entry.instance));
        let is_attributed = words.iter().any(is_known);
        for entry in &left {
            crashes.judge_one(entry, &words, is_attributed);
        }
        if let Some((word, thread)) = words.iter().find(|word| word.0 != LAST_WORDS_EXIT && !is_known(word)) {
            let inside: Vec<&str> = left.iter().map(|entry| entry.instance.as_str()).collect();
            tracing::warn!(
                target: "plugins", inside = %inside.join(", "),
                "the previous run of the host was ended by {} in the thread `{thread}`, which belongs to no adapter",
                in_words(word)
            );
        }
        crashes.forget();
        crashes
    }

    /// Opens the records of a home without evaluating them.
    pub(super) fn of(home: &Path) -> Self {
        Self { run: home.join("run"), next: AtomicU64::new(0) }
    }

    /// `is_attributed`: the last words name an instance, so the other instances are not blamed.
    fn judge_one(&self, entry: &Entry, words: &[(&str, &str)], is_attributed: bool) {
        let said = words.iter().find(|(_, thread)| is_thread_of(thread, &entry.instance));
        let (why, deaths) = match (said, entry.phase) {
            (Some((word, _)), _) => (in_words(word), DEATHS),
            (None, Phase::Loading) if !is_attributed => ("while the library was loaded".to_owned(), 1),
            (None, Phase::Connecting) if !is_attributed => ("while the instance connected".to_owned(), 1),
            (None, _) => return,
        };
        let before = read::<Record>(&self.record(&entry.sha256)).map_or(0, |record| record.deaths);
        let record = Record { deaths: before.saturating_add(deaths), why };
        if record.deaths >= DEATHS {
            tracing::error!(
                target: "plugins", instance = %entry.instance,
                "the library of this instance ended the previous run of the host ({}); report this to its \
                 author", record.why
            );
        }
        if let Err(error) =
            files::private_folder(&self.run.join("crashed")).and_then(|()| write(&self.record(&entry.sha256), &record))
        {
            tracing::error!(target: "plugins", instance = %entry.instance, "the crash of the library cannot be \
                                                                            recorded: {error}");
        }
    }

    /// Returns why a library does not run inside the host, if it ended the host before.
    pub(super) fn why_not_inside(&self, sha256: &str) -> Option<String> {
        let record = read::<Record>(&self.record(sha256)).filter(|record| record.deaths >= DEATHS)?;
        Some(format!(
            "the library ended the host in an earlier run ({}), so it runs in a process until the file changes; \
             report this to its author",
            record.why
        ))
    }

    /// Records that a library runs inside the host from now on.
    pub(super) fn enter(self: &Arc<Self>, instance: &str, sha256: &str) -> Inside {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.run.join("inside").join(format!("{instance}.{number}"));
        let entry = Entry { instance: instance.to_owned(), sha256: sha256.to_owned(), phase: Phase::Loading };
        let inside = Inside { crashes: Arc::clone(self), path, entry };
        inside.write();
        inside
    }

    /// Opens the file for the last words of this process and registers it with the crash handlers.
    pub(super) fn keep_last_words(&self) {
        let open = || -> std::io::Result<File> {
            files::private_folder(&self.run)?;
            OpenOptions::new().append(true).create(true).mode(0o600).open(self.last_words())
        };
        match open() {
            Ok(file) => ffi::keep_last_words(file),
            Err(error) => {
                tracing::warn!(target: "plugins", "crashes inside the host cannot be attributed to an adapter: {error}")
            }
        }
    }

    /// Removes the traces of a run that ended in order or was evaluated.
    pub(super) fn forget(&self) {
        for path in self.left() {
            // A file that cannot be removed is evaluated at the next start.
            let _ = fs::remove_file(path);
        }
        // The file is truncated, not removed, because this process may have it open.
        let _ = OpenOptions::new().write(true).truncate(true).open(self.last_words());
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.run.join("inside")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    fn last_words(&self) -> PathBuf {
        self.run.join("last-words")
    }

    fn record(&self, sha256: &str) -> PathBuf {
        self.run.join("crashed").join(format!("{sha256}.json"))
    }
}

/// The note that a library runs inside the host. Dropping it removes the note.
pub(super) struct Inside {
    crashes: Arc<Crashes>,
    path: PathBuf,
    entry: Entry,
}

impl Inside {
    /// Records the progress of the instance.
    pub(super) fn reached(&mut self, phase: Phase) {
        if self.entry.phase == phase {
            return;
        }
        self.entry.phase = phase;
        self.write();
        let record = self.crashes.record(&self.entry.sha256);
        if phase == Phase::Running && read::<Record>(&record).is_some_and(|record| record.deaths < DEATHS) {
            // A record that stays only makes the next crash count more.
            let _ = fs::remove_file(record);
        }
    }

    fn write(&self) {
        let folder = self.path.parent().unwrap_or(&self.path);
        if let Err(error) = files::private_folder(folder).and_then(|()| write(&self.path, &self.entry)) {
            tracing::debug!(target: "plugins", instance = %self.entry.instance, "the run inside the host cannot be \
                                                                                 recorded: {error}");
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A file that stays is evaluated at the next start as if the library had run.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns `true` if the kernel's name of a thread is the name of an instance's threads.
fn is_thread_of(thread: &str, instance: &str) -> bool {
    let name = instance.as_bytes();
    thread.as_bytes() == &name[..name.len().min(THREAD_NAME_BYTES)]
}

fn in_words(word: &str) -> String {
    match word {
        LAST_WORDS_EXIT => "an exit of the process".to_owned(),
        signal => format!("signal {signal}"),
    }
}

/// Replaces a file atomically: after a crash either the old or the new content is there.
fn write(path: &Path, what: &impl Serialize) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, serde_json::to_vec(what).expect("these have string keys only"))?;
    fs::rename(&temporary, path)
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let small = fs::metadata(path).ok().filter(|meta| meta.len() <= FILE_BYTES_MAX)?;
    if !small.is_file() {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a run in which `one` reached `phase` and left these last words; returns the verdict of the next start.
    fn judged(home: &Path, phase: Phase, words: &str) -> Option<String> {
        let crashes = Arc::new(Crashes::of(home));
        let mut inside = crashes.enter("a-rather-long-name", "abc");
        inside.reached(phase);
        fs::write(crashes.last_words(), words).unwrap();
        // A crash runs no destructor.
        std::mem::forget(inside);
        let next = Crashes::judge(home);
        assert!(next.left().is_empty(), "it is judged once");
        next.why_not_inside("abc")
    }

    #[test]
    fn the_thread_of_an_instance_says_whose_library_ended_the_host() {
        for phase in [Phase::Loading, Phase::Connecting, Phase::Running] {
            let home = tempfile::tempdir().unwrap();
            let why = judged(home.path(), phase, "11 a-rather-long-n\n").unwrap();
            assert!(why.contains("(signal 11)"), "{phase:?}: {why}");
        }
        let home = tempfile::tempdir().unwrap();
        let why = judged(home.path(), Phase::Running, "exit a-rather-long-n\n").unwrap();
        assert!(why.contains("an exit of the process"), "{why}");
    }

    #[test]
    fn a_host_that_was_killed_while_it_ran_blames_no_library() {
        let home = tempfile::tempdir().unwrap();
        for words in ["", "6 another\n", "exit hermes-host\n", "no words\n\n"] {
            assert_eq!(judged(home.path(), Phase::Running, words), None, "{words}");
        }
    }

    #[test]
    fn the_second_death_while_a_library_was_loaded_or_connected_counts() {
        for (phase, words) in
            [(Phase::Loading, "while the library was loaded"), (Phase::Connecting, "while the instance connected")]
        {
            let home = tempfile::tempdir().unwrap();
            assert_eq!(judged(home.path(), phase, ""), None);
            assert!(judged(home.path(), phase, "").unwrap().contains(words));
        }
        let home = tempfile::tempdir().unwrap();
        assert_eq!(judged(home.path(), Phase::Connecting, ""), None);
        assert_eq!(
            judged(home.path(), Phase::Running, ""),
            None,
            "it came further, so the first death was not its own"
        );
        assert_eq!(judged(home.path(), Phase::Connecting, ""), None);
    }

    #[test]
    fn one_library_is_blamed_where_the_words_name_it() {
        let home = tempfile::tempdir().unwrap();
        let crashes = Arc::new(Crashes::of(home.path()));
        std::mem::forget((crashes.enter("one", "abc"), crashes.enter("other", "def")));
        fs::write(crashes.last_words(), "6 one\n").unwrap();
        assert!(Crashes::judge(home.path()).why_not_inside("abc").is_some());
        assert!(read::<Record>(&crashes.record("def")).is_none());
    }

    #[test]
    fn what_ends_in_order_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let crashes = Arc::new(Crashes::of(home.path()));
        drop(crashes.enter("one", "abc"));
        assert!(crashes.left().is_empty());
        assert_eq!(Crashes::judge(home.path()).why_not_inside("abc"), None);
    }
}

//! Crashes of the host that a library inside it caused, found at the next start.
//!
//! While a library runs inside the host, a file in `run/inside` names its instance, its bytes and how far it came. A
//! process that crashes writes the signal and the name of the thread to `run/last-words` ([`crate::ffi`]); the threads of
//! an instance have its name. The next start reads both. A library that ended the host runs in a process of its own
//! until its bytes change. Records lie in `run/crashed`, by the hash of the bytes.

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

/// Deaths of the host while a library was loaded or connected that count as its doing. One may be a kill.
const DEATHS: u32 = 2;
/// Bytes of a thread's name that the kernel keeps.
const THREAD_NAME_BYTES: usize = 15;
/// The largest file of these that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// How far an instance inside the host has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// Its library is loaded and its instance is made.
    Loading,
    /// Its first connect has not answered.
    Connecting,
    /// It has answered.
    Running,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    instance: String,
    sha256: String,
    phase: Phase,
}

/// What is known of a library that may have ended the host.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    deaths: u32,
    why: String,
}

/// The memory of crashes below one home.
pub(super) struct Crashes {
    run: PathBuf,
    next: AtomicU64,
}

impl Crashes {
    /// Judges the end of the previous run of the host and forgets its traces.
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
                "the previous run of the host ended by {} in the thread `{thread}`, which belongs to no adapter",
                in_words(word)
            );
        }
        crashes.forget();
        crashes
    }

    /// The memory of a home, for who starts no host.
    pub(super) fn of(home: &Path) -> Self {
        Self { run: home.join("run"), next: AtomicU64::new(0) }
    }

    /// `is_attributed`: the words name an instance, so that the others are not to blame.
    fn judge_one(&self, entry: &Entry, words: &[(&str, &str)], is_attributed: bool) {
        let said = words.iter().find(|(_, thread)| is_thread_of(thread, &entry.instance));
        let (why, deaths) = match (said, entry.phase) {
            (Some((word, _)), _) => (in_words(word), DEATHS),
            (None, Phase::Loading) if !is_attributed => ("while it was loaded".to_owned(), 1),
            (None, Phase::Connecting) if !is_attributed => ("while it connected".to_owned(), 1),
            (None, _) => return,
        };
        let before = read::<Record>(&self.record(&entry.sha256)).map_or(0, |record| record.deaths);
        let record = Record { deaths: before.saturating_add(deaths), why };
        if record.deaths >= DEATHS {
            tracing::error!(
                target: "plugins", instance = %entry.instance,
                "its library ended the previous run of the host ({}); report it to its author", record.why
            );
        }
        if let Err(error) =
            files::private_folder(&self.run.join("crashed")).and_then(|()| write(&self.record(&entry.sha256), &record))
        {
            tracing::error!(target: "plugins", instance = %entry.instance, "the crash of its library cannot be noted: {error}");
        }
    }

    /// Returns why a library does not run inside the host, if it ended the host before.
    pub(super) fn why_not_inside(&self, sha256: &str) -> Option<String> {
        let record = read::<Record>(&self.record(sha256)).filter(|record| record.deaths >= DEATHS)?;
        Some(format!(
            "its library ended the host in an earlier run ({}), so it runs in a process of its own until the file changes; \
             report it to its author",
            record.why
        ))
    }

    /// Notes that a library runs inside the host from now on.
    pub(super) fn enter(self: &Arc<Self>, instance: &str, sha256: &str) -> Inside {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.run.join("inside").join(format!("{instance}.{number}"));
        let entry = Entry { instance: instance.to_owned(), sha256: sha256.to_owned(), phase: Phase::Loading };
        let inside = Inside { crashes: Arc::clone(self), path, entry };
        inside.write();
        inside
    }

    /// Opens the file for the last words of this process and has them written to it.
    pub(super) fn keep_last_words(&self) {
        let open = || -> std::io::Result<File> {
            files::private_folder(&self.run)?;
            OpenOptions::new().append(true).create(true).mode(0o600).open(self.last_words())
        };
        match open() {
            Ok(file) => ffi::keep_last_words(file),
            Err(error) => tracing::warn!(target: "plugins", "a crash inside the host could not be attributed: {error}"),
        }
    }

    /// Forgets what a run of the host has left behind: it ended in order, or was judged.
    pub(super) fn forget(&self) {
        for path in self.left() {
            // One that stays is judged at the next start.
            let _ = fs::remove_file(path);
        }
        // Truncated, since this process may have it open.
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

/// A library inside the host. Forgotten when it is dropped.
pub(super) struct Inside {
    crashes: Arc<Crashes>,
    path: PathBuf,
    entry: Entry,
}

impl Inside {
    /// Notes how far the instance has come.
    pub(super) fn reached(&mut self, phase: Phase) {
        if self.entry.phase == phase {
            return;
        }
        self.entry.phase = phase;
        self.write();
        let record = self.crashes.record(&self.entry.sha256);
        if phase == Phase::Running && read::<Record>(&record).is_some_and(|record| record.deaths < DEATHS) {
            // One that stays only makes the next death count more.
            let _ = fs::remove_file(record);
        }
    }

    fn write(&self) {
        let folder = self.path.parent().unwrap_or(&self.path);
        if let Err(error) = files::private_folder(folder).and_then(|()| write(&self.path, &self.entry)) {
            tracing::debug!(target: "plugins", instance = %self.entry.instance, "it runs inside the host without a note: {error}");
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // One that stays is judged at the next start like one that ran.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the kernel's name of a thread is that of an instance's threads.
fn is_thread_of(thread: &str, instance: &str) -> bool {
    let name = instance.as_bytes();
    thread.as_bytes() == &name[..name.len().min(THREAD_NAME_BYTES)]
}

fn in_words(word: &str) -> String {
    match word {
        LAST_WORDS_EXIT => "it exited the process".to_owned(),
        signal => format!("signal {signal}"),
    }
}

/// Replaces a file in one step: a crash leaves the old or the new one.
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

    /// A run of the host in which `one` came so far, and that left these words; what the next start says of it.
    fn judged(home: &Path, phase: Phase, words: &str) -> Option<String> {
        let crashes = Arc::new(Crashes::of(home));
        let mut inside = crashes.enter("a-rather-long-name", "abc");
        inside.reached(phase);
        fs::write(crashes.last_words(), words).unwrap();
        // The process ended: nothing is dropped in order.
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
        assert!(why.contains("it exited the process"), "{why}");
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
        for (phase, words) in [(Phase::Loading, "while it was loaded"), (Phase::Connecting, "while it connected")] {
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

//! The footprint of loading a library: the traces of its constructors in the process.
//!
//! The child that opens a library first measures it. A constructor that starts threads or processes, closes descriptors
//! or changes signal handlers would do the same to the host, so such a library is refused. A library can behave in this
//! child and misbehave in the host: a library inside the host is trusted like the host.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File},
    path::PathBuf,
};

use rustix::process::{WaitId, WaitIdOptions};

/// Descriptors that are open for constructors in addition to those of the child.
const DESCRIPTORS: usize = 16;
/// Lines of `/proc/thread-self/status` that loading a library does not change, with the change in words.
const LINES: [(&str, &str); 5] = [
    ("Threads", "starts threads"),
    ("SigCgt", "handles signals of the process"),
    ("SigIgn", "ignores signals of the process"),
    ("SigBlk", "blocks signals"),
    ("Umask", "changes the umask"),
];

/// The state of this process before a library is loaded.
pub(super) struct Footprint {
    before: State,
    /// A constructor that closes foreign descriptors closes these, too.
    _open: Vec<File>,
}

#[derive(PartialEq, Eq)]
struct State {
    descriptors: BTreeSet<OsString>,
    lines: Vec<Option<String>>,
    folder: Option<PathBuf>,
    has_children: bool,
}

impl Footprint {
    /// Measures this process.
    pub(super) fn before_load() -> Self {
        let open = (0..DESCRIPTORS).map_while(|_| File::open("/dev/null").ok()).collect();
        Self { before: State::now(), _open: open }
    }

    /// Returns the changes that loading made, in words.
    pub(super) fn left(&self) -> Option<String> {
        let now = State::now();
        if now == self.before {
            return None;
        }
        let mut left: Vec<&str> = Vec::new();
        if now.descriptors != self.before.descriptors {
            left.push("opens or closes descriptors");
        }
        if now.has_children != self.before.has_children {
            left.push("starts processes");
        }
        if now.folder != self.before.folder {
            left.push("changes the working directory");
        }
        let lines = now.lines.iter().zip(&self.before.lines).zip(LINES);
        left.extend(lines.filter(|((now, before), _)| now != before).map(|(_, (_, words))| words));
        Some(format!("loading it {}", left.join(", ")))
    }
}

impl State {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let value =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::to_owned);
        let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Self {
            descriptors: descriptors.map(|entry| entry.file_name()).collect(),
            lines: LINES.iter().map(|(name, _)| value(name)).collect(),
            folder: std::env::current_dir().ok(),
            has_children: rustix::process::waitid(WaitId::All, options).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_stays_is_named() {
        // Other tests of this process open and close descriptors, too, so only the named change is compared.
        let footprint = Footprint::before_load();
        let kept = File::open("/dev/null").unwrap();
        let left = footprint.left().unwrap();
        assert!(left.starts_with("loading it opens or closes descriptors"), "{left}");
        drop(kept);
    }
}

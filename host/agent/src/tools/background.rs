//! Background processes, which outlive their turn.
//!
//! Each process has a few files in `processes/` of the home folder ([`files`]): its record, its output, its
//! exit code, and a pipe for its input. The process therefore does not depend on the host while it runs, and a
//! later run of the host adopts it again: it recognises the process by its pid and by the mark in the
//! environment of the whole group.
//!
//! * [`registry`]: all processes.
//! * [`watcher`]: follows one process and notifies its session.

mod files;
mod registry;
mod watcher;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use rustix::fs::OFlags;
use tokio::sync::watch;
use tokio::time::Instant;

use super::group::Group;
use super::output::{bounded, plain};
use super::{Ports, RESULT_BYTES_MAX};
use crate::{BackgroundProcess, OwnedProcess};
use files::{PIECE_BYTES, PIECES_KEPT, ProcessFiles};
pub use registry::{ENDED_KEPT, NewProcess, Processes, RUNNING_MAX, RUNNING_PER_SESSION_MAX};
pub use watcher::{NOTIFICATIONS_MAX, left_description};

/// Bytes read by one poll.
const POLLED_BYTES_MAX: u64 = 64 << 10;

/// Events of a process that its session is notified of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Notifies of the end of the process.
    pub notify: bool,
    /// Notifies of output that contains one of these patterns.
    pub patterns: Vec<String>,
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Exit with this code.
    Code(i32),
    /// Death by this signal.
    Signal(i32),
    /// Killed with the tool.
    Killed,
    /// The end is unknown, because there is no exit code.
    Unknown,
}

impl ProcessEnd {
    /// Returns a description of the end for the agent.
    pub fn words(self) -> String {
        match self {
            Self::Code(code) => match signal_of(code) {
                Some(signal) => format!("ended with exit code {code} ({signal})"),
                None => format!("ended with exit code {code}"),
            },
            Self::Signal(number) => format!("was terminated by {}", signal_name(number)),
            Self::Killed => "was killed on request (SIGKILL)".to_owned(),
            Self::Unknown => "has ended with an unknown exit code".to_owned(),
        }
    }

    /// Returns the exit code, if there is one.
    pub fn code(self) -> Option<i32> {
        if let Self::Code(code) = self { Some(code) } else { None }
    }
}

/// Returns the signal that a shell reports with this exit code.
fn signal_of(code: i32) -> Option<String> {
    (129..=192).contains(&code).then(|| signal_name(code - 128))
}

/// Returns the name of a signal.
pub(super) fn signal_name(number: i32) -> String {
    const NAMES: [(i32, &str); 11] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
    ];
    let name = NAMES.iter().find(|(known, _)| *known == number);
    name.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// The command runs.
    Running,
    /// The command ended with this exit code, but a process that it started still runs.
    Left(i32),
    /// The process group has ended.
    Ended(ProcessEnd),
}

/// A background process.
#[derive(Debug)]
pub struct Process {
    /// Id for the agent.
    pub id: String,
    /// Process id of the group leader.
    pub pid: u32,
    /// The command.
    pub command: String,
    started: Instant,
    /// Running time before this run of the host adopted the process.
    before: Duration,
    session: Option<SessionId>,
    key: String,
    mark: String,
    files: ProcessFiles,
    state: watch::Sender<ProcessState>,
    /// Unfinished input; `None` if unknown, because an earlier run of the host wrote it.
    pub unfinished: tokio::sync::Mutex<Option<String>>,
    polled: AtomicU64,
    killed: AtomicBool,
    /// Number of tasks that wait for the end and report it themselves.
    awaited: AtomicUsize,
}

impl Process {
    /// Returns the current state.
    pub fn state(&self) -> ProcessState {
        *self.state.borrow()
    }

    /// Returns the time since the start.
    pub fn runs_for(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// Returns the command, truncated to `bytes_max` bytes. Secrets are masked first, so that a cut cannot
    /// leave a part of one.
    pub fn shown(&self, ports: &Ports, bytes_max: usize) -> String {
        bounded(&ports.mask.mask(self.command.clone()), bytes_max)
    }

    /// Returns the output since the last call, with a note about lost output and about further output.
    pub fn printed(&self, ports: &Ports) -> String {
        let from = self.polled.load(Ordering::Relaxed);
        let printed = self.files.read(from, POLLED_BYTES_MAX);
        self.polled.store(printed.upto, Ordering::Relaxed);
        let mut shown = bounded(&plain(&printed.bytes, &*ports.mask), RESULT_BYTES_MAX / 2);
        if printed.dropped > 0 {
            let kept = PIECE_BYTES * PIECES_KEPT;
            shown = format!(
                "[… {} earlier bytes were dropped; about the last {kept} are kept …]\n{shown}",
                printed.dropped
            );
        }
        if printed.bytes.len() as u64 == POLLED_BYTES_MAX {
            shown.push_str("\n[… more output is available; poll again …]");
        }
        shown
    }

    /// Waits for the end of the command, for at most this time. The waiting task reports the end itself, so the
    /// watcher does not.
    pub async fn ended(&self, at_most: Duration) -> ProcessState {
        let _awaited = Awaited::new(&self.awaited);
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| *state != ProcessState::Running);
        // The state contains the result in both cases.
        let _ = tokio::time::timeout(at_most, ended).await;
        self.state()
    }

    /// Waits until the whole process group has ended, for at most this time.
    pub async fn gone(&self, at_most: Duration) {
        let _awaited = Awaited::new(&self.awaited);
        let mut state = self.state.subscribe();
        let gone = state.wait_for(|state| matches!(state, ProcessState::Ended(_)));
        // The state contains the result in both cases.
        let _ = tokio::time::timeout(at_most, gone).await;
    }

    /// Kills the process group, including processes that an ended command left behind.
    pub fn kill(&self) {
        if !self.is_over() {
            self.killed.store(true, Ordering::Relaxed);
        }
        Group::of_marked(self.pid, &self.mark).kill();
    }

    /// Returns the description of the running process.
    pub fn left(&self) -> BackgroundProcess {
        BackgroundProcess { id: self.id.clone(), command: self.command.clone(), runs_for: self.runs_for() }
    }

    /// Returns the description of the running process and its conversation.
    pub fn left_somewhere(&self) -> OwnedProcess {
        OwnedProcess { key: self.key.clone(), session: self.session.clone(), left: self.left() }
    }

    /// Returns true if the whole process group has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state(), ProcessState::Ended(_))
    }

    fn was_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    fn is_known_to_have_ended(&self) -> bool {
        self.was_killed() || self.awaited.load(Ordering::SeqCst) > 0
    }

    /// Writes to the input of the process.
    ///
    /// # Errors
    ///
    /// The process has ended or does not read.
    pub fn write(&self, text: &str) -> Result<(), String> {
        if self.state() != ProcessState::Running {
            return Err(format!("{} has ended", self.id));
        }
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let opened = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(&self.files.input);
        let written = opened.and_then(|mut input| input.write(text.as_bytes()));
        match written {
            Ok(count) if count == text.len() => Ok(()),
            Ok(count) => Err(format!(
                "{} accepted only {count} of {} bytes and does not read further input",
                self.id,
                text.len()
            )),
            Err(error) => Err(format!("cannot write to {} ({error})", self.id)),
        }
    }

    /// Returns true if the conversation of the context may access the process: the same session, or the chat in
    /// which it was started. Without asynchronous delivery, one key may belong to many conversations, so the
    /// key does not count.
    fn belongs_to(&self, context: &TurnContext) -> bool {
        let same_chat = context.async_delivery && !self.key.is_empty() && self.key == context.session_key;
        same_chat || (self.session.is_some() && self.session == context.session_id)
    }
}

/// A guard that counts a waiting task.
struct Awaited<'p>(&'p AtomicUsize);

impl<'p> Awaited<'p> {
    fn new(count: &'p AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

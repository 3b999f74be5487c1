//! Background processes, which outlive their turn.
//!
//! Each process has a few files in `processes/` of the home folder ([`files`]): its record, its output, its
//! exit code, and a pipe for its input. The process therefore does not depend on the host while it runs, and a
//! later run of the host adopts it again: it recognises the process by its pid and by the mark in the
//! environment of the whole group.
//!
//! [`watcher`] watches each process and notifies its session.

mod files;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use rustix::fs::OFlags;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::Instant;

use super::group::{self, Group};
use super::output::{bounded, plain};
use super::ports::Followed;
use super::terminal::Shell;
use super::{Ports, RESULT_BYTES_MAX};
use crate::{LeftRunning, LeftSomewhere};
use files::{Files, PIECE_BYTES, PIECES_KEPT, Record};
use hermes_system::children;
use watcher::{Handle, look_after};
pub use watcher::{TELLS_MAX, left_words};

/// Concurrent processes of one session.
pub const RUNNING_PER_SESSION_MAX: usize = 8;

/// Concurrent processes of all sessions.
pub const RUNNING_MAX: usize = 64;

/// Ended processes that are remembered.
const ENDED_MAX: usize = 64;

/// Minimum time for which the output of an ended process is kept. Older output is removed when the host or
/// another process starts.
pub const ENDED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes read by one poll.
const POLLED_BYTES_MAX: u64 = 64 << 10;

/// Shell script that runs the command with its input and exit code, piped into a loop that keeps the last
/// pieces of its output. Messages of the shell itself, such as that a process was killed, are not part of the
/// output. `dd` counts reads of any size, so one piece is appended to until it is full.
const SCRIPT: &str = r#"{ "$1" -c "$2" 2>&1 <>"$3"; echo $? >"$4"; } 2>/dev/null | { umask 077; n=0 has=0
while dd bs=4096 count=$(($5-has)) iflag=count_bytes oflag=append conv=notrunc of="$6.$n" 2>/dev/null; do
    had=$has; has=$(($(wc -c <"$6.$n"))); [ "$has" -gt "$had" ] || break
    [ "$has" -lt "$5" ] || { n=$((n+1)); has=0; rm -f "$6.$((n-$7))"; }
done
[ -s "$6.$n" ] || rm -f "$6.$n"; cat >/dev/null; }"#;

/// Events of a process that its session is notified of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Notifies of the end of the process.
    pub notify: bool,
    /// Notifies of output that contains one of these patterns.
    pub patterns: Vec<String>,
}

/// A process to start.
#[derive(Debug)]
pub struct NewProcess {
    /// The command.
    pub command: String,
    /// Working folder.
    pub folder: PathBuf,
    /// Notifications; `None` for none.
    pub watch: Option<Watch>,
    /// Turn that starts the process.
    pub turn: TurnId,
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Exit with this code.
    Code(i32),
    /// Death by this signal.
    Signal(i32),
    /// Killed with the tool.
    Killed,
    /// The end is unknown, because there is no exit code.
    Unknown,
}

impl End {
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
pub enum State {
    /// The command runs.
    Running,
    /// The command ended with this exit code, but a process that it started still runs.
    Left(i32),
    /// The process group has ended.
    Ended(End),
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
    files: Files,
    state: watch::Sender<State>,
    /// Unfinished input; `None` if unknown, because an earlier run of the host wrote it.
    pub unfinished: tokio::sync::Mutex<Option<String>>,
    polled: AtomicU64,
    killed: AtomicBool,
    /// Number of tasks that wait for the end and report it themselves.
    awaited: AtomicUsize,
}

impl Process {
    /// Returns the current state.
    pub fn state(&self) -> State {
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
    pub async fn ended(&self, at_most: Duration) -> State {
        let _awaited = Awaited::new(&self.awaited);
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| *state != State::Running);
        // The state contains the result in both cases.
        let _ = tokio::time::timeout(at_most, ended).await;
        self.state()
    }

    /// Waits until the whole process group has ended, for at most this time.
    pub async fn gone(&self, at_most: Duration) {
        let _awaited = Awaited::new(&self.awaited);
        let mut state = self.state.subscribe();
        let gone = state.wait_for(|state| matches!(state, State::Ended(_)));
        // The state contains the result in both cases.
        let _ = tokio::time::timeout(at_most, gone).await;
    }

    /// Kills the process group, including processes that an ended command left behind.
    pub fn kill(&self) {
        if !self.is_over() {
            self.killed.store(true, Ordering::Relaxed);
        }
        Group::found_or_left(self.pid, &self.mark).kill();
    }

    /// Returns the description of the running process.
    pub fn left(&self) -> LeftRunning {
        LeftRunning { id: self.id.clone(), command: self.command.clone(), runs_for: self.runs_for() }
    }

    /// Returns the description of the running process and its conversation.
    pub fn left_somewhere(&self) -> LeftSomewhere {
        LeftSomewhere { key: self.key.clone(), session: self.session.clone(), left: self.left() }
    }

    /// Returns true if the whole process group has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state(), State::Ended(_))
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
        if self.state() != State::Running {
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

/// All background processes of all sessions.
pub struct Processes {
    folder: Option<PathBuf>,
    ports: Ports,
    known: Mutex<BTreeMap<String, Arc<Process>>>,
}

impl Processes {
    /// Creates an empty set; its files are inside of this home folder.
    pub fn new(home: PathBuf, ports: Ports) -> Self {
        let folder = (!home.as_os_str().is_empty()).then(|| home.join("processes"));
        Self { folder, ports, known: Mutex::default() }
    }

    /// Returns the ports of the host.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Returns the processes of the context's conversation, oldest first.
    pub fn of(&self, context: &TurnContext) -> Vec<Arc<Process>> {
        let mut own: Vec<_> = self.all().into_iter().filter(|process| process.belongs_to(context)).collect();
        own.sort_by_key(|process| std::cmp::Reverse(process.runs_for()));
        own
    }

    /// Returns the processes of all conversations.
    pub fn all(&self) -> Vec<Arc<Process>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Starts a command in the background.
    ///
    /// # Errors
    ///
    /// The reason for which the process does not run.
    pub async fn start(&self, shell: &Shell, context: &TurnContext, new: NewProcess) -> Result<Arc<Process>, String> {
        let folder =
            self.folder.as_ref().ok_or("background processes are not available: the host has no home folder")?;
        let runs = |process: &Arc<Process>| !process.is_over();
        if self.of(context).iter().filter(|process| runs(process)).count() >= RUNNING_PER_SESSION_MAX {
            return Err(format!(
                "{RUNNING_PER_SESSION_MAX} processes of this conversation are already running; kill one first"
            ));
        }
        if self.all().iter().filter(|process| runs(process)).count() >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} processes are already running on this host; try again later"));
        }
        self.forget_old();
        let mark = group::mark(new.turn);
        let id = format!("p{}", mark.chars().skip(8).filter(char::is_ascii_alphanumeric).collect::<String>());
        let files = Files::of(folder, &id);
        let watch = new.watch.clone().unwrap_or_default();
        let mut record = Record {
            id,
            pid: 0,
            mark,
            key: context.session_key.clone(),
            session: context.session_id.as_ref().map(|session| session.0.clone()),
            command: new.command.clone(),
            notify: watch.notify,
            patterns: watch.patterns.clone(),
        };
        if new.watch.is_some() {
            self.ports.wakes.follow(context, &record.id, &new.command).await?;
        }
        let launched = files.make(folder, &record).and_then(|()| launch(shell, context, &new, &record, &files));
        let child = match launched {
            Ok(child) => child,
            Err(error) => {
                files.remove();
                self.ports.wakes.forget(&record.id).await;
                return Err(format!("cannot start the command: {error}"));
            }
        };
        record.pid = child.id().unwrap_or_default();
        if let Err(error) = files.write(&record) {
            // The next run of the host finds the process by its mark.
            tracing::warn!(process = %record.id, %error, "process record cannot be stored");
        }
        let followed = new.watch.map(|_| Followed::default());
        Ok(self.keep(record, files, Handle::Child(Box::new(child)), followed))
    }

    /// Registers a process and starts its watcher.
    fn keep(&self, record: Record, files: Files, handle: Handle, followed: Option<Followed>) -> Arc<Process> {
        let watch = Watch { notify: record.notify, patterns: record.patterns };
        let before = if matches!(handle, Handle::Found) { files.age() } else { Duration::ZERO };
        let unfinished = (!matches!(handle, Handle::Found)).then(String::new);
        let process = Arc::new(Process {
            unfinished: tokio::sync::Mutex::new(unfinished),
            pid: record.pid,
            command: record.command,
            started: Instant::now(),
            before,
            session: record.session.map(SessionId),
            key: record.key,
            mark: record.mark,
            files,
            state: watch::Sender::new(State::Running),
            polled: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            awaited: AtomicUsize::new(0),
            id: record.id.clone(),
        });
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(record.id, Arc::clone(&process));
        tokio::spawn(look_after(Arc::clone(&process), handle, watch, followed, self.ports.clone()));
        process
    }

    /// Adopts the processes that an earlier run of the host left behind: running ones are registered, and ended
    /// ones are reported. Returns the ids that sessions still follow.
    pub async fn take_up(&self) -> BTreeSet<String> {
        let Some(folder) = self.folder.clone() else { return BTreeSet::new() };
        let mut taken = BTreeSet::new();
        for mut record in files::records(&folder) {
            if self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&record.id) {
                continue;
            }
            let files = Files::of(&folder, &record.id);
            let followed = self.ports.wakes.followed(&record.id).await;
            if followed.is_none() && files.exit_code().is_some() && files.over_for() >= ENDED_KEPT {
                files.remove();
                continue;
            }
            if record.pid == 0 {
                record.pid = group::leader(&record.mark).unwrap_or_default();
            }
            if followed.is_some() {
                taken.insert(record.id.clone());
            }
            self.keep(record, files, Handle::Found, followed);
        }
        let known = |id: &str| self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id);
        files::sweep(&folder, known, ENDED_KEPT);
        taken
    }

    /// Removes processes that ended long ago, and the oldest ones if there are too many.
    fn forget_old(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended: Vec<_> = known.values().filter(|process| process.is_over()).cloned().collect();
        ended.sort_by_key(|process| std::cmp::Reverse(process.runs_for()));
        let excess = ended.len().saturating_sub(ENDED_MAX);
        for (n, process) in ended.into_iter().enumerate() {
            if n < excess || process.files.over_for() >= ENDED_KEPT {
                process.files.remove();
                known.remove(&process.id);
            }
        }
    }
}

fn launch(
    shell: &Shell,
    context: &TurnContext,
    new: &NewProcess,
    record: &Record,
    files: &Files,
) -> std::io::Result<Child> {
    let mut command = shell.command(context, &new.folder, &record.mark);
    command.args(["-c", SCRIPT, "background"]).arg(&shell.program).arg(&new.command);
    command.arg(&files.input).arg(&files.exit).arg(PIECE_BYTES.to_string());
    command.arg(&files.output).arg(PIECES_KEPT.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    children::spawn(|| command.spawn(), Child::id)
}

//! Commands that outlive their turn.
//!
//! Each has a few files in `processes/` of the home folder ([`files`]): whose it is, what it
//! prints, its exit code once it has one, and a pipe by which it can be written to. So it
//! needs nothing of the host while it runs, and a later life of the host takes it up again:
//! it knows it by its process and by the mark that everything of it carries.
//!
//! [`watcher`] looks after each and tells its session what was to be told.

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

use super::children;
use super::group::{self, Group};
use super::output::{bounded, plain};
use super::ports::Followed;
use super::terminal::Shell;
use super::{Ports, RESULT_BYTES_MAX};
use crate::{LeftRunning, LeftSomewhere};
use files::{Files, PIECE_BYTES, PIECES_KEPT, Record};
use watcher::{Handle, look_after};
pub use watcher::{TELLS_MAX, left_words};

/// Processes of one session that run at once.
pub const RUNNING_PER_SESSION_MAX: usize = 8;

/// Processes of all sessions that run at once.
pub const RUNNING_MAX: usize = 64;

/// Processes that have ended and are still known.
const ENDED_MAX: usize = 64;

/// How long what a process printed is kept once it has ended, at least; what is older goes when the host starts, or
/// another process does.
pub const ENDED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What one poll reads, in bytes.
const POLLED_BYTES_MAX: u64 = 64 << 10;

/// What the shell runs: the command with its input and its exit code, and behind it what keeps the last pieces of
/// its output. What the shell itself says, such as that something was killed, is nothing that the command printed.
/// What `dd` counts are reads, however short, so one piece is added to until it is full.
const SCRIPT: &str = r#"{ "$1" -c "$2" 2>&1 <>"$3"; echo $? >"$4"; } 2>/dev/null | { umask 077; n=0 has=0
while dd bs=4096 count=$(($5-has)) iflag=count_bytes oflag=append conv=notrunc of="$6.$n" 2>/dev/null; do
    had=$has; has=$(($(wc -c <"$6.$n"))); [ "$has" -gt "$had" ] || break
    [ "$has" -lt "$5" ] || { n=$((n+1)); has=0; rm -f "$6.$((n-$7))"; }
done
[ -s "$6.$n" ] || rm -f "$6.$n"; cat >/dev/null; }"#;

/// What is to be told of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// When it ends.
    pub notify: bool,
    /// When it prints one of these.
    pub patterns: Vec<String>,
}

/// A process that is to start.
#[derive(Debug)]
pub struct NewProcess {
    /// The command.
    pub command: String,
    /// Where it runs.
    pub folder: PathBuf,
    /// What is to be told.
    pub watch: Option<Watch>,
    /// The turn that starts it.
    pub turn: TurnId,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was killed through its tool.
    Killed,
    /// Without saying how.
    Unknown,
}

impl End {
    /// How, as the agent is told.
    pub fn words(self) -> String {
        match self {
            Self::Code(code) => match signal_of(code) {
                Some(signal) => format!("ended with exit code {code}, which stands for {signal}"),
                None => format!("ended with exit code {code}"),
            },
            Self::Signal(number) => format!("was ended by {}", signal_name(number)),
            Self::Killed => "was killed, as it was asked for (SIGKILL)".to_owned(),
            Self::Unknown => "has ended, and nobody knows how: it left no exit code".to_owned(),
        }
    }

    /// Its exit code, where it has one.
    pub fn code(self) -> Option<i32> {
        if let Self::Code(code) = self { Some(code) } else { None }
    }
}

/// The signal that a shell's exit code stands for.
fn signal_of(code: i32) -> Option<String> {
    (129..=192).contains(&code).then(|| signal_name(code - 128))
}

/// What a signal is called.
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

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// The command ended with this exit code, and something that it started runs on.
    Left(i32),
    /// It has ended.
    Ended(End),
}

/// A process in the background.
#[derive(Debug)]
pub struct Process {
    /// Its name for the agent.
    pub id: String,
    /// Its group.
    pub pid: u32,
    /// The command.
    pub command: String,
    started: Instant,
    /// How long it had run when this life of the host took it up.
    before: Duration,
    session: Option<SessionId>,
    key: String,
    mark: String,
    files: Files,
    state: watch::Sender<State>,
    /// What was written to it and is not finished; `None`: nobody knows, since an earlier life of the host wrote it.
    pub unfinished: tokio::sync::Mutex<Option<String>>,
    polled: AtomicU64,
    killed: AtomicBool,
    /// How many wait for its end, and will tell it.
    awaited: AtomicUsize,
}

impl Process {
    /// How far it is.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// For how long it has been known, since it started.
    pub fn runs_for(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// Its command in so many bytes. A secret across the cut must not keep its first part, so it is masked before.
    pub fn shown(&self, ports: &Ports, bytes_max: usize) -> String {
        bounded(&ports.mask.mask(self.command.clone()), bytes_max)
    }

    /// What it printed since it was asked last. What is gone, and that there is more, is said.
    pub fn printed(&self, ports: &Ports) -> String {
        let from = self.polled.load(Ordering::Relaxed);
        let printed = self.files.read(from, POLLED_BYTES_MAX);
        self.polled.store(printed.upto, Ordering::Relaxed);
        let mut shown = bounded(&plain(&printed.bytes, &*ports.mask), RESULT_BYTES_MAX / 2);
        if printed.dropped > 0 {
            let kept = PIECE_BYTES * PIECES_KEPT;
            shown = format!(
                "[… {} bytes before this are gone; about the last {kept} are kept …]\n{shown}",
                printed.dropped
            );
        }
        if printed.bytes.len() as u64 == POLLED_BYTES_MAX {
            shown.push_str("\n[… there is more: poll again …]");
        }
        shown
    }

    /// Waits until its command has ended, at most this long. Whoever waits tells its session, so nobody else does.
    pub async fn ended(&self, at_most: Duration) -> State {
        let _awaited = Awaited::new(&self.awaited);
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| *state != State::Running);
        // Whether it ended or not is in the state.
        let _ = tokio::time::timeout(at_most, ended).await;
        self.state()
    }

    /// Waits until nothing of it runs any more, at most this long.
    pub async fn gone(&self, at_most: Duration) {
        let _awaited = Awaited::new(&self.awaited);
        let mut state = self.state.subscribe();
        let gone = state.wait_for(|state| matches!(state, State::Ended(_)));
        // As above.
        let _ = tokio::time::timeout(at_most, gone).await;
    }

    /// Ends it, and what is left of one that has ended.
    pub fn kill(&self) {
        if !self.is_over() {
            self.killed.store(true, Ordering::Relaxed);
        }
        Group::found_or_left(self.pid, &self.mark).kill();
    }

    /// What is told of it where it runs.
    pub fn left(&self) -> LeftRunning {
        LeftRunning { id: self.id.clone(), command: self.command.clone(), runs_for: self.runs_for() }
    }

    /// The same with where it was started.
    pub fn left_somewhere(&self) -> LeftSomewhere {
        LeftSomewhere { key: self.key.clone(), session: self.session.clone(), left: self.left() }
    }

    /// Whether nothing of it runs any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state(), State::Ended(_))
    }

    fn was_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    fn is_known_to_have_ended(&self) -> bool {
        self.was_killed() || self.awaited.load(Ordering::SeqCst) > 0
    }

    /// Writes to its input.
    ///
    /// # Errors
    ///
    /// When it has ended, or does not read.
    pub fn write(&self, text: &str) -> Result<(), String> {
        if self.state() != State::Running {
            return Err(format!("{} has ended", self.id));
        }
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let opened = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(&self.files.input);
        let written = opened.and_then(|mut input| input.write(text.as_bytes()));
        match written {
            Ok(count) if count == text.len() => Ok(()),
            Ok(count) => Err(format!("{} took only {count} of {} bytes; it does not read on", self.id, text.len())),
            Err(error) => Err(format!("{} cannot be written to ({error})", self.id)),
        }
    }

    /// Whether whoever asks may reach it: from its session, or from the chat that it was started in. Where nothing
    /// is delivered later, one key names many conversations.
    fn belongs_to(&self, context: &TurnContext) -> bool {
        let same_chat = context.async_delivery && !self.key.is_empty() && self.key == context.session_key;
        same_chat || (self.session.is_some() && self.session == context.session_id)
    }
}

/// Counts somebody who waits, for as long as they do.
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

/// Every process in the background, of all sessions.
pub struct Processes {
    folder: Option<PathBuf>,
    ports: Ports,
    known: Mutex<BTreeMap<String, Arc<Process>>>,
}

impl Processes {
    /// None yet; their files go below this home folder.
    pub fn new(home: PathBuf, ports: Ports) -> Self {
        let folder = (!home.as_os_str().is_empty()).then(|| home.join("processes"));
        Self { folder, ports, known: Mutex::default() }
    }

    /// What the shell lends.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The processes of whoever asks, oldest first.
    pub fn of(&self, context: &TurnContext) -> Vec<Arc<Process>> {
        let mut own: Vec<_> = self.all().into_iter().filter(|process| process.belongs_to(context)).collect();
        own.sort_by_key(|process| std::cmp::Reverse(process.runs_for()));
        own
    }

    /// Those of everybody.
    pub fn all(&self) -> Vec<Arc<Process>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Starts a command in the background.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub async fn start(&self, shell: &Shell, context: &TurnContext, new: NewProcess) -> Result<Arc<Process>, String> {
        let folder = self.folder.as_ref().ok_or("there is no home folder for what runs in the background")?;
        let runs = |process: &Arc<Process>| !process.is_over();
        if self.of(context).iter().filter(|process| runs(process)).count() >= RUNNING_PER_SESSION_MAX {
            return Err(format!("{RUNNING_PER_SESSION_MAX} processes of this conversation run already; end one first"));
        }
        if self.all().iter().filter(|process| runs(process)).count() >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} processes run already; try it later"));
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
                return Err(format!("it could not be started: {error}"));
            }
        };
        record.pid = child.id().unwrap_or_default();
        if let Err(error) = files.write(&record) {
            // The next life of the host finds it by its mark.
            tracing::warn!(process = %record.id, %error, "which process it is could not be written down");
        }
        let followed = new.watch.map(|_| Followed::default());
        Ok(self.keep(record, files, Handle::Child(Box::new(child)), followed))
    }

    /// Knows a process from here on, and looks after it.
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

    /// Takes up what an earlier life of the host left: what runs is known again, what has ended meanwhile is told.
    /// Returns what sessions still follow.
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

    /// Forgets those that ended long ago, and the oldest where there are too many.
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

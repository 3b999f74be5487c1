//! Commands that outlive their turn.
//!
//! Each has three files in `processes/` of the home folder: what it prints (the first
//! mebibyte), its exit code once it has one, and a pipe by which it can be written to. So
//! it needs nothing of the host while it runs, and a later life of the host finds out how
//! it ended.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use rustix::fs::{CWD, Mode, OFlags};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::Instant;

use super::group::{self, Group};
use super::output::{bounded, plain};
use super::ports::News;
use super::terminal::Shell;
use super::{Ports, RESULT_BYTES_MAX};

/// Processes of one session that run at once.
pub const RUNNING_PER_SESSION_MAX: usize = 8;

/// Processes of all sessions that run at once.
pub const RUNNING_MAX: usize = 64;

/// Processes that have ended and are still known.
const ENDED_MAX: usize = 64;

/// What of a process's output is kept, in bytes.
const KEPT_BYTES: u64 = 1 << 20;

/// What one poll reads, in bytes.
const POLLED_BYTES_MAX: u64 = 64 << 10;

/// How often a running process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a hit of a pattern is put off, so that several are told together.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// What of the last output is told with the end, in bytes.
const LAST_BYTES: usize = 4 << 10;

/// What the shell runs: the command with its input and its exit code, and behind it what keeps its output bounded.
const SCRIPT: &str = r#"{ "$1" -c "$2" <>"$3"; echo $? >"$4"; } 2>&1 | { dd bs=4096 count="$5" iflag=count_bytes 2>/dev/null; cat >/dev/null; }"#;

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

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It has ended; `None`: by a signal, or nobody knows how.
    Ended(Option<i32>),
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
    /// When it started.
    pub started: Instant,
    session: Option<SessionId>,
    key: String,
    mark: String,
    files: Files,
    state: watch::Sender<State>,
    polled: AtomicU64,
}

#[derive(Clone, Debug)]
struct Files {
    output: PathBuf,
    exit: PathBuf,
    input: PathBuf,
}

impl Files {
    fn of(folder: &Path, id: &str) -> Self {
        let file = |end: &str| folder.join(format!("{id}.{end}"));
        Self { output: file("out"), exit: file("exit"), input: file("in") }
    }

    fn remove(&self) {
        for path in [&self.output, &self.exit, &self.input] {
            // What is gone is what was wanted.
            let _ = std::fs::remove_file(path);
        }
    }

    fn exit_code(&self) -> Option<i32> {
        std::fs::read_to_string(&self.exit).ok()?.trim().parse().ok()
    }

    fn read(&self, from: u64, bytes_max: u64) -> Vec<u8> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = std::fs::File::open(&self.output)?;
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(bytes_max).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().unwrap_or_default()
    }
}

impl Process {
    /// How far it is.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// What it printed since it was asked last.
    pub fn printed(&self, ports: &Ports) -> String {
        let from = self.polled.load(Ordering::Relaxed);
        let bytes = self.files.read(from, POLLED_BYTES_MAX);
        self.polled.store(from + bytes.len() as u64, Ordering::Relaxed);
        let shown = bounded(&plain(&bytes, &*ports.mask), RESULT_BYTES_MAX / 2);
        match from + bytes.len() as u64 >= KEPT_BYTES {
            true => format!("{shown}\n[… only the first {KEPT_BYTES} bytes are kept …]"),
            false => shown,
        }
    }

    /// Waits until it has ended, at most this long.
    pub async fn ended(&self, at_most: Duration) -> State {
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| *state != State::Running);
        // Whether it ended or not is in the state.
        let _ = tokio::time::timeout(at_most, ended).await;
        self.state()
    }

    /// Ends it.
    pub fn kill(&self) {
        if self.state() == State::Running
            && let Some(mut group) = Group::found(self.pid, &self.mark)
        {
            group.kill();
        }
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

    fn belongs_to(&self, context: &TurnContext) -> bool {
        let same_key = !self.key.is_empty() && self.key == context.session_key;
        same_key || (self.session.is_some() && self.session == context.session_id)
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
        own.sort_by_key(|process| process.started);
        own
    }

    fn all(&self) -> Vec<Arc<Process>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Starts a command in the background.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub async fn start(&self, shell: &Shell, context: &TurnContext, new: NewProcess) -> Result<Arc<Process>, String> {
        let folder = self.folder.as_ref().ok_or("there is no home folder for what runs in the background")?;
        let runs = |process: &Arc<Process>| process.state() == State::Running;
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
        if let Some(Watch { .. }) = &new.watch {
            self.ports.wakes.follow(context, &id, &new.command).await?;
        }
        let child = launch(folder, shell, context, &new, &mark, &files)
            .map_err(|error| format!("it could not be started: {error}"))?;
        let process = Arc::new(Process {
            pid: child.id().unwrap_or_default(),
            command: new.command,
            started: Instant::now(),
            session: context.session_id.clone(),
            key: context.session_key.clone(),
            mark,
            files,
            state: watch::Sender::new(State::Running),
            polled: AtomicU64::new(0),
            id: id.clone(),
        });
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&process));
        tokio::spawn(look_after(Arc::clone(&process), child, new.watch, self.ports.clone()));
        Ok(process)
    }

    /// Forgets the oldest of those that have ended.
    fn forget_old(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended: Vec<_> = known.values().filter(|process| process.state() != State::Running).cloned().collect();
        ended.sort_by_key(|process| process.started);
        let excess = ended.len().saturating_sub(ENDED_MAX);
        for process in ended.drain(..excess) {
            process.files.remove();
            known.remove(&process.id);
        }
    }
}

fn launch(
    folder: &Path,
    shell: &Shell,
    context: &TurnContext,
    new: &NewProcess,
    mark: &str,
    files: &Files,
) -> std::io::Result<Child> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    rustix::fs::mknodat(CWD, &files.input, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let output = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&files.output)?;
    let mut command = shell.command(context, &new.folder, mark);
    command.args(["-c", SCRIPT, "background"]).arg(&shell.program).arg(&new.command);
    command.arg(&files.input).arg(&files.exit).arg(KEPT_BYTES.to_string());
    command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).process_group(0);
    command.spawn()
}

/// Looks after a process until it has ended, and tells what was to be told.
async fn look_after(process: Arc<Process>, mut child: Child, watch: Option<Watch>, ports: Ports) {
    let watch = watch.unwrap_or_default();
    let (mut seen, mut rest) = (0, String::new());
    let mut hits: Vec<String> = Vec::new();
    let mut told = Instant::now();
    let code = loop {
        let exited = tokio::time::timeout(LOOK_EVERY, child.wait()).await;
        if !watch.patterns.is_empty() {
            let bytes = process.files.read(seen, POLLED_BYTES_MAX);
            seen += bytes.len() as u64;
            rest.push_str(&plain(&bytes, &*ports.mask));
            take_hits(&mut rest, &watch.patterns, &mut hits, exited.is_ok());
            if !hits.is_empty() && told.elapsed() >= TELL_EVERY && exited.is_err() {
                told = Instant::now();
                ports.wakes.tell(news_of(&process, &std::mem::take(&mut hits), None)).await;
            }
        }
        match (process.files.exit_code(), exited) {
            (Some(code), _) => break Some(code),
            // It has ended without saying how: by a signal.
            (None, Ok(_)) => break None,
            (None, Err(_)) => {}
        }
    };
    process.state.send_replace(State::Ended(code));
    if watch.notify || !watch.patterns.is_empty() {
        let last = watch.notify.then(|| {
            let size = std::fs::metadata(&process.files.output).map_or(0, |file| file.len());
            let end = process.files.read(size.saturating_sub(LAST_BYTES as u64), LAST_BYTES as u64);
            (code, plain(&end, &*ports.mask))
        });
        ports.wakes.tell(news_of(&process, &hits, last)).await;
    }
}

/// Lines of what was printed in which a pattern stands.
fn take_hits(rest: &mut String, patterns: &[String], hits: &mut Vec<String>, at_end: bool) {
    const HITS_MAX: usize = 20;
    let whole = if at_end { rest.len() } else { rest.rfind('\n').map_or(0, |at| at + 1) };
    let lines: String = rest.drain(..whole).collect();
    let is_hit = |line: &&str| patterns.iter().any(|pattern| !pattern.is_empty() && line.contains(pattern.as_str()));
    let room = HITS_MAX.saturating_sub(hits.len());
    hits.extend(lines.lines().filter(is_hit).take(room).map(|line| bounded(line, 500)));
    // A line without an end must not grow for ever.
    if rest.len() > LAST_BYTES {
        rest.clear();
    }
}

fn news_of(process: &Process, hits: &[String], last: Option<(Option<i32>, String)>) -> News {
    let command = bounded(&process.command, 300);
    let mut parts = Vec::new();
    if !hits.is_empty() {
        parts.push(format!("The process {} (`{command}`) printed:\n{}", process.id, hits.join("\n")));
    }
    let is_last = process.state() != State::Running;
    if let Some((code, end)) = last {
        let how = match code {
            Some(code) => format!("ended with exit code {code}"),
            None => "was ended by a signal".to_owned(),
        };
        parts.push(format!("The process {} (`{command}`) {how}. The end of what it printed:\n{end}", process.id));
    }
    News { id: process.id.clone(), text: parts.join("\n\n"), last: is_last }
}

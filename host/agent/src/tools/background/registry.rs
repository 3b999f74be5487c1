//! The registry of all background processes: starts them, adopts those of an earlier run, and forgets old ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::Instant;

use super::files::{self, PIECE_BYTES, PIECES_KEPT, ProcessFiles, ProcessRecord};
use super::watcher::{ProcessHandle, watch_process};
use super::{Process, ProcessState, Watch};
use crate::tools::ports::Subscription;
use crate::tools::terminal::Shell;
use crate::tools::{Ports, group};
use hermes_system::children;

/// Concurrent processes of one session.
pub const RUNNING_PER_SESSION_MAX: usize = 8;

/// Concurrent processes of all sessions.
pub const RUNNING_MAX: usize = 64;

/// Ended processes that are remembered.
const ENDED_MAX: usize = 64;

/// Minimum time for which the output of an ended process is kept. Older output is removed when the host or
/// another process starts.
pub const ENDED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Shell script that runs the command with its input and exit code, piped into a loop that keeps the last
/// pieces of its output. Messages of the shell itself, such as that a process was killed, are not part of the
/// output. `dd` counts reads of any size, so one piece is appended to until it is full.
const SCRIPT: &str = r#"{ "$1" -c "$2" 2>&1 <>"$3"; echo $? >"$4"; } 2>/dev/null | { umask 077; n=0 has=0
while dd bs=4096 count=$(($5-has)) iflag=count_bytes oflag=append conv=notrunc of="$6.$n" 2>/dev/null; do
    had=$has; has=$(($(wc -c <"$6.$n"))); [ "$has" -gt "$had" ] || break
    [ "$has" -lt "$5" ] || { n=$((n+1)); has=0; rm -f "$6.$((n-$7))"; }
done
[ -s "$6.$n" ] || rm -f "$6.$n"; cat >/dev/null; }"#;

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
        let files = ProcessFiles::of(folder, &id);
        let watch = new.watch.clone().unwrap_or_default();
        let mut record = ProcessRecord {
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
            self.ports.wakeups.subscribe(context, &record.id, &new.command).await?;
        }
        let launched = files.make(folder, &record).and_then(|()| launch(shell, context, &new, &record, &files));
        let child = match launched {
            Ok(child) => child,
            Err(error) => {
                files.remove();
                self.ports.wakeups.unsubscribe(&record.id).await;
                return Err(format!("cannot start the command: {error}"));
            }
        };
        record.pid = child.id().unwrap_or_default();
        if let Err(error) = files.write(&record) {
            // The next run of the host finds the process by its mark.
            tracing::warn!(process = %record.id, %error, "process record cannot be stored");
        }
        let subscription = new.watch.map(|_| Subscription::default());
        Ok(self.keep(record, files, ProcessHandle::Child(Box::new(child)), subscription))
    }

    /// Registers a process and starts its watcher.
    fn keep(
        &self,
        record: ProcessRecord,
        files: ProcessFiles,
        handle: ProcessHandle,
        subscription: Option<Subscription>,
    ) -> Arc<Process> {
        let watch = Watch { notify: record.notify, patterns: record.patterns };
        let before = if matches!(handle, ProcessHandle::Adopted) { files.age() } else { Duration::ZERO };
        let unfinished = (!matches!(handle, ProcessHandle::Adopted)).then(String::new);
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
            state: watch::Sender::new(ProcessState::Running),
            polled: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            awaited: AtomicUsize::new(0),
            id: record.id.clone(),
        });
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(record.id, Arc::clone(&process));
        tokio::spawn(watch_process(Arc::clone(&process), handle, watch, subscription, self.ports.clone()));
        process
    }

    /// Adopts the processes that an earlier run of the host left behind: running ones are registered, and ended
    /// ones are reported. Returns the ids that sessions still follow.
    pub async fn adopt(&self) -> BTreeSet<String> {
        let Some(folder) = self.folder.clone() else { return BTreeSet::new() };
        let mut taken = BTreeSet::new();
        for mut record in files::records(&folder) {
            if self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&record.id) {
                continue;
            }
            let files = ProcessFiles::of(&folder, &record.id);
            let subscription = self.ports.wakeups.subscription(&record.id).await;
            if subscription.is_none() && files.exit_code().is_some() && files.over_for() >= ENDED_KEPT {
                files.remove();
                continue;
            }
            if record.pid == 0 {
                record.pid = group::leader(&record.mark).unwrap_or_default();
            }
            if subscription.is_some() {
                taken.insert(record.id.clone());
            }
            self.keep(record, files, ProcessHandle::Adopted, subscription);
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
    record: &ProcessRecord,
    files: &ProcessFiles,
) -> std::io::Result<Child> {
    let mut command = shell.command(context, &new.folder, &record.mark);
    command.args(["-c", SCRIPT, "background"]).arg(&shell.program).arg(&new.command);
    command.arg(&files.input).arg(&files.exit).arg(PIECE_BYTES.to_string());
    command.arg(&files.output).arg(PIECES_KEPT.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    children::spawn(|| command.spawn(), Child::id)
}

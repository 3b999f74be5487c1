//! The processes of one call, which end with the call.
//!
//! A command runs in a separate process group, and all its processes carry a mark in their environment. The end
//! of the call kills the group and all processes that left the group but still carry the mark.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_core::ids::TurnId;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::environment::MARK;
use hermes_system::children;

/// Number of searches for processes outside of the group, because a process may start another one during a
/// search.
const SWEEPS_MAX: usize = 4;

/// Returns a name that no other call of any host has.
pub fn mark(turn: TurnId) -> String {
    use std::hash::{BuildHasher, RandomState};
    static LIFE: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The keys of a hasher are random; the mark only needs to be unique.
    let life = LIFE.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{life:016x}-{turn}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A process group that is killed on drop, unless it was released.
#[derive(Debug)]
pub struct Group {
    pid: Option<Pid>,
    mark: String,
}

impl Group {
    /// Returns the group led by a child.
    pub fn of(child: &Child, mark: &str) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Self { pid, mark: mark.to_owned() }
    }

    /// Returns the group of a process if the process still carries the mark, or else all processes that carry
    /// the mark.
    pub fn of_marked(pid: u32, mark: &str) -> Self {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self { pid: raw.filter(|_| carries_mark(pid, mark)), mark: mark.to_owned() }
    }

    /// Releases the group without killing it.
    pub fn release(mut self) {
        self.pid = None;
        self.mark.clear();
    }

    /// Kills the group.
    pub fn kill(&mut self) {
        if let Some(pid) = self.pid.take() {
            // A group that no longer exists needs no signal.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let mark = std::mem::take(&mut self.mark);
        if mark.is_empty() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            // The search through all processes may block, so it runs on a blocking thread.
            Ok(runtime) => drop(runtime.spawn_blocking(move || kill_marked(&mark))),
            Err(_) => kill_marked(&mark),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns true if a process runs and carries the mark. The process id alone may have been reused.
pub fn carries_mark(pid: u32, mark: &str) -> bool {
    pid != 0 && carries(format!("/proc/{pid}"), mark)
}

/// Returns the leader of the group that carries the mark.
pub fn leader(mark: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let leads = |pid: &u32| {
        let raw = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        carries_mark(*pid, mark) && raw.is_some_and(|raw| rustix::process::getpgid(Some(raw)) == Ok(raw))
    };
    pids.into_iter().find(leads)
}

/// Kills all processes that carry the mark.
pub fn kill_marked(mark: &str) {
    for _ in 0..SWEEPS_MAX {
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        let mut any = false;
        for entry in processes.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
            if carries(entry.path(), mark) {
                any |= kill_process(pid, Signal::KILL).is_ok();
            }
        }
        if !any {
            return;
        }
    }
}

fn carries(process: impl AsRef<Path>, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let environment = std::fs::read(process.as_ref().join("environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Shell script for a command in the foreground. A second process in its group waits on a pipe that closes when
/// the host ends for any reason; it then kills the group and all processes that carry the mark.
const FOREGROUND_SCRIPT: &str = r#"exec 3<&0 </dev/null
"$1" -c "$3" held "$4" <&3 >/dev/null 2>&1 &
exec 3<&- "$1" -c "$2""#;

/// Shell script of the second process. It searches repeatedly, because a process may start another one during a
/// search.
const WATCHDOG_SCRIPT: &str = r#"read -r _
for _ in 1 2 3; do
    for p in $(grep -lzxF -- "$1" /proc/[0-9]*/environ); do
        p=${p#/proc/} p=${p%/environ}
        [ "$p" = "$$" ] || kill -KILL "$p"
    done
done
kill -KILL 0"#;

/// A running command in the foreground.
#[derive(Debug)]
pub struct ForegroundCommand {
    /// Leader of the process group.
    pub child: Child,
    /// Output of the whole group, in order.
    pub printed: pipe::Receiver,
    /// Pipe whose closing ends the command.
    pub lifeline: std::io::PipeWriter,
}

/// Starts a command in a separate process group that ends with the host. `shell` is the command of the shell
/// `program` without arguments.
///
/// # Errors
///
/// The error of the operating system.
pub fn start(mut shell: Command, program: &Path, code: &str, mark: &str) -> std::io::Result<ForegroundCommand> {
    let (reader, writer) = std::io::pipe()?;
    let (held, lifeline) = std::io::pipe()?;
    shell.args(["-c", FOREGROUND_SCRIPT, "held"]).arg(program).args([code, WATCHDOG_SCRIPT, &format!("{MARK}={mark}")]);
    shell.stdin(held).stdout(writer.try_clone()?).stderr(writer).process_group(0).kill_on_drop(true);
    let child = children::spawn(|| shell.spawn(), Child::id)?;
    // Closes the host's copies of the child's pipe ends, so that each pipe closes with the last process of the
    // group.
    drop(shell);
    Ok(ForegroundCommand { child, printed: pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?, lifeline })
}

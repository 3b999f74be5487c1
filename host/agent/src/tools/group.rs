//! The processes of one call, which end with it.
//!
//! A command runs in a process group of its own, and everything that comes of it carries
//! a mark in its environment. Ending the call ends the group, and whatever left the group
//! but still carries the mark.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_core::ids::TurnId;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::children;
use super::environment::MARK;

/// How often what left its group is looked for; a process may make another one meanwhile.
const SWEEPS_MAX: usize = 4;

/// A name that no other call of any host has.
pub fn mark(turn: TurnId) -> String {
    use std::hash::{BuildHasher, RandomState};
    static LIFE: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // A hasher's keys are random; nothing but being different depends on them.
    let life = LIFE.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{life:016x}-{turn}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A group that is killed when this is dropped, unless it was let go.
#[derive(Debug)]
pub struct Group {
    pid: Option<Pid>,
    mark: String,
}

impl Group {
    /// The group that a child leads.
    pub fn of(child: &Child, mark: &str) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Self { pid, mark: mark.to_owned() }
    }

    /// The group of a process, if that still carries the mark; otherwise whatever else carries it.
    pub fn found_or_left(pid: u32, mark: &str) -> Self {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self { pid: raw.filter(|_| lives(pid, mark)), mark: mark.to_owned() }
    }

    /// Lets it live.
    pub fn let_go(mut self) {
        self.pid = None;
        self.mark.clear();
    }

    /// Ends it.
    pub fn kill(&mut self) {
        if let Some(pid) = self.pid.take() {
            // A group that is gone already is what was wanted.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let mark = std::mem::take(&mut self.mark);
        if mark.is_empty() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            // Looking through all processes is no work for a thread that serves others.
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

/// Whether this process runs and is the one that carries the mark; its number may be another's by now.
pub fn lives(pid: u32, mark: &str) -> bool {
    pid != 0 && carries(format!("/proc/{pid}"), mark)
}

/// The process that leads the group of what carries the mark.
pub fn leader(mark: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let leads = |pid: &u32| {
        let raw = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        lives(*pid, mark) && raw.is_some_and(|raw| rustix::process::getpgid(Some(raw)) == Ok(raw))
    };
    pids.into_iter().find(leads)
}

/// Ends whatever carries the mark.
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

/// What the shell runs for a command that is waited for: beside it, in its group, what ends both and whatever carries
/// their mark once the host is gone, whatever killed it: then nobody holds the other end of its input.
const HELD: &str = r#"exec 3<&0 </dev/null
"$1" -c "$3" held "$4" <&3 >/dev/null 2>&1 &
exec 3<&- "$1" -c "$2""#;

/// What waits for the end of the host.
/// A process may make another one meanwhile, so it looks more than once.
const WAITER: &str = r#"read -r _
for _ in 1 2 3; do
    for p in $(grep -lzxF -- "$1" /proc/[0-9]*/environ); do
        p=${p#/proc/} p=${p%/environ}
        [ "$p" = "$$" ] || kill -KILL "$p"
    done
done
kill -KILL 0"#;

/// A command that is waited for.
#[derive(Debug)]
pub struct Held {
    /// The process that leads its group.
    pub child: Child,
    /// What all of it prints, in order.
    pub printed: pipe::Receiver,
    /// It lives no longer than this.
    pub lifeline: std::io::PipeWriter,
}

/// Starts a command in a group of its own, which ends with the host. `shell` is the command of the shell `program`
/// without arguments.
///
/// # Errors
///
/// What the system says.
pub fn start(mut shell: Command, program: &Path, code: &str, mark: &str) -> std::io::Result<Held> {
    let (reader, writer) = std::io::pipe()?;
    let (held, lifeline) = std::io::pipe()?;
    shell.args(["-c", HELD, "held"]).arg(program).args([code, WAITER, &format!("{MARK}={mark}")]);
    shell.stdin(held).stdout(writer.try_clone()?).stderr(writer).process_group(0).kill_on_drop(true);
    let child = children::spawn(|| shell.spawn(), Child::id)?;
    // With it go the ends that are the child's: each pipe ends with the last process that has it.
    drop(shell);
    Ok(Held { child, printed: pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?, lifeline })
}

//! The children of this process, and the orphans that it adopts.
//!
//! The host is a child subreaper: a process that a tool or an adapter leaves behind becomes a child of the
//! host. Such an orphan has no owner that waits for it, so [`reap_orphans`] collects it. Every child that the
//! host starts itself goes through [`spawn`] and is registered there; the reaper never takes its exit status
//! from its owner.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Children that this process started, with their start times in clock ticks since boot.
static OWN: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

/// The state of a process in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Parent process; 0 if it is outside of this process namespace.
    pub parent: u32,
    /// Start time, in clock ticks since boot.
    pub started: u64,
    /// True if the process has ended and waits to be reaped.
    pub is_zombie: bool,
}

impl ProcessStat {
    /// Reads the state of a process. Returns `None` if the process does not exist or `/proc` hides it.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `/proc/PID/stat`. The program name is in parentheses and may contain any character.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // The start time is field 22; the two fields read before are 3 and 4.
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { parent, started, is_zombie: state == "Z" || state == "X" })
    }
}

/// Identifies a process by its number and start time, because a number alone may be reused.
pub type ProcessId = (u32, u64);

/// Returns all descendants of this process. Reads `/proc`, which may block.
pub fn descendants() -> BTreeSet<ProcessId> {
    let mut parents = BTreeMap::<u32, Vec<ProcessId>>::new();
    for pid in every_process() {
        if let Some(stat) = ProcessStat::of(pid).filter(|stat| !stat.is_zombie) {
            parents.entry(stat.parent).or_default().push((pid, stat.started));
        }
    }
    let (mut found, mut open) = (BTreeSet::new(), vec![std::process::id()]);
    while let Some(parent) = open.pop() {
        for child in parents.remove(&parent).unwrap_or_default() {
            found.insert(child);
            open.push(child.0);
        }
    }
    found
}

/// Starts a child and registers it, so that [`reap_orphans`] leaves it to its owner. `pid` returns its process
/// id.
///
/// # Errors
///
/// The error of `start`.
pub fn spawn<C>(start: impl FnOnce() -> io::Result<C>, pid: impl FnOnce(&C) -> Option<u32>) -> io::Result<C> {
    // The lock keeps the reaper waiting, so that a child that ends at once is registered before the reaper can
    // see it.
    let mut own = own();
    let child = start()?;
    if let Some(pid) = pid(&child) {
        own.insert(pid, ProcessStat::of(pid).map_or(0, |stat| stat.started));
    }
    Ok(child)
}

/// Reaps ended orphans and returns their number. Reads `/proc`, which may block.
pub fn reap_orphans() -> usize {
    let mut own = own();
    let children = children();
    // A child that is no longer listed was reaped by its owner.
    own.retain(|pid, _| children.contains(pid));
    let is_orphan = |pid: &u32| {
        ProcessStat::of(*pid).is_some_and(|stat| stat.is_zombie && own.get(pid).is_none_or(|own| *own != stat.started))
    };
    let ended = children.into_iter().filter(is_orphan);
    let pids = ended.filter_map(|pid| i32::try_from(pid).ok().and_then(Pid::from_raw));
    pids.filter(|pid| matches!(waitid(WaitId::Pid(*pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(Some(_))))
        .count()
}

fn own() -> MutexGuard<'static, BTreeMap<u32, u64>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the children of this process.
fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let listed: Option<Vec<String>> =
        tasks.map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect();
    match listed.filter(|lists| !lists.is_empty()) {
        Some(lists) => {
            lists.iter().flat_map(|list| list.split_ascii_whitespace()).filter_map(|n| n.parse().ok()).collect()
        }
        // The kernel lacks CONFIG_PROC_CHILDREN, or a thread ended in the meantime.
        None => every_process()
            .filter(|pid| ProcessStat::of(*pid).is_some_and(|stat| stat.parent == std::process::id()))
            .collect(),
    }
}

fn every_process() -> impl Iterator<Item = u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn the_name_of_a_program_cannot_forge_its_parent() {
        let stat = "7 (evil) Z 1 9 (x)) S 42 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0";
        let read = ProcessStat::parse(stat).unwrap();
        assert_eq!(read, ProcessStat { parent: 42, started: 12_345, is_zombie: false });
        for broken in ["", "7 (x", "7 (x) S", "7 (x) S one 2", "7 (x) S 1 2 3"] {
            assert_eq!(ProcessStat::parse(broken), None, "{broken}");
        }
        let own = ProcessStat::of(std::process::id()).unwrap();
        assert!(!own.is_zombie && own.parent > 0 && own.started > 0, "{own:?}");
    }

    #[test]
    fn an_owner_gets_the_status_of_its_child_whatever_the_reaper_does() {
        let start = || spawn(|| Command::new("sh").args(["-c", "exit 7"]).spawn(), |child: &Child| Some(child.id()));
        let mut children: Vec<Child> = std::iter::repeat_with(start).take(8).collect::<io::Result<_>>().unwrap();
        while !children.iter().all(|child| ProcessStat::of(child.id()).is_some_and(|stat| stat.is_zombie)) {
            reap_orphans();
            std::thread::yield_now();
        }
        reap_orphans();
        for child in &mut children {
            assert_eq!(child.wait().unwrap().code(), Some(7));
        }
    }
}

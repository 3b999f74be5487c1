//! Orphans: processes that a tool or an adapter left behind, which the host adopts and collects.
//!
//! The host is a child subreaper, so every process that it started keeps the host among its ancestors. The control
//! socket recognises such processes by that. Some of them outlive the host. A file in the home lists them, so that the
//! next run recognises them, too.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_system::children::{self, ProcessId, ProcessStat};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::AbortHandle;

/// The name of the list in the home folder.
const FILE_NAME: &str = "host.children";

/// Pause before orphans are collected, so that a burst of ends costs one pass.
const PAUSE: Duration = Duration::from_millis(100);

/// Interval of a pass without a signal.
const INTERVAL: Duration = Duration::from_secs(5);

/// Processes of the list that are read.
const LISTED_MAX: usize = 10_000;

/// Makes this process adopt orphans, collects those that end and updates the list until the task is aborted. The task
/// is aborted because a terminal that handed its host over continues without being a host.
///
/// # Errors
///
/// The system refuses the subreaper or the signal handler.
pub fn adopt(home: &Path, left: BTreeSet<ProcessId>) -> io::Result<AbortHandle> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut ended = signal(SignalKind::child())?;
    let home = home.to_owned();
    let task = tokio::spawn(async move {
        let mut listed = BTreeSet::new();
        loop {
            // A signal during the pass is kept for the next one.
            let by_signal = tokio::time::timeout(INTERVAL, ended.recv()).await.is_ok();
            tokio::time::sleep(PAUSE).await;
            let (home, known, before) = (home.clone(), left.clone(), listed.clone());
            let look = move || {
                children::reap_orphans();
                // The list is only written at the interval, so that a busy tool does not cause constant writes.
                if by_signal { before } else { write_changed(&home, &known, before) }
            };
            match tokio::task::spawn_blocking(look).await {
                Ok(now) => listed = now,
                Err(error) => tracing::error!(%error, "orphaned processes cannot be collected"),
            }
        }
    });
    Ok(task.abort_handle())
}

/// Writes the list at the end of the host.
pub fn keep(home: &Path, left: &BTreeSet<ProcessId>) {
    write_changed(home, left, BTreeSet::new());
}

/// Returns the processes of earlier runs of the host that still run.
pub fn left(home: &Path) -> BTreeSet<ProcessId> {
    let text = fs::read_to_string(home.join(FILE_NAME)).unwrap_or_default();
    let mut lines = text.lines();
    // Process ids and start times are invalid after a reboot.
    if lines.next() != Some(boot().as_str()) {
        return BTreeSet::new();
    }
    let parsed = lines.take(LISTED_MAX).filter_map(|line| {
        let (pid, started) = line.split_once(' ')?;
        Some((pid.parse().ok()?, started.parse().ok()?))
    });
    parsed.filter(is_alive).collect()
}

fn is_alive((pid, started): &ProcessId) -> bool {
    ProcessStat::of(*pid).is_some_and(|stat| stat.started == *started)
}

/// Writes the descendants of the host and the earlier leftovers if they differ from the last list.
fn write_changed(home: &Path, left: &BTreeSet<ProcessId>, before: BTreeSet<ProcessId>) -> BTreeSet<ProcessId> {
    let mut now = children::descendants();
    now.extend(left.iter().filter(|process| is_alive(process)));
    if now == before {
        return before;
    }
    match write(home, &now) {
        Ok(()) => now,
        Err(error) => {
            tracing::debug!(%error, "the list of processes cannot be written");
            before
        }
    }
}

fn write(home: &Path, processes: &BTreeSet<ProcessId>) -> io::Result<()> {
    let lines: String = processes.iter().map(|(pid, started)| format!("{pid} {started}\n")).collect();
    let new: PathBuf = home.join(format!("{FILE_NAME}.new"));
    let mut file = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    write!(file, "{}\n{lines}", boot())?;
    fs::rename(new, home.join(FILE_NAME))
}

/// Returns the id of this boot of the machine; empty if the system has none.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_outlives_the_host_is_recognised_by_the_next_run() {
        let home = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        keep(home.path(), &BTreeSet::new());
        let listed = left(home.path());
        assert!(listed.iter().any(|(pid, _)| *pid == child.id()), "{listed:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!left(home.path()).iter().any(|(pid, _)| *pid == child.id()), "it has ended");
    }

    #[test]
    fn a_list_of_another_boot_or_a_broken_one_names_nobody() {
        let home = tempfile::tempdir().unwrap();
        let own = ProcessStat::of(std::process::id()).unwrap().started;
        let line = format!("{} {own}", std::process::id());
        for text in [String::new(), line.clone(), format!("another\n{line}"), format!("{}\n1 x\n\n-1 2", boot())] {
            fs::write(home.path().join(FILE_NAME), &text).unwrap();
            assert_eq!(left(home.path()), BTreeSet::new(), "{text}");
        }
        fs::write(home.path().join(FILE_NAME), format!("{}\n{line}\n", boot())).unwrap();
        assert_eq!(left(home.path()).len(), 1);
    }
}

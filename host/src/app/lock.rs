//! `host.lock`: who holds it writes the state. Held for life, released by the kernel.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::control::{Client, ControlReply, ControlRequest};

/// How much longer than its drain a host that is replaced may take.
const REPLACE_SLACK: Duration = Duration::from_secs(10);

/// How often the lock is tried while the other host stops.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How often it is tried, and after how long again, before it counts as held: whoever only looks who holds it
/// ([`held_by`]) has it for a moment.
const TRIES: usize = 5;
const GLANCE: Duration = Duration::from_millis(10);

/// Name of the file in the home folder.
pub const FILE_NAME: &str = "host.lock";

/// The exclusive right to write one home. Dropping it gives the right back.
#[derive(Debug)]
pub struct HostLock {
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The operator: another host works in this home.
    #[error("another host{pid} works in {home:?}; stop it with `hermes-host stop`, take its place with `hermes-host run --replace`, or choose another --home", pid = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The home.
        home: PathBuf,
        /// Who it is, where the file says.
        pid: Option<u32>,
    },
    /// The operator: the file cannot be used.
    #[error("cannot open {path:?}; the home folder must be writable")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl HostLock {
    /// Takes the lock of `home`, or says who has it.
    ///
    /// # Errors
    ///
    /// When another process holds it, or when the file cannot be opened.
    pub fn take(home: &Path) -> Result<Self, LockError> {
        let path = home.join(FILE_NAME);
        let open = |source| LockError::Open { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(open)?;
        for left in (0..TRIES).rev() {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if left > 0 => std::thread::sleep(GLANCE),
                Err(Errno::WOULDBLOCK) => {
                    return Err(LockError::Held { home: home.to_owned(), pid: holder(&mut file) });
                }
                Err(errno) => return Err(open(errno.into())),
            }
        }
        // The number is for people and for `--replace`; the lock itself is the kernel's.
        file.set_len(0).map_err(open)?;
        file.rewind().map_err(open)?;
        write!(file, "{}", std::process::id()).map_err(open)?;
        Ok(Self { _file: file })
    }
}

/// Who holds a home: the process where the file says, `None` where nobody does.
pub fn held_by(home: &Path) -> Option<u32> {
    let mut file = File::open(home.join(FILE_NAME)).ok()?;
    let holder = holder(&mut file)?;
    // Who is gone holds nothing, and its successor is not stood in the way of.
    let pid = Pid::from_raw(i32::try_from(holder).ok()?)?;
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return None;
    }
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(holder),
        // It is given back with the file.
        _ => None,
    }
}

/// What is done about a host that holds the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing: the home has to be free.
    Free,
    /// One that runs for a terminal only is asked to hand over.
    TakeOver,
    /// Whoever it is is asked to stop.
    Replace,
}

/// Takes the lock of `home`, where the wish is to wait for it after who holds it had their time to end.
///
/// # Errors
///
/// As [`HostLock::take`].
pub async fn take(home: &Path, wish: Wish, patience: Duration) -> Result<HostLock, LockError> {
    let held = match HostLock::take(home) {
        Err(held @ LockError::Held { .. }) => held,
        taken => return taken,
    };
    match wish {
        Wish::Free => return Err(held),
        Wish::TakeOver => match ask(home, &ControlRequest::HandOver {}).await {
            Some(ControlReply::Done { .. }) => {
                tracing::info!("a terminal runs the host of this home and hands it over");
            }
            _ => return Err(held),
        },
        Wish::Replace => {
            if ask(home, &ControlRequest::Stop {}).await.is_none() {
                tracing::warn!("the host that holds the home does not answer; waiting for it to end");
            }
        }
    }
    let until = tokio::time::Instant::now() + patience + REPLACE_SLACK;
    loop {
        match HostLock::take(home) {
            Err(LockError::Held { .. }) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            taken => return taken,
        }
    }
}

async fn ask(home: &Path, request: &ControlRequest) -> Option<ControlReply> {
    Client::connect(home).await.ok()?.ask(request).await.ok()
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_it() {
        let home = tempfile::tempdir().unwrap();
        let first = HostLock::take(home.path()).unwrap();
        let error = HostLock::take(home.path()).unwrap_err();
        assert!(matches!(&error, LockError::Held { pid: Some(pid), .. } if *pid == std::process::id()), "{error}");
        assert_eq!(held_by(home.path()), Some(std::process::id()));
        drop(first);
        assert_eq!(held_by(home.path()), None);
        HostLock::take(home.path()).unwrap();
    }

    #[test]
    fn whoever_looks_who_holds_it_keeps_nobody_from_taking_it() {
        let home = tempfile::tempdir().unwrap();
        drop(HostLock::take(home.path()).unwrap());
        let looking = File::open(home.path().join(FILE_NAME)).unwrap();
        flock(&looking, FlockOperation::NonBlockingLockShared).unwrap();
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| HostLock::take(home.path()));
            drop(looking);
            taking.join().unwrap().unwrap();
        });
    }

    #[test]
    fn who_is_gone_is_not_looked_for() {
        let home = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        std::fs::write(home.path().join(FILE_NAME), gone.id().to_string()).unwrap();
        let lock = File::open(home.path().join(FILE_NAME)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(held_by(home.path()), None);
    }
}

//! `host.lock`: its holder is the only writer of the state. The lock is held until the process ends; the kernel
//! releases it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::engine::operator::{ControlReply, ControlRequest};
use crate::surface::control::Client;

/// Time for a replaced host to end, in addition to its drain.
const REPLACE_SLACK: Duration = Duration::from_secs(10);

/// Interval of the attempts while the other host stops.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Attempts and their interval before the lock counts as held, because a query of its holder ([`held_by`]) takes it for
/// a moment.
const TRIES: usize = 5;
const GLANCE: Duration = Duration::from_millis(10);

/// Name of the file in the home folder.
pub const FILE_NAME: &str = "host.lock";

/// The exclusive right to write one home. Dropping it releases the right.
#[derive(Debug)]
pub struct HostLock {
    _file: File,
}

/// The reason why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another host uses this home. The operator stops it or chooses another home.
    #[error("another host{pid} is running in {home:?}; stop it with `hermes-host stop`, replace it with `hermes-host run --replace`, or choose another --home", pid = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The home.
        home: PathBuf,
        /// The process id in the file, if there is one.
        pid: Option<u32>,
    },
    /// The file cannot be used. The operator makes the home writable.
    #[error("cannot open {path:?}; the home folder must be writable")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl HostLock {
    /// Takes the lock of `home`, or returns its holder.
    ///
    /// # Errors
    ///
    /// Another process holds it, or the file cannot be opened.
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
        // The process id is for people and for `--replace`; the lock itself is held in the kernel.
        file.set_len(0).map_err(open)?;
        file.rewind().map_err(open)?;
        write!(file, "{}", std::process::id()).map_err(open)?;
        Ok(Self { _file: file })
    }
}

/// Returns the process id of the holder of a home; `None` if no process holds it.
pub fn held_by(home: &Path) -> Option<u32> {
    let mut file = File::open(home.join(FILE_NAME)).ok()?;
    let holder = holder(&mut file)?;
    // A process that has ended holds nothing. The shared lock below is then not tried, because it could block the next
    // holder.
    let pid = Pid::from_raw(i32::try_from(holder).ok()?)?;
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return None;
    }
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(holder),
        // Closing the file releases the shared lock.
        _ => None,
    }
}

/// The treatment of a host that holds the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Fail: the home has to be free.
    Free,
    /// Ask a host that runs for a terminal only to hand over.
    TakeOver,
    /// Ask any host to stop.
    Replace,
}

/// Takes the lock of `home`. For `TakeOver` and `Replace` it asks the holder to end and waits up to `patience` plus
/// `REPLACE_SLACK` for the lock.
///
/// # Errors
///
/// The same as [`HostLock::take`].
pub async fn take(home: &Path, wish: Wish, patience: Duration) -> Result<HostLock, LockError> {
    let held = match HostLock::take(home) {
        Err(held @ LockError::Held { .. }) => held,
        taken => return taken,
    };
    match wish {
        Wish::Free => return Err(held),
        Wish::TakeOver => match ask(home, &ControlRequest::HandOver {}).await {
            Some(ControlReply::Done { .. }) => {
                tracing::info!("taking over from the host of a terminal");
            }
            _ => return Err(held),
        },
        Wish::Replace => {
            if ask(home, &ControlRequest::Stop {}).await.is_none() {
                tracing::warn!("the running host does not answer; waiting for it to end");
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
        // A child that another test is starting holds the file until it executes its program.
        let is_free = || {
            std::thread::sleep(Duration::from_millis(2)); // poll
            held_by(home.path()).is_none()
        };
        assert!((0..1_000).any(|_| is_free()), "{:?}", held_by(home.path()));
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

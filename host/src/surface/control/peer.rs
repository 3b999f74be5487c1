//! The process at the other end of a connection: a command of a user, or a process that the host started.
//!
//! The kernel names the peer (`SO_PEERPIDFD`), and its chain of parents decides. The host is a child subreaper, so the
//! chain of every process that it started leads to it, regardless of forks and environment variables. A peer that has
//! ended, or whose chain cannot be read, does not count as a command of a user.
//!
//! A kernel before Linux 6.5 has no `SO_PEERPIDFD`. In that case `SO_PEERCRED` names the peer, and its start time is
//! compared before and after the chain is read. A process that connects, ends, and whose id the kernel gives to a
//! foreign process before the host looks is then not recognised.
//!
//! Tool processes of an earlier run of the host may outlive it, and then have no parent here. The list of the earlier
//! run identifies them and their own children, and so does the mark in their environment, unless this host carries such
//! a mark itself.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use hermes_agent::tools::environment::MARK;
use hermes_system::children::{ProcessId, ProcessStat};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use tokio::net::UnixStream;

/// Attempts to read a chain of parents while its processes end.
const TRIES: usize = 16;

/// Parents that are examined. A longer chain counts as unreadable.
const DEPTH_MAX: usize = 4_096;

/// The relation of a peer to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A process that neither descends from the host nor carries the mark of a tool.
    Outside,
    /// A descendant of the host.
    Descendant,
    /// A leftover of an earlier run of a host, or a process with the mark of a tool.
    Left,
    /// A process that has ended, or whose parents cannot be read.
    Unknown,
}

/// A peer as the kernel names it.
#[derive(Debug)]
pub struct Peer {
    pidfd: Option<OwnedFd>,
    pid: u32,
}

impl Peer {
    /// Returns the peer of a connection; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn of(stream: &UnixStream) -> io::Result<Option<Self>> {
        match getsockopt(stream, sockopt::PeerPidfd) {
            Ok(pidfd) => Ok(pid_of(&pidfd)?.map(|pid| Self { pidfd: Some(pidfd), pid })),
            Err(Errno::ENOPROTOOPT) => Ok(Self::by_credentials(stream)?),
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn by_credentials(stream: &UnixStream) -> io::Result<Option<Self>> {
        let pid = stream.peer_cred()?.pid().unwrap_or_default();
        Ok(u32::try_from(pid).ok().map(|pid| Self { pidfd: None, pid }))
    }

    /// Returns its process id; 0 if it runs outside of the host's process namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Determines its relation to the process `host`, whose earlier runs left the processes in `left`. Reads `/proc`,
    /// which may block.
    pub fn origin(&self, host: u32, left: &BTreeSet<ProcessId>) -> Origin {
        // A terminal may run the host in its own process.
        if self.pid == host {
            return Origin::Outside;
        }
        // The host and all processes that it starts are in its namespace or in one below.
        if self.pid == 0 {
            return Origin::Outside;
        }
        let started = ProcessStat::of(self.pid).map(|stat| stat.started);
        let relation = (0..TRIES).find_map(|_| relation(self.pid, host, left, ProcessStat::of));
        let is_same = match &self.pidfd {
            Some(pidfd) => pid_of(pidfd).is_ok_and(|pid| pid == Some(self.pid)),
            None => ProcessStat::of(self.pid).map(|stat| stat.started) == started,
        };
        match relation {
            Some(Origin::Outside) if !is_same => Origin::Unknown,
            Some(Origin::Outside) if is_marked(self.pid) && !is_marked(host) => Origin::Left,
            relation => relation.unwrap_or(Origin::Unknown),
        }
    }
}

/// Returns the process id of a pidfd; `None` if it has ended.
fn pid_of(pidfd: &OwnedFd) -> io::Result<Option<u32>> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
    let pid: i64 = pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| io::Error::other("/proc names no process"))?;
    Ok(u32::try_from(pid).ok())
}

/// Returns the relation of `pid` to `host` by its chain of parents; `None` if the chain changed while it was read.
fn relation(
    pid: u32,
    host: u32,
    left: &BTreeSet<ProcessId>,
    stat: impl Fn(u32) -> Option<ProcessStat>,
) -> Option<Origin> {
    let (mut child, mut of_child) = (pid, stat(pid)?);
    for _ in 0..DEPTH_MAX {
        match of_child.parent {
            _ if left.contains(&(child, of_child.started)) => return Some(Origin::Left),
            parent if parent == host => return Some(Origin::Descendant),
            0 => return Some(Origin::Outside),
            parent => {
                let of_parent = stat(parent)?;
                // The id may belong to another process by now, unless the child still has this parent.
                if stat(child)? != of_child {
                    return None;
                }
                (child, of_child) = (parent, of_parent);
            }
        }
    }
    None
}

/// Returns `true` if a process carries the mark of a tool in its environment.
fn is_marked(pid: u32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable.strip_prefix(MARK.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const HOST: u32 = 50;

    fn chain(parents: &[(u32, u32)]) -> BTreeMap<u32, ProcessStat> {
        let stat = |parent| ProcessStat { parent, started: 1, is_zombie: false };
        parents.iter().map(|(pid, parent)| (*pid, stat(*parent))).collect()
    }

    #[test]
    fn the_chain_of_parents_decides() {
        let all = chain(&[(1, 0), (40, 1), (HOST, 40), (60, HOST), (61, 60), (70, 40)]);
        let leads = |pid| relation(pid, HOST, &BTreeSet::new(), |pid| all.get(&pid).copied());
        assert_eq!([leads(60), leads(61)], [Some(Origin::Descendant); 2]);
        assert_eq!(
            [leads(70), leads(40), leads(1)],
            [Some(Origin::Outside); 3],
            "a sibling, the shell of the host, init"
        );
        let left = |started| relation(70, HOST, &BTreeSet::from([(70, started)]), |pid| all.get(&pid).copied());
        assert_eq!(left(1), Some(Origin::Left));
        assert_eq!(left(2), Some(Origin::Outside), "its number passed to another process");
        let parent = relation(61, 999, &BTreeSet::from([(60, 1)]), |pid| all.get(&pid).copied());
        assert_eq!(parent, Some(Origin::Left), "a child of one that was left");
        assert_eq!(leads(99), None, "it has ended");
        let hidden = chain(&[(60, 59)]);
        let found = relation(60, HOST, &BTreeSet::new(), |pid| hidden.get(&pid).copied());
        assert_eq!(found, None, "its parent is hidden");
    }

    #[test]
    fn a_chain_that_changes_while_it_is_read_decides_nothing() {
        let reads = std::cell::Cell::new(0);
        // The parent ends after the first read, and its id is reused by a foreign process.
        let stat = |pid| {
            reads.set(reads.get() + 1);
            let parent = match (pid, reads.get()) {
                (61, 1) => 60,
                (61, _) => HOST,
                (60, _) => 1,
                _ => 0,
            };
            Some(ProcessStat { parent, started: 1, is_zombie: false })
        };
        assert_eq!(relation(61, HOST, &BTreeSet::new(), stat), None);
        let second = relation(61, HOST, &BTreeSet::new(), stat);
        assert_eq!(second, Some(Origin::Descendant), "the second attempt sees the adoption");
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let ring = chain(&[(60, 61), (61, 60)]);
        assert_eq!(relation(60, HOST, &BTreeSet::new(), |pid| ring.get(&pid).copied()), None);
    }

    #[tokio::test]
    async fn the_kernel_names_the_peer() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let own = std::process::id();
        for peer in [Peer::of(&ours).unwrap().unwrap(), Peer::by_credentials(&ours).unwrap().unwrap()] {
            assert_eq!(peer.pid(), own);
            assert_eq!(peer.origin(own, &BTreeSet::new()), Origin::Outside, "the terminal that runs the host");
            let parent = ProcessStat::of(own).unwrap().parent;
            assert_eq!(peer.origin(parent, &BTreeSet::new()), Origin::Descendant, "this test is a child of its runner");
        }
    }
}

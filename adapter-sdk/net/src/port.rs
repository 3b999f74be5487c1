//! The error for a port that cannot be bound: the process that holds it, as far as `/proc`
//! shows it to this user, and whether a retry may succeed.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use hermes_protocol::ConnectError;

/// The maximum number of inspected processes.
const PROCESSES_MAX: usize = 4_096;

/// Returns the error for a failed bind to `address`, which comes from the config key `key`.
///
/// A port that is in use becomes free, and a missing address appears with its network: both
/// are retried. An error that only the operator can fix is fatal.
pub fn refused(key: &str, address: SocketAddr, error: &io::Error) -> ConnectError {
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrInUse => ConnectError::retry(match holder(address) {
            Some(holder) => {
                format!("`{key}` {address} is in use by {holder}; stop it, or choose another port")
            }
            None => format!(
                "`{key}` {address} is in use by another process; find it with `ss -ltnp 'sport = :{port}'`, or choose another port"
            ),
        }),
        ErrorKind::PermissionDenied => ConnectError::fatal(
            format!("`{key}` {address} cannot be used: this user has no permission to listen there ({error})"),
            "choose a port of 1024 or higher",
        ),
        _ => ConnectError::retry(format!("`{key}` {address} cannot be used: {error}")),
    }
}

/// Returns the process that listens on the port of `address` as `process 123 (name)`, if it is visible.
pub fn holder(address: SocketAddr) -> Option<String> {
    let wanted = format!("socket:[{}]", inode_of(address.port())?);
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).take(PROCESSES_MAX);
    let pid = pids.find(|pid| has_file(*pid, &wanted))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

fn has_file(pid: u32, wanted: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == wanted)
}

/// Returns the inode of the socket that listens on `port`.
fn inode_of(port: u16) -> Option<String> {
    /// The state of a listening socket.
    const LISTEN: &str = "0A";
    let tail = format!(":{port:04X}");
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, _, LISTEN, _, _, _, _, _, inode, ..] = fields.as_slice() {
                if local.ends_with(&tail) {
                    return Some((*inode).to_owned());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_taken_port_is_tried_again_and_its_holder_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("an address");
        let error = TcpListener::bind(address).expect_err("it is taken");
        let ConnectError::Retry { reason, .. } = refused("listen", address, &error) else { panic!("it comes free") };
        assert!(
            reason.starts_with(&format!("`listen` {address} is in use by process {}", std::process::id())),
            "{reason}"
        );
        drop(taken);
        assert_eq!(holder(address), None);
    }

    #[test]
    fn only_what_a_person_has_to_change_is_fatal() {
        let of = |kind: ErrorKind| refused("listen", "127.0.0.1:80".parse().expect("it is one"), &kind.into());
        assert!(matches!(of(ErrorKind::PermissionDenied), ConnectError::Fatal { .. }));
        assert!(matches!(of(ErrorKind::AddrNotAvailable), ConnectError::Retry { .. }));
        assert!(matches!(of(ErrorKind::Other), ConnectError::Retry { .. }));
    }
}

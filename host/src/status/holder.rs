//! Who has a port, as far as this user can see it in `/proc`.

use std::fs;
use std::net::SocketAddr;

/// How many processes are looked at.
const PROCESSES_MAX: usize = 4_096;

/// ` by process 123 (name)` for who listens on the port of `address`; empty when it cannot be seen.
pub fn of_port(address: SocketAddr) -> String {
    let Some(inode) = inode_of(address.port()) else { return String::new() };
    let wanted = format!("socket:[{inode}]");
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).take(PROCESSES_MAX);
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        if files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == wanted.as_str())
        {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            return format!(" by process {pid} ({})", name.trim());
        }
    }
    String::new()
}

/// The inode of the socket that listens on `port`.
fn inode_of(port: u16) -> Option<String> {
    /// The state word of a listening socket.
    const LISTEN: &str = "0A";
    let tail = format!(":{port:04X}");
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, _, LISTEN, _, _, _, _, _, inode, ..] = fields.as_slice()
                && local.ends_with(&tail)
            {
                return Some((*inode).to_owned());
            }
        }
    }
    None
}

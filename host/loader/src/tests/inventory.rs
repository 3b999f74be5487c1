//! The inventory of the accesses of a sandboxed adapter, and the page that shows it.
//!
//! `contained.rs` attempts every entry. `host/docs/guide/security.md` contains [`page`]; a test compares them.

use std::fmt::Write as _;

/// The part of the system that refuses an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The system call filter, on every kernel.
    Filter,
    /// The kernel, because the adapter has no capabilities.
    Rights,
    /// The host, which passes nothing on.
    Host,
    /// Landlock; open without it.
    Landlock,
    /// Landlock, for a library only: the ports of a program are not known before it runs.
    LandlockOfLibraries,
}

/// One attempt of `tests/fixtures/hostile/src/reach.c`.
pub(super) struct Entry {
    /// The name of the attempt.
    pub(super) name: &'static str,
    /// The access, for the page.
    pub(super) access: &'static str,
    pub(super) by: By,
    /// `true` if an unconfined process of a plain user succeeds on every Linux, so that a test can show the difference.
    pub(super) anyone: bool,
}

const fn plain(name: &'static str, by: By, access: &'static str) -> Entry {
    Entry { name, access, by, anyone: true }
}

const fn special(name: &'static str, by: By, access: &'static str) -> Entry {
    Entry { name, access, by, anyone: false }
}

/// The contained accesses.
pub(super) const CONTAINED: &[Entry] = &[
    plain("file_read", By::Landlock, "Read `.env`, the database and other files of the home"),
    plain("file_write", By::Landlock, "Write to files outside of its own folders"),
    plain("file_create", By::Landlock, "Create files outside of its own folders"),
    plain("file_list", By::Landlock, "List folders such as `logs/`"),
    plain("file_remove", By::Landlock, "Remove files of others"),
    plain("file_rename", By::Landlock, "Rename files of others"),
    plain("file_truncate", By::Landlock, "Truncate files of others"),
    plain("file_link", By::Landlock, "Make a hard link to a file of others"),
    plain("file_symlink", By::Landlock, "Make a symbolic link for another process to follow"),
    plain("file_pipe", By::Landlock, "Make a named pipe on which another process would block"),
    plain("file_execute", By::Landlock, "Execute a file that it wrote"),
    plain("shared_files", By::Landlock, "Files in `/dev/shm` and `/tmp`"),
    special("file_passwords", By::Landlock, "Files of `/etc` that not everybody may read, such as `/etc/shadow`"),
    plain("file_mode", By::Filter, "Change the mode of a file by its path"),
    plain("file_owner", By::Filter, "Change the owner of a file by its path"),
    plain("file_times", By::Filter, "Change the times of a file by its path"),
    special("file_attributes", By::Filter, "Change the attributes of a file by its path"),
    plain("file_set_id", By::Filter, "Make a file that runs with its owner's or group's rights"),
    special("file_handle", By::Filter, "Open a file by its handle, around its path"),
    plain("file_watch", By::Filter, "Watch the names of new files (inotify, fanotify)"),
    plain("terminal_open", By::Landlock, "Terminals and other devices"),
    special("terminal_control", By::Host, "The terminal in which the host was started"),
    special("terminal_type", By::Filter, "Type into a terminal (`TIOCSTI`, `TIOCLINUX`)"),
    plain("process_signal", By::Filter, "Signals to other processes"),
    plain("process_group_signal", By::Filter, "Signals to the groups of other processes"),
    plain("process_pidfd", By::Filter, "Signals and descriptors through a pidfd"),
    plain("process_owner_signal", By::Filter, "Signals through the owner of a descriptor (`F_SETOWN`)"),
    special("process_trace", By::Filter, "`ptrace`"),
    special("process_memory", By::Filter, "Memory and pages of other processes"),
    special("process_robust_list", By::Filter, "Addresses in other processes"),
    special("process_files", By::Landlock, "Environment, memory and files of other processes below `/proc`"),
    plain("process_settings", By::Landlock, "Settings of other processes below `/proc` (`oom_score_adj`, `autogroup`)"),
    plain("process_limits", By::Filter, "Limits of other processes (`prlimit`)"),
    plain("process_schedule", By::Filter, "Scheduling of other processes"),
    plain("process_affinity", By::Filter, "CPU affinity of other processes"),
    plain("process_priority", By::Filter, "Priority of other processes and of their groups"),
    special("user_priority", By::Filter, "Priority of all processes of its user or group"),
    plain("process_io_priority", By::Filter, "I/O priority of other processes"),
    special("process_core", By::Filter, "Core scheduling with other processes"),
    plain("process_sibling", By::Filter, "A child that the host would have to wait for (`CLONE_PARENT`)"),
    special("other_users", By::Rights, "Become another user or group"),
    plain("unix_path", By::Filter, "Unix sockets by path: the control socket, D-Bus, a Docker daemon"),
    plain("unix_abstract", By::Filter, "Unix sockets by abstract name"),
    plain("unix_datagram", By::Filter, "Unix datagrams, also from a pair of sockets"),
    special("unix_again", By::Filter, "Another connection of a socket pair"),
    special("other_families", By::Filter, "Sockets other than IPv4, IPv6 and netlink (`AF_PACKET`, `AF_VSOCK`, …)"),
    plain("netlink_other", By::Filter, "Netlink other than the routing table"),
    special("raw_packets", By::Rights, "Raw packets"),
    plain("tcp_bind", By::LandlockOfLibraries, "Listen on a TCP port that neither manifest nor section names"),
    plain("shared_memory", By::Filter, "System V shared memory"),
    plain("semaphores", By::Filter, "System V semaphores"),
    plain("message_queues", By::Filter, "System V and POSIX message queues"),
    special("keyrings", By::Filter, "Keyrings (`add_key`, `request_key`, `keyctl`)"),
    special("io_uring", By::Filter, "`io_uring`"),
    special("namespace_new", By::Filter, "New namespaces (`unshare`, `clone`, `clone3`)"),
    special("namespace_join", By::Filter, "Namespaces of other processes (`setns`)"),
    special("mounts", By::Filter, "Mounts, `pivot_root` and `chroot`"),
    special("modules", By::Filter, "Kernel modules and `kexec`"),
    special("observers", By::Filter, "`bpf`, `perf_event_open`, `userfaultfd`, the kernel log"),
    special("clocks", By::Filter, "The clocks of the machine"),
    special("machine", By::Filter, "Restart, host name, swap, accounting, quotas, I/O ports"),
    plain("personalities", By::Filter, "Weaker memory protection (`personality`)"),
    special("other_conventions", By::Filter, "System calls of 32-bit programs and of x32"),
    special("inherited_files", By::Host, "Open files of the host"),
    special("inherited_environment", By::Host, "Environment variables of the host"),
];

/// The accesses that an adapter keeps; these attempts must succeed.
pub(super) const KEPT: &[(&str, &str)] = &[
    ("keeps_itself", "Signals, limits, scheduling and priority of itself"),
    ("keeps_children", "Threads, and programs of the system"),
    ("keeps_pairs", "Pairs of connected Unix sockets, which event loops use"),
    ("keeps_network", "TCP, UDP and the routing table"),
    ("keeps_names", "Name resolution"),
    ("keeps_own_files", "Files in its media and data folders, with mode and times of an open file"),
    ("keeps_system_files", "Files of the system that everybody may read"),
    ("keeps_own_memory", "Anonymous files in memory"),
];

/// Kept only where Landlock limits signals (version 6, Linux 6.12): the filter cannot tell children from others.
pub(super) const KEPT_WITH_LANDLOCK: &str = "keeps_signals_to_children";

/// The accesses that are not contained.
const OPEN: &[&str] = &[
    "The network. An adapter can connect to every address that the machine reaches, including services on `127.0.0.1` \
     that trust local connections: the status page, a local model server, a database, `ssh` to localhost with a key \
     or password that the adapter has. `connects` in a manifest is information, not a limit.",
    "TCP ports of a program (`command`) and UDP ports of every adapter: it can listen on any free port above 1023.",
    "CPU time, memory, disk space in its own folders and the number of its processes. Use the limits of the service \
     manager (`MemoryMax`, `TasksMax`, `CPUQuota` in a systemd unit).",
    "Names and command lines of other processes below `/proc`, unless it is mounted with `hidepid`.",
    "Existence, size, mode and times of files whose path it knows (`stat`).",
    "Processes that it starts and that leave its session. They stay confined, and can outlive the adapter.",
    "With `[host] unix_sockets`: every Unix socket of this user. D-Bus then starts processes outside of the sandbox \
     (`systemd-run --user`), and so do a Docker daemon, `ssh-agent` and a tmux server. The control socket of the host \
     refuses processes that the host started.",
    "Without Landlock: everything that the table calls open. An adapter can then write files that other programs of \
     this user execute (`~/.profile`, `~/.config/systemd/user`, jobs of `at` and `cron`), so the sandbox stops \
     accidents and not attackers.",
    "Libraries next to the binary and sections with `isolation = \"in-process\"`: they run inside the host and can do \
     everything that the host can.",
    "With `[host] confine = \"off\"`: everything.",
];

/// Returns the generated part of the page.
pub(super) fn page() -> String {
    let mut page = String::from("| Access | Refused by | Without Landlock | Attempt |\n|---|---|---|---|\n");
    for Entry { name, access, by, .. } in CONTAINED {
        let (by, without) = match by {
            By::Filter => ("system call filter", "refused"),
            By::Rights => ("no capabilities", "refused"),
            By::Host => ("the host", "refused"),
            By::Landlock => ("Landlock", "open"),
            By::LandlockOfLibraries => ("Landlock (libraries)", "open"),
        };
        writeln!(page, "| {access} | {by} | {without} | `{name}` |").expect("a text takes every line");
    }
    page.push_str("\n## Not contained\n\n");
    for open in OPEN {
        writeln!(page, "* {open}").expect("a text takes every line");
    }
    page.push_str("\n## Kept\n\n");
    for (name, kept) in KEPT {
        writeln!(page, "* {kept} (`{name}`).").expect("a text takes every line");
    }
    writeln!(
        page,
        "* Signals to its own children, where Landlock limits signals (Linux 6.12) (`{KEPT_WITH_LANDLOCK}`)."
    )
    .expect("a text takes every line");
    page
}

#[test]
fn the_security_page_shows_the_inventory() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/security.md");
    let shown = std::fs::read_to_string(path).unwrap_or_default();
    assert!(shown.contains(&page()), "replace the tables of {path} by:\n\n{}", page());
}

//! The system calls that a sandboxed adapter is refused.
//!
//! The list names refusals, not permissions, so an adapter works with every version of every C library.
//! `host/docs/guide/security.md` gives the reason of each refusal; the tests in `host/loader/src/tests/inventory.rs`
//! attempt each of them.
//!
//! A filter sees numbers only. Pointers cannot be followed, so paths and addresses cannot be checked. Calls that name
//! another process compare the process id with the adapter's own. Calls that change a file by its path are refused
//! completely, because Landlock does not cover them; the variants that take an open file are allowed.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Calls that are refused with every argument.
const DENIED: &[libc::c_long] = &[
    // Memory and descriptors of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Shared memory, semaphores and queues that any process of the same user can open by number or name.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // The kernel, its modules and its tracing.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    // Keyrings.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Mounts, roots, namespaces, and ways to open a file without its path.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // Notifications about files of other processes.
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // Settings of the machine.
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    // Mode, owner, times and attributes of a file named by path.
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls that are reported as missing in this kernel; every C library and runtime has a fallback.
///
/// The flags of `clone3` are behind a pointer. The target of a signal through a pidfd is a descriptor. A filter can
/// check neither.
const ABSENT: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal];

// Numbers that the `libc` crate does not name on every architecture, although they are equal on all of them.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const OPEN_TREE_ATTR: libc::c_long = 467;
const FILE_SETATTR: libc::c_long = 469;

/// Refused flags of `clone`: namespaces, and a child whose parent is the host.
const CLONE_FLAGS: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_PARENT,
];

/// Calls whose first argument is the process that they change. 0 is the caller.
const OF_A_PROCESS: &[libc::c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_get_robust_list,
];

/// Calls whose first argument is the process that receives a signal, for kernels on which Landlock does not limit
/// signals.
const SIGNALS: &[libc::c_long] =
    &[libc::SYS_tgkill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];

/// Refused commands of `ioctl`: terminal input, and a new owner of a descriptor, which receives its signals.
const IOCTLS: &[u32] = &[TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP];
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;

/// Refused commands of `fcntl`: a new owner of a descriptor, which receives its signals.
const FCNTLS: &[u32] = &[libc::F_SETOWN.cast_unsigned(), F_SETOWN_EX];
const F_SETOWN_EX: u32 = 15;

/// Refused option of `prctl`: core scheduling together with another process.
const PR_SCHED_CORE: u32 = 62;

/// Allowed arguments of `personality`: Linux, its 32-bit form, version 2.6 of each, and the query.
const PERSONALITIES: &[u32] = &[0, 0x8, 0x2_0000, 0x2_0008, u32::MAX];

/// Refused socket types of a pair. A datagram socket can send to any address.
const PAIR_ODD: u64 = 1;
const PAIR_NEVER: [u64; 2] = [2, 8];

const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;
const NETLINK_ROUTE: u32 = libc::NETLINK_ROUTE.cast_unsigned();
const PROT_EXEC: u64 = libc::PROT_EXEC as u64;
const SUID_SGID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

/// Lowest system call number of the x32 ABI, which reaches the same kernel functions by other numbers.
const X32: u32 = 0x4000_0000;

/// Calls that a sealed process keeps: its open descriptors, its memory, its own exit.
const KEPT: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The limits that depend on the adapter and the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The process id of the adapter.
    pub(super) own: u32,
    /// `true` if it may open Unix sockets.
    pub(super) unix_sockets: bool,
    /// `true` if Landlock already limits signals to the adapter and its children.
    pub(super) signals_limited: bool,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses the calls for this thread and all threads and processes that it starts.
pub(super) fn restrict(limits: Limits) -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    for filter in filters(arch, limits).map_err(|error| error.to_string())? {
        seccompiler::apply_filter(&filter).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Refuses all calls of this thread except those for computation.
pub(super) fn seal() -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = sealed(arch, std::process::id()).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&filter).map_err(|error| error.to_string())
}

fn sealed(arch: TargetArch, own: u32) -> Result<BpfProgram, BackendError> {
    let mut kept: Rules = KEPT.iter().map(|number| (*number, Vec::new())).collect();
    let no_code = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(PROT_EXEC), 0)?;
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        kept.insert(number, vec![rule(vec![no_code.clone()])?]);
    }
    // `abort` sends a signal to its own process.
    kept.insert(libc::SYS_tgkill, vec![rule(vec![is(0, own)?])?]);
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(kept, refusal, SeccompAction::Allow, arch)?.try_into()
}

/// Builds the filters: calls that are refused, and calls that are reported as missing.
fn filters(arch: TargetArch, limits: Limits) -> Result<Vec<BpfProgram>, BackendError> {
    let mut denied: Rules = DENIED.iter().map(|number| (*number, Vec::new())).collect();
    denied.extend(of_processes(limits)?);
    denied.extend(of_signals(limits)?);
    denied.extend(of_sockets(limits)?);
    denied.extend(of_descriptors()?);
    let clones = CLONE_FLAGS.iter().map(|flag| rule(vec![has_bits(0, u64::from(flag.cast_unsigned()))?]));
    denied.insert(libc::SYS_clone, clones.collect::<Result<_, _>>()?);
    let personality = PERSONALITIES.iter().map(|asked| is_not(0, *asked)).collect::<Result<_, _>>()?;
    denied.insert(libc::SYS_personality, vec![rule(personality)?]);
    denied.insert(libc::SYS_prctl, vec![rule(vec![is(0, PR_SCHED_CORE)?])?]);
    let absent = ABSENT.iter().map(|number| (*number, Vec::new())).collect();
    let mut filters = vec![filter(denied, libc::EPERM, arch)?, filter(absent, libc::ENOSYS, arch)?];
    if cfg!(target_arch = "x86_64") {
        filters.push(without_x32());
    }
    Ok(filters)
}

fn filter(rules: Rules, errno: libc::c_int, arch: TargetArch) -> Result<BpfProgram, BackendError> {
    let refusal = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()
}

/// Refuses to change limits, scheduling and priorities of other processes.
fn of_processes(limits: Limits) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for number in OF_A_PROCESS {
        rules.insert(*number, vec![other_than(0, &[0, limits.own])?]);
    }
    for (number, process) in [(libc::SYS_setpriority, PRIO_PROCESS), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)] {
        // A process group or a user may include other processes, so only single processes are allowed.
        rules.insert(number, vec![other_than(0, &[process])?, other_than(1, &[0, limits.own])?]);
    }
    Ok(rules)
}

fn of_signals(limits: Limits) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    if limits.signals_limited {
        return Ok(rules);
    }
    for number in SIGNALS {
        rules.insert(*number, vec![other_than(0, &[limits.own])?]);
    }
    // 0 and the negative process id mean the group that the adapter leads.
    rules.insert(libc::SYS_kill, vec![other_than(0, &[0, limits.own, limits.own.wrapping_neg()])?]);
    Ok(rules)
}

/// Allows sockets of the network and the routing table, and pairs of Unix sockets that only reach each other.
fn of_sockets(limits: Limits) -> Result<Rules, BackendError> {
    let family = |family: libc::c_int| family.cast_unsigned();
    let mut families = vec![family(libc::AF_INET), family(libc::AF_INET6), family(libc::AF_NETLINK)];
    let mut pairs = vec![other_than(0, &[family(libc::AF_UNIX)])?];
    if limits.unix_sockets {
        families.push(family(libc::AF_UNIX));
    } else {
        let ask = |bits: u64, value: u64| {
            SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), value)
        };
        pairs.push(rule(vec![ask(PAIR_ODD, 0)?])?);
        for bit in PAIR_NEVER {
            pairs.push(rule(vec![ask(bit, bit)?])?);
        }
    }
    let netlink = rule(vec![is(0, family(libc::AF_NETLINK))?, is_not(2, NETLINK_ROUTE)?])?;
    Ok(Rules::from([(libc::SYS_socket, vec![other_than(0, &families)?, netlink]), (libc::SYS_socketpair, pairs)]))
}

/// Refuses some commands of calls that take a descriptor.
fn of_descriptors() -> Result<Rules, BackendError> {
    let one_of = |words: &[u32]| words.iter().map(|word| rule(vec![is(1, *word)?])).collect::<Result<Vec<_>, _>>();
    let modes = SUID_SGID.iter().map(|bit| rule(vec![has_bits(1, *bit)?]));
    // A non-null second argument is a path; without it the call changes an open file.
    let by_path = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    Ok(Rules::from([
        (libc::SYS_ioctl, one_of(IOCTLS)?),
        (libc::SYS_fcntl, one_of(FCNTLS)?),
        (libc::SYS_fchmod, modes.collect::<Result<_, _>>()?),
        (libc::SYS_utimensat, vec![rule(vec![by_path])?]),
    ]))
}

/// Reports every call of the x32 ABI as missing, as most kernels do.
fn without_x32() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ERRNO: u32 = 0x0005_0000;
    const ALLOW: u32 = 0x7fff_0000;
    let next = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    vec![
        next(LOAD, 0),
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        next(RETURN, ERRNO | libc::ENOSYS.cast_unsigned()),
        next(RETURN, ALLOW),
    ]
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

/// Matches an argument that equals none of `values`.
fn other_than(argument: u8, values: &[u32]) -> Result<SeccompRule, BackendError> {
    rule(values.iter().map(|value| is_not(argument, *value)).collect::<Result<_, _>>()?)
}

// The kernel reads only the lower half of these arguments.

fn is(argument: u8, value: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value.into())
}

fn is_not(argument: u8, value: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value.into())
}

fn has_bits(argument: u8, bits: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bits), bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_for_every_supported_machine_and_choice() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            for (unix_sockets, signals_limited) in [(false, false), (false, true), (true, false), (true, true)] {
                let filters = filters(arch, Limits { own: 7, unix_sockets, signals_limited }).unwrap();
                assert!(filters.len() >= 2 && filters[0].len() > DENIED.len());
            }
            assert!(sealed(arch, 7).unwrap().len() > KEPT.len());
        }
    }
}

//! System calls that no adapter has a use for: they are answered EPERM.
//!
//! A list of what is denied, not of what is allowed: a program that speaks over the
//! network keeps working with every C library and every release of one.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// Looking into other processes, changing the kernel, its mounts, its keys or its clock, and interfaces that serve
/// debuggers and attackers more than anybody else.
const DENIED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
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
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Flags of `clone` that make namespaces, as `unshare` does.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Bit of a system call's number under the x32 calling convention, which reaches the same kernel.
const X32: libc::c_long = 0x4000_0000;

/// Denies the list to this thread and to all that it starts.
pub(super) fn restrict() -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let (denied, absent) = filters(arch).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&denied).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&absent).map_err(|error| error.to_string())
}

/// What is denied, and what the kernel is said not to have.
fn filters(arch: TargetArch) -> Result<(BpfProgram, BpfProgram), seccompiler::BackendError> {
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|number| (*number, Vec::new())).collect();
    if cfg!(target_arch = "x86_64") {
        denied.extend(DENIED.iter().map(|number| (number | X32, Vec::new())));
    }
    let mut namespaces = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        let asked = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
        namespaces.push(SeccompRule::new(vec![asked])?);
    }
    denied.insert(libc::SYS_clone, namespaces);
    let errno = |errno: libc::c_int| SeccompAction::Errno(errno.cast_unsigned());
    let denied = SeccompFilter::new(denied, SeccompAction::Allow, errno(libc::EPERM), arch)?;
    // Its flags lie behind a pointer, which a filter cannot follow; every C library then falls back to `clone`.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let absent = SeccompFilter::new(absent, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
    Ok((denied.try_into()?, absent.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_for_every_machine_that_has_them() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            let (denied, absent) = filters(arch).unwrap();
            assert!(denied.len() > DENIED.len() && !absent.is_empty());
        }
    }
}

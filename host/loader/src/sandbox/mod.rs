//! The restrictions that a child applies before it runs foreign code.
//!
//! Every step is requested from the kernel, and a refusal is reported: the process boundary is the protection, and
//! these steps only narrow the access behind it. First come the restrictions of every child ([`enter`]), then the
//! limits of this one ([`Allowed`]): files and ports ([`files`]), system calls ([`calls`]).

mod allowed;
mod calls;
mod files;
mod ground;
mod public;

pub(super) use allowed::Allowed;
use calls::Limits;
pub(super) use ground::Ground;
use rustix::{
    process::{Resource, Rlimit, Signal},
    thread::CapabilitySet,
};

/// Files that an adapter may hold open.
const FILES_MAX: u64 = 4096;
/// Address space of a library's child, in bytes. The limit is high, because threads reserve much more than they use.
const ADDRESS_BYTES_MAX: u64 = 32 * 1024 * 1024 * 1024;
/// The nice value of a sealed child. The host has priority.
const SEALED_NICE: i32 = 10;

/// Applies the restrictions that every child gets. Returns those that the kernel refused.
///
/// `parent` is the process id of the host; a child whose host is already gone exits here. A program of another language
/// keeps its address space, because some virtual machines reserve terabytes.
pub(super) fn enter(parent: u32, program: bool) -> Vec<String> {
    let mut refused = Vec::new();
    let mut note = |what: &str, result: rustix::io::Result<()>| {
        if let Err(error) = result {
            refused.push(format!("{what}: {error}"));
        }
    };
    note("parent-death signal", rustix::process::set_parent_process_death_signal(Some(Signal::KILL)));
    // The kernel sends no signal for a parent that ended before the request.
    let actual = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if actual != Some(parent) {
        std::process::exit(crate::runner::EXIT_NO_HOST.into());
    }
    // A new session has no terminal to read or type into, and no process group of the host to join.
    note("session of its own", rustix::process::setsid().map(drop));
    note("inherited descriptors", crate::ffi::close_inherited());
    note("no new privileges", rustix::thread::set_no_new_privs(true));
    note("limit of open files", limit(Resource::Nofile, FILES_MAX));
    note("limit of core files", limit(Resource::Core, 0));
    if !program {
        note("limit of address space", limit(Resource::As, ADDRESS_BYTES_MAX));
    }
    refused
}

/// Applies the limits of `allowed` to this thread and all threads and processes that it starts. Returns the
/// restrictions in force.
pub(super) fn confine(allowed: &Allowed) -> String {
    let powers = lay_down_powers().err().map(|why| format!(", with all capabilities of its user: {why}"));
    let files = files::restrict(allowed);
    let limits = Limits {
        own: std::process::id(),
        unix_sockets: allowed.unix_sockets,
        signals_limited: files.as_ref().is_ok_and(|files| files.signals),
    };
    let calls = calls::restrict(limits).map_or_else(|why| format!("no seccomp: {why}"), |()| "seccomp".to_owned());
    let files = files.map_or_else(|why| format!("no landlock: {why}"), |files| files.words);
    let sockets = if allowed.unix_sockets { ", unix sockets allowed" } else { "" };
    format!("{files}, {calls}{sockets}{}", powers.unwrap_or_default())
}

/// The memory and processor time of a sealed child.
#[derive(Clone, Copy, Debug)]
pub struct SealLimits {
    /// Address space, in bytes.
    pub address_bytes_max: u64,
    /// Processor time, in seconds.
    pub cpu_s_max: u64,
}

/// Restricts this thread to its open descriptors, and to memory and processor time up to these limits.
///
/// Landlock is not needed: none of the remaining calls can open a path.
pub(super) fn seal(limits: SealLimits) -> Result<(), String> {
    let bounds = [
        (Resource::As, limits.address_bytes_max),
        (Resource::Cpu, limits.cpu_s_max),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ];
    for (resource, max) in bounds {
        limit(resource, max).map_err(|error| format!("{resource:?}: {error}"))?;
    }
    // A refusal only affects scheduling.
    let _ = rustix::process::nice(SEALED_NICE);
    calls::seal()
}

/// Drops most capabilities of the superuser, which would bypass the limits that follow: among other things it can read
/// the environment of every process. Access to files of other users and low ports remain.
fn lay_down_powers() -> rustix::io::Result<()> {
    let left = CapabilitySet::DAC_OVERRIDE | CapabilitySet::NET_BIND_SERVICE;
    let mut sets = rustix::thread::capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        *set &= left;
    }
    rustix::thread::set_capabilities(None, sets)
}

/// Lowers a limit; a lower limit stays.
fn limit(resource: Resource, max: u64) -> rustix::io::Result<()> {
    let present = rustix::process::getrlimit(resource);
    let lower = |value: Option<u64>| Some(value.map_or(max, |value| value.min(max)));
    rustix::process::setrlimit(resource, Rlimit { current: lower(present.current), maximum: lower(present.maximum) })
}

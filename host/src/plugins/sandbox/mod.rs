//! What a child gives up before it runs foreign code.
//!
//! Every step is asked of the kernel and its refusal is told: the process border
//! is the protection, these only narrow what lies behind it. First what every
//! child gives up ([`enter`]), then what the host allows this one ([`Allowed`]):
//! files and ports ([`files`]), system calls ([`calls`]).

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

/// Files an adapter may hold open.
const FILES_MAX: u64 = 4096;
/// Address space of a library's child, in bytes; generous, because threads reserve much more than they use.
const ADDRESS_BYTES_MAX: u64 = 32 * 1024 * 1024 * 1024;
/// Priority of a sealed child below that of the host.
const SEALED_NICE: i32 = 10;

/// Gives up what no child needs. Returns what the kernel refused.
///
/// `parent` is the host; a child whose host is already gone ends here. A program of another language keeps its
/// address space: some virtual machines reserve terabytes of it.
pub(super) fn enter(parent: u32, program: bool) -> Vec<String> {
    let mut refused = Vec::new();
    let mut note = |what: &str, result: rustix::io::Result<()>| {
        if let Err(error) = result {
            refused.push(format!("{what}: {error}"));
        }
    };
    note("parent-death signal", rustix::process::set_parent_process_death_signal(Some(Signal::KILL)));
    // The signal is not sent for a parent that ended before it was asked for.
    let actual = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if actual != Some(parent) {
        std::process::exit(crate::plugins::runner::EXIT_NO_HOST.into());
    }
    // Another session has no terminal that it could read or type into, and no group of the host to join.
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

/// Gives up everything that is not allowed, on this thread and on all that it starts. Returns what is in force.
pub(super) fn confine(allowed: &Allowed) -> String {
    let powers = lay_down_powers().err().map(|why| format!(", still with all powers of its user: {why}"));
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

/// The memory and the processor time of a sealed child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealLimits {
    /// Address space in bytes.
    pub(crate) address_bytes_max: u64,
    /// Processor time in seconds.
    pub(crate) cpu_s_max: u64,
}

/// Leaves this thread its open descriptors, memory and processor time up to these limits, and nothing else.
///
/// Landlock is not needed: a path cannot be opened with the calls that are left.
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
    // The work of the host comes first. A refusal changes the order only.
    let _ = rustix::process::nice(SEALED_NICE);
    calls::seal()
}

/// Lays down what the superuser may do beyond others, which reaches around the limits that follow: among other
/// things it reads the environment of every process. Files of others and low ports are left to it.
fn lay_down_powers() -> rustix::io::Result<()> {
    let left = CapabilitySet::DAC_OVERRIDE | CapabilitySet::NET_BIND_SERVICE;
    let mut sets = rustix::thread::capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        *set &= left;
    }
    rustix::thread::set_capabilities(None, sets)
}

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, max: u64) -> rustix::io::Result<()> {
    let present = rustix::process::getrlimit(resource);
    let lower = |value: Option<u64>| Some(value.map_or(max, |value| value.min(max)));
    rustix::process::setrlimit(resource, Rlimit { current: lower(present.current), maximum: lower(present.maximum) })
}

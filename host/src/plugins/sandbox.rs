//! What a child gives up before it opens a library.
//!
//! Every step is asked of the kernel and its refusal is told: the process border
//! is the protection, these only narrow what lies behind it.

use rustix::process::{Resource, Rlimit, Signal};

/// Files an adapter may hold open.
const FILES_MAX: u64 = 4096;
/// Address space of an adapter, in bytes; generous, because threads reserve much more than they use.
const ADDRESS_BYTES_MAX: u64 = 32 * 1024 * 1024 * 1024;

/// Gives up what an adapter does not need. Returns what the kernel refused.
///
/// `parent` is the host; a child whose host is already gone ends here.
pub(super) fn enter(parent: u32) -> Vec<String> {
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
    note("no new privileges", rustix::thread::set_no_new_privs(true));
    note("limit of open files", limit(Resource::Nofile, FILES_MAX));
    note("limit of core files", limit(Resource::Core, 0));
    note("limit of address space", limit(Resource::As, ADDRESS_BYTES_MAX));
    refused
}

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, max: u64) -> rustix::io::Result<()> {
    let present = rustix::process::getrlimit(resource);
    let lower = |value: Option<u64>| Some(value.map_or(max, |value| value.min(max)));
    rustix::process::setrlimit(resource, Rlimit { current: lower(present.current), maximum: lower(present.maximum) })
}

//! Access to files and ports by Landlock. A path or port that is not allowed cannot be opened or bound.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Allowed, public};

/// The requested Landlock version. An older kernel applies its own version.
const ASKED: ABI = ABI::V6;
/// The first Landlock versions with rules for ports and for signals.
const PORTS_SINCE: u32 = 4;
const SIGNALS_SINCE: u32 = 6;

/// The folder of most system configuration. Its world-readable files are allowed.
pub(super) const ETC: &str = "/etc";

/// Files and folders that nearly every program reads or executes: libraries, interpreters, certificates, names.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/run/nscd",
    "/var/lib/ca-certificates",
    // Landlock denies access to processes outside of its domain, so other processes of the same user stay closed.
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/random",
    "/dev/urandom",
];

/// Devices without content.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// The Landlock restrictions in force.
pub(super) struct InForce {
    /// Their version and limits, for `status`.
    pub(super) words: String,
    /// `true` if signals are limited to this process and its children.
    pub(super) signals: bool,
}

/// Restricts this thread and all threads and processes that it starts. Returns the restrictions in force.
pub(super) fn restrict(allowed: &Allowed) -> Result<InForce, String> {
    let status = ask(allowed).map_err(|error| error.to_string())?;
    let abi = match status.landlock {
        LandlockStatus::NotImplemented => return Err(format!("kernel {} does not support it", kernel())),
        LandlockStatus::NotEnabled => return Err(format!("kernel {} has it disabled", kernel())),
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(format!("kernel {} does not enforce it", kernel()));
    }
    let mut limits = vec!["files"];
    if allowed.ports.is_some() && abi >= PORTS_SINCE {
        limits.push("ports");
    }
    let signals = abi >= SIGNALS_SINCE;
    if signals {
        limits.push("signals");
    }
    Ok(InForce { words: format!("landlock v{abi} ({})", limits.join(", ")), signals })
}

fn ask(allowed: &Allowed) -> Result<RestrictionStatus, RulesetError> {
    let all = AccessFs::from_all(ASKED);
    let read = AccessFs::from_read(ASKED);
    let list = BitFlags::from(AccessFs::ReadDir);
    let mut not_files = AccessFs::MakeSym | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    // A pipe would block a process that opens it.
    not_files |= AccessFs::MakeFifo;
    if !allowed.unix_sockets {
        not_files |= AccessFs::MakeSock;
    }
    // Written files cannot be executed. Symbolic links cannot be made, because they could mislead another process.
    let write = all & !AccessFs::Execute & !not_files;
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let mut ruleset = Ruleset::default().handle_access(all)?.scope(Scope::from_all(ASKED))?;
    if allowed.ports.is_some() {
        ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
    }
    let ports =
        allowed.ports.iter().flatten().map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::BindTcp)));
    let etc = public::below(Path::new(ETC), &allowed.hidden);
    // Missing paths are left out, because they cannot be opened anyway.
    ruleset
        .create()?
        .add_rules(path_beneath_rules(SYSTEM.iter().map(Path::new), read))?
        .add_rules(path_beneath_rules(&etc.whole, read))?
        .add_rules(path_beneath_rules(&etc.lists, list))?
        .add_rules(path_beneath_rules(DEVICES.iter().map(Path::new), devices))?
        .add_rules(path_beneath_rules(&allowed.reads, read))?
        .add_rules(path_beneath_rules(&allowed.lists, list))?
        .add_rules(path_beneath_rules(&allowed.writes, write))?
        .add_rules(ports)?
        .restrict_self()
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

//! Why a library does not become a running adapter: one variant, one code, one sentence each.
//!
//! A sentence says what is wrong, names both versions where they matter, and ends
//! with what mends it. The code is stable: scripts and the compatibility tests
//! compare it, never the sentence.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why one library or one instance was refused; the others run on.
///
/// It crosses from the child that meets it to the host as JSON.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoadError {
    /// The section names a plugin that no folder holds. The operator mends it.
    #[error("no library with the id \"{plugin}\" in {folders}: put its .so there, or remove the section")]
    NoFile {
        /// The id that was looked for.
        plugin: String,
        /// Where it was looked for.
        folders: String,
    },
    /// Two different files carry one id. The operator removes one.
    #[error("the id \"{id}\" is carried by two different files, {first} and {second}: remove one of them")]
    SameId {
        /// The id.
        id: String,
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// The file cannot be read or copied. The operator mends it.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Something of the host's own cannot be written. It mends itself when there is room, or the operator does.
    #[error("{what} cannot be written to {path}: {why}; make room there, or let the user of this host write there")]
    Unwritable {
        /// What was to be written.
        what: String,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A folder, device, socket or dangling link. The operator names another, or takes it out of the plugins folder.
    #[error("{path} is not a regular file: a library of an adapter is one")]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A link that leaves the folder. The operator copies the file instead.
    #[error("{path} is a link out of its folder, to {target}: copy the file into the folder instead")]
    OutsideFolder {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Somebody else owns the file. The operator changes the owner.
    #[error("{path} belongs to user {uid}, neither to the user of this host nor to root: chown it to yourself")]
    ForeignOwner {
        /// The file or its folder.
        path: PathBuf,
        /// Who owns it.
        uid: u32,
    },
    /// Everybody may write it. The operator runs the chmod.
    #[error("{path} can be written by everybody: run `chmod o-w {path}`")]
    WorldWritable {
        /// The file or its folder.
        path: PathBuf,
    },
    /// A group of several people may write it. The operator runs the chmod.
    #[error("{path} can be written by a shared group: run `chmod g-w {path}`")]
    GroupWritable {
        /// The file or its folder.
        path: PathBuf,
    },
    /// Other bytes than those that were accepted. The operator looks and accepts them.
    #[error(
        "{path} changed since it was accepted (sha256 was {accepted}, is {found}): if that was you, run `hermes-host adapter add {path}`"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The hash in `plugins.lock`.
        accepted: String,
        /// The hash of the bytes that lie there.
        found: String,
    },
    /// Bytes that nobody has accepted, where only accepted ones may run. The operator accepts them.
    #[error(
        "{path} is not accepted, so no code of it was run: `hermes-host adapter add {path}` accepts it, and so does a host that starts with its section"
    )]
    NotAccepted {
        /// The file.
        path: PathBuf,
    },
    /// The library failed in the short-lived process that opens it before the host does. The author corrects it.
    #[error(
        "{path} was not loaded, since it failed in a process of its own first: {why}; report it to its author, or replace the file and run `hermes-host adapter reload`"
    )]
    ProbeFailed {
        /// The file.
        path: PathBuf,
        /// The failure.
        why: String,
    },
    /// No ELF shared library. The operator replaces the file.
    #[error("{path} is not a shared library: {why}; replace it by the author's build")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What does not parse.
        why: String,
    },
    /// Built for another machine. The operator fetches the right build.
    #[error("{path} is built for {found}, this host runs on {expected}: fetch the build for this machine")]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// Class and machine of the file.
        found: String,
        /// Class and machine of the host.
        expected: String,
    },
    /// Needs another C library. The operator fetches the right build.
    #[error("{path} needs the C library {found}, this host runs on {expected}: fetch the build for {expected}")]
    WrongLibc {
        /// The file.
        path: PathBuf,
        /// What it needs.
        found: String,
        /// What the host runs on.
        expected: String,
    },
    /// Carries static thread-local storage. The author removes the custom allocator.
    #[error(
        "{path} carries static thread-local storage (DF_STATIC_TLS), which breaks loading: its author has to build it without a global allocator of its own"
    )]
    StaticTls {
        /// The file.
        path: PathBuf,
    },
    /// No manifest section. The operator names another file, or takes it out of the plugins folder.
    #[error(
        "{path} has no section .hermes.adapter, so it is not an adapter: only libraries of adapters belong into a plugins folder"
    )]
    NoSection {
        /// The file.
        path: PathBuf,
    },
    /// The manifest does not parse or contradicts itself. The author mends it.
    #[error("{path} has a bad manifest: {why}; its author has to mend it")]
    BadManifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Built with an SDK of an earlier major. The author rebuilds it.
    #[error("{path} is built with SDK {plugin}, this host speaks SDK {host}: its author has to rebuild it")]
    OlderMajor {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// Built with an SDK of a later major. The operator updates the host.
    #[error("{path} is built with SDK {plugin}, this host speaks SDK {host}: update hermes-host")]
    NewerMajor {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// Built with a newer minor, and it does not run on this host. The operator updates the host.
    #[error("{path} is built with SDK {plugin} and does not run on the SDK {host} of this host: update hermes-host")]
    NewerMinor {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// Demands another host. The operator updates the host.
    #[error(
        "{path} requires a host with SDK \"{requires}\", this one has {host}: update hermes-host or use an older build"
    )]
    RequiresHost {
        /// The file.
        path: PathBuf,
        /// What it demands.
        requires: String,
        /// SDK of the host.
        host: String,
    },
    /// The system's loader refused it. The operator or the author mends what it names.
    #[error("{path} cannot be opened: {why}")]
    Dlopen {
        /// The file.
        path: PathBuf,
        /// What the loader said.
        why: String,
    },
    /// No root module. The author exports it.
    #[error("{path} exports no adapter root: its author has to call export_adapter!")]
    NoRootSymbol {
        /// The file.
        path: PathBuf,
    },
    /// Another abi_stable. The author rebuilds it.
    #[error(
        "{path} has another binary header than this host (SDK {host}): its author has to rebuild it with the published SDK"
    )]
    WrongHeader {
        /// The file.
        path: PathBuf,
        /// SDK of the host.
        host: String,
    },
    /// The vtables have another layout. The author rebuilds it.
    #[error(
        "{path} (SDK {plugin}) lays out its functions in another way than this host (SDK {host}): its author has to rebuild it with the published SDK"
    )]
    LayoutMismatch {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// `manifest()` is not what the section says. The author rebuilds it.
    #[error("{path} says something else when it runs than its section .hermes.adapter: its author has to rebuild it")]
    ManifestDiffers {
        /// The file.
        path: PathBuf,
    },
    /// The section does not fit the adapter's schema. The operator mends it.
    #[error("[adapter.{instance}] does not fit the adapter: {problems}")]
    ConfigRefused {
        /// The instance.
        instance: String,
        /// All problems, separated by semicolons.
        problems: String,
    },
    /// `create` answered with an error. The operator mends the configuration.
    #[error("[adapter.{instance}] was refused by its adapter: {why}")]
    CreateFailed {
        /// The instance.
        instance: String,
        /// The adapter's sentence.
        why: String,
    },
    /// `create` panicked. The author mends it.
    #[error("the adapter of {instance} panicked while it was created: {why}; report it to its author")]
    CreatePanicked {
        /// The instance.
        instance: String,
        /// What is known.
        why: String,
    },
    /// `create` did not return. The author mends it.
    #[error("the adapter of {instance} did not come up within {deadline_ms} ms; report it to its author")]
    CreateTimedOut {
        /// The instance.
        instance: String,
        /// The deadline.
        deadline_ms: u64,
    },
    /// A program says that it is another plugin than its section names. The operator mends the section.
    #[error(
        "the program `{program}` is the plugin \"{found}\", [adapter.{instance}] runs it as \"{expected}\": write plugin = \"{found}\" there, or correct `command`"
    )]
    OtherPlugin {
        /// The instance.
        instance: String,
        /// The program.
        program: String,
        /// What its manifest says.
        found: String,
        /// What the section says.
        expected: String,
    },
    /// The child process of the adapter did not come up. The operator looks at the machine.
    #[error("the process of {instance} did not come up: {why}")]
    ProcessFailed {
        /// The instance or the file.
        instance: String,
        /// What is known.
        why: String,
    },
}

impl LoadError {
    /// Returns the stable word for this refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoFile { .. } => "no_file",
            Self::SameId { .. } => "same_id",
            Self::Unreadable { .. } => "unreadable",
            Self::Unwritable { .. } => "unwritable",
            Self::NotRegular { .. } => "not_regular",
            Self::OutsideFolder { .. } => "outside_folder",
            Self::ForeignOwner { .. } => "foreign_owner",
            Self::WorldWritable { .. } => "world_writable",
            Self::GroupWritable { .. } => "group_writable",
            Self::Changed { .. } => "changed_hash",
            Self::NotAccepted { .. } => "not_accepted",
            Self::ProbeFailed { .. } => "probe_failed",
            Self::NotALibrary { .. } => "not_a_library",
            Self::WrongMachine { .. } => "wrong_machine",
            Self::WrongLibc { .. } => "wrong_libc",
            Self::StaticTls { .. } => "static_tls",
            Self::NoSection { .. } => "no_section",
            Self::BadManifest { .. } => "bad_manifest",
            Self::OlderMajor { .. } => "older_major",
            Self::NewerMajor { .. } => "newer_major",
            Self::NewerMinor { .. } => "newer_minor",
            Self::RequiresHost { .. } => "requires_host",
            Self::Dlopen { .. } => "dlopen",
            Self::NoRootSymbol { .. } => "no_root_symbol",
            Self::WrongHeader { .. } => "wrong_header",
            Self::LayoutMismatch { .. } => "layout_mismatch",
            Self::ManifestDiffers { .. } => "manifest_differs",
            Self::ConfigRefused { .. } => "config_refused",
            Self::CreateFailed { .. } => "create_failed",
            Self::CreatePanicked { .. } => "create_panicked",
            Self::CreateTimedOut { .. } => "create_timed_out",
            Self::OtherPlugin { .. } => "other_plugin",
            Self::ProcessFailed { .. } => "process_failed",
        }
    }

    /// Whether the same bytes and the same configuration may fare better later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::CreatePanicked { .. }
                | Self::CreateTimedOut { .. }
                | Self::ProcessFailed { .. }
                | Self::Unwritable { .. }
        )
    }
}

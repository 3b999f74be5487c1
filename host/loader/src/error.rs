//! The refusals of libraries and instances: one variant, one code and one sentence each.
//!
//! A sentence states the problem, names both versions where they matter, and ends with the fix. The code is stable:
//! scripts and the compatibility tests compare it, never the sentence.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The refusal of one library or one instance. The others keep running.
///
/// The child process sends it to the host as JSON.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoadError {
    /// The section names a plugin that no folder contains. The operator adds the file or removes the section.
    #[error("no library with the id \"{plugin}\" in {folders}: copy its .so there, or remove the section")]
    NoFile {
        /// The id of the plugin.
        plugin: String,
        /// The folders that were searched.
        folders: String,
    },
    /// Two different files have the same id. The operator removes one.
    #[error("two different files have the id \"{id}\", {first} and {second}: remove one of them")]
    SameId {
        /// The id.
        id: String,
        /// The first file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// The file cannot be read or copied. The operator corrects its permissions or replaces it.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// A file of the host cannot be written. The error passes when there is room, or the operator corrects the
    /// permissions.
    #[error(
        "{what} cannot be written to {path}: {why}; free some space, or allow the user of this host to write there"
    )]
    Unwritable {
        /// The content that was to be written.
        what: String,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// A folder, device, socket or dangling link. The operator names another file, or removes it from the plugins
    /// folder.
    #[error("{path} is not a regular file: replace it by the library of an adapter")]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A link that leaves the folder. The operator copies the file instead.
    #[error("{path} is a symbolic link to {target}, outside of its folder: copy the file into the folder instead")]
    OutsideFolder {
        /// The link.
        path: PathBuf,
        /// The target of the link.
        target: PathBuf,
    },
    /// The file belongs to another user. The operator changes the owner.
    #[error("{path} belongs to user {uid}, not to the user of this host or root: change its owner with `chown`")]
    ForeignOwner {
        /// The file or its folder.
        path: PathBuf,
        /// The user id of the owner.
        uid: u32,
    },
    /// The file is writable by everybody. The operator runs the chmod.
    #[error("{path} is writable by every user: run `chmod o-w {path}`")]
    WorldWritable {
        /// The file or its folder.
        path: PathBuf,
    },
    /// The file is writable by a group with several members. The operator runs the chmod.
    #[error("{path} is writable by a shared group: run `chmod g-w {path}`")]
    GroupWritable {
        /// The file or its folder.
        path: PathBuf,
    },
    /// The bytes differ from those that were accepted. The operator reviews and accepts them.
    #[error(
        "{path} changed since it was accepted (sha256 was {accepted}, is {found}): if the change is intended, run \
         `hermes-host adapter add {path}`"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The hash in `plugins.lock`.
        accepted: String,
        /// The hash of the current bytes.
        found: String,
    },
    /// The bytes are not accepted, and only accepted ones may run. The operator accepts them.
    #[error(
        "{path} is not accepted, so none of its code was run: accept it with `hermes-host adapter add {path}`, or \
         start the host with its section"
    )]
    NotAccepted {
        /// The file.
        path: PathBuf,
    },
    /// The library failed in the short-lived process that opens it before the host does. The author fixes it.
    #[error(
        "{path} was not loaded, because it failed in a test process: {why}; report this to its author, or replace the \
         file and run `hermes-host adapter reload`"
    )]
    ProbeFailed {
        /// The file.
        path: PathBuf,
        /// The failure.
        why: String,
    },
    /// Not an ELF shared library. The operator replaces the file.
    #[error("{path} is not a shared library: {why}; replace it with the author's build")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// The part that does not parse.
        why: String,
    },
    /// Built for another machine. The operator installs the right build.
    #[error("{path} is built for {found}, but this host runs on {expected}: get the build for this machine")]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// Class and machine of the file.
        found: String,
        /// Class and machine of the host.
        expected: String,
    },
    /// Needs another C library. The operator installs the right build.
    #[error("{path} requires the C library {found}, but this host runs on {expected}: get the build for {expected}")]
    WrongLibc {
        /// The file.
        path: PathBuf,
        /// The C library that it needs.
        found: String,
        /// The C library of the host.
        expected: String,
    },
    /// Contains static thread-local storage. The author removes the custom allocator.
    #[error(
        "{path} uses static thread-local storage (DF_STATIC_TLS), which prevents loading: ask its author to build it \
         without its own global allocator"
    )]
    StaticTls {
        /// The file.
        path: PathBuf,
    },
    /// No manifest section. The operator names another file, or removes it from the plugins folder.
    #[error("{path} has no section .hermes.adapter, so it is not an adapter: remove it from the plugins folder")]
    NoSection {
        /// The file.
        path: PathBuf,
    },
    /// The manifest does not parse or contradicts itself. The author fixes it.
    #[error("{path} has an invalid manifest: {why}; report this to its author")]
    BadManifest {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// Built with an SDK of an earlier major. The author rebuilds it.
    #[error("{path} is built with SDK {plugin}, but this host supports SDK {host}: ask its author to rebuild it")]
    OlderMajor {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// Built with an SDK of a later major. The operator updates the host.
    #[error("{path} is built with SDK {plugin}, but this host supports SDK {host}: update hermes-host")]
    NewerMajor {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// Built with a newer minor version and not compatible with this host. The operator updates the host.
    #[error("{path} is built with SDK {plugin} and does not run with the SDK {host} of this host: update hermes-host")]
    NewerMinor {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// Requires another version of the host. The operator updates the host.
    #[error(
        "{path} requires a host with SDK \"{requires}\", but this one has {host}: update hermes-host or use an older \
         build"
    )]
    RequiresHost {
        /// The file.
        path: PathBuf,
        /// The required SDK version.
        requires: String,
        /// SDK of the host.
        host: String,
    },
    /// The system's loader refused it. The operator or the author fixes the reported problem.
    #[error("{path} cannot be opened: {why}")]
    Dlopen {
        /// The file.
        path: PathBuf,
        /// The error of the loader.
        why: String,
    },
    /// No root module. The author exports it.
    #[error("{path} exports no adapter root: ask its author to call export_adapter!")]
    NoRootSymbol {
        /// The file.
        path: PathBuf,
    },
    /// Built with another version of `abi_stable`. The author rebuilds it.
    #[error(
        "{path} has an ABI header that is incompatible with this host (SDK {host}): ask its author to rebuild it with \
         the published SDK"
    )]
    WrongHeader {
        /// The file.
        path: PathBuf,
        /// SDK of the host.
        host: String,
    },
    /// The vtables have another layout. The author rebuilds it.
    #[error(
        "{path} (SDK {plugin}) has a function layout that is incompatible with this host (SDK {host}): ask its author \
         to rebuild it with the published SDK"
    )]
    LayoutMismatch {
        /// The file.
        path: PathBuf,
        /// SDK of the plugin.
        plugin: String,
        /// SDK of the host.
        host: String,
    },
    /// `manifest()` differs from the manifest in the section. The author rebuilds it.
    #[error("{path} reports a manifest that differs from its section .hermes.adapter: ask its author to rebuild it")]
    ManifestDiffers {
        /// The file.
        path: PathBuf,
    },
    /// The section does not fit the adapter's schema. The operator corrects it.
    #[error("[adapter.{instance}] is invalid for the adapter: {problems}")]
    ConfigRefused {
        /// The instance.
        instance: String,
        /// All problems, separated by semicolons.
        problems: String,
    },
    /// `create` returned an error. The operator corrects the configuration.
    #[error("[adapter.{instance}] was rejected by the adapter: {why}")]
    CreateFailed {
        /// The instance.
        instance: String,
        /// The adapter's error message.
        why: String,
    },
    /// `create` panicked. The author fixes it.
    #[error("the adapter of {instance} panicked during creation: {why}; report this to its author")]
    CreatePanicked {
        /// The instance.
        instance: String,
        /// The known details.
        why: String,
    },
    /// `create` did not return. The author fixes it.
    #[error("the adapter of {instance} did not start within {deadline_ms} ms; report this to its author")]
    CreateTimedOut {
        /// The instance.
        instance: String,
        /// The deadline, in milliseconds.
        deadline_ms: u64,
    },
    /// A program reports another plugin id than its section names. The operator corrects the section.
    #[error(
        "the program `{program}` is the plugin \"{found}\", but [adapter.{instance}] expects \"{expected}\": write \
         plugin = \"{found}\" there, or correct `command`"
    )]
    OtherPlugin {
        /// The instance.
        instance: String,
        /// The path of the program.
        program: String,
        /// The id in its manifest.
        found: String,
        /// The id in the section.
        expected: String,
    },
    /// The child process of the adapter did not start. The operator checks the machine.
    #[error("the process of {instance} did not start: {why}")]
    ProcessFailed {
        /// The instance or the file.
        instance: String,
        /// The known details.
        why: String,
    },
}

impl LoadError {
    /// Returns the stable code of this refusal.
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

    /// Returns `true` if the same bytes and the same configuration may succeed later.
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

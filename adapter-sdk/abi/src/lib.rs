//! What crosses between hermes-host and an adapter library.
//!
//! Three small vtables that practically never change; methods by name, payloads
//! as JSON bytes. No data struct, no enum, no Rust type, no future and no tokio
//! type crosses. Arguments are lent for the call, results are owned and freed by
//! their maker's destructor.
//!
//! The narrow part of `abi_stable` in use: header, prefix types, layout check,
//! `RStr`, `RString`, `RSlice`, `RVec`, `RResult`. Its `sabi_trait` and
//! `sabi_extern_fn` end the process on a panic, and its `load_from_file` refuses
//! an older plugin in a newer host, so none of them is used.
//!
//! In 1.x nothing changes here except functions appended after the last one of a
//! prefix type; `#[sabi(last_prefix_field)]` never moves. Each function's comment
//! ends in its tag: thread and state.

#![allow(non_camel_case_types, reason = "abi_stable derives the `Foo_Ref` names")]

use core::ffi::c_void;

use abi_stable::{
    StableAbi,
    library::RootModule,
    package_version_strings,
    sabi_types::VersionStrings,
    std_types::{RResult, RSlice, RStr, RString, RVec},
};

/// Version of the binary contract; a manifest names the one it was built for.
pub const ABI_VERSION: u32 = 1;

/// Version of this crate, which is the version of the SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// ELF section that holds the manifest.
pub const MANIFEST_SECTION: &str = ".hermes.adapter";

/// Calls an instance holds at once; one more is answered [`status::BUSY`].
pub const CALLS_MAX: usize = 64;

/// How a call ended. A number this version does not know counts as [`status::ERR`].
pub type Status = i32;

/// The values of [`Status`].
pub mod status {
    use super::Status;

    /// The payload is the reply.
    pub const OK: Status = 0;
    /// The payload is a JSON `CallError`.
    pub const ERR: Status = 1;
    /// There is no such method.
    pub const UNSUPPORTED: Status = 2;
    /// The queue is full; nothing happened.
    pub const BUSY: Status = 3;
    /// The adapter panicked in this call; the instance is poisoned.
    pub const PANIC: Status = 4;
    /// The call ended without an answer.
    pub const DROPPED: Status = 5;
    /// The instance had panicked before; nothing happened.
    pub const POISONED: Status = 6;
}

/// Where the answer of a call goes. Fired exactly once, from any thread, also
/// when the call is dropped (with [`status::DROPPED`]).
///
/// `ctx` belongs to whoever made the completion; `done` consumes it.
#[repr(C)]
#[derive(StableAbi)]
pub struct Completion {
    /// Opaque to the one who fires.
    pub ctx: *mut c_void,
    /// Fires. Must not be called twice. `[any-thread & once]`
    pub done: extern "C" fn(ctx: *mut c_void, status: Status, payload: RVec<u8>),
}

/// The host as one instance sees it. `ctx` lives until `release`.
#[repr(C)]
#[derive(StableAbi)]
pub struct HostHandle {
    /// Opaque to the adapter.
    pub ctx: *const c_void,
    /// The host's functions.
    pub vtable: HostVt_Ref,
}

/// One created adapter instance. `this` lives until `destroy` returned 0.
#[repr(C)]
#[derive(StableAbi)]
pub struct Instance {
    /// Opaque to the host.
    pub this: *mut c_void,
    /// The instance's functions.
    pub vtable: InstanceVt_Ref,
}

/// What the host offers an instance.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostVt_Ref)))]
#[sabi(missing_field(option))]
pub struct HostVt {
    /// Calls a host method by name; never blocks. `[any-thread & !released]`
    pub call: extern "C" fn(ctx: *const c_void, method: RStr<'_>, payload: RSlice<'_, u8>, reply: Completion),
    /// Hands over one log record: level 1 (error) to 5 (trace), target, fields as a
    /// JSON object. `[any-thread & !released]`
    pub log: extern "C" fn(ctx: *const c_void, level: u8, target: RStr<'_>, fields: RStr<'_>),
    /// The most talkative level that is listened to, 0 (off) to 5 (trace). `[any-thread & !released]`
    pub max_level: extern "C" fn(ctx: *const c_void) -> u8,
    /// Gives the handle back; nothing may be called after it. `[any-thread & once]`
    #[sabi(last_prefix_field)]
    pub release: extern "C" fn(ctx: *const c_void),
}

/// What an instance offers the host.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = InstanceVt_Ref)))]
#[sabi(missing_field(option))]
pub struct InstanceVt {
    /// Calls a method by name; never blocks; answers BUSY beyond [`CALLS_MAX`]. `[any-thread & started]`
    pub call: extern "C" fn(this: *mut c_void, id: u64, method: RStr<'_>, payload: RSlice<'_, u8>, reply: Completion),
    /// Drops the future of call `id` at its next await; an unknown id does nothing. `[any-thread & started]`
    pub cancel: extern "C" fn(this: *mut c_void, id: u64),
    /// Asks the instance to end: open calls are dropped, tasks cancelled; never blocks. `[any-thread & started]`
    pub shutdown: extern "C" fn(this: *mut c_void, deadline_ms: u64, reply: Completion),
    /// Joins the instance's thread: 0 joined and freed, 1 still running after the deadline (the thread
    /// is left alone and nothing is freed). `[blocking-thread & once]`
    #[sabi(last_prefix_field)]
    pub destroy: extern "C" fn(this: *mut c_void, deadline_ms: u64) -> u32,
}

/// The root of an adapter library.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = AdapterMod_Ref)))]
#[sabi(missing_field(option))]
pub struct AdapterMod {
    /// The manifest as JSON, byte for byte that of the ELF section. `[any-thread & loaded]`
    pub manifest: extern "C" fn() -> RStr<'static>,
    /// JSON Schema of the adapter's own config keys. `[any-thread & loaded]`
    pub config_schema: extern "C" fn() -> RString,
    /// Makes an instance from a JSON `Envelope`; the error is one sentence. `[any-thread & loaded]`
    #[sabi(last_prefix_field)]
    pub create: extern "C" fn(host: HostHandle, envelope: RSlice<'_, u8>) -> RResult<Instance, RString>,
    /// Judges the adapter's own keys, a JSON object, without making anything: empty, or one sentence about
    /// what is wrong, which shows no secret. The host's `home_channel`, text, is among them where it is set.
    /// `[any-thread & loaded]`
    pub check_config: extern "C" fn(config: RSlice<'_, u8>) -> RString,
}

impl RootModule for AdapterMod_Ref {
    abi_stable::declare_root_module_statics! {AdapterMod_Ref}

    const BASE_NAME: &'static str = "hermes_adapter";
    const NAME: &'static str = "hermes_adapter";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

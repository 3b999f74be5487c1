//! The binary interface between hermes-host and an adapter library.
//!
//! The interface has three small vtables that practically never change; methods are called
//! by name, with payloads as JSON bytes. No data struct, enum, Rust type, future or tokio
//! type crosses the boundary. Arguments are borrowed for the call. Results are owned and
//! freed by the destructor of the side that created them.
//!
//! The crate uses a small part of `abi_stable`: header, prefix types, layout check, `RStr`,
//! `RString`, `RSlice`, `RVec`, `RResult`. Not used are `sabi_trait` and `sabi_extern_fn`,
//! which abort the process on a panic, and `load_from_file`, which rejects an older plugin
//! in a newer host.
//!
//! In 1.x the only allowed change is a function appended after the last one of a prefix
//! type; `#[sabi(last_prefix_field)]` never moves. The comment of each function ends with
//! its tag: thread and state.

#![allow(non_camel_case_types, reason = "abi_stable derives the `Foo_Ref` names")]

use core::ffi::c_void;

use abi_stable::{
    StableAbi,
    library::RootModule,
    package_version_strings,
    sabi_types::VersionStrings,
    std_types::{RResult, RSlice, RStr, RString, RVec},
};

/// The version of the binary interface; a manifest names the version that it was built for.
pub const ABI_VERSION: u32 = 1;

/// The version of this crate, which is the version of the SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The ELF section of the manifest.
pub const MANIFEST_SECTION: &str = ".hermes.adapter";

/// The maximum number of open calls of an instance; further calls are answered [`status::BUSY`].
pub const CALLS_MAX: usize = 64;

/// The result of a call. An unknown number counts as [`status::ERR`].
pub type Status = i32;

/// The values of [`Status`].
pub mod status {
    use super::Status;

    /// The payload is the reply.
    pub const OK: Status = 0;
    /// The payload is a JSON `CallError`.
    pub const ERR: Status = 1;
    /// The method does not exist.
    pub const UNSUPPORTED: Status = 2;
    /// The queue is full; the call had no effect.
    pub const BUSY: Status = 3;
    /// The adapter panicked in this call, and the instance is poisoned.
    pub const PANIC: Status = 4;
    /// The call ended without an answer.
    pub const DROPPED: Status = 5;
    /// The instance panicked earlier; the call had no effect.
    pub const POISONED: Status = 6;
}

/// The destination of a call's answer. Fired exactly once, from any thread, also if
/// the call is dropped (with [`status::DROPPED`]).
///
/// `ctx` belongs to the side that created the completion; `done` consumes it.
#[repr(C)]
#[derive(StableAbi)]
pub struct Completion {
    /// Opaque to the side that fires.
    pub ctx: *mut c_void,
    /// Fires the completion. Must not be called twice. `[any-thread & once]`
    pub done: extern "C" fn(ctx: *mut c_void, status: Status, payload: RVec<u8>),
}

/// The host's functions for one instance. `ctx` is valid until `release`.
#[repr(C)]
#[derive(StableAbi)]
pub struct HostHandle {
    /// Opaque to the adapter.
    pub ctx: *const c_void,
    /// The host's functions.
    pub vtable: HostVt_Ref,
}

/// One created adapter instance. `this` is valid until `destroy` returns 0.
#[repr(C)]
#[derive(StableAbi)]
pub struct Instance {
    /// Opaque to the host.
    pub this: *mut c_void,
    /// The instance's functions.
    pub vtable: InstanceVt_Ref,
}

/// The functions that the host provides to an instance.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostVt_Ref)))]
#[sabi(missing_field(option))]
pub struct HostVt {
    /// Calls a host method by name; never blocks. `[any-thread & !released]`
    pub call: extern "C" fn(ctx: *const c_void, method: RStr<'_>, payload: RSlice<'_, u8>, reply: Completion),
    /// Writes one log record: level 1 (error) to 5 (trace), target, fields as a JSON object. `[any-thread & !released]`
    pub log: extern "C" fn(ctx: *const c_void, level: u8, target: RStr<'_>, fields: RStr<'_>),
    /// Returns the most verbose level that the host records, 0 (off) to 5 (trace). `[any-thread & !released]`
    pub max_level: extern "C" fn(ctx: *const c_void) -> u8,
    /// Releases the handle; no function may be called after it. `[any-thread & once]`
    #[sabi(last_prefix_field)]
    pub release: extern "C" fn(ctx: *const c_void),
}

/// The functions that an instance provides to the host.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = InstanceVt_Ref)))]
#[sabi(missing_field(option))]
pub struct InstanceVt {
    /// Calls a method by name; never blocks; answers BUSY beyond [`CALLS_MAX`]. `[any-thread & started]`
    pub call: extern "C" fn(this: *mut c_void, id: u64, method: RStr<'_>, payload: RSlice<'_, u8>, reply: Completion),
    /// Drops the future of call `id` at its next await; an unknown id does nothing. `[any-thread & started]`
    pub cancel: extern "C" fn(this: *mut c_void, id: u64),
    /// Shuts the instance down: open calls are dropped, tasks cancelled; never blocks. `[any-thread & started]`
    pub shutdown: extern "C" fn(this: *mut c_void, deadline_ms: u64, reply: Completion),
    /// Joins the instance's thread. Returns 0 if it is joined and freed, 1 if it still runs after the
    /// deadline (the thread is left running and nothing is freed). `[blocking-thread & once]`
    #[sabi(last_prefix_field)]
    pub destroy: extern "C" fn(this: *mut c_void, deadline_ms: u64) -> u32,
}

/// The root module of an adapter library.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = AdapterMod_Ref)))]
#[sabi(missing_field(option))]
pub struct AdapterMod {
    /// Returns the manifest as JSON, identical byte by byte to the ELF section. `[any-thread & loaded]`
    pub manifest: extern "C" fn() -> RStr<'static>,
    /// Returns the JSON Schema of the adapter's own config keys. `[any-thread & loaded]`
    pub config_schema: extern "C" fn() -> RString,
    /// Creates an instance from a JSON `Envelope`; the error is one sentence. `[any-thread & loaded]`
    #[sabi(last_prefix_field)]
    pub create: extern "C" fn(host: HostHandle, envelope: RSlice<'_, u8>) -> RResult<Instance, RString>,
    /// Checks the adapter's own keys, a JSON object, without creating an instance. Returns an empty text, or
    /// one sentence about the error, which contains no secret. The object includes the host's key
    /// `home_channel`, a string, if it is set. `[any-thread & loaded]`
    pub check_config: extern "C" fn(config: RSlice<'_, u8>) -> RString,
}

impl RootModule for AdapterMod_Ref {
    abi_stable::declare_root_module_statics! {AdapterMod_Ref}

    const BASE_NAME: &'static str = "hermes_adapter";
    const NAME: &'static str = "hermes_adapter";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

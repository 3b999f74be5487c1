//! The host's functions that a plugin calls.
//!
//! `ctx` is a number in the table of ports, never a pointer. A call with an unknown number is answered DROPPED.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    std_types::{RSlice, RStr},
};
use hermes_adapter_abi::{Completion, HostHandle, HostVt, HostVt_Ref, status};

use super::{PAYLOAD_BYTES_MAX, Reply, guarded};

/// The longest method name, in bytes.
const METHOD_BYTES_MAX: usize = 128;

/// The host methods of one instance. Plugins call them on their own threads, so no method may block.
pub trait HostPort: Send + Sync + 'static {
    /// Answers a host method through `reply`.
    fn call(&self, method: &str, payload: Vec<u8>, reply: Reply);
    /// Records one log record: level 1 (error) to 5 (trace), target, fields as a JSON object.
    fn log(&self, level: u8, target: &str, fields: &str);
    /// Returns the most verbose level that is recorded.
    fn max_level(&self) -> u8;
}

static PORTS: RwLock<BTreeMap<usize, Arc<dyn HostPort>>> = RwLock::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Registers a port and returns its number.
pub(super) fn enter(port: Arc<dyn HostPort>) -> usize {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PORTS.write().unwrap_or_else(PoisonError::into_inner).insert(number, port);
    number
}

/// Removes a port. Later lookups of its number find nothing.
pub(super) fn forget(number: usize) {
    let port = PORTS.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    // Dropped after the lock is released, because the destructor of the port may call back.
    drop(port);
}

/// Returns the handle for the port with this number.
pub(super) fn handle(number: usize) -> HostHandle {
    HostHandle { ctx: std::ptr::without_provenance(number), vtable: vtable() }
}

fn vtable() -> HostVt_Ref {
    static VTABLE: OnceLock<HostVt_Ref> = OnceLock::new();
    *VTABLE.get_or_init(|| HostVt { call, log, max_level, release }.leak_into_prefix())
}

fn port(ctx: *const c_void) -> Option<Arc<dyn HostPort>> {
    PORTS.read().unwrap_or_else(PoisonError::into_inner).get(&ctx.addr()).cloned()
}

/// Calls a host method by name; never blocks. `[any-thread & !released]`
extern "C" fn call(ctx: *const c_void, method: RStr<'_>, payload: RSlice<'_, u8>, reply: Completion) {
    let reply = Reply::foreign(reply);
    guarded((), || {
        let Some(port) = port(ctx) else { return };
        match (text(method, METHOD_BYTES_MAX), bytes(payload)) {
            (Some(method), Some(payload)) => port.call(&method, payload, reply),
            _ => reply.send(status::ERR, br#"{"code":"invalid","message":"the call is too long"}"#.to_vec()),
        }
    });
}

/// Records one log record. `[any-thread & !released]`
extern "C" fn log(ctx: *const c_void, level: u8, target: RStr<'_>, fields: RStr<'_>) {
    guarded((), || {
        let Some(port) = port(ctx) else { return };
        if let (Some(target), Some(fields)) = (text(target, METHOD_BYTES_MAX), text(fields, PAYLOAD_BYTES_MAX)) {
            port.log(level, &target, &fields);
        }
    });
}

/// Returns the most verbose level that is recorded. `[any-thread & !released]`
extern "C" fn max_level(ctx: *const c_void) -> u8 {
    guarded(0, || port(ctx).map_or(0, |port| port.max_level()))
}

/// Releases the handle. `[any-thread & once]`
extern "C" fn release(ctx: *const c_void) {
    guarded((), || forget(ctx.addr()));
}

/// Copies foreign text; invalid UTF-8 is replaced.
fn text(foreign: RStr<'_>, bytes_max: usize) -> Option<String> {
    let bytes = foreign.as_bytes();
    (bytes.len() <= bytes_max).then(|| String::from_utf8_lossy(bytes).into_owned())
}

fn bytes(foreign: RSlice<'_, u8>) -> Option<Vec<u8>> {
    (foreign.len() <= PAYLOAD_BYTES_MAX).then(|| foreign.as_slice().to_vec())
}

//! The host's side of the ABI for tests: the same vtables, in the test's process.
//!
//! The module `testing` records and answers calls in safe code.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use abi_stable::prefix_type::WithMetadata;
use abi_stable::std_types::{RResult, RSlice, RStr};
use hermes_adapter_abi::{Completion, HostHandle, HostVt, HostVt_Ref, Instance, Status};

use super::pointers::{answer, completion};
use super::vtable;
use crate::answer::Answer;
use crate::dispatch::Exported;
use crate::guard::guard;

/// The receiver of the adapter's calls.
pub(crate) trait MockPort: Send + Sync + 'static {
    fn call(&self, method: &str, payload: &[u8], answer: Answer);
    fn log(&self, level: u8, target: &str, fields: &str);
    fn max_level(&self) -> u8;
    fn released(&self);
}

/// The target of `ctx`.
type Port = Arc<dyn MockPort>;

/// A created instance.
pub(crate) struct MockInstance {
    /// `None` after the instance is destroyed.
    instance: RwLock<Option<Instance>>,
}

// SAFETY: the contract makes `call`, `cancel` and `shutdown` callable from any thread, and
// the lock keeps `destroy` apart from them; `this` is opaque here.
unsafe impl Send for MockInstance {}
// SAFETY: as above.
unsafe impl Sync for MockInstance {}

/// Returns the manifest, through the root module.
pub(crate) fn manifest<A: Exported>() -> String {
    (vtable::root::<A>().manifest())().as_str().to_owned()
}

/// Returns the schema of the configuration, through the root module.
pub(crate) fn config_schema<A: Exported>() -> String {
    (vtable::root::<A>().config_schema())().into_string()
}

/// Checks a configuration, through the root module; returns the error, or an empty text.
pub(crate) fn check_config<A: Exported>(config: &[u8]) -> String {
    let check = vtable::root::<A>().check_config().expect("this SDK's own table has it");
    check(RSlice::from(config)).into_string()
}

/// Creates an instance, through the root module.
pub(crate) fn create<A: Exported>(port: Port, envelope: &[u8]) -> Result<MockInstance, String> {
    let handle = HostHandle { ctx: Box::into_raw(Box::new(port)).cast_const().cast(), vtable: Mock::vtable() };
    match (vtable::root::<A>().create())(handle, RSlice::from(envelope)) {
        RResult::ROk(instance) => Ok(MockInstance { instance: RwLock::new(Some(instance)) }),
        RResult::RErr(sentence) => Err(sentence.into_string()),
    }
}

impl MockInstance {
    fn with<T>(&self, work: impl FnOnce(&Instance) -> T) -> Option<T> {
        self.instance.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(work)
    }

    /// Calls a method; `done` is dropped without a call if the instance is destroyed.
    pub(crate) fn call(
        &self,
        id: u64,
        method: &str,
        payload: &[u8],
        done: impl FnOnce(Status, Vec<u8>) + Send + 'static,
    ) {
        self.with(|instance| {
            (instance.vtable.call())(
                instance.this,
                id,
                RStr::from(method),
                RSlice::from(payload),
                completion(Box::new(done)),
            );
        });
    }

    pub(crate) fn cancel(&self, id: u64) {
        self.with(|instance| (instance.vtable.cancel())(instance.this, id));
    }

    pub(crate) fn shutdown(&self, deadline: Duration, done: impl FnOnce(Status, Vec<u8>) + Send + 'static) {
        self.with(|instance| (instance.vtable.shutdown())(instance.this, millis(deadline), completion(Box::new(done))));
    }

    /// Destroys the instance and returns the result of `destroy`; 0 if it was destroyed earlier.
    pub(crate) fn destroy(&self, deadline: Duration) -> u32 {
        let instance = self.instance.write().unwrap_or_else(PoisonError::into_inner).take();
        instance.map_or(0, |instance| (instance.vtable.destroy())(instance.this, millis(deadline)))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The owner of the static vtable.
struct Mock;

impl Mock {
    abi_stable::staticref! {
        const VTABLE: WithMetadata<HostVt> = WithMetadata::new(HostVt { call, log, max_level, release });
    }

    fn vtable() -> HostVt_Ref {
        HostVt_Ref(Self::VTABLE.as_prefix())
    }
}

/// Returns the port behind `ctx`.
///
/// # Safety
///
/// `ctx` comes from `create` and is not released during `'call`.
unsafe fn port<'call>(ctx: *const c_void) -> &'call Port {
    // SAFETY: the caller guarantees a pointer to a live box.
    unsafe { &*ctx.cast::<Port>() }
}

/// `[any-thread & !released]`
extern "C" fn call(ctx: *const c_void, method: RStr<'_>, payload: RSlice<'_, u8>, reply: Completion) {
    let answer = answer(reply);
    let _ = guard(|| {
        // SAFETY: the adapter's side calls with its own handle, before it releases it.
        let port = unsafe { port(ctx) };
        port.call(method.as_str(), payload.as_slice(), answer);
    });
}

/// `[any-thread & !released]`
extern "C" fn log(ctx: *const c_void, level: u8, target: RStr<'_>, fields: RStr<'_>) {
    let _ = guard(|| {
        // SAFETY: the adapter's side calls with its own handle, before it releases it.
        let port = unsafe { port(ctx) };
        port.log(level, target.as_str(), fields.as_str());
    });
}

/// `[any-thread & !released]`
extern "C" fn max_level(ctx: *const c_void) -> u8 {
    let level = guard(|| {
        // SAFETY: the adapter's side calls with its own handle, before it releases it.
        let port = unsafe { port(ctx) };
        port.max_level()
    });
    level.unwrap_or(0)
}

/// `[any-thread & once]`
extern "C" fn release(ctx: *const c_void) {
    let _ = guard(|| {
        // SAFETY: the box made in `create`; the contract releases a handle once.
        let port: Box<Port> = unsafe { Box::from_raw(ctx.cast_mut().cast()) };
        port.released();
    });
}

//! Calls of the host's functions.

use std::ffi::c_void;

use abi_stable::std_types::{RSlice, RStr, RVec};
use hermes_adapter_abi::{Completion, HostHandle, Status};

use crate::guard::guard;

/// The host's functions for one instance; the handle is released on drop.
pub(crate) struct HostSide {
    handle: HostHandle,
}

// SAFETY: the contract makes every function of the host's vtable callable from any
// thread until `release`; `ctx` is opaque here.
unsafe impl Send for HostSide {}
// SAFETY: as above.
unsafe impl Sync for HostSide {}

/// The callback for the host's answer.
type Done = Box<dyn FnOnce(Status, Vec<u8>) + Send>;

impl HostSide {
    /// Takes ownership of the handle, including the duty to release it.
    pub(super) fn new(handle: HostHandle) -> Self {
        Self { handle }
    }

    /// Calls `method`; the host runs `done` with the answer on one of its threads.
    pub(crate) fn call(&self, method: &str, payload: &[u8], done: impl FnOnce(Status, Vec<u8>) + Send + 'static) {
        let reply = completion(done);
        (self.handle.vtable.call())(self.handle.ctx, RStr::from(method), RSlice::from(payload), reply);
    }

    pub(crate) fn log(&self, level: u8, target: &str, fields: &str) {
        (self.handle.vtable.log())(self.handle.ctx, level, RStr::from(target), RStr::from(fields));
    }

    pub(crate) fn max_level(&self) -> u8 {
        (self.handle.vtable.max_level())(self.handle.ctx)
    }
}

impl Drop for HostSide {
    fn drop(&mut self) {
        (self.handle.vtable.release())(self.handle.ctx);
    }
}

/// Creates a completion that passes its answer to `done`.
pub(super) fn completion(done: impl FnOnce(Status, Vec<u8>) + Send + 'static) -> Completion {
    let done: Done = Box::new(done);
    Completion { ctx: Box::into_raw(Box::new(done)).cast(), done: answered }
}

/// Fires a [`completion`]. `[any-thread & once]`
extern "C" fn answered(ctx: *mut c_void, status: Status, payload: RVec<u8>) {
    // A panic here cannot be reported; the caller sees a dropped channel.
    let _ = guard(|| {
        if ctx.is_null() {
            return;
        }
        // SAFETY: `ctx` is the box made in `completion`; the contract fires a completion once.
        let done: Box<Done> = unsafe { Box::from_raw(ctx.cast()) };
        done(status, payload.into_vec());
    });
}

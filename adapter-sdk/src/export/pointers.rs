//! The host's functions behind their pointers.

use std::ffi::c_void;
use std::sync::Arc;

use abi_stable::std_types::{RSlice, RStr, RVec};
use hermes_adapter_abi::{Completion, HostHandle, Status};

use crate::answer::Answer;
use crate::guard::guard;
use crate::host_port::{HostPort, OnAnswer};

/// The host's handle, which is released on drop.
struct HostSide {
    handle: HostHandle,
}

// SAFETY: the contract makes every function of the host's vtable callable from any
// thread until `release`; `ctx` is opaque here.
unsafe impl Send for HostSide {}
// SAFETY: as above.
unsafe impl Sync for HostSide {}

/// Takes ownership of the handle, including the duty to release it.
pub(super) fn host_port(handle: HostHandle) -> Arc<dyn HostPort> {
    Arc::new(HostSide { handle })
}

impl HostPort for HostSide {
    fn call(&self, method: &str, payload: &[u8], on_answer: OnAnswer) {
        let reply = completion(on_answer);
        (self.handle.vtable.call())(self.handle.ctx, RStr::from(method), RSlice::from(payload), reply);
    }

    fn log(&self, level: u8, target: &str, fields: &str) {
        (self.handle.vtable.log())(self.handle.ctx, level, RStr::from(target), RStr::from(fields));
    }

    fn max_level(&self) -> u8 {
        (self.handle.vtable.max_level())(self.handle.ctx)
    }
}

impl Drop for HostSide {
    fn drop(&mut self) {
        (self.handle.vtable.release())(self.handle.ctx);
    }
}

/// A completion that may be fired from any thread.
struct SendCompletion(Completion);

// SAFETY: the contract lets a completion be fired from any thread; `ctx` is opaque here.
unsafe impl Send for SendCompletion {}

impl SendCompletion {
    fn fire(self, status: Status, payload: Vec<u8>) {
        let Completion { ctx, done } = self.0;
        done(ctx, status, RVec::from(payload));
    }
}

/// Returns the answer that fires `completion`, exactly once.
pub(super) fn answer(completion: Completion) -> Answer {
    let completion = SendCompletion(completion);
    Answer::new(move |reply| completion.fire(reply.status, reply.payload))
}

/// Creates a completion that passes its answer to `on_answer`.
pub(super) fn completion(on_answer: OnAnswer) -> Completion {
    Completion { ctx: Box::into_raw(Box::new(on_answer)).cast(), done: answered }
}

/// Fires a [`completion`]. `[any-thread & once]`
extern "C" fn answered(ctx: *mut c_void, status: Status, payload: RVec<u8>) {
    // A panic here cannot be reported; the caller sees a dropped channel.
    let _ = guard(|| {
        if ctx.is_null() {
            return;
        }
        // SAFETY: `ctx` is the box made in `completion`; the contract fires a completion once.
        let on_answer: Box<OnAnswer> = unsafe { Box::from_raw(ctx.cast()) };
        on_answer(status, payload.into_vec());
    });
}

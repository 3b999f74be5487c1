//! Completions in both directions.
//!
//! A completion of the host is a number in a table. Firing it removes the number, so a second firing by a faulty plugin
//! has no effect. A completion of a plugin is wrapped so that it fires exactly once, with DROPPED if it is never
//! answered.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use abi_stable::std_types::RVec;
use hermes_adapter_abi::{Completion, Status, status};

use super::{PAYLOAD_BYTES_MAX, guarded};

type Then = Box<dyn FnOnce(Status, Vec<u8>) + Send>;

/// The receiver of the answer to one call. Dropping it without an answer sends DROPPED.
pub struct Reply {
    then: Option<Then>,
}

impl Reply {
    /// Creates a receiver that passes the answer to `then` exactly once.
    pub fn new(then: impl FnOnce(Status, Vec<u8>) + Send + 'static) -> Self {
        Self { then: Some(Box::new(then)) }
    }

    /// Sends the answer.
    pub fn send(mut self, status: Status, payload: Vec<u8>) {
        if let Some(then) = self.then.take() {
            then(status, payload);
        }
    }

    /// Wraps a completion of the other side.
    pub(super) fn foreign(completion: Completion) -> Self {
        let foreign = Foreign(completion);
        Self::new(move |status, payload| foreign.fire(status, payload))
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(status::DROPPED, Vec::new());
        }
    }
}

/// A completion of a plugin. The contract allows firing it once, on any thread.
struct Foreign(Completion);

// SAFETY: the ABI says of `Completion` that it may be fired from any thread; nothing else is done with it.
unsafe impl Send for Foreign {}

impl Foreign {
    fn fire(self, status: Status, payload: Vec<u8>) {
        (self.0.done)(self.0.ctx, status, RVec::from(payload));
    }
}

static PENDING: Mutex<BTreeMap<usize, Then>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Creates a completion that passes its answer to `then`.
pub(super) fn completion(then: impl FnOnce(Status, Vec<u8>) + Send + 'static) -> Completion {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Box::new(then));
    Completion { ctx: std::ptr::without_provenance_mut(number), done }
}

/// Fires a completion of the host. `[any-thread & once]`
extern "C" fn done(ctx: *mut c_void, status: Status, payload: RVec<u8>) {
    guarded((), || {
        // The lock is released before the answer is passed on, because its receiver may call the plugin.
        let then = PENDING.lock().unwrap_or_else(PoisonError::into_inner).remove(&ctx.addr());
        let Some(then) = then else { return };
        if payload.len() > PAYLOAD_BYTES_MAX {
            return then(status::ERR, Vec::new());
        }
        // Copied, so that the plugin's buffer is freed at once by the plugin's allocator.
        then(status, payload.as_slice().to_vec());
    });
}

//! One instance of a library.
//!
//! `this` is valid until `destroy`. The gate counts running calls. `destroy` closes it first and waits until all calls
//! have left, so no call can use a freed instance.

use std::{
    ffi::c_void,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use abi_stable::std_types::{RSlice, RStr};
use hermes_adapter_abi::{Instance, InstanceVt_Ref, status};

use super::{Reply, callbacks, completion::completion};

/// A created instance, which is safe to share and to call in any order.
pub struct ForeignInstance {
    /// Valid until `destroy`; only passed back to `vtable`.
    this: *mut c_void,
    /// `'static`: libraries are never unloaded.
    vtable: InstanceVt_Ref,
    /// Number of the host's port for this instance.
    port: usize,
    gate: Gate,
}

// SAFETY: the ABI allows `call`, `cancel` and `shutdown` from any thread; `destroy` goes through the gate,
// after which `this` is never used again.
unsafe impl Send for ForeignInstance {}
// SAFETY: as above; shared use is what the ABI's tag `[any-thread & started]` means.
unsafe impl Sync for ForeignInstance {}

impl ForeignInstance {
    /// Wraps an instance whose host handle is the port with this number.
    pub(super) fn new(instance: Instance, port: usize) -> Self {
        Self { this: instance.this, vtable: instance.vtable, port, gate: Gate::default() }
    }

    /// Calls `method` with the number `id`. Never blocks. Answers BUSY after `destroy`, without an effect.
    pub fn call(&self, id: u64, method: &str, payload: &[u8], reply: Reply) {
        let Some(_inside) = self.gate.enter() else { return reply.send(status::BUSY, Vec::new()) };
        let then = completion(move |status, payload| reply.send(status, payload));
        (self.vtable.call())(self.this, id, RStr::from_str(method), RSlice::from_slice(payload), then);
    }

    /// Drops the future of call `id` at its next await.
    pub fn cancel(&self, id: u64) {
        if let Some(_inside) = self.gate.enter() {
            (self.vtable.cancel())(self.this, id);
        }
    }

    /// Asks the instance to end. Never blocks.
    pub fn shutdown(&self, deadline: Duration, reply: Reply) {
        let Some(_inside) = self.gate.enter() else { return };
        let then = completion(move |status, payload| reply.send(status, payload));
        (self.vtable.shutdown())(self.this, millis(deadline), then);
    }

    /// Joins the instance's thread. Blocks up to `deadline`. Returns `false` if the thread still runs; it is then left
    /// running.
    pub fn destroy(&self, deadline: Duration) -> bool {
        if !self.gate.close(deadline) {
            return false;
        }
        let joined = (self.vtable.destroy())(self.this, millis(deadline)) == 0;
        if joined {
            callbacks::forget(self.port);
        }
        joined
    }
}

fn millis(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
}

/// The count of running calls, and a flag that refuses further ones.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    left: Condvar,
}

#[derive(Default)]
struct GateState {
    inside: usize,
    closed: bool,
}

/// A running call. Dropping it leaves the gate.
struct Inside<'a>(&'a Gate);

impl Gate {
    /// Enters the gate unless it is closed.
    fn enter(&self) -> Option<Inside<'_>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Inside(self))
    }

    /// Closes the gate and waits until all calls have left. Returns `false` if a call stayed, or if the gate was closed
    /// before.
    fn close(&self, deadline: Duration) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return false;
        }
        state.closed = true;
        let waited = self.left.wait_timeout_while(state, deadline, |state| state.inside > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.inside == 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inside -= 1;
        if state.inside == 0 {
            self.0.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_enters_a_closed_gate() {
        let gate = Gate::default();
        assert!(gate.enter().is_some());
        assert!(gate.close(Duration::ZERO));
        assert!(gate.enter().is_none());
        assert!(!gate.close(Duration::ZERO), "a second destroy must not reach the library");
    }

    #[test]
    fn closing_waits_for_who_is_inside_but_not_for_ever() {
        let gate = Gate::default();
        let inside = gate.enter();
        assert!(!gate.close(Duration::from_millis(1)));
        drop(inside);

        let gate = Gate::default();
        std::thread::scope(|scope| {
            let inside = gate.enter();
            let closing = scope.spawn(|| gate.close(Duration::from_secs(60)));
            drop(inside);
            assert!(closing.join().unwrap());
        });
    }
}

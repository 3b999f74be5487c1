//! The completion of a call, which is fired exactly once.

use abi_stable::std_types::RVec;
use hermes_adapter_abi::{Completion, status};

use crate::dispatch::Reply;

/// The destination of one call's answer. Dropping it answers DROPPED.
pub(crate) struct Answer {
    completion: Option<Completion>,
}

// SAFETY: the contract lets a completion be fired from any thread; `ctx` is opaque here.
unsafe impl Send for Answer {}

impl Answer {
    pub(super) fn new(completion: Completion) -> Self {
        Self { completion: Some(completion) }
    }

    pub(crate) fn fire(mut self, reply: Reply) {
        self.fire_once(reply);
    }

    fn fire_once(&mut self, reply: Reply) {
        if let Some(Completion { ctx, done }) = self.completion.take() {
            done(ctx, reply.status, RVec::from(reply.payload));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.completion.is_some() {
            self.fire_once(Reply::error(status::DROPPED, "dropped", "the call ended without an answer"));
        }
    }
}

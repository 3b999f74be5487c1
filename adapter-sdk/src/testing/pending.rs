//! A pending call, which a test waits for or awaits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::PATIENCE;
use crate::export::MockInstance;

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// The status; see [`status`](super::status).
    pub status: i32,
    /// The payload.
    pub payload: Vec<u8>,
}

impl CallAnswer {
    /// Returns the reply of a successful call.
    ///
    /// # Panics
    ///
    /// If the call failed, or the reply has another structure.
    pub fn ok<T: DeserializeOwned>(&self) -> T {
        assert_eq!(self.status, super::status::OK, "the call ended with {}", self.text());
        self.json()
    }

    /// Returns the payload, for any status.
    ///
    /// # Panics
    ///
    /// If the payload has another structure.
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.payload).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// Returns the payload as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

/// A pending call. Dropping it cancels the call, as the host does.
#[must_use = "dropping it cancels the call"]
pub struct Pending {
    method: String,
    slot: Arc<Slot>,
    call: Option<(Arc<MockInstance>, u64)>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    filled: Condvar,
}

#[derive(Default)]
struct SlotState {
    answer: Option<CallAnswer>,
    waker: Option<Waker>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    pub(super) fn new(method: &str, call: Option<(Arc<MockInstance>, u64)>) -> Self {
        Self { method: method.to_owned(), slot: Arc::default(), call }
    }

    /// Returns the callback of the call's completion.
    pub(super) fn filler(&self) -> impl FnOnce(i32, Vec<u8>) + Send + use<> {
        let slot = Arc::clone(&self.slot);
        move |status, payload| {
            let waker = {
                let mut state = slot.lock();
                state.answer = Some(CallAnswer { status, payload });
                state.waker.take()
            };
            slot.filled.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Waits for the answer.
    ///
    /// # Panics
    ///
    /// If no answer arrives within [`PATIENCE`].
    pub fn wait(&self) -> CallAnswer {
        self.wait_for(PATIENCE).unwrap_or_else(|| panic!("`{}` was not answered", self.method))
    }

    /// Waits for the answer, at most `deadline`.
    pub fn wait_for(&self, deadline: Duration) -> Option<CallAnswer> {
        let (state, _) = self
            .slot
            .filled
            .wait_timeout_while(self.slot.lock(), deadline, |state| state.answer.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.answer.clone()
    }

    /// Returns whether the answer has arrived.
    pub fn is_answered(&self) -> bool {
        self.slot.lock().answer.is_some()
    }

    /// Cancels the call, which is answered anyway.
    pub fn cancel(&self) {
        if let Some((loaded, id)) = &self.call {
            loaded.cancel(*id);
        }
    }
}

impl Future for Pending {
    type Output = CallAnswer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallAnswer> {
        let mut state = self.slot.lock();
        match state.answer.clone() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_answered() {
            self.cancel();
        }
    }
}

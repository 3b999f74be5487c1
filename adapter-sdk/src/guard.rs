//! Panic barriers: around code (`guard`) and around futures (`PanicBarrier`).
//!
//! A panic must not leave the library: a foreign panic aborts the host. The payload is
//! dropped inside its own barrier, because its `Drop` may panic, too.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs `work` and converts a panic to its message.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // Unwind safety: state that `work` leaves inconsistent belongs to an instance that the
    // caller poisons, or is dropped.
    catch_unwind(AssertUnwindSafe(work)).map_err(message_of)
}

/// Returns the message of a panic payload and drops the payload safely.
fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_owned(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without a message".to_owned()),
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // A payload that panics while being dropped may panic again: it is leaked.
        std::mem::forget(second);
    }
    message
}

/// A future whose polls and drop are inside a barrier. `on_drop_panic` receives the message
/// of a panic while the future is dropped.
pub(crate) struct PanicBarrier<T, D: FnMut(String) + Unpin> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    on_drop_panic: D,
}

impl<T, D: FnMut(String) + Unpin> PanicBarrier<T, D> {
    pub(crate) fn new(future: Pin<Box<dyn Future<Output = T> + Send>>, on_drop_panic: D) -> Self {
        Self { future: Some(future), on_drop_panic }
    }

    fn drop_future(&mut self) {
        let future = self.future.take();
        if let Err(message) = guard(|| drop(future)) {
            (self.on_drop_panic)(message);
        }
    }
}

impl<T, D: FnMut(String) + Unpin> Future for PanicBarrier<T, D> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(Err("the call was polled after its end".to_owned()));
        };
        match guard(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => {
                self.drop_future();
                Poll::Ready(Ok(output))
            }
            Err(message) => {
                self.drop_future();
                Poll::Ready(Err(message))
            }
        }
    }
}

impl<T, D: FnMut(String) + Unpin> Drop for PanicBarrier<T, D> {
    fn drop(&mut self) {
        self.drop_future();
    }
}

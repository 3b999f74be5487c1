//! The rate limit of values that adapters keep.
//!
//! The writes of one instance run one at a time, so that a commit holds at most one of them and the flood of one
//! instance delays nobody else. Beyond a burst an instance waits until its allowance of bytes is refilled; the wait is
//! the back-pressure of its calls, which are bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::limits::{KV_BURST_BYTES, KV_BYTES_PER_S};
use hermes_core::rate::TokenBucket;
use tokio::sync::OwnedMutexGuard;

use crate::engine::timer::Timer;

/// Bytes that a write counts in addition to its key and value: a page is written for the smallest one.
const WRITE_BYTES: u32 = 256;

/// The write slots of all instances.
pub(crate) struct ValueWrites {
    clock: Arc<dyn Timer>,
    instances: Mutex<BTreeMap<Arc<str>, Writes>>,
}

/// The allowance of one instance, held by the current write.
type Writes = Arc<tokio::sync::Mutex<TokenBucket>>;

impl ValueWrites {
    pub(crate) fn new(clock: Arc<dyn Timer>) -> Self {
        Self { clock, instances: Mutex::default() }
    }

    /// Waits for the slot of a write of `bytes` bytes, in the order of the calls. The slot ends with the guard.
    pub(crate) async fn turn(&self, instance: &Arc<str>, bytes: usize) -> OwnedMutexGuard<TokenBucket> {
        let mut allowance = self.of(instance).lock_owned().await;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(WRITE_BYTES);
        let wait_ms = allowance.borrow(bytes, self.clock.now_ms());
        if wait_ms > 0 {
            self.clock.until(self.clock.moment() + Duration::from_millis(wait_ms)).await;
        }
        allowance
    }

    fn of(&self, instance: &Arc<str>) -> Writes {
        let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let full =
            || Arc::new(tokio::sync::Mutex::new(TokenBucket::new(KV_BURST_BYTES, KV_BYTES_PER_S, self.clock.now_ms())));
        Arc::clone(instances.entry(Arc::clone(instance)).or_insert_with(full))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use hermes_system::clock::SystemClock;

    #[tokio::test]
    async fn an_instance_writes_one_value_at_a_time_and_holds_up_no_other() {
        let writes = ValueWrites::new(Arc::new(SystemClock));
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let first = writes.turn(&one, 1_000).now_or_never().expect("the first does not wait");
        let mut second = std::pin::pin!(writes.turn(&one, 1_000));
        assert!(second.as_mut().now_or_never().is_none(), "one at a time");
        let _other = writes.turn(&other, 1_000).now_or_never().expect("another instance does not wait");
        drop(first);
        let _second = second.now_or_never().expect("its turn has come");
    }
}

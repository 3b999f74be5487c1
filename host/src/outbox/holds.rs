//! What all lanes of one instance have in common: waits that the platform asked for,
//! and how much is held. The one thing that lanes share, since a wait of the whole
//! instance must be seen by every lane before its next send.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hermes_core::delivery::PenaltyClock;
use hermes_core::limits::WAIT_TOLD_MS_MAX;

/// The waits of one instance.
#[derive(Debug, Default)]
pub struct Holds {
    clock: Mutex<PenaltyClock>,
    held: AtomicU64,
}

impl Holds {
    /// The whole instance waits until this time.
    pub fn hold_instance(&self, instance: &str, until_ms: i64, now_ms: i64) {
        self.locked(|clock| clock.hold_instance(instance, until_ms.min(farthest_ms(now_ms))));
    }

    /// One chat waits until this time.
    pub fn hold_chat(&self, instance: &str, chat: &str, until_ms: i64, now_ms: i64) {
        self.locked(|clock| clock.hold_chat(instance, chat, until_ms.min(farthest_ms(now_ms)), now_ms));
    }

    /// Until when a chat has to wait. Nothing waits for longer than was ever asked for: then the clock was set back.
    pub fn until_ms(&self, instance: &str, chat: &str, now_ms: i64) -> Option<i64> {
        self.locked(|clock| clock.held_until(instance, chat, now_ms))
            .filter(|until_ms| *until_ms <= farthest_ms(now_ms))
    }

    /// Forgets what is over.
    pub fn sweep(&self, now_ms: i64) {
        self.locked(|clock| clock.sweep(now_ms));
    }

    /// Deliveries that wait for the instance.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sub(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    fn locked<T>(&self, work: impl FnOnce(&mut PenaltyClock) -> T) -> T {
        work(&mut self.clock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn farthest_ms(now_ms: i64) -> i64 {
    now_ms.saturating_add(WAIT_TOLD_MS_MAX)
}

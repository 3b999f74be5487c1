//! The state that all lanes of one instance share: waits that the platform demanded, and the number of held deliveries.
//! The lanes share nothing else. A wait of the whole instance must be visible to every lane before its next send.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_core::delivery::RateLimitHolds;
use hermes_core::limits::WAIT_TOLD_MS_MAX;
use tokio::time::Instant;

use super::budget::{HintBudget, HintKind};

/// The waits of every instance.
#[derive(Debug, Default)]
pub struct AllHolds(Mutex<BTreeMap<Arc<str>, Arc<Holds>>>);

impl AllHolds {
    /// Returns the waits of one instance.
    pub fn of(&self, instance: &str) -> Arc<Holds> {
        let mut all = self.locked();
        if let Some(holds) = all.get(instance) {
            return Arc::clone(holds);
        }
        let holds = Arc::<Holds>::default();
        all.insert(Arc::from(instance), Arc::clone(&holds));
        holds
    }

    /// Ends every wait.
    pub fn lift_all(&self) {
        self.locked().values().for_each(|holds| {
            holds.reached();
            holds.locked(RateLimitHolds::lift_all);
        });
    }

    /// Forgets expired waits.
    pub fn sweep(&self, now_ms: i64) {
        self.locked().values().for_each(|holds| holds.sweep(now_ms));
    }

    /// Returns the number of deliveries that wait for each instance.
    pub fn held(&self) -> Vec<(String, u64)> {
        self.locked().iter().map(|(instance, holds)| (instance.to_string(), holds.held())).collect()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Holds>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waits of one instance.
#[derive(Debug, Default)]
pub struct Holds {
    clock: Mutex<RateLimitHolds>,
    hints: Mutex<HintBudget>,
    held: AtomicU64,
    /// The end of the pause after a send did not reach the platform, in milliseconds since the Unix epoch; 0: no pause.
    unreachable_until_ms: AtomicI64,
}

impl Holds {
    /// Pauses the whole instance until this time, or until it has a link again.
    pub fn hold_unreachable(&self, until_ms: i64) {
        self.unreachable_until_ms.fetch_max(until_ms, Ordering::Relaxed);
    }

    /// Ends the pause of an instance that has a link again.
    pub fn reached(&self) {
        self.unreachable_until_ms.store(0, Ordering::Relaxed);
    }

    /// Ends the waits of a chat and of its instance.
    pub fn lift(&self, instance: &str, chat: &str) {
        self.reached();
        self.locked(|clock| clock.lift(instance, chat));
    }

    /// Returns the moment at which a further hint of this kind may be sent in a chat; `None`: too many wait already.
    pub fn hint_slot(&self, kind: HintKind, chat: &str, now: Instant) -> Option<Instant> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).slot(kind, chat, now)
    }

    /// Gives back an unused slot of [`Self::hint_slot`].
    pub fn give_back_hint_slot(&self, kind: HintKind, chat: &str) {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).give_back(kind, chat);
    }

    /// Pauses the whole instance until this time.
    pub fn hold_instance(&self, instance: &str, until_ms: i64, now_ms: i64) {
        self.locked(|clock| clock.hold_instance(instance, until_ms.min(farthest_ms(now_ms))));
    }

    /// Pauses one chat until this time.
    pub fn hold_chat(&self, instance: &str, chat: &str, until_ms: i64, now_ms: i64) {
        self.locked(|clock| clock.hold_chat(instance, chat, until_ms.min(farthest_ms(now_ms)), now_ms));
    }

    /// Returns the end of the wait of a chat. A wait beyond the longest one possible means that the clock was set back,
    /// and is ignored.
    pub fn until_ms(&self, instance: &str, chat: &str, now_ms: i64) -> Option<i64> {
        let unreachable = Some(self.unreachable_until_ms.load(Ordering::Relaxed)).filter(|until_ms| *until_ms > now_ms);
        self.locked(|clock| clock.held_until(instance, chat, now_ms))
            .max(unreachable)
            .filter(|until_ms| *until_ms <= farthest_ms(now_ms))
    }

    /// Forgets expired waits.
    pub fn sweep(&self, now_ms: i64) {
        self.locked(|clock| clock.sweep(now_ms));
    }

    /// Returns the number of deliveries that wait for the instance.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sub(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    fn locked<T>(&self, work: impl FnOnce(&mut RateLimitHolds) -> T) -> T {
        work(&mut self.clock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn farthest_ms(now_ms: i64) -> i64 {
    now_ms.saturating_add(WAIT_TOLD_MS_MAX)
}

//! The current time as an argument: a port that the host implements, and the offsets of the platforms' clocks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lateness::ClockOffset;

/// The offsets of the platforms' clocks, by the instance that delivers their timestamps. Learnt again in each run of
/// the host.
#[derive(Debug, Default)]
pub struct PlatformClocks(Mutex<BTreeMap<String, ClockOffset>>);

impl PlatformClocks {
    /// Returns the lead of the host's clock over the platform's, in milliseconds.
    pub fn ahead_ms(&self, instance: &str) -> i64 {
        self.locked().get(instance).map_or(0, ClockOffset::ahead_ms)
    }

    /// Learns from an event with the platform's timestamp `at_ms` that arrived at `received_ms`.
    pub fn learn(&self, instance: &str, at_ms: i64, received_ms: i64) {
        let mut clocks = self.locked();
        match clocks.get_mut(instance) {
            Some(clocks) => clocks.learn(at_ms, received_ms),
            None => clocks.entry(instance.to_owned()).or_default().learn(at_ms, received_ms),
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, ClockOffset>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A source of the current time. Object safe, so that a test can control the time.
pub trait Clock: Send + Sync + 'static {
    /// Returns milliseconds since the Unix epoch. The value never jumps while the process runs, because deadlines are
    /// compared with it.
    fn now_ms(&self) -> i64;

    /// Returns the clock of the machine in milliseconds since the Unix epoch; it jumps when it is set.
    fn wall_ms(&self) -> i64 {
        self.now_ms()
    }

    /// Returns the time since which the process has been running without a longer sleep, by [`Clock::now_ms`].
    fn awake_since_ms(&self) -> i64 {
        i64::MIN
    }
}

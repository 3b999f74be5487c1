//! Where *now* comes from. The only place of the host that reads a clock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use hermes_core::lateness::Clocks;
use tokio::time::Instant;

/// What is known of the clocks of platforms, by the instance that brings what they date. It is learnt anew in each life
/// of the host.
#[derive(Debug, Default)]
pub struct PlatformClocks(Mutex<BTreeMap<String, Clocks>>);

impl PlatformClocks {
    /// By how much the host's clock is ahead of the platform's.
    pub fn ahead_ms(&self, instance: &str) -> i64 {
        self.locked().get(instance).map_or(0, Clocks::ahead_ms)
    }

    /// Something that the platform dates `at_ms` came in at `received_ms`.
    pub fn learn(&self, instance: &str, at_ms: i64, received_ms: i64) {
        let mut clocks = self.locked();
        match clocks.get_mut(instance) {
            Some(clocks) => clocks.learn(at_ms, received_ms),
            None => clocks.entry(instance.to_owned()).or_default().learn(at_ms, received_ms),
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Clocks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the time. Object safe, so that a test can hold the hands.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;

    /// This moment on a clock that never jumps, for whoever waits.
    fn moment(&self) -> Instant {
        Instant::now()
    }

    /// Resolves at a moment.
    fn until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment))
    }
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_add(skew_ms())
    }
}

/// How far the clock of this life is off, in builds for tests: a clock that was set between two lives.
#[cfg(feature = "crash-points")]
#[expect(clippy::disallowed_methods, reason = "test builds only, and the configuration must not know about it")]
fn skew_ms() -> i64 {
    static SKEW_MS: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *SKEW_MS.get_or_init(|| std::env::var("HERMES_CLOCK_SKEW_MS").ok().and_then(|skew| skew.parse().ok()).unwrap_or(0))
}

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
const fn skew_ms() -> i64 {
    0
}

//! Where *now* comes from. The only place of the host that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

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

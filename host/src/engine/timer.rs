//! Waits of the host, which a test can control.

use futures_util::future::BoxFuture;
use hermes_core::clock::Clock;
use hermes_system::clock::SystemClock;
use tokio::time::Instant;

/// A clock with waits. Object safe, so that a test can control the time.
pub trait Timer: Clock {
    /// Returns this moment on a clock that never jumps, for waits.
    fn moment(&self) -> Instant {
        Instant::now()
    }

    /// Resolves at a moment.
    fn until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment))
    }
}

impl Timer for SystemClock {}

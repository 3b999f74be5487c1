//! Exponential backoff.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// An exponential backoff from `base` to `cap`, doubled each time. Half of each delay is
/// fixed and half is random, so that clients that failed together do not retry together.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempts: u32,
}

impl Backoff {
    /// Creates a backoff with delays between `base` and `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, attempts: 0 }
    }

    /// Returns the delay to wait now, and increases the next one.
    pub fn next_delay(&mut self) -> Duration {
        self.next_delay_with(RandomState::new().hash_one(self.attempts))
    }

    /// Does the same with a given random number.
    pub fn next_delay_with(&mut self, draw: u64) -> Duration {
        let full = self.base.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX)).min(self.cap);
        self.attempts = self.attempts.saturating_add(1);
        let half = full / 2;
        let drawn_us = draw % (u64::try_from(half.as_micros()).unwrap_or(u64::MAX).saturating_add(1));
        full - half + Duration::from_micros(drawn_us)
    }

    /// Resets the delay. Call it only after a real success.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_never_leave_their_half() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        for full_s in [1, 2, 4, 5, 5] {
            let mut least = backoff.clone();
            assert_eq!(least.next_delay_with(0), Duration::from_secs(full_s) / 2);
            let drawn = backoff.next_delay();
            assert!(drawn >= Duration::from_secs(full_s) / 2 && drawn <= Duration::from_secs(full_s), "{drawn:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_secs(1));
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
        for _ in 0..1000 {
            assert!(backoff.next_delay_with(u64::MAX) <= Duration::from_secs(300));
        }
    }
}

//! Waiting times between attempts.

/// Exponential backoff with jitter and an upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// First wait, in milliseconds.
    pub base_ms: u64,
    /// Longest wait, in milliseconds.
    pub cap_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base_ms: crate::limits::BACKOFF_BASE_MS, cap_ms: crate::limits::BACKOFF_MS_MAX }
    }
}

impl Backoff {
    /// Creates a backoff that begins at `base_ms` and never exceeds `cap_ms`.
    pub fn new(base_ms: u64, cap_ms: u64) -> Self {
        Self { base_ms, cap_ms }
    }

    /// Returns the wait after `failures` consecutive failures (the first is 1), in milliseconds.
    ///
    /// `jitter`, a random number, spreads the wait over the upper half of `base × 2^(failures - 1)`, so that
    /// clients that failed together do not retry together.
    pub fn delay_ms(&self, failures: u32, jitter: u64) -> u64 {
        let doublings = failures.saturating_sub(1).min(63);
        let full = self.base_ms.saturating_mul(1 << doublings).min(self.cap_ms);
        let half = full / 2;
        full - half + jitter % (half + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let backoff = Backoff::default();
        let longest = |failures| backoff.delay_ms(failures, backoff.cap_ms.div_ceil(2).min(1 << 62));
        assert!((500..=1_000).contains(&backoff.delay_ms(1, 7)));
        assert!((2_000..=4_000).contains(&backoff.delay_ms(3, 7)));
        assert!((150_000..=300_000).contains(&longest(20)));
        assert!((150_000..=300_000).contains(&longest(u32::MAX)));
    }

    proptest! {
        #[test]
        fn a_wait_is_within_the_upper_half_of_its_doubling(
            base in 1u64..100_000, cap in 1u64..10_000_000, failures in 0u32..200, jitter: u64,
        ) {
            let wait = Backoff::new(base, cap).delay_ms(failures, jitter);
            let full = (u128::from(base) << failures.saturating_sub(1).min(63)).min(u128::from(cap));
            prop_assert!(wait >= 1 && u128::from(wait) <= full && u128::from(wait) * 2 >= full);
        }
    }
}

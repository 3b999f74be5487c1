//! The sources of the current time, the only place of the host that reads a clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_core::clock::Clock;
use rustix::time::{ClockId, clock_gettime};

/// Time between two readings from which the process counts as having slept, in milliseconds.
const ASLEEP_MS: i64 = 60_000;

/// The clock of the machine at the start of the process, plus the time since then. That time includes sleep of the
/// machine and does not change when the clock is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The last reading of the clock, and the end of the last sleep, by [`Clock::now_ms`].
static READ_MS: AtomicI64 = AtomicI64::new(i64::MIN);
static AWAKE_SINCE_MS: AtomicI64 = AtomicI64::new(i64::MIN);

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        /// The clock of the machine less the time since its boot, both at the first reading.
        static BOOTED_MS: OnceLock<i64> = OnceLock::new();
        let since_boot_ms = since_boot_ms();
        let now_ms =
            BOOTED_MS.get_or_init(|| self.wall_ms().saturating_sub(since_boot_ms)).saturating_add(since_boot_ms);
        let read_ms = READ_MS.load(Ordering::Acquire);
        if read_ms != i64::MIN && now_ms.saturating_sub(read_ms) > ASLEEP_MS {
            AWAKE_SINCE_MS.fetch_max(now_ms, Ordering::AcqRel);
        }
        READ_MS.fetch_max(now_ms, Ordering::AcqRel);
        now_ms
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_add(skew_ms())
    }

    fn awake_since_ms(&self) -> i64 {
        AWAKE_SINCE_MS.load(Ordering::Acquire)
    }
}

fn since_boot_ms() -> i64 {
    let since = clock_gettime(ClockId::Boottime);
    since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000)
}

/// A detector of clock changes: [`ClockWatch::look`] returns the size of each change in milliseconds.
#[derive(Debug, Default)]
pub struct ClockWatch {
    differs_ms: Option<i64>,
}

/// The smallest difference that counts, in milliseconds: clocks are corrected in small steps.
const SET_BY_MS: i64 = 2_000;

impl ClockWatch {
    /// Compares the clock of the machine with the time that has passed.
    pub fn look(&mut self, wall_ms: i64, now_ms: i64) -> Option<i64> {
        let differs_ms = wall_ms.saturating_sub(now_ms);
        let set_by_ms = differs_ms.saturating_sub(*self.differs_ms.get_or_insert(differs_ms));
        if set_by_ms.abs() < SET_BY_MS {
            return None;
        }
        self.differs_ms = Some(differs_ms);
        Some(set_by_ms)
    }
}

/// Returns the offset of the clock in this run, in builds for tests: it simulates a clock that was set between two
/// runs.
#[cfg(feature = "crash-points")]
#[expect(clippy::disallowed_methods, reason = "test builds only, and the configuration must not know about it")]
fn skew_ms() -> i64 {
    static SKEW_MS: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    let skew = |text: Option<String>| text.and_then(|skew| skew.trim().parse().ok()).unwrap_or(0);
    let at_start = *SKEW_MS.get_or_init(|| skew(std::env::var("HERMES_CLOCK_SKEW_MS").ok()));
    // A test sets the clock of a running process through this file.
    let file = std::env::var("HERMES_CLOCK_FILE").ok();
    at_start + skew(file.and_then(|path| std::fs::read_to_string(path).ok()))
}

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
const fn skew_ms() -> i64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_once_in_either_direction_and_a_correction_is_not() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.look(1_000, 500), None, "they may differ from the start");
        assert_eq!(watch.look(2_900, 1_500), None);
        assert_eq!(watch.look(3_602_500, 2_000), Some(3_600_000));
        assert_eq!(watch.look(3_603_500, 3_000), None);
        assert_eq!(watch.look(4_500, 4_000), Some(-3_600_000));
    }

    #[test]
    fn the_time_only_goes_on() {
        let times: Vec<i64> = (0..1_000).map(|_| SystemClock.now_ms()).collect();
        assert!(times.is_sorted());
        assert!((SystemClock.wall_ms() - SystemClock.now_ms()).abs() < 3_600_000);
    }
}

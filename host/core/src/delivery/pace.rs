//! Update rate of a growing message.

use crate::limits;

/// Number of intervals after which a change shorter than a piece is shown.
const SHORT_AFTER_INTERVALS: i64 = 3;

/// Longest interval to which a platform can slow the pace down, in milliseconds.
const INTERVAL_MS_MAX: i64 = 10_000;

/// Pace set by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewRule {
    /// Shortest time between two updates, in milliseconds.
    pub interval_ms: i64,
    /// Number of characters of a piece.
    pub chars: usize,
}

impl Default for PreviewRule {
    fn default() -> Self {
        Self { interval_ms: limits::PREVIEW_INTERVAL_MS as i64, chars: limits::PREVIEW_CHARS }
    }
}

/// The schedule of updates of one growing message.
///
/// The first update waits as well, so that a fast answer is sent once and complete.
#[derive(Clone, Debug)]
pub struct PreviewPace {
    rule: PreviewRule,
    interval_ms: i64,
    shown_ms: i64,
    shown_chars: usize,
}

impl PreviewPace {
    /// Creates the schedule of a message that was not shown yet.
    pub fn new(rule: PreviewRule, now_ms: i64) -> Self {
        Self { rule, interval_ms: rule.interval_ms, shown_ms: now_ms, shown_chars: 0 }
    }

    /// Returns the time of the next update, in Unix milliseconds, after `chars` characters were written in
    /// total. Returns `None` if there is nothing new.
    pub fn due_ms(&self, chars: usize) -> Option<i64> {
        let new = chars.saturating_sub(self.shown_chars);
        let intervals = match new {
            0 => return None,
            new if new >= self.rule.chars => 1,
            _ => SHORT_AFTER_INTERVALS,
        };
        Some(self.shown_ms.saturating_add(self.interval_ms.saturating_mul(intervals)))
    }

    /// Records that the first `chars` characters were shown.
    pub fn shown(&mut self, now_ms: i64, chars: usize) {
        self.shown_ms = now_ms;
        self.shown_chars = chars;
    }

    /// Records a rejected update and doubles the interval.
    pub fn slow_down(&mut self, now_ms: i64) {
        self.shown_ms = now_ms;
        self.interval_ms =
            self.interval_ms.saturating_mul(2).clamp(self.rule.interval_ms, INTERVAL_MS_MAX.max(self.rule.interval_ms));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pace() -> PreviewPace {
        PreviewPace::new(PreviewRule::default(), 1_000)
    }

    #[test]
    fn a_piece_waits_for_its_interval_and_for_its_length() {
        let mut pace = pace();
        assert_eq!(pace.due_ms(0), None, "nothing is new");
        assert_eq!(pace.due_ms(24), Some(1_800));
        assert_eq!(pace.due_ms(23), Some(3_400), "a short piece waits longer, and not for ever");
        pace.shown(2_000, 24);
        assert_eq!(pace.due_ms(24), None);
        assert_eq!(pace.due_ms(47), Some(4_400));
        assert_eq!(pace.due_ms(48), Some(2_800));
    }

    #[test]
    fn a_platform_that_takes_less_gets_less() {
        let mut pace = pace();
        pace.slow_down(1_000);
        assert_eq!(pace.due_ms(100), Some(2_600));
        for _ in 0..40 {
            pace.slow_down(1_000);
        }
        assert_eq!(pace.due_ms(100), Some(11_000), "and is asked again within ten seconds");
    }

    proptest! {
        #[test]
        fn two_pieces_are_never_closer_than_the_interval(
            interval_ms in 0i64..5_000, chars in 1usize..100, writes in proptest::collection::vec((0i64..2_000, 0usize..50), 1..60),
        ) {
            let mut pace = PreviewPace::new(PreviewRule { interval_ms, chars }, 0);
            let (mut now, mut written, mut last) = (0, 0, 0);
            for (wait, more) in writes {
                now += wait;
                written += more;
                if pace.due_ms(written).is_some_and(|due| due <= now) {
                    prop_assert!(now - last >= interval_ms);
                    pace.shown(now, written);
                    last = now;
                }
            }
        }
    }
}

//! Estimate of the offset between a platform's clock and the host's clock, to detect late messages.
//!
//! A message that arrives in time differs from the host's clock by the offset plus the transfer time. The
//! smallest of the last differences is the estimate of the offset. A message with a larger difference is late
//! and does not change the estimate, unless enough messages with the same difference arrive over a long enough
//! time; then a clock must have been adjusted.

use std::collections::VecDeque;

/// Tolerated difference of a message that arrives in time, in milliseconds. Many platforms report whole
/// seconds.
pub const SLACK_MS: i64 = 2_000;

/// Number of remembered differences, both of messages in time and of late ones.
const KEPT: usize = 8;

/// Time for which messages must arrive with the same difference, at least [`SET_LEAST`] of them, before a clock
/// counts as adjusted, in milliseconds. A backlog arrives faster than that.
const SET_AFTER_MS: i64 = 60_000;

/// Lowest number of such messages; see [`SET_AFTER_MS`].
const SET_LEAST: usize = 4;

/// The clock offset of one instance's platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset {
    in_time: VecDeque<i64>,
    /// Late messages: time of arrival in Unix milliseconds, and difference in milliseconds.
    late: VecDeque<(i64, i64)>,
}

impl ClockOffset {
    /// Returns the lead of the host's clock, in milliseconds; 0 while the offset is unknown.
    pub fn ahead_ms(&self) -> i64 {
        self.in_time.iter().copied().min().unwrap_or_default()
    }

    /// Records a message with the platform time `at_ms` that arrived at `received_ms`.
    pub fn learn(&mut self, at_ms: i64, received_ms: i64) {
        let differs_ms = received_ms.saturating_sub(at_ms);
        if differs_ms <= self.ahead_ms().saturating_add(SLACK_MS) {
            keep(&mut self.in_time, differs_ms);
            self.late.clear();
            return;
        }
        let is_alike = |(_, one): &(i64, i64)| one.abs_diff(differs_ms) <= SLACK_MS.unsigned_abs();
        self.late.retain(is_alike);
        keep(&mut self.late, (received_ms, differs_ms));
        let since_ms = self.late.front().map_or(received_ms, |(at_ms, _)| *at_ms);
        if self.late.len() >= SET_LEAST && received_ms.saturating_sub(since_ms) >= SET_AFTER_MS {
            self.in_time = self.late.drain(..).map(|(_, differs_ms)| differs_ms).collect();
        }
    }
}

fn keep<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(said: &[(i64, i64)]) -> i64 {
        let mut clocks = ClockOffset::default();
        said.iter().for_each(|(at_ms, received_ms)| clocks.learn(*at_ms, *received_ms));
        clocks.ahead_ms()
    }

    #[test]
    fn what_comes_with_one_difference_for_a_while_shows_by_how_much_the_clocks_differ() {
        let said: Vec<_> = (0..4).map(|n| (n * 30_000, n * 30_000 + 300_000 + n * 100)).collect();
        assert_eq!(after(&said[..3]), 0, "three say nothing");
        assert_eq!(after(&said), 300_000);
        let behind: Vec<_> = (0..2).map(|n| (n * 1_000 + 300_000, n * 1_000)).collect();
        assert_eq!(after(&behind[..1]), -300_000, "nothing is said before it is said");
    }

    #[test]
    fn a_backlog_shows_nothing_of_the_clocks() {
        let backlog: Vec<_> = (0..20).map(|n| (n * 60_000, 3_600_000 + n)).collect();
        assert_eq!(after(&backlog), 0);
        let written_at_once: Vec<_> = (0..20).map(|n| (n * 100, 3_600_000 + n)).collect();
        assert_eq!(after(&written_at_once), 0);
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed_after_a_while() {
        let mut said: Vec<_> = (0..4).map(|n| (n * 30_000, n * 30_000 + 300_000)).collect();
        said.push((200_000, 200_100));
        assert_eq!(after(&said), 100);
        said.extend((10..14).map(|n| (n * 30_000, n * 30_000 - 60_000)));
        assert_eq!(after(&said), -60_000);
    }
}

//! How old what a platform brings is, though its clock and the host's need not agree.
//!
//! What is said now differs from the host's clock by what the clocks differ and a moment on
//! the way. The least of the last differences is taken for that of the clocks. What comes
//! later than it is late, and says nothing about the clocks, unless so much of it comes for
//! so long with the same difference that a clock must have been set.

use std::collections::VecDeque;

/// How much what is said now may differ: many platforms count whole seconds.
pub const SLACK_MS: i64 = 2_000;

/// Differences that are remembered of what came in time, and of what did not.
const KEPT: usize = 8;

/// What comes with one difference for so long, at least [`SET_LEAST`] times, is not late: a clock was set. What waited
/// for an adapter comes at once.
const SET_AFTER_MS: i64 = 60_000;

/// See [`SET_AFTER_MS`].
const SET_LEAST: usize = 4;

/// What is known of the clock of one instance's platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    in_time: VecDeque<i64>,
    /// When it came, and by how much it differed.
    late: VecDeque<(i64, i64)>,
}

impl Clocks {
    /// By how much the host's clock is ahead; 0 while nothing is known.
    pub fn ahead_ms(&self) -> i64 {
        self.in_time.iter().copied().min().unwrap_or_default()
    }

    /// Something that the platform dates `at_ms` came in at `received_ms`.
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
        let mut clocks = Clocks::default();
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

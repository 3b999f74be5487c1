//! The rate limit of a route.

use std::collections::VecDeque;

/// One minute in milliseconds.
const MINUTE_MS: i64 = 60_000;

/// The times of accepted calls within the last minute, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Rate(VecDeque<i64>);

impl Rate {
    /// Counts a call, or returns the number of seconds until one is allowed.
    pub(crate) fn take(&mut self, per_minute: u32, now_ms: i64) -> Result<(), u64> {
        // Times in the future, after the clock was set back, do not block calls.
        self.0.retain(|at| (0..MINUTE_MS).contains(&now_ms.saturating_sub(*at)));
        if self.0.len() >= per_minute as usize {
            let oldest = self.0.front().copied().unwrap_or(now_ms);
            let wait_ms = (oldest + MINUTE_MS).saturating_sub(now_ms).clamp(1, MINUTE_MS);
            return Err(u64::try_from((wait_ms + 999) / 1_000).unwrap_or(1));
        }
        self.0.push_back(now_ms);
        Ok(())
    }

    /// Removes the last call, which was a repetition or was not accepted.
    pub(crate) fn undo(&mut self) {
        self.0.pop_back();
    }
}

#[cfg(test)]
mod tests;

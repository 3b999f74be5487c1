//! The rate limit of new sessions.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::time::{Instant, sleep_until};

use crate::objects::StartLimit;

/// The pause between two groups of new sessions.
/// <https://docs.discord.com/developers/events/gateway#rate-limiting>
const IDENTIFY_PAUSE: Duration = Duration::from_secs(5);

/// The rate limit of new sessions.
pub(crate) struct IdentifyLimit {
    limit: Option<StartLimit>,
    /// The number of sessions that may be started at the same time.
    concurrency: u32,
    /// The number of sessions that were started under `limit`.
    started: u32,
    /// The time from which a further session may be started.
    next_at: Instant,
}

impl IdentifyLimit {
    /// Creates the rate limit that the server reports; `None`: it reports none.
    pub(crate) fn new(limit: Option<StartLimit>) -> Self {
        let concurrency = limit.as_ref().map_or(1, |limit| limit.max_concurrency.max(1));
        Self { limit, concurrency, started: 0, next_at: Instant::now() }
    }

    /// Replaces the remaining number of sessions by a later report of the server.
    pub(crate) fn refresh(&mut self, limit: Option<StartLimit>) {
        (self.limit, self.started) = (limit, 0);
    }

    /// Waits until a new session may be started, and counts it.
    ///
    /// # Errors
    ///
    /// The wait until the server allows new sessions, if none remains.
    pub(crate) async fn acquire(&mut self) -> Result<(), ConnectError> {
        if let Some(limit) = &self.limit {
            if limit.remaining <= self.started && limit.reset_after > 0 {
                return Err(ConnectError::retry_after_ms(
                    "the limit of new Discord sessions is reached; find out what reconnects so often",
                    limit.reset_after,
                ));
            }
        }
        sleep_until(self.next_at).await;
        self.started = self.started.saturating_add(1);
        if self.started % self.concurrency == 0 {
            self.next_at = Instant::now() + IDENTIFY_PAUSE;
        }
        Ok(())
    }
}

//! The state machine of one adapter.
//!
//! `Loaded → Starting → Online ⇄ Reconnecting → Draining → Stopped`, with `Degraded` as a variant of `Online`,
//! and `Failed`, `Paused`, `Stuck`. The states carry the number of consecutive failures. Only a success that
//! carries data resets it, so that a link that opens and breaks at once is not retried in a tight loop.

#[cfg(test)]
mod tests;

/// State of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// The library is loaded and accepted; nothing runs.
    Loaded,
    /// The adapter is created and connects for the first time.
    Starting {
        /// Consecutive failures before this start.
        failures: u32,
        /// Reason of the last failure, if this start is a retry.
        reason: Option<String>,
    },
    /// The link is up.
    Online {
        /// Consecutive failures that no data-carrying success has reset yet.
        failures: u32,
    },
    /// The link is up, but a duty fails.
    Degraded {
        /// Name of the duty.
        duty: String,
        /// Consecutive failures, as in `Online`.
        failures: u32,
    },
    /// There is no link; the next attempt is waiting or running.
    Reconnecting {
        /// Consecutive failures, including this one.
        attempt: u32,
        /// Time of the next attempt, in Unix milliseconds.
        next_try_ms: i64,
        /// Reason for the missing link.
        reason: String,
    },
    /// The adapter finishes its current work and accepts no more.
    Draining,
    /// The adapter ended.
    Stopped,
    /// The operator paused the adapter.
    Paused,
    /// The adapter did not end by its deadline; its credential stays locked.
    Stuck,
    /// The adapter needs the intervention of a person.
    Failed {
        /// Description of the fault.
        reason: String,
        /// Next step for the person.
        mend: String,
    },
}

/// Event that changes the state of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterChange {
    /// The adapter is started: at the start of the host, by the operator, or after a config change.
    Start,
    /// The link is up.
    Connected,
    /// Data passed through the link.
    Proved,
    /// A duty fails while the link is up.
    Degrade {
        /// Name of the duty.
        duty: String,
    },
    /// All duties work again.
    Recovered,
    /// There is no link: it broke, could not be opened, or the adapter crashed.
    Lost {
        /// Reason for the loss.
        reason: String,
        /// Time of the next attempt, in Unix milliseconds.
        next_try_ms: i64,
    },
    /// A retry is useless until a person intervenes.
    Fatal {
        /// Description of the fault.
        reason: String,
        /// Next step for the person.
        mend: String,
    },
    /// The adapter is asked to end.
    Drain,
    /// The adapter ended.
    Ended,
    /// The adapter did not end by its deadline.
    Overdue,
    /// The operator pauses the adapter.
    Pause,
}

/// An invalid transition, which is a bug of this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the adapter state {} does not allow {change:?}", .state.word())]
pub struct InvalidAdapterChange {
    /// State of the adapter before the change.
    pub state: AdapterState,
    /// The rejected change.
    pub change: AdapterChange,
}

impl AdapterState {
    /// Returns the state after `change`. The table of transitions exists only here.
    ///
    /// # Errors
    ///
    /// [`InvalidAdapterChange`] for an invalid transition.
    pub fn after(self, change: AdapterChange) -> Result<Self, Box<InvalidAdapterChange>> {
        use AdapterChange as Change;
        let failures = self.failures();
        match (self, change) {
            (Self::Loaded | Self::Stopped | Self::Paused | Self::Failed { .. }, Change::Start) => {
                Ok(Self::Starting { failures: 0, reason: None })
            }
            // A stuck thread keeps its credential; the new start uses a separate process.
            (Self::Stuck, Change::Start) => Ok(Self::Starting { failures: 0, reason: None }),
            (Self::Reconnecting { reason, .. }, Change::Start) => Ok(Self::Starting { failures, reason: Some(reason) }),

            (Self::Starting { .. } | Self::Reconnecting { .. }, Change::Connected) => Ok(Self::Online { failures }),
            (Self::Online { .. }, Change::Connected | Change::Recovered) => Ok(Self::Online { failures }),
            (Self::Degraded { .. }, Change::Connected | Change::Recovered) => Ok(Self::Online { failures }),
            (Self::Online { .. }, Change::Proved) => Ok(Self::Online { failures: 0 }),
            (Self::Degraded { duty, .. }, Change::Proved) => Ok(Self::Degraded { duty, failures: 0 }),
            (Self::Online { .. } | Self::Degraded { .. }, Change::Degrade { duty }) => {
                Ok(Self::Degraded { duty, failures })
            }

            (
                Self::Starting { .. } | Self::Online { .. } | Self::Degraded { .. } | Self::Reconnecting { .. },
                Change::Lost { reason, next_try_ms },
            ) => Ok(Self::Reconnecting { attempt: failures.saturating_add(1), next_try_ms, reason }),
            (
                Self::Loaded
                | Self::Starting { .. }
                | Self::Online { .. }
                | Self::Degraded { .. }
                | Self::Reconnecting { .. },
                Change::Fatal { reason, mend },
            ) => Ok(Self::Failed { reason, mend }),

            (
                Self::Starting { .. } | Self::Online { .. } | Self::Degraded { .. } | Self::Reconnecting { .. },
                Change::Drain,
            ) => Ok(Self::Draining),
            // A round trip inside `connect` is not yet a link, so the failures stay until data passes through
            // one.
            (
                state @ (Self::Starting { .. } | Self::Reconnecting { .. }),
                Change::Proved | Change::Degrade { .. } | Change::Recovered,
            ) => Ok(state),
            // Reports of a link that is being closed change nothing.
            (
                state @ (Self::Draining | Self::Stopped | Self::Stuck | Self::Paused | Self::Failed { .. }),
                Change::Lost { .. }
                | Change::Fatal { .. }
                | Change::Connected
                | Change::Proved
                | Change::Degrade { .. }
                | Change::Recovered,
            ) => Ok(state),
            (Self::Draining | Self::Stuck, Change::Ended) => Ok(Self::Stopped),
            (state @ (Self::Stopped | Self::Paused | Self::Failed { .. }), Change::Ended | Change::Drain) => Ok(state),
            (Self::Loaded, Change::Drain | Change::Ended) => Ok(Self::Stopped),
            (Self::Draining, Change::Drain) => Ok(Self::Draining),
            (
                Self::Draining
                | Self::Starting { .. }
                | Self::Online { .. }
                | Self::Degraded { .. }
                | Self::Reconnecting { .. },
                Change::Overdue,
            ) => Ok(Self::Stuck),
            (
                Self::Loaded | Self::Stopped | Self::Failed { .. } | Self::Reconnecting { .. } | Self::Paused,
                Change::Pause,
            ) => Ok(Self::Paused),

            (state, change) => Err(Box::new(InvalidAdapterChange { state, change })),
        }
    }

    /// Returns the state as a word for `status`, logs and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            // `status` has no word `loaded`, because a loaded adapter starts at once.
            Self::Loaded | Self::Starting { .. } => "starting",
            Self::Online { .. } => "online",
            Self::Degraded { .. } => "degraded",
            Self::Reconnecting { .. } => "reconnecting",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Failed { .. } => "failed",
        }
    }

    /// Returns true if the adapter can send.
    pub fn is_online(&self) -> bool {
        matches!(self, Self::Online { .. } | Self::Degraded { .. })
    }

    /// Returns the number of consecutive failures, for the next backoff.
    pub fn failures(&self) -> u32 {
        match self {
            Self::Starting { failures, .. } | Self::Online { failures } | Self::Degraded { failures, .. } => *failures,
            Self::Reconnecting { attempt, .. } => *attempt,
            _ => 0,
        }
    }

    /// Returns the reason why the adapter is not fully online.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Degraded { duty, .. } => Some(duty),
            Self::Starting { reason, .. } => reason.as_deref(),
            Self::Reconnecting { reason, .. } | Self::Failed { reason, .. } => Some(reason),
            Self::Stuck => Some("did not stop before the deadline"),
            _ => None,
        }
    }

    /// Returns the next step for a person.
    pub fn mend(&self) -> Option<&str> {
        match self {
            Self::Failed { mend, .. } => Some(mend),
            _ => None,
        }
    }

    /// Returns the time of the next attempt, in Unix milliseconds.
    pub fn next_try_ms(&self) -> Option<i64> {
        match self {
            Self::Reconnecting { next_try_ms, .. } => Some(*next_try_ms),
            _ => None,
        }
    }
}

/// A state with the time since which its word has been unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedAdapterState {
    /// Current state.
    pub state: AdapterState,
    /// Start of this state, in Unix milliseconds. Another failed attempt does not change it.
    pub since_ms: i64,
}

impl TimedAdapterState {
    /// Returns the state of an adapter that was just loaded.
    pub fn loaded(now_ms: i64) -> Self {
        Self { state: AdapterState::Loaded, since_ms: now_ms }
    }

    /// Applies a change and returns true if the word for `status` changed.
    ///
    /// # Errors
    ///
    /// [`InvalidAdapterChange`] for an invalid transition; the state does not change.
    pub fn apply(&mut self, change: AdapterChange, now_ms: i64) -> Result<bool, Box<InvalidAdapterChange>> {
        let next = self.state.clone().after(change)?;
        let changed = next.word() != self.state.word();
        if changed {
            self.since_ms = now_ms;
        }
        self.state = next;
        Ok(changed)
    }
}

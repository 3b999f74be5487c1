//! The life of one adapter.
//!
//! `Loaded → Starting → Online ⇄ Reconnecting → Draining → Stopped`, with
//! `Degraded` beside `Online`, and `Failed`, `Paused`, `Stuck`. The states carry
//! the count of failures in a row, which only a data-carrying success takes back:
//! a link that opens and breaks at once must not be tried in a tight loop.

#[cfg(test)]
mod tests;

/// Where an adapter is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// Its library is read and accepted; nothing runs.
    Loaded,
    /// It is being created and connects for the first time.
    Starting {
        /// Failures in a row before this start.
        failures: u32,
        /// The reason of the last failure, where this start is another try.
        reason: Option<String>,
    },
    /// Its link is up.
    Online {
        /// Failures in a row that no data-carrying success has taken back yet.
        failures: u32,
    },
    /// Its link is up, but a duty fails.
    Degraded {
        /// Which duty.
        duty: String,
        /// As in `Online`.
        failures: u32,
    },
    /// It has no link; the next try is due, waited for or running.
    Reconnecting {
        /// Failures in a row, this one included.
        attempt: u32,
        /// When it is tried next, in Unix milliseconds.
        next_try_ms: i64,
        /// Why there is no link.
        reason: String,
    },
    /// It finishes what it does and takes nothing new.
    Draining,
    /// It ended.
    Stopped,
    /// The operator set it aside.
    Paused,
    /// It did not end by its deadline; its credential stays locked.
    Stuck,
    /// A person has to do something first.
    Failed {
        /// What is wrong.
        reason: String,
        /// What to do about it.
        mend: String,
    },
}

/// What can happen to an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterChange {
    /// It is started: at the host's start, by the operator, or after a config change.
    Start,
    /// Its link is up.
    Connected,
    /// Data went through.
    Proved,
    /// A duty fails while the link is up.
    Degrade {
        /// Which duty.
        duty: String,
    },
    /// Every duty works again.
    Recovered,
    /// There is no link: it broke, could not be opened, or the adapter crashed.
    Lost {
        /// Why.
        reason: String,
        /// When it is tried next, in Unix milliseconds.
        next_try_ms: i64,
    },
    /// Trying again changes nothing before a person has done something.
    Fatal {
        /// What is wrong.
        reason: String,
        /// What to do about it.
        mend: String,
    },
    /// It shall end.
    Drain,
    /// It ended.
    Ended,
    /// It did not end by its deadline.
    Overdue,
    /// The operator sets it aside.
    Pause,
}

/// An arrow that does not exist. A fault of this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an adapter that is {} cannot take {change:?}", .state.word())]
pub struct Impossible {
    /// Where the adapter was.
    pub state: AdapterState,
    /// What was to happen.
    pub change: AdapterChange,
}

impl AdapterState {
    /// Returns the state that `change` leads to; the only place that knows the arrows.
    ///
    /// # Errors
    ///
    /// [`Impossible`] for an arrow that does not exist.
    pub fn after(self, change: AdapterChange) -> Result<Self, Box<Impossible>> {
        use AdapterChange as Change;
        let failures = self.failures();
        match (self, change) {
            (Self::Loaded | Self::Stopped | Self::Paused | Self::Failed { .. }, Change::Start) => {
                Ok(Self::Starting { failures: 0, reason: None })
            }
            // A stuck thread keeps its credential; the new start is in a process of its own.
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
            // A round trip inside `connect` is not yet a link; the failures stay until data goes through one.
            (
                state @ (Self::Starting { .. } | Self::Reconnecting { .. }),
                Change::Proved | Change::Degrade { .. } | Change::Recovered,
            ) => Ok(state),
            // What a link reports while it is being closed changes nothing.
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

            (state, change) => Err(Box::new(Impossible { state, change })),
        }
    }

    /// Returns the word for `status`, logs and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            // `status` knows no `loaded`: what is loaded starts at once.
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

    /// Whether something can be sent through it.
    pub fn is_online(&self) -> bool {
        matches!(self, Self::Online { .. } | Self::Degraded { .. })
    }

    /// Returns how many failures in a row lie behind it, for the next backoff.
    pub fn failures(&self) -> u32 {
        match self {
            Self::Starting { failures, .. } | Self::Online { failures } | Self::Degraded { failures, .. } => *failures,
            Self::Reconnecting { attempt, .. } => *attempt,
            _ => 0,
        }
    }

    /// Returns why it is not simply online.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Degraded { duty, .. } => Some(duty),
            Self::Starting { reason, .. } => reason.as_deref(),
            Self::Reconnecting { reason, .. } | Self::Failed { reason, .. } => Some(reason),
            Self::Stuck => Some("did not end by its deadline"),
            _ => None,
        }
    }

    /// Returns what a person has to do.
    pub fn mend(&self) -> Option<&str> {
        match self {
            Self::Failed { mend, .. } => Some(mend),
            _ => None,
        }
    }

    /// Returns when it is tried next, in Unix milliseconds.
    pub fn next_try_ms(&self) -> Option<i64> {
        match self {
            Self::Reconnecting { next_try_ms, .. } => Some(*next_try_ms),
            _ => None,
        }
    }
}

/// A state, and since when its word holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterLife {
    /// The state.
    pub state: AdapterState,
    /// Since when, in Unix milliseconds. A further failed try does not renew it.
    pub since_ms: i64,
}

impl AdapterLife {
    /// An adapter that was just loaded.
    pub fn loaded(now_ms: i64) -> Self {
        Self { state: AdapterState::Loaded, since_ms: now_ms }
    }

    /// Takes a change; returns whether the word for `status` is another one.
    ///
    /// # Errors
    ///
    /// [`Impossible`] for an arrow that does not exist; the state stays.
    pub fn apply(&mut self, change: AdapterChange, now_ms: i64) -> Result<bool, Box<Impossible>> {
        let next = self.state.clone().after(change)?;
        let changed = next.word() != self.state.word();
        if changed {
            self.since_ms = now_ms;
        }
        self.state = next;
        Ok(changed)
    }
}

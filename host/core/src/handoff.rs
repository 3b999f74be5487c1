//! The state machine of a handoff, which moves a conversation from the terminal to a chat.
//!
//! ```text
//! none, completed, failed ─requested─► pending ─claimed─► running ─delivered─► completed
//!                                        │ ▲                │ │
//!                                        │ └─ claimer died ─┘ │
//!                                        │      (once)        │
//!                                        └──────► failed ◄────┘
//! ```
//!
//! Only [`HandoffState::after`] defines the transitions. The store keeps the state in the session's row and
//! applies a transition only if the state has not changed since it was read.

use crate::ids::Epoch;

#[cfg(test)]
mod tests;

/// Name of the built-in instance of the terminal.
pub const TERMINAL: &str = "terminal";

/// Highest number of claims; if the last claimer ends, the handoff fails.
pub const CLAIMS_MAX: u32 = 2;

/// Reason of a failed handoff: two claimers ended before it was complete.
pub const INTERRUPTED_TWICE: &str = "interrupted twice";

/// Reason of a failed handoff: no host claimed it while the requester waited.
pub const NOT_TAKEN_UP: &str = "not started in time";

/// Reason of a failed handoff: its first message did not arrive.
pub const UNCONFIRMED: &str = "delivery unconfirmed";

/// Reason of a failed handoff: it exceeded the time limit.
pub const TOOK_TOO_LONG: &str = "took too long";

/// State of a handoff. The store keeps [`HandoffState::word`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HandoffState {
    /// The conversation was never handed over.
    #[default]
    None,
    /// A handoff was requested and not yet claimed.
    Pending {
        /// Earlier claims.
        attempts: u32,
    },
    /// A host is carrying out the handoff.
    Running {
        /// Run of the host that claimed it.
        epoch: Epoch,
        /// Number of the claim, from 1.
        attempt: u32,
    },
    /// The conversation continues in the chat.
    Completed,
    /// The conversation stays in its place.
    Failed {
        /// Reason of the failure.
        why: String,
    },
}

/// Event that changes the state of a handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoffChange {
    /// A handoff is requested.
    Requested,
    /// A host claims it.
    Claimed {
        /// Run of the claiming host.
        epoch: Epoch,
    },
    /// The destination of the conversation is known.
    ThreadMade {
        /// Run of the reporting host.
        epoch: Epoch,
    },
    /// The run of the host that claimed it has ended.
    ClaimerDied,
    /// The requester gives up before a claim.
    Withdrawn,
    /// The first message of the conversation arrived in the chat.
    Delivered,
    /// The first message did not arrive.
    Unconfirmed,
    /// The time limit passed.
    TimedOut,
    /// The handoff is impossible or was cancelled.
    Refused {
        /// Reason of the refusal.
        why: String,
    },
}

/// An invalid transition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handoff state {} does not allow {change:?}", .state.word())]
pub struct InvalidHandoffChange {
    /// State of the handoff before the change.
    pub state: HandoffState,
    /// The rejected change.
    pub change: HandoffChange,
}

impl HandoffState {
    /// Returns the state after `change`. The table of transitions exists only here.
    ///
    /// # Errors
    ///
    /// [`InvalidHandoffChange`] for an invalid transition: a running handoff belongs to the run of the host that claimed
    /// it, and an ended handoff does not end a second time.
    pub fn after(self, change: HandoffChange) -> Result<Self, Box<InvalidHandoffChange>> {
        use HandoffChange as Change;
        match (self, change) {
            (Self::None | Self::Completed | Self::Failed { .. }, Change::Requested) => {
                Ok(Self::Pending { attempts: 0 })
            }
            (Self::Pending { attempts }, Change::Claimed { epoch }) => {
                Ok(Self::Running { epoch, attempt: attempts.saturating_add(1) })
            }
            (Self::Running { epoch, attempt }, Change::ThreadMade { epoch: by }) if epoch == by => {
                Ok(Self::Running { epoch, attempt })
            }
            (Self::Pending { attempts }, Change::ClaimerDied) => Ok(Self::Pending { attempts }),
            (Self::Running { attempt, .. }, Change::ClaimerDied) if attempt < CLAIMS_MAX => {
                Ok(Self::Pending { attempts: attempt })
            }
            (Self::Running { .. }, Change::ClaimerDied) => Ok(Self::failed(INTERRUPTED_TWICE)),
            (Self::Pending { .. }, Change::Withdrawn) => Ok(Self::failed(NOT_TAKEN_UP)),
            (Self::Running { .. }, Change::Delivered) => Ok(Self::Completed),
            (Self::Running { .. }, Change::Unconfirmed) => Ok(Self::failed(UNCONFIRMED)),
            (Self::Running { .. }, Change::TimedOut) => Ok(Self::failed(TOOK_TOO_LONG)),
            (Self::Pending { .. } | Self::Running { .. }, Change::Refused { why }) => Ok(Self::Failed { why }),
            (state, change) => Err(Box::new(InvalidHandoffChange { state, change })),
        }
    }

    /// Returns the stable word that the store keeps.
    pub fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending { .. } => "pending",
            Self::Running { .. } => "running",
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
        }
    }

    /// Returns true while the handoff is pending or running, so that nobody else may write to the conversation.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Running { .. })
    }

    fn failed(why: &str) -> Self {
        Self::Failed { why: why.to_owned() }
    }
}

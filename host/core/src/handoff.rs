//! The life of a handoff: a conversation that moves from the terminal to a chat.
//!
//! ```text
//! none, completed, failed ─requested─► pending ─claimed─► running ─delivered─► completed
//!                                        │ ▲                │ │
//!                                        │ └─ claimer died ─┘ │
//!                                        │      (once)        │
//!                                        └──────► failed ◄────┘
//! ```
//!
//! [`HandoffState::after`] is the only place that knows the arrows. The store keeps the
//! state in the row of the session and follows an arrow only from the state it was read in.

use crate::ids::Epoch;

#[cfg(test)]
mod tests;

/// The built-in instance through which the terminal speaks.
pub const TERMINAL: &str = "terminal";

/// How often a handoff is claimed; a claimer that dies the last time ends it.
pub const CLAIMS_MAX: u32 = 2;

/// Why a handoff failed whose claimer died twice.
pub const INTERRUPTED_TWICE: &str = "interrupted twice";

/// Why a handoff failed that nobody took up while its requester waited.
pub const NOT_TAKEN_UP: &str = "not taken up in time";

/// Why a handoff failed whose first words did not arrive.
pub const UNCONFIRMED: &str = "delivery unconfirmed";

/// Why a handoff failed that took too long.
pub const TOOK_TOO_LONG: &str = "took too long";

/// Where a handoff is. The store keeps [`HandoffState::word`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HandoffState {
    /// The conversation was never handed over.
    #[default]
    None,
    /// Somebody wants it, and nobody has taken it up.
    Pending {
        /// How often it was claimed before.
        attempts: u32,
    },
    /// It is on its way.
    Running {
        /// The life of the host that claimed it.
        epoch: Epoch,
        /// Which claim this is, from 1.
        attempt: u32,
    },
    /// The conversation goes on in the chat.
    Completed,
    /// The conversation stayed where it was.
    Failed {
        /// Why.
        why: String,
    },
}

/// What can happen to a handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoffChange {
    /// Somebody wants it.
    Requested,
    /// The host takes it up.
    Claimed {
        /// The life of the host that does.
        epoch: Epoch,
    },
    /// It is known where the conversation goes on.
    ThreadMade {
        /// The life of the host that says so.
        epoch: Epoch,
    },
    /// The host that claimed it is gone.
    ClaimerDied,
    /// Whoever waits for it gives up before it was taken up.
    Withdrawn,
    /// The first words of the conversation arrived in the chat.
    Delivered,
    /// The first words did not arrive.
    Unconfirmed,
    /// It took too long.
    TimedOut,
    /// It cannot be served, or somebody said that it should not be.
    Refused {
        /// Why.
        why: String,
    },
}

/// An arrow that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handoff that is {} cannot take {change:?}", .state.word())]
pub struct Impossible {
    /// Where the handoff was.
    pub state: HandoffState,
    /// What was to happen.
    pub change: HandoffChange,
}

impl HandoffState {
    /// Returns the state that `change` leads to; the only place that knows the arrows.
    ///
    /// # Errors
    ///
    /// [`Impossible`] for an arrow that does not exist: nothing takes a handoff that runs from
    /// the life of the host that claimed it, and one that ended ends no other way.
    pub fn after(self, change: HandoffChange) -> Result<Self, Box<Impossible>> {
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
            (state, change) => Err(Box::new(Impossible { state, change })),
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

    /// Whether the conversation is on its way, so that nobody else may write to it.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Running { .. })
    }

    fn failed(why: &str) -> Self {
        Self::Failed { why: why.to_owned() }
    }
}

//! The life of one run of the agent.

use crate::ids::Epoch;
use crate::limits::TURN_RESUMES_MAX;

/// Where a turn is. The store keeps [`TurnState::word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// It waits to start: made by the host itself, or cut off by a crash.
    Queued {
        /// How often it started before.
        attempts: u32,
    },
    /// It runs.
    Running {
        /// The life of the host that runs it.
        epoch: Epoch,
        /// Which start this is, from 1.
        attempt: u32,
    },
    /// It ended by itself.
    Finished,
    /// Somebody ended it.
    Interrupted,
    /// It ended badly.
    Failed,
}

/// What can happen to a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnChange {
    /// It starts, or starts again after a crash.
    Start {
        /// The life of the host that starts it.
        epoch: Epoch,
    },
    /// It ended by itself.
    Finish {
        /// The life of the host that says so.
        epoch: Epoch,
    },
    /// Somebody ended it.
    Interrupt {
        /// The life of the host that says so.
        epoch: Epoch,
    },
    /// It ended badly.
    Fail {
        /// The life of the host that says so.
        epoch: Epoch,
    },
    /// The host that ran it is gone.
    OwnerDied,
}

/// An arrow that does not exist. A fault of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a turn that is {state:?} cannot take {change:?}")]
pub struct Impossible {
    /// Where the turn was.
    pub state: TurnState,
    /// What was to happen.
    pub change: TurnChange,
}

impl TurnState {
    /// Returns the state that `change` leads to; the only place that knows the arrows.
    ///
    /// # Errors
    ///
    /// An end is accepted only from the epoch that runs the turn, so late output
    /// of an earlier life changes nothing.
    pub fn after(self, change: TurnChange) -> Result<Self, Impossible> {
        use TurnChange as Change;
        match (self, change) {
            (Self::Queued { attempts }, Change::Start { epoch }) => {
                Ok(Self::Running { epoch, attempt: attempts.saturating_add(1) })
            }
            (Self::Queued { attempts }, Change::OwnerDied) => Ok(Self::Queued { attempts }),
            (Self::Running { epoch, .. }, Change::Finish { epoch: by }) if epoch == by => Ok(Self::Finished),
            (Self::Running { epoch, .. }, Change::Interrupt { epoch: by }) if epoch == by => Ok(Self::Interrupted),
            (Self::Running { epoch, .. }, Change::Fail { epoch: by }) if epoch == by => Ok(Self::Failed),
            (Self::Running { attempt, .. }, Change::OwnerDied) if may_resume(attempt) => {
                Ok(Self::Queued { attempts: attempt })
            }
            (Self::Running { .. }, Change::OwnerDied) => Ok(Self::Failed),
            (state, change) => Err(Impossible { state, change }),
        }
    }

    /// Returns the stable word that the store keeps.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Running { .. } => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing follows.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Interrupted | Self::Failed)
    }
}

/// Whether a turn that a crash cut off at this start (from 1) is resumed once more.
pub fn may_resume(attempt: u32) -> bool {
    attempt <= TURN_RESUMES_MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_turn_is_resumed_three_times_and_then_fails() {
        let mut state = TurnState::Queued { attempts: 0 };
        let mut starts = 0;
        while !state.is_over() {
            state = state.after(TurnChange::Start { epoch: Epoch(starts) }).unwrap();
            starts += 1;
            state = state.after(TurnChange::OwnerDied).unwrap();
        }
        assert_eq!((state, starts), (TurnState::Failed, 4));
    }

    #[test]
    fn a_dead_epoch_cannot_end_a_turn() {
        let running = TurnState::Running { epoch: Epoch(2), attempt: 1 };
        assert!(running.after(TurnChange::Finish { epoch: Epoch(1) }).is_err());
        assert_eq!(running.after(TurnChange::Finish { epoch: Epoch(2) }), Ok(TurnState::Finished));
    }

    proptest! {
        #[test]
        fn nothing_follows_an_end(
            attempts in 0u32..9, epoch in 0i64..3, steps in proptest::collection::vec((0u8..5, 0i64..3), 0..12),
        ) {
            let mut state = TurnState::Running { epoch: Epoch(epoch), attempt: attempts };
            for (step, by) in steps {
                let epoch = Epoch(by);
                let change = match step {
                    0 => TurnChange::Start { epoch },
                    1 => TurnChange::Finish { epoch },
                    2 => TurnChange::Interrupt { epoch },
                    3 => TurnChange::Fail { epoch },
                    _ => TurnChange::OwnerDied,
                };
                match state.after(change) {
                    Ok(next) => { prop_assert!(!state.is_over()); state = next; }
                    Err(impossible) => prop_assert_eq!(impossible, Impossible { state, change }),
                }
            }
        }
    }
}

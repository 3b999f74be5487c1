//! The state machine of one run of the agent.

use crate::ids::Epoch;
use crate::limits::TURN_RESUMES_MAX;

/// State of a turn. The store keeps [`TurnState::word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// The turn waits for its start: the host created it itself, or a crash interrupted it.
    Queued {
        /// Earlier starts.
        attempts: u32,
    },
    /// The turn runs.
    Running {
        /// Run of the host that runs the turn.
        epoch: Epoch,
        /// Number of the start, from 1.
        attempt: u32,
    },
    /// The turn ended normally.
    Finished,
    /// The turn was interrupted.
    Interrupted,
    /// The turn failed.
    Failed,
}

/// Event that changes the state of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnChange {
    /// The turn starts, possibly again after a crash.
    Start {
        /// Run of the host that starts it.
        epoch: Epoch,
    },
    /// The turn ends normally.
    Finish {
        /// Run of the reporting host.
        epoch: Epoch,
    },
    /// The turn is interrupted.
    Interrupt {
        /// Run of the reporting host.
        epoch: Epoch,
    },
    /// The turn fails.
    Fail {
        /// Run of the reporting host.
        epoch: Epoch,
    },
    /// The run of the host that ran the turn has ended.
    OwnerDied,
}

/// An invalid transition, which is a bug of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn state {state:?} does not allow {change:?}")]
pub struct Impossible {
    /// State of the turn before the change.
    pub state: TurnState,
    /// The rejected change.
    pub change: TurnChange,
}

impl TurnState {
    /// Returns the state after `change`. The table of transitions exists only here.
    ///
    /// # Errors
    ///
    /// [`Impossible`] for an invalid transition. Only the epoch that runs the turn may end it, so late output
    /// of an earlier run changes nothing.
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

    /// Returns true if the turn has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Interrupted | Self::Failed)
    }
}

/// Returns true if a turn that a crash interrupted at this start (from 1) is resumed once more.
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

//! The state machine of a task: named work with a state and subscribers.
//!
//! ```text
//!           ┌─────────────── unblocked ───────────────┐
//!           ▼                                         │
//! made ─► ready ─claimed─► running ─────blocked────► blocked
//!           │                │ │ │ └─completed─► completed
//!           │                │ │ └── gave up ──► gave_up ◄─ the last attempt ended without a result
//!           │                │ └─ time limit ──► timed_out ─claimed─► running
//!           │                └─ host ended ────► crashed ───claimed─► running
//!           └─ every state except running ─► archived
//! ```
//!
//! A task that does not run can also be completed or given up, if its requester declares it done. Only
//! [`TaskState::after`] defines the transitions. The store applies a transition only if the state, epoch and
//! number of attempts have not changed since they were read.

use crate::ids::Epoch;

#[cfg(test)]
mod tests;

/// Highest number of attempts; if the last one times out or its host ends, the task is given up.
pub const TRIES_MAX: u32 = 3;

/// Reason of a task that was given up after its last attempt.
pub const TRIED_TOO_OFTEN: &str = "it did not finish in three attempts";

/// State of a task. The store keeps [`TaskState::word`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The task waits for an owner.
    Ready {
        /// Attempts that ended without a result.
        attempts: u32,
    },
    /// An owner works on the task.
    Running {
        /// Run of the host in which the task was claimed.
        epoch: Epoch,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// The task waits for another event.
    Blocked {
        /// Attempts that ended without a result.
        attempts: u32,
        /// Reason of the block.
        why: String,
    },
    /// The task is done.
    Completed {
        /// Result of the task.
        result: String,
    },
    /// The task was given up.
    GaveUp {
        /// Reason for giving up.
        why: String,
    },
    /// The host ended while the task ran. It may be claimed again.
    Crashed {
        /// Attempts that ended without a result.
        attempts: u32,
    },
    /// The task exceeded its time limit. It may be claimed again.
    TimedOut {
        /// Attempts that ended without a result.
        attempts: u32,
    },
    /// The task is archived.
    Archived,
}

/// Event that changes the state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskChange {
    /// An owner claims the task.
    Claimed {
        /// Run of the host of the owner.
        epoch: Epoch,
    },
    /// The owner reports progress.
    Noted,
    /// The task is blocked.
    Blocked {
        /// Reason of the block.
        why: String,
    },
    /// The reason of the block is gone.
    Unblocked,
    /// The task is done.
    Completed {
        /// Result of the task.
        result: String,
    },
    /// The task is given up.
    GaveUp {
        /// Reason for giving up.
        why: String,
    },
    /// Another run of the host resumes the turn that works on the task.
    Resumed {
        /// The resuming run.
        epoch: Epoch,
    },
    /// The run of the host in which the task was claimed has ended.
    ClaimerDied,
    /// The time limit passed.
    TimedOut,
    /// The task is archived.
    Archived,
}

/// An invalid transition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a task that is {} cannot be {}", .state.spelled(), .change.word())]
pub struct InvalidTaskChange {
    /// State of the task before the change.
    pub state: TaskState,
    /// The rejected change.
    pub change: TaskChange,
}

impl TaskState {
    /// The state of a new task.
    pub const NEW: Self = Self::Ready { attempts: 0 };

    /// Returns the state after `change`. The table of transitions exists only here.
    ///
    /// # Errors
    ///
    /// [`InvalidTaskChange`] for an invalid transition: an archived task never changes, a task has at most one claim,
    /// and an ended task does not end a second time.
    pub fn after(self, change: TaskChange) -> Result<Self, Box<InvalidTaskChange>> {
        use TaskChange as Change;
        match (self, change) {
            (
                Self::Ready { attempts } | Self::Crashed { attempts } | Self::TimedOut { attempts },
                Change::Claimed { epoch },
            ) => Ok(Self::Running { epoch, attempt: attempts.saturating_add(1) }),
            (state @ (Self::Ready { .. } | Self::Running { .. } | Self::Blocked { .. }), Change::Noted) => Ok(state),
            (Self::Ready { attempts }, Change::Blocked { why }) => Ok(Self::Blocked { attempts, why }),
            // A postponed attempt does not count as a failed one.
            (Self::Running { attempt, .. }, Change::Blocked { why }) => {
                Ok(Self::Blocked { attempts: attempt.saturating_sub(1), why })
            }
            (Self::Blocked { attempts, .. }, Change::Unblocked) => Ok(Self::Ready { attempts }),
            (state, Change::Completed { result }) if state.is_open() => Ok(Self::Completed { result }),
            (state, Change::GaveUp { why }) if state.is_open() => Ok(Self::GaveUp { why }),
            (Self::Running { epoch: dead, attempt }, Change::Resumed { epoch }) if dead != epoch => {
                Ok(Self::Running { epoch, attempt })
            }
            (Self::Running { attempt, .. }, Change::ClaimerDied | Change::TimedOut) if attempt >= TRIES_MAX => {
                Ok(Self::GaveUp { why: TRIED_TOO_OFTEN.to_owned() })
            }
            (Self::Running { attempt, .. }, Change::ClaimerDied) => Ok(Self::Crashed { attempts: attempt }),
            (Self::Running { attempt, .. }, Change::TimedOut) => Ok(Self::TimedOut { attempts: attempt }),
            (state, Change::Archived) if !matches!(state, Self::Running { .. } | Self::Archived) => Ok(Self::Archived),
            (state, change) => Err(Box::new(InvalidTaskChange { state, change })),
        }
    }

    /// Returns the state as a word for display.
    pub fn spelled(&self) -> &'static str {
        match self {
            Self::GaveUp { .. } => "given up",
            Self::TimedOut { .. } => "timed out",
            other => other.word(),
        }
    }

    /// Returns the stable word that the store keeps.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::Running { .. } => "running",
            Self::Blocked { .. } => "blocked",
            Self::Completed { .. } => "completed",
            Self::GaveUp { .. } => "gave_up",
            Self::Crashed { .. } => "crashed",
            Self::TimedOut { .. } => "timed_out",
            Self::Archived => "archived",
        }
    }

    /// Returns true if the task has not ended yet.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Completed { .. } | Self::GaveUp { .. } | Self::Archived)
    }

    /// Returns the number of attempts, including the running one.
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Ready { attempts }
            | Self::Blocked { attempts, .. }
            | Self::Crashed { attempts }
            | Self::TimedOut { attempts }
            | Self::Running { attempt: attempts, .. } => *attempts,
            Self::Completed { .. } | Self::GaveUp { .. } | Self::Archived => 0,
        }
    }

    /// Returns the run of the host in which the task was claimed, while it runs.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Running { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// Returns the text of the state: the reason of a block or of giving up, or the result.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Blocked { why, .. } | Self::GaveUp { why } => Some(why),
            Self::Completed { result } => Some(result),
            _ => None,
        }
    }
}

impl TaskChange {
    /// Returns the event that this change records when it leads to the state `to`.
    pub fn event(&self, to: &TaskState) -> TaskEvent {
        match (self, to) {
            (Self::Claimed { .. } | Self::Resumed { .. }, _) => TaskEvent::Claimed,
            (Self::Noted, _) => TaskEvent::Status,
            (Self::Blocked { .. }, _) => TaskEvent::Blocked,
            (Self::Unblocked, _) => TaskEvent::Unblocked,
            (Self::Completed { .. }, _) => TaskEvent::Completed,
            (_, TaskState::GaveUp { .. }) | (Self::GaveUp { .. }, _) => TaskEvent::GaveUp,
            (Self::ClaimerDied, _) => TaskEvent::Crashed,
            (Self::TimedOut, _) => TaskEvent::TimedOut,
            (Self::Archived, _) => TaskEvent::Archived,
        }
    }

    /// Returns the change as a word for display.
    fn word(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::Noted => "updated",
            Self::Blocked { .. } => "blocked",
            Self::Unblocked => "unblocked",
            Self::Completed { .. } => "completed",
            Self::GaveUp { .. } => "given up",
            Self::Resumed { .. } => "resumed",
            Self::ClaimerDied => "abandoned by its host",
            Self::TimedOut => "timed out",
            Self::Archived => "archived",
        }
    }
}

/// Recorded event of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// The task was created.
    Created,
    /// An owner claimed the task.
    Claimed,
    /// The owner reported progress.
    Status,
    /// The task was blocked.
    Blocked,
    /// The task was unblocked.
    Unblocked,
    /// The task was completed.
    Completed,
    /// The task was given up.
    GaveUp,
    /// The host ended while the task ran.
    Crashed,
    /// The task exceeded its time limit.
    TimedOut,
    /// The task was archived.
    Archived,
}

impl TaskEvent {
    /// All events.
    pub const ALL: [Self; 10] = [
        Self::Created,
        Self::Claimed,
        Self::Status,
        Self::Blocked,
        Self::Unblocked,
        Self::Completed,
        Self::GaveUp,
        Self::Crashed,
        Self::TimedOut,
        Self::Archived,
    ];

    /// Returns the stable word that the store keeps.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Claimed => "claimed",
            Self::Status => "status",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::Completed => "completed",
            Self::GaveUp => "gave_up",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Archived => "archived",
        }
    }

    /// Parses a stable word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.word() == word)
    }

    /// Returns true if subscribers are notified of the event.
    pub fn is_told(self) -> bool {
        !matches!(self, Self::Created | Self::Claimed | Self::Archived)
    }

    /// Returns true if the event wakes the session that created the task.
    pub fn wakes(self) -> bool {
        matches!(self, Self::Blocked | Self::Completed | Self::GaveUp | Self::Crashed | Self::TimedOut)
    }
}

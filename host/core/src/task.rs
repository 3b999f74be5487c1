//! The life of a task: work that has a name, a state, and people who are told.
//!
//! ```text
//!           ┌─────────────── unblocked ───────────────┐
//!           ▼                                         │
//! made ─► ready ─claimed─► running ─────blocked────► blocked
//!           │                │ │ │ └─completed─► completed
//!           │                │ │ └── gave up ──► gave_up ◄─ the last try ended without an answer
//!           │                │ └─ its time is over ─► timed_out ─claimed─► running
//!           │                └─ its host died ──────► crashed ───claimed─► running
//!           └─ everything that does not run ─► archived
//! ```
//!
//! A task that does not run can be completed or given up too: whoever asked may say that it
//! is done. [`TaskState::after`] is the only place that knows the arrows; the store follows
//! one only from the state it was read in, with its epoch and its count of tries.

use crate::ids::Epoch;

#[cfg(test)]
mod tests;

/// How often a task is tried; when its time is over or its host dies the last time, it is given up.
pub const TRIES_MAX: u32 = 3;

/// Why a task was given up whose last try came to no end.
pub const TRIED_TOO_OFTEN: &str = "it was tried three times and came to no end";

/// Where a task is. The store keeps [`TaskState::word`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits for somebody who does it.
    Ready {
        /// How many tries of it came to no end.
        attempts: u32,
    },
    /// Somebody does it.
    Running {
        /// The life of the host in which it was claimed.
        epoch: Epoch,
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// It cannot go on until something else has happened.
    Blocked {
        /// How many tries of it came to no end.
        attempts: u32,
        /// What it waits for.
        why: String,
    },
    /// It is done.
    Completed {
        /// What came of it.
        result: String,
    },
    /// It will not be done.
    GaveUp {
        /// Why.
        why: String,
    },
    /// The host died while it ran. It may be claimed again.
    Crashed {
        /// How many tries of it came to no end.
        attempts: u32,
    },
    /// Its time was over while it ran. It may be claimed again.
    TimedOut {
        /// How many tries of it came to no end.
        attempts: u32,
    },
    /// It is put away.
    Archived,
}

/// What can happen to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskChange {
    /// Somebody takes it on.
    Claimed {
        /// The life of the host in which they do.
        epoch: Epoch,
    },
    /// Whoever does it says how far it is.
    Noted,
    /// It cannot go on.
    Blocked {
        /// What it waits for.
        why: String,
    },
    /// What it waited for has happened.
    Unblocked,
    /// It is done.
    Completed {
        /// What came of it.
        result: String,
    },
    /// It will not be done.
    GaveUp {
        /// Why.
        why: String,
    },
    /// Another life of the host goes on with the turn that does it.
    Resumed {
        /// That life.
        epoch: Epoch,
    },
    /// The life of the host in which it was claimed is over.
    ClaimerDied,
    /// Its time is over.
    TimedOut,
    /// It is put away.
    Archived,
}

/// An arrow that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a task that is {} cannot be {}", .state.spelled(), .change.word())]
pub struct Impossible {
    /// Where the task was.
    pub state: TaskState,
    /// What was to happen.
    pub change: TaskChange,
}

impl TaskState {
    /// A task that was just made.
    pub const NEW: Self = Self::Ready { attempts: 0 };

    /// Returns the state that `change` leads to; the only place that knows the arrows.
    ///
    /// # Errors
    ///
    /// [`Impossible`] for an arrow that does not exist: nothing leads out of what is archived, two cannot claim one
    /// task, and what came to its end comes to no other.
    pub fn after(self, change: TaskChange) -> Result<Self, Box<Impossible>> {
        use TaskChange as Change;
        match (self, change) {
            (
                Self::Ready { attempts } | Self::Crashed { attempts } | Self::TimedOut { attempts },
                Change::Claimed { epoch },
            ) => Ok(Self::Running { epoch, attempt: attempts.saturating_add(1) }),
            (state @ (Self::Ready { .. } | Self::Running { .. } | Self::Blocked { .. }), Change::Noted) => Ok(state),
            (Self::Ready { attempts }, Change::Blocked { why }) => Ok(Self::Blocked { attempts, why }),
            // A try that was put off is no try that failed.
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
            (state, change) => Err(Box::new(Impossible { state, change })),
        }
    }

    /// Returns the word for people.
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

    /// Whether it may still come to an end.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Completed { .. } | Self::GaveUp { .. } | Self::Archived)
    }

    /// How often it was tried, the try that runs among them.
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

    /// The life of the host in which it was claimed, while it runs.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Running { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// What is known of how it stands: what it waits for, what came of it, or why it will not be done.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Blocked { why, .. } | Self::GaveUp { why } => Some(why),
            Self::Completed { result } => Some(result),
            _ => None,
        }
    }
}

impl TaskChange {
    /// Returns the stable word of the event that it leaves behind, where it leads to the state `to`.
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

    /// As a person would say it.
    fn word(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::Noted => "updated",
            Self::Blocked { .. } => "blocked",
            Self::Unblocked => "unblocked",
            Self::Completed { .. } => "completed",
            Self::GaveUp { .. } => "given up",
            Self::Resumed { .. } => "gone on with",
            Self::ClaimerDied => "left by its host",
            Self::TimedOut => "out of time",
            Self::Archived => "archived",
        }
    }
}

/// What happened to a task, as it is kept and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// It was made.
    Created,
    /// Somebody took it on.
    Claimed,
    /// Somebody said how far it is.
    Status,
    /// It cannot go on.
    Blocked,
    /// It can go on.
    Unblocked,
    /// It is done.
    Completed,
    /// It will not be done.
    GaveUp,
    /// The host died while it ran.
    Crashed,
    /// Its time was over.
    TimedOut,
    /// It was put away.
    Archived,
}

impl TaskEvent {
    /// Every one of them.
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

    /// Returns the event of a stable word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.word() == word)
    }

    /// Whether subscribers hear of it.
    pub fn is_told(self) -> bool {
        !matches!(self, Self::Created | Self::Claimed | Self::Archived)
    }

    /// Whether the session that made the task is woken by it.
    pub fn wakes(self) -> bool {
        matches!(self, Self::Blocked | Self::Completed | Self::GaveUp | Self::Crashed | Self::TimedOut)
    }
}

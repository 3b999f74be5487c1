//! The life of one part.

use hermes_protocol::{Receipt, RefusalKind};
use serde::{Deserialize, Serialize};

use super::{DELAYED_MARK, REPEATED_MARK};
use crate::ids::Epoch;

#[cfg(test)]
mod tests;

/// Where a part is. The store keeps [`PartState::word`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartState {
    /// It waits for its turn.
    Owed,
    /// An attempt is under way.
    InFlight {
        /// The life of the host that claimed it.
        epoch: Epoch,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// The platform has it.
    Delivered {
        /// Its proof.
        receipt: Receipt,
    },
    /// The platform will not take it.
    Refused {
        /// Why.
        kind: RefusalKind,
        /// The platform's words, without secrets.
        detail: String,
    },
    /// It may or may not have arrived.
    Unknown {
        /// What is known.
        detail: String,
    },
    /// It stepped aside so that what follows could go; it is retried alone.
    Deferred,
    /// It was given up.
    Abandoned {
        /// Why.
        why: String,
    },
}

/// What can happen to a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartChange {
    /// An attempt begins; the row says so before anything is sent.
    Claim {
        /// The life of the host that claims it.
        epoch: Epoch,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// An attempt, or a look-up, ended in this state.
    Settle(PartState),
    /// The host that claimed it is gone.
    ClaimerDied,
}

/// An arrow that does not exist. A fault of this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part that is {} cannot take {change:?}", .state.word())]
pub struct Impossible {
    /// Where the part was.
    pub state: PartState,
    /// What was to happen.
    pub change: PartChange,
}

impl PartState {
    /// Returns the state that `change` leads to; the only place that knows the arrows.
    ///
    /// # Errors
    ///
    /// [`Impossible`] for an arrow that does not exist: a part that ended stays as it ended.
    pub fn after(self, change: PartChange) -> Result<Self, Box<Impossible>> {
        use PartChange as Change;
        match (self, change) {
            (Self::Owed | Self::Deferred | Self::Unknown { .. }, Change::Claim { epoch, attempt }) => {
                Ok(Self::InFlight { epoch, attempt })
            }
            (
                Self::InFlight { .. },
                Change::Settle(
                    next @ (Self::Owed
                    | Self::Delivered { .. }
                    | Self::Refused { .. }
                    | Self::Unknown { .. }
                    | Self::Deferred
                    | Self::Abandoned { .. }),
                ),
            ) => Ok(next),
            // A look-up answers, or the doubt is repeated or given up.
            (
                Self::Unknown { .. },
                Change::Settle(
                    next @ (Self::Owed
                    | Self::Delivered { .. }
                    | Self::Unknown { .. }
                    | Self::Deferred
                    | Self::Abandoned { .. }),
                ),
            ) => Ok(next),
            // Expiry, `outbox drop` and stepping aside need no attempt.
            (Self::Owed | Self::Deferred, Change::Settle(next @ (Self::Deferred | Self::Abandoned { .. }))) => Ok(next),
            (Self::InFlight { .. }, Change::ClaimerDied) => {
                Ok(Self::Unknown { detail: "the host ended during the attempt".to_owned() })
            }
            (state @ (Self::Owed | Self::Deferred | Self::Unknown { .. }), Change::ClaimerDied) => Ok(state),
            (state, change) => Err(Box::new(Impossible { state, change })),
        }
    }

    /// Returns the stable word that the store keeps.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Owed => "owed",
            Self::InFlight { .. } => "in_flight",
            Self::Delivered { .. } => "delivered",
            Self::Refused { .. } => "refused",
            Self::Unknown { .. } => "unknown",
            Self::Deferred => "deferred",
            Self::Abandoned { .. } => "abandoned",
        }
    }

    /// Whether nothing follows.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Delivered { .. } | Self::Refused { .. } | Self::Abandoned { .. })
    }
}

/// What was tried with a part so far. Kept with its row, so that a restart neither
/// repeats a doubt twice nor forgets that the text went plain. `outbox retry` resets it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartFacts {
    /// Attempts so far, the one whose outcome is judged included.
    pub attempts: u32,
    /// How often the adapter was asked whether it arrived.
    pub lookups: u32,
    /// Doubts so far that led to a marked repeat.
    pub doubts: u32,
    /// Those of the doubts that our own side caused: the host or the process of the adapter ended during the attempt.
    pub interrupted: u32,
    /// Whether our own side caused the doubt that is open.
    pub ours: bool,
    /// Whether its next attempt is the only one in flight through its instance.
    pub alone: bool,
    /// Deaths of the instance while this part alone was in flight, the judged one included.
    pub deaths: u32,
    /// Waits that the platform asked for and that were kept in full.
    pub told: u32,
    /// It goes as plain text, because the platform refused its markup.
    pub plain: bool,
    /// It was split again, because it was too long.
    pub resplit: bool,
    /// It goes without its thread, because the thread is gone.
    pub thread_dropped: bool,
    /// It goes to the chat's new id.
    pub rewritten: bool,
    /// It stepped aside and is retried alone.
    pub deferred: bool,
    /// Since when it fails for its own sake, in Unix milliseconds.
    pub failing_since_ms: Option<i64>,
}

impl PartFacts {
    /// Notes that our own side ended during an attempt: the host, or the instance. `died`: the instance ended by
    /// itself, and nothing else was in flight through it.
    pub fn cut_off(&mut self, died: bool) {
        self.ours = true;
        self.alone = true;
        self.deaths = self.deaths.saturating_add(u32::from(died));
    }

    /// Takes over the doubts about the first piece of the same message.
    pub fn inherit_doubts(&mut self, first: &Self) {
        self.doubts = self.doubts.max(first.doubts);
        self.interrupted = self.interrupted.max(first.interrupted);
        self.deaths = self.deaths.max(first.deaths);
        self.alone |= first.alone;
    }

    /// Returns what the text of the next attempt has to say before itself.
    pub fn marks(&self) -> Vec<&'static str> {
        let mut marks = Vec::new();
        if self.doubts > 0 {
            marks.push(REPEATED_MARK);
        }
        if self.deferred {
            marks.push(DELAYED_MARK);
        }
        marks
    }
}

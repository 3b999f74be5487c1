//! The states of one message part.

use hermes_protocol::{Receipt, RefusalKind};
use serde::{Deserialize, Serialize};

use super::{DELAYED_MARK, REPEATED_MARK};
use crate::ids::Epoch;

#[cfg(test)]
mod tests;

/// State of a part. The store keeps [`PartState::word`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The part waits for its attempt.
    Owed,
    /// An attempt is running.
    InFlight {
        /// Run of the host that claimed the part.
        epoch: Epoch,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// The platform accepted the part.
    Delivered {
        /// Receipt of the platform.
        receipt: Receipt,
    },
    /// The platform rejected the part.
    Refused {
        /// Kind of refusal.
        kind: RefusalKind,
        /// Message of the platform, without secrets.
        detail: String,
    },
    /// The part may or may not have arrived.
    Unknown {
        /// Known facts about the attempt.
        detail: String,
    },
    /// The part left the queue so that later parts can be sent; it is retried separately.
    Deferred,
    /// The part was given up.
    Abandoned {
        /// Reason of the abandonment.
        why: String,
    },
}

/// Event that changes the state of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartChange {
    /// An attempt begins; the row is updated before anything is sent.
    Claim {
        /// Run of the host that claims the part.
        epoch: Epoch,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// An attempt or a lookup ended in this state.
    Settle(PartState),
    /// The run of the host that claimed the part has ended.
    ClaimerDied,
}

/// An invalid transition, which is a bug of this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the part state {} does not allow {change:?}", .state.word())]
pub struct InvalidPartChange {
    /// State of the part before the change.
    pub state: PartState,
    /// The rejected change.
    pub change: PartChange,
}

impl PartState {
    /// Returns the state after `change`. The table of transitions exists only here.
    ///
    /// # Errors
    ///
    /// [`InvalidPartChange`] for an invalid transition. A settled part never changes.
    pub fn after(self, change: PartChange) -> Result<Self, Box<InvalidPartChange>> {
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
            // A lookup resolves the uncertainty, or the part is repeated or abandoned.
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
            // Expiry, `outbox drop` and deferral need no attempt.
            (Self::Owed | Self::Deferred, Change::Settle(next @ (Self::Deferred | Self::Abandoned { .. }))) => Ok(next),
            (Self::InFlight { .. }, Change::ClaimerDied) => {
                Ok(Self::Unknown { detail: "the host ended during the attempt".to_owned() })
            }
            (state @ (Self::Owed | Self::Deferred | Self::Unknown { .. }), Change::ClaimerDied) => Ok(state),
            (state, change) => Err(Box::new(InvalidPartChange { state, change })),
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

    /// Returns true if the part has reached a final state.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Delivered { .. } | Self::Refused { .. } | Self::Abandoned { .. })
    }
}

/// History of the attempts of a part. It is stored with the part, so that the limit of repeats and the fallback to
/// plain text survive a restart. `outbox retry` resets it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartFacts {
    /// Attempts so far, including the one whose outcome is being judged.
    pub attempts: u32,
    /// Lookups at the adapter.
    pub lookups: u32,
    /// Uncertain outcomes that led to a marked repeat.
    pub doubts: u32,
    /// Uncertain outcomes caused by the host or the adapter process, which ended during the attempt. Included
    /// in `doubts`.
    pub interrupted: u32,
    /// True if the host or the adapter process caused the open uncertainty.
    pub ours: bool,
    /// True if the next attempt must be the only one in flight through its instance.
    pub alone: bool,
    /// Crashes of the instance while only this part was in flight, including the one being judged.
    pub deaths: u32,
    /// Waits demanded by the platform and kept in full.
    pub told: u32,
    /// Sends plain text, because the platform refused the markup.
    pub plain: bool,
    /// True once the part was split again because it was too long.
    pub resplit: bool,
    /// Sends without the thread, because the thread no longer exists.
    pub thread_dropped: bool,
    /// Sends to the new id of the chat.
    pub rewritten: bool,
    /// True if the part left the queue and is retried separately.
    pub deferred: bool,
    /// Start of the failures caused by the part itself, in Unix milliseconds.
    pub failing_since_ms: Option<i64>,
}

impl PartFacts {
    /// Records that the host or the instance ended during an attempt. `died` is true if the instance crashed
    /// while nothing else was in flight through it.
    pub fn cut_off(&mut self, died: bool) {
        self.ours = true;
        self.alone = true;
        self.deaths = self.deaths.saturating_add(u32::from(died));
    }

    /// Copies the uncertainty of the first piece of the same message.
    pub fn inherit_doubts(&mut self, first: &Self) {
        self.doubts = self.doubts.max(first.doubts);
        self.interrupted = self.interrupted.max(first.interrupted);
        self.deaths = self.deaths.max(first.deaths);
        self.alone |= first.alone;
    }

    /// Returns the marks that precede the text of the next attempt.
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

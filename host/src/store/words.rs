//! The states of the tables and their stable words. The `CHECK` lists of the
//! migrations name the same words.

use hermes_core::ids::Epoch;
use hermes_protocol::{Receipt, RefusalKind};
use serde::Serialize;

macro_rules! states {
    ($($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ })+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$vmeta])* $variant,)+
        }

        impl $name {
            /// Returns the stable word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns the state of a stable word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+ };
}

states! {
    /// How far an event got.
    InboxState {
        /// Committed, not yet part of a turn.
        Accepted = "accepted",
        /// Part of a turn.
        Turned = "turned",
        /// Its turn or command is over.
        Answered = "answered",
        /// Nothing follows from it.
        Dropped = "dropped",
    }

    /// How far a turn got.
    TurnState {
        /// To be started.
        Queued = "queued",
        /// Running in the epoch that its row names.
        Running = "running",
        /// Ended with a reply.
        Finished = "finished",
        /// Stopped.
        Interrupted = "interrupted",
        /// Failed.
        Failed = "failed",
    }

    /// How a turn may end.
    TurnEnd {
        /// With a reply.
        Finished = "finished",
        /// Stopped.
        Interrupted = "interrupted",
        /// Failed.
        Failed = "failed",
    }

    /// How far a delivery got.
    DeliveryState {
        /// A preview of a running turn.
        Drafting = "drafting",
        /// At least one part is open.
        Owed = "owed",
        /// Every part has its receipt or refusal.
        Settled = "settled",
        /// At least one part was given up.
        Abandoned = "abandoned",
    }
}

/// How far one part of a delivery got.
#[derive(Clone, Debug, PartialEq)]
pub enum PartState {
    /// To be sent.
    Owed,
    /// Being sent.
    InFlight {
        /// By this life of the host.
        epoch: Epoch,
        /// As its attempt of this number, from 1.
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
        /// The platform's words.
        detail: String,
    },
    /// It may or may not have arrived.
    Unknown {
        /// What is known.
        detail: String,
    },
    /// Stepped aside so that its lane goes on; retried alone.
    Deferred,
    /// Given up.
    Abandoned {
        /// Why.
        why: String,
    },
}

impl PartState {
    /// Returns the stable word.
    pub fn as_str(&self) -> &'static str {
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

    /// Whether nothing more happens to the part.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Delivered { .. } | Self::Refused { .. } | Self::Abandoned { .. })
    }
}

//! The states of the tables and their stable words. The `CHECK` lists of the
//! migrations name the same words; those of a part are [`hermes_core::delivery::PartState::word`].

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

    /// How a turn may end.
    TurnEnd {
        /// With a reply.
        Finished = "finished",
        /// Stopped.
        Interrupted = "interrupted",
        /// Failed.
        Failed = "failed",
    }

    /// How a session follows another.
    Lineage {
        /// A rule ended the one before.
        Reset = "reset",
        /// It goes another way from what was said so far.
        Branch = "branch",
        /// It goes on from a summary of the one before.
        Compression = "compression",
        /// One turn of it runs beside the other.
        Aside = "aside",
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

impl DeliveryState {
    /// Whether something is still to be done for it.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Drafting | Self::Owed)
    }
}

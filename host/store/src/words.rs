//! The states of the tables and their stable words. The `CHECK` lists of the migrations contain the same words.
//! [`hermes_core::delivery::PartState::word`] has the words of a part.

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

            /// Parses a stable word.
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
    /// State of an event.
    InboxState {
        /// Committed, not yet part of a turn.
        Accepted = "accepted",
        /// Part of a turn.
        Turned = "turned",
        /// The turn or command has ended.
        Answered = "answered",
        /// Dropped without an answer.
        Dropped = "dropped",
    }

    /// End of a turn.
    TurnEnd {
        /// Ended with a reply.
        Finished = "finished",
        /// Interrupted.
        Interrupted = "interrupted",
        /// Failed.
        Failed = "failed",
    }

    /// Relation of a session to its parent.
    Lineage {
        /// A reset rule ended the parent.
        Reset = "reset",
        /// The session branched from the parent.
        Branch = "branch",
        /// The session continues from a summary of the parent.
        Compression = "compression",
        /// One turn of the session runs in parallel to the parent.
        Aside = "aside",
    }

    /// State of a delivery.
    DeliveryState {
        /// A growing message of a running turn.
        Drafting = "drafting",
        /// At least one part is open.
        Owed = "owed",
        /// Every part has a receipt or a refusal.
        Settled = "settled",
        /// At least one part was abandoned.
        Abandoned = "abandoned",
    }
}

impl DeliveryState {
    /// Returns true if the delivery is not settled.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Drafting | Self::Owed)
    }
}

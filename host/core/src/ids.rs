//! Names of rows, each of its own type.

use serde::{Deserialize, Serialize};

macro_rules! row_ids {
    ($($(#[$meta:meta])* $name:ident,)+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+ };
}

row_ids! {
    /// An event, as the inbox keeps it.
    InboxId,
    /// One run of the agent.
    TurnId,
    /// Something owed to a chat.
    DeliveryId,
    /// One life of the host process.
    Epoch,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

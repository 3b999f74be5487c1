//! Ids of rows, and of one run of the host.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares a newtype for a row id.
macro_rules! row_id {
    ($($(#[$meta:meta])* $name:ident;)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<i64> for $name {
            fn from(id: i64) -> Self {
                Self(id)
            }
        }
    )+};
}

row_id! {
    /// Id of an incoming event. Its row is committed before anything acts on it.
    InboxId;
    /// Id of one run of the agent.
    TurnId;
    /// Id of one delivery to a chat.
    DeliveryId;
    /// Id of one run of the host. Claims carry it; at start the host recovers the claims of earlier runs.
    Epoch;
}

/// Id of a session, assigned by the store. Opaque: only compared and printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

impl SessionId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for SessionId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

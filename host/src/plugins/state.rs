//! The states of an instance.

/// Where an instance is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// Read, not started.
    Loaded,
    /// Being created and connected.
    Starting,
    /// The link is up.
    Online,
}

impl AdapterState {
    /// Whether parts may be sent.
    pub fn is_online(&self) -> bool {
        matches!(self, Self::Online)
    }
}

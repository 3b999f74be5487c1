//! The observer of the calls between the host and its adapters, for `adapter try`.

use std::sync::Arc;

use hermes_protocol::{CallError, SendOutcome};

use super::AdapterState;

/// The observer, called with the name of the instance and the call. The call runs on the calling task, so it has to be
/// fast.
pub type Watch = Arc<dyn Fn(&str, Seen<'_>) + Send + Sync>;

/// An observed call or change.
#[derive(Debug)]
pub enum Seen<'s> {
    /// The adapter emitted an event, and the host answered.
    Emitted {
        /// The event, as the adapter wrote it.
        event: &'s [u8],
        /// The host's answer, or its refusal.
        answer: Result<&'s [u8], &'s CallError>,
    },
    /// The host asked the adapter to send or edit a part.
    Sent {
        /// `send` or `edit`.
        method: &'static str,
        /// The [`Outgoing`](hermes_protocol::Outgoing) or [`EditCall`](hermes_protocol::EditCall).
        call: &'s [u8],
        /// The outcome.
        outcome: &'s SendOutcome,
    },
    /// The instance changed its state.
    State(&'s AdapterState),
}

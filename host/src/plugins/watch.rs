//! Somebody who watches what passes between the host and its adapters: `adapter try`.

use std::sync::Arc;

use hermes_protocol::{CallError, SendOutcome};

use super::AdapterState;

/// Is told what passes, of every instance by its name. It is called where it happens, so it is quick.
pub type Watch = Arc<dyn Fn(&str, Seen<'_>) + Send + Sync>;

/// What passed.
#[derive(Debug)]
pub enum Seen<'s> {
    /// The adapter handed over an event, and this is what the host said.
    Emitted {
        /// The event, as the adapter wrote it.
        event: &'s [u8],
        /// The host's answer, or its refusal.
        answer: Result<&'s [u8], &'s CallError>,
    },
    /// The adapter was to send a part, or to change one.
    Sent {
        /// `send` or `edit`.
        method: &'static str,
        /// The [`Outgoing`](hermes_protocol::Outgoing) or [`EditCall`](hermes_protocol::EditCall).
        call: &'s [u8],
        /// What became of it.
        outcome: &'s SendOutcome,
    },
    /// The instance is in another state.
    State(&'s AdapterState),
}

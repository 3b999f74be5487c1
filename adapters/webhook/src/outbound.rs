//! Answers that the host returns to this adapter: those for the log, and those without a reachable destination.

use hermes_adapter_sdk::prelude::*;

use crate::server::Server;
use crate::template::cut;

/// The maximum number of characters of an answer in the log; the session has the whole answer.
const LOG_CHARS_MAX: usize = 4_000;

/// Writes an answer to the log.
pub(crate) fn send(server: &Server, message: &Outgoing) -> SendOutcome {
    let (route, id) = message.chat.id.split_once(':').unwrap_or((&message.chat.id, ""));
    let text = cut(&message.text, LOG_CHARS_MAX);
    match message.purpose {
        Purpose::Reply => tracing::info!(route, id, part = message.part, of = message.of, %text, "the answer"),
        _ => tracing::info!(route, id, %text, "a notice"),
    }
    SendOutcome::delivered(message.key.clone(), server.host.now_ms())
}

//! Delivery of the host's messages to open requests.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::time::timeout;

use crate::end::End;
use crate::open_request::OpenRequest;
use crate::server::{Lookup, Server};

/// The time in which a requester must read the reply; below the host's own deadline for a send.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

const REQUESTER_GONE: &str = "requester gone";

/// Delivers a reply to its request. Delivered means that it was written to the connection.
pub(crate) async fn send(server: &Server, message: Outgoing) -> SendOutcome {
    if !message.media.is_empty() {
        return SendOutcome::refused(RefusalKind::Invalid, "the HTTP API does not support files");
    }
    let Some(inbox_id) = message.in_reply_to else {
        let delivered =
            server.in_chat(&message.chat).iter().filter(|request| request.notice(&message.text, false)).count();
        return outcome(server, delivered > 0, &message.key);
    };
    match server.find(inbox_id).await {
        Lookup::Open(request) if matches!(message.purpose, Purpose::Notice | Purpose::Ask) => {
            let delivered = request.notice(&message.text, message.purpose == Purpose::Notice);
            outcome(server, delivered, &message.key)
        }
        Lookup::Open(request) => reply(server, &request, &message).await,
        Lookup::Settled { delivered } => outcome(server, delivered, &message.key),
        Lookup::None => {
            store_late(server, inbox_id, &message).await;
            outcome(server, false, &message.key)
        }
    }
}

/// Delivers an event of a running turn to its request.
pub(crate) async fn turn_event(server: &Server, inbox_id: i64, seq: u64, event: TurnEvent) -> Result<(), CallError> {
    match server.find(inbox_id).await {
        Lookup::Open(request) if request.stream(seq, event) => Ok(()),
        _ => Err(CallError::new("not_found", REQUESTER_GONE)),
    }
}

async fn reply(server: &Server, request: &OpenRequest, message: &Outgoing) -> SendOutcome {
    request.part(message.part, message.of, &message.text);
    if message.part < message.of {
        return outcome(server, true, &message.key);
    }
    match timeout(READ_TIMEOUT, request.reply_delivered()).await {
        Ok(delivered) => outcome(server, delivered, &message.key),
        Err(_) => SendOutcome::unknown("the client has not read the answer yet"),
    }
}

/// Stores an answer that arrives after a restart without an open request, if its request had a key.
async fn store_late(server: &Server, inbox_id: i64, message: &Outgoing) {
    if message.purpose == Purpose::Reply && message.of == 1 {
        let end = End::Answered {
            text: message.text.clone(),
            finish_reason: "stop".to_owned(),
            usage: Usage::default(),
            model: String::new(),
        };
        server.answers.store_late(inbox_id, &end).await;
    }
}

fn outcome(server: &Server, delivered: bool, key: &str) -> SendOutcome {
    if delivered {
        SendOutcome::delivered(key, server.host.now_ms())
    } else {
        SendOutcome::refused(RefusalKind::Invalid, REQUESTER_GONE)
    }
}

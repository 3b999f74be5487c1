//! Delivery of the host's messages to open requests.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::time::timeout;

use crate::end::End;
use crate::open_request::Turn;
use crate::server::{Found, Server};

/// The time in which a requester must read the reply; below the host's own deadline for a send.
const TAKE_WAIT: Duration = Duration::from_secs(45);

const GONE: &str = "requester gone";

/// Delivers a reply to its request. Delivered means that it was written to the connection.
pub async fn send(server: &Server, message: Outgoing) -> SendOutcome {
    if !message.media.is_empty() {
        return SendOutcome::refused(RefusalKind::Invalid, "the HTTP API does not support files");
    }
    let Some(inbox_id) = message.in_reply_to else {
        let told = server.in_chat(&message.chat).iter().filter(|turn| turn.notice(&message.text, false)).count();
        return outcome(server, told > 0, &message.key);
    };
    match server.find(inbox_id).await {
        Found::Open(turn) if matches!(message.purpose, Purpose::Notice | Purpose::Ask) => {
            let told = turn.notice(&message.text, message.purpose == Purpose::Notice);
            outcome(server, told, &message.key)
        }
        Found::Open(turn) => reply(server, &turn, &message).await,
        Found::Settled { taken } => outcome(server, taken, &message.key),
        Found::None => {
            keep(server, inbox_id, &message).await;
            outcome(server, false, &message.key)
        }
    }
}

/// Delivers an event of a running turn to its request.
pub async fn turn_event(server: &Server, inbox_id: i64, seq: u64, event: TurnEvent) -> Result<(), CallError> {
    match server.find(inbox_id).await {
        Found::Open(turn) if turn.stream(seq, event) => Ok(()),
        _ => Err(CallError::new("not_found", GONE)),
    }
}

async fn reply(server: &Server, turn: &Turn, message: &Outgoing) -> SendOutcome {
    turn.part(message.part, message.of, &message.text);
    if message.part < message.of {
        return outcome(server, true, &message.key);
    }
    match timeout(TAKE_WAIT, turn.reply_taken()).await {
        Ok(taken) => outcome(server, taken, &message.key),
        Err(_) => SendOutcome::unknown("the client has not read the answer yet"),
    }
}

/// Stores an answer that arrives after a restart without an open request, if its request had a key.
async fn keep(server: &Server, inbox_id: i64, message: &Outgoing) {
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
        SendOutcome::refused(RefusalKind::Invalid, GONE)
    }
}

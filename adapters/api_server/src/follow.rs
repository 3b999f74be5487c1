//! One request from its event to its end.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout};

use crate::api_error::ApiError;
use crate::end::End;
use crate::files::{self, InFile};
use crate::inbound::Asked;
use crate::open_request::{Turn, Verdict};
use crate::reader::Reader;
use crate::server::Server;

/// The time in which the host must commit an event.
const EMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The interval of status requests to the host for a request without news.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// The delay of the first status request, and of the next one after a negative reply.
const LOOK_SOON: Duration = Duration::from_secs(2);

/// The time for which a reply may still be in transit, or the event on its way to a
/// session, after the host reports no turn.
const REPLY_ON_ITS_WAY: Duration = Duration::from_secs(5);

/// Opens a request, joins the open one with the same idempotency key, or returns the stored answer of that key.
pub async fn open(server: &Arc<Server>, mut asked: Asked) -> Result<Reader, ApiError> {
    if server.host.is_cancelled() {
        return Err(ApiError::new(503, "gateway_draining", "the host is shutting down"));
    }
    if asked.keyed
        && let Some(end) = server.answers.find(&asked.event_id).await
    {
        let turn = Turn::ended(asked.event_id, asked.chat, end);
        return Ok(Reader::new(Arc::clone(server), Arc::new(turn)));
    }
    let make = || Turn::new(asked.event_id.clone(), asked.chat.clone(), asked.keyed, server.request_timeout());
    let (turn, is_new) = server.enter(&asked.event_id, make);
    let reader = Reader::new(Arc::clone(server), Arc::clone(&turn));
    if !is_new {
        return Ok(reader);
    }
    let Ok(place) = Arc::clone(&server.room).try_acquire_owned() else {
        server.confirmed(&turn, None);
        turn.end(End::failed(429, "rate_limit_exceeded", "request limit reached; raise requests_max"));
        drop(reader);
        return Err(ApiError::new(
            429,
            "rate_limit_exceeded",
            "too many requests are waiting for answers; try again in a second",
        ));
    };
    let event = asked.event(&server.instructed, server.host.now_ms());
    server.host.spawn(follow(Arc::clone(server), turn, event, asked.take_files(), place));
    Ok(reader)
}

/// Follows one request from its event to its end. The task continues when the requester
/// disconnects, because it must stop the agent then.
async fn follow(server: Arc<Server>, turn: Arc<Turn>, event: Event, files: Vec<InFile>, _place: OwnedSemaphorePermit) {
    let end = match submit(&server, &turn, event, files).await {
        Ok(inbox_id) => until_end(&server, &turn, inbox_id).await,
        Err(end) => end,
    };
    if turn.is_keyed() && end.is_final() {
        server.answers.store(turn.event_id(), &end).await;
    }
    if !turn.end(end) {
        server.leave(&turn, false);
    }
}

async fn submit(server: &Arc<Server>, turn: &Arc<Turn>, mut event: Event, files: Vec<InFile>) -> Result<i64, End> {
    let handed_over = timeout(EMIT_TIMEOUT, files::hand_over(&server.host, files)).await;
    let late = || Err(End::failed(503, "not_accepted", "the host did not accept the files in time"));
    match handed_over.unwrap_or_else(|_| late()) {
        Ok(attachments) => event.attachments = attachments,
        Err(end) => {
            turn.confirm(None, false);
            server.confirmed(turn, None);
            return Err(end);
        }
    }
    let emitted = timeout(EMIT_TIMEOUT, server.host.emit(&event)).await;
    let (inbox_id, repeated) = match emitted {
        Ok(Ok(Emitted::New { inbox_id })) => (Ok(inbox_id), false),
        Ok(Ok(Emitted::Duplicate { duplicate_of })) => (Ok(duplicate_of), true),
        Ok(Ok(_)) => (Err(End::failed(502, "not_accepted", "the answer of the host cannot be parsed")), false),
        // A retry changes nothing.
        Ok(Err(error)) if error.code == "too_large" => (Err(End::failed(413, "body_too_large", error.message)), false),
        Ok(Err(error)) => {
            (Err(End::failed(503, "not_accepted", format!("the host rejected the request: {error}"))), false)
        }
        Err(_) => (Err(End::failed(503, "not_accepted", "the host did not accept the request in time")), false),
    };
    turn.confirm(inbox_id.as_ref().ok().copied(), repeated);
    server.confirmed(turn, inbox_id.as_ref().ok().copied());
    if let (Ok(inbox_id), true) = (&inbox_id, turn.is_keyed()) {
        server.answers.add(turn.event_id(), *inbox_id).await;
    }
    inbox_id
}

async fn until_end(server: &Server, turn: &Turn, inbox_id: i64) -> End {
    let mut changed = turn.watch();
    let mut look = Instant::now() + LOOK_SOON;
    let mut looked_at_notice = false;
    let mut over_since: Option<Instant> = None;
    loop {
        changed.borrow_and_update();
        let wake = match turn.judge(Instant::now()) {
            Verdict::End(end) => return end,
            Verdict::Stop(end) => {
                stop(server, inbox_id).await;
                return end;
            }
            Verdict::Wait(wake) => wake,
        };
        let looks_refused = turn.looks_refused();
        if looks_refused && !looked_at_notice {
            looked_at_notice = true;
            look = Instant::now();
        }
        tokio::select! {
            biased;
            _ = changed.changed() => continue,
            () = sleep_until(wake.min(look)) => {}
        }
        if Instant::now() < look {
            continue;
        }
        look = Instant::now() + LOOK_EVERY;
        let life = tokio::select! {
            biased;
            _ = changed.changed() => continue,
            life = look_at(server, inbox_id) => life,
        };
        if life == Life::Alive || (life == Life::Unknown && !looks_refused) {
            over_since = None;
            continue;
        }
        look = Instant::now() + LOOK_SOON;
        let patience = if looks_refused { LOOK_SOON } else { REPLY_ON_ITS_WAY };
        if Instant::now() >= *over_since.get_or_insert(Instant::now()) + patience {
            return turn.without_answer();
        }
    }
}

/// The host's status of an event's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// The event will be answered.
    Alive,
    /// The event was answered, or never will be.
    Over,
    /// The host does not report the status.
    Unknown,
}

async fn look_at(server: &Server, inbox_id: i64) -> Life {
    #[derive(Deserialize)]
    struct Status {
        state: String,
    }
    let question = json!({"inbox_id": inbox_id});
    match timeout(LOOK_SOON, server.host.call::<Status>("turns.status", &question)).await {
        Ok(Ok(status)) => match status.state.as_str() {
            "accepted" | "waiting" | "queued" | "turned" | "running" => Life::Alive,
            _ => Life::Over,
        },
        Ok(Err(error)) => {
            tracing::debug!(%error, inbox_id, "state of a turn is not available");
            Life::Unknown
        }
        Err(_) => Life::Unknown,
    }
}

async fn stop(server: &Server, inbox_id: i64) {
    if let Err(error) = server.host.call::<Value>("turns.stop", &json!({"inbox_id": inbox_id})).await {
        tracing::warn!(%error, inbox_id, "turn of a disconnected client cannot be stopped");
    }
}

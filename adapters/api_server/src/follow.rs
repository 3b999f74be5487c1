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
use crate::inbound::InboundRequest;
use crate::open_request::{NextAction, OpenRequest};
use crate::reader::Reader;
use crate::server::Server;

/// The time in which the host must commit an event.
const EMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The interval of status requests to the host for a request without news.
const STATUS_INTERVAL: Duration = Duration::from_secs(15);

/// The delay of the first status request, and of the next one after a negative reply.
const STATUS_DELAY: Duration = Duration::from_secs(2);

/// The time for which a reply may still be in transit, or the event on its way to a
/// session, after the host reports no turn.
const DELIVERY_GRACE: Duration = Duration::from_secs(5);

/// Opens a request, joins the open one with the same idempotency key, or returns the stored answer of that key.
pub(crate) async fn open(server: &Arc<Server>, mut inbound: InboundRequest) -> Result<Reader, ApiError> {
    if server.host.is_cancelled() {
        return Err(ApiError::new(503, "gateway_draining", "the host is shutting down"));
    }
    if inbound.has_key {
        if let Some(end) = server.answers.find(&inbound.event_id).await {
            let request = OpenRequest::ended(inbound.event_id, inbound.chat, end);
            return Ok(Reader::new(Arc::clone(server), Arc::new(request)));
        }
    }
    let make =
        || OpenRequest::new(inbound.event_id.clone(), inbound.chat.clone(), inbound.has_key, server.request_timeout());
    let (request, is_new) = server.join_or_open(&inbound.event_id, make);
    let reader = Reader::new(Arc::clone(server), Arc::clone(&request));
    if !is_new {
        return Ok(reader);
    }
    let Ok(permit) = Arc::clone(&server.permits).try_acquire_owned() else {
        server.confirm(&request, None);
        request.end(End::failed(429, "rate_limit_exceeded", "request limit reached; raise requests_max"));
        drop(reader);
        return Err(ApiError::new(
            429,
            "rate_limit_exceeded",
            "too many requests are waiting for answers; try again in a second",
        ));
    };
    let event = inbound.event(&server.instructions, server.host.now_ms());
    server.host.spawn(follow(Arc::clone(server), request, event, inbound.take_files(), permit));
    Ok(reader)
}

/// Follows one request from its event to its end. The task continues when the requester
/// disconnects, because it must stop the agent then.
async fn follow(
    server: Arc<Server>,
    request: Arc<OpenRequest>,
    event: Event,
    files: Vec<InFile>,
    _permit: OwnedSemaphorePermit,
) {
    let end = match submit(&server, &request, event, files).await {
        Ok(inbox_id) => until_end(&server, &request, inbox_id).await,
        Err(end) => end,
    };
    if request.has_key() && end.is_final() {
        server.answers.store(request.event_id(), &end).await;
    }
    if !request.end(end) {
        server.close(&request, false);
    }
}

async fn submit(
    server: &Arc<Server>,
    request: &Arc<OpenRequest>,
    mut event: Event,
    files: Vec<InFile>,
) -> Result<i64, End> {
    let uploaded = timeout(EMIT_TIMEOUT, files::upload(&server.host, files)).await;
    let late = || Err(End::failed(503, "not_accepted", "the host did not accept the files in time"));
    match uploaded.unwrap_or_else(|_| late()) {
        Ok(attachments) => event.attachments = attachments,
        Err(end) => {
            request.confirm(None, false);
            server.confirm(request, None);
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
    request.confirm(inbox_id.as_ref().ok().copied(), repeated);
    server.confirm(request, inbox_id.as_ref().ok().copied());
    if let (Ok(inbox_id), true) = (&inbox_id, request.has_key()) {
        server.answers.add(request.event_id(), *inbox_id).await;
    }
    inbox_id
}

async fn until_end(server: &Server, request: &OpenRequest, inbox_id: i64) -> End {
    let mut changed = request.watch();
    let mut next_check = Instant::now() + STATUS_DELAY;
    let mut checked_notice = false;
    let mut ended_since: Option<Instant> = None;
    loop {
        changed.borrow_and_update();
        let wake = match request.evaluate(Instant::now()) {
            NextAction::End(end) => return end,
            NextAction::Stop(end) => {
                stop(server, inbox_id).await;
                return end;
            }
            NextAction::Wait(wake) => wake,
        };
        let answered_by_notice = request.answered_by_notice();
        if answered_by_notice && !checked_notice {
            checked_notice = true;
            next_check = Instant::now();
        }
        tokio::select! {
            biased;
            _ = changed.changed() => continue,
            () = sleep_until(wake.min(next_check)) => {}
        }
        if Instant::now() < next_check {
            continue;
        }
        next_check = Instant::now() + STATUS_INTERVAL;
        let status = tokio::select! {
            biased;
            _ = changed.changed() => continue,
            status = turn_status(server, inbox_id) => status,
        };
        if status == TurnStatus::Active || (status == TurnStatus::Unknown && !answered_by_notice) {
            ended_since = None;
            continue;
        }
        next_check = Instant::now() + STATUS_DELAY;
        let grace = if answered_by_notice { STATUS_DELAY } else { DELIVERY_GRACE };
        if Instant::now() >= *ended_since.get_or_insert(Instant::now()) + grace {
            return request.missing_answer();
        }
    }
}

/// The host's status of an event's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnStatus {
    /// The event will be answered.
    Active,
    /// The event was answered, or never will be.
    Ended,
    /// The host does not report the status.
    Unknown,
}

async fn turn_status(server: &Server, inbox_id: i64) -> TurnStatus {
    #[derive(Deserialize)]
    struct Status {
        state: String,
    }
    let question = json!({"inbox_id": inbox_id});
    match timeout(STATUS_DELAY, server.host.call::<Status>("turns.status", &question)).await {
        Ok(Ok(status)) => match status.state.as_str() {
            "accepted" | "waiting" | "queued" | "turned" | "running" => TurnStatus::Active,
            _ => TurnStatus::Ended,
        },
        Ok(Err(error)) => {
            tracing::debug!(%error, inbox_id, "state of a turn is not available");
            TurnStatus::Unknown
        }
        Err(_) => TurnStatus::Unknown,
    }
}

async fn stop(server: &Server, inbox_id: i64) {
    if let Err(error) = server.host.call::<Value>("turns.stop", &json!({"inbox_id": inbox_id})).await {
        tracing::warn!(%error, inbox_id, "turn of a disconnected client cannot be stopped");
    }
}

//! The request handler: from a request to an event that the host has committed.
//!
//! The order of the steps: route → size → signature → payload → event and filters → replay check → rate limit →
//! host. The content of a call is not read before its signature is verified, and a filtered call leaves no state.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_LENGTH, HeaderMap};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use hermes_adapter_net::serve::Caller;
use hermes_adapter_sdk::prelude::*;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::call_ids::{self, CallIds};
use crate::call_log::{LOGGED_NAME_CHARS, custom_headers, log_refusal, log_signature_headers};
use crate::emit::{PendingCall, emit};
use crate::payload::{self, Call};
use crate::response::{ignored, json_response, refused, retry_later, unauthorized};
use crate::route::Route;
use crate::scheme::Scheme;
use crate::server::Server;
use crate::signature::{self, Verification};
use crate::template;

/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns all HTTP routes.
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/health", get(async || Json(json!({ "status": "ok", "platform": "hermes-host" }))))
        .route("/webhooks/{route}", post(handle))
        .fallback(async || refused(StatusCode::NOT_FOUND, "unknown path"))
        .method_not_allowed_fallback(async || {
            refused(StatusCode::METHOD_NOT_ALLOWED, "this path does not support the method")
        })
        .with_state(server)
}

async fn handle(State(server): State<Arc<Server>>, Path(name): Path<String>, request: Request<Body>) -> Response {
    let Some(route) = server.routes.find(&name).await else {
        let name: String = name.chars().take(LOGGED_NAME_CHARS).collect();
        log_refusal(&server.unknown_routes, &format!("{name:?}"), "unknown route", server.host.now_ms());
        return unauthorized();
    };
    let (parts, body) = request.into_parts();
    let (body, room) = match read_body(&server, &route, &parts.headers, body).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let state = server.state_of(&route.name);
    let now_ms = server.host.now_ms();
    let signed = match signature::verify(&route, &parts.headers, &body, now_ms) {
        Ok(signed) => signed,
        Err(why) => {
            let why = match why {
                signature::NO_SIGNATURE => format!("{why}; {}", custom_headers(&parts.headers)),
                why => why.to_owned(),
            };
            log_refusal(&state.refused, &route.name, &why, now_ms);
            return unauthorized();
        }
    };
    if let Some(caller) = parts.extensions.get::<Caller>() {
        caller.prove();
    }
    log_signature_headers(&state.known_headers, &route.name, &parts.headers);
    if !route.enabled {
        return refused(StatusCode::FORBIDDEN, "this route is disabled");
    }
    server.host.proved();
    let Some(payload_json) = payload::read(&parts.headers, &body) else {
        return refused(StatusCode::BAD_REQUEST, "the body must be JSON or a form");
    };
    let ids = call_ids::of_call(&signed, &parts.headers, &body, now_ms, route.replay_s);
    let call = Call {
        route: &route.name,
        event: payload::event(signed.scheme, &parts.headers, &payload_json),
        id: ids.id.clone(),
        payload: &payload_json,
        headers: &parts.headers,
    };
    if let Some(answer) = filter_response(&route, &signed, &call) {
        return answer;
    }
    let text = template::text(route.prompt.as_deref(), &call);
    if text.trim().is_empty() {
        // The host would drop an empty event, and the operator would not learn why no answer arrives.
        return ignored("empty", &call);
    }
    let Ok(permit) = Arc::clone(&server.emit_permits).try_acquire_owned() else {
        return retry_later(&CallError::new("busy", "too many calls are waiting for the host"));
    };
    let event = event(&route, &ids, text);
    drop(room);
    let (mark, is_signed, event_name, id) = (signed.mark, ids.is_signed, call.event, ids.id);
    emit(PendingCall { server, route, state, mark, is_signed, event, event_name, id, _place: permit }).await
}

/// Reads a body within the memory limit of all bodies. The sender is still unverified.
async fn read_body(
    server: &Server,
    route: &Route,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, OwnedSemaphorePermit), Response> {
    let too_large = || refused(StatusCode::PAYLOAD_TOO_LARGE, "the body exceeds the limit of this route");
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > route.body_bytes_max) {
        return Err(too_large());
    }
    let bytes = announced.unwrap_or(route.body_bytes_max);
    let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    let Ok(room) = Arc::clone(&server.body_permits).try_acquire_many_owned(kib) else {
        return Err(retry_later(&CallError::new("busy", "too many bodies are being read")));
    };
    match timeout(BODY_TIMEOUT, to_bytes(body, route.body_bytes_max)).await {
        Ok(Ok(body)) => Ok((body, room)),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}

/// Returns the response to a call that the route filters out.
fn filter_response(route: &Route, signed: &Verification, call: &Call<'_>) -> Option<Response> {
    let wants = |event: &str| route.events.iter().any(|one| one.eq_ignore_ascii_case(event));
    // GitHub sends `ping` when a hook is created.
    if signed.scheme == Scheme::GitHub && call.event == "ping" && !wants("ping") {
        return Some(json_response(StatusCode::OK, json!({ "status": "pong" })));
    }
    let why = if !route.events.is_empty() && !wants(&call.event) {
        "event"
    } else if route.filter.as_ref().is_some_and(|filter| !filter.holds(call)) {
        "filter"
    } else {
        return None;
    };
    Some(ignored(why, call))
}

fn event(route: &Route, ids: &CallIds, text: String) -> Event {
    let id = &ids.id;
    let chat = Chat::dm(format!("{}:{id}", route.name)).named(format!("{} {id}", route.name));
    let sender = Sender::new(route.name.clone());
    let event_id = format!("d:{}:{}", route.name, ids.event);
    Event::message(event_id, chat, sender, text).delivered(route.deliver.clone())
}

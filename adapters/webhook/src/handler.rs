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

use crate::call_ids::{self, Names};
use crate::call_log::{ROUTE_CHARS_SAID, headers_named, log_recognised, log_refused};
use crate::emit::{Handing, take};
use crate::payload::{self, Call};
use crate::response::{ignored, later, refused, said, unsigned};
use crate::route::Route;
use crate::scheme::Scheme;
use crate::server::Door;
use crate::signature::{self, Signed};
use crate::template;

/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns all HTTP routes.
pub fn router(door: Arc<Door>) -> Router {
    Router::new()
        .route("/health", get(async || Json(json!({ "status": "ok", "platform": "hermes-host" }))))
        .route("/webhooks/{route}", post(enter))
        .fallback(async || refused(StatusCode::NOT_FOUND, "unknown path"))
        .method_not_allowed_fallback(async || {
            refused(StatusCode::METHOD_NOT_ALLOWED, "this path does not support the method")
        })
        .with_state(door)
}

async fn enter(State(door): State<Arc<Door>>, Path(name): Path<String>, request: Request<Body>) -> Response {
    let Some(route) = door.routes.find(&name).await else {
        let name: String = name.chars().take(ROUTE_CHARS_SAID).collect();
        log_refused(&door.astray, &format!("{name:?}"), "unknown route", door.host.now_ms());
        return unsigned();
    };
    let (parts, body) = request.into_parts();
    let (body, room) = match read(&door, &route, &parts.headers, body).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let memory = door.memory(&route.name);
    let now_ms = door.host.now_ms();
    let signed = match signature::judge(&route, &parts.headers, &body, now_ms) {
        Ok(signed) => signed,
        Err(why) => {
            let why = match why {
                signature::NO_SIGNATURE => format!("{why}; {}", headers_named(&parts.headers)),
                why => why.to_owned(),
            };
            log_refused(&memory.refused, &route.name, &why, now_ms);
            return unsigned();
        }
    };
    if let Some(caller) = parts.extensions.get::<Caller>() {
        caller.prove();
    }
    log_recognised(&memory.recognised, &route.name, &parts.headers);
    if !route.enabled {
        return refused(StatusCode::FORBIDDEN, "this route is disabled");
    }
    door.host.proved();
    let Some(said) = payload::read(&parts.headers, &body) else {
        return refused(StatusCode::BAD_REQUEST, "the body must be JSON or a form");
    };
    let names = call_ids::names(&signed, &parts.headers, &body, now_ms, route.replay_s);
    let call = Call {
        route: &route.name,
        event: payload::event(signed.scheme, &parts.headers, &said),
        id: names.id.clone(),
        payload: &said,
        headers: &parts.headers,
    };
    if let Some(answer) = passed_over(&route, &signed, &call) {
        return answer;
    }
    let text = template::text(route.prompt.as_deref(), &call);
    if text.trim().is_empty() {
        // The host would drop an empty event, and the operator would not learn why no answer arrives.
        return ignored("empty", &call);
    }
    let Ok(place) = Arc::clone(&door.handing).try_acquire_owned() else {
        return later(&CallError::new("busy", "too many calls are waiting for the host"));
    };
    let event = event(&route, &names, text);
    drop(room);
    let (mark, is_signed, about, id) = (signed.mark, names.is_signed, call.event, names.id);
    take(Handing { door, route, memory, mark, is_signed, event, about, id, _place: place }).await
}

/// Reads a body within the memory limit of all bodies. The sender is still unverified.
async fn read(
    door: &Door,
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
    let Ok(room) = Arc::clone(&door.reading).try_acquire_many_owned(kib) else {
        return Err(later(&CallError::new("busy", "too many bodies are being read")));
    };
    match timeout(BODY_TIMEOUT, to_bytes(body, route.body_bytes_max)).await {
        Ok(Ok(body)) => Ok((body, room)),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}

/// Returns the response to a call that the route filters out.
fn passed_over(route: &Route, signed: &Signed, call: &Call<'_>) -> Option<Response> {
    let wants = |event: &str| route.events.iter().any(|one| one.eq_ignore_ascii_case(event));
    // GitHub sends `ping` when a hook is created.
    if signed.scheme == Scheme::GitHub && call.event == "ping" && !wants("ping") {
        return Some(said(StatusCode::OK, json!({ "status": "pong" })));
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

fn event(route: &Route, names: &Names, text: String) -> Event {
    let id = &names.id;
    let chat = Chat::dm(format!("{}:{id}", route.name)).named(format!("{} {id}", route.name));
    let sender = Sender::new(route.name.clone());
    let event_id = format!("d:{}:{}", route.name, names.event);
    Event::message(event_id, chat, sender, text).delivered(route.deliver.clone())
}

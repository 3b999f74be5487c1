//! The request handler: from a request to an event that the host has committed.
//!
//! The order of the steps: route → size → signature → payload → event and filters → replay check → rate limit →
//! host. The content of a call is not read before its signature is verified, and a filtered call leaves no state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_LENGTH, HeaderMap, RETRY_AFTER};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hermes_adapter_net::serve::Caller;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::Config;
use crate::payload::{self, Call};
use crate::replay::{Marks, Rate};
use crate::routes::{Route, Routes, Scheme};
use crate::signature::{self, Names, Signed};
use crate::template;

/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time in which the host must commit an event. Services wait ten seconds or more.
const EMIT_TIMEOUT: Duration = Duration::from_secs(8);

/// The maximum number of calls in transit to the host, including those whose sender has disconnected.
const HANDING_MAX: usize = 256;

/// The maximum total size of bodies being read, in KiB; larger than the maximum body of a route.
const READING_KIB_MAX: usize = 64 * 1024;

/// The number of logged characters of an unknown route's name.
const ROUTE_CHARS_SAID: usize = 64;

/// The `Retry-After` of a call that the host did not accept, in seconds.
const AGAIN_AFTER_S: u64 = 5;

/// The minimum interval between two logged refusals of one route, in milliseconds; each
/// record counts the refusals since the previous one.
const REFUSED_LOG_MS: i64 = 60_000;

/// The shared state of all calls.
pub struct Door {
    pub host: Host,
    /// The listen address, or the reason why it is invalid.
    pub address: Result<std::net::SocketAddr, String>,
    pub routes: Routes,
    memory: Mutex<BTreeMap<String, Arc<Memory>>>,
    /// Permits for calls in transit to the host.
    handing: Arc<Semaphore>,
    /// Permits for bodies, one per KiB.
    reading: Arc<Semaphore>,
    /// Refusals of calls to unknown routes.
    astray: Mutex<Refused>,
}

/// The state of one route. Only existing routes have one.
#[derive(Default)]
struct Memory {
    rate: Mutex<Rate>,
    /// `None` until the marks are loaded. The lock is held while a call is handed over, so
    /// that two calls with the same bytes are serialized.
    marks: tokio::sync::Mutex<Option<Marks>>,
    refused: Mutex<Refused>,
    /// The signature headers of valid calls that are logged already.
    recognised: Mutex<BTreeSet<String>>,
}

impl Memory {
    fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Refused {
    logged_ms: i64,
    since: u64,
}

impl Door {
    /// Creates a handler that emits to `host`.
    pub fn new(config: &Config, host: Host) -> Self {
        let handing = Arc::new(Semaphore::new(HANDING_MAX));
        let (address, routes) = (crate::config::address(config), Routes::new(config));
        let (reading, astray) = (Arc::new(Semaphore::new(READING_KIB_MAX)), Mutex::default());
        Self { host, address, routes, memory: Mutex::default(), handing, reading, astray }
    }

    fn memory(&self, route: &str) -> Arc<Memory> {
        let mut all = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(route.to_owned()).or_default())
    }
}

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
    let names = signature::names(&signed, &parts.headers, &body, now_ms, route.replay_s);
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

fn ignored(why: &str, call: &Call<'_>) -> Response {
    said(StatusCode::OK, json!({ "status": "ignored", "reason": why, "event": call.event }))
}

/// A call in transit to the host. The call continues even if its sender disconnects.
struct Handing {
    door: Arc<Door>,
    route: Arc<Route>,
    memory: Arc<Memory>,
    mark: Option<[u8; 8]>,
    is_signed: bool,
    event: Event,
    about: String,
    id: String,
    _place: OwnedSemaphorePermit,
}

impl Handing {
    /// Emits the call once. Two calls with the same bytes wait for each other.
    async fn over(mut self) -> Response {
        let memory = Arc::clone(&self.memory);
        let mut held = memory.marks.lock().await;
        let marks = match &mut *held {
            Some(marks) => marks,
            None => match Marks::load(&self.door.host, &self.route.name).await {
                Ok(marks) => held.insert(marks),
                Err(error) => return later(&error),
            },
        };
        let (host, route, now_ms) = (&self.door.host, &self.route, self.door.host.now_ms());
        if self.mark.is_some_and(|mark| marks.has(mark, now_ms)) {
            return duplicate(&self.id);
        }
        if let Err(wait_s) = memory.rate().take(route.rate_per_minute, now_ms) {
            return too_many(route, wait_s);
        }
        if let Some(mark) = self.mark.filter(|_| !self.is_signed) {
            match marks.begin(mark, &self.event.event_id, now_ms, route.replay_s, (host, &route.name)).await {
                Ok(event_id) => self.event.event_id = event_id,
                Err(error) => {
                    memory.rate().give_back();
                    return later(&error);
                }
            }
        }
        self.event.at_ms = now_ms;
        let emitted = match host.emit(&self.event).await {
            Ok(emitted) => emitted,
            Err(error) => {
                memory.rate().give_back();
                return not_taken(&error);
            }
        };
        // After the host has the event: a mark that is stored earlier would lose a call that was never emitted.
        if let Some(mark) = self.mark {
            marks.note(mark, now_ms, route.replay_s);
            if marks.keep(host, &route.name).await {
                marks.settle(mark);
            }
        }
        if let Emitted::Duplicate { .. } = emitted {
            memory.rate().give_back();
            return duplicate(&self.id);
        }
        tracing::info!(route = route.name, event = self.about, id = self.id, "call accepted");
        let words = json!({ "status": "accepted", "route": route.name, "event": self.about, "delivery_id": self.id });
        said(StatusCode::ACCEPTED, words)
    }
}

/// Starts the emit and waits for its result, for a limited time.
async fn take(handing: Handing) -> Response {
    match timeout(EMIT_TIMEOUT, tokio::spawn(handing.over())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => later(&CallError::new("unavailable", "the adapter is shutting down")),
        // The emit continues; a repeated call is answered as a duplicate.
        Err(_) => later(&CallError::new("unavailable", "the host did not answer in time")),
    }
}

fn too_many(route: &Route, wait_s: u64) -> Response {
    tracing::warn!(
        route = route.name,
        per_minute = route.rate_per_minute,
        "call rejected: rate limit of the route exceeded"
    );
    let answer = refused(StatusCode::TOO_MANY_REQUESTS, "the rate limit of this route is exceeded; try again later");
    ([(RETRY_AFTER, wait_s.to_string())], answer).into_response()
}

/// Returns the response to the host's refusal, which is temporary or concerns this call.
fn not_taken(error: &CallError) -> Response {
    match error.code.as_str() {
        "invalid" | "too_large" => {
            tracing::warn!(%error, "call rejected: the host does not accept its content");
            refused(StatusCode::UNPROCESSABLE_ENTITY, "the host does not accept the content of this call")
        }
        _ => later(error),
    }
}

fn event(route: &Route, names: &Names, text: String) -> Event {
    let id = &names.id;
    let chat = Chat::dm(format!("{}:{id}", route.name)).named(format!("{} {id}", route.name));
    let sender = Sender::new(route.name.clone());
    let event_id = format!("d:{}:{}", route.name, names.event);
    Event::message(event_id, chat, sender, text).delivered(route.deliver.clone())
}

/// Returns the response to a repeated call: success without a second event.
fn duplicate(id: &str) -> Response {
    said(StatusCode::OK, json!({ "status": "duplicate", "delivery_id": id }))
}

fn later(error: &CallError) -> Response {
    tracing::warn!(%error, "call not stored; asking the sender to retry");
    let answer = refused(StatusCode::SERVICE_UNAVAILABLE, "the call cannot be accepted now; try again later");
    ([(RETRY_AFTER, AGAIN_AFTER_S.to_string())], answer).into_response()
}

/// Returns the same response for every unsigned call, so that a stranger learns neither the error nor the existing
/// routes.
fn unsigned() -> Response {
    refused(StatusCode::UNAUTHORIZED, "the signature is missing or wrong")
}

/// Returns the names of a call's unusual headers, which may hold a signature, for the log. Values are not included.
fn headers_named(headers: &HeaderMap) -> String {
    /// Headers that every client sends.
    const USUAL: [&str; 12] = [
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "user-agent",
        "transfer-encoding",
        "expect",
        "cookie",
        "authorization",
        "cache-control",
    ];
    const NAMES_MAX: usize = 20;
    let names = headers.keys().map(axum::http::HeaderName::as_str).filter(|name| !USUAL.contains(name));
    let names: Vec<String> = names.take(NAMES_MAX).map(|name| name.chars().take(ROUTE_CHARS_SAID).collect()).collect();
    match names.is_empty() {
        true => "it has no custom header".to_owned(),
        false => format!(
            "its headers are {}; set `signature_header` of the route to the one with the signature",
            names.join(", ")
        ),
    }
}

/// Logs the signature headers of a sender once per route, so that the operator can set a fixed scheme.
fn log_recognised(known: &Mutex<BTreeSet<String>>, route: &str, headers: &HeaderMap) {
    /// The maximum number of remembered headers per route.
    const KNOWN_MAX: usize = 16;
    let names = headers.keys().map(axum::http::HeaderName::as_str);
    let names: Vec<&str> =
        names.filter(|name| ["sign", "hmac", "token"].iter().any(|part| name.contains(part))).collect();
    let names: String = names.join(", ").chars().take(ROUTE_CHARS_SAID).collect();
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() < KNOWN_MAX && known.insert(names.clone()) {
        tracing::info!(route, headers = names, "signature of a sender recognised");
    }
}

fn log_refused(refused: &Mutex<Refused>, route: &str, why: &str, now_ms: i64) {
    let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
    refused.since += 1;
    if now_ms.saturating_sub(refused.logged_ms) >= REFUSED_LOG_MS {
        let calls = std::mem::take(&mut refused.since);
        refused.logged_ms = now_ms;
        tracing::warn!(route, calls, "call rejected: {why}");
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    said(status, json!({ "error": why }))
}

fn said(status: StatusCode, words: Value) -> Response {
    (status, Json(words)).into_response()
}

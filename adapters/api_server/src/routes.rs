//! The routes, and the writing of responses.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use futures_util::{Stream, stream};
use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout};

use crate::api::{self, ApiError, ChatRequest, Conversation, Shape, Speaker, StreamRequest};
use crate::door;
use crate::files::{self, InFile};
use crate::inbound::{Asked, SESSION_HEADER};
use crate::kept;
use crate::server::Server;
use crate::turn::{End, Piece, Reader, Turn, Verdict};

/// The time in which the body of a request must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time in which the host must commit an event.
const EMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The silence after which a stream sends a keep-alive comment.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The interval of status requests to the host for a request without news.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// The delay of the first status request, and of the next one after a negative reply.
const LOOK_SOON: Duration = Duration::from_secs(2);

/// The time for which a reply may still be in transit, or the event on its way to a
/// session, after the host reports no turn.
const REPLY_ON_ITS_WAY: Duration = Duration::from_secs(5);

/// Returns all HTTP routes.
pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/v1/health", get(health))
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model))
        .route("/v1/chat/completions", post(completions))
        .route("/api/chat/stream", post(chat_stream))
        .fallback(async || ApiError::new(404, "not_found", "unknown path"))
        .method_not_allowed_fallback(async || {
            ApiError::new(405, "method_not_allowed", "this path does not support the method")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&server), door::guard))
        .with_state(server)
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok", "platform": "hermes-host"}))
}

async fn models(State(server): State<Arc<Server>>) -> Json<Value> {
    Json(api::models(&model_ids(&server).await))
}

async fn model(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    if model_ids(&server).await.contains(&id) {
        return Ok(Json(api::model(&id)));
    }
    Err(ApiError::new(404, "model_not_found", "unknown model"))
}

/// Returns the agent's own name, followed by the models of the host's runtime.
async fn model_ids(server: &Server) -> Vec<String> {
    #[derive(Deserialize)]
    struct Listed {
        id: String,
    }
    let mut ids = vec![server.config.model_name.clone()];
    match server.host.call::<Vec<Listed>>("models.list", &json!({})).await {
        Ok(listed) => ids.extend(listed.into_iter().map(|model| model.id).filter(|id| *id != server.config.model_name)),
        Err(error) => tracing::debug!(%error, "list of models is not available"),
    }
    ids
}

async fn completions(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let mut request: ChatRequest = read_body(&server, body).await?;
    let (session, messages) = completed(&mut request)?;
    let asked = Asked::read(&headers, session, messages)?;
    let session = asked.session.clone();
    let shape = Shape {
        id: format!("chatcmpl-{}", &asked.event_id[2..31]),
        created: server.host.now_ms() / 1000,
        model: request.model.unwrap_or_else(|| server.config.model_name.clone()),
    };
    let mut reader = open(&server, asked).await?;
    let response = if request.stream == Some(true) {
        let include_usage = request.stream_options.and_then(|options| options.include_usage) == Some(true);
        match reader.opened().await {
            Some(End::Failed { status, code, message, .. }) => failed(reader, status, &code, &message),
            _ => events(completion_events(reader, shape, include_usage)),
        }
    } else {
        match reader.ended().await {
            End::Answered { text, finish_reason, usage, model } => {
                let shape = if model.is_empty() { shape } else { Shape { model, ..shape } };
                let body = shape.completion(&text, &finish_reason, usage).to_string();
                let mut response = Response::new(taken(reader, body));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            End::Failed { status, code, message, .. } => failed(reader, status, &code, &message),
        }
    };
    Ok(in_session(response, session))
}

async fn chat_stream(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let (session, messages) = streamed(read_body(&server, body).await?)?;
    let asked = Asked::read(&headers, session, messages)?;
    let session = asked.session.clone();
    let mut reader = open(&server, asked).await?;
    let response = match reader.opened().await {
        Some(End::Failed { status, code, message, .. }) => failed(reader, status, &code, &message),
        _ => events(turn_events(reader)),
    };
    Ok(in_session(response, session))
}

/// Returns the name of the conversation and the messages of a request for a completion.
pub fn completed(request: &mut ChatRequest) -> Result<(Option<String>, Conversation), ApiError> {
    request.check()?;
    Ok((request.session_id.take(), api::read(&request.messages)?))
}

/// Returns the same of a request for the five-event stream.
pub fn streamed(request: StreamRequest) -> Result<(Option<String>, Conversation), ApiError> {
    let messages = match request.message {
        Some(message) if request.messages.is_empty() && !message.trim().is_empty() => {
            vec![(Speaker::User, message)].into()
        }
        Some(_) => return Err(ApiError::invalid("message", "it is empty, or messages is set as well")),
        None => api::read(&request.messages)?,
    };
    Ok((request.session_id, messages))
}

/// Reads a body as JSON.
pub fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::new(400, "invalid_json", format!("the body cannot be read: {error}")))
}

async fn read_body<T: DeserializeOwned>(server: &Server, body: Body) -> Result<T, ApiError> {
    let max = server.config.body_bytes_max;
    let bytes = timeout(BODY_TIMEOUT, to_bytes(body, max))
        .await
        .map_err(|_| ApiError::new(408, "request_timeout", "the body did not arrive in time"))?
        .map_err(|_| ApiError::new(413, "body_too_large", format!("the body exceeds {max} bytes or is incomplete")))?;
    parsed(&bytes)
}

/// Opens a request, joins the open one with the same idempotency key, or returns the stored answer of that key.
async fn open(server: &Arc<Server>, mut asked: Asked) -> Result<Reader, ApiError> {
    if server.host.is_cancelled() {
        return Err(ApiError::new(503, "gateway_draining", "the host is shutting down"));
    }
    if asked.keyed
        && let Some(end) = kept::find(server, &asked.event_id).await
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
        kept::keep(&server, turn.event_id(), &end).await;
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
        kept::begin(server, turn.event_id(), *inbox_id).await;
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

/// Returns a stream of OpenAI's chunks.
fn completion_events(
    reader: Reader,
    shape: Shape,
    include_usage: bool,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let first = data(&shape.chunk(json!({"role": "assistant", "content": ""}), None));
    written(reader, first, move |piece| match piece {
        Piece::Event(_) => String::new(),
        Piece::Text(text) => data(&shape.chunk(json!({"content": text}), None)),
        Piece::End(End::Answered { finish_reason, usage, .. }) => {
            let mut last = data(&shape.chunk(json!({}), Some(&finish_reason)));
            if include_usage {
                last.push_str(&data(&shape.usage_chunk(usage)));
            }
            last + "data: [DONE]\n\n"
        }
        Piece::End(End::Failed { status, code, message, .. }) => {
            data(&ApiError::of_turn(status, &code, &message).body()) + "data: [DONE]\n\n"
        }
    })
}

/// Returns a stream of the five events.
fn turn_events(reader: Reader) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let mut begun = false;
    written(reader, String::new(), move |piece| {
        let event = match piece {
            Piece::Event(event) => event,
            Piece::Text(text) => TurnEvent::Chunk { text },
            Piece::End(End::Answered { finish_reason, usage, .. }) => TurnEvent::Done { finish_reason, usage },
            Piece::End(End::Failed { code, message, retryable, .. }) => TurnEvent::Error { code, message, retryable },
        };
        let is_metadata = matches!(event, TurnEvent::Metadata { .. });
        let mut text = String::new();
        if !std::mem::replace(&mut begun, true) && !is_metadata {
            // A command is answered without a turn, but clients wait for this event.
            let (session_id, model, runtime) = Default::default();
            text.push_str(&named(&TurnEvent::Metadata { session_id, turn_id: 0, model, runtime }));
        }
        text + &named(&event)
    })
}

/// Writes pieces up to the end, and reports to the reader after the connection has accepted them.
fn written(
    reader: Reader,
    first: String,
    write: impl FnMut(Piece) -> String,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let first = Some(first).filter(|first| !first.is_empty());
    stream::unfold((reader, first, write, false), |(mut reader, mut first, mut write, ended)| async move {
        if ended {
            reader.took_it();
            return None;
        }
        if let Some(first) = first.take() {
            return Some((Ok(Bytes::from(first)), (reader, None, write, false)));
        }
        loop {
            let Ok(piece) = timeout(KEEP_ALIVE, reader.next()).await else {
                return Some((Ok(Bytes::from_static(b": keep-alive\n\n")), (reader, None, write, false)));
            };
            let ended = matches!(piece, Piece::End(_));
            let text = write(piece);
            if !text.is_empty() {
                return Some((Ok(Bytes::from(text)), (reader, None, write, ended)));
            }
        }
    })
}

/// Returns a complete body that reports to the reader after the connection has accepted it.
fn taken(reader: Reader, body: String) -> Body {
    Body::from_stream(stream::unfold((reader, Some(body)), |(reader, body)| async move {
        match body {
            Some(body) => Some((Ok::<_, Infallible>(Bytes::from(body)), (reader, None))),
            None => {
                reader.took_it();
                None
            }
        }
    }))
}

fn failed(reader: Reader, status: u16, code: &str, message: &str) -> Response<Body> {
    let error = ApiError::of_turn(status, code, message);
    error.respond(taken(reader, error.body().to_string()))
}

fn events(stream: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response<Body> {
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Asks buffering proxies to pass each chunk on immediately.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn in_session(mut response: Response<Body>, session: Option<String>) -> Response<Body> {
    if let Some(value) = session.and_then(|session| HeaderValue::from_str(&session).ok()) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    response
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn named(event: &TurnEvent) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or("progress"))
}

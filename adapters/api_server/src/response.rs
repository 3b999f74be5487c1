//! The writing of responses.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use futures_util::{Stream, stream};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::AnswerFields;
use crate::api_error::ApiError;
use crate::end::End;
use crate::inbound::SESSION_HEADER;
use crate::open_request::Piece;
use crate::reader::Reader;

/// The silence after which a stream sends a keep-alive comment.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns a stream of OpenAI's chunks.
pub(crate) fn completion_events(
    reader: Reader,
    fields: AnswerFields,
    include_usage: bool,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let first = data_line(&fields.chunk(json!({"role": "assistant", "content": ""}), None));
    piece_stream(reader, first, move |piece| match piece {
        Piece::Event(_) => String::new(),
        Piece::Text(text) => data_line(&fields.chunk(json!({"content": text}), None)),
        Piece::End(End::Answered { finish_reason, usage, .. }) => {
            let mut last = data_line(&fields.chunk(json!({}), Some(&finish_reason)));
            if include_usage {
                last.push_str(&data_line(&fields.usage_chunk(usage)));
            }
            last + "data: [DONE]\n\n"
        }
        Piece::End(End::Failed { status, code, message, .. }) => {
            data_line(&ApiError::of_turn(status, &code, &message).body()) + "data: [DONE]\n\n"
        }
    })
}

/// Returns a stream of the five events.
pub(crate) fn turn_events(reader: Reader) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let mut begun = false;
    piece_stream(reader, String::new(), move |piece| {
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
            text.push_str(&event_text(&TurnEvent::Metadata { session_id, turn_id: 0, model, runtime }));
        }
        text + &event_text(&event)
    })
}

/// Writes pieces up to the end, and reports to the reader after the connection has accepted them.
fn piece_stream(
    reader: Reader,
    first: String,
    write: impl FnMut(Piece) -> String,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let first = Some(first).filter(|first| !first.is_empty());
    stream::unfold((reader, first, write, false), |(mut reader, mut first, mut write, ended)| async move {
        if ended {
            reader.mark_delivered();
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
pub(crate) fn complete_body(reader: Reader, body: String) -> Body {
    Body::from_stream(stream::unfold((reader, Some(body)), |(reader, body)| async move {
        match body {
            Some(body) => Some((Ok::<_, Infallible>(Bytes::from(body)), (reader, None))),
            None => {
                reader.mark_delivered();
                None
            }
        }
    }))
}

pub(crate) fn failure(reader: Reader, status: u16, code: &str, message: &str) -> Response<Body> {
    let error = ApiError::of_turn(status, code, message);
    error.respond(complete_body(reader, error.body().to_string()))
}

pub(crate) fn event_stream(stream: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response<Body> {
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Asks buffering proxies to pass each chunk on immediately.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub(crate) fn with_session(mut response: Response<Body>, session: Option<String>) -> Response<Body> {
    if let Some(value) = session.and_then(|session| HeaderValue::from_str(&session).ok()) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    response
}

fn data_line(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn event_text(event: &TurnEvent) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or("progress"))
}

//! A scripted endpoint with one reply per request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The reply to one request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub steps: Vec<Step>,
}

/// A step of sending the body.
#[derive(Clone, Debug)]
pub enum Step {
    Bytes(Vec<u8>),
    Wait(Duration),
    Hang,
    Cut,
    /// Sends the same bytes repeatedly, as fast as they are read.
    Endless(Vec<u8>),
    /// Sends the same bytes repeatedly, at this interval.
    Drip(Vec<u8>, Duration),
}

impl Reply {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, steps: vec![Step::Bytes(body.into())] }
    }

    pub fn json(status: u16, body: Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// Creates an event stream of these pieces, each in a separate write.
    pub fn stream(pieces: &[String]) -> Self {
        let steps = pieces.iter().map(|piece| Step::Bytes(piece.clone().into_bytes())).collect();
        Self { status: 200, headers: vec![("content-type", "text/event-stream".to_owned())], steps }
    }

    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Creates a complete answer.
    pub fn good(text: &str) -> Self {
        Self::stream(&[delta(text), finish("stop"), done()])
    }
}

/// Returns a piece of text.
pub fn delta(text: &str) -> String {
    event(&json!({"id": "c1", "model": "test-model-1", "choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// Returns the finish reason of an answer.
pub fn finish(reason: &str) -> String {
    event(&json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}

pub fn event(piece: &Value) -> String {
    format!("data: {piece}\n\n")
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub authorization: Option<String>,
    pub body: Value,
}

pub struct Endpoint {
    pub base_url: String,
    state: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    seen: Vec<Seen>,
}

impl Endpoint {
    /// Starts an endpoint that sends `replies`, one per request, and status 418 after the last one.
    pub async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script { replies: replies.into_iter().collect(), seen: Vec::new() };
        let state = Arc::new(Mutex::new(script));
        let router = Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base_url, state }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }
}

async fn answer(State(state): State<Arc<Mutex<Script>>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let reply = {
        let mut script = state.lock().unwrap();
        let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        script.seen.push(Seen { authorization, body: serde_json::from_slice(&body).unwrap() });
        script.replies.pop_front().unwrap_or_else(|| Reply::new(418, "text/plain", "no more replies"))
    };
    if matches!(reply.steps.first(), Some(Step::Hang)) && reply.status == 0 {
        return std::future::pending().await;
    }
    let body = stream::iter(reply.steps).flat_map(|step| match step {
        Step::Bytes(bytes) => stream::once(async move { Ok(Bytes::from(bytes)) }).boxed(),
        Step::Wait(time) => stream::once(async move {
            tokio::time::sleep(time).await;
            Ok(Bytes::new())
        })
        .boxed(),
        Step::Hang => stream::pending().boxed(),
        Step::Cut => stream::once(async {
            // The server flushes its buffer when it waits, but not when the body is cut.
            tokio::task::yield_now().await;
            Err("cut")
        })
        .boxed(),
        Step::Endless(bytes) => stream::repeat_with(move || Ok(Bytes::from(bytes.clone()))).boxed(),
        Step::Drip(bytes, every) => stream::repeat(bytes)
            .then(move |bytes| async move {
                tokio::time::sleep(every).await;
                Ok(Bytes::from(bytes))
            })
            .boxed(),
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

/// Returns an address without a listener.
pub async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

//! An HTTP API for OpenAI's clients, and the five-event stream.
//!
//! A request becomes an event, and the reply to that event is the response. The adapter
//! keeps a request open until its response is written, and stores nothing longer: a message
//! without an open request is rejected, and the host keeps it.
//!
//! * `api`, `api_error`: the requests, responses and errors of OpenAI's chat completions;
//! * `files`: the files of a request;
//! * `inbound`, `instructions`: conversion of requests to events;
//! * `end`, `open_request`: an open request, and the only decision about its end;
//! * `answers`: answers stored under their idempotency keys;
//! * `key`, `http_auth`: access control by host, origin and key;
//! * `server`: the shared state of all requests;
//! * `reader`, `response`: the reading of an open request, and the writing of its response;
//! * `follow`: one request from its event to its end;
//! * `outbound`: delivery of the host's messages to open requests;
//! * `routes`: the routes;
//! * `validate`, `listener`: the checks of the configuration, and the port.

#![forbid(unsafe_code)]

mod answers;
mod api;
mod api_error;
mod end;
mod files;
mod follow;
mod http_auth;
mod inbound;
mod instructions;
mod key;
mod listener;
mod open_request;
mod outbound;
mod reader;
mod response;
mod routes;
mod server;
mod validate;

use std::sync::{Arc, Mutex, PoisonError};

use hermes_adapter_sdk::prelude::*;
use tokio::net::TcpListener;

use server::Server;

/// Reads the body of a request with an idempotency key: the reader as the fuzz ring reaches it. `is_stream`: of
/// `/api/chat/stream` instead of `/v1/chat/completions`.
///
/// # Errors
///
/// The body of the refusal.
#[doc(hidden)]
pub fn read_request(is_stream: bool, body: &[u8]) -> Result<Event, serde_json::Value> {
    let read = || {
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("idempotency-key", axum::http::HeaderValue::from_static("fuzz"));
        let (session, messages) = match is_stream {
            true => routes::stream_input(routes::parse_body(body)?)?,
            false => routes::completion_input(&mut routes::parse_body(body)?)?,
        };
        let mut request = inbound::InboundRequest::parse(&headers, session, messages)?;
        let file = |_| Attachment::away("file", AttachmentKind::File, "text/plain", "file", 0);
        let attachments = request.take_files().into_iter().map(file).collect();
        let mut event = request.event(&instructions::InstructionLog::default(), 1);
        event.attachments = attachments;
        Ok(event)
    };
    read().map_err(|error: api_error::ApiError| error.body())
}

/// Keys of `[adapter.api_server]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The address and port to listen on. An address that is reachable for others requires a `key`.
    #[serde(default = "default_listen")]
    listen: String,
    /// The key that every request must carry, at least 16 characters; on a loopback address
    /// it is generated if it is missing.
    #[serde(default)]
    key: Option<String>,
    /// Host names under which the server may be addressed, in addition to this machine's own.
    #[serde(default)]
    hosts: Vec<String>,
    /// Web pages that may call the server from a browser, as origins like `https://chat.example`, or `*`.
    #[serde(default)]
    cors_origins: Vec<String>,
    /// The name under which the agent is listed as a model.
    #[serde(default = "default_model_name")]
    model_name: String,
    /// The maximum duration of a request, in seconds (1 to 86400).
    #[serde(default = "default_request_timeout_s")]
    #[schemars(range(min = 1, max = 86400))]
    request_timeout_s: u64,
    /// The maximum number of requests that wait for answers at the same time (1 to 1000).
    #[serde(default = "default_requests_max")]
    #[schemars(range(min = 1, max = 1000))]
    requests_max: usize,
    /// The maximum size of a request's body, in bytes (1024 to 4194304).
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1024, max = 4194304))]
    body_bytes_max: usize,
}

fn default_listen() -> String {
    "127.0.0.1:8642".to_owned()
}

fn default_model_name() -> String {
    "hermes".to_owned()
}

fn default_request_timeout_s() -> u64 {
    600
}

fn default_requests_max() -> usize {
    10
}

fn default_body_bytes_max() -> usize {
    4 * 1024 * 1024
}

/// The adapter: one listener and its open requests.
pub struct ApiServer {
    server: Arc<Server>,
    listener: Mutex<Option<TcpListener>>,
}

impl Adapter for ApiServer {
    const MANIFEST: Manifest = manifest! {
        id: "api_server",
        label: "HTTP API",
        transport: "http",
        replay: "none",
        listens: ["127.0.0.1:8642"],
        secrets: ["key"],
        uses: ["turns.stop", "turns.status", "models.list"],
        env: [
            { name: "API_SERVER_KEY", key: "key", enables: true },
            { name: "API_SERVER_MODEL_NAME", key: "model_name" },
        ],
        supports_async_delivery: false,
        text: { limit: 0, unit: scalars, dialect: commonmark },
        stream: native,
        media: { in: true, in_bytes_max: 3145728 },
        delivery: idempotent,
        authorizes_upstream: true,
        group_default: all,
        platform_hint: "You are answering over an HTTP API. Use CommonMark; the caller decides how it is rendered.",
    };

    type Config = Config;

    fn check(config: &Config) -> Result<(), String> {
        validate::check(config)
    }

    fn new(config: Config, host: Host) -> Self {
        Self { server: Arc::new(Server::new(config, host)), listener: Mutex::new(None) }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        let listener = listener::open(&self.server).await?;
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        Ok(())
    }

    async fn run(&self) -> Result<(), ConnectError> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        match listener {
            Some(listener) => listener::serve(&self.server, listener).await,
            None => Err(ConnectError::retry("the listener is not open")),
        }
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        outbound::send(&self.server, message).await
    }
}

impl NativeStream for ApiServer {
    async fn turn_event(&self, inbox_id: i64, seq: u64, event: TurnEvent) -> Result<(), CallError> {
        outbound::turn_event(&self.server, inbox_id, seq, event).await
    }
}

export_adapter!(ApiServer: NativeStream);

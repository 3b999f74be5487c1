//! The routes: the requests that this server answers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::{self, AnswerFields, ChatRequest, Conversation, Role, StreamRequest};
use crate::api_error::ApiError;
use crate::end::End;
use crate::follow::open;
use crate::http_auth;
use crate::inbound::InboundRequest;
use crate::response::{complete_body, completion_events, event_stream, failure, turn_events, with_session};
use crate::server::Server;

/// The time in which the body of a request must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns all HTTP routes.
pub(crate) fn router(server: Arc<Server>) -> Router {
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
        .layer(middleware::from_fn_with_state(Arc::clone(&server), http_auth::check_access))
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
    struct Model {
        id: String,
    }
    let mut ids = vec![server.config.model_name.clone()];
    match server.host.call::<Vec<Model>>("models.list", &json!({})).await {
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
    let (session, messages) = completion_input(&mut request)?;
    let inbound = InboundRequest::parse(&headers, session, messages)?;
    let session = inbound.session.clone();
    let fields = AnswerFields {
        id: format!("chatcmpl-{}", &inbound.event_id[2..31]),
        created: server.host.now_ms() / 1000,
        model: request.model.unwrap_or_else(|| server.config.model_name.clone()),
    };
    let mut reader = open(&server, inbound).await?;
    let response = if request.stream == Some(true) {
        let include_usage = request.stream_options.and_then(|options| options.include_usage) == Some(true);
        match reader.wait_confirmed().await {
            Some(End::Failed { status, code, message, .. }) => failure(reader, status, &code, &message),
            _ => event_stream(completion_events(reader, fields, include_usage)),
        }
    } else {
        match reader.ended().await {
            End::Answered { text, finish_reason, usage, model } => {
                let fields = if model.is_empty() { fields } else { AnswerFields { model, ..fields } };
                let body = fields.completion(&text, &finish_reason, usage).to_string();
                let mut response = Response::new(complete_body(reader, body));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            End::Failed { status, code, message, .. } => failure(reader, status, &code, &message),
        }
    };
    Ok(with_session(response, session))
}

async fn chat_stream(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let (session, messages) = stream_input(read_body(&server, body).await?)?;
    let inbound = InboundRequest::parse(&headers, session, messages)?;
    let session = inbound.session.clone();
    let mut reader = open(&server, inbound).await?;
    let response = match reader.wait_confirmed().await {
        Some(End::Failed { status, code, message, .. }) => failure(reader, status, &code, &message),
        _ => event_stream(turn_events(reader)),
    };
    Ok(with_session(response, session))
}

/// Returns the name of the conversation and the messages of a request for a completion.
pub(crate) fn completion_input(request: &mut ChatRequest) -> Result<(Option<String>, Conversation), ApiError> {
    request.check()?;
    Ok((request.session_id.take(), api::parse_messages(&request.messages)?))
}

/// Returns the same of a request for the five-event stream.
pub(crate) fn stream_input(request: StreamRequest) -> Result<(Option<String>, Conversation), ApiError> {
    let messages = match request.message {
        Some(message) if request.messages.is_empty() && !message.trim().is_empty() => {
            vec![(Role::User, message)].into()
        }
        Some(_) => return Err(ApiError::invalid("message", "it is empty, or messages is set as well")),
        None => api::parse_messages(&request.messages)?,
    };
    Ok((request.session_id, messages))
}

/// Reads a body as JSON.
pub(crate) fn parse_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::new(400, "invalid_json", format!("the body cannot be read: {error}")))
}

async fn read_body<T: DeserializeOwned>(server: &Server, body: Body) -> Result<T, ApiError> {
    let max = server.config.body_bytes_max;
    let bytes = timeout(BODY_TIMEOUT, to_bytes(body, max))
        .await
        .map_err(|_| ApiError::new(408, "request_timeout", "the body did not arrive in time"))?
        .map_err(|_| ApiError::new(413, "body_too_large", format!("the body exceeds {max} bytes or is incomplete")))?;
    parse_body(&bytes)
}

//! Responses to calls.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::payload::Call;
use crate::route::Route;

/// The `Retry-After` of a call that the host did not accept, in seconds.
const RETRY_AFTER_S: u64 = 5;

pub(crate) fn json_response(status: StatusCode, body: Value) -> Response {
    (status, Json(body)).into_response()
}

pub(crate) fn refused(status: StatusCode, why: &str) -> Response {
    json_response(status, json!({ "error": why }))
}

/// Returns the same response for every unsigned call, so that a stranger learns neither the error nor the existing
/// routes.
pub(crate) fn unauthorized() -> Response {
    refused(StatusCode::UNAUTHORIZED, "the signature is missing or wrong")
}

pub(crate) fn ignored(why: &str, call: &Call<'_>) -> Response {
    json_response(StatusCode::OK, json!({ "status": "ignored", "reason": why, "event": call.event }))
}

/// Returns the response to a repeated call: success without a second event.
pub(crate) fn duplicate(id: &str) -> Response {
    json_response(StatusCode::OK, json!({ "status": "duplicate", "delivery_id": id }))
}

pub(crate) fn too_many(route: &Route, wait_s: u64) -> Response {
    tracing::warn!(
        route = route.name,
        per_minute = route.rate_per_minute,
        "call rejected: rate limit of the route exceeded"
    );
    let response = refused(StatusCode::TOO_MANY_REQUESTS, "the rate limit of this route is exceeded; try again later");
    ([(RETRY_AFTER, wait_s.to_string())], response).into_response()
}

/// Returns the response to the host's refusal, which is temporary or concerns this call.
pub(crate) fn host_refusal(error: &CallError) -> Response {
    match error.code.as_str() {
        "invalid" | "too_large" => {
            tracing::warn!(%error, "call rejected: the host does not accept its content");
            refused(StatusCode::UNPROCESSABLE_ENTITY, "the host does not accept the content of this call")
        }
        _ => retry_later(error),
    }
}

pub(crate) fn retry_later(error: &CallError) -> Response {
    tracing::warn!(%error, "call not stored; asking the sender to retry");
    let response = refused(StatusCode::SERVICE_UNAVAILABLE, "the call cannot be accepted now; try again later");
    ([(RETRY_AFTER, RETRY_AFTER_S.to_string())], response).into_response()
}

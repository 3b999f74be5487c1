//! Error responses to the page.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hermes_adapter_sdk::prelude::*;
use serde_json::json;

/// Returns an error response with its reason.
pub(crate) fn refusal(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// An error of the adapter or the host, as a response to the page.
pub(crate) struct Refusal(pub(crate) CallError);

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0.code.as_str() {
            "invalid" => StatusCode::BAD_REQUEST,
            "not_found" => StatusCode::NOT_FOUND,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "busy" => StatusCode::TOO_MANY_REQUESTS,
            "refused" => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        };
        refusal(status, &self.0.message)
    }
}

pub(crate) fn not_found() -> Refusal {
    Refusal(CallError::new("not_found", "this conversation does not exist"))
}

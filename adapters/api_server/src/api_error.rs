//! Errors in OpenAI's format.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

/// An error in OpenAI's format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    status: u16,
    code: String,
    message: String,
    param: Option<&'static str>,
    retry_after_s: Option<u32>,
    /// True if the event reached the host, so that another request would start another turn.
    answered: bool,
}

impl ApiError {
    /// Creates an error for a request without effect.
    pub(crate) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        let retry_after_s = matches!(status, 429 | 503).then_some(1);
        Self { status, code: code.to_owned(), message: message.into(), param: None, retry_after_s, answered: false }
    }

    /// Creates an error for an invalid request.
    pub(crate) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::new(400, "invalid_value", message) }
    }

    /// Creates an error for a request that the host received.
    pub(crate) fn of_turn(status: u16, code: &str, message: &str) -> Self {
        Self { answered: true, retry_after_s: None, ..Self::new(status, code, message) }
    }

    /// Returns the body.
    pub(crate) fn body(&self) -> Value {
        let kind = match self.status {
            401 | 403 => "authentication_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }

    /// Returns a response with the error's status and headers around `body`.
    pub(crate) fn respond(&self, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.answered {
            // OpenAI's clients retry failed requests automatically; here that would start a second turn.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        self.respond(Body::from(self.body().to_string()))
    }
}

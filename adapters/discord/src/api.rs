//! The HTTP API: one function for calls, with typed responses, and the server's rate limits as the only
//! policy.
//!
//! This module never repeats a request, because the host decides about retries.
//! <https://docs.discord.com/developers/reference>

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_net::{
    ClientError, ClientOptions, NetError,
    body::{self, BodyError},
    client::base_url,
    http_client,
    proxy::ProxySettings,
    reqwest::{
        self, Client, Method, Url,
        header::{AUTHORIZATION, HeaderMap, HeaderValue},
        multipart::Form,
    },
};
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::{Instant, sleep};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rate_limits::{RateLimitHeaders, RateLimits, WAIT_MAX, route, seconds};

/// The maximum size of a response, in bytes.
const RESPONSE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for an empty bucket inside this module; a longer wait is reported to the host.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// The maximum number of waits for a bucket per call.
const WAITS_MAX: usize = 3;
/// The wait after a 429 without a wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// The same for a 429 from a proxy before the server, which blocks a whole IP address.
const PROXY_WAIT: Duration = Duration::from_secs(60);
/// The maximum number of invalid fields named in an error.
const FIELD_ERRORS_MAX: usize = 4;

/// The client of one bot.
pub(crate) struct Api {
    client: Client,
    base: String,
    /// The server in error messages.
    server: String,
    token: HeaderValue,
    limits: Mutex<RateLimits>,
}

/// The reason why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server rejected the call.
    #[error("{0}")]
    Refused(Rejection),
    /// The rate limit forbids the call; it had no effect.
    #[error("rate limited by Discord; retry after {} ms", .retry_after.as_millis())]
    RateLimited {
        /// The wait.
        retry_after: Duration,
        /// True if the limit applies to all calls.
        is_global: bool,
    },
    /// The request did not reach the server.
    #[error("{0}")]
    NotSent(String),
    /// The content can never be sent; the request did not reach the server.
    #[error("{0}")]
    Invalid(String),
    /// The call may have taken effect.
    #[error("{0}")]
    Unknown(String),
    /// The same, without a key that protects a retry from creating a duplicate.
    #[error("{0}")]
    UnknownKeyless(String),
}

/// A rejection by the server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub(crate) struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The server's error code; 0 if there is none.
    /// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
    pub code: u64,
    /// The server's explanation, and the invalid fields.
    pub message: String,
    /// True if the rejection comes from the server itself instead of a proxy before it.
    pub is_from_discord: bool,
}

impl ApiError {
    /// Returns the server's error code of a rejection.
    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            Self::Refused(refused) => Some(refused.code),
            _ => None,
        }
    }
}

impl Api {
    /// Creates a client for the API at `base`, which includes its version, with the bot's token.
    pub(crate) fn new(
        token: &str,
        base: &str,
        ca_file: Option<&Path>,
        proxy: &ProxySettings,
    ) -> Result<Self, ClientError> {
        let base: Url = base_url(base)?;
        let mut options = ClientOptions::for_base_url(&base);
        options.proxy = proxy.clone();
        options.ca_file = ca_file.map(Path::to_owned);
        options.total_timeout = None;
        // <https://docs.discord.com/developers/reference#user-agent>
        options.user_agent = concat!("DiscordBot (hermes-host, ", env!("CARGO_PKG_VERSION"), ")").to_owned();
        let mut token = HeaderValue::from_str(&format!("Bot {token}"))
            .map_err(|_| ClientError::Build("the token contains invalid characters".to_owned()))?;
        token.set_sensitive(true);
        let port = base.port().map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self {
            client: http_client(&options)?,
            server: format!("{}{port} (`base_url`)", base.host_str().unwrap_or_default()),
            base: base.as_str().trim_end_matches('/').to_owned(),
            token,
            limits: Mutex::new(RateLimits::default()),
        })
    }

    /// Sends a request without a body.
    pub(crate) async fn request<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, ApiError> {
        self.call(method, path, None).await
    }

    /// Sends a request with a JSON body.
    pub(crate) async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T, ApiError> {
        self.call(method, path, Some(Body::Json(body))).await
    }

    /// Sends a request with files. The caller limits the time.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        form: Form,
    ) -> Result<T, ApiError> {
        self.call(method, path, Some(Body::Form(form))).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Body<'_>>,
    ) -> Result<T, ApiError> {
        let route = route(method.as_str(), path);
        self.wait_for_bucket(&route).await?;
        let request = self.client.request(method, format!("{}/{path}", self.base)).header(AUTHORIZATION, &self.token);
        let request = match body {
            None => request.timeout(CALL_TIMEOUT),
            Some(Body::Json(body)) => request.timeout(CALL_TIMEOUT).json(body),
            Some(Body::Form(form)) => request.multipart(form),
        };
        let response = request.send().await.map_err(|error| self.transport_error(error))?;
        let reported = RateLimitHeaders::parse(response.headers());
        self.limits().update(&route, &reported, Instant::now());
        let result = read_response(response).await;
        if let Err(ApiError::RateLimited { retry_after, is_global }) = &result {
            let mut limits = self.limits();
            match is_global {
                true => limits.block_all(*retry_after, Instant::now()),
                false => limits.block(&route, *retry_after, Instant::now()),
            }
        }
        result
    }

    /// Takes one request from the route's bucket; waits for it if the wait is short.
    async fn wait_for_bucket(&self, route: &str) -> Result<(), ApiError> {
        // The endpoints of an interaction have separate limits for each short-lived token.
        if route.contains(" webhooks/") || route.contains(" interactions/") {
            return Ok(());
        }
        for _ in 0..WAITS_MAX {
            let taken = self.limits().take(route, Instant::now());
            match taken {
                Ok(()) => return Ok(()),
                Err(wait) if wait <= SHORT_WAIT => sleep(wait).await,
                Err(retry_after) => return Err(ApiError::RateLimited { retry_after, is_global: false }),
            }
        }
        Err(ApiError::RateLimited { retry_after: SHORT_WAIT, is_global: false })
    }

    fn limits(&self) -> MutexGuard<'_, RateLimits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transport_error(&self, error: reqwest::Error) -> ApiError {
        match NetError::from(error) {
            NetError::NotSent { detail, .. } => {
                ApiError::NotSent(format!("{} cannot be reached: {detail}", self.server))
            }
            error => ApiError::Unknown(format!("{}: {error}", self.server)),
        }
    }
}

enum Body<'b> {
    Json(&'b Value),
    Form(Form),
}

async fn read_response<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, ApiError> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    if status == 204 {
        return serde_json::from_value(Value::Null)
            .map_err(|_| ApiError::Unknown("the server sent an empty response".into()));
    }
    let body: Result<Value, BodyError> = body::read_json(response, RESPONSE_BYTES_MAX).await;
    let body = match (status, body) {
        (200..=299, Ok(body)) => {
            return serde_json::from_value(body)
                .map_err(|error| ApiError::Unknown(format!("the response has an unexpected format ({error})")));
        }
        (200..=299, Err(error)) => return Err(ApiError::Unknown(error.to_string())),
        // A proxy before the server answers with HTML; only its status is usable.
        (_, body) => body.unwrap_or(Value::Null),
    };
    match status {
        429 => Err(rate_limited(&body, &headers)),
        // 501: the server does not support the request, so it had no effect.
        400..=499 | 501 => Err(ApiError::Refused(rejection(status, &body))),
        _ => Err(ApiError::Unknown(format!("the server responded with status {status}"))),
    }
}

/// <https://docs.discord.com/developers/topics/rate-limits#exceeding-a-rate-limit>
fn rate_limited(body: &Value, headers: &HeaderMap) -> ApiError {
    let in_body = body["retry_after"].as_f64().and_then(seconds);
    let in_header = hermes_adapter_net::retry_after::from_headers(headers);
    let scope = headers.get("x-ratelimit-scope").and_then(|scope| scope.to_str().ok());
    // The server itself always answers with an object.
    let is_from_proxy = !body.is_object() && scope.is_none() && !headers.contains_key("x-ratelimit-bucket");
    let wait = in_body.or(in_header).unwrap_or(if is_from_proxy { PROXY_WAIT } else { DEFAULT_WAIT });
    ApiError::RateLimited {
        retry_after: wait.min(WAIT_MAX),
        is_global: body["global"] == true || scope == Some("global") || is_from_proxy,
    }
}

fn rejection(status: u16, body: &Value) -> Rejection {
    let mut message = body["message"].as_str().unwrap_or("the server rejected the request").to_owned();
    let mut found = Vec::new();
    collect_field_errors(&body["errors"], String::new(), &mut found);
    if !found.is_empty() {
        message = format!("{message}: {}", found.join(", "));
    }
    let code = body["code"].as_u64();
    let is_from_discord = code.is_some() || body["message"].is_string();
    Rejection { status, code: code.unwrap_or_default(), message, is_from_discord }
}

/// Collects the invalid fields with their error codes, such as `content: BASE_TYPE_MAX_LENGTH`, without their values.
/// <https://docs.discord.com/developers/reference#error-messages>
fn collect_field_errors(errors: &Value, place: String, found: &mut Vec<String>) {
    let Some(fields) = errors.as_object() else { return };
    // The nesting of the error is limited by that of the request, which is our own.
    for (key, value) in fields {
        if found.len() >= FIELD_ERRORS_MAX || place.len() > 100 {
            return;
        }
        match value.as_array().filter(|_| key == "_errors") {
            Some(list) => {
                let codes: Vec<&str> = list.iter().filter_map(|error| error["code"].as_str()).take(2).collect();
                found.push(format!("{}: {}", place.trim_start_matches('.'), codes.join(" ")));
            }
            None => collect_field_errors(value, format!("{place}.{key}"), found),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_the_fields_that_are_wrong_and_none_of_their_values() {
        let body = json!({ "code": 50035, "message": "Invalid Form Body", "errors": {
            "content": { "_errors": [{ "code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length." }] },
            "components": { "0": { "label": { "_errors": [{ "code": "BASE_TYPE_REQUIRED", "message": "x" }] } } },
        } });
        let rejection = rejection(400, &body);
        assert_eq!(rejection.code, 50035);
        assert!(rejection.message.contains("content: BASE_TYPE_MAX_LENGTH"), "{rejection}");
        assert!(rejection.message.contains("components.0.label: BASE_TYPE_REQUIRED"), "{rejection}");
    }

    #[test]
    fn a_limit_tells_its_wait_and_whether_it_is_everybodys() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("65"));
        let read = |body: Value, headers: &HeaderMap| match rate_limited(&body, headers) {
            ApiError::RateLimited { retry_after, is_global } => (retry_after.as_millis(), is_global),
            other => panic!("{other}"),
        };
        assert_eq!(read(json!({ "retry_after": 64.57, "global": false }), &headers), (64_570, false));
        assert_eq!(read(json!({ "retry_after": 1.0, "global": true }), &headers), (1000, true));
        assert_eq!(read(json!({ "retry_after": 1e9, "global": true }), &headers), (900_000, true), "it is asked again");
        headers.insert("x-ratelimit-bucket", HeaderValue::from_static("b"));
        assert_eq!(read(Value::Null, &headers), (65_000, false));
        headers.insert("x-ratelimit-scope", HeaderValue::from_static("global"));
        assert_eq!(read(Value::Null, &headers), (65_000, true));
        headers.clear();
        for odd in [json!({}), json!({ "retry_after": "abc" }), json!({ "retry_after": -1, "global": "x" })] {
            assert_eq!(read(odd.clone(), &headers), (5000, false), "it is the chat's own: {odd}");
        }
        assert_eq!(read(Value::Null, &headers), (60_000, true), "what stands before the server bars the address");
    }
}

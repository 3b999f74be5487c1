//! The Events API over HTTP: requests signed by Slack, for apps without Socket Mode.
//!
//! On every path a request is accepted only with a valid signature (`signature`).
//!
//! Slack repeats a request without a successful response within three seconds, up to three times: immediately, after
//! one minute and after five minutes, with a new signature and `X-Slack-Retry-Num`. The adapter ignores that number,
//! because the event id identifies the change. The response header `X-Slack-No-Retry` prevents repetitions of an
//! invalid request. <https://docs.slack.dev/apis/events-api/>

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, header::CONNECTION, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hermes_adapter_net::lenient;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::serve::{self, Bounds, Caller};
use hermes_adapter_sdk::prelude::*;
use ring::hmac;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::account::Account;
use crate::channel_queues::ChannelQueues;
use crate::delivery::{Ack, Delivery, DeliveryKind};
use crate::errors::connect_error;
use crate::signature::RequestSignature;

/// The maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The time in which a body must arrive. Slack waits no longer for the response.
const BODY_TIMEOUT: Duration = Duration::from_secs(3);
/// The minimum interval between two log records about unsigned requests, in milliseconds;
/// each counts the requests since the previous one.
const UNSIGNED_LOG_MS: i64 = 60_000;
/// The time after which Slack is asked to repeat a delivery. Slack waits three seconds.
const ACK_TIMEOUT: Duration = Duration::from_millis(2500);
/// The maximum number of parallel requests.
const REQUESTS_MAX: usize = 64;
/// The limits for callers; requests above the parallel limit get an error response.
const BOUNDS: Bounds = Bounds {
    connections: 2 * REQUESTS_MAX,
    head: Duration::from_secs(30),
    lifetime: Duration::from_secs(600),
    grace: Duration::from_secs(30),
};
/// The interval in which a quiet link is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The HTTP endpoint for Slack's requests.
pub(crate) struct EventsApi {
    account: Arc<Account>,
    host: Host,
    address: SocketAddr,
    secret: String,
    listener: Mutex<Option<TcpListener>>,
}

/// The state of the request handler.
struct Endpoint {
    key: hmac::Key,
    host: Host,
    queues: ChannelQueues,
    requests: Semaphore,
    unsigned: Mutex<UnsignedRequests>,
}

/// The count of unsigned requests.
#[derive(Default)]
struct UnsignedRequests {
    logged_ms: i64,
    /// The number of requests since the last log record.
    since: u64,
}

impl Endpoint {
    /// Rejects an unsigned request. Anybody can send one, so not every one is logged.
    fn reject_unsigned(&self, why: &'static str) -> Response {
        let now_ms = self.host.now_ms();
        let mut unsigned = self.unsigned.lock().unwrap_or_else(PoisonError::into_inner);
        unsigned.since += 1;
        if now_ms.saturating_sub(unsigned.logged_ms) >= UNSIGNED_LOG_MS {
            let requests = std::mem::take(&mut unsigned.since);
            unsigned.logged_ms = now_ms;
            tracing::warn!(why, requests, "request without a valid Slack signature rejected");
        }
        (StatusCode::UNAUTHORIZED, why).into_response()
    }
}

impl EventsApi {
    /// Creates an endpoint at `address`, for requests signed with `secret`.
    pub(crate) fn new(account: Arc<Account>, host: Host, address: SocketAddr, secret: String) -> Self {
        Self { account, host, address, secret, listener: Mutex::default() }
    }

    /// Binds the port.
    pub(crate) async fn connect(&self) -> Result<(), ConnectError> {
        let listener = serve::bind("listen", &[self.address]).await?;
        let address = listener.local_addr().map_err(|error| ConnectError::retry(error.to_string()))?;
        self.host.announce("Slack's requests", format!("http://{address}/slack/events"));
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        self.host.proved();
        Ok(())
    }

    /// Serves until the port is lost or the tokens are no longer accepted.
    pub(crate) async fn run(&self, queues: &ChannelQueues) -> Result<(), ConnectError> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = listener.ok_or_else(|| ConnectError::retry("the instance is not connected"))?;
        let endpoint = Arc::new(Endpoint {
            key: hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes()),
            host: self.host.clone(),
            queues: queues.clone(),
            requests: Semaphore::new(REQUESTS_MAX),
            unsigned: Mutex::default(),
        });
        let router = Router::new()
            .route("/slack/events", post(handle))
            .route("/slack/commands", post(handle))
            .route("/slack/interactive", post(handle))
            .with_state(endpoint);
        tokio::select! {
            error = serve::serve(listener, router, BOUNDS) => Err(error),
            error = self.check_regularly() => Err(error),
        }
    }

    async fn check_regularly(&self) -> ConnectError {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            match self.account.check().await {
                Ok(()) => self.host.proved(),
                Err(error) => return connect_error(&error, "bot_token"),
            }
        }
    }
}

async fn handle(State(endpoint): State<Arc<Endpoint>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let now_s = u64::try_from(endpoint.host.now_ms() / 1000).unwrap_or_default();
    // A request without a plausible signature is not read. Only a signed request takes one of
    // the permits for Slack's requests.
    let signature = match RequestSignature::from_headers(&parts.headers, now_s) {
        Ok(signature) => signature,
        Err(why) => return endpoint.reject_unsigned(why),
    };
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return do_not_retry(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    if let Err(why) = signature.verify(&endpoint.key, &body) {
        return endpoint.reject_unsigned(why);
    }
    if let Some(caller) = parts.extensions.get::<Caller>() {
        caller.prove();
    }
    let Ok(_permit) = endpoint.requests.try_acquire() else { return retry_later() };
    endpoint.host.proved();
    let Some((kind, payload)) = parse_body(&parts.headers, &body) else {
        return if is_ssl_check(&body) {
            StatusCode::OK.into_response()
        } else {
            do_not_retry(StatusCode::BAD_REQUEST)
        };
    };
    if payload["type"] == "url_verification" {
        let challenge = payload["challenge"].as_str().unwrap_or_default().to_owned();
        return ([(CONTENT_TYPE, "text/plain")], challenge).into_response();
    }
    let (response, acknowledged) = oneshot::channel();
    let accepted = async {
        endpoint.queues.push(Delivery { kind, payload, ack: Ack::Request(response) }).await
            && acknowledged.await.is_ok()
    };
    match timeout(ACK_TIMEOUT, accepted).await {
        Ok(true) => StatusCode::OK.into_response(),
        // The host does not have the event yet: Slack repeats it, and the event id identifies the change.
        Ok(false) | Err(_) => retry_later(),
    }
}

/// Asks Slack to repeat the request on a new connection, because this one may belong to a link that has ended.
fn retry_later() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(CONNECTION, "close")]).into_response()
}

/// Tells Slack not to repeat the request.
fn do_not_retry(status: StatusCode) -> Response {
    (status, [("x-slack-no-retry", "1")]).into_response()
}

/// Returns whether Slack only checks the certificate of a slash command's address.
fn is_ssl_check(body: &[u8]) -> bool {
    body.split(|byte| *byte == b'&').any(|field| field == b"ssl_check=1")
}

/// Parses a body: JSON is an event, a form is a slash command or contains a payload.
fn parse_body(headers: &HeaderMap, body: &Bytes) -> Option<(DeliveryKind, Value)> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if kind.starts_with("application/json") {
        return Some((DeliveryKind::Event, lenient::from_slice(body).ok()?));
    }
    let mut url = Url::parse("form:").expect("this is an address");
    url.set_query(Some(std::str::from_utf8(body).ok()?));
    let fields: Map<String, Value> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect();
    match fields.get("payload") {
        Some(payload) => Some((DeliveryKind::Button, lenient::from_slice(payload.as_str()?.as_bytes()).ok()?)),
        None => fields.contains_key("command").then_some((DeliveryKind::SlashCommand, Value::Object(fields))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn form_headers() -> HeaderMap {
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        HeaderMap::from_iter([(CONTENT_TYPE, form)])
    }

    #[test]
    fn a_slash_command_is_a_form() {
        let body = Bytes::from_static(b"token=x&channel_id=G8PSS9T3V&command=%2Fwebhook-collect&text=");
        let (kind, payload) = parse_body(&form_headers(), &body).unwrap();
        assert_eq!((kind, payload["command"].as_str()), (DeliveryKind::SlashCommand, Some("/webhook-collect")));
        assert_eq!(payload["channel_id"], "G8PSS9T3V");
    }

    #[test]
    fn a_check_of_the_certificate_is_known_and_a_command_is_none() {
        assert!(is_ssl_check(b"ssl_check=1&token=abc") && is_ssl_check(b"token=abc&ssl_check=1"));
        for other in [&b"command=%2Fssl&text=ssl_check=1x"[..], b"ssl_check=0", b"xssl_check=1", b""] {
            assert!(!is_ssl_check(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn a_form_with_a_payload_is_a_press_and_anything_else_nothing() {
        let form = form_headers();
        let (kind, payload) =
            parse_body(&form, &Bytes::from_static(b"payload=%7B%22type%22%3A%22block_actions%22%7D")).unwrap();
        assert_eq!((kind, payload["type"].as_str()), (DeliveryKind::Button, Some("block_actions")));
        for body in ["", "a=b", "payload=%7B", "payload", "\u{0}"] {
            assert!(parse_body(&form, &Bytes::from_static(body.as_bytes())).is_none(), "{body:?}");
        }
        assert!(parse_body(&HeaderMap::new(), &Bytes::from_static(b"{}")).is_none());
    }

    #[test]
    fn who_is_to_come_again_comes_on_a_new_connection() {
        let response = retry_later();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[CONNECTION], "close");
    }
}

//! Updates that the server pushes, for hosts that are reachable from outside.
//!
//! Anybody can send requests to an open port, so a request is accepted only with the secret that the server received;
//! without a secret there is no port. A request is answered after the host has the event; until then the server
//! repeats it. <https://core.telegram.org/bots/api#setwebhook>

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hermes_adapter_net::lenient;
use hermes_adapter_net::serve::{self, Bounds, Caller};
use hermes_adapter_sdk::prelude::*;
use ring::hmac;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::api::ApiError;
use crate::connection::Connection;
use crate::errors::connect_error;
use crate::objects::WebhookInfo;
use crate::updates::{ALLOWED_UPDATES, update_id};

/// The header of the secret.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// The maximum size of an update, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which the server is asked to repeat an update. Its processing continues.
const ACK_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of parallel connections of the server; updates of one chat are sequential.
const CONNECTIONS_MAX: usize = 40;
/// The limits for callers: the server's own connections and some more. The grace period
/// lets the last requests be acknowledged.
const BOUNDS: Bounds = Bounds {
    connections: 2 * CONNECTIONS_MAX,
    head: Duration::from_secs(30),
    lifetime: Duration::from_secs(600),
    grace: Duration::from_secs(30),
};
/// The maximum number of waiting updates; the server keeps the rest.
const WAITING_MAX: usize = 64;
/// The maximum number of remembered processed updates.
const PROCESSED_MAX: usize = 512;
/// The interval of checks whether the server still pushes updates here.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The webhook of one bot.
pub(crate) struct Webhook {
    url: String,
    secret: String,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
}

/// A waiting update, and the sender that reports its acceptance by the host.
type PendingUpdate = (Value, oneshot::Sender<()>);

/// The state of the request handler.
struct Endpoint {
    key: hmac::Key,
    secret: hmac::Tag,
    pending: mpsc::Sender<PendingUpdate>,
}

impl Webhook {
    /// Creates a webhook for updates that are sent to `url` with `secret` and arrive at `address`.
    pub(crate) fn new(url: String, secret: String, address: SocketAddr) -> Self {
        Self { url, secret, address, listener: Mutex::default() }
    }

    /// Binds the port, and then registers the webhook with the server.
    pub(crate) async fn open(&self, connection: &Connection) -> Result<(), ConnectError> {
        drop(self.listener().take());
        let listener = serve::bind("listen", &[self.address]).await?;
        let parameters = json!({
            "url": self.url,
            "secret_token": self.secret,
            "max_connections": CONNECTIONS_MAX,
            "allowed_updates": ALLOWED_UPDATES,
        });
        match connection.api.call::<Value>("setWebhook", &parameters).await {
            Ok(_) => {}
            Err(ApiError::Refused(refused)) if refused.code == 400 && is_invalid_address(&refused.description) => {
                return Err(ConnectError::fatal(
                    format!("Telegram rejected `webhook_url` ({})", refused.description),
                    "use a public https address with port 443, 80, 88 or 8443, or remove `webhook_url` to poll for updates",
                ));
            }
            Err(error) => return Err(connect_error(&error)),
        }
        *self.listener() = Some(listener);
        Ok(())
    }

    /// Emits received updates until the port is lost, or the server pushes them elsewhere.
    pub(crate) async fn receive(&self, connection: &Connection) -> Result<(), ConnectError> {
        let listener = self.listener().take().ok_or_else(|| ConnectError::retry("the instance is not connected"))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let secret = hmac::sign(&key, self.secret.as_bytes());
        let (pending, mut updates) = mpsc::channel(WAITING_MAX);
        let router = Router::new().fallback(handle).with_state(Arc::new(Endpoint { key, secret, pending }));
        tokio::select! {
            error = serve::serve(listener, router, BOUNDS) => Err(error),
            error = process_updates(connection, &mut updates) => Err(error),
            error = self.check_regularly(connection) => Err(error),
        }
    }

    /// Checks periodically whether updates still arrive here.
    async fn check_regularly(&self, connection: &Connection) -> ConnectError {
        let mut next = Instant::now();
        loop {
            next += CHECK_INTERVAL;
            tokio::time::sleep_until(next).await;
            let info: WebhookInfo = match connection.api.call("getWebhookInfo", &json!({})).await {
                Ok(info) => info,
                Err(error) => return connect_error(&error),
            };
            if info.url != self.url {
                return ConnectError::retry(
                    "another process removed the webhook of this bot; stop it, or use a separate bot for this instance",
                );
            }
            connection.host.proved();
            if let (Some(why), true) = (info.last_error_message, info.pending_update_count > 0) {
                tracing::warn!(
                    why,
                    waiting = info.pending_update_count,
                    "Telegram cannot deliver updates to `webhook_url`"
                );
            }
        }
    }

    fn listener(&self) -> std::sync::MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a person must fix a refusal. A host name that does not resolve is a temporary error.
fn is_invalid_address(description: &str) -> bool {
    let description = description.to_ascii_lowercase();
    let words =
        ["https url", "only on ports", "is reserved", "invalid webhook url", "unallowed characters", "url is too long"];
    words.iter().any(|words| description.contains(words))
}

/// Emits updates one after the other; ends if the host does not accept one.
async fn process_updates(connection: &Connection, updates: &mut mpsc::Receiver<PendingUpdate>) -> ConnectError {
    let me = match connection.me() {
        Ok(me) => me,
        Err(error) => return error,
    };
    let mut processed = ProcessedUpdates::default();
    while let Some((update, accepted)) = updates.recv().await {
        if !processed.contains(&update) {
            if let Err(error) = connection.process(std::slice::from_ref(&update), &me).await {
                return error;
            }
            processed.record(&update);
        }
        connection.host.proved();
        // A request that has ended gets no response; the server repeats the update, which is then known.
        let _ = accepted.send(());
    }
    ConnectError::retry("the port is not available any more")
}

/// The ids of the latest processed updates. The server repeats an update whose processing took long.
#[derive(Default)]
struct ProcessedUpdates(VecDeque<i64>);

impl ProcessedUpdates {
    fn contains(&self, update: &Value) -> bool {
        update_id(update).is_some_and(|id| self.0.contains(&id))
    }

    fn record(&mut self, update: &Value) {
        self.0.extend(update_id(update));
        while self.0.len() > PROCESSED_MAX {
            self.0.pop_front();
        }
    }
}

async fn handle(State(endpoint): State<Arc<Endpoint>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if !has_secret(&endpoint.key, &endpoint.secret, &parts.headers) {
        return (StatusCode::UNAUTHORIZED, "the secret is missing or wrong\n").into_response();
    }
    if let Some(caller) = parts.extensions.get::<Caller>() {
        caller.prove();
    }
    if parts.method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    let Ok(update) = lenient::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    let (accepted, acceptance) = oneshot::channel();
    if endpoint.pending.try_send((update, accepted)).is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match timeout(ACK_TIMEOUT, acceptance).await {
        Ok(Ok(())) => StatusCode::OK.into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Returns whether the request has the secret. Tags are compared, so the time does not depend on the secret.
fn has_secret(key: &hmac::Key, secret: &hmac::Tag, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(SECRET_HEADER).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => hmac::verify(key, value.as_bytes(), secret.as_ref()).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_counts_with_the_whole_secret_once_and_with_nothing_else() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"right-one");
        let secret = hmac::sign(&key, b"right-one");
        let is_accepted = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(SECRET_HEADER, HeaderValue::from_static(value));
            }
            has_secret(&key, &secret, &headers)
        };
        assert!(is_accepted(&["right-one"]));
        for wrong in [&[][..], &[""], &["right-on"], &["right-one2"], &["RIGHT-ONE"], &["right-one", "right-one"]] {
            assert!(!is_accepted(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_refusal_of_the_address_itself_needs_a_person() {
        for refused in [
            "Bad Request: bad webhook: An HTTPS URL must be provided for webhook",
            "Bad Request: bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443",
            "Bad Request: bad webhook: IP address 10.0.0.1 is reserved",
            "Bad Request: secret token contains unallowed characters",
        ] {
            assert!(is_invalid_address(refused), "{refused}");
        }
        let passes = "Bad Request: bad webhook: Failed to resolve host: Temporary failure in name resolution";
        assert!(!is_invalid_address(passes));
    }

    #[test]
    fn the_updates_handed_over_last_are_known() {
        let mut processed = ProcessedUpdates::default();
        for id in 0..600 {
            processed.record(&json!({ "update_id": id }));
        }
        processed.record(&json!({ "message": {} }));
        let contains = |id: i64| processed.contains(&json!({ "update_id": id }));
        assert_eq!((contains(599), contains(88), contains(87)), (true, true, false));
        assert!(!processed.contains(&json!({ "message": {} })), "what has no number is never taken for another");
    }
}

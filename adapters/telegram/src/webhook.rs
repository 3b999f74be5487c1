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

use crate::api::{ApiError, WebhookInfo};
use crate::connection::{ALLOWED_UPDATES, Connection, lost, update_id};

/// The header of the secret.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// The maximum length of the secret, in bytes. <https://core.telegram.org/bots/api#setwebhook>
const SECRET_BYTES_MAX: usize = 256;
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
const DONE_MAX: usize = 512;
/// The interval of checks whether the server still pushes updates here.
const PROVE_EVERY: Duration = Duration::from_secs(60);

/// The webhook of one bot.
pub struct Webhook {
    url: String,
    secret: String,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
}

/// A waiting update, and the sender that reports its acceptance by the host.
type Brought = (Value, oneshot::Sender<()>);

struct Door {
    key: hmac::Key,
    secret: hmac::Tag,
    waiting: mpsc::Sender<Brought>,
}

impl Webhook {
    /// Creates a webhook for updates that are sent to `url` with `secret` and arrive at `address`.
    pub fn new(url: String, secret: String, address: SocketAddr) -> Self {
        Self { url, secret, address, listener: Mutex::default() }
    }

    /// Binds the port, and then registers the webhook with the server.
    pub async fn open(&self, link: &Connection) -> Result<(), ConnectError> {
        drop(self.held().take());
        let listener = serve::bind("listen", &[self.address]).await?;
        let parameters = json!({
            "url": self.url,
            "secret_token": self.secret,
            "max_connections": CONNECTIONS_MAX,
            "allowed_updates": ALLOWED_UPDATES,
        });
        match link.api.call::<Value>("setWebhook", &parameters).await {
            Ok(_) => {}
            Err(ApiError::Refused(refused)) if refused.code == 400 && is_about_the_address(&refused.description) => {
                return Err(ConnectError::fatal(
                    format!("Telegram rejected `webhook_url` ({})", refused.description),
                    "use a public https address with port 443, 80, 88 or 8443, or remove `webhook_url` to poll for updates",
                ));
            }
            Err(error) => return Err(lost(&error)),
        }
        *self.held() = Some(listener);
        Ok(())
    }

    /// Emits received updates until the port is lost, or the server pushes them elsewhere.
    pub async fn receive(&self, link: &Connection) -> Result<(), ConnectError> {
        let listener = self.held().take().ok_or_else(|| ConnectError::retry("the instance is not connected"))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let secret = hmac::sign(&key, self.secret.as_bytes());
        let (waiting, mut brought) = mpsc::channel(WAITING_MAX);
        let router = Router::new().fallback(enter).with_state(Arc::new(Door { key, secret, waiting }));
        tokio::select! {
            error = serve::serve(listener, router, BOUNDS) => Err(error),
            error = hand_over(link, &mut brought) => Err(error),
            error = self.prove(link) => Err(error),
        }
    }

    /// Checks periodically whether updates still arrive here.
    async fn prove(&self, link: &Connection) -> ConnectError {
        let mut next = Instant::now();
        loop {
            next += PROVE_EVERY;
            tokio::time::sleep_until(next).await;
            let info: WebhookInfo = match link.api.call("getWebhookInfo", &json!({})).await {
                Ok(info) => info,
                Err(error) => return lost(&error),
            };
            if info.url != self.url {
                return ConnectError::retry(
                    "another process removed the webhook of this bot; stop it, or use a separate bot for this instance",
                );
            }
            link.host.proved();
            if let (Some(why), true) = (info.last_error_message, info.pending_update_count > 0) {
                tracing::warn!(
                    why,
                    waiting = info.pending_update_count,
                    "Telegram cannot deliver updates to `webhook_url`"
                );
            }
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the keys of a webhook; `None` without a webhook.
pub fn check(url: Option<&str>, secret: Option<&str>, listen: &str) -> Result<Option<SocketAddr>, String> {
    let Some(url) = url else {
        return match secret {
            Some(_) => {
                Err("`webhook_secret` is set, but `webhook_url` is not; set both, or neither to poll".to_owned())
            }
            None => Ok(None),
        };
    };
    if let Err(why) = hermes_adapter_net::client::base_url(url) {
        return Err(format!(
            "`webhook_url` cannot be used: {why}; use a URL like \"https://bot.example.org/telegram\""
        ));
    }
    let secret = secret.unwrap_or_default();
    let is_secret = (1..=SECRET_BYTES_MAX).contains(&secret.len())
        && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !is_secret {
        return Err(format!(
            "`webhook_secret` is missing or invalid, and it protects the webhook from forged messages; use 1 to {SECRET_BYTES_MAX} characters of A-Z, a-z, 0-9, _ and -, for example from `openssl rand -hex 32`"
        ));
    }
    listen
        .parse()
        .map(Some)
        .map_err(|_| format!("`listen` is {listen:?}; use an address and a port, like \"{}\"", crate::default_listen()))
}

/// Returns whether a person must fix a refusal. A host name that does not resolve is a temporary error.
fn is_about_the_address(refused: &str) -> bool {
    let said = refused.to_ascii_lowercase();
    let words =
        ["https url", "only on ports", "is reserved", "invalid webhook url", "unallowed characters", "url is too long"];
    words.iter().any(|words| said.contains(words))
}

/// Emits updates one after the other; ends if the host does not accept one.
async fn hand_over(link: &Connection, brought: &mut mpsc::Receiver<Brought>) -> ConnectError {
    let me = match link.me() {
        Ok(me) => me,
        Err(error) => return error,
    };
    let mut done = Done::default();
    while let Some((update, told)) = brought.recv().await {
        if !done.has(&update) {
            if let Err(error) = link.hand_over(std::slice::from_ref(&update), &me).await {
                return error;
            }
            done.note(&update);
        }
        link.host.proved();
        // A request that has ended gets no response; the server repeats the update, which is then known.
        let _ = told.send(());
    }
    ConnectError::retry("the port is not available any more")
}

/// The ids of the latest processed updates. The server repeats an update whose processing took long.
#[derive(Default)]
struct Done(VecDeque<i64>);

impl Done {
    fn has(&self, update: &Value) -> bool {
        update_id(update).is_some_and(|id| self.0.contains(&id))
    }

    fn note(&mut self, update: &Value) {
        self.0.extend(update_id(update));
        while self.0.len() > DONE_MAX {
            self.0.pop_front();
        }
    }
}

async fn enter(State(door): State<Arc<Door>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if !is_telegrams(&door.key, &door.secret, &parts.headers) {
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
    let (told, taken) = oneshot::channel();
    if door.waiting.try_send((update, told)).is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match timeout(ACK_TIMEOUT, taken).await {
        Ok(Ok(())) => StatusCode::OK.into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Returns whether the request has the secret. Tags are compared, so the time does not depend on the secret.
fn is_telegrams(key: &hmac::Key, secret: &hmac::Tag, headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(SECRET_HEADER).iter();
    match (said.next(), said.next()) {
        (Some(said), None) => hmac::verify(key, said.as_bytes(), secret.as_ref()).is_ok(),
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
        let judge = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(SECRET_HEADER, HeaderValue::from_static(value));
            }
            is_telegrams(&key, &secret, &headers)
        };
        assert!(judge(&["right-one"]));
        for wrong in [&[][..], &[""], &["right-on"], &["right-one2"], &["RIGHT-ONE"], &["right-one", "right-one"]] {
            assert!(!judge(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn there_is_no_webhook_without_a_secret_that_the_server_takes() {
        let listen = crate::default_listen();
        let url = Some("https://bot.example.org/telegram");
        assert_eq!(check(None, None, &listen), Ok(None));
        assert!(check(url, Some("a_B-9"), &listen).unwrap().is_some());
        for secret in [None, Some(""), Some("two words"), Some("ä"), Some("x".repeat(257).as_str())] {
            let sentence = check(url, secret, &listen).unwrap_err();
            assert!(sentence.starts_with("`webhook_secret` is missing"), "{sentence}");
            assert!(secret.is_none_or(|secret| secret.len() < 2 || !sentence.contains(secret)), "{sentence}");
        }
        assert!(check(None, Some("a"), &listen).unwrap_err().contains("`webhook_url` is not"));
        assert!(check(Some("bot.example.org"), Some("a"), &listen).unwrap_err().starts_with("`webhook_url` cannot"));
        assert!(check(url, Some("a"), "8443").unwrap_err().starts_with("`listen` is \"8443\""));
    }

    #[test]
    fn only_a_refusal_of_the_address_itself_needs_a_person() {
        for refused in [
            "Bad Request: bad webhook: An HTTPS URL must be provided for webhook",
            "Bad Request: bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443",
            "Bad Request: bad webhook: IP address 10.0.0.1 is reserved",
            "Bad Request: secret token contains unallowed characters",
        ] {
            assert!(is_about_the_address(refused), "{refused}");
        }
        let passes = "Bad Request: bad webhook: Failed to resolve host: Temporary failure in name resolution";
        assert!(!is_about_the_address(passes));
    }

    #[test]
    fn the_updates_handed_over_last_are_known() {
        let mut done = Done::default();
        for id in 0..600 {
            done.note(&json!({ "update_id": id }));
        }
        done.note(&json!({ "message": {} }));
        let has = |id: i64| done.has(&json!({ "update_id": id }));
        assert_eq!((has(599), has(88), has(87)), (true, true, false));
        assert!(!done.has(&json!({ "message": {} })), "what has no number is never taken for another");
    }
}

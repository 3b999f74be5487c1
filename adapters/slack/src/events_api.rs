//! The Events API over HTTP: requests signed by Slack, for apps without Socket Mode.
//!
//! On every path a request is accepted only with a valid signature of its body and a recent time, so a recorded
//! request cannot be replayed later. <https://docs.slack.dev/authentication/verifying-requests-from-slack>
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

use crate::account::{Account, lost};
use crate::channel_queues::{Ack, Delivery, Kind, Lanes};

/// The maximum difference between a request's time and the local time, in seconds, as recommended by Slack.
const AGE_S_MAX: u64 = 300;
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
/// The interval in which a quiet link proves itself.
const PROVE_EVERY: Duration = Duration::from_secs(60);

/// The HTTP endpoint for Slack's requests.
pub struct EventsApi {
    account: Arc<Account>,
    host: Host,
    address: SocketAddr,
    secret: String,
    listener: Mutex<Option<TcpListener>>,
}

struct Door {
    key: hmac::Key,
    host: Host,
    lanes: Lanes,
    requests: Semaphore,
    unsigned: Mutex<Unsigned>,
}

/// The count of unsigned requests.
#[derive(Default)]
struct Unsigned {
    logged_ms: i64,
    since: u64,
}

impl Door {
    /// Rejects an unsigned request. Anybody can send one, so not every one is logged.
    fn turn_away(&self, why: &'static str) -> Response {
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
    pub fn new(account: Arc<Account>, host: Host, address: SocketAddr, secret: String) -> Self {
        Self { account, host, address, secret, listener: Mutex::default() }
    }

    /// Binds the port.
    pub async fn connect(&self) -> Result<(), ConnectError> {
        let listener = serve::bind("listen", &[self.address]).await?;
        let address = listener.local_addr().map_err(|error| ConnectError::retry(error.to_string()))?;
        self.host.announce("Slack's requests", format!("http://{address}/slack/events"));
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        self.host.proved();
        Ok(())
    }

    /// Serves until the port is lost or the tokens are no longer accepted.
    pub async fn run(&self, lanes: &Lanes) -> Result<(), ConnectError> {
        let held = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = held.ok_or_else(|| ConnectError::retry("the instance is not connected"))?;
        let door = Arc::new(Door {
            key: hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes()),
            host: self.host.clone(),
            lanes: lanes.clone(),
            requests: Semaphore::new(REQUESTS_MAX),
            unsigned: Mutex::default(),
        });
        let router = Router::new()
            .route("/slack/events", post(enter))
            .route("/slack/commands", post(enter))
            .route("/slack/interactive", post(enter))
            .with_state(door);
        tokio::select! {
            error = serve::serve(listener, router, BOUNDS) => Err(error),
            error = self.prove() => Err(error),
        }
    }

    async fn prove(&self) -> ConnectError {
        loop {
            tokio::time::sleep(PROVE_EVERY).await;
            match self.account.prove().await {
                Ok(()) => self.host.proved(),
                Err(error) => return lost(&error, "bot_token"),
            }
        }
    }
}

async fn enter(State(door): State<Arc<Door>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let now_s = u64::try_from(door.host.now_ms() / 1000).unwrap_or_default();
    // A request without a plausible claim is not read. Only a signed request takes one of
    // the permits for Slack's requests.
    let claim = match Claim::of(&parts.headers, now_s) {
        Ok(claim) => claim,
        Err(why) => return door.turn_away(why),
    };
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return never(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    if let Err(why) = claim.holds(&door.key, &body) {
        return door.turn_away(why);
    }
    if let Some(caller) = parts.extensions.get::<Caller>() {
        caller.prove();
    }
    let Ok(_one) = door.requests.try_acquire() else { return later() };
    door.host.proved();
    let Some((kind, payload)) = read(&parts.headers, &body) else {
        return if is_ssl_check(&body) { StatusCode::OK.into_response() } else { never(StatusCode::BAD_REQUEST) };
    };
    if payload["type"] == "url_verification" {
        let challenge = payload["challenge"].as_str().unwrap_or_default().to_owned();
        return ([(CONTENT_TYPE, "text/plain")], challenge).into_response();
    }
    let (said, acknowledged) = oneshot::channel();
    let taken = async {
        door.lanes.put(Delivery { kind, payload, ack: Ack::Request(said) }).await && acknowledged.await.is_ok()
    };
    match timeout(ACK_TIMEOUT, taken).await {
        Ok(true) => StatusCode::OK.into_response(),
        // The host does not have the event yet: Slack repeats it, and the event id identifies the change.
        Ok(false) | Err(_) => later(),
    }
}

/// Asks Slack to repeat the request on a new connection, because this one may belong to a link that has ended.
fn later() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(CONNECTION, "close")]).into_response()
}

/// Tells Slack not to repeat the request.
fn never(status: StatusCode) -> Response {
    (status, [("x-slack-no-retry", "1")]).into_response()
}

/// The signature and the time in a request's headers, not verified yet.
struct Claim<'h> {
    time: &'h str,
    tag: Vec<u8>,
}

impl<'h> Claim<'h> {
    /// Returns the claim of a request whose time is recent.
    fn of(headers: &'h HeaderMap, now_s: u64) -> Result<Self, &'static str> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let time = header("x-slack-request-timestamp").ok_or("the request has no timestamp")?;
        let signature = header("x-slack-signature").ok_or("the request has no signature")?;
        let at_s: u64 = time.parse().map_err(|_| "the timestamp of the request is invalid")?;
        if at_s.abs_diff(now_s) > AGE_S_MAX {
            return Err("the request is too old, or the clock of this machine is wrong");
        }
        let tag = signature.strip_prefix("v0=").and_then(unhex).ok_or("the signature has an invalid format")?;
        Ok(Self { time, tag })
    }

    /// Verifies that Slack signed this body.
    fn holds(&self, key: &hmac::Key, body: &[u8]) -> Result<(), &'static str> {
        let signed = [b"v0:", self.time.as_bytes(), b":", body].concat();
        hmac::verify(key, &signed, &self.tag).map_err(|_| "the signature does not match `signing_secret`")
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

/// Returns whether Slack only checks the certificate of a slash command's address.
fn is_ssl_check(body: &[u8]) -> bool {
    body.split(|byte| *byte == b'&').any(|field| field == b"ssl_check=1")
}

/// Parses a body: JSON is an event, a form is a slash command or contains a payload.
fn read(headers: &HeaderMap, body: &Bytes) -> Option<(Kind, Value)> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if kind.starts_with("application/json") {
        return Some((Kind::Event, lenient::from_slice(body).ok()?));
    }
    let mut url = Url::parse("form:").expect("this is an address");
    url.set_query(Some(std::str::from_utf8(body).ok()?));
    let fields: Map<String, Value> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect();
    match fields.get("payload") {
        Some(payload) => Some((Kind::Interactive, lenient::from_slice(payload.as_str()?.as_bytes()).ok()?)),
        None => fields.contains_key("command").then_some((Kind::Slash, Value::Object(fields))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The example of <https://docs.slack.dev/authentication/verifying-requests-from-slack>.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIME: &str = "1531420618";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    fn headers(time: &'static str, signature: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-slack-request-timestamp", HeaderValue::from_static(time));
        headers.insert("x-slack-signature", HeaderValue::from_static(signature));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers
    }

    fn is_signed(key: &hmac::Key, headers: &HeaderMap, body: &[u8], now_s: u64) -> Result<(), &'static str> {
        Claim::of(headers, now_s)?.holds(key, body)
    }

    fn key() -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes())
    }

    #[test]
    fn a_check_of_the_certificate_is_known_and_a_command_is_none() {
        assert!(is_ssl_check(b"ssl_check=1&token=abc") && is_ssl_check(b"token=abc&ssl_check=1"));
        for other in [&b"command=%2Fssl&text=ssl_check=1x"[..], b"ssl_check=0", b"xssl_check=1", b""] {
            assert!(!is_ssl_check(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn slacks_own_example_is_signed_and_read() {
        let headers = headers(TIME, SIGNATURE);
        assert_eq!(is_signed(&key(), &headers, BODY.as_bytes(), 1_531_420_618 + AGE_S_MAX), Ok(()));
        let (kind, payload) = read(&headers, &Bytes::from_static(BODY.as_bytes())).unwrap();
        assert_eq!((kind, payload["command"].as_str()), (Kind::Slash, Some("/webhook-collect")));
        assert_eq!(payload["channel_id"], "G8PSS9T3V");
    }

    #[test]
    fn another_body_an_old_time_and_no_signature_are_refused() {
        let now_s = 1_531_420_618;
        let (good, body) = (headers(TIME, SIGNATURE), BODY.as_bytes());
        assert!(is_signed(&key(), &good, b"token=else", now_s).is_err());
        assert!(is_signed(&key(), &good, body, now_s + AGE_S_MAX + 1).is_err());
        assert!(is_signed(&key(), &good, body, now_s - AGE_S_MAX - 1).is_err());
        assert!(is_signed(&hmac::Key::new(hmac::HMAC_SHA256, b"other"), &good, body, now_s).is_err());
        for (time, signature) in [
            ("1531420619", SIGNATURE),
            ("soon", SIGNATURE),
            (TIME, "v0=a2"),
            (TIME, "v1=a2"),
            (TIME, "v0=zz"),
            (TIME, "v0=é"),
        ] {
            assert!(is_signed(&key(), &headers(time, "v0=00"), body, now_s).is_err());
            let mut bad = headers(time, "v0=00");
            bad.insert("x-slack-signature", HeaderValue::from_bytes(signature.as_bytes()).unwrap());
            assert!(is_signed(&key(), &bad, body, now_s).is_err(), "{time} {signature}");
        }
        assert!(is_signed(&key(), &HeaderMap::new(), body, now_s).is_err());
    }

    #[test]
    fn a_form_with_a_payload_is_a_press_and_anything_else_nothing() {
        let form = headers(TIME, SIGNATURE);
        let (kind, payload) =
            read(&form, &Bytes::from_static(b"payload=%7B%22type%22%3A%22block_actions%22%7D")).unwrap();
        assert_eq!((kind, payload["type"].as_str()), (Kind::Interactive, Some("block_actions")));
        for body in ["", "a=b", "payload=%7B", "payload", "\u{0}"] {
            assert!(read(&form, &Bytes::from_static(body.as_bytes())).is_none(), "{body:?}");
        }
        assert!(read(&HeaderMap::new(), &Bytes::from_static(b"{}")).is_none());
    }

    #[test]
    fn who_is_to_come_again_comes_on_a_new_connection() {
        let response = later();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[CONNECTION], "close");
    }
}

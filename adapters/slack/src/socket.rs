//! Socket Mode: several websockets, each renewed before it ends.
//!
//! Slack closes every socket after some hours with an announcement. A new socket is opened then, while the old one is
//! still read and acknowledged. Slack delivers to any of them.
//! <https://docs.slack.dev/apis/events-api/using-socket-mode> A repeated delivery carries `retry_attempt` and
//! `retry_reason`, which the adapter ignores, because the event id identifies the change.
//! <https://docs.slack.dev/tools/python-slack-sdk/reference/socket_mode/request.html>

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_net::ClientOptions;
use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::client::ClientError;
use hermes_adapter_net::lenient;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::ws::{Received, Socket, WsClient, ws_url};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::account::{Account, lost};
use crate::api::Opened;
use crate::channel_queues::{Ack, Delivery, Kind, Lanes};

/// The maximum size of a message, in bytes, which equals that of an Events API request.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// The time in which a new socket must send `hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// The time for which an old socket is read after its replacement is open.
const RETIRED_MAX: Duration = Duration::from_secs(30);
/// The lifetime below which a socket counts as unsteady. After two unsteady sockets in a row the renewals back
/// off, because addresses for new sockets are rate limited.
/// <https://docs.slack.dev/reference/methods/apps.connections.open>
const STEADY_AFTER: Duration = Duration::from_secs(5);
/// The maximum number of waiting acknowledgements per socket.
const ACKS_MAX: usize = 64;
/// The number of unanswered pings after which a socket is closed.
const SILENT_PINGS: u32 = 3;

/// The sockets of one app.
pub struct SocketMode {
    account: Arc<Account>,
    host: Host,
    client: WsClient,
    token: String,
    /// The server for sockets instead of the one that Slack names.
    gateway: Option<Url>,
    connections: usize,
    ping: Duration,
    alive: AtomicUsize,
    first: Mutex<Option<Link>>,
}

/// The backoff between renewed sockets.
struct Pace {
    backoff: Backoff,
    was_steady: bool,
}

impl Pace {
    fn new() -> Self {
        Self { backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(60)), was_steady: true }
    }

    /// Returns the wait before the next socket, after one that lived for `lived`.
    fn after(&mut self, lived: Duration) -> Duration {
        let is_steady = lived >= STEADY_AFTER;
        if is_steady {
            self.backoff.reset();
        }
        let was_steady = std::mem::replace(&mut self.was_steady, is_steady);
        if is_steady || was_steady { Duration::ZERO } else { self.backoff.next_delay() }
    }
}

/// The next event of a socket.
enum Step {
    Text(String),
    Ack(String),
    Alive,
    Ping,
    Ended(String),
    /// A queue accepted a delivery; `false`: the queues are closed.
    Put(bool),
}

/// One socket, and the acknowledgements to send on it.
struct Link {
    socket: Socket,
    acks: mpsc::Receiver<String>,
    to_ack: mpsc::Sender<String>,
    heard: Instant,
    ping_at: Instant,
    ping: Duration,
}

impl SocketMode {
    /// Creates the sockets of the app with this token, without opening one.
    pub fn new(
        account: Arc<Account>,
        host: Host,
        token: String,
        gateway: Option<&str>,
        connections: usize,
        ping: Duration,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            account,
            host,
            client: WsClient::new(options)?,
            token,
            gateway: gateway.map(ws_url).transpose()?,
            connections,
            ping,
            alive: AtomicUsize::new(0),
            first: Mutex::default(),
        })
    }

    /// Opens the first socket.
    pub async fn connect(&self) -> Result<(), ConnectError> {
        let link = self.open().await?;
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        self.host.proved();
        Ok(())
    }

    /// Reads all sockets until none is left.
    pub async fn run(&self, lanes: &Lanes) -> Result<(), ConnectError> {
        self.alive.store(0, Ordering::SeqCst);
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let slots = (0..self.connections).scan(first, |first, n| Some(self.slot(n, first.take(), lanes)));
        let slots: Vec<_> = slots.map(Box::pin).collect();
        futures_util::future::select_all(slots).await.0
    }

    /// Keeps one socket open. Ends if it cannot and no other socket is open.
    async fn slot(&self, n: usize, mut first: Option<Link>, lanes: &Lanes) -> Result<(), ConnectError> {
        let mut pace = Pace::new();
        loop {
            let opened = match first.take() {
                Some(link) => Ok(link),
                None => self.open().await,
            };
            let error = match opened {
                Ok(link) => {
                    self.alive.fetch_add(1, Ordering::SeqCst);
                    let error = self.keep(link, lanes, &mut pace).await;
                    self.alive.fetch_sub(1, Ordering::SeqCst);
                    error
                }
                Err(error) => error,
            };
            if matches!(error, ConnectError::Fatal { .. }) || self.alive.load(Ordering::SeqCst) == 0 {
                return Err(error);
            }
            tracing::info!(socket = n, %error, "socket lost; the others continue");
            tokio::time::sleep(pace.backoff.next_delay().max(told(&error))).await;
        }
    }

    /// Reads a socket and its replacements; returns the reason if there is no replacement.
    async fn keep(&self, mut link: Link, lanes: &Lanes, pace: &mut Pace) -> ConnectError {
        let mut old: Option<Link> = None;
        loop {
            let since = Instant::now();
            let read = match old.take() {
                Some(old) => self.read_both(&mut link, old, lanes).await,
                None => self.read(&mut link, lanes).await,
            };
            let wait = pace.after(since.elapsed());
            if let Err(error) = read {
                return error;
            }
            let mut ending = link;
            let opening = async {
                tokio::time::sleep(wait).await;
                self.open().await
            };
            tokio::pin!(opening);
            let opened = tokio::select! {
                opened = &mut opening => opened,
                // The old socket ended before the new one was open.
                _ = self.read_out(&mut ending, lanes) => opening.await,
            };
            link = match opened {
                Ok(link) => link,
                Err(error) => return error,
            };
            tracing::debug!("socket renewed");
            old = Some(ending);
        }
    }

    /// Reads a socket until Slack requests a new one, and in parallel the old socket until it ends.
    async fn read_both(&self, link: &mut Link, mut old: Link, lanes: &Lanes) -> Result<(), ConnectError> {
        let read = self.read(link, lanes);
        tokio::pin!(read);
        tokio::select! {
            end = &mut read => return end,
            _ = timeout(RETIRED_MAX, self.read_out(&mut old, lanes)) => {}
        }
        if let Err(error) = old.socket.close(1000, "renewed").await {
            // Slack has closed it already.
            tracing::debug!(%error, "old socket was already closed");
        }
        read.await
    }

    /// Reads a socket until Slack requests a new one.
    async fn read(&self, link: &mut Link, lanes: &Lanes) -> Result<(), ConnectError> {
        loop {
            match link.step().await {
                Step::Ended(why) => return Err(ConnectError::retry(why)),
                Step::Text(text) => {
                    self.host.proved();
                    if self.handle(&text, link, lanes).await? {
                        return Ok(());
                    }
                }
                step => self.serve(link, step).await,
            }
        }
    }

    /// Reads an old socket until it ends; returns the reason.
    async fn read_out(&self, link: &mut Link, lanes: &Lanes) -> String {
        loop {
            match link.step().await {
                Step::Ended(why) => return why,
                Step::Text(text) => {
                    if let Err(error) = self.handle(&text, link, lanes).await {
                        return error.to_string();
                    }
                }
                step => self.serve(link, step).await,
            }
        }
    }

    async fn serve(&self, link: &mut Link, step: Step) {
        let written = match step {
            Step::Alive => {
                self.host.proved();
                return;
            }
            Step::Ack(envelope) => link.socket.send(json!({ "envelope_id": envelope }).to_string()).await,
            Step::Ping => link.socket.ping().await,
            Step::Text(_) | Step::Ended(_) | Step::Put(_) => return,
        };
        // The next step detects a broken socket; Slack repeats deliveries without acknowledgement.
        if let Err(error) = written {
            tracing::debug!(%error, "socket cannot be written to");
        }
    }

    /// Handles one message; returns `true` if Slack requests a new socket.
    async fn handle(&self, text: &str, link: &mut Link, lanes: &Lanes) -> Result<bool, ConnectError> {
        let message: Value = match lenient::from_slice(text.as_bytes()) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, "message of the socket cannot be parsed");
                return Ok(false);
            }
        };
        let kind = match message["type"].as_str().unwrap_or_default() {
            "events_api" => Kind::Event,
            "slash_commands" => Kind::Slash,
            "interactive" => Kind::Interactive,
            "disconnect" => return disconnect(message["reason"].as_str().unwrap_or_default()),
            _ => return Ok(false),
        };
        let Some(envelope) = message["envelope_id"].as_str() else { return Ok(false) };
        let ack = Ack::Socket(link.to_ack.clone(), envelope.to_owned());
        let delivery = Delivery { kind, payload: message["payload"].clone(), ack };
        match self.put(delivery, link, lanes).await {
            true => Ok(false),
            false => Err(ConnectError::retry("the instance is disconnected")),
        }
    }

    /// Appends a delivery to its queue. While the queues are full the socket is not read, but acknowledgements are
    /// still sent, because the queues may wait for them.
    async fn put(&self, delivery: Delivery, link: &mut Link, lanes: &Lanes) -> bool {
        let mut put = pin!(lanes.put(delivery));
        loop {
            match meanwhile(put.as_mut(), &mut link.acks, link.ping_at).await {
                Step::Put(taken) => {
                    // The time in which the socket was not read does not count as silence.
                    link.heard = Instant::now();
                    return taken;
                }
                Step::Ping => {
                    link.ping_at = Instant::now() + link.ping;
                    self.serve(link, Step::Ping).await;
                }
                step => self.serve(link, step).await,
            }
        }
    }

    /// Requests an address, connects to it, and waits for the greeting.
    async fn open(&self) -> Result<Link, ConnectError> {
        let opened: Opened = self
            .account
            .api
            .call(&self.token, "apps.connections.open", &[])
            .await
            .map_err(|error| lost(&error, "app_token"))?;
        let url = address(&opened.url, self.gateway.as_ref())
            .map_err(|why| ConnectError::retry(format!("the address of the socket is invalid: {why}")))?;
        let mut socket = self
            .client
            .connect(url, MESSAGE_BYTES_MAX)
            .await
            .map_err(|error| ConnectError::retry(format!("the socket: {error}")))?;
        match timeout(HELLO_TIMEOUT, socket.next()).await {
            Ok(Ok(Received::Text(text))) if is_hello(&text) => Ok(Link::new(socket, self.ping)),
            Ok(Ok(Received::Text(text))) => {
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                disconnect(message["reason"].as_str().unwrap_or_default())?;
                Err(ConnectError::retry("the socket sent no hello first"))
            }
            Ok(Ok(_)) => Err(ConnectError::retry("the socket was closed immediately")),
            Ok(Err(error)) => Err(ConnectError::retry(format!("the socket: {error}"))),
            Err(_) => Err(ConnectError::retry("the socket sent no hello in time")),
        }
    }
}

impl Link {
    fn new(socket: Socket, ping: Duration) -> Self {
        let (to_ack, acks) = mpsc::channel(ACKS_MAX);
        let now = Instant::now();
        Self { socket, acks, to_ack, heard: now, ping_at: now + ping, ping }
    }

    /// Returns the next event. Cancel safe.
    async fn step(&mut self) -> Step {
        let silent_at = self.heard + self.ping * SILENT_PINGS;
        let step = tokio::select! {
            biased;
            Some(envelope) = self.acks.recv() => return Step::Ack(envelope),
            heard = self.socket.heard() => match heard {
                Ok(Some(Received::Text(text))) => Step::Text(text),
                Ok(Some(Received::Closed(closed))) => Step::Ended(format!("Slack closed the socket ({:?})", closed.code)),
                Ok(_) => Step::Alive,
                Err(error) => Step::Ended(format!("the socket: {error}")),
            },
            () = sleep_until(self.ping_at) => {
                self.ping_at = Instant::now() + self.ping;
                return Step::Ping;
            }
            () = sleep_until(silent_at) => return Step::Ended("the socket is silent".to_owned()),
        };
        self.heard = Instant::now();
        step
    }
}

/// Returns the next duty on a socket while a delivery waits for its queue.
async fn meanwhile(
    put: Pin<&mut impl Future<Output = bool>>,
    acks: &mut mpsc::Receiver<String>,
    ping_at: Instant,
) -> Step {
    tokio::select! {
        biased;
        Some(envelope) = acks.recv() => Step::Ack(envelope),
        taken = put => Step::Put(taken),
        () = sleep_until(ping_at) => Step::Ping,
    }
}

/// Returns Slack's address, at the server of `gateway_url` if it is set. The query contains the ticket.
fn address(said: &str, gateway: Option<&Url>) -> Result<Url, String> {
    let (before, query) = said.split_once('?').map_or((said, None), |(before, query)| (before, Some(query)));
    let mut url = ws_url(before).map_err(|error| error.to_string())?;
    let slash = if before.ends_with('/') && !url.path().ends_with('/') { "/" } else { "" };
    let path = format!("{}{slash}", url.path());
    if let Some(gateway) = gateway {
        url = gateway.clone();
    }
    url.set_path(&path);
    url.set_query(query);
    Ok(url)
}

/// Returns the wait that an error requests.
fn told(error: &ConnectError) -> Duration {
    match error {
        ConnectError::Retry { after_ms: Some(wait), .. } => Duration::from_millis(*wait),
        _ => Duration::ZERO,
    }
}

fn is_hello(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|message| message["type"] == "hello")
}

/// Returns the consequence of a `disconnect` message; `true` for a new socket. `warning` comes some seconds before the
/// end, and `refresh_requested` at the end; `link_disabled` means that Socket Mode was switched off.
/// `too_many_websockets` is known from Slack's own libraries only.
/// <https://docs.slack.dev/apis/events-api/using-socket-mode>, <https://github.com/slackapi/node-slack-sdk/pull/1762>
fn disconnect(reason: &str) -> Result<bool, ConnectError> {
    match reason {
        "link_disabled" => Err(ConnectError::fatal(
            "Socket Mode is disabled in the app",
            "enable it again under \"Socket Mode\" at https://api.slack.com/apps",
        )),
        // Ten sockets are allowed, including those of other processes with this token.
        "too_many_websockets" => Err(ConnectError::retry_after_ms(
            "the app has too many open sockets; stop other users of its `app_token`, or lower `connections`",
            30_000,
        )),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_farewell_is_a_new_socket_but_where_a_person_has_to_act() {
        for reason in ["warning", "refresh_requested", "", "something new"] {
            assert_eq!(disconnect(reason), Ok(true), "{reason}");
        }
        assert!(matches!(disconnect("link_disabled"), Err(ConnectError::Fatal { .. })));
        assert!(matches!(disconnect("too_many_websockets"), Err(ConnectError::Retry { after_ms: Some(_), .. })));
    }

    #[test]
    fn a_socket_is_opened_where_slack_says_or_at_the_gateway_with_slacks_ticket() {
        let said = "wss://wss-primary.slack.com/link/?ticket=a%2Fb&app_id=A1";
        assert_eq!(address(said, None).unwrap().as_str(), "https://wss-primary.slack.com/link/?ticket=a%2Fb&app_id=A1");
        let gateway = ws_url("ws://127.0.0.1:9").unwrap();
        assert_eq!(address(said, Some(&gateway)).unwrap().as_str(), "http://127.0.0.1:9/link/?ticket=a%2Fb&app_id=A1");
        assert_eq!(address("ws://a.b", None).unwrap().as_str(), "http://a.b/");
        assert!(address("link", None).is_err() && address("ftp://a.b/", None).is_err());
    }

    #[test]
    fn a_socket_is_renewed_at_once_and_one_that_ends_at_once_again_and_again_with_waits() {
        let mut pace = Pace::new();
        let hours = Duration::from_secs(3 * 3600);
        assert!([hours, hours, Duration::ZERO].map(|lived| pace.after(lived)).iter().all(Duration::is_zero));
        let waits: Vec<Duration> = (0..12).map(|_| pace.after(Duration::ZERO)).collect();
        assert!(waits.iter().all(|wait| !wait.is_zero()) && waits[11] > Duration::from_secs(10), "{waits:?}");
        assert!([hours, Duration::ZERO].map(|lived| pace.after(lived)).iter().all(Duration::is_zero));
    }

    #[test]
    fn only_a_hello_is_a_greeting() {
        assert!(is_hello(r#"{"type":"hello","num_connections":1}"#));
        assert!(!is_hello(r#"{"type":"disconnect"}"#) && !is_hello("hello"));
    }

    #[tokio::test]
    async fn while_a_lane_is_full_acknowledgements_are_told_and_pings_sent() {
        let (lane, mut taken) = mpsc::channel(1);
        let (to_ack, mut acks) = mpsc::channel(1);
        lane.send(()).await.unwrap();
        to_ack.send("e1".to_owned()).await.unwrap();
        let mut put = pin!(async { lane.send(()).await.is_ok() });
        let ping_at = Instant::now();
        let told = meanwhile(put.as_mut(), &mut acks, ping_at).await;
        assert!(matches!(told, Step::Ack(envelope) if envelope == "e1"));
        assert!(matches!(meanwhile(put.as_mut(), &mut acks, ping_at).await, Step::Ping));
        taken.recv().await.unwrap();
        assert!(matches!(meanwhile(put.as_mut(), &mut acks, ping_at).await, Step::Put(true)));
    }
}

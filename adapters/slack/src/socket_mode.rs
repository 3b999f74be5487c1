//! Socket Mode: several websockets, each renewed before it ends.
//!
//! Slack closes every socket after some hours with an announcement. A new socket is opened then, while the old one is
//! still read and acknowledged. Slack delivers to any of them.
//! <https://docs.slack.dev/apis/events-api/using-socket-mode> A repeated delivery carries `retry_attempt` and
//! `retry_reason`, which the adapter ignores, because the event id identifies the change.
//! <https://docs.slack.dev/tools/python-slack-sdk/reference/socket_mode/request.html>

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::lenient;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::ws::{WsClient, ws_url};
use hermes_adapter_net::{ClientError, ClientOptions};
use hermes_adapter_sdk::prelude::*;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::account::Account;
use crate::channel_queues::ChannelQueues;
use crate::delivery::{Ack, Delivery, DeliveryKind};
use crate::errors::connect_error;
use crate::objects::SocketUrl;
use crate::socket::{SlackSocket, SocketEvent, check_disconnect};

/// The time for which an old socket is read after its replacement is open.
const RETIRED_MAX: Duration = Duration::from_secs(30);
/// The lifetime below which a socket counts as unstable. After two unstable sockets in a row the renewals back
/// off, because addresses for new sockets are rate limited.
/// <https://docs.slack.dev/reference/methods/apps.connections.open>
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// The sockets of one app.
pub(crate) struct SocketMode {
    account: Arc<Account>,
    host: Host,
    client: WsClient,
    token: String,
    /// The server for sockets instead of the one that Slack names.
    gateway: Option<Url>,
    connections: usize,
    ping_interval: Duration,
    /// The number of open sockets.
    open: AtomicUsize,
    /// The socket that `connect` opened, until `run` takes it.
    first: Mutex<Option<SlackSocket>>,
}

/// The backoff between renewed sockets.
struct RenewalBackoff {
    backoff: Backoff,
    was_stable: bool,
}

impl RenewalBackoff {
    fn new() -> Self {
        Self { backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(60)), was_stable: true }
    }

    /// Returns the wait before the next socket, after one that was open for `uptime`.
    fn after(&mut self, uptime: Duration) -> Duration {
        let is_stable = uptime >= STABLE_AFTER;
        if is_stable {
            self.backoff.reset();
        }
        let was_stable = std::mem::replace(&mut self.was_stable, is_stable);
        if is_stable || was_stable { Duration::ZERO } else { self.backoff.next_delay() }
    }
}

impl SocketMode {
    /// Creates the sockets of the app with this token, without opening one.
    pub(crate) fn new(
        account: Arc<Account>,
        host: Host,
        token: String,
        gateway: Option<&str>,
        connections: usize,
        ping_interval: Duration,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            account,
            host,
            client: WsClient::new(options)?,
            token,
            gateway: gateway.map(ws_url).transpose()?,
            connections,
            ping_interval,
            open: AtomicUsize::new(0),
            first: Mutex::default(),
        })
    }

    /// Opens the first socket.
    pub(crate) async fn connect(&self) -> Result<(), ConnectError> {
        let socket = self.open_socket().await?;
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        self.host.proved();
        Ok(())
    }

    /// Reads all sockets until none is left.
    pub(crate) async fn run(&self, queues: &ChannelQueues) -> Result<(), ConnectError> {
        self.open.store(0, Ordering::SeqCst);
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let slots = (0..self.connections).scan(first, |first, n| Some(self.run_slot(n, first.take(), queues)));
        let slots: Vec<_> = slots.map(Box::pin).collect();
        futures_util::future::select_all(slots).await.0
    }

    /// Keeps one socket open. Ends if it cannot and no other socket is open.
    async fn run_slot(
        &self,
        n: usize,
        mut first: Option<SlackSocket>,
        queues: &ChannelQueues,
    ) -> Result<(), ConnectError> {
        let mut backoff = RenewalBackoff::new();
        loop {
            let opened = match first.take() {
                Some(socket) => Ok(socket),
                None => self.open_socket().await,
            };
            let error = match opened {
                Ok(socket) => {
                    self.open.fetch_add(1, Ordering::SeqCst);
                    let error = self.read_and_renew(socket, queues, &mut backoff).await;
                    self.open.fetch_sub(1, Ordering::SeqCst);
                    error
                }
                Err(error) => error,
            };
            if matches!(error, ConnectError::Fatal { .. }) || self.open.load(Ordering::SeqCst) == 0 {
                return Err(error);
            }
            tracing::info!(socket = n, %error, "socket lost; the others continue");
            sleep(backoff.backoff.next_delay().max(retry_after(&error))).await;
        }
    }

    /// Reads a socket and its replacements; returns the reason if there is no replacement.
    async fn read_and_renew(
        &self,
        mut socket: SlackSocket,
        queues: &ChannelQueues,
        backoff: &mut RenewalBackoff,
    ) -> ConnectError {
        let mut old: Option<SlackSocket> = None;
        loop {
            let since = Instant::now();
            let read = match old.take() {
                Some(old) => self.read_both(&mut socket, old, queues).await,
                None => self.read_until_renewal(&mut socket, queues).await,
            };
            let wait = backoff.after(since.elapsed());
            if let Err(error) = read {
                return error;
            }
            let mut ending = socket;
            let opening = async {
                sleep(wait).await;
                self.open_socket().await
            };
            tokio::pin!(opening);
            let opened = tokio::select! {
                opened = &mut opening => opened,
                // The old socket ended before the new one was open.
                _ = self.read_until_end(&mut ending, queues) => opening.await,
            };
            socket = match opened {
                Ok(socket) => socket,
                Err(error) => return error,
            };
            tracing::debug!("socket renewed");
            old = Some(ending);
        }
    }

    /// Reads a socket until Slack requests a new one, and in parallel the old socket until it ends.
    async fn read_both(
        &self,
        socket: &mut SlackSocket,
        mut old: SlackSocket,
        queues: &ChannelQueues,
    ) -> Result<(), ConnectError> {
        let read = self.read_until_renewal(socket, queues);
        tokio::pin!(read);
        tokio::select! {
            end = &mut read => return end,
            _ = timeout(RETIRED_MAX, self.read_until_end(&mut old, queues)) => {}
        }
        old.close().await;
        read.await
    }

    /// Reads a socket until Slack requests a new one.
    async fn read_until_renewal(&self, socket: &mut SlackSocket, queues: &ChannelQueues) -> Result<(), ConnectError> {
        loop {
            match socket.next_event().await {
                SocketEvent::Ended(why) => return Err(ConnectError::retry(why)),
                SocketEvent::Text(text) => {
                    self.host.proved();
                    if self.handle_message(&text, socket, queues).await? {
                        return Ok(());
                    }
                }
                event => self.handle_event(socket, event).await,
            }
        }
    }

    /// Reads an old socket until it ends; returns the reason.
    async fn read_until_end(&self, socket: &mut SlackSocket, queues: &ChannelQueues) -> String {
        loop {
            match socket.next_event().await {
                SocketEvent::Ended(why) => return why,
                SocketEvent::Text(text) => {
                    if let Err(error) = self.handle_message(&text, socket, queues).await {
                        return error.to_string();
                    }
                }
                event => self.handle_event(socket, event).await,
            }
        }
    }

    async fn handle_event(&self, socket: &mut SlackSocket, event: SocketEvent) {
        if matches!(event, SocketEvent::Alive) {
            self.host.proved();
        }
        socket.send_due(event).await;
    }

    /// Handles one message; returns `true` if Slack requests a new socket.
    async fn handle_message(
        &self,
        text: &str,
        socket: &mut SlackSocket,
        queues: &ChannelQueues,
    ) -> Result<bool, ConnectError> {
        let message: Value = match lenient::from_slice(text.as_bytes()) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, "message of the socket cannot be parsed");
                return Ok(false);
            }
        };
        let kind = match message["type"].as_str().unwrap_or_default() {
            "events_api" => DeliveryKind::Event,
            "slash_commands" => DeliveryKind::SlashCommand,
            "interactive" => DeliveryKind::Button,
            "disconnect" => {
                return check_disconnect(message["reason"].as_str().unwrap_or_default()).map(|()| true);
            }
            _ => return Ok(false),
        };
        let Some(envelope) = message["envelope_id"].as_str() else { return Ok(false) };
        let ack = Ack::Socket(socket.ack_sender(), envelope.to_owned());
        let delivery = Delivery { kind, payload: message["payload"].clone(), ack };
        match self.enqueue(delivery, socket, queues).await {
            true => Ok(false),
            false => Err(ConnectError::retry("the instance is disconnected")),
        }
    }

    /// Appends a delivery to its queue. While the queues are full the socket is not read, but acknowledgements are
    /// still sent, because the queues may wait for them.
    async fn enqueue(&self, delivery: Delivery, socket: &mut SlackSocket, queues: &ChannelQueues) -> bool {
        let mut push = pin!(queues.push(delivery));
        loop {
            match socket.next_event_while(push.as_mut()).await {
                SocketEvent::Queued(accepted) => return accepted,
                event => self.handle_event(socket, event).await,
            }
        }
    }

    /// Requests an address, and opens a socket there.
    async fn open_socket(&self) -> Result<SlackSocket, ConnectError> {
        let opened: SocketUrl = self
            .account
            .api
            .call(&self.token, "apps.connections.open", &[])
            .await
            .map_err(|error| connect_error(&error, "app_token"))?;
        let url = socket_url(&opened.url, self.gateway.as_ref())
            .map_err(|why| ConnectError::retry(format!("the address of the socket is invalid: {why}")))?;
        SlackSocket::connect(&self.client, url, self.ping_interval).await
    }
}

/// Returns Slack's address, at the server of `gateway_url` if it is set. The query contains the ticket.
fn socket_url(address: &str, gateway: Option<&Url>) -> Result<Url, String> {
    let (before, query) = address.split_once('?').map_or((address, None), |(before, query)| (before, Some(query)));
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
fn retry_after(error: &ConnectError) -> Duration {
    match error {
        ConnectError::Retry { after_ms: Some(wait), .. } => Duration::from_millis(*wait),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_opened_where_slack_says_or_at_the_gateway_with_slacks_ticket() {
        let url = |address: &str, gateway| socket_url(address, gateway).map(|url| url.to_string());
        let address = "wss://wss-primary.slack.com/link/?ticket=a%2Fb&app_id=A1";
        let at_slack = "https://wss-primary.slack.com/link/?ticket=a%2Fb&app_id=A1".to_owned();
        assert_eq!(url(address, None), Ok(at_slack));
        let gateway = ws_url("ws://127.0.0.1:9").unwrap();
        let at_gateway = "http://127.0.0.1:9/link/?ticket=a%2Fb&app_id=A1".to_owned();
        assert_eq!(url(address, Some(&gateway)), Ok(at_gateway));
        assert_eq!(url("ws://a.b", None), Ok("http://a.b/".to_owned()));
        assert!(url("link", None).is_err() && url("ftp://a.b/", None).is_err());
    }

    #[test]
    fn a_socket_is_renewed_at_once_and_one_that_ends_at_once_again_and_again_with_waits() {
        let mut backoff = RenewalBackoff::new();
        let hours = Duration::from_secs(3 * 3600);
        assert!([hours, hours, Duration::ZERO].map(|uptime| backoff.after(uptime)).iter().all(Duration::is_zero));
        let waits: Vec<Duration> = (0..12).map(|_| backoff.after(Duration::ZERO)).collect();
        assert!(waits.iter().all(|wait| !wait.is_zero()) && waits[11] > Duration::from_secs(10), "{waits:?}");
        assert!([hours, Duration::ZERO].map(|uptime| backoff.after(uptime)).iter().all(Duration::is_zero));
    }
}

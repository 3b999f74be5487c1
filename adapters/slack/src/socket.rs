//! One socket of Socket Mode, from its greeting to its end: messages, acknowledgements and pings.

use std::pin::Pin;
use std::time::Duration;

use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::ws::{Received, Socket, WsClient};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// The maximum size of a message, in bytes, which equals that of an Events API request.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// The time in which a new socket must send `hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum number of waiting acknowledgements per socket.
const ACKS_MAX: usize = 64;
/// The number of unanswered pings after which a socket is closed.
const SILENT_PINGS: u32 = 3;

/// The next event of a socket.
pub(crate) enum SocketEvent {
    /// A message arrived.
    Text(String),
    /// Something else arrived.
    Alive,
    /// This envelope must be acknowledged.
    AckDue(String),
    PingDue,
    /// The socket ended for this reason.
    Ended(String),
    /// A queue accepted a delivery; `false`: the queues are closed.
    Queued(bool),
}

/// One socket, and the acknowledgements to send on it.
pub(crate) struct SlackSocket {
    socket: Socket,
    acks: mpsc::Receiver<String>,
    ack_sender: mpsc::Sender<String>,
    last_received: Instant,
    next_ping: Instant,
    ping_interval: Duration,
}

impl SlackSocket {
    /// Connects to `url`, and waits for the greeting.
    pub(crate) async fn connect(client: &WsClient, url: Url, ping_interval: Duration) -> Result<Self, ConnectError> {
        let mut socket = client
            .connect(url, MESSAGE_BYTES_MAX)
            .await
            .map_err(|error| ConnectError::retry(format!("the socket: {error}")))?;
        match timeout(HELLO_TIMEOUT, socket.next()).await {
            Ok(Ok(Received::Text(text))) if is_hello(&text) => Ok(Self::new(socket, ping_interval)),
            Ok(Ok(Received::Text(text))) => {
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                check_disconnect(message["reason"].as_str().unwrap_or_default())?;
                Err(ConnectError::retry("the socket sent no hello first"))
            }
            Ok(Ok(_)) => Err(ConnectError::retry("the socket was closed immediately")),
            Ok(Err(error)) => Err(ConnectError::retry(format!("the socket: {error}"))),
            Err(_) => Err(ConnectError::retry("the socket sent no hello in time")),
        }
    }

    fn new(socket: Socket, ping_interval: Duration) -> Self {
        let (ack_sender, acks) = mpsc::channel(ACKS_MAX);
        let now = Instant::now();
        Self { socket, acks, ack_sender, last_received: now, next_ping: now + ping_interval, ping_interval }
    }

    /// Returns the sender of acknowledgements on this socket.
    pub(crate) fn ack_sender(&self) -> mpsc::Sender<String> {
        self.ack_sender.clone()
    }

    /// Returns the next event. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> SocketEvent {
        let silent_at = self.last_received + self.ping_interval * SILENT_PINGS;
        let event = tokio::select! {
            biased;
            Some(envelope) = self.acks.recv() => return SocketEvent::AckDue(envelope),
            received = self.socket.heard() => match received {
                Ok(Some(Received::Text(text))) => SocketEvent::Text(text),
                Ok(Some(Received::Closed(closed))) => {
                    SocketEvent::Ended(format!("Slack closed the socket ({:?})", closed.code))
                }
                Ok(_) => SocketEvent::Alive,
                Err(error) => SocketEvent::Ended(format!("the socket: {error}")),
            },
            () = sleep_until(self.next_ping) => {
                self.next_ping = Instant::now() + self.ping_interval;
                return SocketEvent::PingDue;
            }
            () = sleep_until(silent_at) => return SocketEvent::Ended("the socket is silent".to_owned()),
        };
        self.last_received = Instant::now();
        event
    }

    /// Returns the next event while `push` waits for a queue. Meanwhile the socket is not read.
    pub(crate) async fn next_event_while(&mut self, push: Pin<&mut impl Future<Output = bool>>) -> SocketEvent {
        let event = event_while(push, &mut self.acks, self.next_ping).await;
        match event {
            // The time in which the socket was not read does not count as silence.
            SocketEvent::Queued(_) => self.last_received = Instant::now(),
            SocketEvent::PingDue => self.next_ping = Instant::now() + self.ping_interval,
            _ => {}
        }
        event
    }

    /// Sends a due acknowledgement or ping.
    pub(crate) async fn send_due(&mut self, event: SocketEvent) {
        let sent = match event {
            SocketEvent::AckDue(envelope) => self.socket.send(json!({ "envelope_id": envelope }).to_string()).await,
            SocketEvent::PingDue => self.socket.ping().await,
            SocketEvent::Text(_) | SocketEvent::Alive | SocketEvent::Ended(_) | SocketEvent::Queued(_) => return,
        };
        // The next event reports a broken socket; Slack repeats deliveries without acknowledgement.
        if let Err(error) = sent {
            tracing::debug!(%error, "socket cannot be written to");
        }
    }

    /// Closes the socket after its replacement is open.
    pub(crate) async fn close(&mut self) {
        if let Err(error) = self.socket.close(1000, "renewed").await {
            // Slack has closed it already.
            tracing::debug!(%error, "old socket was already closed");
        }
    }
}

/// Returns the next event while a delivery waits for its queue.
async fn event_while(
    push: Pin<&mut impl Future<Output = bool>>,
    acks: &mut mpsc::Receiver<String>,
    next_ping: Instant,
) -> SocketEvent {
    tokio::select! {
        biased;
        Some(envelope) = acks.recv() => SocketEvent::AckDue(envelope),
        accepted = push => SocketEvent::Queued(accepted),
        () = sleep_until(next_ping) => SocketEvent::PingDue,
    }
}

fn is_hello(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|message| message["type"] == "hello")
}

/// Checks whether a `disconnect` message allows a new socket. `warning` comes some seconds before the end, and
/// `refresh_requested` at the end; `link_disabled` means that Socket Mode was switched off. `too_many_websockets` is
/// known from Slack's own libraries only.
/// <https://docs.slack.dev/apis/events-api/using-socket-mode>, <https://github.com/slackapi/node-slack-sdk/pull/1762>
pub(crate) fn check_disconnect(reason: &str) -> Result<(), ConnectError> {
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
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_farewell_is_a_new_socket_but_where_a_person_has_to_act() {
        for reason in ["warning", "refresh_requested", "", "something new"] {
            assert_eq!(check_disconnect(reason), Ok(()), "{reason}");
        }
        assert!(matches!(check_disconnect("link_disabled"), Err(ConnectError::Fatal { .. })));
        assert!(matches!(check_disconnect("too_many_websockets"), Err(ConnectError::Retry { after_ms: Some(_), .. })));
    }

    #[test]
    fn only_a_hello_is_a_greeting() {
        assert!(is_hello(r#"{"type":"hello","num_connections":1}"#));
        assert!(!is_hello(r#"{"type":"disconnect"}"#) && !is_hello("hello"));
    }

    #[tokio::test]
    async fn while_a_queue_is_full_acknowledgements_are_due_and_pings_sent() {
        let (queue, mut queued) = mpsc::channel(1);
        let (ack_sender, mut acks) = mpsc::channel(1);
        queue.send(()).await.unwrap();
        ack_sender.send("e1".to_owned()).await.unwrap();
        let mut push = pin!(async { queue.send(()).await.is_ok() });
        let next_ping = Instant::now();
        let first = event_while(push.as_mut(), &mut acks, next_ping).await;
        assert!(matches!(first, SocketEvent::AckDue(envelope) if envelope == "e1"));
        assert!(matches!(event_while(push.as_mut(), &mut acks, next_ping).await, SocketEvent::PingDue));
        queued.recv().await.unwrap();
        assert!(matches!(event_while(push.as_mut(), &mut acks, next_ping).await, SocketEvent::Queued(true)));
    }
}

//! Websockets over the HTTP client.
//!
//! The connection is the client's own, upgraded after the handshake: additional trusted
//! certificates, deadlines and proxies apply as for every request. Messages have a size
//! limit. All waits have a limit except the wait for the next message, which the caller
//! supervises by its protocol's own heartbeat.

mod tunnel;

use std::fmt;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Client, StatusCode, Url};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, error::CapacityError};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::client::{ClientError, ClientOptions, base_url, http_client_with};
use crate::error::sentence;
use crate::{NetError, proxy::Rules};

/// The time limit of the handshake, including the connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit for writing a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// The reason why a websocket could not be opened, or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WsError {
    /// The network failed before the websocket was open.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The server responded without a websocket.
    #[error("the server responded with status {0} instead of a websocket")]
    Status(u16),
    /// The server's handshake violates the protocol.
    #[error("the websocket handshake failed: {0}")]
    Handshake(&'static str),
    /// A message is longer than allowed.
    #[error("a message exceeds {bytes_max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        bytes_max: usize,
    },
    /// The deadline was exceeded.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The connection broke.
    #[error("the connection was lost: {0}")]
    Broken(String),
}

/// The close frame of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The code; `None` if the connection ended without one.
    pub code: Option<u16>,
    /// The reason given by the other side.
    pub reason: String,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// The end of the connection.
    Closed(Closed),
}

/// Parses a websocket's address: `ws`, `wss`, `http` or `https`, without a slash at the
/// end.
///
/// # Errors
///
/// The fault in the address, as in [`base_url`].
pub fn ws_url(text: &str) -> Result<Url, ClientError> {
    let text = text.trim();
    let as_http = match text.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        _ => text.to_owned(),
    };
    base_url(&as_http).map_err(|error| ClientError::Url(error.to_string().replace("http://", "ws://, wss://, http://")))
}

/// Builds a client for websockets: HTTP/1.1 only, because only it supports the upgrade.
///
/// # Errors
///
/// As [`http_client`](crate::http_client).
pub fn ws_client(options: &ClientOptions) -> Result<Client, ClientError> {
    let options = ClientOptions { total_timeout: None, ..options.clone() };
    http_client_with(&options, reqwest::ClientBuilder::http1_only)
}

/// A client for websockets that also tunnels `ws://` addresses through HTTP proxies.
///
/// A proxy that is reached over TLS (`https://`) forwards a `ws://` handshake as a plain request.
#[derive(Clone, Debug)]
pub struct WsClient {
    http: Client,
    rules: Rules,
    user_agent: String,
}

impl WsClient {
    /// Builds the client, as [`ws_client`] does.
    ///
    /// # Errors
    ///
    /// As [`http_client`](crate::http_client).
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let (rules, user_agent) = (Rules::new(&options.proxy)?, options.user_agent.clone());
        Ok(Self { http: ws_client(options)?, rules, user_agent })
    }

    /// Opens a websocket, as [`Socket::connect`] does.
    ///
    /// # Errors
    ///
    /// Says what the network, the proxy or the server did instead.
    pub async fn connect(&self, url: Url, bytes_max: usize) -> Result<Socket, WsError> {
        let proxy = self.rules.proxy_for(&url).filter(|proxy| url.scheme() == "http" && proxy.scheme() == "http");
        let Some(proxy) = proxy else { return Socket::connect(&self.http, url, bytes_max).await };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, self.tunnel(proxy, &url, bytes_max))
            .await
            .unwrap_or(Err(WsError::Deadline(HANDSHAKE_TIMEOUT)))
    }

    async fn tunnel(&self, proxy: &Url, url: &Url, bytes_max: usize) -> Result<Socket, WsError> {
        let wrong = |_| WsError::Handshake("the URL is invalid");
        let mut request = url.as_str().replacen("http", "ws", 1).into_client_request().map_err(wrong)?;
        let agent = HeaderValue::from_str(&self.user_agent);
        let agent = agent.map_err(|_| WsError::Handshake("the user agent is not a valid header value"))?;
        request.headers_mut().insert(header::USER_AGENT, agent);
        let connection: Box<dyn Connection> = Box::new(tunnel::open(proxy, url).await?);
        match client_async_with_config(request, connection, Some(bounded(bytes_max))).await {
            Ok((stream, _)) => Ok(Socket { stream, bytes_max }),
            Err(Error::Http(response)) => Err(WsError::Status(response.status().as_u16())),
            Err(Error::Protocol(_)) => Err(WsError::Handshake("the response is not a websocket handshake")),
            Err(error) => Err(WsError::Broken(sentence(&error))),
        }
    }
}

/// The connection under a websocket.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

fn bounded(bytes_max: usize) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(bytes_max)).max_frame_size(Some(bytes_max))
}

/// One open websocket.
pub struct Socket {
    stream: WebSocketStream<Box<dyn Connection>>,
    bytes_max: usize,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

impl Socket {
    /// Opens a websocket at `url` (as parsed by [`ws_url`]; a query may be added), whose messages have at
    /// most `bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// The failure of the network or the server.
    pub async fn connect(client: &Client, url: Url, bytes_max: usize) -> Result<Self, WsError> {
        tokio::time::timeout(HANDSHAKE_TIMEOUT, Self::shake_hands(client, url, bytes_max))
            .await
            .unwrap_or(Err(WsError::Deadline(HANDSHAKE_TIMEOUT)))
    }

    async fn shake_hands(client: &Client, url: Url, bytes_max: usize) -> Result<Self, WsError> {
        let key = generate_key();
        let response = client
            .get(url)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .send()
            .await
            .map_err(NetError::from)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(WsError::Status(response.status().as_u16()));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT).map(reqwest::header::HeaderValue::as_bytes);
        if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(WsError::Handshake("the server returned a wrong key"));
        }
        let connection: Box<dyn Connection> = Box::new(response.upgrade().await.map_err(NetError::from)?);
        let stream = WebSocketStream::from_raw_socket(connection, Role::Client, Some(bounded(bytes_max))).await;
        Ok(Self { stream, bytes_max })
    }

    /// Waits for the next message. Pings are answered. Cancel safe: no message is lost.
    ///
    /// # Errors
    ///
    /// The reason for the broken connection.
    pub async fn next(&mut self) -> Result<Received, WsError> {
        loop {
            if let Some(received) = self.heard().await? {
                return Ok(received);
            }
        }
    }

    /// Waits for the next sign of life: a message, or `None` for a ping or a pong, for protocols that use the
    /// websocket's own heartbeat. Pings are answered. Cancel safe: no message is lost.
    ///
    /// # Errors
    ///
    /// The reason for the broken connection.
    pub async fn heard(&mut self) -> Result<Option<Received>, WsError> {
        Ok(Some(match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Received::Text(text.as_str().to_owned()),
            Some(Ok(Message::Binary(bytes))) => Received::Binary(bytes.into()),
            Some(Ok(Message::Close(frame))) => Received::Closed(closed(frame)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(None),
            Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => Received::Closed(closed(None)),
            Some(Err(error)) => return Err(self.broken(&error)),
        }))
    }

    /// Sends a ping.
    ///
    /// # Errors
    ///
    /// The reason for the broken connection.
    pub async fn ping(&mut self) -> Result<(), WsError> {
        self.write(Message::Ping(Vec::new().into())).await
    }

    /// Sends a text.
    ///
    /// # Errors
    ///
    /// The reason for the broken connection.
    pub async fn send(&mut self, text: impl Into<String>) -> Result<(), WsError> {
        self.write(Message::text(text.into())).await
    }

    /// Closes the websocket with a code, without waiting for the other side's close frame.
    ///
    /// # Errors
    ///
    /// The reason for the broken connection.
    pub async fn close(&mut self, code: u16, reason: &'static str) -> Result<(), WsError> {
        self.write(Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))).await
    }

    async fn write(&mut self, message: Message) -> Result<(), WsError> {
        match tokio::time::timeout(WRITE_TIMEOUT, self.stream.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(WsError::Deadline(WRITE_TIMEOUT)),
        }
    }

    fn broken(&self, error: &Error) -> WsError {
        match error {
            Error::Capacity(CapacityError::MessageTooLong { .. }) => WsError::TooLarge { bytes_max: self.bytes_max },
            error => WsError::Broken(sentence(error)),
        }
    }
}

fn closed(frame: Option<CloseFrame>) -> Closed {
    match frame {
        Some(frame) => Closed { code: Some(frame.code.into()), reason: frame.reason.as_str().to_owned() },
        None => Closed { code: None, reason: String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_kinds_are_read_alike_and_errors_name_both() {
        assert_eq!(ws_url("wss://gateway.discord.gg/").unwrap().as_str(), "https://gateway.discord.gg/");
        assert_eq!(ws_url("ws://127.0.0.1:8070/gateway").unwrap().as_str(), "http://127.0.0.1:8070/gateway");
        assert_eq!(ws_url(" http://a.b ").unwrap().scheme(), "http");
        let sentence = ws_url("gateway.discord.gg").unwrap_err().to_string();
        assert!(sentence.contains("not a valid URL"), "{sentence}");
        let sentence = ws_url("ftp://a.b").unwrap_err().to_string();
        assert!(sentence.contains("ws://") && sentence.contains("https://"), "{sentence}");
    }
}

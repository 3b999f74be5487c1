//! Tests of the websocket with servers that answer, reject, close and flood.

#![cfg(feature = "ws")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use futures_util::{SinkExt, StreamExt};
use hermes_adapter_net::ws::{Closed, Received, Socket, WsClient, WsError, ws_client, ws_url};
use hermes_adapter_net::{ClientOptions, NetError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};

type Peer = WebSocketStream<tokio::net::TcpStream>;

/// Serves one websocket with `play` and connects to it.
async fn against<F: Future<Output = ()> + Send + 'static>(
    bytes_max: usize,
    play: impl FnOnce(Peer) -> F + Send + 'static,
) -> Socket {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        play(tokio_tungstenite::accept_async(stream).await.unwrap()).await;
    });
    connect(&format!("ws://{address}/gateway"), bytes_max).await.unwrap()
}

async fn connect(address: &str, bytes_max: usize) -> Result<Socket, WsError> {
    let mut options = ClientOptions::default();
    options.plain_http = true;
    Socket::connect(&ws_client(&options).unwrap(), ws_url(address).unwrap(), bytes_max).await
}

#[tokio::test]
async fn texts_go_both_ways_and_a_close_brings_its_code() {
    let mut socket = against(1024, |mut peer| async move {
        let said = peer.next().await.unwrap().unwrap();
        peer.send(said).await.unwrap();
        peer.send(Message::binary(vec![1, 2])).await.unwrap();
        peer.close(Some(CloseFrame { code: 4004.into(), reason: "no".into() })).await.unwrap();
    })
    .await;
    socket.send("hello").await.unwrap();
    assert_eq!(socket.next().await, Ok(Received::Text("hello".into())));
    assert_eq!(socket.next().await, Ok(Received::Binary(vec![1, 2])));
    assert_eq!(socket.next().await, Ok(Received::Closed(Closed { code: Some(4004), reason: "no".into() })));
}

#[tokio::test]
async fn a_websocket_goes_through_a_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).await.unwrap();
        stream.write_all(&[5, 0]).await.unwrap();
        // CONNECT to a name: gateway.invalid:80.
        let mut request = [0; 4 + 1 + 15 + 2];
        stream.read_exact(&mut request).await.unwrap();
        assert_eq!(&request[5..20], b"gateway.invalid");
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let mut peer = tokio_tungstenite::accept_async(stream).await.unwrap();
        peer.send(Message::text("hello")).await.unwrap();
    });
    let mut options = ClientOptions::default();
    options.plain_http = true;
    options.proxy.http = Some(format!("socks5h://{address}"));
    let url = ws_url("ws://gateway.invalid/").unwrap();
    let mut socket = Socket::connect(&ws_client(&options).unwrap(), url, 1024).await.unwrap();
    assert_eq!(socket.next().await, Ok(Received::Text("hello".into())));
}

/// An HTTP proxy for one connection: returns the head of its request, and answers with `status`. After a 200 it is the
/// server that was asked for.
async fn http_proxy(status: &'static str) -> (std::net::SocketAddr, tokio::sync::oneshot::Receiver<String>) {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let (seen, head) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let _ = seen.send(String::from_utf8(head).unwrap());
        stream.write_all(format!("HTTP/1.1 {status}\r\nvia: test\r\n\r\n").as_bytes()).await.unwrap();
        if status.starts_with("200") {
            let mut peer = tokio_tungstenite::accept_async(stream).await.unwrap();
            peer.send(Message::text("hello")).await.unwrap();
            peer.close(None).await.unwrap();
        }
    });
    (address, head)
}

fn through(proxy: String) -> WsClient {
    let mut options = ClientOptions::default();
    options.plain_http = true;
    options.proxy.http = Some(proxy);
    WsClient::new(&options).unwrap()
}

#[tokio::test]
async fn a_websocket_without_tls_asks_an_http_proxy_for_a_tunnel() {
    for (url, target) in [("ws://gateway.invalid/?v=10", "gateway.invalid:80"), ("ws://192.0.2.7:81", "192.0.2.7:81")] {
        let (address, head) = http_proxy("200 Connection established").await;
        let mut socket =
            through(format!("http://ada:s%3Acret@{address}")).connect(ws_url_with(url), 1024).await.unwrap();
        assert_eq!(socket.next().await, Ok(Received::Text("hello".into())));
        let head = head.await.unwrap();
        assert!(head.starts_with(&format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n")), "{head}");
        // ada:s:cret
        assert!(head.contains("proxy-authorization: Basic YWRhOnM6Y3JldA==\r\n"), "{head}");
    }
}

/// Reads an address and its query.
fn ws_url_with(text: &str) -> hermes_adapter_net::reqwest::Url {
    let (address, query) = text.split_once("/?").unwrap_or((text, ""));
    let mut url = ws_url(address).unwrap();
    url.set_query(Some(query).filter(|query| !query.is_empty()));
    url
}

#[tokio::test]
async fn a_proxy_that_opens_no_tunnel_is_named_without_its_credentials() {
    for (status, sentence) in [
        ("403 Forbidden", "refused to connect to the server"),
        ("407 Proxy Authentication Required", "rejected the credentials"),
    ] {
        let (address, _head) = http_proxy(status).await;
        let error =
            through(format!("http://ada:hunter2@{address}")).connect(ws_url("ws://a.invalid").unwrap(), 9).await;
        let Err(WsError::Net(NetError::NotSent { detail, .. })) = error else { panic!("{error:?}") };
        assert!(detail.starts_with(&format!("proxy {address} {sentence}")) && !detail.contains("hunter2"), "{detail}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = through(format!("http://ada:hunter2@{closed}")).connect(ws_url("ws://a.invalid").unwrap(), 9).await;
    let Err(WsError::Net(NetError::NotSent { detail, .. })) = error else { panic!("{error:?}") };
    assert_eq!(detail, format!("proxy {closed} refused the connection"));
}

#[tokio::test]
async fn our_own_close_code_arrives() {
    let (seen, code) = tokio::sync::oneshot::channel();
    let mut socket = against(1024, |mut peer| async move {
        if let Some(Ok(Message::Close(Some(frame)))) = peer.next().await {
            let _ = seen.send(u16::from(frame.code));
        }
    })
    .await;
    socket.close(4900, "silence").await.unwrap();
    assert_eq!(code.await, Ok(4900));
}

#[tokio::test]
async fn a_message_beyond_the_bound_is_refused() {
    let mut socket = against(100, |mut peer| async move {
        // The other side may disconnect before the whole message is written.
        let _ = peer.send(Message::text("x".repeat(101))).await;
    })
    .await;
    assert_eq!(socket.next().await, Err(WsError::TooLarge { bytes_max: 100 }));
}

#[tokio::test]
async fn a_server_without_websockets_and_one_that_is_away_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Closing a connection with an unread request resets it, which loses the response.
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
    });
    assert_eq!(connect(&format!("ws://{address}"), 100).await.unwrap_err(), WsError::Status(503));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = connect(&format!("ws://{closed}"), 100).await.unwrap_err();
    assert!(matches!(error, WsError::Net(NetError::NotSent { .. })), "{error:?}");
}

#[tokio::test]
async fn a_ping_is_answered_by_a_sign_of_life_that_is_no_message() {
    let mut socket = against(1024, |mut peer| async move {
        let asked = peer.next().await.unwrap().unwrap();
        assert!(matches!(asked, Message::Ping(_)), "{asked:?}");
        // Sends the pong that reading has queued, and a message after it.
        peer.flush().await.unwrap();
        peer.send(Message::text("after it")).await.unwrap();
        while peer.next().await.is_some_and(|message| message.is_ok()) {}
    })
    .await;
    socket.ping().await.unwrap();
    assert_eq!(socket.heard().await.unwrap(), None);
    assert_eq!(socket.next().await.unwrap(), Received::Text("after it".into()));
}

//! An HTTP listener with limits on all resources that a caller can use.
//!
//! Feature `serve`. Only a caller whose key the service has verified ([`Caller::prove`]) keeps its connection.
//! All other connections are short, and the oldest of them is closed when all connections are in use and another
//! caller connects. A public request such as `/health` never keeps a connection open.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::EXPECT;
use hermes_protocol::ConnectError;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::port;

mod linger;

use linger::{DrainingBody, StallGuard};

/// The pause after the system failed to accept a connection.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// The minimum interval between two log records about a full listener.
const FULL_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The limits for the callers of one port.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The maximum number of open connections; further ones wait to be accepted.
    pub connections: usize,
    /// The time limit for the head of a request, and for the idle time between two requests.
    pub head: Duration,
    /// The age from which a connection accepts no further request.
    pub lifetime: Duration,
    /// The time limit of the last request after that.
    pub grace: Duration,
}

/// The longest time for which a connection without a verified key accepts requests.
const UNPROVEN_LIFETIME: Duration = Duration::from_secs(60);

/// The address of the caller, in the extensions of every request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The caller of a request, in the extensions of every request.
#[derive(Clone, Debug)]
pub struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Records that the caller's key was verified: its connection is not closed to make room.
    pub fn prove(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Binds the port of the config key `key` at the first usable one of `addresses`. Errors
/// are those of [`port::refused`].
pub async fn bind(key: &str, addresses: &[SocketAddr]) -> Result<TcpListener, ConnectError> {
    let Some(first) = addresses.first() else {
        return Err(ConnectError::retry(format!("`{key}` currently has no address")));
    };
    TcpListener::bind(addresses).await.map_err(|error| port::refused(key, *first, &error))
}

/// Serves until it is dropped, which ends every connection.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds) -> ConnectError {
    let room = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = JoinSet::new();
    let mut quiet = UnprovenConnections::default();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // No file descriptors are left, or the client has disconnected: the next connection may succeed.
            Err(error) => {
                tracing::warn!(%error, "connection cannot be accepted");
                sleep(REFUSED_PAUSE).await;
                continue;
            }
        };
        if room.available_permits() == 0 {
            quiet.make_room();
        }
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return ConnectError::retry("the listener ended");
        };
        let caller = Caller(Arc::default());
        let (router, its) = (router.clone(), caller.clone());
        let ends = connections.spawn(async move {
            let _place = place;
            talk(stream, Peer(peer), router, bounds, its).await;
        });
        quiet.note(ends, caller);
    }
}

/// The connections without a verified key, the oldest first.
#[derive(Default)]
struct UnprovenConnections {
    connections: VecDeque<(AbortHandle, Caller)>,
    said: Option<Instant>,
}

impl UnprovenConnections {
    fn note(&mut self, ends: AbortHandle, caller: Caller) {
        self.connections.retain(|(ends, caller)| !ends.is_finished() && !caller.0.load(Ordering::Relaxed));
        self.connections.push_back((ends, caller));
    }

    /// Closes the oldest connection, if there is one.
    fn make_room(&mut self) {
        if self.said.is_none_or(|at| at.elapsed() >= FULL_LOG_INTERVAL) {
            self.said = Some(Instant::now());
            tracing::warn!(
                "connection limit of the port reached; closing the oldest connection without a verified key"
            );
        }
        while let Some((ends, caller)) = self.connections.pop_front() {
            if !ends.is_finished() && !caller.0.load(Ordering::Relaxed) {
                ends.abort();
                return;
            }
        }
    }
}

async fn talk(stream: TcpStream, peer: Peer, router: Router, bounds: Bounds, caller: Caller) {
    // A client that has disconnected is detected by a write; small chunks must not wait for each other.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        let waits = request.headers().contains_key(EXPECT);
        let mut request = request.map(|body| Body::new(DrainingBody::new(body, waits)));
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(bounds.head);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(StallGuard::new(stream)), service));
    let lifetime = async {
        let unproven = bounds.lifetime.min(UNPROVEN_LIFETIME);
        sleep(unproven).await;
        if caller.0.load(Ordering::Relaxed) {
            sleep(bounds.lifetime.saturating_sub(unproven)).await;
        }
    };
    tokio::select! {
        _ = connection.as_mut() => return,
        () = lifetime => connection.as_mut().graceful_shutdown(),
    }
    // The last request is answered, unless its caller does not read.
    let _ = timeout(bounds.grace, connection).await;
}

#[cfg(test)]
mod tests {
    use axum::Extension;
    use axum::http::StatusCode;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    async fn served(connections: usize, head: Duration) -> (SocketAddr, JoinSet<ConnectError>) {
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = bind("listen", &[any]).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/refused", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "too large") }))
            .route(
                "/known",
                get(|Extension(caller): Extension<Caller>| async move {
                    caller.prove();
                    "here"
                }),
            );
        let mut running = JoinSet::new();
        let bounds = Bounds { connections, head, lifetime: LONG, grace: LONG };
        running.spawn(serve(listener, router, bounds));
        (address, running)
    }

    /// Sends a request on a connection that stays open, and returns the status line.
    async fn ask(stream: &mut TcpStream) -> String {
        ask_for("/", stream).await
    }

    /// Sends a request as a caller with a verified key.
    async fn ask_as_known(stream: &mut TcpStream) {
        assert_eq!(ask_for("/known", stream).await, "HTTP/1.1 200 OK");
    }

    async fn ask_for(path: &str, stream: &mut TcpStream) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is open");
        let mut answer = Vec::new();
        while !answer.ends_with(b"here") {
            assert_ne!(stream.read_buf(&mut answer).await.expect("an answer"), 0, "it ended");
        }
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn who_says_nothing_makes_room_for_who_comes() {
        let (address, _running) = served(2, LONG).await;
        let mut silent = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let mut asks = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(&mut asks).await, "HTTP/1.1 200 OK");
        let ended = silent[0].read(&mut [0]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "the oldest went: {ended:?}");
        assert_eq!(ask(&mut silent[1]).await, "HTTP/1.1 200 OK", "the other one may still ask");
    }

    #[tokio::test]
    async fn hundreds_that_only_ask_after_health_keep_no_known_caller_out() {
        let (address, _running) = served(8, LONG).await;
        let mut strangers = Vec::new();
        for _ in 0..300 {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            ask(&mut stranger).await;
            strangers.push(stranger);
        }
        let mut known = TcpStream::connect(address).await.unwrap();
        ask_as_known(&mut known).await;
        for stranger in &mut strangers[..290] {
            let ended = stranger.read(&mut [0]).await;
            assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        }
        for _ in 0..20 {
            ask(&mut TcpStream::connect(address).await.unwrap()).await;
        }
        ask_as_known(&mut known).await;
    }

    #[tokio::test]
    async fn known_callers_keep_their_connections_and_another_one_waits() {
        let (address, _running) = served(1, LONG).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        ask_as_known(&mut first).await;
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut waiting = tokio::spawn(async move { ask(&mut second).await });
        ask(&mut first).await;
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!((&mut waiting).await.unwrap(), "HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn a_body_that_is_refused_unread_is_taken_in_and_its_answer_arrives() {
        let (address, _running) = served(2, LONG).await;
        for length in [100_usize, 3 << 20] {
            let mut sender = TcpStream::connect(address).await.unwrap();
            let head = format!("POST /refused HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
            sender.write_all(head.as_bytes()).await.unwrap();
            sender.write_all(&vec![b'x'; length]).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"too large") {
                assert_ne!(sender.read_buf(&mut answer).await.expect("no reset"), 0, "it ended");
            }
            assert!(answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));
            assert_eq!(ask(&mut sender).await, "HTTP/1.1 200 OK", "the connection goes on");
        }
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_ends_its_connection() {
        let (address, _running) = served(1, Duration::from_millis(20)).await;
        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"GET / HTTP/1.1\r\nhos").await.unwrap();
        let mut said = Vec::new();
        let ended = half.read_to_end(&mut said).await;
        assert!(ended.is_err() || !String::from_utf8_lossy(&said).contains("200"), "{said:?}");
    }

    #[tokio::test]
    async fn no_connection_outlives_what_serves_it() {
        let (address, running) = served(1, LONG).await;
        let mut open = TcpStream::connect(address).await.unwrap();
        ask(&mut open).await;
        drop(running);
        let ended = open.read(&mut [0]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }

    #[tokio::test]
    async fn a_taken_port_is_named_by_its_key() {
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = taken.local_addr().expect("an address");
        let ConnectError::Retry { reason, .. } = bind("listen", &[address]).await.unwrap_err() else {
            panic!("it comes free")
        };
        assert!(reason.starts_with(&format!("`listen` {address} is in use by")), "{reason}");
    }
}

//! The status listener: a page, metrics, and two probes.
//!
//! The listener needs no key, so it shows no secrets: no announced URL and no message text. On loopback the `Host`
//! header must be a loopback name, so that a foreign web page cannot read the status through DNS rebinding. Beyond
//! loopback only metrics and probes are served; the page stays local.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::future::BoxFuture;
use hermes_adapter_net::serve::{Bounds, Peer};
use tokio::net::TcpListener;

use super::{metrics, page};
use crate::engine::operator::{AdapterStatus, HostStatus, StatusJson};
use hermes_core::clock::Clock;

/// Deadline of the host for its status.
const STATUS_WAIT: Duration = Duration::from_secs(2);
/// Deadline of a request, including its answer.
const HEAD_WAIT: Duration = Duration::from_secs(5);
/// The longest duration of one connection.
const CONNECTION_LIFE: Duration = Duration::from_secs(30);

/// The source of the status.
pub trait StatusSource: Send + Sync + 'static {
    /// Returns the state of the host. The dispatcher provides it, so an answer proves progress.
    fn status(&self) -> BoxFuture<'static, StatusJson>;

    /// Returns further metrics as Prometheus text.
    fn metrics(&self) -> String;
}

/// The reason why the status listener did not start. The operator corrects `[host] status`.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program uses the port.
    #[error(
        "[host] status: {address} is in use by {holder}; end that program, or set `status` to another address or \"\""
    )]
    InUse {
        /// The address.
        address: SocketAddr,
        /// The program that uses the port.
        holder: String,
    },
    /// The system refused.
    #[error("[host] status: {address} cannot be used ({source}); set `status` to another address or \"\"")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// Binds the listener of `[host] status`.
///
/// # Errors
///
/// [`BindError`] names the key and, if it is visible, the program that uses the port.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => BindError::InUse { address, holder: holder(address) },
        _ => BindError::Bind { address, source },
    })
}

fn holder(address: SocketAddr) -> String {
    hermes_adapter_net::port::holder(address).unwrap_or_else(|| "another process".to_owned())
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, source: Arc<dyn StatusSource>, clock: Arc<dyn Clock>, clients_max: usize) {
    let at_home = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let router = router(source, clock, at_home);
    let error = hermes_adapter_net::serve::serve(listener, router, bounds(clients_max)).await;
    tracing::error!(?error, "the status listener ended");
}

/// Returns the limits. Clients have no key, so every connection is short and the oldest one is closed for a new one.
fn bounds(clients_max: usize) -> Bounds {
    Bounds { connections: clients_max, head: HEAD_WAIT, lifetime: CONNECTION_LIFE, grace: HEAD_WAIT }
}

#[derive(Clone)]
struct Shared {
    source: Arc<dyn StatusSource>,
    clock: Arc<dyn Clock>,
    at_home: bool,
}

fn router(source: Arc<dyn StatusSource>, clock: Arc<dyn Clock>, at_home: bool) -> Router {
    let shared = Shared { source, clock, at_home };
    Router::new()
        .route("/", get(show_page))
        .route("/status.css", get(style))
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Refuses foreign names, restricts the page to local clients, and sets the security headers for browsers.
async fn guard(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let for_people = matches!(request.uri().path(), "/" | "/status.css");
    let local = peer.0.ip().to_canonical().is_loopback();
    if (for_people || shared.at_home) && !names_loopback(request.headers().get(header::HOST)) {
        return (StatusCode::FORBIDDEN, "this listener accepts only requests to 127.0.0.1, [::1] and localhost\n")
            .into_response();
    }
    if for_people && !local {
        return (
            StatusCode::FORBIDDEN,
            "the status page is available only on this machine; /metrics, /healthz and /readyz are available here\n",
        )
            .into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns `true` if a `Host` header is a loopback name, with or without a port.
fn names_loopback(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else { return false };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let end = host.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &host[name.len()..]);
        end.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    })
}

async fn status(shared: &Shared) -> Option<StatusJson> {
    tokio::time::timeout(STATUS_WAIT, shared.source.status()).await.ok()
}

async fn show_page(State(shared): State<Shared>) -> Response {
    match status(&shared).await {
        Some(status) => axum::response::Html(page::render(&status, shared.clock.now_ms())).into_response(),
        None => late(),
    }
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], page::STYLE).into_response()
}

async fn show_metrics(State(shared): State<Shared>) -> Response {
    let Some(status) = status(&shared).await else { return late() };
    let text = metrics::of_status(&status) + &shared.source.metrics();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// `/healthz`: the dispatcher makes progress.
async fn healthy(State(shared): State<Shared>) -> Response {
    match status(&shared).await {
        Some(_) => "ok\n".into_response(),
        None => late(),
    }
}

/// `/readyz`: events are accepted, and an adapter can deliver them.
async fn ready(State(shared): State<Shared>) -> Response {
    match status(&shared).await {
        Some(StatusJson { host: HostStatus { trouble: Some(trouble), .. }, .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the store cannot write: {trouble}\n")).into_response()
        }
        Some(status) if status.host.state == "online" => match reachable(&status) {
            // The host accepts messages and commands also while the model's endpoint fails. A restart would not help.
            Ok(words) => match status.agent.trouble(shared.clock.now_ms()) {
                Some(trouble) => format!("ready (degraded): {words}; {trouble}\n").into_response(),
                None => format!("ready: {words}\n").into_response(),
            },
            Err(words) => (StatusCode::SERVICE_UNAVAILABLE, format!("{words}\n")).into_response(),
        },
        Some(status) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", status.host.state)).into_response(),
        None => late(),
    }
}

/// Returns the states of the adapters that should run, or an error if all of them are offline. The answer contains only
/// names and states, because it is public.
fn reachable(status: &StatusJson) -> Result<String, String> {
    // A file without a section has no instance, and a paused one is not expected to run.
    let is_meant = |adapter: &&AdapterStatus| {
        !adapter.plugin.is_empty() && !["available", "paused"].contains(&adapter.state.as_str())
    };
    let (online, others): (Vec<&AdapterStatus>, Vec<&AdapterStatus>) =
        status.adapters.iter().filter(is_meant).partition(|adapter| ["online", "degraded"].contains(&&*adapter.state));
    let told = |adapters: &[&AdapterStatus]| -> String {
        let each = adapters.iter().map(|adapter| format!("{} is {}", adapter.name, adapter.state));
        each.collect::<Vec<_>>().join(", ")
    };
    match (online.is_empty(), others.is_empty()) {
        (false, true) => Ok(told(&online)),
        // The monitor needs each adapter that is offline.
        (false, false) => Ok(format!("{}; {}", told(&online), told(&others))),
        (true, true) => Ok("no adapter is enabled".to_owned()),
        (true, false) => Err(format!("no adapter is online: {}", told(&others))),
    }
}

fn late() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("the host did not answer within {} s\n", STATUS_WAIT.as_secs()))
        .into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::engine::operator::{AgentError, Announced};

    #[tokio::test]
    async fn the_page_shows_the_state_and_escapes_what_comes_from_outside() {
        let world = World::start(example()).await;
        let page = world.get("/", "localhost").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("content-security-policy: default-src 'none'; style-src 'self'"));
        assert!(
            page.contains("<strong>tele&lt;b&gt;</strong><span class=\"state fair\">reconnecting</span>"),
            "{page}"
        );
        assert!(page.contains("the link &lt;is&gt; down") && page.contains("next attempt in 5 s"), "{page}");
        assert!(!page.contains("secret-key") && !page.contains("<script"), "{page}");
        let style = world.get("/status.css", "127.0.0.1:8640").await;
        assert!(style.contains("content-type: text/css") && style.contains("--good"));
    }

    #[tokio::test]
    async fn metrics_say_what_status_says_and_what_the_source_adds() {
        let mut status = example();
        let file = |name: &str, plugin: &str, state: &str| AdapterStatus {
            name: name.to_owned(),
            plugin: plugin.to_owned(),
            state: state.to_owned(),
            ..status.adapters[0].clone()
        };
        let files = [file("spare", "spare", "available"), file("cut.so", "", "failed")];
        status.adapters.extend(files);
        let world = World::start(status).await;
        let metrics = world.get("/metrics", "[::1]:1").await;
        assert!(!metrics.contains("spare") && !metrics.contains("cut.so"), "no section asks for them: {metrics}");
        assert!(metrics.contains("\nhermes_queue_waiting{queue=\"outbox\"} 3\n"), "{metrics}");
        assert!(metrics.contains("\nhermes_adapter_online{instance=\"tele<b>\"} 0\n"), "{metrics}");
        assert!(metrics.ends_with("more 1\n") && !metrics.contains("secret-key"), "{metrics}");
    }

    #[tokio::test]
    async fn a_foreign_name_gets_nothing() {
        let world = World::start(example()).await;
        for name in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:80x",
            "127.0.0.1:8640@evil",
            "",
        ] {
            for path in ["/", "/metrics", "/readyz"] {
                let answer = world.get(path, name).await;
                assert!(
                    answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400"),
                    "{name} {path}: {answer}"
                );
                assert!(!answer.contains("tele"), "{name} {path}: {answer}");
            }
        }
    }

    #[tokio::test]
    async fn ready_is_not_the_same_as_alive() {
        let mut status = example();
        status.host.state = "draining".to_owned();
        let world = World::start(status).await;
        assert!(world.get("/healthz", "localhost").await.starts_with("HTTP/1.1 200"));
        let ready = world.get("/readyz", "localhost").await;
        assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("draining\n"), "{ready}");
        world.state.lock().unwrap().host.state = "online".to_owned();
        world.state.lock().unwrap().adapters[0].state = "online".to_owned();
        assert!(world.get("/readyz", "localhost").await.ends_with("ready: tele<b> is online\n"));
        {
            let mut status = world.state.lock().unwrap();
            status.agent.state = "failing".to_owned();
            status.agent.since = Some(4_000);
            status.agent.consecutive_failures = 3;
            status.agent.failures.insert("unreachable".to_owned(), 3);
            let error = AgentError { at: 9_000, kind: "unreachable".to_owned(), detail: "to 10.0.0.7 <x>".to_owned() };
            status.agent.last_error = Some(error);
        }
        let ready = world.get("/readyz", "localhost").await;
        assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("ready (degraded): "), "{ready}");
        assert!(ready.contains("failing for 6 s (3 failed turns, last: unreachable)") && !ready.contains("10.0.0.7"));
        let metrics = world.get("/metrics", "localhost").await;
        for line in ["hermes_agent_failing 1", "hermes_turn_failures_total{kind=\"unreachable\"} 3"] {
            assert!(metrics.contains(&format!("\n{line}\n")), "{metrics}");
        }
        assert!(!metrics.contains("10.0.0.7"));
        assert!(world.get("/", "localhost").await.contains("to 10.0.0.7 &lt;x&gt;"));
        world.state.lock().unwrap().host.trouble = Some("the disk is full".to_owned());
        let ready = world.get("/readyz", "localhost").await;
        assert!(
            ready.starts_with("HTTP/1.1 503") && ready.ends_with("the store cannot write: the disk is full\n"),
            "{ready}"
        );
        assert!(world.get("/metrics", "localhost").await.contains("\nhermes_store_failing 1\n"));
        assert!(world.get("/healthz", "localhost").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_host_that_nobody_can_reach_is_alive_and_not_ready() {
        let world = World::start(example()).await;
        let ready = world.get("/readyz", "localhost").await;
        assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
        assert!(ready.ends_with("no adapter is online: tele<b> is reconnecting\n"), "{ready}");
        assert!(world.get("/healthz", "localhost").await.starts_with("HTTP/1.1 200"));
        let mut paused = world.state.lock().unwrap().adapters[0].clone();
        paused.state = "paused".to_owned();
        let broken = AdapterStatus { plugin: String::new(), state: "failed".to_owned(), ..paused.clone() };
        for (state, ready) in [("degraded", true), ("failed", false), ("starting", false), ("paused", true)] {
            let one = AdapterStatus { state: state.to_owned(), ..paused.clone() };
            world.state.lock().unwrap().adapters = vec![one, paused.clone(), broken.clone()];
            let answer = if ready { "HTTP/1.1 200" } else { "HTTP/1.1 503" };
            assert!(world.get("/readyz", "localhost").await.starts_with(answer), "{state}");
        }
        world.state.lock().unwrap().adapters.clear();
        assert!(world.get("/readyz", "localhost").await.ends_with("ready: no adapter is enabled\n"));
    }

    #[tokio::test]
    async fn hundreds_of_idle_connections_keep_no_probe_out() {
        let world = World::start(example()).await;
        let mut idle = Vec::new();
        for n in 0..300 {
            let mut stream = TcpStream::connect(world.address).await.unwrap();
            // Half of the connections send a request and stay open, the others stop within the request.
            let request: &[u8] = if n % 2 == 0 {
                b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            } else {
                b"GET / HTTP/1.1\r\nHost: localh"
            };
            stream.write_all(request).await.unwrap();
            idle.push(stream);
        }
        let answer = world.get("/healthz", "localhost").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[tokio::test]
    async fn a_port_in_use_is_told_with_its_key() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let error = bind(taken.local_addr().unwrap()).await.unwrap_err().to_string();
        assert!(error.contains("[host] status: 127.0.0.1:") && error.contains("is in use by process "), "{error}");
        assert!(error.contains(&std::process::id().to_string()), "{error}");
    }

    fn example() -> StatusJson {
        let adapter = AdapterStatus {
            name: "tele<b>".into(),
            plugin: "telegram".into(),
            version: "1.0.0".into(),
            isolation: "process".into(),
            confined: None,
            proxy: None,
            state: "reconnecting".into(),
            since: 1_000,
            reason: Some("the link <is> down".into()),
            next_try: Some(15_000),
            last_proven: Some(9_000),
            held: 2,
            guarantee: "at-least-once".into(),
            announced: vec![Announced { label: "open".into(), url: "http://127.0.0.1/?key=secret-key".into() }],
            code: None,
            restarts: 1,
            upstream_ignored: false,
        };
        serde_json::from_value(serde_json::json!({
            "host": { "version": "1.0.0", "pid": 7, "since": 0, "state": "online", "home": "/h", "epoch": 3 },
            "adapters": [adapter],
            "queues": { "inbox": 1, "turns": 2, "outbox": 3, "handoffs": 0, "dead": 1 },
            "sessions": { "open": 1, "running": 1, "total": 9 },
            "agent": { "runtime": "echo" },
            "warnings": ["a <warning>"],
        }))
        .unwrap()
    }

    struct Fixed(Arc<Mutex<StatusJson>>);

    impl StatusSource for Fixed {
        fn status(&self) -> BoxFuture<'static, StatusJson> {
            let status = self.0.lock().unwrap().clone();
            Box::pin(async move { status })
        }

        fn metrics(&self) -> String {
            "more 1\n".to_owned()
        }
    }

    struct At(i64);

    impl Clock for At {
        fn now_ms(&self) -> i64 {
            self.0
        }
    }

    struct World {
        address: SocketAddr,
        state: Arc<Mutex<StatusJson>>,
        _server: tokio::task::JoinSet<()>,
    }

    impl World {
        async fn start(status: StatusJson) -> Self {
            let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let address = listener.local_addr().unwrap();
            let state = Arc::new(Mutex::new(status));
            let mut server = tokio::task::JoinSet::new();
            server.spawn(serve(listener, Arc::new(Fixed(Arc::clone(&state))), Arc::new(At(10_000)), 4));
            Self { address, state, _server: server }
        }

        async fn get(&self, path: &str, host: &str) -> String {
            get(self.address, path, host).await
        }
    }

    async fn get(address: SocketAddr, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

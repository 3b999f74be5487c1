//! The port and the token of the page.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_adapter_net::port;
use hermes_adapter_net::serve::{self, Bounds};
use hermes_adapter_sdk::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::connection::{Connection, PortState};
use crate::http_auth::HttpAuth;
use crate::ids::random_word;
use crate::{Config, api, sessions};

const PORT: u16 = 8643;

/// The ports to try if the default port is taken. The ports next to it belong to other adapters.
const FALLBACK_PORTS: std::ops::Range<u16> = 8645..8665;

/// The interval at which the adapter fetches its own page to prove that it is served.
const PROVE_INTERVAL: Duration = Duration::from_secs(20);

const PROVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of the port. A page listens on one connection for hours and reconnects after that.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    head: Duration::from_secs(30),
    lifetime: Duration::from_secs(12 * 60 * 60),
    grace: Duration::from_secs(60),
};

const TOKEN_CHARS_MIN: usize = 16;

/// Binds the port, loads the conversations, and announces the address of the page.
pub(crate) async fn open(connection: &Connection) -> Result<(), ConnectError> {
    let configured = configured_address(&connection.config)
        .map_err(|why| ConnectError::fatal(why, "correct the section of the instance"))?;
    let token = token(connection).await?;
    connection.log.load().await.map_err(|error| ConnectError::retry(error.to_string()))?;
    let bound = connection.state().listener.take();
    let listener = match bound {
        Some(listener) => listener,
        None => bind(configured).await?,
    };
    let address = listener
        .local_addr()
        .map_err(|error| ConnectError::retry(format!("the port is not available any more: {error}")))?;
    let auth = HttpAuth::new(address, &connection.config.allowed_hosts, token.clone(), connection.host.instance());
    let name = match connection.config.allowed_hosts.first() {
        Some(name) if !address.ip().is_loopback() => name.clone(),
        _ => SocketAddr::new(reachable(address.ip()), address.port()).to_string(),
    };
    *connection.state() = PortState { listener: Some(listener), address: Some(address), auth: Some(Arc::new(auth)) };
    connection.host.announce("chat", format!("http://{name}/?token={token}"));
    Ok(())
}

/// Serves the page until the instance ends.
pub(crate) async fn serve(connection: &Arc<Connection>) -> Result<(), ConnectError> {
    let Some(listener) = connection.state().listener.take() else {
        return Err(ConnectError::retry("the port is not bound"));
    };
    let _scope = ServeScope::begin(connection);
    let prove = async {
        loop {
            tokio::time::sleep(PROVE_INTERVAL).await;
            if let Err(error) = prove(connection).await {
                return error;
            }
        }
    };
    connection.host.proved();
    let shared = Arc::clone(connection);
    connection.host.spawn(async move { sessions::refresh_commands(&shared).await });
    connection.sessions.request_refresh();
    tokio::select! {
        error = serve::serve(listener, api::router(Arc::clone(connection)), BOUNDS) => Err(error),
        error = prove => Err(ConnectError::retry(error.to_string())),
        () = sessions::watch(connection) => Ok(()),
        () = connection.host.cancelled() => Ok(()),
    }
}

/// Releases the port.
pub(crate) fn close(connection: &Connection) {
    *connection.state() = PortState::default();
    connection.generation.fetch_add(1, Ordering::SeqCst);
    connection.live.wake();
}

/// Fetches the page's health check as a browser does.
pub(crate) async fn prove(connection: &Connection) -> Result<(), CallError> {
    let unavailable = |why: String| CallError::new("unavailable", why);
    let address = connection.state().address.ok_or_else(|| unavailable("the page is not served".to_owned()))?;
    let target = SocketAddr::new(reachable(address.ip()), address.port());
    let fetch = async {
        let mut stream = TcpStream::connect(target).await?;
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(4096).read_to_end(&mut answer).await?;
        io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(PROVE_TIMEOUT, fetch)
        .await
        .map_err(|_| unavailable(format!("the page at {target} did not answer in {} s", PROVE_TIMEOUT.as_secs())))?
        .map_err(|error| unavailable(format!("the page at {target} is unreachable: {error}")))?;
    if !answer.contains(&connection.incarnation) {
        return Err(unavailable(format!("another program answers at {target}")));
    }
    connection.host.proved();
    Ok(())
}

async fn bind(configured: Option<SocketAddr>) -> Result<TcpListener, ConnectError> {
    if let Some(address) = configured {
        return TcpListener::bind(address).await.map_err(|error| port::refused("listen", address, &error));
    }
    let mut last = None;
    for port in std::iter::once(PORT).chain(FALLBACK_PORTS) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    let error = last.map(|error| error.to_string()).unwrap_or_default();
    Err(ConnectError::retry(format!("no free port found, starting at {PORT} ({error}); set `listen`")))
}

async fn token(connection: &Connection) -> Result<String, ConnectError> {
    if let Some(token) = &connection.config.token {
        return Ok(token.clone());
    }
    let retry = |error: CallError| ConnectError::retry(format!("the stored token cannot be read: {error}"));
    if let Some(token) = connection.host.kv().get("token").await.map_err(retry)? {
        return Ok(token);
    }
    let token = random_word() + &random_word();
    connection.host.kv().set("token", &token).await.map_err(retry)?;
    Ok(token)
}

/// Checks the settings that can be checked before the port is bound.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    configured_address(config)?;
    if let Some(host) = config.allowed_hosts.iter().find(|host| host.is_empty() || host.contains(['/', ' '])) {
        return Err(format!("`allowed_hosts` contains {host:?}; use only the host name, like \"chat.example.org\""));
    }
    let is_good = |token: &String| {
        let simple = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        token.len() >= TOKEN_CHARS_MIN && simple
    };
    if !config.token.as_ref().is_none_or(is_good) {
        return Err(format!(
            "`token` is shorter than {TOKEN_CHARS_MIN} characters or contains characters other than letters, digits \
             and -_.~; use a longer one, or remove the key to generate one"
        ));
    }
    Ok(())
}

/// Returns the configured address of the page; `None` for the default ports.
fn configured_address(config: &Config) -> Result<Option<SocketAddr>, String> {
    let Some(listen) = &config.listen else { return Ok(None) };
    let address: SocketAddr = listen
        .parse()
        .map_err(|_| format!("`listen` is {listen:?}; use an address and a port, like \"127.0.0.1:8643\""))?;
    if !address.ip().is_loopback() && config.allowed_hosts.is_empty() {
        return Err(format!(
            "`listen` {address} is reachable from other machines, but `allowed_hosts` is empty; set `allowed_hosts` \
             to the host names of the page, or listen on 127.0.0.1"
        ));
    }
    Ok(Some(address))
}

/// A guard that ends the streams of one call of `serve`.
struct ServeScope<'l>(&'l Connection);

impl<'l> ServeScope<'l> {
    fn begin(connection: &'l Connection) -> Self {
        connection.generation.fetch_add(1, Ordering::SeqCst);
        Self(connection)
    }
}

impl Drop for ServeScope<'_> {
    fn drop(&mut self) {
        self.0.generation.fetch_add(1, Ordering::SeqCst);
        self.0.live.wake();
    }
}

fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

//! The listener.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_net::address::is_loopback_ip;
use hermes_adapter_net::serve::{self, Bounds};
use hermes_adapter_sdk::prelude::*;
use tokio::net::{TcpListener, lookup_host};

use crate::key::Key;
use crate::server::Server;
use crate::validate::{LISTEN_REMEDY, configured_key, reachable_without_key};
use crate::{inbound, routes};

/// The limits for callers. The last request of a connection additionally has the time of an answer.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    head: Duration::from_secs(30),
    lifetime: Duration::from_secs(600),
    grace: Duration::from_secs(30),
};

/// The key under which a generated API key is stored.
const KEY_ENTRY: &str = "key";

/// Loads or generates the API key, and binds the listener.
pub(crate) async fn open(server: &Arc<Server>) -> Result<TcpListener, ConnectError> {
    let addresses = addresses(&server.config.listen).await?;
    let on_loopback = addresses.iter().all(|address| is_loopback_ip(address.ip()));
    let generated = ensure_key(server, on_loopback).await?;
    server.answers.load().await.map_err(|error| ConnectError::retry(error.to_string()))?;
    let listener = serve::bind("listen", &addresses).await?;
    let address = listener
        .local_addr()
        .map_err(|error| ConnectError::retry(format!("the port is not available any more: {error}")))?;
    // Both keep the values of the first connect, because the configuration of an instance never changes.
    let _ = server.on_loopback.set(on_loopback);
    let label = match generated {
        Some(key) => format!("HTTP API (key {key})"),
        None => "HTTP API".to_owned(),
    };
    server.host.announce(label, format!("http://{address}/v1"));
    server.host.proved();
    Ok(listener)
}

/// Serves until the host ends the call.
pub(crate) async fn serve(server: &Arc<Server>, listener: TcpListener) -> Result<(), ConnectError> {
    let grace = server.request_timeout() + BOUNDS.head;
    Err(serve::serve(listener, routes::router(Arc::clone(server)), Bounds { grace, ..BOUNDS }).await)
}

/// Returns the addresses of `listen`; never empty.
async fn addresses(listen: &str) -> Result<Vec<SocketAddr>, ConnectError> {
    match lookup_host(listen).await {
        Ok(found) => {
            let found: Vec<SocketAddr> = found.collect();
            if found.is_empty() {
                return Err(ConnectError::fatal(format!("`listen` = {listen:?} has no address"), LISTEN_REMEDY));
            }
            Ok(found)
        }
        // A name and a port: the resolver may be temporarily unavailable.
        Err(error) if error.kind() != ErrorKind::InvalidInput => {
            Err(ConnectError::retry(format!("`listen` = {listen:?} cannot be resolved: {error}")))
        }
        Err(error) => Err(ConnectError::fatal(format!("`listen` = {listen:?} cannot be used: {error}"), LISTEN_REMEDY)),
    }
}

/// Ensures that there is a key. Returns a newly generated one, so that the operator can be notified.
async fn ensure_key(server: &Server, on_loopback: bool) -> Result<Option<String>, ConnectError> {
    if let Some(key) = configured_key(&server.config) {
        let _ = server.key.set(Key::new(key));
        return Ok(None);
    }
    if !on_loopback {
        return Err(ConnectError::fatal(
            reachable_without_key(&server.config.listen),
            "correct the section of the instance",
        ));
    }
    let unavailable = |error: CallError| ConnectError::retry(format!("the generated key cannot be saved: {error}"));
    let kv = server.host.kv();
    let key = match kv.get(KEY_ENTRY).await.map_err(unavailable)? {
        Some(key) => key,
        None => {
            let random = inbound::random_hex()
                .map_err(|_| ConnectError::retry("the system cannot generate random numbers for a key"))?;
            let key = format!("hk-{random}");
            kv.set(KEY_ENTRY, &key).await.map_err(unavailable)?;
            key
        }
    };
    let _ = server.key.set(Key::new(&key));
    Ok(Some(key))
}

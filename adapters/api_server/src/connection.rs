//! The listener.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_net::address::is_loopback_ip;
use hermes_adapter_net::serve::{self, Bounds};
use hermes_adapter_sdk::prelude::*;
use tokio::net::{TcpListener, lookup_host};

use crate::door::{Key, weakness};
use crate::server::Server;
use crate::{Config, inbound, kept, routes};

/// The limits for callers. The last request of a connection additionally has the time of an answer.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    head: Duration::from_secs(30),
    lifetime: Duration::from_secs(600),
    grace: Duration::from_secs(30),
};

/// The key under which a generated API key is stored.
const KEY_PLACE: &str = "key";

/// Loads or generates the API key, and binds the listener.
pub async fn open(server: &Arc<Server>) -> Result<TcpListener, ConnectError> {
    let addresses = addresses(&server.config.listen).await?;
    let on_loopback = addresses.iter().all(|address| is_loopback_ip(address.ip()));
    let made = ready_key(server, on_loopback).await?;
    kept::load(server).await.map_err(|error| ConnectError::retry(error.to_string()))?;
    let listener = serve::bind("listen", &addresses).await?;
    let address = listener
        .local_addr()
        .map_err(|error| ConnectError::retry(format!("the port is not available any more: {error}")))?;
    // Both keep the values of the first connect, because the configuration of an instance never changes.
    let _ = server.on_loopback.set(on_loopback);
    let label = match made {
        Some(key) => format!("HTTP API (key {key})"),
        None => "HTTP API".to_owned(),
    };
    server.host.announce(label, format!("http://{address}/v1"));
    server.host.proved();
    Ok(listener)
}

/// Serves until the host ends the call.
pub async fn serve(server: &Arc<Server>, listener: TcpListener) -> Result<(), ConnectError> {
    let grace = server.request_timeout() + BOUNDS.head;
    Err(serve::serve(listener, routes::router(Arc::clone(server)), Bounds { grace, ..BOUNDS }).await)
}

/// Checks the settings that can be checked before names are resolved and the port is bound.
pub fn check(config: &Config) -> Result<(), String> {
    if !(1..=86_400).contains(&config.request_timeout_s) {
        return Err(format!("`request_timeout_s` is {}; choose 1 to 86400", config.request_timeout_s));
    }
    if !(1..=1000).contains(&config.requests_max) {
        return Err(format!("`requests_max` is {}; choose 1 to 1000", config.requests_max));
    }
    // An event, including its escapes, must fit into one call to the host.
    if !(1024..=4 * 1024 * 1024).contains(&config.body_bytes_max) {
        return Err(format!("`body_bytes_max` is {}; choose 1024 to 4194304", config.body_bytes_max));
    }
    for origin in &config.cors_origins {
        let is_origin = ["http://", "https://"]
            .iter()
            .filter_map(|scheme| origin.strip_prefix(scheme))
            .any(|rest| !rest.is_empty() && !rest.trim_end_matches('/').contains('/'));
        if origin != "*" && !is_origin {
            return Err(format!(
                "`cors_origins` contains {origin:?}, which is not an origin; use a value like \"https://chat.example\" or \"*\""
            ));
        }
    }
    let key = chosen_key(config);
    if let Some(why) = key.and_then(weakness) {
        return Err(format!(
            "`key` is too weak: {why}; use at least 16 characters, for example from `openssl rand -hex 24`"
        ));
    }
    let listen = &config.listen;
    let (host, port) = listen.rsplit_once(':').unwrap_or_default();
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(format!("`listen` is {listen:?}; {LISTEN_MEND}"));
    }
    match listen.parse::<SocketAddr>() {
        Ok(address) if key.is_none() && !is_loopback_ip(address.ip()) => Err(reachable_without_key(listen)),
        // A host name is resolved when the port is bound.
        _ => Ok(()),
    }
}

const LISTEN_MEND: &str = "use an address and a port, like \"127.0.0.1:8642\"";

fn reachable_without_key(listen: &str) -> String {
    format!(
        "`listen` is {listen:?}, which other machines can reach, but `key` is not set; set `key`, or listen on 127.0.0.1"
    )
}

/// Returns the configured key, if there is one.
fn chosen_key(config: &Config) -> Option<&str> {
    config.key.as_deref().map(str::trim).filter(|key| !key.is_empty())
}

/// Returns the addresses of `listen`; never empty.
async fn addresses(listen: &str) -> Result<Vec<SocketAddr>, ConnectError> {
    match lookup_host(listen).await {
        Ok(found) => {
            let found: Vec<SocketAddr> = found.collect();
            if found.is_empty() {
                return Err(ConnectError::fatal(format!("`listen` = {listen:?} has no address"), LISTEN_MEND));
            }
            Ok(found)
        }
        // A name and a port: the resolver may be temporarily unavailable.
        Err(error) if error.kind() != ErrorKind::InvalidInput => {
            Err(ConnectError::retry(format!("`listen` = {listen:?} cannot be resolved: {error}")))
        }
        Err(error) => Err(ConnectError::fatal(format!("`listen` = {listen:?} cannot be used: {error}"), LISTEN_MEND)),
    }
}

/// Ensures that there is a key. Returns a newly generated one, so that the operator can be notified.
async fn ready_key(server: &Server, on_loopback: bool) -> Result<Option<String>, ConnectError> {
    if let Some(key) = chosen_key(&server.config) {
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
    let key = match kv.get(KEY_PLACE).await.map_err(unavailable)? {
        Some(key) => key,
        None => {
            let random = inbound::random_hex()
                .map_err(|_| ConnectError::retry("the system cannot generate random numbers for a key"))?;
            let key = format!("hk-{random}");
            kv.set(KEY_PLACE, &key).await.map_err(unavailable)?;
            key
        }
    };
    let _ = server.key.set(Key::new(&key));
    Ok(Some(key))
}

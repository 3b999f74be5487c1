//! The checks of the configuration before the port is bound.

use std::net::SocketAddr;

use hermes_adapter_net::address::is_loopback_ip;

use crate::Config;
use crate::key::weakness;

/// Checks the settings that can be checked before names are resolved and the port is bound.
pub(crate) fn check(config: &Config) -> Result<(), String> {
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
    let key = configured_key(config);
    if let Some(why) = key.and_then(weakness) {
        return Err(format!(
            "`key` is too weak: {why}; use at least 16 characters, for example from `openssl rand -hex 24`"
        ));
    }
    let listen = &config.listen;
    let (host, port) = listen.rsplit_once(':').unwrap_or_default();
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(format!("`listen` is {listen:?}; {LISTEN_REMEDY}"));
    }
    match listen.parse::<SocketAddr>() {
        Ok(address) if key.is_none() && !is_loopback_ip(address.ip()) => Err(reachable_without_key(listen)),
        // A host name is resolved when the port is bound.
        _ => Ok(()),
    }
}

pub(crate) const LISTEN_REMEDY: &str = "use an address and a port, like \"127.0.0.1:8642\"";

pub(crate) fn reachable_without_key(listen: &str) -> String {
    format!(
        "`listen` is {listen:?}, which other machines can reach, but `key` is not set; set `key`, or listen on 127.0.0.1"
    )
}

/// Returns the configured key, if there is one.
pub(crate) fn configured_key(config: &Config) -> Option<&str> {
    config.key.as_deref().map(str::trim).filter(|key| !key.is_empty())
}

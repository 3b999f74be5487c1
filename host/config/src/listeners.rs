//! The addresses of all listeners in this configuration. One port serves one listener.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::model::{AdapterConfig, Config};
use super::plans::own_config;
use super::problem::{Problems, Source};
use hermes_loader::config_schema;

/// The transport of an adapter that always listens, regardless of its section.
const ALWAYS: &str = "http";

/// An address and the key that names it.
struct Listener {
    address: SocketAddr,
    key: String,
    source: Source,
    is_default: bool,
}

impl Config {
    /// Returns a problem for each listener whose port another one uses. A library that uses the next free port names
    /// none.
    pub(super) fn ports_twice(
        &self,
        manifests: &BTreeMap<String, Manifest>,
        schemas: &BTreeMap<String, Json>,
    ) -> Problems {
        let status = self.host.status.map(|address| {
            let found = self.origin.values.get("host.status").map(|found| found.source.clone());
            let is_default = found.is_none();
            Listener { address, key: "host.status".to_owned(), source: found.unwrap_or(Source::Default), is_default }
        });
        let on = self.adapters.iter().filter(|(_, adapter)| adapter.enabled != Some(false));
        let of_adapters = on.filter_map(|(instance, adapter)| {
            listener(instance, adapter, manifests.get(&adapter.plugin), schemas.get(&adapter.plugin))
        });
        let mut problems = Problems::default();
        let mut seen: Vec<Listener> = Vec::new();
        for mut next in status.into_iter().chain(of_adapters) {
            match seen.iter_mut().find(|other| overlap(other.address, next.address)) {
                // A key that the operator wrote is the one to change.
                Some(first) => {
                    if next.is_default && !first.is_default {
                        std::mem::swap(first, &mut next);
                    }
                    let sentence = format!(
                        "listens on {}, but {} already listens on {}; choose another port",
                        next.address, first.key, first.address
                    );
                    problems.push(next.source.clone(), next.key.clone(), sentence);
                }
                None => seen.push(next),
            }
        }
        problems
    }
}

/// Returns the address in a section, or the default address of its adapter.
fn listener(
    instance: &str,
    adapter: &AdapterConfig,
    manifest: Option<&Manifest>,
    schema: Option<&Json>,
) -> Option<Listener> {
    let config = own_config(adapter, schema);
    let written = config.get("listen").and_then(Json::as_str);
    let default = || {
        manifest.filter(|manifest| manifest.transport == ALWAYS)?;
        config_schema::property(schema?, "listen")?.get("default")?.as_str()
    };
    let text = written.or_else(default)?;
    let mut address: SocketAddr = text.trim().replace("localhost:", "127.0.0.1:").parse().ok()?;
    // `port` replaces the port of `listen`.
    let port = config.get("port").and_then(Json::as_u64).and_then(|port| u16::try_from(port).ok());
    if let Some(port) = port {
        address.set_port(port);
    }
    let own = port.map(|_| "port").or(written.map(|_| "listen"));
    let source = own.and_then(|key| adapter.section.own.get(key)).map(|own| own.place(""));
    Some(Listener {
        address,
        key: format!("adapter.{instance}.{}", own.unwrap_or("listen")),
        source: source.unwrap_or_else(|| adapter.section.source.clone()),
        is_default: own.is_none(),
    })
}

/// Returns `true` if two listeners need the same port of the same interface. Port 0 means any free port.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    // The unspecified IPv6 address also uses the port for IPv4.
    let same_host = a == b
        || a.is_unspecified() && (a.is_ipv6() || b.is_ipv4())
        || b.is_unspecified() && (b.is_ipv6() || a.is_ipv4());
    one.port() != 0 && one.port() == other.port() && same_host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_listeners_overlap_on_one_port_of_one_interface() {
        let overlap = |one: &str, other: &str| {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(overlap(one, other), super::overlap(other, one), "{one} {other}");
            super::overlap(one, other)
        };
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("[::ffff:127.0.0.1]:1", "127.0.0.1:1"),
        ] {
            assert!(overlap(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1:1", "127.0.0.2:1"),
            ("0.0.0.0:1", "[::1]:1"),
        ] {
            assert!(!overlap(one, other), "{one} {other}");
        }
    }
}

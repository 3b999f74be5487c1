//! Hosts that are connected directly although there is a proxy.

use std::net::IpAddr;

/// One entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bypass {
    /// Every host: `*`.
    All,
    /// A network, or one address: `10.0.0.0/8`, `fd00::1`.
    Network { base: IpAddr, bits: u8, port: Option<u16> },
    /// A name and every name below it: `example.org`.
    Domain { name: String, port: Option<u16> },
}

impl Bypass {
    /// Parses one entry. An invalid entry covers no host.
    pub(super) fn new(entry: &str) -> Self {
        let entry = entry.trim();
        if entry == "*" {
            return Self::All;
        }
        if let Some(network) = network(entry, None) {
            return network;
        }
        let (host, port) = split_port(entry);
        if let Some(network) = network(host, port) {
            return network;
        }
        let name = host.trim_start_matches('*').trim_matches('.').to_ascii_lowercase();
        Self::Domain { name, port }
    }

    /// Returns whether `host`, as it appears in an address, is connected directly.
    pub(super) fn covers(&self, host: &str, to: Option<u16>) -> bool {
        let is_port = |port: &Option<u16>| port.is_none_or(|port| Some(port) == to);
        match self {
            Self::All => true,
            Self::Network { base, bits, port } => {
                is_port(port) && bare(host).parse::<IpAddr>().is_ok_and(|ip| contains(*base, *bits, ip.to_canonical()))
            }
            Self::Domain { name, port } => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let below = || host.strip_suffix(name.as_str()).is_some_and(|lead| lead.ends_with('.'));
                is_port(port) && !name.is_empty() && (host == *name || below())
            }
        }
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

fn network(text: &str, port: Option<u16>) -> Option<Bypass> {
    let (base, bits) = match text.split_once('/') {
        Some((base, bits)) => (base, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let base = bare(base).parse::<IpAddr>().ok()?;
    let most = if base.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some(Bypass::Network { base, bits, port })
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    match entry.rsplit_once(':') {
        Some((host, port)) => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        None => (entry, None),
    }
}

fn contains(base: IpAddr, bits: u8, ip: IpAddr) -> bool {
    match (base, ip) {
        (IpAddr::V4(base), IpAddr::V4(ip)) => {
            let shift = 32 - u32::from(bits.min(32));
            shift == 32 || u32::from(base) >> shift == u32::from(ip) >> shift
        }
        (IpAddr::V6(base), IpAddr::V6(ip)) => {
            let shift = 128 - u32::from(bits.min(128));
            shift == 128 || u128::from(base) >> shift == u128::from(ip) >> shift
        }
        _ => false,
    }
}

//! Classification of addresses: this machine, or the public network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether `host`, as it appears in an address or (without its port) in a `Host`
/// header, is this machine. Names other than `localhost` are not resolved.
pub fn is_loopback_host(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let name = host.strip_suffix('.').unwrap_or(host);
    name.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(is_loopback_ip)
}

/// Returns whether `ip` is this machine, also if it is written as an IPv4 address inside IPv6.
pub fn is_loopback_ip(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Returns whether `ip` is a unicast address of the public network. Addresses for internal
/// use of a machine, a home or a provider are not public.
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let reserved = match (a, b, c) {
        (0 | 10 | 127, ..) => true,             // this network, private, loopback
        (100, 64..=127, _) => true,             // carrier-grade NAT
        (169, 254, _) => true,                  // link-local, cloud metadata
        (172, 16..=31, _) => true,              // private
        (192, 168, _) => true,                  // private
        (192, 0, 0 | 2) => true,                // protocol assignments, documentation
        (192, 88, 99) => true,                  // 6to4 relays
        (198, 18 | 19, _) => true,              // benchmarks
        (198, 51, 100) | (203, 0, 113) => true, // documentation
        (224.., ..) => true,                    // multicast, reserved, broadcast
        _ => false,
    };
    !reserved
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        // NAT64 reaches the embedded IPv4 address.
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => is_public_v4(v4(g, h)),
        // So does 6to4.
        (0x2002, high) => is_public_v4(v4(high, c)),
        // Teredo and other protocol assignments; documentation.
        (0x2001, 0x0000..=0x01ff | 0x0db8) => false,
        (0x3fff, 0x0000..=0x0fff) => false,
        // All addresses assigned as global unicast.
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_reach_inwards_are_not_public() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "3fff::1",
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert!(!is_public(ip), "{text} must not be public");
        }
    }

    #[test]
    fn addresses_of_the_public_network_are_public() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2002:808:808::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert!(is_public(ip), "{text} must be public");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for host in
            ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "::ffff:127.0.0.1"]
        {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["", "localhost.example", "example.org", "127.0.0.1.example", "0.0.0.0", "[::]", "10.0.0.1"] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}

//! A tunnel through an HTTP proxy for a websocket without TLS.
//!
//! The HTTP client asks a proxy for a tunnel only where TLS follows. A plain request
//! is forwarded instead, and many proxies drop its `Upgrade` header.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::NetError;
use crate::error::Step;
use crate::proxy::{authority, decoded};

/// The longest answer of a proxy, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Opens a connection to the server of `url` through `proxy`, an `http://` address.
pub(super) async fn open(proxy: &Url, url: &Url) -> Result<TcpStream, NetError> {
    let failed =
        |step: Step, why: &str| NetError::NotSent { step, detail: format!("proxy {} {why}", authority(proxy)) };
    let lost = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => failed(Step::Connect, "refused the connection"),
        std::io::ErrorKind::TimedOut => failed(Step::Connect, "did not answer in time"),
        std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => {
            failed(Step::Connect, "closed the connection")
        }
        _ => failed(Step::Connect, &format!("failed: {error}")),
    };
    let (host, port) = (proxy.host_str().unwrap_or_default(), proxy.port_or_known_default().unwrap_or(80));
    let addresses = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
    let addresses: Vec<_> =
        addresses.map_err(|_| failed(Step::Dns, "cannot be found: its name has no address"))?.collect();
    let mut stream = TcpStream::connect(addresses.as_slice()).await.map_err(lost)?;
    let target = authority(url);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
    if !proxy.username().is_empty() || proxy.password().is_some() {
        let pair = format!("{}:{}", decoded(proxy.username()), decoded(proxy.password().unwrap_or_default()));
        request.push_str(&format!("proxy-authorization: Basic {}\r\n", STANDARD.encode(pair)));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.map_err(lost)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == ANSWER_BYTES_MAX {
            return Err(failed(Step::Connect, "sent an incomplete response"));
        }
        // Byte by byte: what follows belongs to the websocket.
        answer.push(stream.read_u8().await.map_err(lost)?);
    }
    match status(&answer) {
        Some(200..=299) => Ok(stream),
        Some(407) => {
            Err(failed(Step::Connect, "rejected the credentials; set them as scheme://user:password@host:port"))
        }
        Some(_) => Err(failed(Step::Connect, "refused to connect to the server")),
        None => Err(failed(Step::Connect, "is not an HTTP proxy")),
    }
}

/// Returns the status of an HTTP/1 answer.
fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.split(|byte| *byte == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_an_answer_of_http_only() {
        assert_eq!(status(b"HTTP/1.0 200 Connection established\r\n\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.1 407\r\nx: y\r\n\r\n"), Some(407));
        for wrong in
            [b"".as_slice(), b"\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"SSH-2.0 200\r\n\r\n", b"HTTP/1.1 \xff\r\n\r\n"]
        {
            assert_eq!(status(wrong), None, "{wrong:?}");
        }
    }
}

//! A minimal HTTP client that lets a test control every byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ring::hmac;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub fn word(&self) -> String {
        self.json()["status"].as_str().unwrap_or_default().to_owned()
    }
}

pub fn address_of(url: &str) -> String {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
}

pub fn post(address: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    raw(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n{body}"
        ),
    )
}

/// Sends a call and disconnects without reading the response.
pub fn hang_up(address: &str, path: &str, headers: &[(&str, &str)], body: &str) {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n{body}").as_bytes(),
        )
        .unwrap();
}

/// Sends a part of a request, or a request whose response is not read, and keeps the connection open.
pub fn idle(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // A connection that was evicted already may refuse the write.
    let _ = stream.write_all(request.as_bytes());
    stream
}

/// Starts a call whose body of `bytes` bytes never arrives.
pub fn begun(address: &str, path: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {bytes}\r\n\r\n").as_bytes()).unwrap();
    stream
}

pub fn raw(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may close a refused connection before the whole request is written.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// Returns the v1 signature of a body.
pub fn v1(secret: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

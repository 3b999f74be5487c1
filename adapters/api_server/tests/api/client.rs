//! A minimal HTTP client that lets a test control every byte.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::KEY;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct Address(SocketAddr);

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// A connection with a response to read.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Address {
    pub fn of_url(url: &str) -> Self {
        let rest = url.strip_prefix("http://").unwrap();
        Self(rest.split('/').next().unwrap().parse().unwrap())
    }

    pub fn host(&self) -> String {
        self.0.to_string()
    }

    /// Sends a request with the key and these headers; a header of the same name replaces the default.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Connection {
        let ours = [("host", self.host()), ("authorization", format!("Bearer {KEY}"))];
        let mut all: BTreeMap<String, String> = ours.map(|(name, value)| (name.to_owned(), value)).into();
        all.extend(headers.iter().map(|(name, value)| (name.to_lowercase(), (*value).to_owned())));
        all.insert("content-length".to_owned(), body.len().to_string());
        all.insert("connection".to_owned(), "close".to_owned());
        let head: String =
            all.iter().filter(|(_, value)| *value != "-").map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(&format!("{method} {path} HTTP/1.1\r\n{head}\r\n{body}"))
    }

    pub fn raw(&self, request: &str) -> Connection {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        Connection { reader: BufReader::new(stream) }
    }

    /// Sends a part of a request, or a request whose response is not read, and keeps the connection open.
    pub fn idle(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).unwrap();
        // A connection that was evicted already may refuse the write.
        let _ = stream.write_all(request.as_bytes());
        stream
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.open("GET", path, headers, "").response()
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.open("POST", path, headers, body).response()
    }
}

impl Connection {
    /// Reads until a line contains `text`.
    pub fn wait_for(&mut self, text: &str) {
        loop {
            let mut line = String::new();
            assert_ne!(self.reader.read_line(&mut line).unwrap(), 0, "the answer ended before {text:?}");
            if line.contains(text) {
                return;
            }
        }
    }

    /// Reads the whole response.
    pub fn response(mut self) -> Response {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let pairs = head[1..].iter().map(|line| line.split_once(':').unwrap());
        let headers: BTreeMap<String, String> =
            pairs.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        let body = if headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
            self.chunks()
        } else {
            let mut body = String::new();
            self.reader.read_to_string(&mut body).unwrap();
            body
        };
        Response { status, headers, body }
    }

    fn chunks(&mut self) -> String {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut chunk = vec![0; length + 2];
            self.reader.read_exact(&mut chunk).unwrap();
            if length == 0 {
                return String::from_utf8(body).unwrap();
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the error's code after checking OpenAI's format.
    pub fn error_code(&self) -> String {
        let error = &self.json()["error"];
        for key in ["message", "type", "code"] {
            assert!(error[key].as_str().is_some_and(|text| !text.is_empty()), "{key} in {error}");
        }
        assert!(error.get("param").is_some());
        error["code"].as_str().unwrap().to_owned()
    }

    /// Returns the data of each event, in order.
    pub fn data(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// Returns the names of the events, in order.
    pub fn names(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("event: ")).map(str::to_owned).collect()
    }
}

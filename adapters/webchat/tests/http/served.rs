//! A served page, the host behind it, and an HTTP client.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::method;
use hermes_adapter_sdk::testing::{MockHost, Pending, Setup};
use hermes_adapter_webchat::Webchat;
use serde_json::{Value, json};

/// A served page and the host behind it.
pub(crate) struct Served {
    pub(crate) _run: Pending,
    pub(crate) host: MockHost,
    pub(crate) address: String,
    pub(crate) origin: String,
    pub(crate) token: String,
    pub(crate) cookie_name: String,
    /// The value of the cookie of a page session.
    pub(crate) session: String,
}

impl Served {
    pub(crate) fn start(config: Value) -> Self {
        Self::with(config, |setup| setup)
    }

    pub(crate) fn with(mut config: Value, setup: impl FnOnce(Setup) -> Setup) -> Self {
        config["listen"] = json!("127.0.0.1:0");
        let host = setup(MockHost::setup("webchat")).start::<Webchat>(config).expect("it starts");
        host.connect().expect("it connects");
        let url = host.next_host_call("announce")["url"].as_str().map(str::to_owned).expect("an address");
        let run = host.run();
        let (address, token) = url.trim_start_matches("http://").split_once("/?token=").expect("a token");
        let cookie_name = format!("hermes_webchat_{}", address.rsplit(':').next().expect("a port"));
        let mut served = Self {
            session: String::new(),
            _run: run,
            address: address.to_owned(),
            origin: format!("http://{address}"),
            token: token.to_owned(),
            cookie_name,
            host,
        };
        served.session = served.opened();
        served
    }

    /// Opens a page session with the token and returns the value of its cookie.
    pub(crate) fn opened(&self) -> String {
        let opened = self.plain("GET", &format!("/?token={}", self.token), &[]);
        let cookie = opened.header("set-cookie").expect("a cookie").to_owned();
        let (_, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a value");
        value.to_owned()
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().expect("a port")
    }

    pub(crate) fn cookie(&self) -> String {
        format!("{}={}", self.cookie_name, self.session)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the page answers");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a deadline");
        stream
    }

    pub(crate) fn raw(&self, method: &str, path: &str, host: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !head.contains("Transfer-Encoding") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        stream.write_all((head + "\r\n").as_bytes()).expect("the head is sent");
        // The server may close the connection during a refused upload.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::parse(&String::from_utf8_lossy(&answer))
    }

    pub(crate) fn plain(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.raw(method, path, &self.address, headers, b"")
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.plain("GET", path, &[("Cookie", &self.cookie())])
    }

    pub(crate) fn send_json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let cookie = self.cookie();
        let headers =
            [("Cookie", cookie.as_str()), ("Origin", self.origin.as_str()), ("Content-Type", "application/json")];
        self.raw(method, path, &self.address, &headers, body.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send_json("POST", path, body)
    }

    pub(crate) fn conversation(&self) -> String {
        let made = self.post("/api/conversations", &json!({})).json();
        made["id"].as_str().map(str::to_owned).expect("an id")
    }

    pub(crate) fn say(&self, conversation: &str, id: &str, text: &str) -> i64 {
        let said =
            self.post(&format!("/api/conversations/{conversation}/messages"), &json!({ "id": id, "text": text }));
        said.json()["inbox_id"].as_i64().unwrap_or_else(|| panic!("not taken: {}", said.body))
    }

    pub(crate) fn deliver(&self, outgoing: &Outgoing) {
        let outcome = self.host.send(outgoing);
        assert!(matches!(outcome, SendOutcome::Delivered { .. }), "{outcome:?}");
    }

    pub(crate) fn turn(&self, inbox_id: i64, seq: u64, event: Value) {
        let call = json!({ "inbox_id": inbox_id, "seq": seq, "event": event });
        let answer = self.host.call(method::TURN_EVENT, &call).wait();
        assert_eq!(answer.status, hermes_adapter_sdk::testing::status::OK, "{answer:?}");
    }

    pub(crate) fn stream(&self, last: Option<&str>) -> EventStream {
        let mut stream = self.connect();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let cookie = self.cookie();
        let head = format!("GET /api/stream HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n{last}\r\n", self.address);
        stream.write_all(head.as_bytes()).expect("the head is sent");
        let mut lines = BufReader::new(stream);
        // The greeting shows that the stream is open, so no later event is missed.
        let mut line = String::new();
        while !line.contains("hello") {
            line.clear();
            assert!(lines.read_line(&mut line).expect("a line") > 0, "the stream did not begin");
        }
        EventStream { lines, last_id: String::new() }
    }
}

pub(crate) fn answer(chat: &str, key: &str, inbox_id: i64, text: &str) -> Outgoing {
    let mut outgoing = Outgoing::text(Chat::dm(chat), text);
    outgoing.key = key.to_owned();
    outgoing.purpose = Purpose::Reply;
    outgoing.format = Format::Markdown;
    outgoing.in_reply_to = (inbox_id != 0).then_some(inbox_id);
    outgoing
}

pub(crate) fn kind(event: &Value) -> String {
    event["type"].as_str().unwrap_or_default().to_owned()
}

/// Answers the key-value store from a map that outlives the host.
pub(crate) fn keeping(setup: Setup, kept: &Arc<Mutex<BTreeMap<String, String>>>) -> Setup {
    let (get, set, delete) = (Arc::clone(kept), Arc::clone(kept), Arc::clone(kept));
    let key = |payload: &Value| payload["key"].as_str().map(str::to_owned).expect("a key");
    setup
        .answer("kv.get", move |payload| Ok(json!({ "value": get.lock().expect("the map").get(&key(payload)) })))
        .answer("kv.set", move |payload| {
            let value = payload["value"].as_str().map(str::to_owned).expect("a value");
            set.lock().expect("the map").insert(key(payload), value);
            Ok(json!({}))
        })
        .answer("kv.delete", move |payload| {
            delete.lock().expect("the map").remove(&key(payload));
            Ok(json!({}))
        })
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunk(body)
        } else {
            body.to_owned()
        };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.body))
    }
}

pub(crate) fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        whole += &rest[..size];
        body = rest.get(size + 2..).unwrap_or("");
    }
    whole
}

pub(crate) struct EventStream {
    pub(crate) lines: BufReader<TcpStream>,
    pub(crate) last_id: String,
}

impl EventStream {
    pub(crate) fn next(&mut self) -> Value {
        let mut id = String::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("an event comes in time") > 0, "the stream ended");
            if let Some(word) = line.strip_prefix("id: ") {
                id = word.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                // The id may come before or after the data.
                if id.is_empty() {
                    let mut next = String::new();
                    self.lines.read_line(&mut next).expect("the rest of the event");
                    id = next.strip_prefix("id: ").unwrap_or("").trim().to_owned();
                }
                self.last_id = id;
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }

    pub(crate) fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            seen.push(self.next());
            if seen.last().is_some_and(&found) {
                return seen;
            }
        }
    }
}

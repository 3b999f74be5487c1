//! A minimal Bot API and model server on one loopback port. Their cost is not part of the measurement.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// The state of the server.
#[derive(Default)]
struct State {
    updates: VecDeque<Value>,
    next_update: i64,
    sent: u64,
    /// Time of each request to the model.
    asked: Vec<Instant>,
}

/// A running server.
#[derive(Clone)]
pub struct BotApi {
    shared: Arc<(Mutex<State>, Condvar)>,
    port: u16,
}

impl BotApi {
    /// Starts a server on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let server = Self { shared: Arc::default(), port };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let server = serving.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    /// Returns the base URL.
    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Queues a message of a user to the bot.
    pub fn push(&self, chat: u64, text: &str) {
        let mut state = self.shared.0.lock().expect("no thread fails with it");
        state.next_update += 1;
        let id = state.next_update;
        state.updates.push_back(json!({ "update_id": id, "message": {
            "message_id": id, "date": 1, "text": text, "chat": { "id": chat, "type": "private", "first_name": "A" },
            "from": { "id": chat, "is_bot": false, "first_name": "A" } } }));
        self.shared.1.notify_all();
    }

    /// Waits until the bot has sent `count` messages in total.
    pub fn wait_sent(&self, count: u64) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut state = self.shared.0.lock().expect("no thread fails with it");
        while state.sent < count {
            assert!(Instant::now() < deadline, "only {} of {count} were sent", state.sent);
            state = self.shared.1.wait_timeout(state, Duration::from_millis(200)).expect("no thread fails with it").0;
        }
    }

    /// Waits until the model has received `count` requests in total. Returns the time of the last one.
    pub fn wait_asked(&self, count: usize) -> Instant {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut state = self.shared.0.lock().expect("no thread fails with it");
        loop {
            if let Some(at) = state.asked.get(count - 1) {
                return *at;
            }
            assert!(Instant::now() < deadline, "the model was asked {} times, not {count}", state.asked.len());
            state = self.shared.1.wait_timeout(state, Duration::from_millis(200)).expect("no thread fails with it").0;
        }
    }

    fn asked(&self) {
        let now = Instant::now();
        self.shared.0.lock().expect("no thread fails with it").asked.push(now);
        self.shared.1.notify_all();
    }

    fn serve(&self, stream: TcpStream) {
        stream.set_nodelay(true).expect("a socket has options");
        let mut writer = stream.try_clone().expect("a socket can be shared");
        let mut reader = BufReader::new(stream);
        while let Some((path, body)) = read_request(&mut reader) {
            let answered = if path.ends_with("/chat/completions") {
                self.asked();
                writer.write_all(MODEL.as_bytes())
            } else {
                let result = json!({ "ok": true, "result": self.method(&path, &body) }).to_string();
                write!(
                    writer,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{result}",
                    result.len()
                )
            };
            if answered.is_err() {
                return;
            }
        }
    }

    fn method(&self, path: &str, body: &[u8]) -> Value {
        let mut state = self.shared.0.lock().expect("no thread fails with it");
        match path.rsplit('/').next().unwrap_or_default() {
            "getMe" => json!({ "id": 42, "is_bot": true, "first_name": "H", "username": "h_bot" }),
            "getUpdates" => {
                let request: Value = serde_json::from_slice(body).unwrap_or_default();
                let offset = request["offset"].as_i64().unwrap_or(0);
                let deadline = Instant::now() + Duration::from_secs(request["timeout"].as_u64().unwrap_or(0));
                loop {
                    while state.updates.front().is_some_and(|update| update["update_id"].as_i64() < Some(offset)) {
                        state.updates.pop_front();
                    }
                    let left = deadline.saturating_duration_since(Instant::now());
                    if !state.updates.is_empty() || left.is_zero() {
                        return state.updates.iter().take(100).cloned().collect();
                    }
                    state = self.shared.1.wait_timeout(state, left).expect("no thread fails with it").0;
                }
            }
            "sendMessage" => {
                state.sent += 1;
                self.shared.1.notify_all();
                json!({ "message_id": 1_000_000 + state.sent, "date": 1, "chat": { "id": 1, "type": "private" } })
            }
            _ => json!(true),
        }
    }
}

/// A streamed answer in four chunks.
const MODEL: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 307\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"An answer \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"of the model, \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"in four pieces.\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

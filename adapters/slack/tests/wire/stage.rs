//! A simulated Slack for the tests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;

use hermes_adapter_sdk::protocol::ProxySettings;
use hermes_adapter_sdk::testing::{MockHost, Setup};
use hermes_adapter_slack::Slack;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{WebSocket, accept};

use crate::proxy::proxy;

pub type Peer = WebSocket<TcpStream>;

/// A request.
pub struct Asked {
    /// The request line, such as `POST /api/auth.test`.
    pub line: String,
    /// The headers in lower case.
    pub headers: String,
    pub body: Vec<u8>,
}

/// Returns a successful JSON response.
pub fn ok(mut answer: Value) -> (u16, Vec<u8>) {
    answer["ok"] = json!(true);
    (200, answer.to_string().into_bytes())
}

/// Starts an app in one workspace. `answer` answers its calls, and `play` simulates its socket; both receive the
/// address of the server.
pub fn app(
    setup: Setup,
    answer: impl Fn(&Asked, &str) -> (u16, Vec<u8>) + Send + Sync + 'static,
    play: impl Fn(&str, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    let http = TcpListener::bind("127.0.0.1:0").expect("a port");
    let sockets = TcpListener::bind("127.0.0.1:0").expect("a port");
    let names = [&http, &sockets].map(|server| server.local_addr().expect("an address").to_string());
    app_on(setup, [http, sockets], names, answer, play)
}

/// The same app, which reaches Slack and its socket only through an HTTP proxy; with the first line of each request to
/// that.
pub fn app_behind_a_proxy(
    answer: impl Fn(&Asked, &str) -> (u16, Vec<u8>) + Send + Sync + 'static,
    play: impl Fn(&str, &mut Peer) + Send + Sync + 'static,
) -> (MockHost, mpsc::Receiver<String>) {
    let http = TcpListener::bind("127.0.0.1:0").expect("a port");
    let sockets = TcpListener::bind("127.0.0.1:0").expect("a port");
    let [api, gateway] = [&http, &sockets].map(|server| server.local_addr().expect("an address").to_string());
    let (address, lines) = proxy(vec![("slack.invalid", api), ("socket.invalid", gateway)]);
    let mut settings = ProxySettings::default();
    settings.http = Some(address);
    let names = ["slack.invalid", "socket.invalid"].map(str::to_owned);
    (app_on(MockHost::setup("test").proxy(settings), [http, sockets], names, answer, play), lines)
}

/// The same app with servers of its own, which have these names: its API and its socket.
fn app_on(
    setup: Setup,
    [http, sockets]: [TcpListener; 2],
    [api, gateway]: [String; 2],
    answer: impl Fn(&Asked, &str) -> (u16, Vec<u8>) + Send + Sync + 'static,
    play: impl Fn(&str, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    let here = format!("http://{api}");
    let gateway = format!("ws://{gateway}/link/?ticket=t");
    let base = format!("{here}/api");
    let (answer, server) = (Arc::new(answer), here.clone());
    thread::spawn(move || {
        for stream in http.incoming().map_while(Result::ok) {
            let (answer, gateway, here) = (Arc::clone(&answer), gateway.clone(), server.clone());
            thread::spawn(move || {
                serve(stream, |asked| match asked.line.as_str() {
                    "POST /api/apps.connections.open" => ok(json!({ "url": gateway })),
                    _ => known(asked).unwrap_or_else(|| answer(asked, &here)),
                });
            });
        }
    });
    let play = Arc::new(play);
    thread::spawn(move || {
        for stream in sockets.incoming().map_while(Result::ok) {
            let (play, here) = (Arc::clone(&play), here.clone());
            thread::spawn(move || {
                let Ok(mut peer) = accept(stream) else { return };
                say(&mut peer, &json!({ "type": "hello" }));
                play(&here, &mut peer);
            });
        }
    });
    let config = json!({ "bot_token": "xoxb-1", "app_token": "xapp-1", "base_url": base, "connections": 1 });
    setup.start::<Slack>(config).expect("it starts")
}

/// Starts an app in one workspace for requests signed with `secret`.
pub fn served(setup: Setup, secret: &str) -> MockHost {
    let http = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}/api", http.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in http.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(stream, |asked| known(asked).unwrap_or_else(|| panic!("{}", asked.line))));
        }
    });
    let config = json!({ "bot_token": "xoxb-1", "signing_secret": secret, "listen": "127.0.0.1:0", "base_url": base });
    setup.start::<Slack>(config).expect("it starts")
}

/// Returns the common responses of every simulated Slack.
fn known(asked: &Asked) -> Option<(u16, Vec<u8>)> {
    let me = json!({ "team": "Acme", "team_id": "T1", "user": "hermes", "user_id": "UME", "bot_id": "BME" });
    match asked.line.as_str() {
        "POST /api/auth.test" => Some(ok(me)),
        "POST /api/users.info" => Some(ok(json!({ "user": { "name": "ada" } }))),
        "POST /api/conversations.info" => Some(ok(json!({ "channel": { "id": "C1", "name": "ops" } }))),
        _ => None,
    }
}

fn serve(mut stream: TcpStream, answer: impl Fn(&Asked) -> (u16, Vec<u8>)) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if !stream.read(&mut byte).is_ok_and(|read| read > 0) {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let headers = head.to_ascii_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let (status, body) = answer(&Asked { line, headers, body });
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.into_bytes(), body].concat());
}

pub fn say(peer: &mut Peer, message: &Value) {
    let _ = peer.send(message.to_string().into());
}

/// Delivers a message in `channel` with these files.
pub fn deliver(peer: &mut Peer, envelope: &str, channel: &str, text: &str, files: &[Value]) {
    let event = json!({
        "type": "message", "channel": channel, "user": "U1", "ts": format!("1700000000.{envelope}"), "text": text,
        "files": files,
    });
    let payload = json!({ "type": "event_callback", "team_id": "T1", "event": event });
    say(peer, &json!({ "type": "events_api", "envelope_id": envelope, "payload": payload }));
}

/// Returns the next acknowledged envelope id.
pub fn acknowledged(peer: &mut Peer) -> Option<String> {
    loop {
        let message = peer.read().ok()?;
        let Ok(text) = message.to_text() else { continue };
        let said: Option<Value> = serde_json::from_str(text).ok();
        if let Some(envelope) = said.as_ref().and_then(|said| said["envelope_id"].as_str()) {
            return Some(envelope.to_owned());
        }
    }
}

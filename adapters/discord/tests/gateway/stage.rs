//! A simulated Discord for the tests: its requests, and each connection to its gateway.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;

use hermes_adapter_discord::Discord;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::ProxySettings;
use hermes_adapter_sdk::testing::{MockHost, Setup};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{WebSocket, accept, protocol::CloseFrame};

use crate::proxy::proxy;

pub type Peer = WebSocket<TcpStream>;

pub fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// Starts a bot. `answer` answers its requests, and `play` simulates its gateway connections, counted from 0. `play`
/// receives the first message after the hello, and the address of the API as its `base`.
pub fn bot(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    bot_on(MockHost::setup("test"), answer, play)
}

/// Does the same with a given host.
pub fn bot_on(
    setup: Setup,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    bot_of(setup, || json!({ "shards": 1 }), answer, play)
}

/// Returns a host with a value stored by an earlier run.
pub fn kept(key: &'static str, value: Option<String>) -> Setup {
    MockHost::setup("test")
        .answer("kv.get", move |call| Ok(json!({ "value": value.as_ref().filter(|_| call["key"] == key) })))
}

/// Simulates a gateway that starts a session and sends no events.
pub fn quiet(_: usize, _: Value, peer: &mut Peer) {
    ready(peer, "");
    while peer.read().is_ok() {}
}

/// Simulates a gateway that starts a session and sends a command.
pub fn commanded(_: usize, _: Value, peer: &mut Peer) {
    ready(peer, "");
    command(peer, 2, "900");
    while peer.read().is_ok() {}
}

/// Does the same with the gateway's shards and limits from `wanted`.
pub fn bot_of(
    setup: Setup,
    wanted: impl Fn() -> Value + Send + Sync + 'static,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    made(setup, json!({}), wanted, move |line, _| answer(line), play)
}

/// Starts a bot with further keys of its configuration.
pub fn bot_configured(
    keys: Value,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    made(MockHost::setup("test"), keys, || json!({ "shards": 1 }), move |line, _| answer(line), play)
}

/// Starts a bot with a quiet gateway. `answer` answers its requests and also receives their bodies.
pub fn bot_asked(answer: impl Fn(&str, Value) -> (u16, Value) + Send + Sync + 'static) -> MockHost {
    made(MockHost::setup("test"), json!({}), || json!({ "shards": 1 }), answer, quiet)
}

/// A bot that reaches Discord and its gateway only through an HTTP proxy; with the first line of each request to that.
pub fn bot_behind_a_proxy(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> (MockHost, mpsc::Receiver<String>) {
    let ((http, api), (sockets, gateway)) = (listener(), listener());
    let (address, lines) = proxy(vec![("discord.invalid", api), ("gateway.invalid", gateway)]);
    let mut settings = ProxySettings::default();
    settings.http = Some(address);
    let setup = MockHost::setup("test").proxy(settings);
    let servers = Servers { http, base: "discord.invalid".to_owned(), sockets, gateway: "gateway.invalid".to_owned() };
    (made_on(setup, json!({}), servers, || json!({ "shards": 1 }), move |line, _| answer(line), play), lines)
}

/// The servers of a Discord, and their names.
struct Servers {
    http: TcpListener,
    base: String,
    sockets: TcpListener,
    gateway: String,
}

fn made(
    setup: Setup,
    keys: Value,
    wanted: impl Fn() -> Value + Send + Sync + 'static,
    answer: impl Fn(&str, Value) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    let ((http, base), (sockets, gateway)) = (listener(), listener());
    made_on(setup, keys, Servers { http, base, sockets, gateway }, wanted, answer, play)
}

fn made_on(
    setup: Setup,
    keys: Value,
    servers: Servers,
    wanted: impl Fn() -> Value + Send + Sync + 'static,
    answer: impl Fn(&str, Value) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + Sync + 'static,
) -> MockHost {
    let Servers { http, base, sockets, gateway } = servers;
    let here = format!("http://{base}");
    let answer = Arc::new(move |line: &str, body: Value| match line {
        "GET users/@me" => (200, json!({ "id": "42", "username": "hermes" })),
        "GET applications/@me" => (200, json!({ "id": "4200", "flags": 1 << 19 })),
        "GET gateway/bot" => {
            let mut told = wanted();
            told["url"] = json!(format!("ws://{gateway}"));
            (200, told)
        }
        line => answer(line, body),
    });
    thread::spawn(move || {
        for stream in http.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(stream, |line, body| answer(line, body)));
        }
    });
    let play = Arc::new(play);
    thread::spawn(move || {
        for (n, stream) in sockets.incoming().map_while(Result::ok).enumerate() {
            let (play, here) = (Arc::clone(&play), here.clone());
            thread::spawn(move || {
                let Ok(mut peer) = accept(stream) else { return };
                say(&mut peer, &json!({ "op": 10, "d": { "heartbeat_interval": 60_000 } }));
                if let Some(mut first) = heard(&mut peer) {
                    first["base"] = json!(here);
                    play(n, first, &mut peer);
                }
            });
        }
    });
    let mut config = json!({ "token": "NDI.A.B", "base_url": format!("http://{base}/api/v10") });
    config.as_object_mut().expect("it is an object").extend(keys.as_object().cloned().unwrap_or_default());
    setup.start::<Discord>(config).expect("it starts")
}

fn serve(mut stream: TcpStream, answer: impl Fn(&str, Value) -> (u16, Value)) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = stream.read_exact(&mut body);
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").replace("/api/v10/", "");
    let (code, body) = answer(&line, body);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all((head + &body).as_bytes());
}

pub fn say(peer: &mut Peer, payload: &Value) {
    let _ = peer.send(payload.to_string().into());
}

/// Returns the next message other than a heartbeat; `None`: the connection has ended.
pub fn heard(peer: &mut Peer) -> Option<Value> {
    loop {
        let payload: Value = serde_json::from_str(peer.read().ok()?.to_text().ok()?).ok()?;
        if payload["op"] != 1 {
            return Some(payload);
        }
    }
}

pub fn ready(peer: &mut Peer, resumed_at: &str) {
    let data = json!({ "session_id": "S", "resume_gateway_url": resumed_at });
    say(peer, &json!({ "op": 0, "s": 1, "t": "READY", "d": data }));
}

/// Sends a message in a guild; with `role` it mentions a role.
pub fn tell(peer: &mut Peer, seq: u64, text: &str, role: Option<&str>) {
    let message = json!({
        "id": (1000 + seq).to_string(), "channel_id": "10", "guild_id": "1", "type": 0, "content": text,
        "author": { "id": "7", "username": "ada" }, "mentions": [], "mention_roles": role.into_iter().collect::<Vec<_>>(),
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": message }));
}

/// Sends a command in a guild.
pub fn command(peer: &mut Peer, seq: u64, id: &str) {
    let interaction = json!({
        "id": id, "type": 2, "token": "T", "guild_id": "1", "data": { "name": "help" },
        "channel": { "id": "10", "type": 0 }, "member": { "user": { "id": "7", "username": "ada" } },
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "INTERACTION_CREATE", "d": interaction }));
}

/// Sends a message with one file.
pub fn tell_file(peer: &mut Peer, seq: u64, url: &str) {
    let message = json!({
        "id": (1000 + seq).to_string(), "channel_id": "10", "guild_id": "1", "type": 0, "content": "look",
        "author": { "id": "7", "username": "ada" },
        "attachments": [{ "id": "5", "filename": "a", "url": url, "size": 8 }],
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": message }));
}

/// Sends a message in a guild that mentions the bot.
pub fn call(peer: &mut Peer, seq: u64) {
    let message = json!({
        "id": (1000 + seq).to_string(), "channel_id": "10", "guild_id": "1", "type": 0, "content": "<@42> hello",
        "author": { "id": "7", "username": "ada" }, "mentions": [{ "id": "42", "username": "hermes" }],
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": message }));
}

pub fn answer_to(event: Event, inbox: i64, text: &str) -> Outgoing {
    let mut outgoing = Outgoing::text(event.chat, text);
    outgoing.in_reply_to = Some(inbox);
    outgoing
}

pub const CHANNEL: &str = "GET channels/10";

pub fn channel() -> (u16, Value) {
    (200, json!({ "id": "10", "type": 0, "guild_id": "1" }))
}

/// Closes the connection, and waits until the other side has ended it.
pub fn close(peer: &mut Peer, code: u16) {
    let _ = peer.close(Some(CloseFrame { code: code.into(), reason: "".into() }));
    while peer.read().is_ok() {}
}

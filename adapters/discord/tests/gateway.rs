//! What becomes of a session whose connection ends, and of what was told before.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, mpsc};
use std::thread;

use hermes_adapter_discord::Discord;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, status};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{WebSocket, accept, protocol::CloseFrame};

type Peer = WebSocket<TcpStream>;

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// A bot whose requests are answered by `answer`, and whose connections to the gateway, counted from 0, are played by
/// `play`, which is told the first word after the hello, and as its `base` where the API is.
fn bot(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    play: impl Fn(usize, Value, &mut Peer) + Send + 'static,
) -> MockHost {
    let ((http, base), (gateway, address)) = (listener(), listener());
    let here = format!("http://{base}");
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for stream in http.incoming().map_while(Result::ok) {
            let (answer, address) = (std::sync::Arc::clone(&answer), address.clone());
            thread::spawn(move || {
                serve(stream, |line| match line {
                    "GET users/@me" => (200, json!({ "id": "42", "username": "hermes" })),
                    "GET applications/@me" => (200, json!({ "id": "4200", "flags": 1 << 19 })),
                    "GET gateway/bot" => (200, json!({ "url": format!("ws://{address}"), "shards": 1 })),
                    line => answer(line),
                });
            });
        }
    });
    thread::spawn(move || {
        for (n, stream) in gateway.incoming().map_while(Result::ok).enumerate() {
            let Ok(mut peer) = accept(stream) else { continue };
            say(&mut peer, &json!({ "op": 10, "d": { "heartbeat_interval": 60_000 } }));
            if let Some(mut first) = heard(&mut peer) {
                first["base"] = json!(here);
                play(n, first, &mut peer);
            }
        }
    });
    let config = json!({ "token": "NDI.A.B", "base_url": format!("http://{base}/api/v10") });
    MockHost::start::<Discord>(config).expect("it starts")
}

fn serve(mut stream: TcpStream, answer: impl Fn(&str) -> (u16, Value)) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let _ = stream.read_exact(&mut vec![0; length.unwrap_or(0)]);
    let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").replace("/api/v10/", "");
    let (code, body) = answer(&line);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all((head + &body).as_bytes());
}

fn say(peer: &mut Peer, payload: &Value) {
    let _ = peer.send(payload.to_string().into());
}

/// The next word that is no heartbeat; `None`: the connection has ended.
fn heard(peer: &mut Peer) -> Option<Value> {
    loop {
        let payload: Value = serde_json::from_str(peer.read().ok()?.to_text().ok()?).ok()?;
        if payload["op"] != 1 {
            return Some(payload);
        }
    }
}

fn ready(peer: &mut Peer, resumed_at: &str) {
    let data = json!({ "session_id": "S", "resume_gateway_url": resumed_at });
    say(peer, &json!({ "op": 0, "s": 1, "t": "READY", "d": data }));
}

/// Tells a message in a guild; `role`: it calls one.
fn tell(peer: &mut Peer, seq: u64, text: &str, role: Option<&str>) {
    let message = json!({
        "id": (1000 + seq).to_string(), "channel_id": "10", "guild_id": "1", "type": 0, "content": text,
        "author": { "id": "7", "username": "ada" }, "mentions": [], "mention_roles": role.into_iter().collect::<Vec<_>>(),
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": message }));
}

/// Ends the connection, and waits until the other side has it.
fn close(peer: &mut Peer, code: u16) {
    let _ = peer.close(Some(CloseFrame { code: code.into(), reason: "".into() }));
    while peer.read().is_ok() {}
}

#[test]
fn what_was_told_before_the_session_ended_is_taken_in() {
    let (ended, is_over) = mpsc::channel();
    let is_over = Mutex::new(is_over);
    let host = bot(
        move |line| match line {
            "GET channels/10" => (200, json!({ "id": "10", "type": 0, "guild_id": "1" })),
            // The first message is taken in until the session is over.
            "GET guilds/1/roles" => {
                let _ = is_over.lock().expect("nobody panicked").recv();
                (200, json!([]))
            }
            line => panic!("nobody asks for {line}"),
        },
        move |n, _, peer| {
            if n == 0 {
                ready(peer, "");
                tell(peer, 2, "one", Some("9"));
                tell(peer, 3, "two", None);
                tell(peer, 4, "three", None);
                let _ = peer.close(Some(CloseFrame { code: 4009.into(), reason: "".into() }));
                let _ = ended.send(());
                while peer.read().is_ok() {}
            }
        },
    );
    host.connect().expect("it comes up");
    let answer = host.run().wait();
    assert_ne!(answer.status, status::OK, "the link is lost");
    let texts: Vec<String> = host.emitted().into_iter().map(|event| event.text).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    assert_eq!(host.kv("session:0"), None, "the session is over");
}

#[test]
fn a_session_whose_own_address_is_dead_is_resumed_at_the_gateways_and_not_for_ever() {
    let (tell, told) = mpsc::channel();
    let host = bot(
        |line| panic!("nobody asks for {line}"),
        move |n, first, peer| {
            let _ = tell.send(first["op"].as_u64());
            match n {
                0 => {
                    let (_, dead) = listener();
                    ready(peer, &format!("ws://{dead}"));
                    close(peer, 1001);
                }
                // Resumed, and away again.
                1 => {
                    say(peer, &json!({ "op": 0, "s": 2, "t": "RESUMED", "d": {} }));
                    close(peer, 4000);
                }
                _ => close(peer, 4000),
            }
        },
    );
    host.connect().expect("it comes up");
    host.run().wait();
    assert!(host.connect().is_err(), "nobody is there");
    host.connect().expect("it is resumed at the gateway's address");
    host.run().wait();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Some(2), Some(6)]);
    for _ in 0..8 {
        assert!(host.connect().is_err(), "the session cannot be gone on with");
    }
    assert!(host.connect().is_err());
    let words: Vec<_> = told.try_iter().collect();
    assert_eq!(words, [vec![Some(6); 7], vec![Some(2)]].concat(), "the first failure was at its own address");
}

#[test]
fn an_answer_that_is_for_one_person_never_goes_to_the_channel() {
    let (asked, requests) = mpsc::channel();
    let host = bot(
        move |line| {
            let _ = asked.send(line.to_owned());
            match line {
                "POST users/@me/channels" => (200, json!({ "id": "77", "type": 1 })),
                "POST channels/77/messages" => (200, json!({ "id": "500" })),
                // The acknowledgement comes too late.
                _ => (404, json!({ "code": 10062, "message": "Unknown interaction" })),
            }
        },
        |_, _, peer| {
            ready(peer, "");
            let interaction = json!({
                "id": "900", "type": 2, "token": "T", "guild_id": "1", "data": { "name": "help" },
                "channel": { "id": "10", "type": 0 }, "member": { "user": { "id": "7", "username": "ada" } },
            });
            say(peer, &json!({ "op": 0, "s": 2, "t": "INTERACTION_CREATE", "d": interaction }));
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let event = host.next_event();
    let mut outgoing = Outgoing::text(event.chat, "a secret");
    outgoing.in_reply_to = Some(1);
    let sent = host.send(&outgoing);
    assert!(matches!(sent, SendOutcome::Delivered { .. }), "{sent:?}");
    let asked: Vec<String> = requests.try_iter().collect();
    assert_eq!(asked, ["POST interactions/900/T/callback", "POST users/@me/channels", "POST channels/77/messages"]);
}

#[test]
fn files_of_one_message_are_fetched_at_the_same_time_and_stay_in_order() {
    // Each file comes only when both are asked for.
    let both = std::sync::Barrier::new(2);
    let host = bot(
        move |line| match line {
            "GET channels/10" => (200, json!({ "id": "10", "type": 0, "guild_id": "1" })),
            _ => {
                both.wait();
                (200, json!("a file"))
            }
        },
        |_, first, peer| {
            ready(peer, "");
            let file = |name: &str| {
                let url = format!("{}/{name}", first["base"].as_str().expect("an address"));
                json!({ "id": "5", "filename": name, "url": url, "size": 8 })
            };
            let message = json!({
                "id": "1002", "channel_id": "10", "guild_id": "1", "type": 0, "content": "look",
                "author": { "id": "7", "username": "ada" }, "attachments": [file("a"), file("b")],
            });
            say(peer, &json!({ "op": 0, "s": 2, "t": "MESSAGE_CREATE", "d": message }));
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let files = json!(host.next_event().attachments);
    assert_eq!((&files[0]["name"], &files[1]["name"]), (&json!("a"), &json!("b")));
    // They came: that they cannot be kept is said by a host without a place for them.
    assert!([0, 1].iter().all(|n| files[n]["note"].to_string().contains("media_dir")), "{files}");
}

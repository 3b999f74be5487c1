//! Tests of sessions whose connection ends, and of the events received before.

use std::sync::{Mutex, mpsc};

use hermes_adapter_sdk::protocol::{Attachment, AttachmentKind, FetchCall};
use hermes_adapter_sdk::testing::status;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::stage::*;

#[test]
fn what_was_told_before_the_session_ended_is_taken_in() {
    let (ended, is_over) = mpsc::channel();
    let is_over = Mutex::new(is_over);
    let host = bot(
        move |line| match line {
            "GET channels/10" => (200, json!({ "id": "10", "type": 0, "guild_id": "1" })),
            // The first message is processed until the session has ended.
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
                // Resumed, and closed again.
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
fn a_resume_that_is_answered_with_a_goodbye_twice_begins_anew() {
    for code in [1000, 1001] {
        let (tell, told) = mpsc::channel();
        let host = bot(
            |line| panic!("nobody asks for {line}"),
            move |n, first, peer| {
                let _ = tell.send(first["op"].as_u64());
                if n == 0 || n == 3 {
                    ready(peer, "");
                }
                close(peer, code);
            },
        );
        host.connect().expect("it comes up");
        host.run().wait();
        for _ in 0..2 {
            assert!(host.connect().is_err(), "the gateway says goodbye");
        }
        assert_eq!(host.kv("session:0"), None, "the session is given up");
        host.connect().expect("a new one is begun");
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [Some(2), Some(6), Some(6), Some(2)], "{code}");
    }
}

#[test]
fn a_session_that_the_gateway_calls_invalid_is_resumed_or_begun_anew_as_it_says() {
    let (tell, told) = mpsc::channel();
    let invalid = |peer: &mut Peer, resumable: bool| say(peer, &json!({ "op": 9, "d": resumable }));
    let host = bot(
        |_| channel(),
        move |n, first, peer| {
            let _ = tell.send((first["op"].as_u64(), first["d"]["session_id"].as_str().map(str::to_owned)));
            match n {
                // The session is valid and can be resumed.
                0 => {
                    ready(peer, "");
                    invalid(peer, true);
                    assert_eq!(closed_with(peer), Some(4900), "a goodbye would end the session");
                }
                // The session is resumed, and then ends: the earlier events are processed.
                1 => {
                    tell_more(peer, 2);
                    invalid(peer, false);
                }
                2 => {
                    ready(peer, "");
                    close(peer, 4000);
                }
                // The answer to a resume: the same `connect` starts a new session on a new connection.
                3 => invalid(peer, false),
                4 => {
                    ready(peer, "");
                    tell_more(peer, 4);
                    close(peer, 4009);
                }
                // The answer to a new session: too many were started.
                5 => invalid(peer, false),
                _ => close(peer, 4000),
            }
            while peer.read().is_ok() {}
        },
    );
    for _ in 0..4 {
        host.connect().expect("it comes up");
        host.run().wait();
    }
    assert!(host.connect().is_err(), "there is no session now");
    let texts: Vec<String> = host.emitted().into_iter().map(|event| event.text).collect();
    assert_eq!(texts, ["more 2", "more 4"]);
    let resumed = || (Some(6), Some("S".to_owned()));
    let begun = || (Some(2), None);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [begun(), resumed(), begun(), resumed(), begun(), begun()],);
    assert_eq!(host.kv("session:0"), None);
}

fn tell_more(peer: &mut Peer, seq: u64) {
    tell(peer, seq, &format!("more {seq}"), None);
}

/// Returns the close code of the other side.
fn closed_with(peer: &mut Peer) -> Option<u16> {
    loop {
        if let Message::Close(frame) = peer.read().ok()? {
            return frame.map(|frame| frame.code.into());
        }
    }
}

#[test]
fn a_file_is_fetched_once_the_host_asks_where_its_message_says_that_it_lies_now() {
    let (asked, lines) = mpsc::channel();
    let host = bot(
        move |line| {
            let _ = asked.send(line.to_owned());
            let moved = |id: &str| json!({ "id": id, "url": "http://127.0.0.1:1/elsewhere", "filename": "a" });
            match line {
                "GET channels/10" => (200, json!({ "id": "10", "type": 0, "guild_id": "1" })),
                "GET channels/10/messages/1002" => (
                    200,
                    json!({ "id": "1002", "channel_id": "10", "type": 0, "content": "", "attachments": [moved("6")] }),
                ),
                line if line.ends_with("here") => (200, json!("a file")),
                _ => (404, json!("This content is no longer available.")),
            }
        },
        |_, first, peer| {
            ready(peer, "");
            let file = |id: &str, name: &str| {
                let url = format!("{}/{name}", first["base"].as_str().expect("an address"));
                json!({ "id": id, "filename": name, "url": url, "size": 8 })
            };
            let message = json!({
                "id": "1002", "channel_id": "10", "guild_id": "1", "type": 0, "content": "look",
                "author": { "id": "7", "username": "ada" },
                "attachments": [file("5", "here"), file("6", "moved"), file("7", "gone")],
            });
            say(peer, &json!({ "op": 0, "s": 2, "t": "MESSAGE_CREATE", "d": message }));
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let files = host.next_event().attachments;
    let was_asked = |lines: &mpsc::Receiver<String>, name: &str| lines.try_iter().any(|line| line.ends_with(name));
    assert!(!was_asked(&lines, "here"), "the host has the event first");
    let note = |n: usize| {
        let answer = host.call("fetch", &FetchCall::new(files[n].clone(), 30_000)).wait().ok::<Attachment>();
        answer.note.unwrap_or_default()
    };
    // The file arrived; a host without a media folder reports that it cannot store it.
    assert!(note(0).contains("media_dir"), "{}", note(0));
    let moved = note(1);
    assert!(moved.contains("is not allowed") && was_asked(&lines, "messages/1002"), "{moved}");
    assert_eq!(note(2), "the server responded with status 404");
    let unknown = Attachment::away("nonsense", AttachmentKind::File, "a/b", "x", 0);
    let answer = host.call("fetch", &FetchCall::new(unknown, 30_000)).wait().ok::<Attachment>();
    assert_eq!(answer.note.as_deref(), Some("the location of the file is no longer known"));
}

#[test]
fn a_gateway_without_tls_is_reached_through_an_http_proxy() {
    let (host, lines) = bot_behind_a_proxy(
        |line| match line {
            CHANNEL => channel(),
            line => panic!("nobody asks for {line}"),
        },
        |_, _, peer| {
            ready(peer, "");
            tell(peer, 2, "hello", None);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let running = host.run();
    assert_eq!(host.next_event().text, "hello");
    drop(running);
    let lines: Vec<String> = lines.try_iter().collect();
    assert!(lines.iter().any(|line| line == "CONNECT gateway.invalid:80 HTTP/1.1"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("GET http://discord.invalid/api/v10/users/@me ")), "{lines:?}");
}

//! Tests of closed sockets, and of messages that are not deliveries.

use std::sync::mpsc;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, status};
use serde_json::{Value, json};

use crate::stage::*;

#[test]
fn what_the_socket_says_that_is_no_delivery_is_left_out_and_the_next_message_comes() {
    let host = app(
        MockHost::setup("test"),
        |asked, _| panic!("nobody asks for {}", asked.line),
        |_, peer| {
            let event = |event: Value| json!({ "type": "event_callback", "team_id": "T1", "event": event });
            let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
            for (n, payload) in [
                Value::Null,
                json!([]),
                json!({ "team_id": "T1" }),
                json!({ "team_id": "another", "event": { "type": "message" } }),
                event(json!({ "type": "message", "channel": ["C1"], "ts": 7 })),
                event(json!({ "type": "message", "channel": "C1", "user": "U1", "ts": "now", "text": "x" })),
                event(json!({ "type": "message", "subtype": "message_changed", "channel": "C1" })),
                event(json!({ "type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": "1.2" })),
                event(json!({ "type": "message", "channel": "C1", "user": "U1", "ts": "1.2", "message": deep })),
                event(json!({ "type": "reaction_added", "user": "U1", "item": {}, "reaction": "eyes" })),
            ]
            .into_iter()
            .enumerate()
            {
                say(peer, &json!({ "type": "events_api", "envelope_id": format!("odd-{n}"), "payload": payload }));
                assert_eq!(acknowledged(peer), Some(format!("odd-{n}")), "else it comes for ever: {payload}");
            }
            for odd in
                [json!(7), json!({ "type": "events_api" }), json!({ "type": "something_new", "envelope_id": "1" })]
            {
                say(peer, &odd);
            }
            for (kind, payload) in
                [("slash_commands", json!({ "team_id": "T1" })), ("interactive", json!({ "team": { "id": "T1" } }))]
            {
                say(peer, &json!({ "type": kind, "envelope_id": kind, "payload": payload }));
                assert_eq!(acknowledged(peer).as_deref(), Some(kind));
            }
            deliver(peer, "100", "C1", "after all that", &[]);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!(host.next_event().text, "after all that");
    assert_eq!(host.emitted().len(), 1);
}

#[test]
fn a_socket_that_is_to_be_renewed_is_read_to_its_end_and_nothing_is_told_twice() {
    let (tell, told) = mpsc::channel();
    let opened = std::sync::atomic::AtomicUsize::new(0);
    let host = app(
        MockHost::setup("test"),
        |asked, _| panic!("nobody asks for {}", asked.line),
        move |_, peer| {
            let n = opened.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let _ = tell.send(n);
            if n == 0 {
                say(peer, &json!({ "type": "disconnect", "reason": "warning", "debug_info": { "host": "x" } }));
                // Deliveries arrive on the old socket before and after the new one is open.
                deliver(peer, "100", "C1", "on the old one", &[]);
                say(peer, &json!({ "type": "disconnect", "reason": "refresh_requested" }));
            } else {
                deliver(peer, "100", "C1", "on the old one", &[]);
                deliver(peer, "101", "C1", "on the new one", &[]);
            }
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!([host.next_event().text, host.next_event().text], ["on the old one", "on the new one"]);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1], "the second farewell is the same one");
}

#[test]
fn a_farewell_that_needs_a_person_ends_the_link_and_one_for_too_many_sockets_has_its_wait() {
    for (reason, fatal) in [("link_disabled", true), ("too_many_websockets", false)] {
        let host = app(
            MockHost::setup("test"),
            |asked, _| panic!("nobody asks for {}", asked.line),
            move |_, peer| {
                say(peer, &json!({ "type": "disconnect", "reason": reason }));
                while peer.read().is_ok() {}
            },
        );
        host.connect().expect("it comes up");
        let answer = host.run().wait();
        assert_ne!(answer.status, status::OK);
        match (answer.json(), fatal) {
            (ConnectError::Fatal { mend, .. }, true) => assert!(mend.contains("Socket Mode"), "{mend}"),
            (ConnectError::Retry { after_ms: Some(30_000), .. }, false) => {}
            (other, _) => panic!("{reason}: {other:?}"),
        }
    }
}

#[test]
fn an_answer_that_is_well_and_says_nothing_is_no_message_that_arrived() {
    let (next, answers) = mpsc::channel::<(u16, Vec<u8>)>();
    let answers = std::sync::Mutex::new(answers);
    let host = app(
        MockHost::setup("test"),
        move |asked, _| {
            assert_eq!(asked.line, "POST /api/chat.postMessage");
            answers.lock().expect("nobody panicked").recv().expect("there is one")
        },
        |_, peer| while peer.read().is_ok() {},
    );
    host.connect().expect("it comes up");
    let outgoing = Outgoing::text(Chat::new(ChatType::Group, "T1/C1"), "hello");
    for (code, body) in [
        (200, "{}"),
        (200, "[]"),
        (200, r#"{"ok":"yes"}"#),
        (200, r#"{"ok":true,"ts":7}"#),
        (200, r#"{"ok":false,"error":{}}"#),
        (200, "<html>"),
        (302, ""),
        (502, "<html>"),
    ] {
        next.send((code, body.as_bytes().to_vec())).expect("somebody listens");
        let sent = host.send(&outgoing);
        assert!(matches!(sent, SendOutcome::Unknown { .. }), "{code} {body}: {sent:?}");
    }
    for body in [r#"{"ok":true}"#, r#"{"ok":true,"ts":"","message_ts":"now"}"#] {
        next.send((200, body.as_bytes().to_vec())).expect("somebody listens");
        let SendOutcome::Delivered { receipt } = host.send(&outgoing) else { panic!("Slack says that it is there") };
        assert!(receipt.message_ids.is_empty(), "no message has such a name: {receipt:?}");
    }
}

#[test]
fn a_socket_without_tls_is_reached_through_an_http_proxy() {
    let (host, lines) = app_behind_a_proxy(
        |asked, _| panic!("nobody asks for {}", asked.line),
        |_, peer| {
            deliver(peer, "100", "D1", "hello", &[]);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let running = host.run();
    assert_eq!(host.next_event().text, "hello");
    drop(running);
    let lines: Vec<String> = lines.try_iter().collect();
    assert!(lines.iter().any(|line| line == "CONNECT socket.invalid:80 HTTP/1.1"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("POST http://slack.invalid/api/auth.test ")), "{lines:?}");
}

#[test]
fn a_direct_message_begins_no_thread_unless_the_operator_wants_it() {
    let host = app(
        MockHost::setup("test"),
        |asked, _| panic!("nobody asks for {}", asked.line),
        |_, peer| {
            deliver(peer, "100", "D1", "one", &[]);
            let event = json!({
                "type": "message", "channel": "D1", "user": "U1", "ts": "1700000000.101", "text": "two",
                "thread_ts": "1700000000.100",
            });
            let payload = json!({ "type": "event_callback", "team_id": "T1", "event": event });
            say(peer, &json!({ "type": "events_api", "envelope_id": "101", "payload": payload }));
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let running = host.run();
    let threads = [host.next_event(), host.next_event()].map(|event| event.chat.thread);
    assert_eq!(threads, [None, Some("1700000000.100".to_owned())], "the person's own thread is one");
    drop(running);
    let schema = MockHost::config_schema::<hermes_adapter_slack::Slack>();
    assert_eq!(schema["properties"]["dm_threads"]["default"], false, "the operator can turn it on");
}

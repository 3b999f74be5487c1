//! Tests of sending during other slow operations, and of messages known to have arrived.

use std::sync::{Mutex, mpsc};

use hermes_adapter_sdk::prelude::*;
use serde_json::json;

use crate::stage::*;

#[test]
fn a_thread_that_is_slow_to_open_holds_up_no_other_message() {
    let (go, wait) = mpsc::channel::<()>();
    let (asked, requests) = mpsc::channel();
    let (next, told) = mpsc::channel();
    let (wait, told) = (Mutex::new(wait), Mutex::new(told));
    let host = bot(
        move |line| match line {
            "POST channels/10/messages/1002/threads" => {
                let _ = asked.send(());
                let _ = wait.lock().expect("nobody panicked").recv();
                (201, json!({ "id": "1002", "type": 11, "parent_id": "10" }))
            }
            "POST channels/1002/messages" => (200, json!({ "id": "500" })),
            _ => channel(),
        },
        move |_, _, peer| {
            ready(peer, "");
            call(peer, 2);
            let _ = told.lock().expect("nobody panicked").recv();
            call(peer, 3);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let first = host.next_event();
    assert_eq!(first.chat.thread.as_deref(), Some("1002"));
    let answer = host.call("send", &answer_to(first, 1, "hello"));
    requests.recv().expect("the thread is asked for");
    let _ = next.send(());
    let second = host.next_event();
    assert_eq!(second.chat.thread.as_deref(), Some("1003"));
    drop(go);
    assert!(matches!(answer.wait().ok::<SendOutcome>(), SendOutcome::Delivered { .. }));
}

#[test]
fn a_message_that_is_known_to_have_arrived_is_not_said_again_however_late_it_is_asked_for() {
    let host = bot(
        |line| match line {
            CHANNEL => channel(),
            "GET users/@me" => (200, json!({})),
            line => panic!("nobody asks for {line}"),
        },
        |_, _, peer| {
            ready(peer, "");
            let echo = json!({
                "id": "175928847299117063", "channel_id": "10", "guild_id": "1", "type": 0, "content": "hello",
                "author": { "id": "42", "username": "hermes" }, "nonce": "k1",
            });
            say(peer, &json!({ "op": 0, "s": 2, "t": "MESSAGE_CREATE", "d": echo }));
            tell(peer, 3, "and?", None);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!(host.next_event().text, "and?", "its own words are no event");
    let mut again = Outgoing::text(Chat::new(ChatType::Group, "10"), "hello");
    again.key = "k1".into();
    let SendOutcome::Delivered { receipt } = host.send(&again) else { panic!("it is there already") };
    assert_eq!((receipt.message_ids, receipt.at_ms), (vec!["175928847299117063".to_owned()], 1_462_015_105_796));
}

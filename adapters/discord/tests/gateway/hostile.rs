//! Tests with invalid messages of the gateway and invalid responses of the API.

use std::sync::mpsc;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::status;
use serde_json::{Value, json};

use crate::stage::*;

#[test]
fn what_the_gateway_says_that_is_no_event_is_left_out_and_the_next_message_comes() {
    let host = bot(
        |line| match line {
            CHANNEL => channel(),
            line => panic!("nobody asks for {line}"),
        },
        |_, _, peer| {
            ready(peer, "");
            let message = |more: Value| {
                let mut message = json!({ "id": "1002", "channel_id": "10", "guild_id": "1", "content": "x" });
                message["author"] = json!({ "id": "7", "username": "ada" });
                message.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
                message
            };
            let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
            for (name, data) in [
                ("MESSAGE_CREATE", message(json!({ "channel_id": "../users/@me" }))),
                ("MESSAGE_CREATE", message(json!({ "id": "x" }))),
                ("MESSAGE_CREATE", message(json!({ "author": null }))),
                ("MESSAGE_CREATE", message(json!({ "content": 7 }))),
                ("MESSAGE_CREATE", json!([])),
                ("MESSAGE_UPDATE", message(json!({ "edited_timestamp": [] }))),
                ("INTERACTION_CREATE", json!({ "id": "1", "type": 2, "token": "../x", "channel_id": "10" })),
                ("INTERACTION_CREATE", json!({ "id": "1", "type": 2, "token": "T", "channel_id": "../x" })),
                ("INTERACTION_CREATE", json!({ "id": "1", "type": 3, "token": "T", "channel_id": "10", "data": deep })),
                ("GUILD_CREATE", json!({ "id": 1, "channels": {}, "roles": "none" })),
                ("THREAD_UPDATE", json!({ "id": "10", "type": -1 })),
                ("SOMETHING_NEW", Value::Null),
            ] {
                say(peer, &json!({ "op": 0, "s": 2, "t": name, "d": data }));
            }
            for odd in [json!({ "op": 0 }), json!({ "op": 0, "s": 3, "t": null }), json!({ "op": 200, "d": {} })] {
                say(peer, &odd);
            }
            tell(peer, 4, "after all that", None);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!(host.next_event().text, "after all that");
    assert_eq!(host.emitted().len(), 1);
}

#[test]
fn an_event_whose_number_is_older_or_far_ahead_takes_no_later_one_with_it() {
    let host = bot(
        |_| channel(),
        |_, _, peer| {
            ready(peer, "");
            for (seq, text) in [(9, "first"), (3, "older"), (1 << 40, "far ahead"), (4, "and on")] {
                tell(peer, seq, text, None);
            }
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!([0; 4].map(|_| host.next_event().text), ["first", "older", "far ahead", "and on"]);
}

#[test]
fn a_channel_about_which_the_server_never_tells_holds_up_the_others_not_for_ever() {
    let host = bot(
        |_| (500, json!({})),
        |n, _, peer| {
            if n == 0 {
                ready(peer, "");
            } else {
                say(peer, &json!({ "op": 0, "s": 2, "t": "RESUMED", "d": {} }));
            }
            tell(peer, 3, "from where nobody knows", None);
            tell(peer, 4, "and on", None);
            while peer.read().is_ok() {}
        },
    );
    for _ in 0..4 {
        host.connect().expect("it comes up");
        let answer = host.run().wait();
        assert_ne!(answer.status, status::OK, "rather once more than into another conversation");
        assert!(matches!(answer.json(), ConnectError::Retry { .. }));
    }
    assert!(host.emitted().is_empty());
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!([host.next_event().text, host.next_event().text], ["from where nobody knows", "and on"]);
}

#[test]
fn a_send_that_is_answered_with_what_no_message_is_was_not_surely_said() {
    let (next, answers) = mpsc::channel();
    let answers = std::sync::Mutex::new(answers);
    let host = bot(
        move |line| match line {
            "POST channels/10/messages" => answers.lock().expect("nobody panicked").recv().expect("there is one"),
            line => panic!("nobody asks for {line}"),
        },
        quiet,
    );
    host.connect().expect("it comes up");
    let outgoing = Outgoing::text(Chat::new(ChatType::Group, "10"), "hello");
    for (code, body) in [
        (200, json!({ "code": 50013, "message": "Missing Permissions" })),
        (200, json!("an error, said nicely")),
        (200, json!([])),
        (200, json!({ "id": 7 })),
        (302, json!({})),
        (500, json!({ "id": "5" })),
    ] {
        next.send((code, body.clone())).expect("somebody listens");
        let sent = host.send(&outgoing);
        assert!(matches!(sent, SendOutcome::Unknown { keyless: false, .. }), "{code} {body}: {sent:?}");
    }
    for code in [400, 403, 404] {
        next.send((code, json!("<html>"))).expect("somebody listens");
        let sent = host.send(&outgoing);
        assert!(
            matches!(sent, SendOutcome::NotSent { .. }),
            "what stands before Discord says nothing about the chat: {sent:?}"
        );
    }
}

//! Tests of commands: the time of their acknowledgement, and the visibility of their answers.

use std::sync::{Mutex, mpsc};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::MockHost;
use serde_json::{Value, json};

use crate::stage::*;

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
        commanded,
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let sent = host.send(&answer_to(host.next_event(), 1, "a secret"));
    assert!(matches!(sent, SendOutcome::Delivered { .. }), "{sent:?}");
    let asked: Vec<String> = requests.try_iter().collect();
    assert_eq!(asked, ["POST interactions/900/T/callback", "POST users/@me/channels", "POST channels/77/messages"]);
}

#[test]
fn a_command_is_acknowledged_while_the_channel_of_a_message_before_it_is_asked_about() {
    let (acknowledge, acknowledged) = mpsc::channel();
    let acknowledged = Mutex::new(acknowledged);
    let host = bot(
        move |line| match line {
            "POST interactions/900/T/callback" => {
                let _ = acknowledge.send(());
                (204, Value::Null)
            }
            // Answers after the command was acknowledged.
            CHANNEL => {
                let _ = acknowledged.lock().expect("nobody panicked").recv();
                channel()
            }
            line => panic!("nobody asks for {line}"),
        },
        |_, first, peer| {
            ready(peer, "");
            tell_file(peer, 2, &format!("{}/a", first["base"].as_str().expect("an address")));
            command(peer, 3, "900");
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let (message, command) = (host.next_event(), host.next_event());
    assert_eq!((message.text.as_str(), command.text.as_str()), ("look", "/help"));
    assert!(message.attachments[0].fetch.is_some(), "its file waits until the host asks for it");
}

#[test]
fn an_acknowledgement_that_takes_its_time_holds_up_its_own_answer_and_no_other() {
    let (send, sent) = mpsc::channel();
    let sent = Mutex::new(sent);
    let (asked, requests) = mpsc::channel();
    let host = bot(
        move |line| {
            let _ = asked.send(line.to_owned());
            match line {
                // Ends after another answer was sent.
                "POST interactions/900/T/callback" => {
                    let _ = sent.lock().expect("nobody panicked").recv();
                    (204, Value::Null)
                }
                "POST channels/11/messages" => {
                    let _ = send.send(());
                    (200, json!({ "id": "500" }))
                }
                "PATCH webhooks/4200/T/messages/@original" => (200, json!({ "id": "501" })),
                line => panic!("nobody asks for {line}"),
            }
        },
        commanded,
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let answer = host.call("send", &answer_to(host.next_event(), 1, "a secret"));
    let mut other = Outgoing::text(Chat::new(ChatType::Group, "11"), "hello");
    other.in_reply_to = Some(7);
    assert!(matches!(host.send(&other), SendOutcome::Delivered { .. }));
    assert!(matches!(answer.wait().ok::<SendOutcome>(), SendOutcome::Delivered { .. }));
    let mut asked: Vec<String> = requests.try_iter().collect();
    assert_eq!(asked.pop().as_deref(), Some("PATCH webhooks/4200/T/messages/@original"));
    // These two requests run in parallel.
    asked.sort();
    assert_eq!(asked, ["POST channels/11/messages", "POST interactions/900/T/callback"]);
}

#[test]
fn who_dies_while_a_command_is_handed_over_still_answers_it_to_one_person_only() {
    let first = bot_on(MockHost::setup("test").hold("emit"), |_| (204, Value::Null), commanded);
    first.connect().expect("it comes up");
    let run = first.run();
    // The host has the event, and the process ends before it learns that.
    first.next_event();
    let noted = first.kv("interactions");
    drop((run, first));

    let (asked, requests) = mpsc::channel();
    let host = bot_on(
        kept("interactions", noted),
        move |line| {
            let _ = asked.send(line.to_owned());
            match line {
                "POST users/@me/channels" => (200, json!({ "id": "77", "type": 1 })),
                "POST channels/77/messages" => (200, json!({ "id": "500" })),
                _ => (404, json!({ "code": 10015, "message": "Unknown Webhook" })),
            }
        },
        // The session of the first run has ended, and the gateway never repeats the command.
        quiet,
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let event = host.next_event();
    assert_eq!((event.event_id.as_str(), event.text.as_str()), ("i:900", "/help"));
    let sent = host.send(&answer_to(event, 1, "a secret"));
    assert!(matches!(sent, SendOutcome::Delivered { .. }), "{sent:?}");
    let asked: Vec<String> = requests.try_iter().collect();
    let expected = ["PATCH webhooks/4200/T/messages/@original", "POST users/@me/channels", "POST channels/77/messages"];
    assert_eq!(asked, expected, "never to the channel");
}

#[test]
fn a_further_answer_to_a_command_that_is_doubtful_is_said_to_have_no_key() {
    let (asked, requests) = mpsc::channel();
    let host = bot(
        move |line| {
            let _ = asked.send(line.to_owned());
            match line {
                "POST webhooks/4200/T?wait=true" => (502, json!({})),
                line if line.starts_with("PATCH") => (502, json!({})),
                _ => (204, Value::Null),
            }
        },
        commanded,
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let mut outgoing = answer_to(host.next_event(), 1, "a secret");
    outgoing.key = "k1".to_owned();
    let first = host.send(&outgoing);
    assert!(matches!(first, SendOutcome::Unknown { keyless: false, .. }), "it is the same message again: {first:?}");
    drop(requests);

    let noted = json!({ "open": [{
        "inbox": 1, "id": "900", "token": "T", "until_ms": i64::MAX, "answered": true, "messages": [], "part": ["", []],
        "saying": "k1",
    }] });
    let host = bot_on(
        kept("interactions", Some(noted.to_string())),
        |line| match line {
            "POST webhooks/4200/T?wait=true" => (502, json!({})),
            line => panic!("nobody asks for {line}"),
        },
        quiet,
    );
    host.connect().expect("it comes up");
    let cut_off = host.send(&outgoing);
    assert!(matches!(cut_off, SendOutcome::Unknown { keyless: true, .. }), "an earlier life said it: {cut_off:?}");
    let doubtful = host.send(&outgoing);
    assert!(matches!(doubtful, SendOutcome::Unknown { keyless: true, .. }), "{doubtful:?}");
    assert!(host.kv("interactions").expect("it is kept").contains(r#""saying":"""#), "its end is known: it is unknown");
}

#[test]
fn an_answer_that_is_quicker_than_the_word_which_event_a_command_became_waits_for_it() {
    let (go, wait) = mpsc::channel::<()>();
    let (asked, requests) = mpsc::channel();
    let wait = Mutex::new(wait);
    let host = bot_on(
        MockHost::setup("test").answer("emit", move |_| {
            let _ = wait.lock().expect("nobody panicked").recv();
            Ok(json!({ "inbox_id": 1 }))
        }),
        move |line| {
            let _ = asked.send(line.to_owned());
            (200, json!({ "id": "500" }))
        },
        commanded,
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let answer = host.call("send", &answer_to(host.next_event(), 1, "a secret"));
    drop(go);
    assert!(matches!(answer.wait().ok::<SendOutcome>(), SendOutcome::Delivered { .. }));
    let asked: Vec<String> = requests.try_iter().collect();
    assert_eq!(asked, ["POST interactions/900/T/callback", "PATCH webhooks/4200/T/messages/@original"]);
}

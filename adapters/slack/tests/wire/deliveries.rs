//! What is delivered, and what it waits for.

use std::sync::{Barrier, Mutex, mpsc};

use hermes_adapter_sdk::testing::{MockHost, Setup};
use serde_json::json;

use crate::stage::*;

fn file(here: &str, name: &str) -> serde_json::Value {
    json!({ "id": name, "name": name, "mimetype": "text/plain", "size": 6, "url_private": format!("{here}/files/{name}") })
}

fn media(test: &str) -> Setup {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    MockHost::setup("test").media_dir(folder)
}

#[test]
fn a_file_that_is_slow_holds_up_its_own_channel_and_no_other() {
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let wait = Mutex::new(wait);
    let host = app(
        media("slow"),
        move |asked, _| match asked.line.as_str() {
            // It comes when what was written elsewhere is with the host.
            "GET /files/a" => {
                assert!(asked.headers.contains("authorization: bearer xoxb-1"), "the token is shown to Slack");
                let _ = wait.lock().expect("nobody panicked").recv();
                (200, b"a file".to_vec())
            }
            line => panic!("nobody asks for {line}"),
        },
        move |here, peer| {
            deliver(peer, "100", "C1", "look", &[file(here, "a")]);
            deliver(peer, "101", "C1", "and this", &[]);
            // The sums of both names are the same by eight.
            deliver(peer, "102", "C9", "hello", &[]);
            while let Some(envelope) = acknowledged(peer) {
                let _ = tell.send(envelope);
            }
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert_eq!(host.next_event().text, "hello");
    // What waits for its file is kept and needs not be delivered again.
    let mut early = [told.recv(), told.recv()].map(|envelope| envelope.expect("two are acknowledged"));
    early.sort();
    assert_eq!(early, ["100", "102"]);
    drop(go);
    let (message, behind) = (host.next_event(), host.next_event());
    assert_eq!((message.text.as_str(), behind.text.as_str()), ("look", "and this"));
    assert_eq!((message.attachments[0].size, message.attachments[0].name.as_str()), (6, "a"));
    assert_eq!(told.recv().as_deref(), Ok("101"));
}

#[test]
fn files_of_one_message_are_fetched_at_the_same_time_and_stay_in_order() {
    // Each file comes only when both are asked for.
    let both = Barrier::new(2);
    let host = app(
        media("together"),
        move |_, _| {
            both.wait();
            (200, b"a file".to_vec())
        },
        |here, peer| {
            deliver(peer, "100", "C1", "look", &[file(here, "a"), file(here, "b")]);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let event = host.next_event();
    let names: Vec<&str> = event.attachments.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(event.attachments.iter().all(|file| file.size == 6), "{:?}", event.attachments);
}

#[test]
fn a_message_and_the_mention_of_it_are_one_event_whichever_socket_brings_them() {
    let host = app(
        MockHost::setup("test"),
        |asked, _| panic!("nobody asks for {}", asked.line),
        |_, peer| {
            let mention = json!({
                "type": "app_mention", "channel": "C1", "user": "U1", "ts": "1700000000.100", "text": "<@UME> look",
            });
            let payload = json!({ "type": "event_callback", "team_id": "T1", "event": mention });
            deliver(peer, "100", "C1", "<@UME> look", &[]);
            say(peer, &json!({ "type": "events_api", "envelope_id": "101", "payload": payload }));
            deliver(peer, "100", "C1", "<@UME> look", &[]);
            deliver(peer, "102", "C1", "and?", &[]);
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let (first, second) = (host.next_event(), host.next_event());
    assert_eq!((first.text.as_str(), second.text.as_str()), ("look", "and?"));
    assert!(first.addressed.mention);
}

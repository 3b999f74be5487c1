//! Tests of deliveries and their order.

use std::sync::mpsc;

use hermes_adapter_sdk::protocol::{Attachment, FetchCall};
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
fn a_file_is_fetched_once_the_host_asks_and_holds_up_no_delivery() {
    let (tell, told) = mpsc::channel();
    let host = app(
        media("asked"),
        move |asked, here| match asked.line.as_str() {
            "GET /files/a" => {
                assert!(asked.headers.contains("authorization: bearer xoxb-1"), "the token is shown to Slack");
                (200, b"a file".to_vec())
            }
            "POST /api/files.info" => ok(json!({ "file": file(here, "a") })),
            "GET /files/gone" => (404, Vec::new()),
            line => panic!("nobody asks for {line}"),
        },
        move |here, peer| {
            let mut little = json!({ "id": "little", "file_access": "check_file_info" });
            little["name"] = json!("b");
            let external =
                json!({ "id": "e", "name": "e", "is_external": true, "url_private": "https://example.org/e" });
            deliver(peer, "100", "C1", "look", &[file(here, "a"), little, file(here, "gone"), external]);
            while let Some(envelope) = acknowledged(peer) {
                let _ = tell.send(envelope);
            }
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let event = host.next_event();
    assert_eq!(told.recv().as_deref(), Ok("100"), "before any file is asked for");
    let fetch = |n: usize| {
        let call = FetchCall::new(event.attachments[n].clone(), 30_000);
        host.call("fetch", &call).wait().ok::<Attachment>()
    };
    let whole = fetch(0);
    assert_eq!((whole.size, whole.name.as_str(), whole.media.is_some()), (6, "a", true), "{whole:?}");
    let looked_up = fetch(1);
    assert_eq!((looked_up.size, looked_up.name.as_str(), looked_up.mime.as_str()), (6, "a", "text/plain"));
    assert_eq!(fetch(2).note.as_deref(), Some("the server responded with status 404"));
    let external = &event.attachments[3];
    assert!(external.fetch.is_none() && external.note.as_ref().is_some_and(|note| note.contains("another service")));
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

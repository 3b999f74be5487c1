//! Tests of outgoing files.

use std::sync::mpsc;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::MockHost;
use serde_json::json;

use crate::stage::*;

/// Larger than every buffer between the adapter and the server.
const FILE_BYTES: usize = 3 * 1024 * 1024;

fn content() -> Vec<u8> {
    (0..FILE_BYTES).map(|n| u8::try_from(n % 251).expect("it is small")).collect()
}

fn outgoing(name: &str) -> Outgoing {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content()).expect("a file");
    let mut outgoing = Outgoing::text(Chat::new(ChatType::Group, "T1/C1").in_thread("1700000000.000100"), "look");
    outgoing.media = vec![OutMedia::new("m1", path.to_string_lossy(), "text/plain", "a.txt", FILE_BYTES as u64)];
    outgoing
}

#[test]
fn a_file_goes_byte_by_byte_where_slack_says_and_is_shown_with_its_words() {
    let (tell, told) = mpsc::channel();
    let host = app(
        MockHost::setup("test"),
        move |asked, here| match asked.line.as_str() {
            "POST /api/files.getUploadURLExternal" => {
                ok(json!({ "upload_url": format!("{here}/upload/1"), "file_id": "F1" }))
            }
            "POST /upload/1" => {
                let _ = tell.send((asked.headers.clone(), asked.body.clone()));
                (200, b"OK".to_vec())
            }
            "POST /api/files.completeUploadExternal" => {
                let _ = tell.send((asked.headers.clone(), asked.body.clone()));
                ok(
                    json!({ "files": [{ "id": "F1", "shares": { "public": { "C1": [{ "ts": "1700000001.000200" }] } } }] }),
                )
            }
            line => panic!("nobody asks for {line}"),
        },
        |_, peer| while peer.read().is_ok() {},
    );
    host.connect().expect("it comes up");
    let SendOutcome::Delivered { receipt } = host.send(&outgoing("whole.txt")) else { panic!("it arrives") };
    assert_eq!(receipt.message_ids, ["1700000001.000200"]);
    let (headers, body) = told.recv().expect("it is uploaded");
    assert!(headers.contains(&format!("content-length: {FILE_BYTES}\r\n")), "{headers}");
    assert!(!headers.contains("xoxb-1"), "the address is enough, and the token is for Slack's methods");
    assert!(body == content(), "every byte arrives in its place");
    let shown = String::from_utf8(told.recv().expect("it is shown").1).expect("it is a form");
    for part in ["channel_id=C1", "thread_ts=1700000000.000100", "initial_comment=look", "F1"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_file_that_is_cut_off_on_its_way_is_not_shown_and_holds_only_its_chat() {
    let host = app(
        MockHost::setup("test"),
        |asked, here| match asked.line.as_str() {
            "POST /api/files.getUploadURLExternal" => {
                ok(json!({ "upload_url": format!("{here}/upload/1"), "file_id": "F1" }))
            }
            "POST /upload/1" => (503, Vec::new()),
            line => panic!("nobody asks for {line}"),
        },
        |_, peer| while peer.read().is_ok() {},
    );
    host.connect().expect("it comes up");
    let SendOutcome::NotSent { scope, .. } = host.send(&outgoing("cut.txt")) else { panic!("nothing is shown") };
    assert_eq!(scope, WaitScope::Chat);
}

/// Sends a message with a file to an app for which Slack answers `refusal` to `method`; returns what was posted.
fn posted_without_file(method: &'static str, refusal: &'static str) -> (SendOutcome, Vec<String>) {
    let (tell, told) = mpsc::channel();
    let host = app(
        MockHost::setup("test"),
        move |asked, here| match asked.line.as_str() {
            line if line == format!("POST /api/{method}") => {
                (200, json!({ "ok": false, "error": refusal, "needed": "files:write" }).to_string().into_bytes())
            }
            "POST /api/files.getUploadURLExternal" => {
                ok(json!({ "upload_url": format!("{here}/upload/1"), "file_id": "F1" }))
            }
            "POST /upload/1" => (200, b"OK".to_vec()),
            "POST /api/chat.postMessage" => {
                let _ = tell.send(String::from_utf8(asked.body.clone()).expect("it is a form"));
                ok(json!({ "ts": "1700000001.000300" }))
            }
            line => panic!("nobody asks for {line}"),
        },
        |_, peer| while peer.read().is_ok() {},
    );
    host.connect().expect("it comes up");
    let outcome = host.send(&outgoing("refused.txt"));
    (outcome, told.try_iter().collect())
}

#[test]
fn a_refused_file_does_not_cost_the_text() {
    for (method, refusal) in [
        ("files.getUploadURLExternal", "missing_scope"),
        ("files.getUploadURLExternal", "not_allowed_token_type"),
        ("files.getUploadURLExternal", "file_uploads_disabled"),
        ("files.getUploadURLExternal", "storage_limit_reached"),
        ("files.getUploadURLExternal", "a_word_of_the_future"),
        ("files.completeUploadExternal", "file_type_not_allowed"),
        ("files.completeUploadExternal", "no_permission"),
    ] {
        let (outcome, posted) = posted_without_file(method, refusal);
        assert!(matches!(outcome, SendOutcome::Delivered { .. }), "{refusal}: {outcome:?}");
        assert_eq!(posted.len(), 1, "{refusal}");
        assert!(posted[0].contains("text=look%0A%0A%28Not+attached%3A+%22a.txt%22."), "{refusal}: {}", posted[0]);
        assert!(posted[0].contains(refusal), "{}", posted[0]);
    }
    for (method, refusal) in
        [("files.getUploadURLExternal", "invalid_auth"), ("files.completeUploadExternal", "channel_not_found")]
    {
        let (outcome, posted) = posted_without_file(method, refusal);
        assert!(matches!(outcome, SendOutcome::Refused { .. }), "{refusal}: {outcome:?}");
        assert_eq!(posted.len(), 0, "{refusal} is about the token or the chat");
    }
}

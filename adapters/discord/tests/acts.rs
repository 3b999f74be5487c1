//! Tests of all requests other than new and edited messages.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use hermes_adapter_discord::Discord;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, status};
use serde_json::{Value, json};

/// Starts a server that answers sequential requests with these bodies (none: 204), and reports the requests.
fn server(answers: Vec<(u16, Value)>) -> (MockHost, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, asked) = channel();
    thread::spawn(move || {
        for (code, body) in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let request = read_request(&mut stream);
            let line = request.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            let _ = tell.send(line);
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let head = format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let head = if code == 204 { "HTTP/1.1 204 x\r\nconnection: close\r\n\r\n".to_owned() } else { head };
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    let config = json!({ "token": "NDI.A.B", "base_url": format!("http://{address}/api/v10") });
    (MockHost::start::<Discord>(config).expect("it starts"), asked)
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    // Closing a connection with an unread body resets it, which loses the response.
    let _ = stream.read_exact(&mut vec![0; length.unwrap_or(0)]);
    head
}

fn message() -> SentMessage {
    SentMessage::new(Chat::new(ChatType::Group, "10"), "99")
}

fn asked(requests: &Receiver<String>, count: usize) -> Vec<String> {
    requests.iter().take(count).map(|line| line.replace("/api/v10", "")).collect()
}

#[test]
fn a_reaction_is_given_by_its_emoji_and_taken_back_without_one() {
    let reactions = json!([
        { "me": true, "count": 1, "emoji": { "id": null, "name": "👀" } },
        { "me": false, "count": 3, "emoji": { "id": null, "name": "👍" } },
        { "me": true, "count": 1, "emoji": { "id": "7", "name": "parrot" } },
    ]);
    let (host, requests) = server(vec![
        (204, Value::Null),
        (200, json!({ "id": "99", "reactions": reactions })),
        (204, Value::Null),
        (204, Value::Null),
    ]);
    for emoji in ["👀", ""] {
        let answer = host.call("react", &json!({ "message": message(), "emoji": emoji })).wait();
        assert_eq!(answer.status, status::OK, "{answer:?}");
    }
    assert_eq!(
        asked(&requests, 4),
        [
            "PUT /channels/10/messages/99/reactions/%F0%9F%91%80/@me",
            "GET /channels/10/messages/99",
            "DELETE /channels/10/messages/99/reactions/%F0%9F%91%80/@me",
            "DELETE /channels/10/messages/99/reactions/parrot%3A7/@me",
        ]
    );
}

#[test]
fn a_message_is_taken_back_and_one_that_is_none_of_ours_is_not_asked_for() {
    let (host, requests) = server(vec![(204, Value::Null)]);
    assert_eq!(host.call("delete", &json!(message())).wait().status, status::OK);
    assert_eq!(asked(&requests, 1), ["DELETE /channels/10/messages/99"]);
    for (channel, id) in [("10", "../x"), ("general", "99")] {
        let strange = SentMessage::new(Chat::new(ChatType::Group, channel), id);
        let error: CallError = host.call("delete", &json!(strange)).wait().json();
        assert_eq!(error.code, "invalid");
    }
}

#[test]
fn a_refusal_and_a_limit_are_told_apart() {
    let (host, _requests) = server(vec![
        (403, json!({ "code": 50013, "message": "Missing Permissions" })),
        (429, json!({ "message": "You are being rate limited.", "retry_after": 7.5, "global": false })),
    ]);
    let outgoing = Outgoing::text(Chat::new(ChatType::Group, "10"), "hello");
    assert!(matches!(host.send(&outgoing), SendOutcome::Refused { kind: RefusalKind::Forbidden, .. }));
    let SendOutcome::NotSent { retry_after_ms, .. } = host.send(&outgoing) else { panic!("a limit is no refusal") };
    assert_eq!(retry_after_ms, Some(7500));
    // No request is sent while the bucket is empty; the server above has ended.
    let SendOutcome::NotSent { retry_after_ms: Some(left), .. } = host.send(&outgoing) else { panic!("it is empty") };
    assert!(left <= 7500);
}

fn in_group() -> Outgoing {
    Outgoing::text(Chat::new(ChatType::Group, "10"), "hello")
}

#[test]
fn an_answer_that_may_not_refer_to_its_message_goes_without() {
    let (host, requests) = server(vec![
        (403, json!({ "code": 160_002, "message": "Cannot reply without permission to read message history" })),
        (200, json!({ "id": "500" })),
    ]);
    let mut outgoing = in_group();
    (outgoing.key, outgoing.part, outgoing.reply_to) = ("k1".into(), 1, Some("99".into()));
    let SendOutcome::Delivered { receipt } = host.send(&outgoing) else { panic!("the text alone may be said") };
    assert_eq!(receipt.message_ids, ["500"]);
    assert_eq!(asked(&requests, 2), ["POST /channels/10/messages"; 2]);
}

#[test]
fn a_limit_in_the_middle_of_many_files_is_a_limit() {
    let limited = json!({ "message": "You are being rate limited.", "retry_after": 7.5, "global": false });
    let (host, _requests) = server(vec![(200, json!({ "id": "500" })), (429, limited)]);
    let mut outgoing = in_group();
    outgoing.key = "k1".into();
    let file =
        |n: usize| OutMedia::new(n.to_string(), concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "a/b", "x", 1);
    outgoing.media = (0..11).map(file).collect();
    let outcome = host.send(&outgoing);
    assert!(matches!(outcome, SendOutcome::NotSent { retry_after_ms: Some(7500), .. }), "{outcome:?}");
}

/// Sends a message with one file to a server with these responses.
fn sent_with_a_file(answers: Vec<(u16, Value)>) -> (SendOutcome, Vec<String>) {
    let count = answers.len();
    let (host, requests) = server(answers);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused.txt");
    std::fs::write(&path, "a file").expect("a file");
    let mut outgoing = Outgoing::text(Chat::new(ChatType::Group, "10"), "look");
    outgoing.media = vec![OutMedia::new("m1", path.to_string_lossy(), "text/plain", "a.txt", 6)];
    let outcome = host.send(&outgoing);
    (outcome, asked(&requests, count))
}

#[test]
fn a_refused_file_does_not_cost_the_text() {
    for (status, code, message) in [
        (403, 50013, "Missing Permissions"),
        (413, 40005, "Request entity too large"),
        (400, 50035, "Invalid Form Body"),
        (403, 50001, "Missing Access"),
        (400, 99999, "a code of the future"),
    ] {
        let refused = json!({ "code": code, "message": message });
        let (outcome, asked) = sent_with_a_file(vec![(status, refused), (200, json!({ "id": "500" }))]);
        assert!(matches!(outcome, SendOutcome::Delivered { .. }), "{code}: {outcome:?}");
        assert_eq!(asked, ["POST /channels/10/messages", "POST /channels/10/messages"]);
    }
}

#[test]
fn a_refusal_that_is_about_the_chat_stays_one() {
    let refused = || json!({ "code": 50001, "message": "Missing Access" });
    let (outcome, _) = sent_with_a_file(vec![(403, refused()), (403, refused())]);
    assert!(matches!(outcome, SendOutcome::Refused { kind: RefusalKind::Forbidden, .. }), "{outcome:?}");
    let gone = json!({ "code": 10003, "message": "Unknown Channel" });
    let (outcome, asked) = sent_with_a_file(vec![(404, gone)]);
    assert!(matches!(outcome, SendOutcome::Refused { kind: RefusalKind::ChatGone, .. }), "{outcome:?}");
    assert_eq!(asked.len(), 1, "no second call for a chat that does not exist");
}

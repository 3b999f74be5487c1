//! Tests of the Events API over HTTP, and of repeated requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_adapter_sdk::testing::MockHost;
use serde_json::{Value, json};

use crate::stage::*;

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// Sends a signed delivery; returns the status of the response.
fn request(address: &str, payload: &Value, retry: u32) -> u16 {
    let answer = answer(address, &payload.to_string(), retry);
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it has a status")
}

/// Sends a signed body; returns the whole response.
fn answer(address: &str, body: &str, retry: u32) -> String {
    let now = now_s();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = ring::hmac::sign(&key, format!("v0:{now}:{body}").as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let retried = if retry > 0 { format!("x-slack-retry-num: {retry}\r\n") } else { String::new() };
    let head = format!(
        "POST /slack/events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nx-slack-request-timestamp: {now}\r\nx-slack-signature: v0={signature}\r\n{retried}\r\n",
        body.len()
    );
    said(address, &(head + body))
}

fn now_s() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the adapter looks at the clock too")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).expect("it is later").as_secs()
}

/// Returns the response to these bytes.
fn said(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

/// Returns a listening host, and its address.
fn listening() -> (MockHost, String) {
    let host = served(MockHost::setup("test"), SECRET);
    host.connect().expect("it listens");
    let address = std::iter::repeat_with(|| host.next_host_call("announce"))
        .find_map(|call| Some(call["url"].as_str()?.strip_prefix("http://")?.strip_suffix("/slack/events")?.to_owned()))
        .expect("it is announced");
    (host, address)
}

#[test]
fn what_slack_brings_again_is_taken_and_is_no_second_event() {
    let (host, address) = listening();
    let _run = host.run();
    let event = |text: &str, ts: &str| {
        let event = json!({ "type": "message", "channel": "C1", "user": "U1", "ts": ts, "text": text });
        json!({ "type": "event_callback", "team_id": "T1", "event": event })
    };
    for retry in 0..3 {
        assert_eq!(request(&address, &event("hello", "1700000000.000100"), retry), 200);
    }
    assert_eq!(request(&address, &event("and?", "1700000000.000200"), 0), 200);
    assert_eq!([host.next_event().text, host.next_event().text], ["hello", "and?"]);
}

#[test]
fn who_claims_no_signature_is_turned_away_before_the_body_and_takes_no_place() {
    let (host, address) = listening();
    let _run = host.run();
    // More requests than the limit; each promises a body that never arrives, and still gets a response.
    let unsigned =
        format!("POST /slack/events HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let answer = said(&address, &unsigned);
                    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer:?}");
                }
            });
        }
    });
    let event = json!({ "type": "message", "channel": "C1", "user": "U1", "ts": "1700000000.000100", "text": "hello" });
    let payload = json!({ "type": "event_callback", "team_id": "T1", "event": event });
    assert_eq!(request(&address, &payload, 0), 200);
    assert_eq!(host.next_event().text, "hello");
    let told = host.logs().iter().filter(|line| line.message().contains("without a valid Slack signature")).count();
    assert_eq!(told, 1, "anybody can make such a line");
}

#[test]
fn who_claims_a_false_signature_and_writes_slowly_keeps_slack_not_out() {
    let (host, address) = listening();
    let _run = host.run();
    let head = format!(
        "POST /slack/events HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000\r\nx-slack-request-timestamp: {}\r\n\
         x-slack-signature: v0={}\r\n\r\n{{",
        now_s(),
        "00".repeat(32)
    );
    // More requests than the limit of parallel ones.
    let slow: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).expect("somebody listens");
            stream.write_all(head.as_bytes()).expect("it is read");
            stream
        })
        .collect();
    let event = json!({ "type": "message", "channel": "C1", "user": "U1", "ts": "1700000000.000100", "text": "hello" });
    assert_eq!(request(&address, &json!({ "type": "event_callback", "team_id": "T1", "event": event }), 0), 200);
    assert_eq!(host.next_event().text, "hello");
    drop(slow);
}

#[test]
fn what_can_never_be_read_needs_not_come_again_and_a_limit_is_told() {
    let (host, address) = listening();
    let _run = host.run();
    for body in ["{", "[", "nothing"] {
        let answer = answer(&address, body, 0);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("x-slack-no-retry: 1\r\n"), "{answer}");
    }
    let limited =
        json!({ "type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 1518467820, "api_app_id": "A1" });
    assert_eq!(request(&address, &limited, 0), 200);
    host.wait_log("limits the events of a workspace");
    assert!(host.emitted().is_empty());
}

//! The Events API over HTTP: what Slack brings again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_adapter_sdk::testing::MockHost;
use serde_json::{Value, json};

use crate::stage::*;

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// Sends a delivery as Slack signs it; returns the status of the answer.
fn request(address: &str, payload: &Value, retry: u32) -> u16 {
    let body = payload.to_string();
    #[expect(clippy::disallowed_methods, reason = "the adapter looks at the clock too")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = ring::hmac::sign(&key, format!("v0:{now}:{body}").as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let retried = if retry > 0 { format!("x-slack-retry-num: {retry}\r\n") } else { String::new() };
    let head = format!(
        "POST /slack/events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nx-slack-request-timestamp: {now}\r\nx-slack-signature: v0={signature}\r\n{retried}\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all((head + &body).as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it has a status")
}

#[test]
fn what_slack_brings_again_is_taken_and_is_no_second_event() {
    let host = served(MockHost::setup("test"), SECRET);
    host.connect().expect("it listens");
    let address = std::iter::repeat_with(|| host.next_host_call("announce"))
        .find_map(|call| Some(call["url"].as_str()?.strip_prefix("http://")?.strip_suffix("/slack/events")?.to_owned()))
        .expect("it is announced");
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

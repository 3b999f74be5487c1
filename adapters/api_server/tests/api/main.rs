//! Tests of the adapter with a mock host and real sockets.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod answers;
mod client;
mod door;
mod keys;
mod troubles;

use std::thread::{self, JoinHandle};

use client::{Address, Response};
use hermes_adapter_api_server::ApiServer;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::{TurnEventCall, method};
use hermes_adapter_sdk::testing::{MockHost, Pending, Setup};
use serde_json::{Value, json};

const KEY: &str = "0123456789abcdef-test";

hermes_adapter_sdk::conformance!(ApiServer);

/// A running server and the host behind it.
struct World {
    host: MockHost,
    address: Address,
    _run: Pending,
}

impl World {
    fn new() -> Self {
        Self::with(MockHost::setup("api_server"), json!({}))
    }

    fn with(setup: Setup, config: Value) -> Self {
        let mut full = json!({"listen": "127.0.0.1:0", "key": KEY});
        full.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let host = setup.start::<ApiServer>(full).unwrap();
        host.connect().unwrap();
        let run = host.run();
        let announced = host.next_host_call("announce");
        let url = announced["url"].as_str().unwrap().to_owned();
        Self { host, address: Address::of_url(&url), _run: run }
    }

    /// Sends a request in its own thread.
    fn ask(&self, headers: &[(&str, &str)], body: Value) -> JoinHandle<Response> {
        self.post("/v1/chat/completions", headers, body)
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: Value) -> JoinHandle<Response> {
        let address = self.address.clone();
        let path = path.to_owned();
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        thread::spawn(move || {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            address.post(&path, &headers, &body.to_string())
        })
    }

    fn reply(&self, inbox_id: i64, text: &str) -> SendOutcome {
        self.host.send(&reply(inbox_id, text))
    }

    /// Sends a reply that must reach its requester.
    fn deliver(&self, inbox_id: i64, text: &str) {
        let outcome = self.reply(inbox_id, text);
        assert!(is_delivered(&outcome), "{outcome:?}");
    }

    fn stream(&self, inbox_id: i64, seq: u64, event: TurnEvent) -> bool {
        let answer = self.host.call(method::TURN_EVENT, &TurnEventCall::new(inbox_id, seq, event)).wait();
        answer.status == hermes_adapter_sdk::testing::status::OK
    }
}

fn reply(inbox_id: i64, text: &str) -> Outgoing {
    let mut outgoing = Outgoing::text(Chat::dm("whatever"), text);
    outgoing.purpose = Purpose::Reply;
    outgoing.in_reply_to = Some(inbox_id);
    outgoing.key = format!("d{inbox_id}");
    outgoing
}

fn hello() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]})
}

fn streamed() -> Value {
    let mut body = hello();
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    body
}

fn chunk(text: &str) -> TurnEvent {
    TurnEvent::Chunk { text: text.to_owned() }
}

fn done() -> TurnEvent {
    TurnEvent::Done { finish_reason: "stop".to_owned(), usage: Usage::tokens(3, 4) }
}

fn metadata() -> TurnEvent {
    TurnEvent::Metadata {
        session_id: "s-1".to_owned(),
        turn_id: 9,
        model: "test-model".to_owned(),
        runtime: "echo".to_owned(),
    }
}

fn is_delivered(outcome: &SendOutcome) -> bool {
    matches!(outcome, SendOutcome::Delivered { .. })
}

fn is_gone(outcome: &SendOutcome) -> bool {
    matches!(outcome, SendOutcome::Refused { kind: RefusalKind::Invalid, detail, .. } if detail == "requester gone")
}

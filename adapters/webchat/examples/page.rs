//! The page without a host, for work on the page itself: `cargo run -p
//! hermes-adapter-webchat --example page`, then open the printed link.
//!
//! Each message is streamed back like an answer; `ask` shows buttons, `fail` a failed turn,
//! `long` a long answer that can be stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::method;
use hermes_adapter_sdk::testing::MockHost;
use hermes_adapter_webchat::Webchat;
use serde_json::json;

/// The pause between two chunks of an answer.
const PIECE: Duration = Duration::from_millis(35);

const SHOWCASE: &str = include_str!("../testdata/showcase.md");

fn main() {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    let media = std::env::temp_dir();
    let host = MockHost::setup("webchat")
        .media_dir(media)
        .answer("turns.stop", move |_| {
            stop.store(true, Ordering::SeqCst);
            Ok(json!({ "stopped": true }))
        })
        .start::<Webchat>(json!({}))
        .expect("the adapter starts");
    host.connect().expect("a port is free");
    println!("{}", host.next_host_call("announce")["url"].as_str().unwrap_or_default());
    let _run = host.run();
    let commands = [CommandInfo::new("new", "start afresh", ""), CommandInfo::new("status", "what is going on", "")];
    host.call(method::SET_COMMANDS, &json!({ "commands": commands })).wait();

    let mut answered = 0;
    loop {
        std::thread::sleep(PIECE);
        let Some(event) = host.emitted().into_iter().nth(answered) else { continue };
        answered += 1;
        if event.kind == EventKind::Message {
            stopped.store(false, Ordering::SeqCst);
            // The mock host numbers events from 1.
            answer(&host, &event, i64::try_from(answered).unwrap_or(i64::MAX), &stopped);
        }
    }
}

fn answer(host: &MockHost, event: &Event, inbox_id: i64, stopped: &AtomicBool) {
    let text = match event.text.trim() {
        "ask" => "Shall I run `rm -r build`?".to_owned(),
        "long" => "word ".repeat(2_000),
        "show" => SHOWCASE.to_owned(),
        said => format!("You said: {said}"),
    };
    let mut seq = 0;
    let mut tell = |event: serde_json::Value| {
        host.call(method::TURN_EVENT, &json!({ "inbox_id": inbox_id, "seq": seq, "event": event })).wait();
        seq += 1;
    };
    tell(json!({ "type": "metadata", "session_id": "s1", "turn_id": inbox_id }));
    tell(json!({ "type": "progress", "stage": "thinking", "text": "thinking about it" }));
    std::thread::sleep(PIECE * 10);
    if event.text.trim() == "fail" {
        tell(json!({ "type": "error", "code": "runtime_failed", "message": "The model is not reachable." }));
        return;
    }
    let mut said = String::new();
    for piece in text.split_inclusive(' ') {
        if stopped.load(Ordering::SeqCst) {
            said.push_str("(interrupted)");
            break;
        }
        said.push_str(piece);
        tell(json!({ "type": "chunk", "text": piece }));
        std::thread::sleep(PIECE);
    }
    tell(json!({ "type": "done", "finish_reason": "stop" }));
    let mut outgoing = Outgoing::text(event.chat.clone(), said);
    outgoing.key = format!("k{inbox_id}");
    outgoing.purpose = Purpose::Reply;
    outgoing.format = Format::Markdown;
    outgoing.in_reply_to = Some(inbox_id);
    if event.text.trim() == "ask" {
        let mut yes = ChoiceOption::new("yes", "Run it");
        yes.style = "primary".to_owned();
        outgoing.choices = Some(Choices::new("ask1", vec![yes, ChoiceOption::new("no", "Leave it")], 0));
    }
    let _ = host.send(&outgoing);
}

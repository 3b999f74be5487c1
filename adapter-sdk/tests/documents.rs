//! The documents say what the code does.

use hermes_adapter_sdk::protocol::{TurnEvent, TurnEventCall};
use hermes_adapter_sdk::serde_json;

const PROTOCOL: &str = include_str!("../PROTOCOL.md");
const STREAM: &str = include_str!("../protocol/stream.md");
const CALLS: &str = include_str!("../protocol/src/calls.rs");

/// Names of the `pub const NAME: &str = "…";` of a file.
fn constants(source: &str) -> Vec<&str> {
    source
        .lines()
        .filter(|line| line.trim_start().starts_with("pub const ") && line.contains(": &str = "))
        .filter_map(|line| line.split('"').nth(1))
        .collect()
}

#[test]
fn every_method_has_its_row() {
    let methods = constants(CALLS);
    assert!(methods.len() > 40, "{methods:?}");
    for method in methods {
        assert!(PROTOCOL.contains(&format!("| `{method}` |")), "PROTOCOL.md has no row for `{method}`");
    }
}

#[test]
fn the_examples_of_a_stream_are_streams() {
    let calls: Vec<TurnEventCall> = STREAM
        .lines()
        .filter(|line| line.starts_with("{\"inbox_id\""))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        .collect();
    let mut streams: Vec<Vec<TurnEventCall>> = Vec::new();
    for call in calls {
        match streams.last_mut() {
            Some(stream) if stream[0].inbox_id == call.inbox_id => stream.push(call),
            _ => streams.push(vec![call]),
        }
    }
    assert_eq!(streams.len(), 2);
    for stream in streams {
        assert!(matches!(stream[0].event, TurnEvent::Metadata { .. }));
        assert!((1..).zip(&stream).all(|(seq, call)| call.seq == seq));
        let (last, earlier) = stream.split_last().expect("a stream is not empty");
        assert!(last.event.is_last() && earlier.iter().all(|call| !call.event.is_last()));
        assert!(earlier.iter().all(|call| call.event != TurnEvent::Unrecognised));
    }
}

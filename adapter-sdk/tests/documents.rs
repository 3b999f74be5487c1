//! Tests that the documents match the code.

use hermes_adapter_sdk::protocol::{
    CallError, ConnectError, Event, Manifest, Outgoing, SendOutcome, TurnEvent, TurnEventCall,
};
use hermes_adapter_sdk::serde::{Serialize, de::DeserializeOwned};
use hermes_adapter_sdk::serde_json::{self, Value};

const PROTOCOL: &str = include_str!("../PROTOCOL.md");
const STREAM: &str = include_str!("../protocol/stream.md");
const CALLS: &str = include_str!("../protocol/src/calls.rs");

/// Returns the values of all `pub const NAME: &str = "…";` in a file.
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

/// Parses the example as `T` and serializes it again.
fn reread<T: DeserializeOwned + Serialize>(example: &str) -> Value {
    let read: T = serde_json::from_str(example).unwrap_or_else(|error| panic!("{error} in {example}"));
    serde_json::to_value(read).expect("what was read can be written")
}

/// Returns whether `whole` contains all of `example`.
fn says(whole: &Value, example: &Value) -> bool {
    match (whole, example) {
        (Value::Object(whole), Value::Object(example)) => {
            example.iter().all(|(key, value)| whole.get(key).is_some_and(|whole| says(whole, value)))
        }
        (whole, example) => whole == example,
    }
}

#[test]
fn the_examples_of_payloads_are_read_as_what_they_say() {
    let rows: Vec<(&str, &str)> = PROTOCOL
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `{"))
        .collect();
    assert!(rows.len() >= 10, "{rows:?}");
    for (name, rest) in rows {
        let example = format!("{{{rest}");
        let whole = match name {
            "Event" => reread::<Event>(&example),
            "Outgoing" => reread::<Outgoing>(&example),
            "SendOutcome" => reread::<SendOutcome>(&example),
            "ConnectError" => reread::<ConnectError>(&example),
            "CallError" => reread::<CallError>(&example),
            "Manifest" => reread::<Manifest>(&example),
            other => panic!("nobody reads {other}"),
        };
        assert!(says(&whole, &reread::<Value>(&example)), "{whole} does not say {example}");
        // An unknown field would be kept, too.
        let known = include_str!("../protocol/golden/1.1/schema.json");
        let Value::Object(fields) = reread::<Value>(&example) else { panic!("{example} is no object") };
        assert!(fields.keys().all(|field| known.contains(&format!("\"{field}\": {{"))), "{example}");
    }
}

#[test]
fn every_word_has_its_row() {
    let sources = [
        CALLS,
        include_str!("../protocol/src/capabilities.rs"),
        include_str!("../protocol/src/chat.rs"),
        include_str!("../protocol/src/event.rs"),
        include_str!("../protocol/src/outgoing.rs"),
    ];
    let words = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let (name, word) = line.trim().strip_suffix("\",")?.split_once(" = \"")?;
        name.chars().all(char::is_alphanumeric).then_some(word)
    });
    let words: Vec<&str> = words.collect();
    assert!(words.len() > 40, "{words:?}");
    for word in words {
        let said = PROTOCOL.lines().any(|line| line.starts_with("| ") && line.contains(&format!("`{word}`")));
        assert!(said, "no table of PROTOCOL.md has the word `{word}`");
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

//! One payload of each kind, as every released version wrote it, is read and written back without loss.

use hermes_protocol as words;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

#[test]
fn the_corpus_of_every_version_is_read_and_written_back() {
    // Each corpus adds the payloads that its version added.
    for (corpus, at_least) in
        [(include_str!("../golden/1.0/corpus.json"), 20), (include_str!("../golden/1.1/corpus.json"), 2)]
    {
        let cases: Vec<Value> = serde_json::from_str(corpus).unwrap();
        assert!(cases.len() >= at_least);
        for case in cases {
            let json = &case["json"];
            let again = match case["as"].as_str().unwrap() {
                "CallError" => again::<words::CallError>(json),
                "ConnectError" => again::<words::ConnectError>(json),
                "Emitted" => again::<words::Emitted>(json),
                "Envelope" => again::<words::Envelope>(json),
                "Event" => again::<words::Event>(json),
                "FetchCall" => again::<words::FetchCall>(json),
                "LinkState" => again::<words::LinkState>(json),
                "LookupReply" => again::<words::LookupReply>(json),
                "Manifest" => again::<words::Manifest>(json),
                "Outgoing" => again::<words::Outgoing>(json),
                "SendOutcome" => again::<words::SendOutcome>(json),
                "TurnEventCall" => again::<words::TurnEventCall>(json),
                other => panic!("no type is called {other}"),
            };
            assert_eq!(&again, json, "{}", case["as"]);
        }
    }
}

fn again<T: DeserializeOwned + Serialize>(json: &Value) -> Value {
    let read: T = serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{error}: {json}"));
    serde_json::to_value(read).expect("a payload is JSON")
}

#[test]
fn a_word_of_the_future_never_fails_a_payload() {
    let outcome: words::SendOutcome = serde_json::from_str(r#"{"type": "teleported", "to": "mars"}"#).unwrap();
    assert_eq!(outcome, words::SendOutcome::Unrecognised);
    let event: words::TurnEvent = serde_json::from_str(r#"{"type": "hologram", "size": 3}"#).unwrap();
    assert_eq!(event, words::TurnEvent::Unrecognised);
    let reply: words::LookupReply = serde_json::from_str(r#"{"type": "perhaps"}"#).unwrap();
    assert_eq!(reply, words::LookupReply::Unclear);
}

#[test]
fn what_is_missing_is_false_except_asynchronous_delivery() {
    let capabilities: words::Capabilities = serde_json::from_str("{}").unwrap();
    assert!(capabilities.supports_async_delivery);
    let written = serde_json::to_value(&capabilities).unwrap();
    let others: Vec<_> = written
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, value)| value.as_bool() == Some(true) && *key != "supports_async_delivery")
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

//! Bodies of requests to the API server.

use hermes_adapter_api_server::read_request;
use serde_json::Value;

use crate::ring::{Target, texts};

const WORDS: &[&str] = &[
    "\"messages\":[",
    "{\"role\":\"user\",\"content\":\"",
    "{\"role\":\"assistant\",\"content\":null}",
    "{\"type\":\"text\",\"text\":\"a\"}",
    "{\"type\":\"image_url\"}",
    "\"session_id\":\"",
    "\"message\":\"",
    "\"stream\":true",
    "\"n\":2",
    "\"response_format\":{\"type\":\"json_object\"}",
    "\"tool_choice\":\"required\"",
    "\\u0000",
    "\\n",
    "user: ",
    "null",
    "{}",
    "[]",
    "[[[[[[[[",
    "🦀",
];

/// Bodies of both kinds of requests.
pub fn requests() -> Target {
    let seeds = texts(&[
        r#"{"model":"hermes","messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hello"}],"stream":true,"stream_options":{"include_usage":true}}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"session_id":"s1","n":1}"#,
        r#"{"message":"hello","session_id":"s"}"#,
        r#"{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two","tool_calls":[]},{"role":"user","content":"three"}]}"#,
    ]);
    Target::new("requests", seeds, WORDS, |bytes| {
        for is_stream in [false, true] {
            match read_request(is_stream, bytes) {
                Ok(event) => {
                    let says = !event.text.trim().is_empty() || !event.attachments.is_empty();
                    assert!(says, "an event that says nothing");
                    assert!(event.event_id.starts_with("k:") && event.sender.id == "api", "an event of somebody else");
                    let name = event.chat.id.strip_prefix("session:").or(event.chat.id.strip_prefix("request:"));
                    let name = name.expect("a chat is a session or a request");
                    assert!(!name.is_empty() && name.chars().count() <= 256, "a name beyond its bound");
                    assert!(!name.chars().any(char::is_control), "a name with control characters");
                    let again = read_request(is_stream, bytes).expect("it was read before");
                    assert_eq!((event.event_id, event.text), (again.event_id, again.text), "it differs each time");
                }
                Err(refusal) => {
                    let error = &refusal["error"];
                    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "a refusal without words");
                    assert_eq!(
                        error["type"],
                        Value::from("invalid_request_error"),
                        "a fault of the client is the host's"
                    );
                }
            }
        }
    })
}

use axum::http::HeaderValue;
use serde_json::json;

use super::*;

fn form(body: &str) -> Option<Value> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"));
    read(&headers, body.as_bytes())
}

#[test]
fn a_body_is_json_or_a_form_that_may_hold_json() {
    assert_eq!(read(&HeaderMap::new(), b" {\"a\": 1}"), Some(json!({ "a": 1 })));
    assert_eq!(read(&HeaderMap::new(), b"a=1"), None);
    assert_eq!(form("a=1&b=two+words%21"), Some(json!({ "a": "1", "b": "two words!" })));
    assert_eq!(form("payload=%7B%22a%22%3A1%7D"), Some(json!({ "a": 1 })));
    assert_eq!(form("payload=%7B%22a%22%3A1%7D&b=2"), Some(json!({ "payload": { "a": 1 }, "b": "2" })));
    for broken in ["payload=%7Bbroken", "payload=", "payload=hello", "payload=%7B%22a%22%3A&b=2", "payload=%5B1"] {
        assert_eq!(form(broken), None, "{broken}");
    }
    assert_eq!(form("payload=hello&b=2"), Some(json!({ "payload": "hello", "b": "2" })));
    assert_eq!(form(""), None);
    assert_eq!(
        read(&HeaderMap::new(), br#"{"a": "x\ud83d"}"#),
        Some(json!({ "a": "x\u{fffd}" })),
        "a text that was cut in a pair"
    );
    let deep = "[".repeat(100_000);
    assert_eq!(read(&HeaderMap::new(), deep.as_bytes()), None);
}

#[test]
fn the_event_is_in_the_header_or_in_the_payload() {
    let mut headers = HeaderMap::new();
    assert_eq!(event(Scheme::V1, &headers, &json!([])), "unknown");
    assert_eq!(event(Scheme::V1, &headers, &json!({ "type": "invoice.paid" })), "invoice.paid");
    assert_eq!(event(Scheme::V1, &headers, &json!({ "type": "a", "event_type": "b" })), "b");
    headers.insert("x-gitlab-event", HeaderValue::from_static("Push Hook"));
    assert_eq!(event(Scheme::GitLab, &headers, &json!({ "type": "a" })), "Push Hook");
    assert_eq!(event(Scheme::Standard, &headers, &json!({ "type": "a" })), "a", "what is signed comes first");
    assert_eq!(event(Scheme::Standard, &headers, &json!({})), "Push Hook");
}

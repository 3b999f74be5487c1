use axum::http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::*;

fn holds(filter: Value) -> bool {
    let payload = json!({
        "action": "opened", "number": 7, "draft": false, "labels": ["bug", "ui"], "user": { "login": "ada" },
        "commits": [{ "message": "fix: a typo" }],
    });
    let mut headers = HeaderMap::new();
    headers.insert("x-environment", HeaderValue::from_static("live"));
    let call = Call {
        route: "ci",
        event: "pull_request".to_owned(),
        id: "1".to_owned(),
        payload: &payload,
        headers: &headers,
    };
    Filter::read(&filter).unwrap().holds(&call)
}

fn of(field: &str, test: &str, wanted: Value) -> Value {
    json!({ "field": field, test: wanted })
}

#[test]
fn a_condition_is_asked_of_payload_event_and_headers() {
    assert!(holds(of("payload.action", "equals", json!("opened"))) && holds(of("action", "equals", json!("opened"))));
    assert!(!holds(of("action", "equals", json!("closed"))) && !holds(of("number", "equals", json!("7"))));
    assert!(holds(of("event", "equals", json!("pull_request"))));
    assert!(holds(of("headers.x-environment", "in", json!(["live", "staging"]))));
    assert!(holds(of("payload.user.login", "exists", json!(true))) && holds(of("user.name", "missing", json!(true))));
    assert!(holds(of("user.name", "exists", json!(false))) && !holds(of("user.name", "equals", json!(null))));
    assert!(holds(of("user.name", "not_equals", json!("ada"))) && !holds(of("user.login", "not_equals", json!("ada"))));
    assert!(holds(of("labels", "contains", json!("ui"))) && !holds(of("labels", "contains", json!("u"))));
    assert!(holds(of("user", "contains", json!("login"))) && holds(of("action", "contains", json!("open"))));
    assert!(holds(of("commits.0.message", "regex", json!("^fix(\\(.*\\))?:"))));
    assert!(!holds(of("commits.1.message", "regex", json!("."))) && holds(of("number", "regex", json!("^7$"))));
}

#[test]
fn conditions_stand_together_and_against_each_other() {
    let (yes, no) = (of("number", "equals", json!(7)), of("number", "equals", json!(8)));
    assert!(holds(json!({ "all": [yes, yes] })) && !holds(json!({ "all": [yes, no] })));
    assert!(holds(json!({ "any": [no, yes] })) && !holds(json!({ "any": [no, no] })));
    assert!(holds(json!({ "not": no })) && !holds(json!({ "not": yes })));
    assert!(holds(json!([yes, { "not": no }])) && !holds(json!([yes, no])));
    assert!(holds(json!([])) && !holds(json!({ "any": [] })));
}

#[test]
fn a_condition_that_cannot_be_read_is_refused_and_never_passed_over() {
    for (wrong, said) in [
        (json!("opened"), "is not a condition"),
        (json!({ "equals": 1 }), "has no field"),
        (json!({ "field": "a" }), "must have exactly one test"),
        (json!({ "field": "a", "equals": 1, "in": [1] }), "must have exactly one test"),
        (json!({ "field": "a", "in_file": "x" }), "`in_file`"),
        (json!({ "field": "a", "in": 1 }), "in (a list)"),
        (json!({ "field": "a", "regex": "(" }), "is invalid"),
        (json!({ "field": "a", "regex": "x{1000}{1000}{1000}" }), "is invalid"),
        (json!({ "all": {} }), "`all` must be a list"),
        ((0..40).fold(json!({ "field": "a", "exists": true }), |inner, _| json!({ "not": inner })), "deep"),
    ] {
        let why = Filter::read(&wrong).err().unwrap_or_else(|| panic!("{wrong} is read"));
        assert!(why.contains(said), "{wrong}: {why}");
    }
}

#[test]
fn numbers_are_what_they_count_and_what_is_missing_or_of_another_type_is_not_equal() {
    for test in ["equals", "not_equals"] {
        assert_eq!(holds(of("number", test, json!(7.0))), test == "equals");
        assert_eq!(holds(of("number", test, json!("7"))), test == "not_equals");
        assert_eq!(holds(of("nothing", test, json!(7))), test == "not_equals");
    }
    assert!(holds(of("number", "in", json!([1, 7.0]))) && !holds(of("number", "in", json!([7.5]))));
}

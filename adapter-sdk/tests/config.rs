//! Tests of `create`: the envelope, the configuration, its schema.

use hermes_adapter_sdk::protocol::SendOutcome;
use hermes_adapter_sdk::serde_json::{Value, json};
use hermes_adapter_sdk::testing::MockHost;

use crate::adapters::{Puppet, text};

fn error_of(config: Value) -> String {
    match MockHost::setup("home").start::<Puppet>(config) {
        Ok(_) => panic!("it was created"),
        Err(sentence) => sentence,
    }
}

#[test]
fn a_wrong_value_is_named_with_instance_adapter_and_path() {
    let sentence = error_of(json!({ "link": { "wait_ms": "soon" } }));
    assert!(sentence.starts_with("instance `home` of adapter `puppet`: "), "{sentence}");
    assert!(sentence.contains("`link.wait_ms`"), "{sentence}");
    assert!(sentence.contains("invalid type"), "{sentence}");
}

#[test]
fn an_unknown_key_is_an_error_at_every_depth() {
    assert!(error_of(json!({ "at_brith": "" })).contains("unknown field `at_brith`"));
    let nested = error_of(json!({ "link": { "tone": { "loud": { "tiems": 2 } } } }));
    assert!(nested.contains("`link.tone"), "{nested}");
    assert!(nested.contains("unknown field `tiems`"), "{nested}");
}

#[test]
fn no_configuration_at_all_means_an_empty_one() {
    let host = MockHost::start::<Puppet>(Value::Null).expect("every key has a default");
    host.connect().expect("it connects");
}

#[test]
fn a_wrong_secret_is_named_but_not_shown() {
    let sentence = error_of(json!({ "token": 123_456_789 }));
    assert!(sentence.contains("`token`"), "{sentence}");
    assert!(!sentence.contains("123456789"), "{sentence}");
    let host = MockHost::start::<Puppet>(json!({ "token": "four" })).expect("it starts");
    assert_eq!(host.send(&text("token")), SendOutcome::delivered("4", 0));
}

#[test]
fn a_marked_secret_is_not_shown_at_any_depth() {
    for words in [json!(987_654), json!([987_654])] {
        let sentence = error_of(json!({ "link": { "words": words } }));
        assert!(sentence.contains("`link.words") && !sentence.contains("987654"), "{sentence}");
    }
    let schema = MockHost::config_schema::<Puppet>();
    assert_eq!(schema["$defs"]["LinkConfig"]["properties"]["words"]["writeOnly"], json!(true));
}

#[test]
fn nested_values_arrive() {
    let config = json!({ "link": { "tone": { "loud": { "times": 2 } } } });
    let host = MockHost::start::<Puppet>(config).expect("it starts");
    assert_eq!(host.send(&text("ha")), SendOutcome::delivered("haha", 0));
}

#[test]
fn values_are_judged_without_making_an_instance() {
    let judge = |config: Value| MockHost::check_config::<Puppet>(&config);
    // The check does not run `new`.
    for right in [Value::Null, json!({}), json!({ "at_birth": "panic" }), json!({ "token": "four" })] {
        assert_eq!(judge(right), Ok(()));
    }
    assert_eq!(judge(json!({ "at_birth": "never" })), Err("`at_birth` is \"never\"; leave it out".to_owned()));
    assert!(judge(json!({ "at_brith": "" })).unwrap_err().contains("unknown field `at_brith`"));
    let secret = judge(json!({ "token": 123_456_789 })).unwrap_err();
    assert!(secret.contains("`token`") && !secret.contains("123456789"), "{secret}");
    assert_eq!(judge(json!({ "at_birth": "unsure" })), Err("panic in `check`: who knows".to_owned()));
}

#[test]
fn what_an_adapter_refuses_of_its_values_is_refused_before_it_is_made() {
    let sentence = error_of(json!({ "at_birth": "never" }));
    assert_eq!(sentence, "instance `home` of adapter `puppet`: `at_birth` is \"never\"; leave it out");
}

#[test]
fn a_panic_in_new_is_a_sentence() {
    let sentence = error_of(json!({ "at_birth": "panic" }));
    assert_eq!(sentence, "instance `home` of adapter `puppet`: panic in `new`: stillborn");
}

#[test]
fn a_new_that_blocks_is_refused_within_a_second_or_so() {
    let sentence = error_of(json!({ "at_birth": "block" }));
    assert!(sentence.contains("`new` did not return within 1000 ms"), "{sentence}");
}

#[test]
fn the_schema_has_descriptions_defaults_and_refuses_unknown_keys() {
    let schema = MockHost::config_schema::<Puppet>();
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(
        schema["properties"]["at_birth"]["description"],
        json!("The behaviour of `new`: `panic` or `block`; or of `drop`: `haunt`.")
    );
    assert_eq!(schema["properties"]["at_birth"]["default"], json!(""));
    assert_eq!(schema["title"], json!("PuppetConfig"));
    assert!(schema["required"].is_null(), "{schema}");
    assert_eq!(schema["$defs"]["LinkConfig"]["properties"]["wait_ms"]["type"], json!("integer"));
}

//! Tests of an adapter's calls to its host.

use hermes_adapter_sdk::protocol::{CallError, SendOutcome};
use hermes_adapter_sdk::serde_json::json;
use hermes_adapter_sdk::testing::{MockHost, status};

use crate::adapters::{Puppet, text};

#[test]
fn emit_answers_the_inbox_id_and_then_the_duplicate() {
    let host = MockHost::start::<Puppet>(json!({})).expect("it starts");
    assert_eq!(host.send(&text("emit")), SendOutcome::unknown(r#"{"inbox_id":1}"#));
    assert_eq!(host.send(&text("emit")), SendOutcome::unknown(r#"{"duplicate_of":1}"#));
    let event = host.next_event();
    assert_eq!((event.event_id.as_str(), event.text.as_str()), ("m:1:1", "hello"));
    assert_eq!(host.emitted().len(), 2);
}

#[test]
fn emit_waits_for_the_hosts_answer_and_can_be_cancelled_meanwhile() {
    let host = MockHost::setup("test").hold("emit").start::<Puppet>(json!({})).expect("it starts");
    let sending = host.call("send", &text("emit"));
    host.next_event();
    assert!(!sending.is_answered());
    sending.cancel();
    assert_eq!(sending.wait().status, status::DROPPED);
}

#[test]
fn values_are_kept_under_keys() {
    let host = MockHost::start::<Puppet>(json!({})).expect("it starts");
    assert_eq!(host.send(&text("remember")), SendOutcome::delivered("", 0));
    assert_eq!(host.send(&text("remember")), SendOutcome::delivered("x", 0));
    assert_eq!(host.kv("n").as_deref(), Some("xx"));
}

#[test]
fn a_granted_method_is_answered_and_a_refusal_keeps_its_code() {
    let granted = MockHost::setup("test")
        .answer("turns.stop", |payload| Ok(json!({ "stopped": payload["inbox_id"] == 7 })))
        .start::<Puppet>(json!({}))
        .expect("it starts");
    assert_eq!(granted.send(&text("ask")), SendOutcome::unknown(r#"{"stopped":true}"#));

    let refused = MockHost::setup("test")
        .answer("turns.stop", |_| Err(CallError::new("not_granted", "the operator did not grant it")))
        .start::<Puppet>(json!({}))
        .expect("it starts");
    assert_eq!(refused.send(&text("ask")), SendOutcome::unknown("not_granted"));
}

#[test]
fn the_data_folder_is_that_of_the_envelope_and_an_older_host_has_none() {
    let host = MockHost::setup("test").data_dir("/data/test").start::<Puppet>(json!({})).expect("it starts");
    assert_eq!(host.send(&text("folder")), SendOutcome::unknown("/data/test"));
    let older = MockHost::start::<Puppet>(json!({})).expect("it starts");
    assert_eq!(older.send(&text("folder")), SendOutcome::unknown(""));
}

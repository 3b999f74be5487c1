//! Tests of the ends of calls and instances.

use std::time::Duration;

use hermes_adapter_sdk::protocol::{
    Attachment, AttachmentKind, Chat, ConnectError, EditCall, FetchCall, LookupCall, LookupReply, SendOutcome,
    SentMessage,
};
use hermes_adapter_sdk::serde_json::{Value, json};
use hermes_adapter_sdk::testing::{MockHost, Pending, status};

use crate::adapters::{Puppet, text};

const SOON: Duration = Duration::from_secs(5);

fn puppet() -> MockHost {
    MockHost::start::<Puppet>(json!({})).expect("it starts")
}

#[test]
fn capability_methods_reach_the_traits_and_others_are_unsupported() {
    let host = puppet();
    let edit = EditCall::new(SentMessage::new(Chat::dm("1"), "9"), text("new"));
    assert_eq!(host.call("edit", &edit).wait().ok::<SendOutcome>(), SendOutcome::delivered("9=new", 0));
    let lookup = LookupCall::new("gone", Chat::dm("1"));
    assert_eq!(host.call("lookup", &lookup).wait().ok::<LookupReply>(), LookupReply::Absent);
    let away = |reference: &str| Attachment::away(reference, AttachmentKind::File, "text/plain", "a.txt", 0);
    let fetch = |file: Attachment| host.call("fetch", &FetchCall::new(file, 500)).wait().ok::<Attachment>();
    assert_eq!(fetch(away("f1")), away("f1").fetched("media within 500 ms", 3));
    assert_eq!(fetch(away("gone")), away("gone").not_fetched("the platform has it no more"));
    let found = host.call("resolve_target", &json!({ "target": "@7" })).wait().ok::<Option<Chat>>();
    assert_eq!(found, Some(Chat::dm("7")));
    assert_eq!(host.call("resolve_target", &json!({ "target": "7" })).wait().ok::<Value>(), Value::Null);

    let unknown = host.call("typing", &json!({})).wait();
    assert_eq!(unknown.status, status::UNSUPPORTED);
    assert!(unknown.text().contains("adapter `puppet` has no method `typing`"));
}

#[test]
fn an_unreadable_payload_is_the_callers_error() {
    let answer = puppet().call_bytes("send", b"{\"chat\":").wait();
    assert_eq!(answer.status, status::ERR);
    assert_eq!(answer.json::<Value>()["code"], json!("invalid"));
}

#[test]
fn an_error_of_connect_is_a_connect_error() {
    let host = MockHost::start::<Puppet>(json!({ "link": { "wait_ms": 250 } })).expect("it starts");
    assert_eq!(host.connect(), Err(ConnectError::retry_after_ms("not yet", 250)));
}

#[test]
fn a_cancelled_call_drops_its_future_and_is_answered() {
    let host = puppet();
    let hanging = host.call("send", &text("hang"));
    host.next_host_call("announce");
    assert!(!hanging.is_answered());
    hanging.cancel();
    assert_eq!(hanging.wait().status, status::DROPPED);
    assert_eq!(host.send(&text("drops")), SendOutcome::delivered("1", 0));
}

#[test]
fn the_sixty_fifth_call_is_busy_and_room_comes_back() {
    let host = puppet();
    let hanging: Vec<Pending> = (0..64).map(|_| host.call("send", &text("hang"))).collect();
    let refused = host.call("send", &text("hello"));
    assert_eq!(refused.wait().status, status::BUSY);
    assert!(hanging.iter().all(|call| !call.is_answered()));

    hanging[0].cancel();
    assert_eq!(hanging[0].wait().status, status::DROPPED);
    assert_eq!(host.send(&text("hello")), SendOutcome::delivered("hello", 0));
}

#[test]
fn shutdown_drops_open_calls_and_refuses_later_ones() {
    let host = puppet();
    let hanging = host.call("send", &text("hang"));
    host.next_host_call("announce");
    assert_eq!(host.shutdown(SOON).wait().status, status::OK);
    assert_eq!(hanging.wait().status, status::DROPPED);
    assert_eq!(host.call("health", &json!({})).wait().status, status::DROPPED);
    assert_eq!(host.shutdown(SOON).wait().status, status::OK);
    assert!(host.destroy(SOON));
    assert!(host.is_released());
}

#[test]
fn destroy_without_shutdown_ends_the_instance_too() {
    let host = puppet();
    let hanging = host.call("send", &text("hang"));
    assert!(host.destroy(SOON));
    assert_eq!(hanging.wait().status, status::DROPPED);
    assert!(host.is_released());
}

#[test]
fn a_busy_loop_is_stuck_after_the_deadline_and_its_calls_are_dropped() {
    let host = puppet();
    let spinning = host.call("send", &text("spin"));
    host.next_host_call("announce");
    let shutdown = host.shutdown(Duration::from_millis(50));
    assert!(!host.destroy(Duration::from_millis(100)), "the loop outlasts the deadline");
    assert_eq!(spinning.wait().status, status::DROPPED);
    assert_eq!(shutdown.wait().status, status::DROPPED);
    assert!(!host.is_released(), "a stuck thread still holds its host");
}

#[test]
fn a_stuck_instance_does_not_hold_up_another_of_the_same_library() {
    let stuck = puppet();
    let _spinning = stuck.call("send", &text("spin"));
    stuck.next_host_call("announce");
    assert_eq!(puppet().send(&text("hello")), SendOutcome::delivered("hello", 0));
}

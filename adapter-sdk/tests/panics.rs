//! Tests that panics stay on the adapter's side and poison the instance.

use hermes_adapter_sdk::protocol::{CallError, SendOutcome};
use hermes_adapter_sdk::serde_json::json;
use hermes_adapter_sdk::testing::{MockHost, status};

use crate::adapters::{Puppet, text};

fn puppet() -> MockHost {
    MockHost::start::<Puppet>(json!({})).expect("it starts")
}

#[test]
fn a_panic_in_send_is_told_and_every_later_call_is_poisoned() {
    let host = puppet();
    let answer = host.call("send", &text("panic")).wait();
    assert_eq!(answer.status, status::PANIC);
    let error: CallError = answer.json();
    assert_eq!(error.code, "panic");
    assert_eq!(error.message, "instance `test`: panic in `send`: boom 1");

    let later = host.call("send", &text("hello")).wait();
    assert_eq!(later.status, status::POISONED);
    assert!(later.json::<CallError>().message.contains("boom 1"));
}

#[test]
fn a_panic_is_in_the_hosts_log_with_its_place() {
    let host = puppet();
    let _answer = host.call("send", &text("panic")).wait();
    let line = host.wait_log("boom 1");
    assert_eq!((line.level, line.target.as_str()), (1, "panic"));
    assert!(line.fields["place"].as_str().is_some_and(|place| place.contains("adapters.rs:")), "{line:?}");
}

#[test]
fn a_panic_payload_that_panics_when_dropped_is_contained() {
    let host = puppet();
    assert_eq!(host.call("send", &text("spiteful")).wait().status, status::PANIC);
    assert_eq!(host.call("send", &text("hello")).wait().status, status::POISONED);
}

#[test]
fn a_panic_in_a_spawned_task_poisons_and_ends_run_at_once() {
    let host = puppet();
    let run = host.run();
    let _sent: SendOutcome = host.send(&text("panic in a task"));
    let answer = run.wait();
    assert_eq!(answer.status, status::PANIC);
    assert!(answer.text().contains("panic in a task: boom in a task"), "{}", answer.text());
    assert_eq!(host.call("health", &json!({})).wait().status, status::POISONED);
}

#[test]
fn a_poisoned_instance_still_ends_and_a_new_one_works() {
    let host = puppet();
    let _answer = host.call("send", &text("panic")).wait();
    assert_eq!(host.shutdown(std::time::Duration::from_secs(5)).wait().status, status::OK);
    assert!(host.destroy(std::time::Duration::from_secs(5)));
    assert!(host.is_released());

    assert_eq!(puppet().send(&text("hello")), SendOutcome::delivered("hello", 0));
}

#[test]
fn a_panic_while_a_cancelled_call_is_dropped_poisons() {
    let host = puppet();
    let run = host.run();
    let hanging = host.call("send", &text("hang rudely"));
    host.next_host_call("announce");
    hanging.cancel();
    assert_eq!(hanging.wait().status, status::DROPPED);
    assert_eq!(run.wait().status, status::PANIC);
    let later = host.call("send", &text("hello")).wait();
    assert_eq!(later.status, status::POISONED);
    assert!(later.text().contains("panic in the end of a call: dropped rudely"), "{}", later.text());
}

#[test]
fn an_adapter_that_panics_when_dropped_still_ends() {
    let host = MockHost::start::<Puppet>(json!({ "at_birth": "haunt" })).expect("it starts");
    assert_eq!(host.shutdown(std::time::Duration::from_secs(5)).wait().status, status::OK);
    assert_eq!(host.wait_log("the puppet haunts").target, "panic");
    assert!(host.destroy(std::time::Duration::from_secs(5)));
    assert!(host.is_released());
}

//! Tests of the host's time limits, and of calls that the host rejects temporarily.

use std::sync::{Mutex, mpsc};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use hermes_adapter_sdk::testing::MockHost;
use serde_json::json;

use crate::stage::*;

#[test]
fn a_message_ends_before_its_host_stops_waiting() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let host = bot(
        move |line| match line {
            "POST channels/10/messages" => {
                let _ = wait.lock().expect("nobody panicked").recv();
                (200, json!({ "id": "500" }))
            }
            _ => channel(),
        },
        |_, _, peer| {
            ready(peer, "");
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let mut message = Outgoing::text(Chat::new(ChatType::Channel, "10"), "hello");
    message.within_ms = Some(40);
    let SendOutcome::Unknown { detail, .. } = host.send(&message) else { panic!("nobody answered") };
    assert_eq!(detail, "Discord did not answer in time");
    drop(go);
}

#[test]
fn a_host_that_cannot_lock_the_bot_for_the_moment_is_asked_again() {
    let lock = |code: &'static str| {
        let setup = MockHost::setup("test");
        let setup = setup.answer(host_method::LOCK_CREDENTIAL, move |_| Err(CallError::new(code, "not now")));
        bot_of(setup, || json!({ "shards": 1 }), |_| channel(), |_, _, _| {}).connect().expect_err("it is not locked")
    };
    assert_eq!(lock("unavailable"), ConnectError::retry("not now"));
    assert!(matches!(lock("credential_in_use"), ConnectError::Fatal { .. }));
}

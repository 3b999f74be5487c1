//! Tests of the host's time limits, and of calls that the host rejects temporarily.

use std::sync::{Mutex, mpsc};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use hermes_adapter_sdk::testing::MockHost;

use crate::stage::*;

#[test]
fn a_message_ends_before_its_host_stops_waiting() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let host = app(
        MockHost::setup("test"),
        move |_, _| {
            let _ = wait.lock().expect("nobody panicked").recv();
            (500, Vec::new())
        },
        |_, peer| while peer.read().is_ok() {},
    );
    host.connect().expect("it comes up");
    let mut message = Outgoing::text(Chat::new(ChatType::Group, "T1/C1"), "hello");
    message.within_ms = Some(40);
    let SendOutcome::Unknown { detail, .. } = host.send(&message) else { panic!("nobody answered") };
    assert_eq!(detail, "Slack did not answer in time");
    drop(go);
}

#[test]
fn a_host_that_cannot_lock_the_app_for_the_moment_is_asked_again() {
    let lock = |code: &'static str| {
        let setup = MockHost::setup("test");
        let setup = setup.answer(host_method::LOCK_CREDENTIAL, move |_| Err(CallError::new(code, "not now")));
        app(setup, |asked, _| panic!("nobody asks for {}", asked.line), |_, _| {}).connect().expect_err("not locked")
    };
    assert_eq!(lock("unavailable"), ConnectError::retry("not now"));
    assert!(matches!(lock("credential_in_use"), ConnectError::Fatal { .. }));
}

#[test]
fn what_nobody_took_on_is_tried_until_its_time_is_over_and_what_may_have_been_done_is_not() {
    let said = |status: u16| {
        let page = move |_: &Asked, _: &str| (status, b"<html>".to_vec());
        let host = app(MockHost::setup("test"), page, |_, peer| while peer.read().is_ok() {});
        host.connect().expect("it comes up");
        host.send(&Outgoing::text(Chat::new(ChatType::Group, "T1/C1"), "hello"))
    };
    assert!(matches!(said(503), SendOutcome::NotSent { .. }));
    assert!(matches!(said(502), SendOutcome::Unknown { .. }));
}

//! Tests of the status shown while the agent works.

use std::sync::mpsc;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, status};
use serde_json::json;

use crate::stage::*;

fn typing(on: bool) -> serde_json::Value {
    json!({ "chat": Chat::new(ChatType::Group, "T1/C1").in_thread("1700000000.000100"), "on": on })
}

#[test]
fn a_thread_shows_that_somebody_thinks_until_the_app_is_told_that_it_may_not() {
    let (tell, told) = mpsc::channel();
    let host = app(
        MockHost::setup("test"),
        move |asked, _| {
            assert_eq!(asked.line, "POST /api/assistant.threads.setStatus");
            let form = String::from_utf8(asked.body.clone()).expect("it is a form");
            let is_off = form.ends_with("status=");
            let _ = tell.send(form);
            match is_off {
                false => ok(json!({})),
                true => (200, json!({ "ok": false, "error": "missing_scope", "needed": "x" }).to_string().into_bytes()),
            }
        },
        |_, peer| while peer.read().is_ok() {},
    );
    host.connect().expect("it comes up");
    for on in [true, false, true] {
        assert_eq!(host.call("typing", &typing(on)).wait().status, status::OK);
    }
    let told: Vec<String> = told.try_iter().collect();
    assert_eq!(told.len(), 2, "nothing is asked for that is refused for good: {told:?}");
    assert!(told[0].starts_with("channel_id=C1&thread_ts=1700000000.000100&status=is+thinking"), "{told:?}");
    assert!(told[1].ends_with("&status="), "{told:?}");
}

//! Tests of failures.

use super::*;

fn status_of(state: &'static str) -> Setup {
    MockHost::setup("api_server").answer("turns.status", move |_| Ok(json!({"state": state})))
}

#[test]
fn a_requester_that_goes_stops_its_turn() {
    let stop = |world: &World| {
        let stopped = world.host.next_host_call("turns.stop");
        assert_eq!(stopped, json!({"inbox_id": 1}));
        assert!(is_gone(&world.reply(1, "too late")));
    };
    let setup = || MockHost::setup("api_server").answer("turns.stop", |_| Ok(json!({"stopped": true})));

    let world = World::with(setup(), json!({}));
    let waiting = world.address.open("POST", "/v1/chat/completions", &[], &hello().to_string());
    world.host.next_event();
    drop(waiting);
    stop(&world);

    let world = World::with(setup(), json!({}));
    let mut streaming = world.address.open("POST", "/v1/chat/completions", &[], &streamed().to_string());
    world.host.next_event();
    world.stream(1, 1, chunk("half"));
    streaming.wait_for("half");
    drop(streaming);
    stop(&world);
}

#[test]
fn without_an_open_request_nothing_is_delivered() {
    let world = World::new();
    assert!(is_gone(&world.reply(77, "hello?")));
    assert!(is_gone(&world.host.send(&Outgoing::text(Chat::dm("session:x"), "hello?"))));
    assert!(!world.stream(77, 1, chunk("hello?")));
}

#[test]
fn a_failed_turn_is_an_error_that_clients_do_not_repeat_by_themselves() {
    let world = World::new();
    let failure =
        |code: &str| TurnEvent::Error { code: code.to_owned(), message: "It failed.".to_owned(), retryable: true };
    let asking = world.ask(&[], hello());
    world.host.next_event();
    world.stream(1, 1, failure("runtime_failed"));
    assert!(is_delivered(&world.reply(1, "It failed.")), "the sentence was told");
    let answer = asking.join().unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (502, "runtime_failed"));
    assert_eq!(answer.json()["error"]["message"], "It failed.");
    assert_eq!(answer.headers["x-should-retry"], "false");

    let streaming = world.ask(&[], streamed());
    world.host.next_event();
    world.stream(2, 1, chunk("half "));
    world.stream(2, 2, failure("runtime_timeout"));
    assert!(is_delivered(&world.reply(2, "It failed.")));
    let data = streaming.join().unwrap().data();
    let [.., error, done] = &data[..] else { panic!("{data:?}") };
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!((error["error"]["code"].as_str(), done.as_str()), (Some("runtime_timeout"), "[DONE]"));

    let events = world.post("/api/chat/stream", &[], json!({"message": "hello"}));
    world.host.next_event();
    world.stream(3, 1, metadata());
    world.stream(3, 2, failure("runtime_failed"));
    world.deliver(3, "It failed.");
    assert_eq!(events.join().unwrap().names(), ["metadata", "error"]);
}

#[test]
fn a_request_has_a_deadline_and_its_turn_ends_with_it() {
    let setup = MockHost::setup("api_server").answer("turns.stop", |_| Ok(json!({"stopped": true})));
    let world = World::with(setup, json!({"request_timeout_s": 1}));
    let answer = world.ask(&[], hello()).join().unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (504, "request_timeout"));
    assert_eq!(world.host.next_host_call("turns.stop"), json!({"inbox_id": 1}));
    assert!(is_gone(&world.reply(1, "too late")));
}

#[test]
fn a_request_that_the_host_does_not_admit_is_told_so() {
    let world = World::with(status_of("over"), json!({}));
    let answer = world.ask(&[], hello()).join().unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (403, "not_admitted"));
    assert!(answer.body.contains("trust_upstream"));
}

#[test]
fn a_notice_instead_of_an_answer_is_the_answer() {
    let world = World::with(status_of("over"), json!({}));
    let asking = world.ask(&[], hello());
    world.host.next_event();
    let mut notice = reply(1, "Not queued: 32 messages already wait here.");
    notice.purpose = Purpose::Notice;
    assert!(is_delivered(&world.host.send(&notice)));
    let answer = asking.join().unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (503, "not_answered"));
    assert!(answer.body.contains("Not queued"));
}

#[test]
fn a_notice_while_the_turn_waits_ends_nothing() {
    let world = World::with(status_of("queued"), json!({}));
    let asking = world.ask(&[], hello());
    world.host.next_event();
    let mut notice = reply(1, "Queued behind 2 others.");
    notice.purpose = Purpose::Notice;
    assert!(is_delivered(&world.host.send(&notice)));
    world.host.next_host_call("turns.status");
    assert!(is_delivered(&world.reply(1, "here I am")));
    assert_eq!(asking.join().unwrap().json()["choices"][0]["message"]["content"], "here I am");
}

#[test]
fn more_requests_than_there_is_room_for_are_told_to_come_back() {
    let world = World::with(MockHost::setup("api_server"), json!({"requests_max": 1}));
    let first = world.ask(&[], hello());
    world.host.next_event();
    let second = world.ask(&[], hello()).join().unwrap();
    assert_eq!((second.status, second.error_code().as_str()), (429, "rate_limit_exceeded"));
    assert_eq!(second.headers["retry-after"], "1");
    assert!(is_delivered(&world.reply(1, "one")));
    assert_eq!(first.join().unwrap().status, 200);
    let third = world.ask(&[], hello());
    world.host.next_event();
    world.deliver(2, "three");
    assert_eq!(third.join().unwrap().status, 200);
}

#[test]
fn a_host_that_does_not_take_the_event_is_told_as_it_is() {
    let setup =
        MockHost::setup("api_server").answer("emit", |_| Err(CallError::new("unavailable", "the disk is full")));
    let world = World::with(setup, json!({}));
    for body in [hello(), streamed()] {
        let answer = world.ask(&[], body).join().unwrap();
        assert_eq!((answer.status, answer.error_code().as_str()), (503, "not_accepted"));
        assert!(answer.body.contains("the disk is full"));
    }
}

#[test]
fn a_request_that_the_host_never_takes_is_not_to_be_tried_again() {
    let setup = MockHost::setup("api_server").answer("emit", |_| Err(CallError::new("too_large", "at most 7 bytes")));
    let world = World::with(setup, json!({}));
    for body in [hello(), streamed()] {
        let answer = world.ask(&[], body).join().unwrap();
        assert_eq!((answer.status, answer.error_code().as_str()), (413, "body_too_large"));
        assert!(answer.body.contains("at most 7 bytes"));
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_starts_nothing() {
    let world = World::with(MockHost::setup("api_server"), json!({"body_bytes_max": 2048}));
    let post = |body: &str| world.address.post("/v1/chat/completions", &[], body);
    for (body, code) in [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        ("", "invalid_json"),
        (r#"{"messages": []}"#, "invalid_value"),
        (r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#, "invalid_value"),
        (r#"{"messages": [{"role": "user", "content": "x"}], "n": 2}"#, "invalid_value"),
    ] {
        let answer = post(body);
        assert_eq!((answer.status, answer.error_code().as_str()), (400, code), "{body}");
    }
    let long = post(&"x".repeat(3000));
    assert_eq!((long.status, long.error_code().as_str()), (413, "body_too_large"));
    assert_eq!(world.address.get("/v1/chat/completions", &[]).error_code(), "method_not_allowed");
    assert_eq!(world.address.get("/nowhere", &[]).error_code(), "not_found");
    let both = world.address.post("/api/chat/stream", &[], r#"{"message": " "}"#);
    assert_eq!(both.status, 400);
    assert!(world.host.emitted().is_empty());
}

#[test]
fn files_are_refused_since_nobody_could_take_them() {
    let world = World::new();
    let asking = world.ask(&[], hello());
    world.host.next_event();
    let mut outgoing = reply(1, "see file");
    outgoing.media.push(OutMedia::new("m", "/tmp/x", "image/png", "x.png", 1));
    assert!(matches!(world.host.send(&outgoing), SendOutcome::Refused { kind: RefusalKind::Invalid, .. }));
    world.deliver(1, "no file");
    assert_eq!(asking.join().unwrap().status, 200);
}

#[test]
fn the_end_of_the_instance_ends_its_requests() {
    let world = World::new();
    let mut streaming = world.address.open("POST", "/v1/chat/completions", &[], &streamed().to_string());
    world.host.next_event();
    world.stream(1, 1, chunk("half"));
    streaming.wait_for("half");
    let World { host, _run: run, .. } = world;
    drop(run);
    assert!(host.destroy(std::time::Duration::from_secs(5)), "it ends in time");
    assert!(host.is_released());
}

//! Tests of requests repeated under their idempotency keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;

const ONCE: &[(&str, &str)] = &[("idempotency-key", "order-1")];

fn text(response: &Response) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_repeated_request_never_starts_a_second_turn_and_gets_the_same_answer() {
    let world = World::new();
    let first = world.ask(ONCE, hello());
    world.host.next_event();
    let second = world.post("/api/chat/stream", ONCE, json!({"message": "hello"}));
    world.stream(1, 1, chunk("the "));
    world.stream(1, 2, done());
    let send = world.host.call(method::SEND, &reply(1, "the answer"));
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    assert!(is_delivered(&send.wait().ok()));
    assert_eq!(text(&first), "the answer");
    assert_eq!(second.names().last().map(String::as_str), Some("done"));
    assert!(second.body.contains("answer"));

    let third = world.ask(ONCE, hello()).join().unwrap();
    assert_eq!((text(&third), &third.json()["id"]), ("the answer".to_owned(), &first.json()["id"]));
    assert_eq!(world.host.emitted().len(), 1);
}

#[test]
fn the_same_key_with_another_question_is_another_request() {
    let world = World::new();
    let first = world.ask(ONCE, hello());
    world.host.next_event();
    world.deliver(1, "one");
    assert_eq!(text(&first.join().unwrap()), "one");
    let other = world.ask(ONCE, json!({"messages": [{"role": "user", "content": "other"}]}));
    world.host.next_event();
    world.deliver(2, "two");
    assert_eq!(text(&other.join().unwrap()), "two");
}

#[test]
fn a_requester_that_goes_finds_the_answer_under_its_key() {
    let world = World::new();
    let connection = world.address.open("POST", "/v1/chat/completions", ONCE, &hello().to_string());
    world.host.next_event();
    drop(connection);
    // A later response proves that the server has read the end of that connection.
    assert_eq!(world.address.get("/health", &[]).status, 200);
    assert!(is_gone(&world.reply(1, "late")));
    assert_eq!(text(&world.ask(ONCE, hello()).join().unwrap()), "late");
    assert_eq!(world.host.emitted().len(), 1);
    assert!(world.host.host_calls().iter().all(|call| call.method != "turns.stop"));
}

/// The key-value store, which survives a restart.
type Values = Arc<Mutex<BTreeMap<String, String>>>;

fn setup(values: &Values, inbox: &Arc<Mutex<BTreeMap<String, i64>>>) -> Setup {
    let (read, write, inbox) = (Arc::clone(values), Arc::clone(values), Arc::clone(inbox));
    let text = |payload: &Value, key: &str| payload[key].as_str().unwrap().to_owned();
    MockHost::setup("api_server")
        .answer("kv.get", move |payload| Ok(json!({"value": read.lock().unwrap().get(&text(payload, "key"))})))
        .answer("kv.set", move |payload| {
            write.lock().unwrap().insert(text(payload, "key"), text(payload, "value"));
            Ok(json!({}))
        })
        .answer("emit", move |payload| {
            let mut inbox = inbox.lock().unwrap();
            let next = i64::try_from(inbox.len()).unwrap() + 1;
            let event_id = text(payload, "event_id");
            if let Some(id) = inbox.get(&event_id) {
                return Ok(json!({"duplicate_of": id}));
            }
            inbox.insert(event_id, next);
            Ok(json!({"inbox_id": next}))
        })
}

#[test]
fn answers_survive_a_restart_of_the_adapter_and_of_the_turn() {
    let (values, inbox) = (Values::default(), Arc::default());
    let world = World::with(setup(&values, &inbox), json!({}));
    let asking = world.ask(ONCE, hello());
    world.host.next_event();
    world.deliver(1, "before");
    assert_eq!(text(&asking.join().unwrap()), "before");
    let cut_off =
        world.address.open("POST", "/v1/chat/completions", &[("idempotency-key", "k2")], &hello().to_string());
    world.host.next_event();
    let begun = || values.lock().unwrap().get("kept").is_some_and(|index| index.contains("\"i\":2"));
    while !begun() {
        thread::yield_now();
    }
    drop(world);
    drop(cut_off);

    let world = World::with(setup(&values, &inbox), json!({}));
    assert_eq!(text(&world.ask(ONCE, hello()).join().unwrap()), "before");
    assert!(world.host.emitted().is_empty(), "the host was not even asked");
    assert!(is_gone(&world.reply(2, "resumed")), "nobody waits for the resumed turn");
    assert_eq!(text(&world.ask(&[("idempotency-key", "k2")], hello()).join().unwrap()), "resumed");
}

#[test]
fn a_repeated_request_waits_for_a_turn_that_a_restart_left_running() {
    let (values, inbox) = (Values::default(), Arc::default());
    let world = World::with(setup(&values, &inbox), json!({}));
    let cut_off = world.address.open("POST", "/v1/chat/completions", ONCE, &hello().to_string());
    world.host.next_event();
    drop(world);
    drop(cut_off);

    let world = World::with(setup(&values, &inbox), json!({}));
    let asking = world.ask(ONCE, hello());
    world.host.next_event();
    assert!(is_delivered(&world.reply(1, "resumed")));
    assert_eq!(text(&asking.join().unwrap()), "resumed");
}

#[test]
fn an_answer_that_is_not_kept_any_more_is_told_as_such() {
    let setup = MockHost::setup("api_server")
        .answer("emit", |_| Ok(json!({"duplicate_of": 5})))
        .answer("turns.status", |_| Ok(json!({"state": "over"})));
    let world = World::with(setup, json!({}));
    let answer = world.ask(ONCE, hello()).join().unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (409, "already_answered"));
}

#[test]
fn a_failure_is_kept_as_well() {
    let world = World::new();
    let asking = world.ask(ONCE, hello());
    world.host.next_event();
    let failure = TurnEvent::Error { code: "runtime_failed".into(), message: "It failed.".into(), retryable: false };
    world.stream(1, 1, failure);
    world.deliver(1, "It failed.");
    let (first, again) = (asking.join().unwrap(), world.ask(ONCE, hello()).join().unwrap());
    assert_eq!((again.status, &again.body), (502, &first.body));
    assert_eq!(world.host.emitted().len(), 1);
}

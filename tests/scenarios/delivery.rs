//! Delivery of answers.

use hermes_tests::{Isolation, World, until};
use serde_json::json;

fn answered(outcome: serde_json::Value, times: u32) -> (World, hermes_tests::Chat) {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.scripted.answers(outcome, times);
    let chat = world.scripted.chat("7");
    chat.says("question");
    (world, chat)
}

#[test]
fn a_platform_that_asks_to_wait_gets_the_answer_later_and_once() {
    let (mut world, chat) = answered(json!({ "type": "not_sent", "retry_after_ms": 300, "scope": "chat" }), 2);
    let tries = chat.hears(3);
    assert!(tries.iter().all(|text| *text == tries[0]), "the same text, without a mark: {tries:?}");
    let keys: Vec<_> = world.scripted.sent().iter().map(|part| part["key"].clone()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "the same key: {keys:?}");
    settled(&world);
    world.stop();
}

#[test]
fn a_doubtful_send_is_repeated_once_and_marked_and_then_given_up_visibly() {
    let (mut world, chat) = answered(json!({ "type": "unknown", "detail": "cut" }), 5);
    let tries = chat.hears(2);
    assert!(!tries[0].contains("(possibly repeated)") && tries[1].contains("(possibly repeated)"), "{tries:?}");
    until("the operator sees it", 20, || {
        world.told(&["outbox", "list", "--json"]).contains("doubtful twice").then_some(())
    });
    let copies = chat.received().iter().filter(|text| text.contains("question")).count();
    assert_eq!(copies, 2, "never a third time: {:?}", chat.received());
    world.stop();
}

#[test]
fn markup_that_is_refused_goes_once_more_as_plain_text() {
    let (mut world, chat) = answered(json!({ "type": "refused", "kind": "bad_format", "detail": "no" }), 1);
    chat.hears(2);
    let formats: Vec<_> = world.scripted.sent().iter().map(|part| part["format"].clone()).collect();
    assert_eq!(formats[1], "plain", "{formats:?}");
    settled(&world);
    world.stop();
}

#[test]
fn a_chat_that_is_gone_is_not_written_to_until_it_speaks_again() {
    let (mut world, chat) = answered(json!({ "type": "refused", "kind": "forbidden", "detail": "blocked" }), 1);
    chat.hears(1);
    until("the refusal is settled", 20, || {
        world.told(&["outbox", "list", "--json"]).contains("forbidden").then_some(())
    });
    chat.says("I am back");
    let answers = chat.hears(2);
    assert!(answers[1].contains("I am back"));
    world.stop();
}

#[test]
fn a_thread_that_is_gone_does_not_take_the_answer_with_it() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.scripted.answers(json!({ "type": "refused", "kind": "thread_gone", "detail": "deleted" }), 1);
    world.scripted.group("g", "7").thread("t").says("where now");
    let answers = world.scripted.group("g", "7").hears(1);
    assert!(answers[0].contains("where now"));
    world.stop();
}

#[test]
fn a_migrated_chat_gets_the_answer_at_its_new_place() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.scripted.answers(json!({ "type": "refused", "kind": "migrated", "detail": "", "migrated_to": "g2" }), 1);
    world.scripted.group("g", "7").says("where now");
    assert!(world.scripted.group("g2", "7").hears(1)[0].contains("where now"));
    world.stop();
}

#[test]
fn a_text_that_is_too_long_after_all_is_cut_smaller_once() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.scripted.answers(json!({ "type": "refused", "kind": "too_long", "detail": "" }), 1);
    let chat = world.scripted.chat("7");
    chat.says(&"many words ".repeat(200));
    let parts = chat.hears(3);
    assert!(parts[1].len() < parts[0].len(), "smaller parts follow");
    world.stop();
}

#[test]
fn a_send_that_hangs_does_not_hold_up_another_chat() {
    let mut world = World::new(Isolation::InProcess, &["7", "8"]);
    world.start();
    world.scripted.tell(json!({ "do": "hang_in", "method": "send" }));
    world.scripted.chat("7").says("stuck");
    world.scripted.chat("7").hears(1);
    world.scripted.chat("8").says("free");
    assert!(world.scripted.chat("8").hears(1)[0].contains("free"));
    world.kill();
}

#[test]
fn a_platform_that_asks_one_chat_to_wait_hears_the_others_and_what_waits_can_be_dropped() {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["7", "8"]);
        world.start();
        world.scripted.answers(json!({ "type": "not_sent", "retry_after_ms": 3_600_000, "scope": "chat" }), 1);
        let (held, free) = (world.scripted.chat("7"), world.scripted.chat("8"));
        held.says("question");
        held.hears(1);
        held.says("another question");
        free.says("is it only there");
        assert!(free.hears(1)[0].contains("only there"));
        let owed = until("both wait", 20, || {
            let listed = world.told(&["outbox", "list", "--json"]);
            let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
            let owed = listed.as_array()?.iter().filter(|one| one["state"] == "owed").map(|one| one["id"].to_string());
            Some(owed.collect::<Vec<_>>()).filter(|owed| owed.len() == 2)
        });
        for id in &owed {
            world.told(&["outbox", "drop", id]);
        }
        settled(&world);
        let shown = world.told(&["outbox", "show", &owed[0], "--json"]);
        assert!(shown.contains("abandoned") && shown.contains("question"), "{shown}");
        assert_eq!(held.received().len(), 1, "what is dropped is not sent any more");
        assert_ne!(world.cli(&["outbox", "drop", "999999"]).status.code(), Some(0));
        assert_eq!(world.stop(), Some(0));
    });
}

/// Waits until no delivery is pending.
fn settled(world: &World) {
    until("everything is settled", 20, || (world.status()["queues"]["outbox"] == 0).then_some(()));
}

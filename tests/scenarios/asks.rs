//! Questions of the agent and the answers of people.

use hermes_tests::{Isolation, World, until};
use serde_json::{Value, json};

/// Returns a host whose agent asks on command; `1` is an admin.
fn world(isolation: Isolation) -> World {
    let world = World::new(isolation, &["7"]);
    world.configure(&format!(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\ntest_words = true\n\n\
         [adapter.scripted]\nisolation = \"{}\"\naccess = {{ allowed_users = [\"7\"], admins = [\"1\"] }}\n\
         socket = \"SOCKET\"\nsession = {{ busy = \"queue\" }}\n",
        isolation.word()
    ));
    world
}

fn question(world: &World, count: usize) -> Value {
    world.scripted.wait("a question", 30, |seen| {
        let asked = seen.iter().filter(|said| said["saw"] == "send" && said["outgoing"]["choices"].is_object());
        asked.map(|said| said["outgoing"].clone()).nth(count - 1)
    })
}

fn press(world: &World, question: &Value, number: u32, option: &str) {
    let event = json!({
        "type": "choice", "event_id": format!("c:{number}"), "at_ms": 1, "chat": question["chat"],
        "sender": { "id": "7" }, "choice": { "ask": question["choices"]["ask"], "option": option },
    });
    world.scripted.tell(json!({ "do": "inbound", "event": event }));
}

fn edited(world: &World, words: &str) {
    world.scripted.wait(words, 30, |seen| {
        let edits = seen.iter().filter(|said| said["saw"] == "edit").map(|said| &said["outgoing"]);
        let mut edits = edits.filter(|edit| edit["choices"].is_null());
        edits.find(|edit| edit["text"].as_str().unwrap_or_default().contains(words)).cloned()
    });
}

#[test]
fn a_pressed_button_answers_and_goes_away_in_either_isolation() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        world.start();
        let chat = world.scripted.chat("7");
        chat.says("/ask make coffee");
        let question = question(&world, 1);
        // Only a delivered message is edited.
        until("it is delivered", 30, || (world.status()["queues"]["outbox"] == 0).then_some(()));
        press(&world, &question, 1, "once");
        until("it goes on", 30, || chat.received().contains(&"approved: once".to_owned()).then_some(()));
        edited(&world, "Approved once.");
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn a_bare_yes_answers_no_question_that_has_no_receipt_and_a_button_does_also_across_a_kill() {
    let mut world = world(Isolation::InProcess);
    world.start();
    let chat = world.scripted.chat("7");
    world.scripted.tell(json!({ "do": "hang_in", "method": "send" }));
    chat.says("/ask make coffee");
    let asked = question(&world, 1);
    chat.says("yes");
    world.scripted.wait("it is taken", 30, |seen| {
        (seen.iter().filter(|said| said["emitted"].is_object()).count() == 2).then_some(())
    });
    press(&world, &asked, 1, "deny");
    until("it goes on", 30, || (world.status()["queues"]["turns"] == 0).then_some(()));
    world.kill();
    world.start();
    until("both are answered", 30, || {
        let heard = chat.received();
        ["denied", "yes"].iter().all(|text| heard.iter().any(|one| one == text)).then_some(())
    });
    assert!(!chat.received().iter().any(|text| text.starts_with("approved")), "{:?}", chat.received());
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_turn_hears_at_once_that_its_question_was_refused_in_either_isolation() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        world.start();
        let chat = world.scripted.chat("7");
        world.scripted.answers(json!({ "type": "refused", "kind": "invalid", "detail": "no" }), 1);
        chat.says("/ask make coffee");
        let denied = "denied: the question could not be sent: refused (invalid): no";
        until("it goes on", 30, || chat.received().contains(&denied.to_owned()).then_some(()));
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn a_question_of_a_killed_host_is_no_longer_open_and_its_turn_asks_again() {
    let mut world = world(Isolation::InProcess);
    world.start();
    let chat = world.scripted.chat("7");
    chat.says("/ask make coffee");
    let old = question(&world, 1);
    until("it is delivered", 30, || (world.status()["queues"]["outbox"] == 0).then_some(()));
    world.kill();
    world.start();
    let new = question(&world, 2);
    edited(&world, "no longer open");
    press(&world, &old, 1, "once");
    press(&world, &new, 2, "deny");
    until("it goes on", 30, || chat.received().contains(&"denied".to_owned()).then_some(()));
    assert!(!chat.received().contains(&"approved: once".to_owned()));
    assert_eq!(world.stop(), Some(0));
}

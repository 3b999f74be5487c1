//! Conversations, from the point of view of people in a chat.

use hermes_tests::{Isolation, World, until};
use serde_json::json;

#[test]
fn a_message_is_answered() {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["7"]);
        world.start();
        let chat = world.scripted.chat("7");
        chat.says("hello");
        assert!(chat.hears(1)[0].contains("hello"));
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn the_same_event_never_starts_a_second_turn() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    let chat = world.scripted.chat("7");
    let event = chat.event("once");
    for _ in 0..3 {
        world.scripted.tell(json!({ "do": "inbound", "event": event }));
    }
    let duplicates = world.scripted.wait("two duplicates", 20, |seen| {
        let found = seen.iter().filter(|said| said["emitted"]["duplicate_of"].is_i64()).count();
        (found == 2).then_some(found)
    });
    assert_eq!(duplicates, 2);
    assert_eq!(world.stop(), Some(0));
    world.start();
    world.scripted.tell(json!({ "do": "inbound", "event": event }));
    chat.says("another");
    let answers = chat.hears(2);
    assert!(answers[1].contains("another"), "across a restart too: {answers:?}");
    world.stop();
}

#[test]
fn a_second_message_waits_for_the_first_turn() {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["7"]);
        world.start();
        let chat = world.scripted.chat("7");
        for number in 0..20 {
            chat.says(&format!("message {number}."));
        }
        let answers = until("all are answered", 20, || {
            let answers: Vec<_> = chat.received().into_iter().filter(|text| !text.starts_with("Queued (")).collect();
            (answers.len() == 20).then_some(answers)
        });
        for (number, answer) in answers.iter().enumerate() {
            assert!(answer.contains(&format!("message {number}.")), "in order: {answers:?}");
        }
        world.stop();
    });
}

#[test]
fn a_stranger_gets_a_code_in_a_private_chat_and_silence_in_a_group() {
    let mut world = World::with("[adapter.scripted]\nsocket = \"SOCKET\"\n");
    world.start();
    let group = world.scripted.group("g", "99");
    group.says("hello group");
    let chat = world.scripted.chat("99");
    chat.says("hello");
    let offer = chat.hears(1).remove(0);
    let line = offer
        .lines()
        .find(|line| line.contains("pairing approve"))
        .expect("the offer prints the line")
        .trim_matches(['`', ' ']);
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..4], ["hermes-host", "pairing", "approve", "scripted"], "{offer}");
    // A wrong code changes nothing.
    assert_ne!(world.cli(&["pairing", "approve", "scripted", "AAAAAAAA"]).status.code(), Some(0));
    world.told(&words[1..]);
    chat.says("hello again");
    until("the friend is let in", 20, || chat.received().iter().any(|text| text.contains("hello again")).then_some(()));
    assert!(group.received().is_empty(), "a group never gets an answer about it");
    // The grant outlives the host.
    assert_eq!(world.stop(), Some(0));
    world.start();
    chat.says("still here");
    until("the grant outlives the host", 20, || {
        chat.received().iter().any(|text| text.contains("still here")).then_some(())
    });
    world.told(&["pairing", "revoke", "scripted", "99"]);
    let before = chat.received().len();
    chat.says("and now");
    world.scripted.wait("the event is taken", 20, |seen| {
        (seen.iter().filter(|said| said["emitted"].is_object()).count() >= 5).then_some(())
    });
    assert!(!chat.received().iter().skip(before).any(|text| text.contains("and now")), "revoked is revoked");
    world.stop();
}

#[test]
fn two_people_in_one_group_have_conversations_of_their_own_and_a_thread_is_shared() {
    let mut world = World::new(Isolation::InProcess, &["7", "8"]);
    world.start();
    for sender in ["7", "8"] {
        world.scripted.group("g", sender).says(&format!("from {sender}"));
        world.scripted.group("g", sender).thread("t").says(&format!("in the thread from {sender}"));
    }
    world.scripted.group("g", "7").hears(2);
    world.scripted.group("g", "7").thread("t").hears(2);
    let sessions: serde_json::Value =
        serde_json::from_str(&world.told(&["session", "list", "--all", "--json"])).expect("JSON");
    assert_eq!(sessions.as_array().map(Vec::len), Some(3), "{sessions}");
    world.stop();
}

#[test]
fn new_begins_a_new_conversation_and_status_tells_the_truth() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    let chat = world.scripted.chat("7");
    chat.says("first");
    chat.hears(1);
    chat.says("/new");
    chat.hears(2);
    chat.says("second");
    chat.hears(3);
    let sessions: serde_json::Value =
        serde_json::from_str(&world.told(&["session", "list", "--all", "--json"])).expect("JSON");
    assert_eq!(sessions.as_array().map(Vec::len), Some(2), "{sessions}");
    chat.says("/whoami");
    let answers = chat.hears(4);
    assert!(answers[3].contains('7'), "{answers:?}");
    chat.says("/hlep");
    let answers = chat.hears(5);
    assert!(answers[4].contains("help"), "the nearest command is named: {answers:?}");
    chat.says("/usr/bin/env is a path");
    let answers = chat.hears(6);
    assert!(answers[5].contains("/usr/bin/env"), "a path is no command: {answers:?}");
    world.stop();
}

#[test]
fn stop_frees_the_conversation_while_the_model_hangs() {
    let mut world = World::with("[adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n");
    world.configure(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\ntest_words = true\n\n[adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n",
    );
    world.start();
    let chat = world.scripted.chat("7");
    chat.says("/hang please");
    chat.says("waiting behind it");
    world.scripted.wait("both are taken", 20, |seen| {
        (seen.iter().filter(|said| said["emitted"].is_object()).count() >= 2).then_some(())
    });
    chat.says("/stop");
    until("the queue goes on", 20, || {
        chat.received().iter().any(|text| text.contains("waiting behind it")).then_some(())
    });
    world.stop();
}

//! Edits of received messages.

use hermes_protocol::{Emitted, Event, EventKind};
use serde_json::json;

use super::world::{Setting, Talk, World};
use crate::engine::recovery;

fn world() -> World {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }\nsession = { busy = \"queue\", receipts = false }";
    World::with(Setting { section: section.to_owned(), clock_stands: true, ..Setting::default() })
}

/// Returns the edit of a message to another text, not yet sent.
fn edit(of: &Event, text: &str) -> Event {
    let mut edit = of.clone().of_kind(EventKind::Edited);
    edit.event_id = format!("e:{}:{text}", of.event_id);
    text.clone_into(&mut edit.text);
    edit
}

/// Starts a turn of 7, and queues a message behind it.
fn waits_behind_a_turn(world: &World, chat: &Talk<'_>) -> Event {
    chat.says("/hang on");
    let running = || world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
    world.until("a turn runs", || (running() == 1).then_some(()));
    let second = chat.event("second");
    let Emitted::New { inbox_id } = chat.gives(&second) else { panic!("it is new") };
    let asked = json!({ "inbox_id": inbox_id });
    world.until("it waits", || (world.call("turns.status", asked.clone()).unwrap()["state"] == "queued").then_some(()));
    second
}

/// Ends the running turn, and waits until every message is answered.
fn ends(world: &World, chat: &Talk<'_>) -> Vec<String> {
    chat.says("/stop");
    world.settled();
    chat.heard()
}

#[test]
fn what_waits_is_answered_as_it_was_changed_last() {
    let world = world();
    let chat = world.chat("7");
    let second = waits_behind_a_turn(&world, &chat);
    chat.gives(&edit(&second, "secnd"));
    chat.gives(&edit(&second, "the second, mended"));
    let heard = ends(&world, &chat);
    assert_eq!(heard.last().map(String::as_str), Some("the second, mended"), "{heard:?}");
    assert!(heard.iter().all(|text| text != "second"), "{heard:?}");
}

#[test]
fn an_edit_of_what_a_turn_has_taken_or_answered_changes_nothing() {
    let world = world();
    let chat = world.chat("7");
    let first = chat.event("first");
    chat.gives(&first);
    assert_eq!(chat.hears(1), ["first"]);
    world.settled();
    chat.gives(&edit(&first, "something else"));
    world.settled();
    assert_eq!(chat.heard(), ["first"]);
    let hanging = chat.event("/hang half of it");
    chat.gives(&hanging);
    let running = || world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
    world.until("a turn runs", || (running() == 1).then_some(()));
    chat.gives(&edit(&hanging, "never mind"));
    let heard = ends(&world, &chat);
    assert!(heard.iter().all(|text| !text.contains("never mind") && !text.contains("else")), "{heard:?}");
}

#[test]
fn the_file_of_an_edit_stays_for_the_message_that_was_changed() {
    let world = world();
    let chat = world.chat("7");
    let second = waits_behind_a_turn(&world, &chat);
    let (file, path) = super::doubts::written(&world);
    let mut mended = edit(&second, "with a file");
    mended.attachments = vec![file];
    chat.gives(&mended);
    let heard = ends(&world, &chat);
    assert!(heard.last().is_some_and(|text| text.contains("\"x.txt\"") && text.contains("\nabc\n")), "{heard:?}");
    assert!(path.exists());
}

#[test]
fn only_whoever_wrote_it_changes_it_and_nobody_into_a_command_or_nothing() {
    let world = world();
    let chat = world.chat("7");
    let second = waits_behind_a_turn(&world, &chat);
    let mut by_another = edit(&second, "by another");
    by_another.sender = hermes_protocol::Sender::new("8");
    let elsewhere = edit(&world.chat("8").event("x"), "elsewhere");
    for edit in [by_another, elsewhere, edit(&second, "/new"), edit(&second, "  ")] {
        chat.gives(&edit);
    }
    assert_eq!(ends(&world, &chat).last().map(String::as_str), Some("second"));
}

#[test]
fn what_was_changed_is_changed_also_for_the_next_life_of_the_host() {
    let mut world = world();
    let second = waits_behind_a_turn(&world, &world.chat("7"));
    world.chat("7").gives(&edit(&second, "the second, mended"));
    world.crash();
    world.start();
    let heard = ends(&world, &world.chat("7"));
    assert_eq!(heard.last().map(String::as_str), Some("the second, mended"), "{heard:?}");
}

#[test]
fn what_was_said_and_changed_while_the_host_rests_is_heard_as_it_was_changed() {
    let world = world();
    let chat = world.chat("7");
    world.host().rests.store(true, std::sync::atomic::Ordering::Relaxed);
    let only = chat.event("frist");
    chat.gives(&only);
    chat.gives(&edit(&only, "first"));
    world.block_on(recovery::go_on(world.host())).unwrap();
    assert_eq!(chat.hears(1), ["first"]);
    world.settled();
    assert_eq!(chat.heard(), ["first"]);
}

#[test]
fn a_message_that_arrives_after_its_edit_is_answered_as_it_was_edited() {
    let world = world();
    let chat = world.chat("7");
    let first = chat.event("frist");
    chat.gives(&edit(&first, "first"));
    world.settled();
    assert!(chat.heard().is_empty(), "an edit alone is no message");
    chat.gives(&first);
    assert_eq!(chat.hears(1), ["first"]);
    chat.says("/hang on");
    let second = chat.event("secnd");
    chat.gives(&edit(&second, "second"));
    chat.gives(&second);
    let heard = ends(&world, &chat);
    assert_eq!(heard.last().map(String::as_str), Some("second"), "{heard:?}");
    assert!(!heard.iter().any(|text| text == "secnd" || text == "frist"), "{heard:?}");
}

#[test]
fn an_edit_that_arrives_after_a_later_one_changes_nothing() {
    let world = world();
    let chat = world.chat("7");
    let second = waits_behind_a_turn(&world, &chat);
    let third = chat.event("third");
    for message in [&second, &third] {
        for (text, ms) in [("last", 2_000), ("first", 1_000)] {
            let mut edit = edit(message, &format!("{text} edit of the {}", message.text));
            edit.at_ms = message.at_ms + ms;
            chat.gives(&edit);
        }
    }
    chat.gives(&third);
    let heard = ends(&world, &chat);
    assert!(!heard.iter().any(|text| text.contains("first edit")), "{heard:?}");
    for text in ["last edit of the second", "last edit of the third"] {
        assert_eq!(heard.iter().filter(|heard| heard.contains(text)).count(), 1, "{heard:?}");
    }
}

#[test]
fn an_edit_that_waits_for_its_message_survives_a_crash() {
    let mut world = world();
    let said = world.chat("7").event("frist");
    world.chat("7").gives(&edit(&said, "first"));
    world.crash();
    world.start();
    let chat = world.chat("7");
    chat.gives(&said);
    assert_eq!(chat.hears(1), ["first"]);
}

#[test]
fn an_edit_that_arrives_first_changes_only_the_message_of_its_sender_in_its_chat() {
    let world = world();
    let chat = world.chat("7");
    let said = chat.event("mine");
    let mut by_another = edit(&said, "by another");
    by_another.sender = hermes_protocol::Sender::new("8");
    let mut elsewhere = edit(&said, "elsewhere");
    elsewhere.chat = world.chat("8").event("x").chat;
    for edit in [by_another, elsewhere, edit(&said, "/new"), edit(&said, "  ")] {
        chat.gives(&edit);
    }
    chat.gives(&said);
    assert_eq!(chat.hears(1), ["mine"]);
}

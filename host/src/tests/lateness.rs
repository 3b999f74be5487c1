//! Messages that arrive late, not at all or elsewhere, and the deliveries that wait for them.

use std::time::Duration;

use hermes_protocol::{Addressed, Chat, ChatType, Event, RefusalKind, SendOutcome, Sender, WaitScope};
use serde_json::json;

use super::world::{Setting, World};
use hermes_store::DeliveryFilter;

const MINUTE: Duration = Duration::from_secs(60);

/// Creates a world in which time stands still.
fn world(section: &str, delivery: &str) -> World {
    World::with(Setting {
        section: section.to_owned(),
        delivery: delivery.to_owned(),
        clock_stands: true,
        ..Setting::default()
    })
}

fn friends() -> World {
    world("access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }", "backoff_ms = 10")
}

fn group(thread: &str) -> Chat {
    Chat::new(ChatType::Group, "g").in_thread(thread)
}

/// Sends a message that is addressed to the agent.
fn says(world: &World, chat: &Chat, text: &str) {
    let event = Event::message(format!("m:{text}"), chat.clone(), Sender::new("7"), text);
    world.block_on(world.give(&event.addressed(Addressed::new(true, false, false)))).unwrap();
}

/// Waits until this number of deliveries is owed.
fn owes(world: &World, count: u64) {
    world.until("it is owed", || (world.block_on(world.host().store.counts()).unwrap().outbox == count).then_some(()));
}

/// Waits until a failed attempt is stored.
fn failed(world: &World) {
    world.until("a try failed", || {
        let owed = world.block_on(world.host().store.owed(8)).unwrap();
        owed.iter().any(|delivery| delivery.parts[0].detail.is_some()).then_some(())
    });
}

/// Advances the time, and lets the lanes check it.
fn passes(world: &World, time: Duration) {
    world.passes(time);
    world.is_ready();
}

/// Returns the abandoned deliveries with their reasons.
fn given_up(world: &World) -> Vec<(String, String)> {
    let filter = DeliveryFilter { dead: true, ..DeliveryFilter::default() };
    let dead = world.block_on(world.host().store.deliveries(filter)).unwrap();
    dead.into_iter().map(|delivery| (delivery.chat.id, delivery.why.unwrap_or_default())).collect()
}

#[test]
fn a_part_that_keeps_failing_lets_what_follows_go_and_comes_at_last_marked() {
    let world = world("access = { allowed_users = [\"7\"] }", "backoff_ms = 10\nhold_s = 0");
    let chat = world.chat("7");
    for _ in 0..2 {
        world.platform.answers(SendOutcome::not_sent(None, WaitScope::Chat, "503"));
    }
    chat.says("first");
    chat.hears(1);
    failed(&world);
    passes(&world, MINUTE);
    assert_eq!(chat.hears(2)[1], "(delayed) first");
    chat.says("second");
    assert_eq!(chat.hears(3)[2], "second", "nothing waits for it");
    passes(&world, 5 * MINUTE);
    assert_eq!(chat.hears(4)[3], "(delayed) first");
    world.settled();
}

#[test]
fn a_failing_part_holds_what_follows_it_for_a_minute_only() {
    let world = friends();
    let chat = world.chat("7");
    world.platform.answers(SendOutcome::not_sent(None, WaitScope::Chat, "503"));
    chat.says("first");
    chat.hears(1);
    failed(&world);
    chat.says("second");
    owes(&world, 2);
    assert_eq!(chat.heard(), ["first"], "in order");
    world.platform.answers(SendOutcome::not_sent(None, WaitScope::Chat, "503"));
    passes(&world, 2 * MINUTE);
    let heard = chat.hears(3);
    assert_eq!(heard, ["first", "first", "second"], "it steps aside after its second try");
    passes(&world, 5 * MINUTE);
    assert_eq!(chat.hears(4)[3], "(delayed) first");
    world.settled();
}

#[test]
fn a_notice_that_could_not_go_for_ten_minutes_is_given_up_and_an_answer_only_after_a_day() {
    let world = world("access = { admins = [\"7\"] }", "backoff_ms = 10");
    world.set_online(false);
    world.chat("99").says("a stranger, who is offered a code");
    world.chat("7").says("question");
    owes(&world, 2);
    world.passes(11 * MINUTE);
    world.set_online(true);
    assert_eq!(world.chat("7").hears(1), ["question"]);
    world.settled();
    assert!(world.chat("99").heard().is_empty());
    world.set_online(false);
    world.chat("7").says("another question");
    owes(&world, 1);
    world.passes(25 * 60 * MINUTE);
    world.set_online(true);
    world.settled();
    let heard = world.chat("7").hears(2);
    assert!(heard[1].starts_with("A message could not be delivered here in time."), "{heard:?}");
    let why = "deadline passed".to_owned();
    let mut dead = given_up(&world);
    dead.sort();
    assert_eq!(dead, [("7".to_owned(), why.clone()), ("99".to_owned(), why)]);
}

#[test]
fn a_wait_of_one_chat_holds_its_threads_and_nobody_else() {
    let world = friends();
    world.platform.answers(SendOutcome::not_sent(Some(60_000), WaitScope::Chat, "slow down"));
    says(&world, &group("a"), "in thread a");
    let in_group = || world.platform.sent().iter().filter(|sent| sent.chat.id == "g").count();
    failed(&world);
    says(&world, &group("b"), "in thread b");
    owes(&world, 2);
    world.chat("8").says("free");
    assert_eq!(world.chat("8").hears(1), ["free"]);
    passes(&world, MINUTE - Duration::from_secs(1));
    world.chat("8").says("still free");
    world.chat("8").hears(2);
    assert_eq!(in_group(), 1, "not a moment sooner than the platform said");
    passes(&world, Duration::from_secs(2));
    world.settled();
    assert_eq!(in_group(), 3);
}

#[test]
fn a_wait_of_the_instance_holds_everybody() {
    let world = friends();
    world.platform.answers(SendOutcome::not_sent(Some(60_000), WaitScope::Instance, "slow down"));
    world.chat("7").says("first");
    failed(&world);
    world.chat("8").says("second");
    owes(&world, 2);
    passes(&world, MINUTE / 2);
    assert!(world.chat("8").heard().is_empty());
    passes(&world, MINUTE);
    assert_eq!(world.chat("8").hears(1), ["second"]);
    world.settled();
}

#[test]
fn a_thread_that_is_gone_is_told_once_in_an_answer_of_several_parts() {
    let capabilities = json!({ "text": { "limit": 60, "unit": "scalars", "dialect": "commonmark" } });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    world.platform.refuses(RefusalKind::ThreadGone);
    says(&world, &group("t"), &"some words and more of them ".repeat(6));
    world.settled();
    let sent = world.platform.sent();
    assert_eq!(sent[0].chat.thread.as_deref(), Some("t"));
    assert!(sent.len() > 3, "{sent:?}");
    assert!(sent[1..].iter().all(|sent| sent.chat.thread.is_none()), "the answer stands in the chat");
    let told = sent.iter().filter(|sent| sent.text.contains("(the thread no longer exists)")).count();
    assert_eq!((told, sent[1].text.contains("(the thread no longer exists)")), (1, true));
}

//! Floods: the cost of unknown senders, and of the values that an adapter keeps, for other senders.

use std::time::Duration;

use futures_util::future::join_all;
use hermes_core::limits::{KV_BURST_BYTES, STRANGER_BURST_EVENTS};
use hermes_protocol::{Chat, ChatType, Emitted};
use serde_json::json;

use super::world::{Setting, Talk, World};
use crate::engine::ingress::NOT_KEPT;

/// Messages of one flood.
const FLOOD: usize = 10_000;

/// Creates a world with an admin only, in which time stands still, so that no allowance is refilled.
fn world() -> World {
    with("access = { admins = [\"1\"] }")
}

fn with(section: &str) -> World {
    World::with(Setting { section: section.to_owned(), clock_stands: true, ..Setting::default() })
}

fn inbox_id(emitted: Emitted) -> i64 {
    match emitted {
        Emitted::New { inbox_id } => inbox_id,
        other => panic!("{other:?} is not new"),
    }
}

/// Uses up the allowance of unknown senders.
fn flooded(world: &World) {
    let stranger = world.talk(Chat::new(ChatType::Group, "-9"), "66");
    for _ in 0..STRANGER_BURST_EVENTS {
        assert_ne!(inbox_id(stranger.says("buy now")), NOT_KEPT);
    }
    assert_eq!(inbox_id(stranger.says("buy now")), NOT_KEPT);
    world.settled();
}

fn commits(world: &World) -> u64 {
    world.host().store.stats().commits
}

/// Returns the code that was offered in a chat.
fn code(talk: &Talk<'_>) -> String {
    let heard = talk.heard().pop().unwrap();
    let words = heard.split(|c: char| !c.is_ascii_alphanumeric());
    let mut codes = words.filter(|word| hermes_core::pairing::is_code(word) && word.to_uppercase() == **word);
    codes.next().unwrap_or_else(|| panic!("a code in {heard:?}")).to_owned()
}

#[test]
fn ten_thousand_messages_of_one_stranger_cost_few_commits_and_everybody_is_acknowledged() {
    let world = world();
    let before = commits(&world);
    world.chat("1").says("first");
    for _ in 0..FLOOD {
        world.chat("99").says("buy now");
    }
    world.chat("1").says("last");
    assert_eq!(world.chat("1").hears(2), ["first", "last"]);
    world.settled();
    assert_eq!(world.chat("99").heard().len(), 2, "an offer and a reminder");
    let cost = commits(&world) - before;
    assert!(cost < 400, "{cost} commits");
}

#[test]
fn ten_thousand_strangers_cost_few_commits_and_as_many_are_offered_a_code_as_may_be() {
    let world = world();
    let before = commits(&world);
    for n in 0..FLOOD {
        world.chat(&format!("stranger{n}")).says("hello");
    }
    world.chat("1").says("last");
    assert_eq!(world.chat("1").hears(1), ["last"]);
    world.settled();
    assert_eq!(world.platform.sent().len(), 4, "three offers and an answer");
    let cost = commits(&world) - before;
    assert!(cost < 400, "{cost} commits");
}

#[test]
fn a_stranger_behind_a_flood_is_offered_a_code_and_the_message_is_kept() {
    let world = world();
    flooded(&world);
    let friend = world.chat("99");
    assert_ne!(inbox_id(friend.says("hello")), NOT_KEPT);
    assert!(friend.hears(1)[0].contains("hermes-host pairing approve fake"));
    assert_ne!(inbox_id(friend.says("are you there?")), NOT_KEPT, "a reminder");
    assert_eq!(inbox_id(friend.says("hm")), NOT_KEPT);
    let offer = friend.hears(2)[0].clone();
    assert!(offer.contains("You are not authorized yet"), "{offer}");
}

#[test]
fn a_code_behind_a_flood_lets_its_sender_in_and_the_words_that_follow_at_once_are_heard() {
    for section in ["access = { admins = [\"1\"] }", "access = { allowed_users = [\"1\"], operators = [\"1\"] }"] {
        let world = with(section);
        let admin = world.chat("1");
        admin.says("/pair");
        admin.hears(1);
        let code = code(&admin);
        flooded(&world);
        let friend = world.chat("99");
        assert_eq!(inbox_id(friend.gives(&friend.event("buy now"))) == NOT_KEPT, section.contains("allowed"));
        let own = usize::from(!section.contains("allowed"));
        friend.hears(own);
        let events = [friend.event(&code), friend.event("hello")];
        let given = events.iter().map(|event| world.give(event)).collect::<Vec<_>>();
        let answers = world.block_on(join_all(given));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let expected = ["Welcome! You can write to the agent here now.", "hello"];
        assert_eq!(friend.hears(2 + own)[own..], expected, "{section}");
    }
}

#[test]
fn a_wrong_code_behind_a_flood_is_counted_although_it_is_not_kept() {
    let world = with("access = { allowed_users = [\"1\"], operators = [\"1\"] }");
    let admin = world.chat("1");
    admin.says("/pair");
    admin.hears(1);
    let code = code(&admin);
    flooded(&world);
    for _ in 0..5 {
        assert_eq!(inbox_id(world.chat("98").says("AAAA2222")), NOT_KEPT);
    }
    assert_eq!(inbox_id(world.chat("98").says(&code)), NOT_KEPT, "locked out");
    world.settled();
    assert!(world.chat("98").heard().is_empty());
    world.chat("99").says(&code);
    assert!(world.chat("99").hears(1)[0].starts_with("Welcome"), "nobody else is");
}

#[test]
fn an_event_of_a_stranger_that_comes_again_is_acknowledged_again_and_later_ones_are_stored_again() {
    let world = with("access = { strangers = \"ignore\" }");
    let kept = world.chat("99").event("hello");
    let id = inbox_id(world.chat("99").gives(&kept));
    flooded_by(&world, "99");
    assert_eq!(world.chat("99").gives(&kept), Emitted::New { inbox_id: NOT_KEPT });
    let event = world.chat("99").event("hello");
    for _ in 0..2 {
        assert_eq!(world.chat("99").gives(&event), Emitted::New { inbox_id: NOT_KEPT });
    }
    world.passes(Duration::from_secs(2));
    assert_eq!(world.chat("99").gives(&kept), Emitted::Duplicate { duplicate_of: id });
    assert!(inbox_id(world.chat("99").gives(&event)) > id);
    world.settled();
}

/// Uses up the allowance of unknown senders by direct messages of one.
fn flooded_by(world: &World, who: &str) {
    while inbox_id(world.chat(who).says("buy now")) != NOT_KEPT {}
}

#[test]
fn a_large_event_of_a_stranger_counts_as_several() {
    let world = with("access = { strangers = \"ignore\" }");
    let large = "x".repeat(500_000);
    let kept = (0..10).filter(|_| inbox_id(world.chat("99").says(&large)) != NOT_KEPT).count();
    assert_eq!(kept, 2, "each counts as 31 of 64");
    world.settled();
}

#[test]
fn a_flood_of_values_is_slowed_down_and_holds_up_nobody_else() {
    let world = world();
    let value = "x".repeat(60_000);
    let most = KV_BURST_BYTES as usize / value.len();
    let calls = 200;
    for n in 0..calls {
        let call = world.services_call("kv.set", json!({ "key": n.to_string(), "value": value }));
        world.spawn(async move { drop(call.await) });
    }
    let is_kept = |n: usize| !world.call("kv.get", json!({ "key": n.to_string() })).unwrap()["value"].is_null();
    let kept = || (0..calls).filter(|n| is_kept(*n)).count();
    // Time stands still, so no event beyond the burst is ever written.
    world.until("the burst is written", || (kept() == most).then_some(()));
    world.chat("1").says("hello");
    assert_eq!(world.chat("1").hears(1), ["hello"]);
    assert_eq!(kept(), most);
    world.passes(Duration::from_secs(60));
    world.until("the flood goes on as time passes", || (kept() > most).then_some(()));
}

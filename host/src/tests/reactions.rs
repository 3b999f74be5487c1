//! Reactions on the message that a turn answers.

use std::time::Duration;

use hermes_protocol::{Chat, Emitted, Sender, method};
use serde_json::{Value, json};

use super::streaming::{Agent, started};
use super::world::{Setting, World};
use crate::engine::background::wakeups::{Wake, wake};

const SECTION: &str = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }";

/// Returns a setting with a platform that reacts, and time that only the test advances.
fn setting(section: &str) -> Setting {
    let mut capabilities = Setting::default().capabilities;
    capabilities["reactions"] = json!(true);
    Setting { capabilities, section: section.to_owned(), clock_stands: true, ..Setting::default() }
}

fn world() -> (World, Agent) {
    started(setting(SECTION))
}

/// Returns the reactions: the message, the emoji, and the emoji that it replaces.
fn reacted(world: &World) -> Vec<(String, String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let read = |call: &Value| {
        (text(&call["message"]["id"]).unwrap(), text(&call["emoji"]).unwrap(), text(&call["instead_of"]))
    };
    world.platform.asked(method::REACT).iter().map(read).collect()
}

fn waits_for(world: &World, count: usize) -> Vec<(String, String, Option<String>)> {
    let found = || Some(reacted(world)).filter(|reacted| reacted.len() >= count);
    world.until("it is reacted", found)
}

fn runs(world: &World) {
    let running = || world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
    world.until("a turn runs", || (running() == 1).then_some(()));
}

/// Waits until a turn runs, and advances the time to its first reaction.
fn is_seen(world: &World, count: usize) {
    runs(world);
    world.passes(Duration::from_millis(150));
    waits_for(world, count);
}

fn one(message: &str, emoji: &str, instead_of: Option<&str>) -> (String, String, Option<String>) {
    (message.to_owned(), emoji.to_owned(), instead_of.map(str::to_owned))
}

#[test]
fn a_message_shows_that_it_is_worked_on_and_how_that_ended() {
    let (world, agent) = world();
    let stops = || {
        world.chat("7").says("/stop");
    };
    let ends: [(&dyn Fn(), &str); 4] =
        [(&|| agent.ends(), "✅"), (&|| agent.fails(), "❌"), (&|| agent.panics(), "❌"), (&stops, "")];
    let mut wanted = Vec::new();
    for (n, (end, emoji)) in ends.iter().enumerate() {
        let question = world.chat("7").event("question");
        world.chat("7").gives(&question);
        is_seen(&world, 2 * n + 1);
        end();
        let id = question.message_id.unwrap();
        wanted.extend([one(&id, "👀", None), one(&id, emoji, Some("👀"))]);
        assert_eq!(waits_for(&world, 2 * n + 2), wanted);
        world.settled();
    }
}

#[test]
fn an_answer_that_comes_at_once_is_the_only_sign() {
    let (world, agent) = world();
    agent.says("at once");
    agent.ends();
    world.chat("7").says("question");
    world.settled();
    agent.says("later");
    world.chat("7").says("and now");
    is_seen(&world, 1);
    agent.ends();
    assert_eq!(waits_for(&world, 2), [one("2", "👀", None), one("2", "✅", Some("👀"))]);
}

#[test]
fn of_messages_that_are_answered_together_the_last_one_reacts() {
    let (world, agent) = world();
    let chat = world.chat("7");
    chat.says("first");
    is_seen(&world, 1);
    for text in ["one", "two", "three"] {
        let Emitted::New { inbox_id } = chat.says(text) else { panic!("it is new") };
        let asked = json!({ "inbox_id": inbox_id });
        let waits = || (world.call("turns.status", asked.clone()).unwrap()["state"] == "queued").then_some(());
        world.until("it waits", waits);
    }
    world.passes(Duration::from_millis(350));
    waits_for(&world, 2);
    is_seen(&world, 3);
    agent.ends();
    let wanted = [one("1", "👀", None), one("1", "", Some("👀")), one("4", "👀", None), one("4", "✅", Some("👀"))];
    assert_eq!(waits_for(&world, 4), wanted);
}

#[test]
fn a_reaction_that_hangs_holds_nothing_up_and_one_that_is_refused_is_the_last_of_its_turn() {
    let (world, agent) = world();
    world.platform.holds_next(method::REACT);
    let chat = world.chat("7");
    chat.says("question");
    is_seen(&world, 1);
    agent.says("answered");
    agent.ends();
    assert_eq!(chat.hears(1), ["answered"]);
    chat.says("another");
    agent.says("this too");
    agent.ends();
    assert_eq!(chat.hears(2)[1], "this too");
    world.settled();
    assert_eq!(reacted(&world), [one("1", "👀", None)]);
    world.platform.gives_held(&json!({}));
    assert_eq!(waits_for(&world, 2)[1], one("1", "✅", Some("👀")));

    world.platform.takes_no_reactions();
    chat.says("refused");
    is_seen(&world, 3);
    agent.says("all the same");
    agent.ends();
    assert_eq!(chat.hears(3)[2], "all the same");
    world.settled();
    chat.says("next");
    is_seen(&world, 4);
    assert_eq!(reacted(&world)[2..], [one("3", "👀", None), one("4", "👀", None)]);
}

#[test]
fn nothing_reacts_where_the_operator_does_not_want_it() {
    let (world, agent) = started(setting(&format!("{SECTION}\nsession = {{ reactions = false }}")));
    world.chat("7").says("question");
    runs(&world);
    world.passes(Duration::from_millis(150));
    agent.says("so");
    agent.ends();
    world.settled();
    assert!(reacted(&world).is_empty());
}

#[test]
fn what_the_host_itself_says_to_a_session_has_no_message_that_could_react() {
    let (world, agent) = world();
    agent.ends();
    world.chat("7").says("question");
    world.settled();
    let sessions = world.block_on(world.host().store.sessions(hermes_store::SessionFilter::default())).unwrap();
    let news = Wake {
        id: "p1".to_owned(),
        session: sessions[0].id.clone(),
        instance: "fake".to_owned(),
        chat: Chat::dm("7"),
        sender: Some(Sender::new("7")),
        text: "it ended".to_owned(),
    };
    assert!(world.block_on(wake(world.host(), news)).unwrap());
    world.until("it is woken", || {
        world.passes(Duration::from_millis(350));
        (world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed) == 1).then_some(())
    });
    world.passes(Duration::from_millis(150));
    agent.says("so it did");
    agent.ends();
    world.settled();
    assert!(world.chat("7").heard().contains(&"so it did".to_owned()));
    assert!(reacted(&world).is_empty());
}

#[test]
fn a_turn_that_a_crash_cut_off_ends_the_reaction_of_before() {
    let (mut world, agent) = world();
    world.chat("7").says("question");
    is_seen(&world, 1);
    world.crash();
    world.start();
    agent.says("gone on");
    agent.ends();
    assert_eq!(waits_for(&world, 2), [one("1", "👀", None), one("1", "✅", Some("👀"))]);
}

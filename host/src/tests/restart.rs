//! The state after a crash or a planned end, and its recovery.

use hermes_protocol::{Chat, Emitted, Purpose};
use serde_json::json;

use super::world::{Setting, World};
use crate::engine::context::compose;

#[test]
fn an_event_that_was_committed_and_not_yet_heard_is_answered_after_a_crash() {
    let mut world = World::new();
    world.chat("7").is_cut_off_saying("committed");
    world.crash();
    world.start();
    assert_eq!(world.chat("7").hears(1), ["committed"]);
    world.settled();
}

#[test]
fn what_is_owed_stands_before_the_answers_to_what_was_said_later_however_much_is_owed() {
    /// More deliveries than recovery reads at once.
    const OWED: usize = 1_000;
    let mut world = World::new();
    world.set_online(false);
    let more = world.block_on(compose(world.host(), "fake", Chat::dm("8"), Purpose::Reply, "more".to_owned()));
    for _ in 0..OWED {
        world.block_on(world.host().store.owe(more.clone())).unwrap();
    }
    world.chat("7").says("first");
    world.until("its answer is owed", || {
        let counts = world.block_on(world.host().store.counts()).unwrap();
        (counts.outbox as usize == OWED + 1 && counts.turns == 0).then_some(())
    });
    world.chat("7").is_cut_off_saying("second");
    world.crash();
    world.start();
    assert_eq!(world.chat("7").hears(2), ["first", "second"]);
}

#[test]
fn a_turn_that_was_cut_off_is_resumed_before_anything_newer() {
    let mut world = World::new();
    world.chat("7").says("/hang on");
    world.chat("7").says("newer");
    world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    world.crash();
    world.start();
    // The turn hangs again, so the newer message still waits.
    world.until("it runs again", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    assert!(world.chat("7").heard().is_empty());
    world.chat("7").says("/stop");
    let chat = world.chat("7");
    world.until("the newer one is answered", || chat.heard().iter().any(|text| text == "newer").then_some(()));
    world.settled();
}

#[test]
fn a_turn_is_resumed_three_times_and_then_closed_with_a_notice() {
    let mut world = World::new();
    world.chat("7").says("/hang for ever");
    for _ in 0..4 {
        world.until("it runs", || {
            let counts = world.block_on(world.host().store.counts()).unwrap();
            let running = world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
            (counts.turns == 1 && running == 1).then_some(())
        });
        world.crash();
        world.start();
    }
    let heard = world.chat("7").hears(1);
    assert_eq!(heard, [crate::engine::session::outcome::GIVEN_UP]);
    world.settled();
}

#[test]
fn a_cut_off_turn_waits_for_its_adapter() {
    let mut world = World::new();
    let Emitted::New { inbox_id } = world.chat("7").says("/hang on") else { panic!("it is new") };
    let is = |world: &World, state: &str| {
        world.until("the turn's state", || {
            let told = world.call("turns.status", json!({ "inbox_id": inbox_id })).unwrap();
            (told["state"] == state).then_some(())
        });
    };
    is(&world, "running");
    world.crash();
    world.start_with(false);
    is(&world, "queued");
    world.set_online(true);
    is(&world, "running");
    world.chat("7").says("/stop");
    world.settled();
}

#[test]
fn a_send_that_a_crash_cut_off_is_repeated_marked() {
    let mut world = World::new();
    world.platform.hangs();
    world.chat("7").says("question");
    world.chat("7").hears(1);
    world.crash();
    world.start();
    assert_eq!(world.chat("7").hears(2), ["question", "(possibly repeated) question"]);
    world.settled();
}

#[test]
fn grants_and_sessions_outlive_the_host() {
    let mut world = World::new();
    world.chat("7").says("before");
    world.chat("7").hears(1);
    world.settled();
    world.stop();
    world.start();
    world.chat("7").says("after");
    world.chat("7").hears(2);
    let sessions = world.call("sessions.list", serde_json::json!({ "sender": { "id": "7" } })).unwrap();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(sessions[0]["messages"], 4);
}

#[test]
fn a_planned_end_finishes_what_runs_and_leaves_the_rest_for_later() {
    // The message waits, whether it was sent before or after the start of the turn.
    let section = "access = { allowed_users = [\"7\"] }\nsession = { busy = \"queue\", receipts = false }";
    let mut world = World::with(Setting { section: section.to_owned(), ..Setting::default() });
    world.chat("7").says("/slow 100 one two three");
    world.chat("7").says("later");
    world.until("it runs", || {
        let running = world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
        (running == 1).then_some(())
    });
    world.stop();
    assert_eq!(world.chat_heard("7"), ["one two three"]);
    world.start();
    assert_eq!(world.chat("7").hears(2), ["one two three", "later"]);
    world.settled();
}

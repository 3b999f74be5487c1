//! Conversations that are ended by a rule.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::AgentRuntime;
use hermes_protocol::{Chat, ChatType};
use serde_json::{Value, json};

use super::commands::Recorder;
use super::world::{Setting, World};
use crate::engine::session::reset;

const HOUR: Duration = Duration::from_secs(3_600);

/// Creates a world in which an hour without a message ends a conversation; `more` extends the same table.
fn idle_world(more: &str) -> World {
    let section = format!(
        "access = {{ allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }}\nsession = {{ reset = {{ mode = \"idle\", idle_minutes = 60{more} }} }}"
    );
    World::with(Setting { section, ..Setting::default() })
}

/// Returns the sessions of person 7, newest first.
fn sessions(world: &World) -> Vec<Value> {
    world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap().as_array().unwrap().clone()
}

/// Restarts the host, so that no conversation is in use.
fn rests(world: &mut World) {
    world.settled();
    world.stop();
    world.start();
}

#[test]
fn a_session_that_a_rule_ends_is_ended_by_the_sweep_and_its_chat_hears_of_it_with_its_next_message() {
    let mut world = idle_world("");
    world.chat("7").says("before");
    world.chat("7").hears(1);
    rests(&mut world);
    world.passes(2 * HOUR);
    world.sweeps();
    let ended = world.until("it is ended", || sessions(&world)[0]["ended_ms"].as_i64());
    assert_eq!(world.chat("7").heard(), ["before"], "nobody is told while nobody is there");
    world.passes(HOUR);
    world.sweeps();
    rests(&mut world);
    world.sweeps();
    world.chat("7").says("after");
    let heard = world.chat("7").hears(3);
    assert_eq!(heard[1..], [reset::notice("idle").to_owned(), "after".to_owned()]);
    let sessions = sessions(&world);
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    assert_eq!(sessions[1]["ended_ms"].as_i64(), Some(ended), "it ended once");
}

#[test]
fn a_message_that_comes_before_the_sweep_begins_anew_all_the_same() {
    let mut world = idle_world("");
    world.chat("7").says("before");
    world.chat("7").hears(1);
    rests(&mut world);
    world.passes(2 * HOUR);
    world.chat("7").says("after");
    assert_eq!(world.chat("7").hears(3)[1], reset::notice("idle"));
    world.settled();
    assert_eq!(sessions(&world).len(), 2);
}

#[test]
fn a_conversation_in_use_is_not_ended_whatever_the_clock_says() {
    let world = idle_world("");
    world.chat("7").says("/hang on");
    world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    world.passes(2 * HOUR);
    world.sweeps();
    world.chat("7").says("/stop");
    world.chat("7").says("still the same?");
    world.chat("7").hears(2);
    world.settled();
    assert_eq!(sessions(&world).len(), 1);
}

#[test]
fn the_model_is_told_in_the_first_turn_why_the_conversation_began_anew_also_after_a_restart() {
    let recorder = Arc::new(Recorder::default());
    let runtime: Arc<dyn AgentRuntime> = recorder.clone();
    let section = "access = { allowed_users = [\"7\"] }\nsession = { reset = { mode = \"idle\", idle_minutes = 60 } }";
    let mut world = World::with(Setting { section: section.to_owned(), runtime: Some(runtime), ..Setting::default() });
    let told = || recorder.requests.lock().unwrap().last().unwrap().system.contains(reset::note("idle"));
    world.chat("7").says("before");
    world.chat("7").hears(1);
    assert!(!told());
    rests(&mut world);
    world.passes(2 * HOUR);
    world.chat("7").says("after");
    world.chat("7").hears(3);
    assert!(told());
    world.chat("7").says("and on");
    world.chat("7").hears(4);
    assert!(!told(), "once");

    rests(&mut world);
    world.passes(2 * HOUR);
    world.chat("7").says("/title a new one");
    rests(&mut world);
    let before = world.chat("7").heard();
    assert_eq!(before.iter().filter(|text| *text == reset::notice("idle")).count(), 2, "{before:?}");
    world.chat("7").says("the first message after the restart");
    world.chat("7").hears(before.len() + 1);
    assert!(told());
}

#[test]
fn a_conversation_is_not_ended_while_a_turn_runs_in_its_background() {
    let section = "access = { allowed_users = [\"7\"] }\nsession = { reset = { mode = \"idle\", idle_minutes = 60 }, \
                   inactivity_s = 86400, inactivity_warning_s = 0, heartbeat_s = 0 }";
    let mut world = World::with(Setting { section: section.to_owned(), ..Setting::default() });
    let runs = |world: &World| {
        world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    };
    world.chat("7").says("before");
    world.chat("7").hears(1);
    world.chat("7").says("/bg /hang on");
    runs(&world);
    // In the next run of the host only the background turn has a lane.
    world.crash();
    world.start();
    runs(&world);
    world.passes(2 * HOUR);
    world.sweeps();
    // The notice about the background turn may arrive in between.
    let is_listed = |line: &str| line.starts_with("- ") && line.contains("in the background");
    world.chat("7").says("still the same?");
    world.until("it answers", || world.chat("7").heard().contains(&"still the same?".to_owned()).then_some(()));
    world.chat("7").says("/agents");
    let line = world.until("it lists what runs", || {
        world.chat("7").heard().iter().flat_map(|text| text.lines()).find(|line| is_listed(line)).map(str::to_owned)
    });
    let number = line.trim_start_matches("- ").split(':').next().unwrap();
    world.chat("7").says(&format!("/agents stop {number}"));
    world.settled();

    rests(&mut world);
    world.passes(2 * HOUR);
    world.chat("7").says("anew");
    let heard = world.until("it is told", || {
        let heard = world.chat("7").heard();
        heard.contains(&"anew".to_owned()).then_some(heard)
    });
    let notices = heard.iter().filter(|text| *text == reset::notice("idle")).count();
    assert_eq!(notices, 1, "only when nothing ran: {heard:?}");
}

#[test]
fn a_reset_can_be_silent_and_is_never_told_where_nobody_waits_for_it() {
    let mut world = idle_world(", notify = false");
    world.chat("7").says("before");
    world.chat("7").hears(1);
    rests(&mut world);
    world.passes(2 * HOUR);
    world.chat("7").says("after");
    assert_eq!(world.chat("7").hears(2), ["before", "after"]);

    let section = "access = { allowed_users = [\"7\"] }\nsession = { reset = { mode = \"idle\", idle_minutes = 60 } }";
    let capabilities = json!({ "supports_async_delivery": false });
    let mut world = World::with(Setting { section: section.to_owned(), capabilities, ..Setting::default() });
    world.chat("7").says("before");
    world.chat("7").hears(1);
    rests(&mut world);
    world.passes(2 * HOUR);
    world.chat("7").says("after");
    assert_eq!(world.chat("7").hears(2), ["before", "after"]);
}

#[test]
fn a_type_of_chat_has_its_own_rule() {
    let mut world = idle_world(", dm = { mode = \"none\" }");
    let group = |world: &World, text: &str| {
        let mut event = world.chat("7").event(text);
        event.chat = Chat::new(ChatType::Group, "g");
        event.addressed.mention = true;
        world.chat("7").gives(&event);
    };
    world.chat("7").says("private");
    group(&world, "public");
    rests(&mut world);
    world.passes(2 * HOUR);
    world.sweeps();
    let one_ended = || {
        let ended = sessions(&world).iter().filter(|session| !session["ended_ms"].is_null()).count();
        (ended > 0).then_some(ended)
    };
    assert_eq!(world.until("the group's is ended", one_ended), 1);
}

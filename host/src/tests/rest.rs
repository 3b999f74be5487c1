//! Messages that the host cannot process at present: during a drain, or while nothing can be written.

use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::asks::{asked, hears, press, there, with_buttons};
use super::world::{Setting, World};
use crate::engine::messages::{Control, HostEvent};
use crate::engine::recovery;

/// Drains on request of the operator; resolves once nothing runs.
fn drains(world: &World) -> oneshot::Receiver<()> {
    world.host().rests.store(true, Ordering::Relaxed);
    let (done, drained) = oneshot::channel();
    world.block_on(world.host().tell(HostEvent::control(Control::DrainLanes(done))));
    drained
}

#[test]
fn what_is_said_while_the_host_drains_is_taken_and_answered_when_it_goes_on() {
    let world = World::new();
    let (known, new) = (world.chat("7"), world.chat("8"));
    known.says("before");
    known.hears(1);
    world.settled();
    world.block_on(drains(&world)).unwrap();
    known.says("meanwhile");
    new.says("the first words");
    known.says("/whoami");
    assert_eq!((known.heard().len(), new.heard().len()), (1, 0), "nothing new is begun");
    assert_eq!(world.block_on(world.host().store.counts()).unwrap().inbox, 3);
    assert_eq!(world.block_on(recovery::go_on(world.host())).unwrap(), 3);
    assert_eq!(new.hears(1), ["the first words"]);
    world.settled();
    assert!(known.heard().contains(&"meanwhile".to_owned()), "{:?}", known.heard());
    assert_eq!(known.heard().len(), 3, "the command is obeyed too");
}

#[test]
fn what_is_said_while_the_host_stops_is_answered_by_its_next_life() {
    let mut world = World::new();
    world.host().draining.cancel();
    world.chat("7").says("just now");
    world.stop();
    world.start();
    assert_eq!(world.chat("7").hears(1), ["just now"]);
}

#[test]
fn whoever_gets_an_answer_at_once_or_never_is_refused_while_the_host_drains() {
    let capabilities = serde_json::json!({ "supports_async_delivery": false });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    world.block_on(drains(&world)).unwrap();
    let refused = world.block_on(world.give(&world.chat("7").event("hello"))).unwrap_err();
    assert_eq!(refused.code, "busy");
    assert!(refused.message.contains("drain --undo"), "{refused}");
}

#[test]
fn a_drain_that_waits_for_an_approval_ends_with_a_button_or_a_stop() {
    for with_stop in [false, true] {
        let world = with_buttons();
        let chat = world.chat("7");
        chat.says("/ask ls");
        let question = asked(&world, 1);
        let drained = drains(&world);
        if with_stop {
            chat.says("what is behind this waits");
            chat.says("/stop");
        } else {
            chat.gives(&press(&chat, &question, "once"));
            hears(&world, &chat, "approved: once");
        }
        world.block_on(drained).unwrap();
    }
}

#[test]
fn what_is_of_use_only_now_is_obeyed_while_the_host_drains_also_where_nothing_runs() {
    let section = "access = { allowed_users = [\"7\"], admins = [\"1\"] }".to_owned();
    let world = World::with(Setting { section, ..Setting::default() });
    let (chat, admin) = (world.chat("7"), world.chat("1"));
    admin.says("hello");
    admin.hears(1);
    chat.says("/danger rm -rf /tmp");
    hears(&world, &admin, "needs your approval");
    there(&world);
    let drained = drains(&world);
    let mut heard = admin.heard().len();
    for (said, answer) in [("/status", "- Session: "), ("/stop", "Nothing is running."), ("/approve", "Approved")] {
        admin.says(said);
        heard += 1;
        let told = admin.hears(heard);
        assert!(told.iter().any(|text| text.contains(answer)), "{said}: {told:?}");
    }
    hears(&world, &chat, "approved: once");
    world.block_on(drained).unwrap();
    let before = admin.heard().len();
    admin.says("/status");
    assert!(admin.hears(before + 1)[before].contains("- Session: "), "and once nothing runs any more");
    admin.says("something new");
    assert_eq!(world.block_on(world.host().store.counts()).unwrap().inbox, 1, "which waits");
}

#[test]
fn an_event_that_cannot_be_written_waits_and_is_taken_when_it_can() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("before");
    chat.hears(1);
    world.settled();
    world.block_on(world.host().store.bound_pages(1));
    let failures = world.host().store.stats().failures;
    let given = world.beside(world.give(&chat.event(&"x".repeat(100_000))));
    world.until("it cannot be written", || (world.host().store.stats().failures > failures).then_some(()));
    assert!(!given.is_finished(), "its adapter is not refused");
    world.block_on(world.host().store.bound_pages(100_000));
    world.block_on(given).unwrap().unwrap();
    world.settled();
    assert!(chat.heard().len() > 1);
}

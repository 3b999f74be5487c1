//! Events that occur between two steps of one operation.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use hermes_protocol::{EventKind, SendOutcome, WaitScope};
use tokio::sync::mpsc;

use super::world::World;
use crate::engine::dispatcher::drops;
use crate::engine::dispatcher::drops::Note;
use crate::engine::messages::{HostEvent, Inbound};
use crate::engine::outbox::Holds;
use hermes_loader::SENDS_MAX;
use hermes_store::{Change, NewInbox};

#[test]
fn what_is_dropped_twice_costs_no_other_note() {
    let world = World::new();
    let (twice, other) = (world.chat("7").is_cut_off_saying("twice"), world.chat("7").is_cut_off_saying("other"));
    let (sender, notes) = mpsc::unbounded_channel();
    for id in [twice, other] {
        sender.send(Note::Drop { id, why: "not addressed", permit: None }).unwrap();
    }
    let value = Some("kept".to_owned());
    sender.send(Note::Changes(vec![Change::Flag { key: "flag".to_owned(), value }])).unwrap();
    drop(sender);
    let store = &world.host().store;
    world.block_on(store.drop_event(twice, "by an earlier batch", None)).unwrap();
    world.block_on(drops::write_all(Arc::clone(world.host()), notes));
    assert_eq!(world.block_on(store.counts()).unwrap().inbox, 0, "the other one is dropped");
    assert_eq!(world.block_on(store.host_value("flag")).unwrap().as_deref(), Some("kept"));
}

#[test]
fn what_a_turn_answers_is_what_its_row_says_though_the_lane_never_heard_of_the_edit() {
    let world = World::new();
    let chat = world.chat("7");
    let said = chat.event("frist");
    let id = chat.is_cut_off_giving(&said);
    let mut edit = said.clone().of_kind(EventKind::Edited);
    edit.event_id = "e:1".to_owned();
    edit.text = "first".to_owned();
    let new = NewInbox {
        instance: "fake".to_owned(),
        event_id: edit.event_id.clone(),
        at_ms: 1,
        received_ms: 1,
        event: serde_json::to_string(&edit).unwrap(),
    };
    world.host().counts.edits.fetch_add(1, Ordering::Relaxed);
    world.block_on(world.host().store.accept_edit(new, edit)).unwrap();
    let inbound = Inbound { id, instance: Arc::from("fake"), event: Box::new(said), input: None, permit: None };
    world.block_on(world.host().tell(HostEvent::Inbound(inbound)));
    assert_eq!(chat.hears(1), ["first"]);
}

/// Creates a world with an answer of unknown outcome whose repeat waits for proof of the link.
fn doubts() -> World {
    let world = World::new();
    let adapter = world.host().adapter("fake").unwrap();
    adapter.is_silent();
    world.platform.answers(SendOutcome::unknown("502"));
    world.chat("7").says("question");
    world.chat("7").hears(1);
    world.block_on(adapter.is_asked_for_life());
    world
}

#[test]
fn a_repeat_that_waits_for_a_sign_of_life_takes_no_room_from_what_can_be_sent() {
    let world = doubts();
    let adapter = world.host().adapter("fake").unwrap();
    let rooms: Vec<_> = (0..SENDS_MAX).map_while(|_| adapter.room_to_deliver().now_or_never()).collect();
    assert_eq!(rooms.len(), SENDS_MAX);
}

#[test]
fn a_drain_does_not_wait_for_a_sign_of_life_and_the_next_life_repeats() {
    let mut world = doubts();
    world.stop();
    world.start();
    assert_eq!(world.chat("7").hears(2)[1], "(possibly repeated) question");
}

#[test]
fn a_wait_that_is_asked_for_is_believed_for_a_quarter_of_an_hour_and_no_longer() {
    for scope in [WaitScope::Chat, WaitScope::Instance] {
        let world = World::new();
        let chat = world.chat("7");
        world.platform.answers(SendOutcome::not_sent(Some(u64::MAX), scope, "slow down"));
        chat.says("question");
        chat.hears(1);
        world.until("it is settled", || {
            let owed = world.block_on(world.host().store.owed(1)).unwrap();
            owed.first()?.parts[0].detail.clone()
        });
        world.passes(Duration::from_secs(15 * 60 + 1));
        chat.says("and this");
        assert_eq!(chat.hears(3)[1..], ["question", "and this"]);
    }
}

#[test]
fn a_clock_that_is_set_back_makes_no_wait_longer() {
    const DAY_MS: i64 = 86_400_000;
    let holds = Holds::default();
    holds.hold_chat("one", "7", 2 * DAY_MS + 5_000, 2 * DAY_MS);
    holds.hold_instance("two", i64::MAX, 2 * DAY_MS);
    assert_eq!(holds.until_ms("one", "7", 2 * DAY_MS + 1), Some(2 * DAY_MS + 5_000));
    assert_eq!(holds.until_ms("two", "7", 2 * DAY_MS + 1), Some(2 * DAY_MS + 15 * 60_000));
    assert_eq!((holds.until_ms("one", "7", DAY_MS), holds.until_ms("two", "7", DAY_MS)), (None, None));
}

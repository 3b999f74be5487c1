//! The delivery of answers.

use hermes_core::delivery::PartState;
use hermes_protocol::{Emitted, Format, LookupReply, Receipt, RefusalKind, SendOutcome, WaitScope};
use serde_json::json;
use std::time::Duration;

use super::world::{Setting, World};
use crate::engine::messages::{Control, HostEvent};
use crate::engine::outbox::Target;
use hermes_store::DeliveryFilter;

#[test]
fn a_credential_that_is_refused_is_told_until_something_is_delivered() {
    let world = World::new();
    let chat = world.chat("7");
    world.platform.refuses(RefusalKind::Unauthorized);
    chat.says("hello");
    let adapter = world.host().adapter("fake").unwrap();
    world.until("the adapter is degraded", || (adapter.state().word() == "degraded").then_some(()));
    let reason = adapter.state().reason().unwrap().to_owned();
    assert!(reason.contains("credential (no)") && reason.contains("[adapter.fake]"), "{reason}");
    assert!(adapter.is_online(), "its link is up");
    let outcome = world.block_on(adapter.send(&hermes_protocol::Outgoing::text(hermes_protocol::Chat::dm("7"), "x")));
    assert!(matches!(outcome, SendOutcome::Delivered { .. }), "{outcome:?}");
    assert_eq!(adapter.state().word(), "online");
    adapter.unauthorized("no");
    world.set_online(false);
    world.set_online(true);
    assert_eq!(adapter.state().word(), "online", "a new link is asked anew");
}

#[test]
fn every_part_of_an_answer_names_the_message_that_it_answers() {
    let capabilities = json!({ "text": { "limit": 40, "unit": "scalars", "dialect": "commonmark" } });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    world.chat("7").says(&"word ".repeat(20));
    world.settled();
    let sent = world.platform.sent();
    assert!(sent.len() > 1, "{sent:?}");
    assert!(sent.iter().all(|part| part.reply_to.as_deref() == Some("1")), "{sent:?}");
}

#[test]
fn a_platform_that_asks_to_wait_gets_the_same_text_later() {
    let world = World::new();
    world.platform.answers(SendOutcome::not_sent(Some(30), WaitScope::Chat, "slow down"));
    let chat = world.chat("7");
    chat.says("question");
    assert_eq!(chat.hears(2), ["question", "question"]);
    let sent = world.platform.sent();
    assert_eq!(sent[0].key, sent[1].key);
    world.settled();
}

#[test]
fn why_a_part_did_not_arrive_is_kept_with_it() {
    let world = World::new();
    world.platform.answers(SendOutcome::not_sent(Some(3_600_000), WaitScope::Chat, "slow down"));
    world.chat("7").says("question");
    let detail = world.until("the part waits", || {
        let owed = world.block_on(world.host().store.owed(1)).unwrap();
        owed.first()?.parts[0].detail.clone()
    });
    assert_eq!(detail, "slow down");
}

#[test]
fn a_doubtful_send_is_repeated_once_marked_and_then_given_up_visibly() {
    let world = World::new();
    for _ in 0..2 {
        world.platform.answers(SendOutcome::unknown("cut"));
    }
    let chat = world.chat("7");
    chat.says("question");
    let heard = chat.hears(3);
    assert_eq!(heard[..2], ["question", "(possibly repeated) question"]);
    let step = "Ask me to repeat it, or ask the operator to run `hermes-host outbox retry 1`.";
    assert!(heard[2].starts_with("A message may be missing here") && heard[2].ends_with(step), "{heard:?}");
    world.settled();
    assert_eq!(chat.heard().len(), 3);
    assert_eq!(abandoned(&world), ["doubtful twice; last: cut"]);
}

/// Runs SQL in the database of a world, as another process would.
fn sql(world: &World, sql: &str) {
    let database = rusqlite::Connection::open(world.home().join("state.db")).unwrap();
    database.busy_timeout(Duration::from_secs(30)).unwrap();
    database.execute_batch(sql).unwrap();
}

#[test]
fn a_part_is_not_given_up_unless_its_notice_is_owed_in_the_same_transaction() {
    let mut world = World::new();
    sql(
        &world,
        "CREATE TRIGGER no_notice BEFORE INSERT ON outbox WHEN new.purpose = 'notice'
         BEGIN SELECT RAISE(ABORT, 'no notice'); END",
    );
    for _ in 0..2 {
        world.platform.answers(SendOutcome::unknown("cut"));
    }
    world.chat("7").says("question");
    world.chat("7").hears(2);
    // The next message passes the lane once the part is settled.
    world.chat("7").says("and now?");
    world.chat("7").hears(3);
    assert_eq!(abandoned(&world), Vec::<String>::new());
    world.crash();
    sql(&world, "DROP TRIGGER no_notice");
    world.start();
    let heard = world.chat("7").hears(4);
    assert_eq!(heard[3], "(possibly repeated) question", "the part is still owed: {heard:?}");
}

#[test]
fn a_report_that_does_not_arrive_either_is_not_reported() {
    let world = World::new();
    for _ in 0..4 {
        world.platform.answers(SendOutcome::unknown("cut"));
    }
    let chat = world.chat("7");
    chat.says("question");
    chat.hears(4);
    world.settled();
    chat.says("and now?");
    assert_eq!(chat.hears(5)[4], "and now?");
    assert_eq!(abandoned(&world).len(), 2);
}

#[test]
fn an_answer_that_the_platform_refuses_for_good_is_reported_in_its_chat() {
    let world = World::new();
    world.platform.answers(SendOutcome::refused(RefusalKind::Invalid, "blocked by AutoMod (200000)"));
    let chat = world.chat("7");
    chat.says("question");
    let heard = chat.hears(2);
    assert!(heard[1].contains("the platform refused it (blocked by AutoMod (200000))"), "{heard:?}");
    world.settled();
    assert_eq!(chat.heard().len(), 2);
}

#[test]
fn a_credential_that_is_refused_for_one_message_alone_holds_no_other() {
    let world = World::new();
    world.platform.refuses(RefusalKind::Unauthorized);
    world.platform.refuses(RefusalKind::Unauthorized);
    let chat = world.chat("7");
    chat.says("odd");
    chat.hears(1);
    let adapter = world.host().adapter("fake").unwrap();
    let outcome = world.block_on(adapter.send(&hermes_protocol::Outgoing::text(hermes_protocol::Chat::dm("9"), "x")));
    assert!(!matches!(outcome, SendOutcome::Delivered { .. }), "{outcome:?}");
    let outcome = world.block_on(adapter.send(&hermes_protocol::Outgoing::text(hermes_protocol::Chat::dm("9"), "x")));
    assert!(matches!(outcome, SendOutcome::Delivered { .. }), "{outcome:?}");
    world.platform.refuses(RefusalKind::Unauthorized);
    world.passes(Duration::from_secs(2));
    chat.hears(2);
    world.chat("8").says("even");
    assert_eq!(world.chat("8").hears(1), ["even"]);
}

#[test]
fn an_answer_whose_deadline_passed_while_the_host_was_down_is_still_tried() {
    let mut world = World::new();
    world.set_online(false);
    world.chat("7").says("question");
    world.until("it is owed", || (world.block_on(world.host().store.counts()).unwrap().outbox == 1).then_some(()));
    world.stop();
    world.passes(Duration::from_secs(400 * 24 * 3_600));
    world.start();
    assert_eq!(world.chat("7").hears(1), ["question"]);
    world.settled();
}

#[test]
fn a_start_with_a_clock_far_ahead_forgets_no_message_that_was_handled() {
    let mut world = World::new();
    let chat = world.chat("7");
    let first = chat.event("one");
    chat.gives(&first);
    chat.says("two");
    chat.hears(2);
    world.settled();
    world.stop();
    world.passes(Duration::from_secs(400 * 24 * 3_600));
    world.start();
    let host = world.host();
    world.block_on(host.store.sweep(host.now_ms())).unwrap();
    assert!(matches!(world.chat("7").gives(&first), Emitted::Duplicate { .. }));
    world.passes(Duration::from_secs(32 * 24 * 3_600));
    world.block_on(host.store.sweep(host.now_ms())).unwrap();
    assert!(matches!(world.chat("7").gives(&first), Emitted::New { .. }), "time that passes counts");
}

#[test]
fn an_operator_lifts_a_wait_and_a_waiting_delivery_goes_at_once() {
    let world = World::new();
    world.platform.answers(SendOutcome::not_sent(Some(10_u64.pow(12)), WaitScope::Instance, "slow down"));
    let chat = world.chat("7");
    chat.says("question");
    let owed = world.until("the part waits", || {
        let owed = world.block_on(world.host().store.owed(1)).unwrap().pop()?;
        owed.parts[0].detail.is_some().then_some(owed)
    });
    let now_ms = world.host().now_ms();
    let held = || world.host().holds.of("fake").until_ms("fake", "8", world.host().now_ms());
    assert!(held().is_some_and(|until_ms| until_ms <= now_ms + 15 * 60_000), "{:?}", held());
    assert!(world.block_on(world.host().store.outbox_hurry(owed.id)).unwrap());
    let target = Target::of("fake", &owed.chat);
    world.block_on(world.host().tell(HostEvent::control(Control::Hurry { target })));
    assert_eq!(chat.hears(2), ["question", "question"]);
    world.settled();
    assert_eq!(held(), None);
}

#[test]
fn a_doubt_is_repeated_only_after_a_round_trip_that_came_back_since() {
    let world = World::new();
    let adapter = world.host().adapter("fake").unwrap();
    adapter.is_silent();
    adapter.shows_life();
    world.platform.answers(SendOutcome::unknown("502"));
    let chat = world.chat("7");
    chat.says("question");
    chat.hears(1);
    world.block_on(adapter.is_asked_for_life());
    assert_eq!(chat.heard(), ["question"], "what swallowed it would swallow the repeat too");
    adapter.shows_life();
    assert_eq!(chat.hears(2), ["question", "(possibly repeated) question"]);
    world.settled();
    assert!(abandoned(&world).is_empty());
}

#[test]
fn a_part_that_alone_cannot_be_sent_holds_no_other_chat() {
    let delivery = "backoff_ms = 60000\nbackoff_s_max = 60".to_owned();
    let world = World::with(Setting { delivery, ..Setting::default() });
    let chat = world.chat("7");
    for _ in 0..2 {
        world.platform.answers(SendOutcome::not_sent(None, WaitScope::Instance, "no such file"));
    }
    chat.says("odd");
    chat.hears(1);
    world.host().adapter("fake").unwrap().shows_life();
    world.passes(Duration::from_secs(7_200));
    chat.says("look again");
    assert_eq!(chat.hears(2), ["odd", "odd"]);
    world.chat("8").says("even");
    assert_eq!(world.chat("8").hears(1), ["even"]);
}

#[test]
fn an_idempotent_adapter_is_sent_the_same_key_again_without_a_mark() {
    let world = World::with(Setting { capabilities: json!({ "delivery": "idempotent" }), ..Setting::default() });
    world.platform.answers(SendOutcome::unknown("cut"));
    let chat = world.chat("7");
    chat.says("question");
    assert_eq!(chat.hears(2), ["question", "question"]);
    world.settled();
}

#[test]
fn a_reconcilable_adapter_is_asked_and_nothing_is_repeated() {
    let capabilities = json!({ "delivery": "reconcilable", "lookup": true });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    world.platform.answers(SendOutcome::unknown("cut"));
    world.platform.knows(LookupReply::Found { receipt: Receipt::new(vec!["p1".to_owned()], 1) });
    let chat = world.chat("7");
    chat.says("question");
    chat.hears(1);
    world.settled();
    assert_eq!(chat.heard(), ["question"]);
}

#[test]
fn markup_that_is_refused_goes_once_more_as_plain_text() {
    let world = World::new();
    world.platform.refuses(RefusalKind::BadFormat);
    let chat = world.chat("7");
    chat.says("some *markup*");
    chat.hears(2);
    let sent = world.platform.sent();
    assert_eq!((&sent[0].format, &sent[1].format), (&Format::Markdown, &Format::Plain));
    assert_eq!(sent[1].text, "some markup");
    world.settled();
}

#[test]
fn a_text_that_is_too_long_after_all_is_cut_smaller_once() {
    let world = World::new();
    world.platform.refuses(RefusalKind::TooLong);
    let chat = world.chat("7");
    let text = "many words ".repeat(300);
    chat.says(&text);
    let heard = chat.hears(3);
    assert!(heard[1].len() < heard[0].len() && heard[2].len() < heard[0].len(), "smaller parts follow");
    world.settled();
}

#[test]
fn a_dead_chat_is_not_written_to_until_it_speaks_again() {
    let world = World::new();
    world.platform.refuses(RefusalKind::Forbidden);
    let chat = world.chat("7");
    chat.says("question");
    chat.hears(1);
    world.settled();
    chat.says("I am back");
    assert_eq!(chat.hears(2)[1], "I am back");
    world.settled();
}

#[test]
fn a_request_that_is_gone_takes_its_answer_with_it_and_nothing_else() {
    let capabilities = json!({ "supports_async_delivery": false });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    world.platform.refuses(RefusalKind::ChatGone);
    let chat = world.chat("7");
    chat.says("question");
    chat.hears(1);
    world.settled();
    assert_eq!(abandoned(&world), ["requester gone; last: chat_gone: no"]);
    chat.says("again");
    assert_eq!(chat.hears(2)[1], "again", "the chat is not dead");
}

#[test]
fn a_chat_that_moved_gets_the_answer_at_its_new_place_and_keeps_its_session() {
    let world = World::new();
    world.platform.answers(SendOutcome::migrated("8"));
    world.chat("7").says("where now");
    assert_eq!(world.chat("8").hears(1), ["where now"]);
    world.settled();
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    world.chat("8").says("still me");
    world.chat("8").hears(2);
    assert_eq!(world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap()[0]["id"], sessions[0]["id"]);
}

#[test]
fn a_chat_that_moves_to_where_another_talks_leaves_that_conversation_alone() {
    let world = World::new();
    let mine = |world: &World| world.call("sessions.list", json!({ "sender": { "id": "8" } })).unwrap();
    world.chat("8").says("mine");
    world.chat("8").hears(1);
    world.settled();
    let before = mine(&world);
    world.platform.answers(SendOutcome::migrated("8"));
    world.chat("7").says("where now");
    assert_eq!(world.chat("8").hears(2), ["mine", "where now"]);
    world.until("the former session has ended", || {
        let counts = world.block_on(world.host().store.counts()).unwrap();
        (counts.sessions_open == 1 && counts.sessions == 2).then_some(())
    });
    world.chat("8").says("still mine");
    assert_eq!(world.chat("8").hears(3)[2], "still mine");
    world.settled();
    assert_eq!(mine(&world)[0]["id"], before[0]["id"]);
}

#[test]
fn more_than_fits_at_once_is_taken_in_one_after_the_other() {
    let section = "access = { allowed_users = [\"7\", \"8\", \"9\"] }".to_owned();
    let world = World::with(Setting { section, ..Setting::default() });
    // Three chats, because at most 32 messages wait in one, and a slow machine answers none of them meanwhile.
    let chats = ["7", "8", "9"].map(|user| world.chat(user));
    for n in 0..70 {
        let chat = &chats[n % 3];
        let mut event = chat.event(&format!("message {n}"));
        event.raw = json!("x".repeat(1_000_000));
        chat.gives(&event);
    }
    for (first, chat) in chats.iter().enumerate() {
        let expected: Vec<String> = (first..70).step_by(3).map(|n| format!("message {n}")).collect();
        assert_eq!(chat.hears(expected.len()), expected);
    }
    world.settled();
}

#[test]
fn what_is_owed_while_the_adapter_is_away_goes_when_it_is_back_in_order() {
    let world = World::new();
    let chat = world.chat("7");
    world.set_online(false);
    for n in 0..40 {
        chat.says(&format!("message {n}"));
        world.until("it is owed", || {
            let counts = world.block_on(world.host().store.counts()).unwrap();
            (counts.outbox == n + 1).then_some(())
        });
    }
    assert!(chat.heard().is_empty());
    world.set_online(true);
    let expected: Vec<String> = (0..40).map(|n| format!("message {n}")).collect();
    assert_eq!(chat.hears(40), expected, "also beyond what a lane holds in memory");
    world.settled();
}

#[test]
fn a_send_that_hangs_holds_up_no_other_chat() {
    let world = World::new();
    world.platform.hangs();
    world.chat("7").says("stuck");
    world.chat("7").hears(1);
    world.chat("8").says("free");
    assert_eq!(world.chat("8").hears(1), ["free"]);
}

/// Returns the reasons of abandoned deliveries.
fn abandoned(world: &World) -> Vec<String> {
    let filter = DeliveryFilter { dead: true, ..DeliveryFilter::default() };
    let dead = world.block_on(world.host().store.deliveries(filter)).unwrap();
    let parts = dead.into_iter().flat_map(|delivery| delivery.parts);
    let why = parts.filter_map(|part| match part.state {
        PartState::Abandoned { why } => Some(why),
        _ => None,
    });
    why.collect()
}

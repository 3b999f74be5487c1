//! Growing answers: the view of the chat during and after the turn.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, EventSink, Failure, Message, TurnOutcome, TurnRequest};
use hermes_core::delivery::PartState;
use hermes_protocol::{LookupReply, Receipt, RefusalKind, SendOutcome, Usage, WaitScope};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use crate::engine::outbox::PARKED;
use hermes_store::DeliveryState;

#[test]
fn an_answer_grows_in_one_message_and_ends_as_the_whole() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    agent.says(" two");
    sees(&world, &["one two"]);
    agent.says(" three");
    agent.ends();
    sees(&world, &["one two three"]);
    world.settled();
    assert_eq!(world.platform.sent().len(), 1, "one message, whatever it grew to");
}

#[test]
fn an_answer_that_comes_quickly_is_sent_once_and_whole() {
    let (world, agent) = paced("preview_interval_ms = 60000");
    world.chat("7").says("question");
    agent.says("one two three four five six seven eight nine ten");
    agent.ends();
    world.settled();
    assert_eq!(world.platform.sent().len(), 1);
    assert!(world.platform.edits().is_empty());
}

#[test]
fn the_first_piece_is_committed_before_it_is_sent_and_its_receipt_before_the_first_edit() {
    let (world, agent) = world();
    world.platform.hangs();
    world.chat("7").says("question");
    agent.says("one");
    world.chat("7").hears(1);
    let row = draft(&world).expect("it was committed before it was sent");
    assert_eq!((row.state, row.draft_message.as_deref()), (DeliveryState::Drafting, None));
    agent.says(" two");
    agent.says(" three");
    assert!(world.platform.edits().is_empty(), "what has no receipt cannot be changed");
}

#[test]
fn a_final_text_that_is_shown_already_is_settled_without_another_edit() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    agent.says(" two");
    sees(&world, &["one two"]);
    let edits = world.platform.edits().len();
    agent.ends();
    world.settled();
    assert_eq!(world.platform.edits().len(), edits);
    assert_eq!(world.platform.screen(), ["one two"]);
}

#[test]
fn a_platform_that_asks_to_wait_pauses_the_edits_and_gets_the_final_text_after_it() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    world.platform.answers_edit(SendOutcome::not_sent(Some(300), WaitScope::Chat, "slow down"));
    agent.says(" two");
    world.until("an edit was refused", || (world.platform.edits().len() == 1).then_some(()));
    agent.says(" three");
    agent.says(" four");
    agent.ends();
    sees(&world, &["one two three four"]);
    world.settled();
    assert_eq!(world.platform.edits().len(), 2, "the one that was refused, and the final one");
    assert_eq!(world.platform.sent().len(), 1, "and no second message");
}

#[test]
fn an_answer_longer_than_a_message_stops_growing_at_the_limit_and_goes_on_in_further_messages() {
    let (world, agent) = limited(200);
    world.chat("7").says("question");
    let code = "```rust\nlet number = 1;\nlet number = 2;\nlet number = 3;\nlet number = 4;\nlet number = 5;\n";
    agent.says(code);
    world.until("it is shown", || world.platform.screen().first().cloned());
    for _ in 0..10 {
        agent.says("let another = 12345678;\n");
    }
    world.until("it reaches the limit", || {
        world.platform.edits().last().filter(|edit| edit.outgoing.text.contains("(1/")).cloned()
    });
    agent.says("```\nThat is all.");
    agent.ends();
    world.settled();
    let pieces = world.platform.edits().into_iter().map(|edit| edit.outgoing.text).chain(world.platform.screen());
    for piece in pieces {
        assert!(piece.chars().count() <= 200, "{piece}");
        assert_eq!(piece.matches("```").count() % 2, 0, "a fence is left open: {piece}");
    }
    let screen = world.platform.screen();
    assert!(
        screen.len() > 1 && screen[0].contains("(1/") && screen.last().unwrap().contains("That is all."),
        "{screen:?}"
    );
    assert_eq!(screen.concat().matches("12345678").count(), 10, "{screen:?}");
}

#[test]
fn an_answer_whose_message_is_gone_is_sent_anew() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    for _ in 0..2 {
        world.platform.answers_edit(SendOutcome::refused(RefusalKind::Invalid, "message to edit not found"));
    }
    agent.says(" two");
    world.until("an edit was refused", || (world.platform.edits().len() == 1).then_some(()));
    agent.ends();
    sees(&world, &["one", "one two"]);
    world.settled();
}

#[test]
fn an_edit_whose_outcome_is_doubtful_is_repeated_without_a_mark() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    world.platform.answers_edit(SendOutcome::unknown("cut"));
    agent.finishes("one two");
    sees(&world, &["one two"]);
    world.settled();
}

#[test]
fn an_edit_on_the_way_that_hangs_holds_the_final_text_up_for_seconds_only() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    world.platform.hangs_in_edit();
    agent.says(" two");
    world.until("the edit hangs", || (world.platform.edits().len() == 1).then_some(()));
    agent.ends();
    sees(&world, &["one two"]);
    world.settled();
}

#[test]
fn an_answer_whose_chat_moved_meanwhile_is_sent_anew_and_changes_no_message_there() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    // One outcome for an intermediate edit, if there is time for it.
    for _ in 0..2 {
        world.platform.answers_edit(SendOutcome::migrated("8"));
    }
    agent.finishes("one two");
    assert_eq!(world.chat("8").hears(1), ["one two"]);
    world.settled();
    let edits = world.platform.edits();
    assert!(
        edits.iter().all(|edit| edit.message.chat.id == "7"),
        "under the new id it is another's message: {edits:?}"
    );
}

#[test]
fn a_first_piece_that_may_have_arrived_is_repeated_as_the_final_text_marked() {
    let (world, agent) = world();
    world.platform.answers(SendOutcome::unknown("cut"));
    world.chat("7").says("question");
    agent.says("one");
    world.chat("7").hears(1);
    agent.says(" two");
    agent.ends();
    assert_eq!(world.chat("7").hears(2), ["one", "(possibly repeated) one two"]);
    world.settled();
    assert!(world.platform.edits().is_empty(), "there is no message to edit");
}

#[test]
fn an_idempotent_adapter_is_sent_the_first_piece_again_and_then_edits_it() {
    let (world, agent) = with(json!({ "delivery": "idempotent" }), "preview_interval_ms = 10\npreview_chars = 1");
    world.platform.answers(SendOutcome::unknown("cut"));
    world.chat("7").says("question");
    agent.says("one");
    assert_eq!(world.chat("7").hears(2), ["one", "one"]);
    let sent = world.platform.sent();
    assert_eq!(sent[0].key, sent[1].key);
    agent.finishes("one two");
    sees(&world, &["one two"]);
    world.settled();
}

#[test]
fn a_reconcilable_adapter_is_asked_for_the_first_piece_and_then_edits_it() {
    let capabilities = json!({ "delivery": "reconcilable", "lookup": true });
    let (world, agent) = with(capabilities, "preview_interval_ms = 10\npreview_chars = 1");
    world.platform.answers(SendOutcome::unknown("cut"));
    world.platform.knows(LookupReply::Found { receipt: Receipt::new(vec!["p1".to_owned()], 1) });
    world.platform.shows("p1", "one");
    world.chat("7").says("question");
    agent.says("one");
    world.chat("7").hears(1);
    agent.finishes("one two");
    sees(&world, &["one two"]);
    world.settled();
    assert_eq!(world.platform.sent().len(), 1);
}

#[test]
fn a_first_piece_that_is_refused_costs_nothing_but_the_preview() {
    let (world, agent) = world();
    world.platform.refuses(RefusalKind::BadFormat);
    world.chat("7").says("question");
    agent.says("one");
    world.chat("7").hears(1);
    agent.finishes("one two");
    sees(&world, &["one two"]);
    world.settled();
}

#[test]
fn a_stopped_turn_leaves_what_it_said_marked_as_interrupted() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    agent.says(" two");
    sees(&world, &["one two"]);
    world.chat("7").says("/stop");
    sees(&world, &["one two\n\n(interrupted)", "Stopped."]);
    world.settled();
}

#[test]
fn what_was_said_before_anything_was_shown_is_shown_with_the_mark_when_the_turn_is_ended() {
    for (ends, said) in [
        ("/stop", "Stopped."),
        ("/new", "Started a new conversation. The running turn was stopped."),
        ("/reset", "Started a new conversation. The running turn was stopped."),
    ] {
        let (world, agent) = paced("preview_interval_ms = 60000");
        let chat = world.chat("7");
        chat.says("question");
        agent.says("one");
        agent.waits(&world);
        chat.says(ends);
        sees(&world, &["one\n\n(interrupted)", said]);
        world.settled();
    }
    let (world, agent) = paced("preview_interval_ms = 60000");
    let chat = world.chat("7");
    chat.says("question");
    agent.says("before");
    agent.uses("shell", "ls");
    agent.says("after");
    agent.waits(&world);
    chat.says("rather this");
    world.until("both are told", || (world.platform.screen().len() >= 2).then_some(()));
    agent.finishes("this");
    sees(&world, &["before", "after\n\n(interrupted)", "this"]);
    world.settled();
}

#[test]
fn a_turn_that_had_said_nothing_leaves_nothing_behind() {
    let (world, _agent) = world();
    let chat = world.chat("7");
    chat.says("question");
    world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    chat.says("/stop");
    sees(&world, &["Stopped."]);
    chat.says("/new");
    sees(&world, &["Stopped.", "Started a new conversation."]);
    world.settled();
}

#[test]
fn a_turn_that_fails_replaces_what_it_said_by_the_reason() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("half of it");
    sees(&world, &["half of it"]);
    agent.fails();
    sees(&world, &["It failed."]);
    world.settled();
}

#[test]
fn a_crash_before_the_first_piece_was_sent_leaves_nothing_of_it_to_be_seen() {
    let (mut world, agent) = world();
    world.set_online(false);
    world.chat("7").says("question");
    agent.says("one");
    world.until("it is committed", || draft(&world));
    world.crash();
    world.start();
    agent.finishes("another answer");
    sees(&world, &["another answer"]);
    world.settled();
}

#[test]
fn a_crash_while_the_first_piece_was_sent_leads_to_the_answer_marked() {
    let (mut world, agent) = world();
    world.platform.hangs();
    world.chat("7").says("question");
    agent.says("one");
    world.chat("7").hears(1);
    world.crash();
    world.start();
    agent.finishes("another answer");
    assert_eq!(world.chat("7").hears(2), ["one", "(possibly repeated) another answer"]);
    world.settled();
}

#[test]
fn a_resumed_turn_that_is_stopped_marks_the_piece_that_a_crash_left_in_doubt() {
    for says_again in [false, true] {
        let (mut world, agent) = world();
        world.platform.hangs();
        world.chat("7").says("question");
        agent.says("one");
        world.chat("7").hears(1);
        world.crash();
        world.start();
        world.until("it runs again", || {
            let running = world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
            (running == 1).then_some(())
        });
        if says_again {
            agent.says("one");
        }
        world.chat("7").says("/stop");
        world.chat("7").hears(2);
        world.passes(std::time::Duration::from_secs(60));
        world.settled();
        let shown = world.platform.screen();
        assert!(shown.iter().any(|text| text.ends_with("one\n\n(interrupted)")), "{says_again}: {shown:?}");
    }
}

#[test]
fn a_turn_that_is_resumed_goes_on_in_the_message_that_it_began() {
    let (mut world, agent) = world();
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    world.until("its receipt is kept", || draft(&world)?.draft_message);
    world.crash();
    world.start();
    agent.says("another");
    sees(&world, &["another"]);
    agent.says(" answer");
    agent.ends();
    sees(&world, &["another answer"]);
    world.settled();
}

/// Returns the texts that the platform got, once nothing is owed.
fn arrived(world: &World) -> Vec<String> {
    world.settled();
    world.platform.sent().into_iter().map(|sent| sent.text).collect()
}

#[test]
fn an_answer_that_grew_goes_before_what_was_owed_after_its_first_piece_with_and_without_a_restart() {
    for restarts in [false, true] {
        let (mut world, agent) = world();
        world.platform.answers(SendOutcome::not_sent(Some(3_000_000), WaitScope::Chat, "slow down"));
        world.chat("7").says("question");
        agent.says("one");
        world.chat("7").hears(1);
        world.chat("7").says("/status");
        world.until("the order is answered", || {
            (world.block_on(world.host().store.counts()).unwrap().outbox >= 1).then_some(())
        });
        agent.ends();
        world.until("the answer is owed behind its first piece", || {
            let owed = world.block_on(world.host().store.owed(9)).unwrap();
            (owed.len() == 2).then_some(())
        });
        if restarts {
            world.crash();
            world.start();
        }
        world.passes(std::time::Duration::from_secs(3_600));
        world.is_ready();
        let arrived = arrived(&world);
        assert_eq!((arrived.len(), arrived[1].as_str()), (3, "one"), "restarts {restarts}: {arrived:?}");
    }
}

#[test]
fn the_parts_of_an_answer_keep_their_order_over_a_crash_during_the_first() {
    let (mut world, agent) = limited(60);
    world.platform.hangs();
    world.chat("7").says("question");
    agent.says(&(1..=9).map(|n| format!("paragraph number {n} of the answer\n\n")).collect::<String>());
    agent.ends();
    // The first part is in flight.
    world.chat("7").hears(1);
    world.until("its parts are owed", || {
        let owed = world.block_on(world.host().store.owed(9)).unwrap();
        owed.first().filter(|owed| owed.parts.len() > 3).map(|_| ())
    });
    world.crash();
    world.start();
    let arrived = arrived(&world);
    let numbers: Vec<usize> =
        (1..=9).map(|n| arrived.iter().rposition(|text| text.contains(&format!("number {n} "))).unwrap()).collect();
    assert!(numbers.is_sorted(), "{arrived:?}");
}

#[test]
fn a_turn_that_is_not_resumed_leaves_its_message_marked_as_interrupted() {
    let (mut world, agent) = with(json!({}), "preview_interval_ms = 10\npreview_chars = 1");
    world.chat("7").says("question");
    agent.says("one");
    sees(&world, &["one"]);
    world.until("its receipt is kept", || draft(&world)?.draft_message);
    for _ in 0..3 {
        world.crash();
        world.start();
        world.until("it runs again", || {
            let running = world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
            (running == 1).then_some(())
        });
    }
    world.crash();
    world.start();
    world.settled();
    assert_eq!(world.platform.screen(), ["one\n\n(interrupted)", crate::engine::session::outcome::GIVEN_UP]);
}

#[test]
fn a_tool_ends_the_message_and_the_next_words_begin_another() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("I will look.");
    sees(&world, &["I will look."]);
    agent.uses("search", "rust");
    agent.uses("read", "page");
    agent.says("Found ");
    sees(&world, &["I will look.", "Found"]);
    agent.says("it.");
    agent.finishes("I will look.Found it.");
    sees(&world, &["I will look.", "Found it."]);
    world.settled();
    let sent = world.platform.sent();
    assert!(sent[0].reply_to.is_some() && sent[1].reply_to.is_none(), "only the first message quotes the question");
}

#[test]
fn what_was_said_before_a_tool_is_not_said_again_at_the_end() {
    let (world, agent) = paced("preview_interval_ms = 60000");
    world.chat("7").says("question");
    agent.says("I will look.");
    agent.uses("search", "rust");
    world.chat("7").hears(1);
    agent.says("Found it.");
    agent.finishes("I will look.\n\nFound it.");
    sees(&world, &["I will look.", "Found it."]);
    world.settled();
    world.chat("7").says("again");
    agent.says("I will look.");
    agent.uses("search", "rust");
    agent.finishes("I will look.");
    world.settled();
    assert_eq!(world.platform.screen(), ["I will look.", "Found it.", "I will look."]);
}

#[test]
fn a_marker_of_silence_and_the_names_of_files_are_never_shown_on_the_way() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.says("[SIL");
    agent.says("ENT]");
    agent.ends();
    world.settled();
    world.chat("7").says("question");
    agent.says("Here:\nMEDIA:/no/such");
    world.until("what can be shown is shown", || (world.platform.screen() == ["Here:"]).then_some(()));
    agent.says("file.png\n");
    agent.ends();
    world.settled();
    let pieces: Vec<String> = world.platform.edits().into_iter().map(|edit| edit.outgoing.text).collect();
    assert!(
        pieces.iter().chain(&world.platform.screen()).all(|text| !text.contains("MEDIA:") && !text.contains("SIL"))
    );
}

#[test]
fn answers_do_not_grow_where_the_operator_does_not_want_it_or_the_adapter_cannot() {
    let section = "access = { allowed_users = [\"7\"] }\nstream = \"off\"".to_owned();
    let quick = "preview_interval_ms = 10\npreview_chars = 1";
    let off = started(Setting { section, ..setting(json!({}), quick) });
    let cannot = with(json!({ "edit": false }), quick);
    let request = with(json!({ "supports_async_delivery": false }), quick);
    for (world, agent) in [off, cannot, request] {
        world.chat("7").says("question");
        agent.says("one");
        agent.says(" two");
        agent.waits(&world);
        assert!(world.platform.sent().is_empty());
        agent.ends();
        sees(&world, &["one two"]);
        world.settled();
        assert!(world.platform.edits().is_empty());
    }
}

#[test]
fn an_adapter_with_drafts_shows_the_answer_as_one_and_is_sent_the_whole() {
    let (world, agent) = with(json!({ "drafts": true }), "preview_interval_ms = 10\npreview_chars = 1");
    world.chat("7").says("question");
    agent.says("one");
    world.until("the draft", || (world.platform.drafts() == ["one"]).then_some(()));
    agent.says(" two");
    world.until("it grows", || (world.platform.drafts() == ["one", "one two"]).then_some(()));
    agent.ends();
    sees(&world, &["one two"]);
    world.until("the draft is taken back", || (world.platform.drafts().last()?.is_empty()).then_some(()));
    world.settled();
    assert_eq!((world.platform.sent().len(), world.platform.edits().len()), (1, 0));
}

#[test]
fn a_draft_that_is_not_taken_becomes_a_message_that_grows() {
    let (world, agent) = with(json!({ "drafts": true }), "preview_interval_ms = 10\npreview_chars = 1");
    world.platform.takes_no_drafts();
    world.chat("7").says("question");
    agent.says("one");
    world.until("it is shown before the next word", || (world.platform.screen() == ["one"]).then_some(()));
    agent.says(" two");
    agent.finishes("one two");
    sees(&world, &["one two"]);
    world.settled();
}

#[test]
fn typing_ends_with_the_turn_however_it_ends() {
    let (world, agent) = with(json!({ "typing": true }), "");
    let stops = || {
        world.chat("7").says("/stop");
    };
    let ends: [&dyn Fn(); 4] = [&|| agent.ends(), &|| agent.fails(), &|| agent.panics(), &stops];
    for (turn, end) in ends.iter().enumerate() {
        world.chat("7").says("question");
        world.until("typing is shown", || (world.platform.typing().len() == 2 * turn + 1).then_some(()));
        end();
        world.until("typing ends", || (world.platform.typing().len() == 2 * turn + 2).then_some(()));
    }
    assert_eq!(world.platform.typing(), [true, false].repeat(4));
}

#[test]
fn a_limited_typing_sign_makes_its_chat_wait_for_messages_too() {
    let (world, agent) = with(json!({ "typing": true }), "");
    world.platform.limits_hints(60_000);
    world.chat("7").says("question");
    world.until("typing is asked for", || (world.platform.typing().len() == 1).then_some(()));
    let host = world.host();
    let held = world.until("the chat waits", || host.holds.of("fake").until_ms("fake", "7", host.now_ms()));
    assert!(held <= host.now_ms() + 60_000);
    agent.ends();
    world.until("the answer is owed", || (world.block_on(host.store.counts()).unwrap().outbox == 1).then_some(()));
    assert_eq!((world.platform.typing(), world.chat("7").heard()), (vec![true], Vec::new()));
}

#[test]
fn tools_are_shown_in_one_message_that_is_changed_and_never_owed() {
    let (world, agent) = chosen("progress = \"all\"");
    world.chat("7").says("question");
    agent.uses("search", "rust");
    sees(&world, &["- `search`: `rust`"]);
    agent.uses("read", "page");
    sees(&world, &["- `search`: `rust`\n- `read`: `page`"]);
    agent.finishes("Found it.");
    sees(&world, &["- `search`: `rust`\n- `read`: `page`", "Found it."]);
    world.settled();
    assert_eq!(world.platform.sent().len(), 2);
    world.chat("7").says("again");
    agent.uses("search", "more");
    world.until("another turn has a message of its own", || (world.platform.sent().len() == 3).then_some(()));
    agent.ends();
    world.settled();
}

#[test]
fn a_chat_is_told_nothing_of_tools_unless_it_asks() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.uses("search", "rust");
    agent.finishes("Found it.");
    sees(&world, &["Found it."]);
    world.chat("7").says("/verbose");
    world.chat("7").hears(2);
    world.chat("7").says("again");
    agent.uses("search", "rust");
    agent.uses("search", "again");
    world.chat("7").hears(3);
    agent.finishes("Found more.");
    world.chat("7").hears(4);
    world.settled();
    let screen = world.platform.screen();
    assert_eq!(screen[2..], ["- `search`: `rust`", "Found more."], "in the mode `new`: {}", screen[1]);
}

#[test]
fn verbose_goes_through_its_modes_and_takes_one_by_name() {
    let (world, _agent) = world();
    let chat = world.chat("7");
    for (said, mode) in [
        ("", "(new)"),
        ("", "(all)"),
        ("", "(verbose)"),
        ("", "(log)"),
        ("", "(off)"),
        ("all", "(all)"),
        ("status", "(all)"),
    ] {
        let before = chat.heard().len();
        chat.says(&format!("/verbose {said}"));
        let heard = chat.hears(before + 1);
        assert!(heard[before].contains(mode), "{said:?}: {}", heard[before]);
    }
    chat.says("/verbose loud");
    assert!(chat.hears(8)[7].contains("off, new, all, verbose, log"));
}

#[test]
fn tools_go_to_a_file_where_that_was_chosen() {
    let (world, agent) = chosen("progress = \"log\"");
    world.chat("7").says("question");
    agent.uses("search", "rust");
    agent.finishes("Found it.");
    sees(&world, &["Found it."]);
    let line = world.until("it is written", || {
        std::fs::read_to_string(world.home().join("logs/tool_calls.log")).ok().filter(|log| log.ends_with('\n'))
    });
    assert!(line.ends_with(" search rust\n"), "{line}");
}

#[test]
fn a_footer_stands_under_the_answer_where_it_is_wanted_and_not_in_the_transcript() {
    let (world, agent) = world();
    world.chat("7").says("/footer on");
    world.chat("7").hears(1);
    world.chat("7").says("question");
    agent.says("one");
    world.chat("7").hears(2);
    agent.ends();
    world.settled();
    let screen = world.platform.screen();
    assert!(screen[1].starts_with("one\n\n`told-1` · 1234 tokens · ") && screen[1].ends_with(" s"), "{screen:?}");
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    let history = json!({ "sender": { "id": "7" }, "session_id": sessions[0]["id"] });
    let history = world.call("sessions.history", history).unwrap().to_string();
    assert!(history.contains("one") && !history.contains("1234 tokens"), "{history}");
    world.chat("7").says("/footer off");
    assert!(world.chat("7").hears(3)[2].contains("no footer"));
}

#[test]
fn thoughts_are_never_part_of_what_grows() {
    let (world, agent) = world();
    world.chat("7").says("question");
    agent.tell(Word::Thinks("I think".to_owned()));
    agent.says("one");
    sees(&world, &["one"]);
    agent.ends();
    world.settled();
    assert_eq!(world.platform.screen(), ["one"]);
}

#[test]
fn a_parked_turn_says_that_it_goes_on_and_its_answer_takes_that_place_after_the_restart() {
    let (mut world, agent) = world();
    world.chat("7").says("question");
    agent.says("half a ");
    sees(&world, &["half a"]);
    world.parks();
    assert_eq!(world.platform.screen(), [format!("half a\n\n{PARKED}")]);
    world.start();
    agent.says("the whole");
    agent.ends();
    sees(&world, &["the whole"]);
    world.settled();
    assert_eq!(world.platform.sent().len(), 1, "one message all the time");
}

#[test]
fn a_parked_text_as_long_as_a_message_leaves_room_for_its_end() {
    let text = json!({ "limit": 80, "unit": "scalars", "dialect": "commonmark" });
    let (mut world, agent) = with(json!({ "text": text }), "preview_interval_ms = 10\npreview_chars = 1");
    world.chat("7").says("question");
    agent.says(&"word ".repeat(40));
    world.until("it is shown", || (!world.platform.screen().is_empty()).then_some(()));
    world.parks();
    let screen = world.platform.screen();
    assert!(screen[0].starts_with("word word") && screen[0].ends_with(&format!("…\n\n{PARKED}")), "{screen:?}");
    assert!(screen[0].chars().count() <= 80);
}

#[test]
fn a_turn_that_is_parked_without_a_link_is_left_as_it_is() {
    let (mut world, agent) = world();
    world.chat("7").says("question");
    agent.says("half");
    sees(&world, &["half"]);
    world.set_online(false);
    world.parks();
    assert_eq!(world.platform.screen(), ["half"]);
}

/// Returns the growing message from the store.
fn draft(world: &World) -> Option<hermes_store::OwedDelivery> {
    let filter = hermes_store::DeliveryFilter { state: Some(DeliveryState::Drafting), ..Default::default() };
    let mut drafts = world.block_on(world.host().store.deliveries(filter)).unwrap();
    drafts.pop().inspect(|draft| assert!(!matches!(draft.parts[0].state, PartState::Refused { .. })))
}

/// Waits until the screen shows exactly these texts.
fn sees(world: &World, texts: &[&str]) {
    world.until(&format!("{texts:?}, not {:?}", world.platform.screen()), || {
        (world.platform.screen() == texts).then_some(())
    });
}

fn world() -> (World, Agent) {
    paced("preview_interval_ms = 10\npreview_chars = 1")
}

fn paced(delivery: &str) -> (World, Agent) {
    with(json!({}), delivery)
}

/// Creates a world whose adapter has these keys under `session`.
fn chosen(session: &str) -> (World, Agent) {
    let section = format!("access = {{ allowed_users = [\"7\"] }}\nsession = {{ {session} }}");
    started(Setting { section, ..setting(json!({}), "preview_interval_ms = 10\npreview_chars = 1") })
}

fn limited(limit: u32) -> (World, Agent) {
    let text = json!({ "text": { "limit": limit, "unit": "scalars", "dialect": "commonmark" } });
    with(text, "preview_interval_ms = 10\npreview_chars = 1")
}

fn with(more: Value, delivery: &str) -> (World, Agent) {
    started(setting(more, delivery))
}

fn setting(more: Value, delivery: &str) -> Setting {
    let mut capabilities = Setting::default().capabilities;
    capabilities["stream"] = json!("edit");
    capabilities["edit"] = json!(true);
    for (name, value) in more.as_object().unwrap() {
        capabilities[name] = value.clone();
    }
    Setting { capabilities, delivery: format!("backoff_ms = 10\n{delivery}"), ..Setting::default() }
}

pub(super) fn started(setting: Setting) -> (World, Agent) {
    let (words, heard) = mpsc::unbounded_channel();
    let runtime = Arc::new(Told { words: Mutex::new(heard) });
    (World::with(Setting { runtime: Some(runtime), ..setting }), Agent { words })
}

/// The agent, controlled by the test.
pub(super) struct Agent {
    words: mpsc::UnboundedSender<Word>,
}

enum Word {
    Says(String),
    Uses(String, String),
    Thinks(String),
    Finishes(Option<String>),
    Fails,
    Panics,
    Answers(tokio::sync::oneshot::Sender<()>),
}

impl Agent {
    fn tell(&self, word: Word) {
        assert!(self.words.send(word).is_ok(), "the runtime lives as long as its world");
    }

    pub(super) fn says(&self, text: &str) {
        self.tell(Word::Says(text.to_owned()));
    }

    fn uses(&self, tool: &str, with: &str) {
        self.tell(Word::Uses(tool.to_owned(), with.to_owned()));
    }

    /// Ends the turn with the text so far.
    pub(super) fn ends(&self) {
        self.tell(Word::Finishes(None));
    }

    fn finishes(&self, text: &str) {
        self.tell(Word::Finishes(Some(text.to_owned())));
    }

    pub(super) fn fails(&self) {
        self.tell(Word::Fails);
    }

    pub(super) fn panics(&self) {
        self.tell(Word::Panics);
    }

    /// Returns once the agent has processed every instruction.
    fn waits(&self, world: &World) {
        let (reply, said) = tokio::sync::oneshot::channel();
        self.tell(Word::Answers(reply));
        world.block_on(said).unwrap();
    }
}

/// A runtime that follows the instructions of the test.
struct Told {
    words: Mutex<mpsc::UnboundedReceiver<Word>>,
}

impl AgentRuntime for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn models(&self) -> Vec<String> {
        vec!["told".to_owned()]
    }

    fn run(&self, _: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let (mut said, mut thought) = (String::new(), None);
            let mut words = self.words.lock().await;
            loop {
                let Some(Some(word)) = cancel.run_until_cancelled(words.recv()).await else {
                    return TurnOutcome::Interrupted { text: said };
                };
                match word {
                    Word::Says(text) => {
                        said.push_str(&text);
                        events.chunk(text).await;
                    }
                    Word::Uses(tool, with) => events.tool(tool, with).await,
                    Word::Thinks(text) => thought = Some(text),
                    Word::Finishes(text) => return finished(text.unwrap_or(said), thought),
                    Word::Fails => {
                        return TurnOutcome::Failed(Failure {
                            code: "runtime_failed",
                            kind: "refused",
                            sentence: "It failed.".to_owned(),
                            detail: "a test wants it".to_owned(),
                            retryable: false,
                            partial: said,
                        });
                    }
                    Word::Panics => panic!("a test wants it"),
                    // The test waits for the reply.
                    Word::Answers(reply) => reply.send(()).unwrap(),
                }
            }
        })
    }
}

fn finished(text: String, reasoning: Option<String>) -> TurnOutcome {
    TurnOutcome::Finished {
        messages: vec![Message { reasoning, ..Message::assistant(text.clone()) }],
        text,
        usage: Usage::tokens(1_200, 34),
        finish_reason: "stop".to_owned(),
        model: "told-1".to_owned(),
        state: None,
    }
}

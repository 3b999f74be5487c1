//! The view of a user in a chat.

use std::sync::Arc;
use std::time::Duration;

use hermes_protocol::{Addressed, Chat, ChatType, Emitted, Event, Sender, TurnEvent};
use serde_json::json;

use super::world::{Deaf, Setting, World};

#[test]
fn a_message_is_answered_and_remembered() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("hello");
    assert_eq!(chat.hears(1), ["hello"]);
    world.settled();
    let sent = world.platform.sent().remove(0);
    assert_eq!((sent.reply_to.as_deref(), sent.of), (Some("1"), 1));
    assert!(sent.in_reply_to.is_some());
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    assert_eq!(sessions[0]["messages"], 2);
}

#[test]
fn the_same_event_never_starts_a_second_turn() {
    let world = World::new();
    let chat = world.chat("7");
    let event = chat.event("once");
    let Emitted::New { inbox_id } = chat.gives(&event) else { panic!("it is new") };
    for _ in 0..3 {
        assert_eq!(chat.gives(&event), Emitted::Duplicate { duplicate_of: inbox_id });
    }
    chat.says("another");
    assert_eq!(chat.hears(2), ["once", "another"]);
    world.settled();
    assert_eq!(chat.heard().len(), 2);
}

#[test]
fn messages_that_come_while_a_turn_runs_wait_in_order() {
    let section = "access = { allowed_users = [\"7\"] }\nsession = { busy = \"queue\", merge_ms = 0 }".to_owned();
    let world = World::with(Setting { section, ..Setting::default() });
    let chat = world.chat("7");
    let given: Vec<_> = (0..20).map(|n| world.give(&chat.event(&format!("message {n}")))).collect();
    for given in given {
        world.block_on(given).unwrap();
    }
    let expected: Vec<String> = (0..20).map(|n| format!("message {n}")).collect();
    world.settled();
    let heard = chat.heard();
    let (receipts, answers): (Vec<_>, Vec<_>) = heard.into_iter().partition(|text| text.starts_with("Queued ("));
    assert_eq!(answers, expected);
    assert!(receipts.len() < 20, "the first did not wait: {receipts:?}");
}

#[test]
fn stop_frees_the_session_soon_although_the_runtime_is_deaf() {
    let world = World::with(Setting { runtime: Some(Arc::new(Deaf)), ..Setting::default() });
    let chat = world.chat("7");
    chat.says("hang here");
    chat.says("the next one");
    let began = tokio::time::Instant::now();
    chat.says("/stop");
    world.until("the queue goes on", || chat.heard().iter().any(|text| text == "the next one").then_some(()));
    let heard = chat.heard();
    // The budget is a second; the bound leaves time for a machine that runs other tests.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(heard.iter().any(|text| text.starts_with("Stopped. One waiting message")), "{heard:?}");
    world.settled();
    assert!(!chat.heard().contains(&"hang here".to_owned()), "what was stopped is never shown");
}

#[test]
fn a_message_beyond_the_queue_is_refused_truthfully() {
    let section =
        "access = { allowed_users = [\"7\"] }\nsession = { queue_max = 2, busy = \"queue\", merge_ms = 0 }".to_owned();
    let world = World::with(Setting { section, ..Setting::default() });
    let chat = world.chat("7");
    chat.says("/hang");
    for n in 0..4 {
        chat.says(&format!("message {n}"));
    }
    let refusal = chat.hears(3).remove(2);
    assert!(refusal.starts_with("Queue full (2 messages)"), "{refusal}");
    chat.says("/stop");
    world.settled();
    let heard = chat.heard();
    assert!(heard.contains(&"message 0".to_owned()) && heard.contains(&"message 1".to_owned()), "{heard:?}");
    assert!(!heard.contains(&"message 2".to_owned()) && !heard.contains(&"message 3".to_owned()), "{heard:?}");
}

#[test]
fn a_turn_that_fails_or_panics_says_so_in_one_sentence_and_the_session_goes_on() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("/fail now");
    assert_eq!(chat.hears(1), ["The echo runtime failed on request."]);
    chat.says("/panic now");
    assert!(chat.hears(2)[1].contains("The agent failed"));
    chat.says("still there?");
    assert_eq!(chat.hears(3)[2], "still there?");
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    assert_eq!(sessions[0]["messages"], 6, "each question stays, with what became of it: {sessions}");
}

#[test]
fn silence_is_kept_and_not_sent() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("[SILENT]");
    world.settled();
    chat.says("words");
    assert_eq!(chat.hears(1), ["words"]);
}

#[test]
fn a_native_stream_begins_with_metadata_and_ends_with_done() {
    let capabilities = json!({ "stream": "native", "typing": true });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    let chat = world.chat("7");
    chat.says("/slow 100 one two three four");
    chat.hears(1);
    let stream = world.until("the stream ends", || {
        let stream = world.platform.stream();
        stream.last().is_some_and(TurnEvent::is_last).then_some(stream)
    });
    assert!(matches!(&stream[0], TurnEvent::Metadata { runtime, .. } if runtime == "echo"), "{stream:?}");
    let text: String = stream
        .iter()
        .filter_map(|event| match event {
            TurnEvent::Chunk { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "one two three four");
    assert!(matches!(stream.last(), Some(TurnEvent::Done { finish_reason, .. }) if finish_reason == "stop"));
    world.until("typing ends with the turn", || (world.platform.typing() == [true, false]).then_some(()));
}

#[test]
fn a_stopped_stream_shows_that_it_was_stopped() {
    let world = World::with(Setting { capabilities: json!({ "stream": "native" }), ..Setting::default() });
    let chat = world.chat("7");
    let Emitted::New { inbox_id } = chat.says("/hang on") else { panic!("it is new") };
    world.until("it has begun", || (world.platform.stream().len() >= 2).then_some(()));
    assert_eq!(world.call("turns.status", json!({ "inbox_id": inbox_id })).unwrap()["state"], "running");
    assert_eq!(world.call("turns.stop", json!({ "inbox_id": inbox_id })).unwrap()["stopped"], true);
    let last = world.until("the stream ends", || world.platform.stream().pop().filter(TurnEvent::is_last));
    assert!(matches!(&last, TurnEvent::Done { finish_reason, .. } if finish_reason == "stopped"), "{last:?}");
    assert_eq!(world.call("turns.stop", json!({ "inbox_id": inbox_id })).unwrap()["stopped"], false);
}

#[test]
fn a_stranger_is_paired_by_the_code_that_the_offer_shows() {
    let world = World::with(Setting { section: String::new(), ..Setting::default() });
    let chat = world.chat("99");
    chat.says("hello");
    let offer = chat.hears(1).remove(0);
    let line = offer.lines().find(|line| line.contains("pairing approve")).unwrap().trim_matches('`');
    let code = line.strip_prefix("hermes-host pairing approve fake ").expect(line).to_owned();
    chat.says("let me in");
    chat.says("please");
    assert_eq!(chat.hears(2).len(), 2, "one reminder, then silence");
    let approve = |code: &str| {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let change = crate::engine::dispatcher::pairing::PairingChange::Approve {
            instance: "fake".to_owned(),
            code: code.to_owned(),
            by: crate::engine::dispatcher::pairing::OPERATOR.to_owned(),
        };
        let call = crate::engine::dispatcher::pairing::PairingCall::Change(change, reply);
        world.block_on(async {
            world
                .host()
                .tell(crate::engine::messages::HostEvent::control(crate::engine::messages::Control::Pairing(call)))
                .await;
            answer.await.unwrap()
        })
    };
    assert!(matches!(approve("AAAAAAAA").0, crate::engine::operator::ControlReply::Error { .. }));
    assert!(matches!(approve(&code).0, crate::engine::operator::ControlReply::Done { .. }));
    chat.says("and now");
    assert_eq!(chat.hears(3)[2], "and now");
}

#[test]
fn the_name_of_a_stranger_is_one_short_line_wherever_it_is_shown() {
    let world = World::with(Setting { section: String::new(), ..Setting::default() });
    let name = format!("Eve\u{1b}]0;x\u{7}\n(op)\u{202e}{}", "N".repeat(100_000));
    let sender = Sender::new("99").named(name);
    world.block_on(world.give(&Event::message("m:1", Chat::dm("99"), sender, "hello"))).unwrap();
    world
        .block_on(world.give(&Event::message("m:2", Chat::dm("98"), Sender::new("9".repeat(100_000)), "hello")))
        .unwrap();
    world.chat("99").hears(1);
    let (reply, answer) = tokio::sync::oneshot::channel();
    let call = crate::engine::messages::Control::Pairing(crate::engine::dispatcher::pairing::PairingCall::List(reply));
    let listed = world.block_on(async {
        world.host().tell(crate::engine::messages::HostEvent::control(call)).await;
        answer.await.unwrap()
    });
    let crate::engine::operator::ControlReply::Pairing { requests, .. } = listed else { panic!("{listed:?}") };
    assert_eq!(requests.len(), 1, "an id without end is nobody's");
    let name = requests[0].name.as_deref().unwrap();
    assert!(name.starts_with("Eve]0;x (op)NNN") && name.chars().count() <= 64, "{name}");
}

#[test]
fn a_group_hears_nothing_unless_it_is_addressed_by_somebody_who_may() {
    let world = World::new();
    let group = Chat::new(ChatType::Group, "g");
    let give = |id: &str, who: &str, mention: bool| {
        let event =
            Event::message(id, group.clone(), Sender::new(who), id).addressed(Addressed::new(mention, false, false));
        world.block_on(world.give(&event)).unwrap();
    };
    give("m:1", "99", true);
    give("m:2", "7", false);
    give("m:3", "7", true);
    world.settled();
    let sent = world.platform.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].text.contains("m:3"));
}

#[test]
fn commands_answer_and_new_begins_another_session() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("first");
    chat.hears(1);
    chat.says("/new");
    assert_eq!(chat.hears(2)[1], "Started a new conversation.");
    chat.says("second");
    chat.hears(3);
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    chat.says("/whoami");
    assert!(chat.hears(4)[3].contains("agent:main:fake:dm:7"));
    chat.says("/hlep");
    assert!(chat.hears(5)[4].contains("/help"));
    chat.says("/status");
    assert!(chat.hears(6)[5].contains("Messages: 2"));
    chat.says("/usr/bin/x is a path");
    assert_eq!(chat.hears(7)[6], "/usr/bin/x is a path");
}

#[test]
fn a_sender_sees_only_their_own_sessions() {
    let section = "access = { allowed_users = [\"7\", \"8\"], admins = [\"1\"] }".to_owned();
    let world = World::with(Setting { section, ..Setting::default() });
    world.chat("7").says("mine");
    world.chat("7").hears(1);
    let mine = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    let id = mine[0]["id"].as_str().unwrap();
    assert_eq!(world.call("sessions.list", json!({ "sender": { "id": "8" } })).unwrap(), json!([]));
    let stolen = world.call("sessions.history", json!({ "sender": { "id": "8" }, "session_id": id }));
    assert_eq!(stolen.unwrap_err().code, "not_found");
    let stranger = world.call("sessions.list", json!({ "sender": { "id": "99" } }));
    assert_eq!(stranger.unwrap_err().code, "refused");
}

#[test]
fn a_new_conversation_can_have_a_title_at_once() {
    let mut world = World::new();
    let titles = |world: &World| -> Vec<serde_json::Value> {
        let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
        sessions.as_array().unwrap().iter().map(|session| session["title"].clone()).collect()
    };
    let chat = world.chat("7");
    chat.says("hello");
    // `/new` ends a running turn without its answer.
    chat.hears(1);
    chat.says("/new  The  garden ");
    chat.says("plant this");
    assert_eq!(chat.hears(3), ["hello", "Started a new conversation: **The garden**.", "plant this"]);
    world.settled();
    let named = titles(&world);
    assert_eq!(named.iter().filter(|title| *title == "The garden").count(), 1, "{named:?}");

    chat.says("/new The garden");
    let refused = chat.hears(4).remove(3);
    assert!(refused.starts_with("Started a new conversation. The title was not set: another session"), "{refused}");
    world.stop();
    world.start();
    let chat = world.chat("7");
    chat.says("after a restart");
    assert_eq!(chat.hears(5).remove(4), "after a restart");
    world.settled();
    assert_eq!(titles(&world).len(), 3, "no session was begun that nobody needs");
}

#[test]
fn a_first_word_can_be_a_titled_conversation() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("/new Plans");
    chat.says("hello");
    assert_eq!(chat.hears(2), ["Started a new conversation: **Plans**.", "hello"]);
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    assert_eq!(sessions[0]["title"], "Plans");
    assert_eq!(sessions.as_array().unwrap().len(), 1);
}

#[test]
fn a_question_whose_turn_failed_stays_in_the_transcript() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("/fail");
    chat.hears(1);
    world.settled();
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    let session = sessions[0]["id"].clone();
    let history = world.call("sessions.history", json!({ "sender": { "id": "7" }, "session_id": session })).unwrap();
    let said: Vec<(&str, &str)> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["role"].as_str().unwrap(), row["content"].as_str().unwrap()))
        .collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], ("user", "/fail"));
    assert!(said[1].0 == "assistant" && said[1].1.starts_with("(no answer: the turn failed with "), "{said:?}");
}

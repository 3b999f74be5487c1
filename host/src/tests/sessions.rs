//! Operations of users on their conversations, and the chats in which these continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, CONTEXT_TOO_LONG, EventSink, Failure, Message, TurnOutcome, TurnRequest};
use hermes_protocol::{Chat, ChatType, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use crate::engine::operator::records::read_only;
use crate::engine::operator::{ControlReply, ControlRequest, LINE_BYTES_MAX};
use hermes_store::{Change, CommandTx};

/// A runtime that answers, returns its history on request, and writes the summaries of a test.
struct Scribe(AtomicU8);

const SUMS_UP: u8 = 0;
const FAILS: u8 = 1;
const HANGS: u8 = 2;

impl AgentRuntime for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn models(&self) -> Vec<String> {
        vec!["scribe".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let said = request.input.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n");
            let history: Vec<&str> = request.history.iter().map(|message| message.content.as_str()).collect();
            let text = match said.as_str() {
                "history?" => format!("{}{}", request.system, history.join(" / ")),
                "hang" => {
                    cancel.cancelled().await;
                    return TurnOutcome::Interrupted { text: String::new() };
                }
                said if said.starts_with("Write a summary") => match self.0.load(Ordering::Relaxed) {
                    FAILS => return TurnOutcome::Failed(failure()),
                    HANGS => {
                        cancel.cancelled().await;
                        return TurnOutcome::Interrupted { text: String::new() };
                    }
                    _ => format!("They said {} things.", history.len()),
                },
                "fail" => return TurnOutcome::Failed(failure()),
                said => format!("re {said}"),
            };
            if said == "brimming" {
                events.left_out(2);
            }
            // The window is too small for a summary of much text.
            let read: usize = history.iter().chain([&said.as_str()]).map(|text| text.len()).sum();
            if said.starts_with("Write a summary") && read > 2_000 {
                return TurnOutcome::Failed(Failure { kind: CONTEXT_TOO_LONG, ..failure() });
            }
            TurnOutcome::Finished {
                messages: vec![Message::assistant(text.clone())],
                text,
                usage: Usage::tokens(10, 5),
                finish_reason: if said == "much" { "length" } else { "stop" }.to_owned(),
                model: "scribe".to_owned(),
                state: None,
            }
        })
    }
}

fn failure() -> Failure {
    Failure {
        code: "runtime_failed",
        kind: "refused",
        sentence: "The endpoint is down.".to_owned(),
        detail: String::new(),
        retryable: true,
        partial: String::new(),
    }
}

fn world_of(scribe: &Arc<Scribe>, section: &str) -> World {
    let runtime: Arc<dyn AgentRuntime> = scribe.clone();
    let section = format!("access = {{ allowed_users = [\"7\", \"8\"], admins = [\"9\"] }}\n{section}");
    World::with(Setting { section, runtime: Some(runtime), ..Setting::default() })
}

fn world() -> World {
    world_of(&Arc::new(Scribe(AtomicU8::new(SUMS_UP))), "")
}

/// Messages during a turn wait, each for its own turn and without a notice.
const WAITS: &str = "session = { busy = \"queue\", merge_ms = 0, receipts = false }";

/// Returns the sessions of a person, the last used first.
fn sessions(world: &World, who: &str) -> Vec<Value> {
    world.call("sessions.list", json!({ "sender": { "id": who } })).unwrap().as_array().unwrap().clone()
}

fn titles(world: &World, who: &str) -> Vec<String> {
    sessions(world, who).iter().map(|row| row["title"].as_str().unwrap_or("-").to_owned()).collect()
}

/// Sends a direct message and returns its answer.
fn ask(world: &World, who: &str, text: &str) -> String {
    let chat = world.chat(who);
    let before = chat.heard().len();
    chat.says(text);
    chat.hears(before + 1).remove(before)
}

fn group() -> Chat {
    Chat::new(ChatType::Group, "g")
}

/// Sends a group message and returns its answer.
fn ask_in_group(world: &World, who: &str, text: &str) -> String {
    let heard = || {
        let sent = world.platform.sent();
        sent.into_iter().filter(|sent| sent.chat == group()).map(|sent| sent.text).collect::<Vec<_>>()
    };
    let before = heard().len();
    let mut event = world.chat(who).event(text);
    event.chat = group();
    event.addressed.mention = true;
    world.chat(who).gives(&event);
    world.until("the group is answered", || heard().get(before).cloned())
}

/// Returns the text between the first two backquotes, without the command in it.
fn named(words: &str) -> String {
    words.split('`').nth(1).unwrap().trim_start_matches("/resume ").to_owned()
}

#[test]
fn a_conversation_is_named_after_its_first_words_and_numbered_where_that_name_is_taken() {
    let world = world();
    ask(&world, "7", "plan the trip");
    world.until("it has a title", || (titles(&world, "7") == ["plan the trip"]).then_some(()));
    ask(&world, "7", "and something else");
    ask(&world, "7", "/new");
    ask(&world, "7", "Plan the trip");
    world.until("both have a title", || (titles(&world, "7") == ["Plan the trip #2", "plan the trip"]).then_some(()));
}

#[test]
fn title_names_a_conversation_also_before_anything_was_said_and_refuses_a_name_that_is_taken() {
    let world = world();
    assert!(ask(&world, "7", "/title").contains("no title yet"));
    assert!(ask(&world, "7", "/title Rome").contains("now called **Rome**"));
    assert!(ask(&world, "7", "/title").contains("is called **Rome**"));
    ask(&world, "7", "hello");
    assert_eq!(titles(&world, "7"), ["Rome"], "the first message does not rename it");
    ask(&world, "7", "/new");
    ask(&world, "7", "hello");
    let refused = ask(&world, "7", "/title rome");
    assert!(refused.starts_with("Not renamed: another session is already named \"rome\""), "{refused}");
    assert!(ask(&world, "8", "/title Rome").contains("now called **Rome**"), "others have names of their own");
    assert!(ask(&world, "7", &format!("/title {}", "x".repeat(101))).contains("longer than 100 characters"));
}

#[test]
fn retry_answers_the_last_message_again_and_replaces_the_former_answer() {
    let world = world();
    assert_eq!(ask(&world, "7", "/retry"), "There is no message to answer again.");
    ask(&world, "7", "one");
    ask(&world, "7", "two");
    assert_eq!(ask(&world, "7", "/retry"), "re two");
    assert_eq!(ask(&world, "7", "history?"), "one / re one / two / re two");
    world.settled();
    assert_eq!(sessions(&world, "7")[0]["messages"], 6);
}

#[test]
fn a_crash_between_retry_and_its_answer_loses_neither_question_nor_answer() {
    let mut world = world();
    ask(&world, "7", "one");
    world.settled();
    let inbox = world.chat("7").is_cut_off_saying("/retry");
    let store = &world.host().store;
    let session = sessions(&world, "7")[0]["id"].as_str().unwrap().into();
    let last = world.block_on(store.last_turns(&session, 1)).unwrap().remove(0);
    let changes = vec![Change::Undo { session, from: last.first }, Change::Hear { inbox, input: last.heard }];
    world.block_on(store.command(CommandTx { inbox: None, changes, reply: vec![], now_ms: 1 })).unwrap();
    world.crash();
    world.start();
    assert_eq!(world.chat("7").hears(2), ["re one", "re one"]);
    assert_eq!(ask(&world, "7", "history?"), "one / re one");
}

#[test]
fn undo_takes_back_what_was_said_last_and_redo_brings_it_back() {
    let world = world();
    assert_eq!(ask(&world, "7", "/undo"), "There is nothing to undo.");
    for text in ["one", "two", "three"] {
        ask(&world, "7", text);
    }
    let words = ask(&world, "7", "/undo 2");
    assert!(words.contains("your last 2 messages, from \"two\" on"), "{words}");
    assert_eq!(ask(&world, "7", "/undo redo"), "Your 2 messages and their answers are restored.");
    assert_eq!(ask(&world, "7", "history?"), "one / re one / two / re two / three / re three");
    ask(&world, "7", "/undo 3");
    assert_eq!(ask(&world, "7", "history?"), "one / re one");
    assert!(ask(&world, "7", "/undo redo").starts_with("Newer messages have been sent since"));
    assert!(ask(&world, "7", "/undo many").starts_with("Use `/undo`"));
}

#[test]
fn a_branch_knows_what_was_said_and_the_way_back_is_as_it_was() {
    let mut world = world();
    assert_eq!(ask(&world, "7", "/branch"), "This conversation has no messages yet.");
    ask(&world, "7", "one");
    world.until("it has a title", || (titles(&world, "7") == ["one"]).then_some(()));
    let back = named(&ask(&world, "7", "/branch"));
    ask(&world, "7", "two");
    world.settled();
    world.stop();
    world.start();
    assert_eq!(ask(&world, "7", "history?"), "one / re one / two / re two", "the chat stays in the branch");
    assert!(titles(&world, "7").contains(&"one #2".to_owned()), "{:?}", titles(&world, "7"));
    let words = ask(&world, "7", &format!("/resume {back}"));
    assert!(words.starts_with("Back in **one**: 2 messages"), "{words}");
    assert_eq!(ask(&world, "7", "history?"), "one / re one");
}

#[test]
fn what_is_said_right_behind_branch_is_heard_in_the_branch_in_order() {
    let world = world_of(&Arc::new(Scribe(AtomicU8::new(SUMS_UP))), WAITS);
    ask(&world, "7", "one");
    let chat = world.chat("7");
    let mut texts = vec!["/branch".to_owned()];
    texts.extend((0..20).map(|n| format!("after {n}")));
    let given: Vec<_> = texts.iter().map(|text| world.give(&chat.event(text))).collect();
    for given in given {
        world.block_on(given).unwrap();
    }
    let heard = chat.hears(22);
    let expected: Vec<String> = (0..20).map(|n| format!("re after {n}")).collect();
    assert_eq!(heard[2..], expected);
    world.settled();
    let mut messages: Vec<u64> = sessions(&world, "7").iter().map(|row| row["messages"].as_u64().unwrap()).collect();
    messages.sort_unstable();
    assert_eq!(messages, [2, 42], "all of them are in the branch");
}

#[test]
fn a_conversation_is_found_by_number_title_and_id_and_goes_on_in_another_chat_for_good() {
    let mut world = world();
    ask(&world, "7", "in private");
    world.until("it has a title", || (titles(&world, "7") == ["in private"]).then_some(()));
    ask_in_group(&world, "7", "in the group");
    world.until("both have a title", || {
        (titles(&world, "7").len() == 2 && !titles(&world, "7").contains(&"-".to_owned())).then_some(())
    });
    let listed = ask(&world, "7", "/sessions");
    assert!(listed.contains("1. **in the group**, 2 messages"), "{listed}");
    assert!(listed.contains("2. **in private**, 2 messages") && listed.contains("(here)"), "{listed}");
    let words = ask_in_group(&world, "7", "/resume in private");
    assert!(words.starts_with("Back in **in private**"), "{words}");
    assert_eq!(ask_in_group(&world, "7", "history?"), "in private / re in private");
    world.settled();
    world.stop();
    world.start();
    assert_eq!(ask(&world, "7", "two"), "re two", "the first chat is still in it, too");
    assert!(ask_in_group(&world, "7", "history?").ends_with("two / re two"));
    let id = sessions(&world, "7").iter().find(|row| row["title"] == "in the group").unwrap()["id"].clone();
    let words = ask_in_group(&world, "7", &format!("/resume {}", id.as_str().unwrap()));
    assert!(words.starts_with("Back in **in the group**"), "{words}");
    world.settled();
    assert!(ask_in_group(&world, "7", "/resume 1").starts_with("Back in"), "the last used is the first");
    assert!(ask_in_group(&world, "7", "/resume in private").contains("already"));
    assert!(ask_in_group(&world, "7", "/resume nowhere").starts_with("You have no conversation \"nowhere\""));
    let long = ask_in_group(&world, "7", &format!("/resume {}", "x".repeat(10_000)));
    assert!(long.starts_with("You have no conversation \"xxx") && long.len() < 200, "{}", long.len());
}

#[test]
fn a_conversation_that_another_chat_goes_on_in_is_not_deleted_from_one_of_them() {
    let world = world();
    ask(&world, "7", "shared");
    world.until("it has a title", || (titles(&world, "7") == ["shared"]).then_some(()));
    ask_in_group(&world, "7", "/resume shared");
    let id = sessions(&world, "7")[0]["id"].clone();
    let delete = || world.call("sessions.delete", json!({ "sender": { "id": "7" }, "session_id": id }));
    let refused = delete().unwrap_err();
    assert_eq!(refused.code, "in_use");
    assert!(
        refused.message.contains("also uses this conversation") && refused.message.contains("/new there"),
        "{refused:?}"
    );
    assert_eq!(ask(&world, "7", "history?"), "shared / re shared", "nothing has ended");
    ask_in_group(&world, "7", "/new");
    world.settled();
    delete().unwrap();
    ask(&world, "7", "fresh");
    assert_eq!(ask(&world, "7", "history?"), "fresh / re fresh");
}

#[test]
fn nobody_finds_the_conversation_of_another_person() {
    let world = world();
    ask(&world, "7", "a secret");
    world.until("it has a title", || (titles(&world, "7") == ["a secret"]).then_some(()));
    let id = sessions(&world, "7")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(ask(&world, "8", "/sessions"), "You have no conversations yet.");
    for name in ["a secret", "1", &id, &id[..12]] {
        let words = ask(&world, "8", &format!("/resume {name}"));
        assert!(words.starts_with("You have no conversation"), "{name}: {words}");
    }
}

#[test]
fn a_conversation_that_several_share_is_led_elsewhere_only_by_who_began_it() {
    let scribe = Arc::new(Scribe(AtomicU8::new(SUMS_UP)));
    let world = world_of(&scribe, "session = { group_sessions_per_user = false }");
    ask(&world, "8", "mine");
    world.until("it has a title", || (titles(&world, "8") == ["mine"]).then_some(()));
    ask_in_group(&world, "7", "hello all");
    assert!(ask_in_group(&world, "8", "/resume mine").starts_with("Several people share this conversation"));
    ask(&world, "7", "my own");
    world.until("it has a title", || titles(&world, "7").contains(&"my own".to_owned()).then_some(()));
    assert!(ask_in_group(&world, "7", "/resume my own").starts_with("Back in **my own**"));
}

#[test]
fn a_conversation_that_runs_elsewhere_is_refused_with_the_reason() {
    let world = world();
    ask(&world, "7", "busy one");
    world.until("it has a title", || (titles(&world, "7") == ["busy one"]).then_some(()));
    world.chat("7").says("hang");
    world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    let words = ask_in_group(&world, "7", "/resume busy one");
    assert!(words.contains("is answering a message elsewhere right now"), "{words}");
    ask(&world, "7", "/stop");
    world.settled();
    assert!(ask_in_group(&world, "7", "/resume busy one").starts_with("Back in **busy one**"));
}

#[test]
fn a_new_conversation_in_one_chat_leaves_the_old_one_to_the_other() {
    let world = world();
    ask(&world, "7", "shared");
    world.until("it has a title", || (titles(&world, "7") == ["shared"]).then_some(()));
    ask_in_group(&world, "7", "/resume shared");
    assert_eq!(ask_in_group(&world, "7", "/new"), "Started a new conversation.");
    ask_in_group(&world, "7", "fresh");
    assert_eq!(ask_in_group(&world, "7", "history?"), "fresh / re fresh", "the group begins anew");
    assert_eq!(ask(&world, "7", "history?"), "shared / re shared");
    let shared = sessions(&world, "7").into_iter().find(|row| row["title"] == "shared").unwrap();
    assert!(shared["ended_ms"].is_null(), "{shared}");
}

#[test]
fn a_compressed_conversation_goes_on_from_its_summary_under_its_old_name() {
    let mut world = world();
    ask(&world, "7", "one");
    assert!(ask(&world, "7", "/compress").starts_with("There is too little to compress: 2 messages"));
    ask(&world, "7", "two");
    world.until("it has a title", || (titles(&world, "7") == ["one"]).then_some(()));
    let words = ask(&world, "7", "/compress the numbers");
    assert!(words.starts_with("Compressed: 4 messages became a summary of 19 characters"), "{words}");
    world.settled();
    world.stop();
    world.start();
    let history = ask(&world, "7", "history?");
    assert!(history.ends_with("\nThey said 4 things.two / re two"), "{history}");
    assert!(ask(&world, "7", "/title").contains("**one**"));
    assert!(ask(&world, "7", &format!("/resume {}", named(&words))).contains("already"), "the old id leads here");
}

#[test]
fn what_is_said_while_a_conversation_is_compressed_waits_and_goes_on_in_the_new_one() {
    let scribe = Arc::new(Scribe(AtomicU8::new(HANGS)));
    let mut world = world_of(&scribe, WAITS);
    for text in ["one", "two"] {
        ask(&world, "7", text);
    }
    let chat = world.chat("7");
    chat.says("/compress");
    chat.says("three");
    chat.says("four");
    assert_eq!(ask(&world, "7", "/status").lines().last(), Some("- Now: working, 2 waiting"));
    assert!(ask(&world, "7", "/undo").starts_with("The agent is still working"));
    world.crash();
    // The order is still in the inbox, before the messages behind it.
    scribe.0.store(SUMS_UP, Ordering::Relaxed);
    world.start();
    let heard = world.chat("7").hears(7);
    assert!(heard[4].starts_with("Compressed: 4 messages"), "{heard:?}");
    assert_eq!(heard[5..], ["re three", "re four"]);
    assert!(ask(&world, "7", "history?").ends_with("two / re two / three / re three / four / re four"));
}

#[test]
fn a_summary_that_fails_or_is_stopped_leaves_the_conversation_as_it_was() {
    let scribe = Arc::new(Scribe(AtomicU8::new(FAILS)));
    let world = world_of(&scribe, WAITS);
    for text in ["one", "two"] {
        ask(&world, "7", text);
    }
    let words = ask(&world, "7", "/compress");
    assert_eq!(words, "Not compressed: The endpoint is down. The conversation is unchanged.");
    scribe.0.store(HANGS, Ordering::Relaxed);
    world.chat("7").says("/compress");
    world.chat("7").says("three");
    world.chat("7").says("/stop");
    let heard = world.chat("7").hears(6);
    for words in ["Not compressed: it was stopped. The conversation is unchanged.", "re three"] {
        assert!(heard.contains(&words.to_owned()), "{heard:?}");
    }
    assert_eq!(ask(&world, "7", "history?"), "one / re one / two / re two / three / re three");
    world.settled();
    assert_eq!(sessions(&world, "7").len(), 1);
}

#[test]
fn usage_counts_turns_and_tokens_of_this_conversation_and_of_all() {
    let world = world();
    for text in ["one", "two", "/new", "three"] {
        ask(&world, "7", text);
    }
    world.until("both have a title", || (titles(&world, "7") == ["three", "one"]).then_some(()));
    let words = ask(&world, "7", "/usage");
    assert!(words.contains("- This conversation: 1 turn, 15 tokens (10 in, 5 out)"), "{words}");
    assert!(words.contains("- All of yours (2 conversations): 3 turns, 45 tokens (30 in, 15 out)"), "{words}");
    assert!(words.contains("  - **one**: 2 turns, 30 tokens"), "{words}");
}

#[test]
fn turns_of_a_session_that_crashes_cut_off_are_answered_once_each_and_in_order() {
    let mut world = World::new();
    let chat = |world: &World, text: &str| _ = world.chat("7").says(text);
    chat(&world, "/slow 40 one two three four");
    for text in ["second", "third"] {
        chat(&world, text);
    }
    for _ in 0..3 {
        world.until("it runs", || {
            let running = world.host().counts.turns_running.load(Ordering::Relaxed);
            (running == 1).then_some(())
        });
        world.crash();
        world.start();
    }
    assert_eq!(world.chat("7").hears(3), ["one two three four", "second", "third"]);
    world.settled();
    assert_eq!(world.chat("7").heard().len(), 3);
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    assert_eq!(sessions[0]["messages"], 6);
}

#[test]
fn an_event_of_a_command_is_not_a_message_for_the_agent() {
    let world = world();
    ask(&world, "7", "one");
    for text in ["/title Rome", "/sessions", "/usage", "/undo", "/undo redo"] {
        ask(&world, "7", text);
    }
    assert_eq!(ask(&world, "7", "history?"), "one / re one");
}

#[test]
fn listing_conversations_is_a_private_matter() {
    let world = world();
    assert_eq!(ask_in_group(&world, "7", "/sessions"), "/sessions works only in a direct message.");
}

#[test]
fn an_adapter_forks_what_its_sender_owns_and_leads_a_chat_to_it() {
    let world = world();
    ask(&world, "7", "one");
    world.until("it has a title", || (titles(&world, "7") == ["one"]).then_some(()));
    let id = sessions(&world, "7")[0]["id"].clone();
    let fork = |who: &str| {
        let chat = json!({ "type": "group", "id": "g" });
        world.call("sessions.fork", json!({ "sender": { "id": who }, "session_id": id, "chat": chat }))
    };
    assert_eq!(fork("8").unwrap_err().code, "not_found");
    let branch = fork("7").unwrap();
    assert_eq!((branch["title"].as_str(), branch["messages"].as_u64()), (Some("one #2"), Some(2)));
    assert_eq!(ask_in_group(&world, "7", "history?"), "one / re one");
}

#[test]
fn a_message_of_any_length_is_exported_in_pieces_that_fit_in_a_line() {
    let world = world();
    let long = "é".repeat(100_000);
    world.chat("7").says(&long);
    world.settled();
    let (mut after, mut from_byte, mut pieces) = (0, 0, Vec::new());
    loop {
        let request = ControlRequest::SessionTranscript {
            session: sessions(&world, "7")[0]["id"].as_str().unwrap().to_owned(),
            after,
            from_byte,
        };
        let reply = world.block_on(read_only(&world.host().store, &request)).unwrap();
        assert!(serde_json::to_vec(&reply).unwrap().len() < LINE_BYTES_MAX);
        let ControlReply::Transcript { messages, .. } = reply else { panic!("{reply:?}") };
        let Some(last) = messages.last() else { break };
        (after, from_byte) = last.rest_from_byte.map_or((last.id, 0), |byte| (after, byte));
        pieces.extend(messages.into_iter().map(|piece| piece.message.content));
    }
    assert_eq!(pieces.len(), 4, "two messages in two pieces each");
    assert_eq!(pieces.concat(), format!("{long}re {long}"));
}

#[test]
fn a_conversation_that_outgrows_the_window_is_announced_and_compressed_by_itself() {
    let world = world();
    for text in ["one", "two", "three"] {
        assert_eq!(ask(&world, "7", text), format!("re {text}"));
    }
    world.until("it has a title", || (titles(&world, "7") == ["one"]).then_some(()));
    let chat = world.chat("7");
    chat.says("brimming");
    let heard = chat.hears(5);
    assert_eq!(heard[3], "re brimming");
    assert!(heard[4].contains("longer than the model can read") && heard[4].contains("/new"), "{heard:?}");
    world.until("the old conversation has ended", || {
        sessions(&world, "7").iter().any(|row| !row["ended_ms"].is_null()).then_some(())
    });
    let history = ask(&world, "7", "history?");
    assert!(history.ends_with("\nThey said 0 things.brimming / re brimming"), "{history}");
    assert!(ask(&world, "7", "/title").contains("**one**"));
}

#[test]
fn a_conversation_longer_than_the_window_is_compressed_in_pieces() {
    let world = world();
    for n in 0..3 {
        ask(&world, "7", &format!("{n}").repeat(1_200));
    }
    let words = ask(&world, "7", "/compress");
    assert!(words.starts_with("Compressed: 6 messages became a summary of 19 characters"), "{words}");
    assert!(ask(&world, "7", "history?").contains("They said 0 things."));
}

#[test]
fn failures_are_counted_and_an_answer_at_its_limit_is_marked() {
    let world = world();
    assert_eq!(ask(&world, "7", "fail"), "The endpoint is down.");
    ask(&world, "7", "fail");
    let health = world.host().health.snapshot();
    assert_eq!((health.consecutive, health.failures.get("refused")), (2, Some(&2)));
    assert!(health.failing_since_ms.is_some() && health.waiting_since_ms().is_none());
    let answer = ask(&world, "7", "much");
    assert!(answer.starts_with("re much\n\n(The answer ends here"), "{answer}");
    let health = world.host().health.snapshot();
    assert_eq!((health.consecutive, health.answered, health.failing_since_ms), (0, 1, None));
    assert!(!ask(&world, "7", "history?").contains("ends here"), "the mark is no part of the history");
}

//! The questions of a turn, and the answers.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_agent::questions::{Answer, ApprovalRequest, TurnQuestion};
use hermes_agent::{AgentRuntime, EventSink, TurnOutcome, TurnRequest};
use hermes_core::ids::DeliveryId;
use hermes_protocol::{Addressed, Chat, ChatType, ChoiceMade, Event, EventKind, Outgoing, Purpose};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, Talk, World};

pub(super) const BUTTONS: &str =
    r#"{ "buttons": true, "edit": true, "text": { "limit": 4096, "unit": "scalars", "dialect": "commonmark" } }"#;
pub(super) const WORDS: &str = r#"{ "text": { "limit": 4096, "unit": "scalars", "dialect": "commonmark" } }"#;

/// Returns a setting with two users and an admin.
pub(super) fn setting(capabilities: &str, session: &str) -> Setting {
    let access = "access = { allowed_users = [\"7\", \"8\"], admins = [\"1\"] }";
    Setting {
        section: format!("{access}\nsession = {{ busy = \"queue\", {session} }}"),
        capabilities: serde_json::from_str::<Value>(capabilities).unwrap(),
        ..Setting::default()
    }
}

pub(super) fn with_buttons() -> World {
    World::with(setting(BUTTONS, ""))
}

pub(super) fn with_words() -> World {
    World::with(setting(WORDS, ""))
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the questions so far, with the id of their message.
pub(super) fn questions(world: &World) -> Vec<(String, Outgoing)> {
    let sent = world.platform.sent().into_iter().enumerate();
    sent.filter(|(_, sent)| sent.choices.is_some()).map(|(at, sent)| (format!("p{}", at + 1), sent)).collect()
}

pub(super) fn asked(world: &World, count: usize) -> (String, Outgoing) {
    let question = world.until("it is asked", || questions(world).into_iter().nth(count - 1));
    world.until("it is delivered", || (world.block_on(world.host().store.counts()).unwrap().outbox == 0).then_some(()));
    question
}

/// Waits until every question has arrived, so that text answers it.
pub(super) fn there(world: &World) {
    world.until("what is asked is there", || {
        let asked = world.block_on(world.host().store.open_asks(DeliveryId(0))).unwrap();
        (!asked.is_empty() && asked.iter().all(|asked| !asked.state.is_live())).then_some(())
    });
}

/// Returns the press of a button, not yet sent.
pub(super) fn press(chat: &Talk<'_>, (message, asked): &(String, Outgoing), option: &str) -> Event {
    let mut event = chat.event("").of_kind(EventKind::Choice);
    event.chat = asked.chat.clone();
    event.message_id = Some(message.clone());
    event.choice = Some(ChoiceMade::new(asked.choices.as_ref().unwrap().ask.clone(), option));
    event
}

pub(super) fn hears(world: &World, chat: &Talk<'_>, words: &str) {
    world.until(words, || chat.heard().iter().any(|text| text.contains(words)).then_some(()));
}

pub(super) fn shows(world: &World, words: &str) {
    world.until(words, || world.platform.screen().iter().any(|text| text.contains(words)).then_some(()));
}

/// Sends a group message that is addressed to the agent.
fn in_group(chat: &Talk<'_>, text: &str) {
    let mut event = chat.event(text);
    event.chat = Chat::new(ChatType::Group, "g");
    chat.gives(&event.addressed(Addressed::new(true, false, false)));
}

fn group_heard(world: &World) -> Vec<String> {
    world.platform.sent().into_iter().filter(|sent| sent.chat.id == "g").map(|sent| sent.text).collect()
}

#[test]
fn a_yes_that_is_said_once_more_just_after_it_counted_is_no_message_to_the_agent() {
    let world = with_words();
    let chat = world.chat("7");
    chat.says("/ask ls");
    there(&world);
    chat.says("yes");
    hears(&world, &chat, "approved: once");
    chat.says("Yes.");
    hears(&world, &chat, "That has already been answered, and no other question is open.");
    let before = chat.heard().len();
    world.passes(Duration::from_secs(11));
    chat.says("yes");
    assert_eq!(chat.hears(before + 1).last().map(String::as_str), Some("yes"), "later it answers something else");
}

#[test]
fn a_pressed_button_answers_a_waiting_turn_and_the_buttons_go_away() {
    let world = with_buttons();
    let chat = world.chat("7");
    chat.says("/ask ls -l");
    let question = asked(&world, 1);
    assert_eq!(question.1.purpose, Purpose::Ask);
    assert!(question.1.text.contains("```\nls -l\n```"), "{}", question.1.text);
    let ids: Vec<_> =
        question.1.choices.iter().flat_map(|choices| &choices.options).map(|one| one.id.clone()).collect();
    assert_eq!(ids, ["once", "session", "deny"], "only admins approve for always");
    chat.gives(&press(&chat, &question, "once"));
    hears(&world, &chat, "approved: once");
    shows(&world, "Approved once.");
    world.settled();
    let edits = world.platform.edits();
    assert_eq!(edits.len(), 1);
    assert_eq!((edits[0].message.id.as_str(), &edits[0].outgoing.choices), ("p1", &None));
    chat.gives(&press(&chat, &question, "deny"));
    world.settled();
    assert_eq!(chat.heard().len(), 2, "a second press changes nothing");
    assert_eq!(world.platform.edits().len(), 1);
}

#[test]
fn without_buttons_the_options_are_numbered_and_words_answer() {
    let world = with_words();
    let chat = world.chat("7");
    let said = [
        ("1", "approved: once"),
        ("Yes!", "approved: once"),
        ("/approve", "approved: once"),
        ("session", "approved: session"),
        ("/approve session", "approved: session"),
        ("no", "denied"),
        ("/deny too risky", "denied: too risky"),
    ];
    for (number, (words, answer)) in said.into_iter().enumerate() {
        let before = chat.heard().len();
        chat.says(&format!("/ask kind{number} it"));
        let question = chat.hears(before + 1)[before].clone();
        assert!(question.contains("1. Approve once") && question.contains("3. Deny"), "{question}");
        there(&world);
        chat.says(words);
        let heard = chat.hears(before + 3);
        assert!(heard[before + 1..].contains(&answer.to_owned()), "{words}: {heard:?}");
        world.settled();
        assert_eq!(chat.heard().len(), before + 3, "the answer, and a word about it");
    }
}

#[test]
fn a_press_by_somebody_else_is_answered_truthfully_and_changes_nothing() {
    let world = with_buttons();
    let (ada, bob) = (world.chat("7"), world.chat("8"));
    in_group(&ada, "/ask ls");
    let question = asked(&world, 1);
    bob.gives(&press(&bob, &question, "once"));
    world.until("bob is told", || {
        group_heard(&world)
            .iter()
            .any(|text| text.starts_with("Only the person who was asked can answer this"))
            .then_some(())
    });
    assert!(world.platform.edits().is_empty(), "it stays open");
    assert_eq!(world.platform.sent().last().unwrap().ephemeral_to.as_deref(), Some("8"));
    bob.gives(&press(&bob, &question, "deny"));
    let mut elsewhere = press(&ada, &question, "once");
    elsewhere.chat = Chat::dm("7");
    ada.gives(&elsewhere);
    hears(&world, &ada, "Only the person who was asked can answer this");
    ada.gives(&press(&ada, &question, "once"));
    world.until("it goes on", || group_heard(&world).contains(&"approved: once".to_owned()).then_some(()));
    world.settled();
    let told = group_heard(&world).iter().filter(|text| text.contains("Only the person who was asked")).count();
    assert_eq!(told, 1, "whoever presses again is not told again");
    shows(&world, "Approved once. (7)");
}

#[test]
fn who_writes_in_the_name_of_a_chat_is_told_to_answer_with_words_since_buttons_are_pressed_by_people() {
    let world = with_buttons();
    let (nameless, bob) = (world.chat("7"), world.chat("8"));
    let says = |text: &str| {
        let mut event = nameless.event(text);
        event.chat = Chat::new(ChatType::Group, "7");
        nameless.gives(&event.addressed(Addressed::new(true, false, false)));
    };
    let is_heard = |words: &str| {
        world.until(words, || {
            world
                .platform
                .sent()
                .iter()
                .any(|sent| sent.chat.kind == ChatType::Group && sent.text.starts_with(words))
                .then_some(())
        })
    };
    says("/ask ls");
    let question = asked(&world, 1);
    assert!(question.1.text.contains("in the name of this chat"), "{}", question.1.text);
    assert!(question.1.text.contains("1. Approve once") && question.1.choices.is_some(), "{}", question.1.text);
    bob.gives(&press(&bob, &question, "once"));
    is_heard("Only the person who was asked can answer this");
    says("yes");
    is_heard("approved: once");
    world.settled();
}

#[test]
fn what_is_dangerous_asks_an_admin_where_a_user_wants_it() {
    let world = with_words();
    let (ada, admin) = (world.chat("7"), world.chat("1"));
    ada.says("/danger rm -rf /");
    hears(&world, &ada, "denied: only an admin can approve this");
    admin.says("hello");
    admin.hears(1);
    ada.says("/danger rm -rf /");
    hears(&world, &ada, "This needs the approval of an admin");
    hears(&world, &admin, "needs your approval");
    there(&world);
    ada.says("/approve");
    hears(&world, &ada, "Only an admin of this host can approve this");
    let asked = admin.heard().into_iter().find(|text| text.contains("needs your approval")).unwrap();
    assert!(!asked.contains("1. ") && asked.contains("Answer with `/approve`"), "{asked}");
    admin.says("yes");
    hears(&world, &admin, "yes");
    assert!(!ada.heard().iter().any(|text| text.contains("approved")), "a bare word is for the agent");
    admin.says("/approve");
    hears(&world, &ada, "An admin approved your request.");
    hears(&world, &ada, "approved: once");
    hears(&world, &admin, "Approved once.");
    let before = ada.heard().len();
    ada.says("/danger rm -rf /tmp");
    ada.hears(before + 1);
    there(&world);
    ada.says("/deny never mind");
    hears(&world, &ada, "denied: never mind");
    world.settled();
}

#[test]
fn an_admin_is_asked_where_they_ask() {
    let world = with_buttons();
    let admin = world.chat("1");
    admin.says("/danger rm -rf /");
    let question = asked(&world, 1);
    let at = |what: &str| question.1.text.find(what).unwrap_or_else(|| panic!("{what} in {}", question.1.text));
    assert!(at("Potentially dangerous") < at("rm -rf /\n"), "a long command hides nothing: {}", question.1.text);
    admin.gives(&press(&admin, &question, "once"));
    hears(&world, &admin, "approved: once");
    world.settled();
}

#[test]
fn an_approval_that_nobody_gives_in_time_is_refused_and_nothing_counts_as_silence_meanwhile() {
    let session = "inactivity_s = 60, inactivity_warning_s = 30, heartbeat_s = 20";
    let world = World::with(Setting { clock_stands: true, ..setting(BUTTONS, session) });
    let chat = world.chat("7");
    chat.says("/ask ls");
    let question = asked(&world, 1);
    world.passes(s(299));
    world.passes(s(1));
    hears(&world, &chat, "unanswered");
    shows(&world, "Denied, because nobody answered in time.");
    world.settled();
    assert_eq!(chat.heard().len(), 2, "{:?}", chat.heard());
    chat.gives(&press(&chat, &question, "once"));
    world.settled();
    assert_eq!(chat.heard().len(), 2, "{:?}", chat.heard());
    let ended = "Denied, because nobody answered in time.";
    assert!(world.platform.edits().iter().all(|edit| edit.outgoing.text.ends_with(ended)), "it ended once");
}

#[test]
fn stopping_or_beginning_anew_frees_a_turn_that_waits_for_a_person() {
    let world = with_buttons();
    let chat = world.chat("7");
    for (number, (order, said)) in
        [("/stop", "Stopped."), ("/new", "Started a new conversation.")].into_iter().enumerate()
    {
        chat.says("/ask ls");
        let question = asked(&world, number + 1);
        chat.says(order);
        hears(&world, &chat, said);
        let over = || world.platform.screen().iter().filter(|text| text.contains("no longer open")).count();
        world.until("the question says that it is over", || (over() > number).then_some(()));
        chat.gives(&press(&chat, &question, "once"));
        world.settled();
    }
    assert!(!chat.heard().iter().any(|text| text.starts_with("approved")));
}

/// A runtime that asks, and ignores everything else while it waits.
struct Stubborn;

impl AgentRuntime for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn models(&self) -> Vec<String> {
        vec!["stubborn".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let approval = ApprovalRequest { action: request.input[0].content.clone(), ..ApprovalRequest::default() };
            let first = events.ask(TurnQuestion::Approval(approval.clone())).await;
            let again = events.ask(TurnQuestion::Approval(approval)).await;
            assert_eq!((first, again), (Answer::Gone, Answer::Gone));
            TurnOutcome::Interrupted { text: String::new() }
        })
    }
}

#[test]
fn a_runtime_that_only_waits_for_its_answer_hears_that_nobody_gives_it_any_more() {
    let world = World::with(Setting { runtime: Some(std::sync::Arc::new(Stubborn)), ..setting(BUTTONS, "") });
    let chat = world.chat("7");
    chat.says("do it");
    asked(&world, 1);
    chat.says("/stop");
    hears(&world, &chat, "Stopped.");
    world.settled();
    assert_eq!(questions(&world).len(), 1);
}

#[test]
fn what_an_earlier_life_of_the_host_asked_is_no_longer_open_and_is_asked_again() {
    let mut world = with_buttons();
    world.chat("7").says("/ask ls");
    let old = asked(&world, 1);
    world.crash();
    world.start();
    let new = asked(&world, 2);
    shows(&world, "no longer open. The host has restarted");
    let chat = world.chat("7");
    chat.gives(&press(&chat, &old, "once"));
    chat.gives(&press(&chat, &new, "once"));
    hears(&world, &chat, "approved: once");
    world.settled();
    assert!(world.block_on(world.host().store.open_asks(DeliveryId(0))).unwrap().is_empty());
}

#[test]
fn what_is_approved_for_longer_is_not_asked_again_until_it_is_forgotten() {
    let mut world = with_words();
    let (ada, admin) = (world.chat("7"), world.chat("1"));
    ada.says("/ask ls -a");
    ada.hears(1);
    there(&world);
    ada.says("/approve always");
    hears(&world, &ada, "Only an admin of this host can approve permanently.");
    ada.says("/approve session");
    ada.hears(4);
    ada.says("/ask ls -b");
    assert_eq!(ada.hears(5)[4], "approved: session");
    admin.says("/ask make it");
    admin.hears(1);
    there(&world);
    admin.says("/approve always");
    admin.hears(3);
    ada.says("/ask make that");
    assert_eq!(ada.hears(6)[5], "approved: always");
    world.settled();
    world.crash();
    world.start();
    let ada = world.chat("7");
    ada.says("/ask make more");
    assert_eq!(ada.hears(7)[6], "approved: always");
    ada.says("/approve forget");
    assert!(ada.hears(8)[7].contains("need approval again"));
    ada.says("/ask ls -c");
    assert!(ada.hears(9)[8].contains("May I do this"));
    ada.says("/stop");
    world.settled();
}

#[test]
fn yolo_is_an_admins_and_said_in_status() {
    let world = with_words();
    let (ada, admin) = (world.chat("7"), world.chat("1"));
    ada.says("/yolo");
    assert_eq!(ada.hears(1), ["/yolo is only for admins of this host."]);
    admin.says("/yolo");
    assert!(admin.hears(1)[0].contains("without asking"));
    admin.says("/danger rm -rf /");
    assert_eq!(admin.hears(2)[1], "approved: session");
    admin.says("/status");
    assert!(admin.hears(3)[2].contains("- Yolo: on"));
    admin.says("/yolo");
    assert!(admin.hears(4)[3].contains("asks in this conversation"));
    admin.says("/danger rm -rf /");
    assert!(admin.hears(5)[4].contains("May I do this"));
    there(&world);
    admin.says("no");
    world.settled();
    assert!(admin.heard().contains(&"denied".to_owned()));
}

#[test]
fn an_adapter_answers_for_a_sender_whom_it_vouches_for() {
    let world = with_buttons();
    let chat = world.chat("7");
    chat.says("/ask ls");
    let (_, question) = asked(&world, 1);
    let ask = question.choices.unwrap().ask;
    let answer = |ask: &str, who: &str, option: &str| {
        let called = world.call("choices.answer", json!({ "ask": ask, "option": option, "sender": { "id": who } }));
        called.map_err(|error| error.code)
    };
    assert_eq!(answer(&ask, "8", "once"), Err("refused".to_owned()));
    assert_eq!(answer(&ask, "99", "once"), Err("refused".to_owned()));
    assert_eq!(answer(&ask, "7", "perhaps"), Err("invalid".to_owned()));
    assert_eq!(answer("0000", "7", "once"), Err("not_found".to_owned()));
    assert_eq!(answer(&ask, "7", "once"), Ok(json!({})));
    assert_eq!(answer(&ask, "7", "deny"), Ok(json!({})), "what was answered stays answered");
    hears(&world, &chat, "approved: once");
    shows(&world, "Approved once.");
    world.settled();
}

#[test]
fn a_choice_is_made_by_number_by_name_or_where_it_is_free_in_other_words() {
    let world = with_words();
    let chat = world.chat("7");
    for (asked, words, answer) in [
        ("/choose What? | Tea | Coffee", "2", "chosen: Coffee"),
        ("/choose What? | Tea | Coffee", "tea", "chosen: Tea"),
        ("/choose What? | Tea | Coffee | +", "rather milk", "said: rather milk"),
    ] {
        let before = chat.heard().len();
        chat.says(asked);
        assert!(chat.hears(before + 1)[before].contains("1. Tea\n2. Coffee"));
        there(&world);
        chat.says(words);
        assert!(chat.hears(before + 3)[before + 1..].contains(&answer.to_owned()), "{words}: {:?}", chat.heard());
        world.settled();
    }
    chat.says("/choose What? | Tea | Coffee");
    let before = chat.heard().len();
    chat.hears(before + 1);
    chat.says("/approve");
    hears(&world, &chat, "No approvals are pending here.");
    there(&world);
    chat.says("1");
    hears(&world, &chat, "chosen: Tea");
    world.settled();
}

#[test]
fn where_nobody_can_be_asked_an_approval_is_refused_at_once() {
    let world = World::with(setting(r#"{ "stream": "native", "supports_async_delivery": false }"#, ""));
    let chat = world.chat("7");
    chat.says("/ask ls");
    assert_eq!(chat.hears(1), ["denied: this interface cannot ask the user"]);
    world.settled();
}

#[test]
fn who_follows_a_turn_as_it_runs_sees_that_it_waits_for_an_approval() {
    let capabilities = r#"{ "stream": "native", "buttons": true, "edit": true }"#;
    let world = World::with(setting(capabilities, ""));
    let chat = world.chat("7");
    chat.says("/ask ls");
    let question = asked(&world, 1);
    assert_eq!(question.1.in_reply_to, None, "it is not the answer of the turn");
    let waits = |event: &hermes_protocol::TurnEvent| matches!(event, hermes_protocol::TurnEvent::Progress { stage, text, .. } if stage == "approval" && text == "ls");
    world.until("it is seen", || world.platform.stream().iter().any(waits).then_some(()));
    chat.gives(&press(&chat, &question, "deny"));
    hears(&world, &chat, "denied");
    world.settled();
}

#[test]
fn beginning_anew_asks_first_where_the_operator_wants_that() {
    let world = World::with(setting(BUTTONS, "confirm_new = true"));
    let chat = world.chat("7");
    chat.says("/new");
    chat.hears(1);
    assert!(questions(&world).is_empty(), "nothing was said that could be left");
    chat.says("hello");
    chat.hears(2);
    chat.says("/new");
    let first = asked(&world, 1);
    chat.gives(&press(&chat, &first, "deny"));
    hears(&world, &chat, "this conversation continues");
    chat.says("/new");
    asked(&world, 2);
    chat.says("yes");
    let begun = |text: &String| text.starts_with("Started a new conversation");
    world.until("it begins", || (chat.heard().iter().filter(|text| begun(text)).count() == 2).then_some(()));
    world.settled();
    let told = |text: &&String| text.ends_with("\n\nYes.") || text.ends_with("\n\nNo.");
    // The answer is added to the question last.
    world.until("both questions show their answer", || {
        (world.platform.screen().iter().filter(told).count() == 2).then_some(())
    });
}

/// Returns the press of a button that names a message without that question.
pub(super) fn forged(chat: &Talk<'_>, ask: &str, message: &str) -> Event {
    let mut event = chat.event("").of_kind(EventKind::Choice);
    event.message_id = Some(message.to_owned());
    event.choice = Some(ChoiceMade::new(ask, "once"));
    event
}

#[test]
fn a_press_that_names_another_message_changes_none_and_is_answered_once() {
    let world = with_buttons();
    let chat = world.chat("7");
    chat.says("hello");
    chat.hears(1);
    for _ in 0..2 {
        chat.gives(&forged(&chat, "0000000000000000", "p1"));
        hears(&world, &chat, "This question is no longer open.");
        world.settled();
    }
    assert_eq!(chat.heard().len(), 2, "{:?}", chat.heard());
    chat.says("/ask ls");
    let question = asked(&world, 1);
    chat.says("/stop");
    hears(&world, &chat, "Stopped.");
    world.settled();
    let ask = question.1.choices.as_ref().unwrap().ask.clone();
    chat.gives(&forged(&chat, &ask, "p1"));
    world.settled();
    let edited: Vec<_> = world.platform.edits().iter().map(|edit| edit.message.id.clone()).collect();
    assert_eq!(edited, [&*question.0], "what the agent said stays as it is");
    chat.gives(&press(&chat, &question, "once"));
    world.settled();
    assert_eq!(world.platform.edits().last().unwrap().message.id, question.0, "its own message is the question's");
    assert_eq!(world.platform.edits().len(), 2);
}

#[test]
fn a_conversation_that_a_button_ended_is_over_before_the_next_one_begins() {
    let mut world = World::with(Setting {
        runtime: Some(std::sync::Arc::new(super::world::Deaf)),
        ..setting(BUTTONS, "confirm_new = true")
    });
    let chat = world.chat("7");
    chat.says("hello");
    chat.hears(1);
    chat.says("hang on");
    world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    chat.says("/new");
    let question = asked(&world, 1);
    chat.gives(&press(&chat, &question, "once"));
    chat.says("after");
    world.until("it is answered", || chat.heard().iter().any(|text| text == "after").then_some(()));
    world.settled();
    world.crash();
    world.start();
    let chat = world.chat("7");
    let before = chat.heard().len();
    chat.says("/usage");
    let usage = chat.hears(before + 1)[before].clone();
    assert!(usage.contains("This conversation: 1 turn,"), "the conversation is still bound to its chat: {usage}");
}

/// A runtime that asks for approval, and ignores everything else after a refusal; hangs on request.
struct Asking;

impl AgentRuntime for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn models(&self) -> Vec<String> {
        vec!["asking".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            if request.input[0].content.contains("hang") {
                cancel.cancelled().await;
                return TurnOutcome::Interrupted { text: String::new() };
            }
            let action = request.input[0].content.clone();
            let approval = ApprovalRequest { kind: "shell".to_owned(), action, ..ApprovalRequest::default() };
            events.ask(TurnQuestion::Approval(approval)).await;
            std::future::pending().await
        })
    }
}

fn asking(busy: &str) -> World {
    let mut setting = Setting { runtime: Some(std::sync::Arc::new(Asking)), ..setting(BUTTONS, "") };
    let all = format!("\"{busy}\", group_sessions_per_user = false");
    setting.section = setting.section.replace("\"queue\"", &all);
    World::with(setting)
}

#[test]
fn what_is_approved_for_always_is_kept_in_the_order_in_which_people_said_it() {
    let mut world = asking("queue");
    let admin = world.chat("1");
    admin.says("do it");
    asked(&world, 1);
    // The lane waits for its deaf turn, while the other chat's lane is idle.
    admin.says("/stop");
    admin.says("/approve always");
    let elsewhere = world.talk(Chat::new(ChatType::Group, "g"), "1");
    let forget = elsewhere.event("/approve forget").addressed(Addressed::new(true, false, false));
    elsewhere.gives(&forget);
    hears(&world, &admin, "Stopped.");
    world.settled();
    assert!(world.host().approved().is_empty());
    world.crash();
    world.start();
    assert!(world.host().approved().is_empty(), "{:?}", world.host().approved());
}

#[test]
fn a_turn_that_answers_several_people_asks_for_the_one_who_may_least() {
    let world = asking("interrupt");
    let (ada, bob, admin) = (world.chat("7"), world.chat("8"), world.chat("1"));
    in_group(&ada, "hang on");
    world.until("it runs", || (world.block_on(world.host().store.counts()).unwrap().turns == 1).then_some(()));
    in_group(&bob, "me too");
    world.until("it waits", || group_heard(&world).iter().any(|text| text.starts_with("Queued")).then_some(()));
    in_group(&admin, "as admin");
    let (_, question) = asked(&world, 1);
    assert!(question.text.contains("May I do this for 8?"), "{}", question.text);
    let ids: Vec<_> = question.choices.iter().flat_map(|choices| &choices.options).map(|one| one.id.clone()).collect();
    assert_eq!(ids, ["once", "session", "deny"], "the rights of who spoke last are not lent to the others");
    in_group(&admin, "/stop");
    world.settled();
}

#[test]
fn a_free_question_leaves_commands_alone_also_with_the_prefix_of_an_adapter() {
    let mut capabilities: Value = serde_json::from_str(WORDS).unwrap();
    capabilities["command_prefix"] = json!("!");
    let world = World::with(setting(&capabilities.to_string(), ""));
    let chat = world.chat("7");
    chat.says("/choose What? | Tea | +");
    chat.hears(1);
    chat.says("!stop");
    hears(&world, &chat, "Stopped.");
    world.settled();
    assert!(!chat.heard().iter().any(|text| text.contains("said:")), "{:?}", chat.heard());
}

#[test]
fn what_is_not_shown_of_an_action_is_told_outside_of_its_fence() {
    let world = with_buttons();
    let chat = world.chat("7");
    chat.says(&format!("/ask {}", "x".repeat(1_600)));
    let (_, question) = asked(&world, 1);
    let told = question.text.rsplit("```").next().unwrap();
    assert!(told.contains("100 characters in the middle are not shown."), "{}", question.text);
    chat.says("/stop");
    world.settled();
}

#[test]
fn a_command_that_asks_again_replaces_its_earlier_question() {
    let world = World::with(setting(BUTTONS, "confirm_new = true"));
    let chat = world.chat("7");
    chat.says("hello");
    chat.hears(1);
    chat.says("/new");
    let first = asked(&world, 1);
    chat.says("/new");
    let second = asked(&world, 2);
    shows(&world, "This question is no longer open.");
    chat.gives(&press(&chat, &first, "once"));
    world.settled();
    assert!(!chat.heard().iter().any(|text| text.starts_with("Started a new conversation.")));
    chat.gives(&press(&chat, &second, "once"));
    hears(&world, &chat, "Started a new conversation.");
    world.settled();
}

#[test]
fn free_words_are_repeated_in_part_only_where_the_question_stood() {
    let world = with_buttons();
    let chat = world.chat("7");
    chat.says("/choose What? | Tea | +");
    asked(&world, 1);
    chat.says(&"x".repeat(2_000));
    shows(&world, "Answered: xxx");
    world.settled();
    let screen = world.platform.screen();
    let told = screen.iter().find(|text| text.contains("Answered: ")).unwrap();
    assert!(told.ends_with('…') && told.chars().count() < 400, "{told}");
}

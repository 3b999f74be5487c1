//! Handoffs: the destination, the senders who may write meanwhile, and the state after a failure.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, EventSink, Failure, Message, TurnOutcome, TurnRequest};
use hermes_core::handoff::{HandoffState, INTERRUPTED_TWICE, NOT_TAKEN_UP, TOOK_TOO_LONG, UNCONFIRMED};
use hermes_core::ids::SessionId;
use hermes_core::limits::HANDOFF_TIMEOUT_S;
use hermes_protocol::{Chat, ChatType, RefusalKind, SendOutcome, method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use crate::engine::handoff;
use crate::engine::handoff::Refused;
use crate::engine::operator::{ControlReply, ErrorKind};
use hermes_store::{
    Admit, Change, CommandTx, HandoffAsked, HandoffBind, HandoffRoutes, HandoffRow, NewInbox, NewMessage, NewSession,
    RouteRow, WhichHandoff,
};

/// A runtime that reports the length of the history. A conversation with the title "hang" hangs when it is opened, and
/// so does every summary.
struct Mover;

impl AgentRuntime for Mover {
    fn name(&self) -> &'static str {
        "mover"
    }

    fn models(&self) -> Vec<String> {
        vec!["mover".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let said = request.input[0].content.clone();
            if said.contains("\"hang\"") {
                events.chunk("I am".to_owned()).await;
                cancel.cancelled().await;
                return TurnOutcome::Interrupted { text: "I am".to_owned() };
            }
            if said.contains("\"fail") {
                if said.contains("late\"") {
                    events.chunk("I was about".to_owned()).await;
                }
                return TurnOutcome::Failed(Failure {
                    code: "model_unreachable",
                    kind: "unreachable",
                    sentence: "The model cannot be reached.".to_owned(),
                    detail: "connection refused".to_owned(),
                    retryable: true,
                    partial: String::new(),
                });
            }
            if said.starts_with("Write a summary") {
                cancel.cancelled().await;
                return TurnOutcome::Interrupted { text: String::new() };
            }
            let said = if said.starts_with("[System: the conversation") { "I am here" } else { &said };
            let text = format!("{said} (after {})", request.history.len());
            TurnOutcome::Finished {
                messages: vec![Message::assistant(text.clone())],
                text,
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: "mover".to_owned(),
                state: None,
            }
        })
    }
}

pub(super) fn setting(threads: bool) -> Setting {
    let text = json!({ "limit": 4096, "unit": "scalars", "dialect": "commonmark" });
    Setting {
        capabilities: json!({ "text": text, "threads": threads, "create_handoff_thread": threads }),
        runtime: Some(Arc::new(Mover)),
        ..Setting::default()
    }
}

/// Creates a world in which the direct chat of 7 is the home channel and 7 has sent a message there.
pub(super) fn world(setting: Setting) -> World {
    let world = World::with(setting);
    world.chat("7").says("/sethome");
    world.chat("7").hears(1);
    world.settled();
    world
}

/// Creates a conversation of the operator with one message and without a chat.
pub(super) fn begun(world: &World, title: &str) -> SessionId {
    let id = world.host().new_session_id();
    let session = NewSession {
        id: id.clone(),
        profile: "main".to_owned(),
        source: "terminal".to_owned(),
        owner: Some("operator".to_owned()),
        settings: Default::default(),
        parent: None,
        title: Some(title.to_owned()),
        started_ms: world.host().now_ms(),
    };
    let said = NewMessage::new(Message::user("of boats"), 1);
    let changes = vec![Change::NewSession(session), Change::Mirror { session: id.clone(), said }];
    let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: world.host().now_ms() };
    world.block_on(world.host().store.command(order)).unwrap();
    id
}

pub(super) fn asks(world: &World, session: &SessionId) -> Result<handoff::Asked, Refused> {
    world.block_on(handoff::request(world.host(), session.as_str(), "fake"))
}

/// Waits for the end of the handoff.
pub(super) fn ends(world: &World, session: &SessionId) -> HandoffRow {
    world.block_on(handoff::until_over(world.host(), &asked(world, session), 60_000)).unwrap()
}

/// Returns the last requested handoff of a session.
fn asked(world: &World, session: &SessionId) -> handoff::Asked {
    handoff::Asked { session: session.clone(), asked_ms: stands(world, session).asked_ms }
}

pub(super) fn moves(world: &World, session: &SessionId) -> HandoffRow {
    asks(world, session).unwrap();
    ends(world, session)
}

pub(super) fn stands(world: &World, session: &SessionId) -> HandoffRow {
    world.block_on(world.host().store.handoff(session)).unwrap().unwrap()
}

fn is_running(world: &World, session: &SessionId) {
    world.until("the turn that opens it runs", || {
        let work = world.host().working.of(Some("operator"));
        work.iter().any(|work| work.session == *session).then_some(())
    });
}

fn failed(why: &str) -> HandoffState {
    HandoffState::Failed { why: why.to_owned() }
}

pub(super) fn transcript(world: &World, session: &SessionId) -> Vec<String> {
    let rows = world.block_on(world.host().store.history(session, 100)).unwrap();
    rows.into_iter().map(|row| row.message.content).collect()
}

fn topic() -> Chat {
    Chat::new(ChatType::Group, "-100").in_thread("17")
}

#[test]
fn a_conversation_goes_on_in_the_home_channel_with_everything_that_was_said() {
    let world = world(setting(false));
    world.chat("7").says("before");
    world.chat("7").hears(2);
    world.settled();
    let former = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap()[0]["id"].clone();
    let session = begun(&world, "boats");
    let row = moves(&world, &session);
    assert_eq!(row.state, HandoffState::Completed);
    assert_eq!(row.chat, Some(Chat::dm("7")));
    assert_eq!(world.chat("7").heard()[2], "I am here (after 1)");
    world.chat("7").says("and now?");
    assert_eq!(world.chat("7").hears(4)[3], "and now? (after 3)", "the same conversation goes on");
    world.settled();
    let said = transcript(&world, &session);
    assert_eq!(said[0], "of boats");
    assert!(said[1].contains("\"boats\" was moved to this chat, fake:7"), "{said:?}");
    assert_eq!(said[3..], ["and now?", "and now? (after 3)"]);
    let former = SessionId(former.as_str().unwrap().to_owned());
    let former = world.block_on(world.host().store.session(&former)).unwrap().unwrap();
    assert_eq!(former.end_reason.as_deref(), Some("session_switch"));
    let info = handoff::info(&row);
    assert_eq!(info.resume_here, format!("hermes-host chat --resume {session}"));
    assert_eq!(info.resume_in_chat, "/resume boats");
}

#[test]
fn two_people_in_its_thread_share_the_conversation_whatever_the_key_policy_says() {
    let setting = Setting {
        section: "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }\nsession = { thread_sessions_per_user = true, \
                  require_mention = false }"
            .to_owned(),
        ..setting(true)
    };
    let world = world(setting);
    world.platform.answers_to(method::CREATE_HANDOFF_THREAD, json!(topic()));
    let session = begun(&world, "boats");
    let row = moves(&world, &session);
    assert_eq!((row.state, row.chat), (HandoffState::Completed, Some(topic())));
    let asked = world.platform.asked(method::CREATE_HANDOFF_THREAD);
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0]["chat"]["id"], &asked[0]["name"]), (&json!("7"), &json!("boats")));
    assert!(asked[0]["key"].as_str().unwrap().starts_with(&format!("handoff-{session}-")));
    world.talk(topic(), "7").says("one");
    world.talk(topic(), "7").hears(2);
    world.talk(topic(), "8").says("two");
    let heard = world.talk(topic(), "8").hears(3);
    assert_eq!(heard, ["I am here (after 1)", "[7] one (after 3)", "[8] two (after 5)"]);
}

#[test]
fn without_threads_everybody_in_the_home_group_shares_it_until_new() {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }\nsession = { require_mention = false }".to_owned();
    let world = World::with(Setting { section, ..setting(false) });
    let group = Chat::new(ChatType::Group, "g");
    let (ada, bob) = (world.talk(group.clone(), "7"), world.talk(group, "8"));
    ada.says("/sethome");
    ada.hears(1);
    assert_eq!(moves(&world, &begun(&world, "boats")).state, HandoffState::Completed);
    ada.says("one");
    ada.hears(3);
    bob.says("two");
    assert_eq!(bob.hears(4)[2..], ["[7] one (after 3)", "[8] two (after 5)"]);
    bob.says("/new");
    bob.hears(5);
    ada.says("three");
    ada.hears(6);
    bob.says("four");
    let heard = bob.hears(7);
    assert_eq!(heard[5..], ["three (after 0)", "four (after 0)"], "each has a conversation of their own again");
}

#[test]
fn a_thread_that_cannot_be_made_leaves_the_home_channel() {
    for answer in [Value::Null, json!({ "type": "group" }), json!({ "type": "group", "id": "" })] {
        let world = world(setting(true));
        world.platform.answers_to(method::CREATE_HANDOFF_THREAD, answer.clone());
        let row = moves(&world, &begun(&world, "boats"));
        assert_eq!((row.state, row.chat), (HandoffState::Completed, Some(Chat::dm("7"))), "{answer}");
    }
}

#[test]
fn a_thread_of_a_handoff_that_was_given_up_comes_too_late_for_the_next_one() {
    let world = world(setting(true));
    let session = begun(&world, "boats");
    world.platform.holds_next(method::CREATE_HANDOFF_THREAD);
    asks(&world, &session).unwrap();
    world.until("the first thread is asked for", || {
        (world.platform.asked(method::CREATE_HANDOFF_THREAD).len() == 1).then_some(())
    });
    world.block_on(handoff::cancel(world.host(), session.as_str())).unwrap();
    world.platform.holds_next(method::CREATE_HANDOFF_THREAD);
    asks(&world, &session).unwrap();
    world.until("the second thread is asked for", || {
        (world.platform.asked(method::CREATE_HANDOFF_THREAD).len() == 2).then_some(())
    });
    let late = Chat::new(ChatType::Group, "-100").in_thread("late");
    world.platform.gives_held(&json!(late));
    world.platform.gives_held(&json!(topic()));
    let row = ends(&world, &session);
    assert_eq!((row.state, row.chat), (HandoffState::Completed, Some(topic())));
    world.settled();
    assert!(world.talk(late, "7").heard().is_empty(), "nothing is said in the thread that came late");
}

#[test]
fn a_code_works_no_more_once_a_chat_has_its_conversation() {
    let world = world(setting(false));
    let session = begun(&world, "boats");
    let code = offered(&world, &session);
    assert_eq!(moves(&world, &session).state, HandoffState::Completed);
    world.chat("7").says("/new");
    world.chat("7").hears(3);
    world.chat("7").says(&format!("/claim {code}"));
    let heard = world.chat("7").hears(4).remove(3);
    assert!(heard.contains("No conversation is offered with this code"), "{heard}");
}

#[test]
fn what_cannot_work_is_refused_at_once_with_its_sentence() {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\"] }".to_owned();
    let world = World::with(Setting { section, ..setting(false) });
    let session = begun(&world, "boats");
    let ask = |session: &str, instance: &str| {
        let refused = world.block_on(handoff::request(world.host(), session, instance)).unwrap_err();
        (refused.kind, refused.words)
    };
    let says = |(kind, words): (ErrorKind, String), expected: ErrorKind, part: &str| {
        assert_eq!(kind, expected, "{words}");
        assert!(words.contains(part), "{words}");
    };
    says(ask("nothing", "fake"), ErrorKind::NotFound, "no session is named \"nothing\"");
    says(ask("boats", "fqke"), ErrorKind::NotFound, "did you mean \"fake\"?");
    says(ask("boats", "terminal"), ErrorKind::Invalid, "hermes-host chat --resume");
    says(ask("boats", "fake"), ErrorKind::Refused, "fake has no home channel; send /sethome in the chat");
    world.set_online(false);
    says(ask("boats", "fake"), ErrorKind::Refused, "cannot accept a handoff");
    world.set_online(true);
    world.chat("7").says("/sethome");
    world.chat("7").hears(1);
    world.chat("7").says("mine");
    world.chat("7").hears(2);
    world.settled();
    let theirs = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap()[0]["id"].clone();
    says(ask(theirs.as_str().unwrap(), "fake"), ErrorKind::Refused, "continues in fake:7; `/new` there releases it");
    let host = world.host();
    let admit =
        Admit { session, new_session: None, route: None, inbox: Vec::new(), epoch: host.epoch, now_ms: host.now_ms() };
    world.block_on(host.store.admit(admit)).unwrap();
    says(ask("boats", "fake"), ErrorKind::Refused, "is answering a message right now");
    assert!(!world.host().handoffs.has(&begun(&world, "others")));
}

#[test]
fn what_somebody_else_began_is_neither_handed_over_nor_offered() {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\"] }".to_owned();
    let world = world(Setting { section, ..setting(false) });
    world.chat("8").says("mine");
    world.chat("8").hears(1);
    world.chat("8").says("/title secrets");
    world.chat("8").hears(2);
    world.chat("8").says("/new");
    world.chat("8").hears(3);
    world.settled();
    let handed = world.block_on(handoff::request(world.host(), "secrets", "fake")).unwrap_err();
    let offered = world.block_on(handoff::offer(world.host(), "secrets")).unwrap_err();
    for refused in [handed, offered] {
        assert_eq!(refused.kind, ErrorKind::Refused);
        assert!(
            refused.words.contains("\"secrets\" belongs to fake:8 and can only be continued there"),
            "{}",
            refused.words
        );
    }
}

#[test]
fn an_instance_that_only_answers_is_no_destination() {
    let mut setting = setting(false);
    setting.capabilities["supports_async_delivery"] = json!(false);
    let world = World::with(setting);
    let refused = asks(&world, &begun(&world, "boats")).unwrap_err();
    assert!(refused.words.contains("can't send messages on its own"), "{}", refused.words);
}

#[test]
fn while_it_is_on_its_way_nothing_else_is_added_to_it_and_it_can_be_stopped() {
    let world = world(setting(false));
    let session = begun(&world, "hang");
    asks(&world, &session).unwrap();
    is_running(&world, &session);
    let again = asks(&world, &session).unwrap_err();
    assert!(again.words.contains("to fake is already in progress"), "{}", again.words);
    for (words, heard) in [("and now?", 2), ("/undo", 3), ("/new", 4), ("/branch", 5)] {
        world.chat("7").says(words);
        let told = world.chat("7").hears(heard).remove(heard - 1);
        assert!(told.contains("A handoff of this conversation to fake is in progress"), "{words}: {told}");
    }
    let row = world.block_on(handoff::until_over(world.host(), &asked(&world, &session), 0)).unwrap();
    assert_eq!(row.state, HandoffState::Running { epoch: world.host().epoch, attempt: 1 });
    assert_eq!(
        handoff::info(&row).message,
        "the handoff to fake:7 is still in progress",
        "whoever waits does not end it"
    );
    let deleted = world.block_on(world.host().store.session_delete(&session));
    assert!(deleted.is_err(), "nor is it deleted");
    world.chat("7").says("/stop");
    world.chat("7").hears(7);
    assert_eq!(ends(&world, &session).state, HandoffState::Completed, "it is there, whatever it was to say");
    world.settled();
    assert_eq!(transcript(&world, &session)[2], "I am\n\n(interrupted)", "and nothing of what was turned away");
    world.chat("7").says("and now?");
    assert_eq!(world.chat("7").hears(8)[7], "and now? (after 3)");
}

#[test]
fn one_that_takes_too_long_is_given_up_and_its_chat_is_as_before() {
    let section = "access = { allowed_users = [\"7\"] }\nsession = { heartbeat_s = 0 }".to_owned();
    let world = world(Setting { section, clock_stands: true, ..setting(false) });
    world.chat("7").says("before");
    world.chat("7").hears(2);
    world.settled();
    let session = begun(&world, "hang");
    asks(&world, &session).unwrap();
    is_running(&world, &session);
    world.passes(Duration::from_secs(HANDOFF_TIMEOUT_S) - Duration::from_millis(1));
    world.block_on(tokio::task::yield_now());
    assert!(stands(&world, &session).state.is_live());
    world.passes(Duration::from_millis(1));
    let row = ends(&world, &session);
    assert_eq!(row.state, failed(TOOK_TOO_LONG));
    world.settled();
    world.chat("7").says("after");
    let heard = world.chat("7").hears(3);
    assert_eq!(heard[2..], ["after (after 2)"], "the conversation of before, and no word of the other one");
    assert!(!world.host().handoffs.has(&session));
    assert!(asks(&world, &session).is_ok(), "it is as it was and can be handed over again");
}

#[test]
fn it_is_over_when_its_first_words_have_arrived_and_not_before() {
    let world = world(setting(false));
    let session = begun(&world, "boats");
    world.platform.answers(SendOutcome::not_sent(Some(60_000), hermes_protocol::WaitScope::Chat, "slow down"));
    asks(&world, &session).unwrap();
    world.until("its first words wait", || {
        let owed = world.block_on(world.host().store.owed(1)).unwrap();
        owed.first().filter(|owed| owed.parts[0].not_before_ms > 0).map(|_| ())
    });
    assert!(stands(&world, &session).state.is_live(), "its turn is over, and nothing has arrived");
    world.passes(Duration::from_secs(61));
    world.is_ready();
    assert_eq!(ends(&world, &session).state, HandoffState::Completed);
}

#[test]
fn what_may_have_arrived_counts_as_arrived_where_nobody_can_be_asked() {
    let world = world(Setting { delivery: "backoff_ms = 60000".to_owned(), ..setting(false) });
    world.platform.answers(SendOutcome::unknown("cut"));
    let row = moves(&world, &begun(&world, "boats"));
    assert_eq!(row.state, HandoffState::Completed, "long before it is repeated");
}

#[test]
fn first_words_that_are_refused_leave_everything_as_it_was() {
    let world = world(setting(false));
    world.chat("7").says("before");
    world.chat("7").hears(2);
    world.settled();
    world.platform.refuses(RefusalKind::Invalid);
    let session = begun(&world, "boats");
    assert_eq!(moves(&world, &session).state, failed(UNCONFIRMED));
    world.chat("7").says("after");
    let heard = world.chat("7").hears(5);
    assert!(heard[3..].iter().any(|text| text.starts_with("A message could not be delivered here")), "{heard:?}");
    assert!(heard[3..].iter().any(|text| text == "after (after 2)"), "{heard:?}");
}

#[test]
fn what_is_asked_for_and_not_taken_up_before_the_host_dies_is_taken_up_by_its_next_life() {
    let mut world = world(setting(false));
    let session = begun(&world, "boats");
    let store = world.host().store.clone();
    let asked = world.block_on(store.handoff_request(&session, "fake", world.host().now_ms())).unwrap();
    assert!(matches!(asked, HandoffAsked::Made { .. }));
    world.crash();
    world.start_with(false);
    assert!(stands(&world, &session).state.is_live(), "its adapter is still on its way");
    world.set_online(true);
    world.is_ready();
    assert_eq!(ends(&world, &session).state, HandoffState::Completed);
}

#[test]
fn what_nobody_takes_up_is_withdrawn_by_whoever_waits() {
    let mut world = world(setting(false));
    let session = begun(&world, "boats");
    world.block_on(world.host().store.handoff_request(&session, "fake", world.host().now_ms())).unwrap();
    world.crash();
    world.start_with(false);
    let row = world.block_on(handoff::until_over(world.host(), &asked(&world, &session), 0)).unwrap();
    assert_eq!(row.state, failed(NOT_TAKEN_UP));
    world.set_online(true);
    world.is_ready();
    world.chat("7").says("hello");
    assert_eq!(world.chat("7").hears(2)[1], "hello (after 0)", "nothing came of it");
}

#[test]
fn a_claim_of_a_dead_life_is_taken_up_in_the_chat_that_was_found_for_it() {
    let mut world = world(setting(true));
    world.platform.answers_to(method::CREATE_HANDOFF_THREAD, json!(Chat::dm("7")));
    let session = begun(&world, "boats");
    let (host, now_ms) = (world.host().clone(), world.host().now_ms());
    world.block_on(host.store.handoff_request(&session, "fake", now_ms)).unwrap();
    let claimed = world.block_on(host.store.handoff_claim(&session, host.epoch, now_ms)).unwrap().unwrap();
    world.block_on(host.store.handoff_thread(&session, claimed.claim(), host.epoch, topic())).unwrap();
    drop(host);
    world.crash();
    world.start();
    world.is_ready();
    let row = ends(&world, &session);
    assert_eq!((row.state, row.attempts, row.chat), (HandoffState::Completed, 2, Some(topic())));
    assert!(world.platform.asked(method::CREATE_HANDOFF_THREAD).is_empty(), "no second thread is made");
    assert_eq!(world.talk(topic(), "7").heard(), ["I am here (after 1)"]);
}

#[test]
fn a_claim_of_a_dead_life_that_had_led_the_chat_already_goes_on_there() {
    let mut world = world(setting(false));
    let session = begun(&world, "boats");
    let (host, now_ms) = (world.host().clone(), world.host().now_ms());
    world.block_on(host.store.handoff_request(&session, "fake", now_ms)).unwrap();
    let claimed = world.block_on(host.store.handoff_claim(&session, host.epoch, now_ms)).unwrap().unwrap();
    world.block_on(host.store.handoff_thread(&session, claimed.claim(), host.epoch, topic())).unwrap();
    let key = hermes_core::session::SessionKey::shared("main", "fake", &topic()).unwrap().stored();
    let event = world.talk(topic(), "system:handoff").event("opening");
    let bind = HandoffBind {
        session: session.clone(),
        claim: claimed.claim(),
        epoch: host.epoch,
        event: NewInbox {
            instance: "fake".to_owned(),
            event_id: event.event_id.clone(),
            at_ms: 1,
            received_ms: 1,
            event: serde_json::to_string(&event).unwrap(),
        },
        input: vec![Message::user("opening")],
        route: RouteRow::new(key.clone(), "main", "fake", session.clone(), topic(), now_ms),
        routes: HandoffRoutes { bound: key, before: Vec::new() },
        former: None,
        freed: Vec::new(),
        now_ms,
    };
    world.block_on(host.store.handoff_bind(bind)).unwrap();
    drop(host);
    world.crash();
    world.start();
    world.is_ready();
    assert_eq!(ends(&world, &session).state, HandoffState::Completed);
    assert_eq!(world.talk(topic(), "7").heard(), ["I am here (after 1)"], "it is opened once, and by no stranger");
}

#[test]
fn a_handoff_whose_host_dies_twice_fails_and_leads_its_chat_back() {
    let mut world = world(setting(false));
    world.chat("7").says("before");
    world.chat("7").hears(2);
    world.settled();
    let session = begun(&world, "hang");
    asks(&world, &session).unwrap();
    is_running(&world, &session);
    world.crash();
    world.start();
    is_running(&world, &session);
    let row = stands(&world, &session);
    assert_eq!(row.state, HandoffState::Running { epoch: world.host().epoch, attempt: 2 }, "its turn goes on");
    world.crash();
    world.start();
    assert_eq!(ends(&world, &session).state, failed(INTERRUPTED_TWICE));
    world.settled();
    assert!(world.host().working.of(Some("operator")).is_empty(), "its turn does not go on");
    world.chat("7").says("after");
    assert_eq!(world.chat("7").hears(3)[2], "after (after 2)");
}

#[test]
fn a_host_that_dies_while_the_first_words_are_sent_says_them_once_more_and_runs_no_second_turn() {
    let mut world = world(setting(false));
    world.platform.hangs();
    let session = begun(&world, "boats");
    asks(&world, &session).unwrap();
    world.chat("7").hears(2);
    world.crash();
    world.start();
    let row = ends(&world, &session);
    assert_eq!((row.state, row.attempts), (HandoffState::Completed, 2));
    world.settled();
    let heard = world.chat("7").heard();
    assert_eq!(heard[1..], ["I am here (after 1)", "(possibly repeated) I am here (after 1)"]);
    assert_eq!(transcript(&world, &session).len(), 3);
}

#[test]
fn the_operator_gives_up_one_that_runs() {
    let world = world(setting(false));
    let session = begun(&world, "hang");
    asks(&world, &session).unwrap();
    is_running(&world, &session);
    let row = world.block_on(handoff::cancel(world.host(), session.as_str())).unwrap();
    assert_eq!(row.state, failed("cancelled by the operator"));
    let again = world.block_on(handoff::cancel(world.host(), session.as_str())).unwrap_err();
    assert!(again.words.contains("no handoff of session"), "{}", again.words);
    world.chat("7").says("hello");
    assert_eq!(world.chat("7").hears(2)[1], "hello (after 0)");
    world.settled();
    assert_eq!(world.chat("7").heard().len(), 2, "what the stopped turn had to say is not sent");
}

#[test]
fn a_conversation_that_was_handed_over_goes_back_to_the_terminal_and_can_come_again() {
    let world = world(setting(false));
    world.chat("7").says("/return");
    assert!(world.chat("7").hears(2)[1].contains("did not come from the terminal"));
    let session = begun(&world, "boats");
    assert_eq!(moves(&world, &session).state, HandoffState::Completed);
    world.chat("7").hears(3);
    world.chat("7").says("/return");
    let back = world.chat("7").hears(4).remove(3);
    assert!(back.contains(&format!("`hermes-host chat --resume {session}`")), "{back}");
    world.chat("7").says("hello");
    assert_eq!(world.chat("7").hears(5)[4], "hello (after 0)", "another conversation");
    world.settled();
    let row = world.block_on(world.host().store.session(&session)).unwrap().unwrap();
    assert_eq!((row.ended_ms, row.messages), (None, 3), "it goes on at the terminal");
    assert_eq!(moves(&world, &session).state, HandoffState::Completed, "no chat has it");
    assert_eq!(world.chat("7").hears(6)[5], "I am here (after 3)");
}

#[test]
fn whoever_it_was_handed_to_directly_finds_it_again_and_nobody_in_a_group() {
    let section =
        "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\"] }\nsession = { require_mention = false }";
    let world = World::with(Setting { section: section.to_owned(), ..setting(false) });
    world.talk(Chat::dm("8"), "7").says("/sethome");
    world.chat("8").hears(1);
    let (session, other) = (begun(&world, "boats"), begun(&world, "cars"));
    assert_eq!(moves(&world, &session).chat, Some(Chat::dm("8")));
    world.chat("8").hears(2);
    world.chat("8").says("/new");
    world.chat("8").hears(3);
    world.chat("8").says("/resume cars");
    assert!(world.chat("8").hears(4)[3].contains("no conversation \"cars\""), "only what was handed over");
    let group = world.talk(Chat::new(ChatType::Group, "g"), "8");
    group.says("/resume boats");
    assert!(group.hears(1)[0].contains("no conversation \"boats\""), "a group inherits nothing");
    world.chat("8").says("/resume boats");
    assert!(world.chat("8").hears(5)[4].contains("Back in **boats**"));
    world.chat("8").says("on");
    assert_eq!(world.chat("8").hears(6)[5], "on (after 3)");
    world.chat("7").says("/resume cars");
    assert!(world.chat("7").hears(1)[0].contains("Back in **cars**"), "the operator is one person");
    assert_eq!(stands(&world, &other).state, HandoffState::None);
}

pub(super) fn offered(world: &World, session: &SessionId) -> String {
    match world.block_on(handoff::offer(world.host(), session.as_str())).unwrap() {
        ControlReply::HandoffCode { code, .. } => code,
        other => panic!("{other:?} tells no code"),
    }
}

#[test]
fn a_code_of_the_terminal_pulls_its_conversation_into_the_chat_that_sends_it_once() {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\"] }";
    let mut world = World::with(Setting { section: section.to_owned(), ..setting(false) });
    let session = begun(&world, "boats");
    let stale = offered(&world, &session);
    let code = offered(&world, &session);
    world.stop();
    let bytes = std::fs::read(world.home().join("state.db")).unwrap();
    assert!(!bytes.windows(code.len()).any(|found| found == code.as_bytes()), "the code itself is nowhere");
    world.start();
    world.chat("8").says(&format!("/claim {stale}"));
    assert!(world.chat("8").hears(1)[0].contains("after 4 more wrong codes"), "a newer one took its place");
    world.chat("8").says(&format!("/claim {}", code.to_lowercase()));
    assert!(world.chat("8").hears(2)[1].contains("Back in **boats**: 1 message,"));
    world.chat("8").says("on");
    assert_eq!(world.chat("8").hears(3)[2], "on (after 1)");
    world.chat("7").says(&format!("/claim {code}"));
    assert!(world.chat("7").hears(1)[0].contains("No conversation is offered with this code"));
    let owned = world.block_on(handoff::offer(world.host(), session.as_str())).unwrap_err();
    assert!(owned.words.contains("continues in fake:8"), "{}", owned.words);
    world.chat("8").says("/return");
    assert!(world.chat("8").hears(4)[3].contains("is back in the terminal"));
}

#[test]
fn a_code_is_over_after_ten_minutes_and_wrong_ones_lock_out_whoever_sent_them() {
    let section = "access = { allowed_users = [\"7\", \"8\", \"9\"], operators = [\"9\"] }";
    let mut world = World::with(Setting { section: section.to_owned(), ..setting(false) });
    let code = offered(&world, &begun(&world, "boats"));
    world.passes(Duration::from_secs(600));
    for heard in 1..=5 {
        for who in ["7", "9"] {
            world.chat(who).says(&format!("/claim {code}"));
            world.chat(who).hears(heard);
        }
    }
    assert!(world.chat("7").heard()[3].contains("after 1 more wrong code, your"), "one of a thing is no several");
    assert!(world.chat("7").heard()[4].contains("too many wrong codes"));
    world.settled();
    world.stop();
    world.start();
    let code = offered(&world, &begun(&world, "cars"));
    world.chat("7").says(&format!("/claim {code}"));
    assert!(world.chat("7").hears(6)[5].contains("too many wrong codes"), "also after a restart");
    world.chat("9").says(&format!("/claim {code}"));
    assert!(world.chat("9").hears(6)[5].contains("Back in **cars**"), "the operator is never locked out");
    world.chat("9").says("/return");
    world.chat("9").hears(7);
    let code = offered(&world, &begun(&world, "trains"));
    world.chat("8").says(&format!("/claim {code}"));
    assert!(world.chat("8").hears(1)[0].contains("Back in **trains**"), "nor anybody else");
}

#[test]
fn a_conversation_goes_to_the_chat_that_is_named_where_there_is_no_home() {
    let world = World::with(setting(true));
    world.chat("7").says("before");
    world.chat("7").hears(1);
    let session = begun(&world, "boats");
    let to = |target: &str| world.block_on(handoff::request(world.host(), session.as_str(), target));
    assert!(to("fake").unwrap_err().words.contains("or name a chat: fake:CHAT"), "which it takes");
    let unknown = to("fake:99").unwrap_err().words;
    assert!(unknown.contains("knows no chat \"99\"") && unknown.contains("fake:7"), "{unknown}");
    assert!(to("fake:").unwrap_err().words.contains("use fake:CHAT"));
    assert!(to("fakes:7").unwrap_err().words.contains("did you mean \"fake\"?"));
    to("fake:7").unwrap();
    let row = ends(&world, &session);
    assert_eq!((row.state, row.chat), (HandoffState::Completed, Some(Chat::dm("7"))));
    let asked = world.platform.asked(method::CREATE_HANDOFF_THREAD);
    assert_eq!((asked.len(), &asked[0]["chat"]["id"]), (1, &json!("7")), "its thread is asked for, and there is none");
    assert_eq!(world.chat("7").hears(2)[1], "I am here (after 1)");
}

#[test]
fn who_waits_for_one_handoff_or_gives_it_up_ends_no_later_one() {
    let mut world = world(setting(false));
    let session = begun(&world, "boats");
    let store = world.host().store.clone();
    let ask = |world: &World| {
        world.block_on(world.host().store.handoff_request(&session, "fake", world.host().now_ms())).unwrap();
        asked(world, &session)
    };
    let first = ask(&world);
    let which = WhichHandoff::Asked(first.asked_ms);
    let withdrawn = hermes_core::handoff::HandoffChange::Withdrawn;
    world.block_on(store.handoff_fail(&session, which, withdrawn.clone(), 1)).unwrap().unwrap();
    ask(&world);
    drop(store);
    world.crash();
    world.start_with(false);
    let overtaken = world.block_on(handoff::until_over(world.host(), &first, 0)).unwrap_err();
    assert!(overtaken.words.contains("a newer one was requested"), "{}", overtaken.words);
    assert_eq!(world.block_on(world.host().store.handoff_fail(&session, which, withdrawn, 1)).unwrap(), None);
    assert!(stands(&world, &session).state.is_live(), "the later one waits for its adapter");
}

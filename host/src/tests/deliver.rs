//! Answers to events that name a destination.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, EventSink, Message, TurnOutcome, TurnRequest};
use hermes_core::ids::TurnId;
use hermes_protocol::{Chat, Deliver, Emitted, Event, Sender, Usage, method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, Talk, World};
use hermes_store::{EndTurn, Store, TurnEnd};
use hermes_system::clock::SystemClock;

const TRUSTED: &str = "trust_upstream = true";

/// Creates a world whose platform proves the identity of its services, with a section that trusts it or not.
fn world(section: &str) -> World {
    let capabilities = json!({
        "text": { "limit": 4096, "unit": "scalars", "dialect": "commonmark" }, "authorizes_upstream": true,
        "edit": true, "stream": "edit", "typing": true,
    });
    World::with(Setting { section: section.to_owned(), capabilities, ..Setting::default() })
}

/// Returns a call of the service `ci`.
fn call(text: &str, deliver: Deliver) -> Event {
    let number = text.len();
    Event::message(format!("ci:{number}:{text}"), Chat::dm("ci:1"), Sender::new("ci"), text).delivered(deliver)
}

fn ci(world: &World) -> Talk<'_> {
    world.talk(Chat::dm("ci:1"), "ci")
}

fn sent_to(world: &World) -> Vec<String> {
    world.platform.sent().into_iter().map(|sent| sent.chat.id).collect()
}

#[test]
fn the_answer_goes_where_the_event_says_and_nothing_goes_back() {
    let world = world(TRUSTED);
    ci(&world).gives(&call("/slow 20 build failed, why", Deliver::answer_to("fake:8")));
    assert_eq!(world.chat("8").hears(1).len(), 1);
    world.settled();
    assert_eq!(sent_to(&world), ["8"]);
    let sent = &world.platform.sent()[0];
    assert_eq!((sent.in_reply_to, sent.reply_to.as_deref()), (None, None));
    assert!(world.platform.edits().is_empty() && world.platform.typing().is_empty(), "nobody reads along");
}

#[test]
fn what_a_service_says_is_never_a_command() {
    let world = world(TRUSTED);
    ci(&world).gives(&call("/status", Deliver::answer_to("fake:8")));
    assert_eq!(world.chat("8").hears(1), ["/status"], "the agent hears it");
    world.settled();
}

#[test]
fn a_text_is_passed_on_as_it_is_and_begins_no_session() {
    let world = world(TRUSTED);
    ci(&world).gives(&call("/new MEDIA:/etc/passwd", Deliver::text_to("fake:8")));
    assert_eq!(world.chat("8").hears(1), ["/new MEDIA:/etc/passwd"]);
    world.settled();
    let counts = world.block_on(world.host().store.counts()).unwrap();
    assert_eq!((counts.sessions, counts.turns), (0, 0));
    assert_eq!(sent_to(&world), ["8"]);
}

#[test]
fn a_text_that_is_to_be_passed_on_and_one_that_is_to_be_answered_survive_a_crash() {
    for deliver in [Deliver::text_to("fake:8"), Deliver::answer_to("fake:8")] {
        let mut world = world(TRUSTED);
        ci(&world).is_cut_off_giving(&call("committed", deliver));
        world.crash();
        world.start();
        assert_eq!(world.chat("8").hears(1), ["committed"]);
        world.settled();
        assert_eq!(sent_to(&world), ["8"]);
    }
}

#[test]
fn a_conversation_of_which_nothing_more_comes_ends_with_its_answer_and_is_no_place_to_write_to() {
    let world = world(TRUSTED);
    for (n, deliver) in [Deliver::answer_to("fake:8").ending(), Deliver::answer_to("fake:8")].into_iter().enumerate() {
        let chat = Chat::dm(format!("ci:{n}"));
        let event = Event::message(format!("e:{n}"), chat.clone(), Sender::new("ci"), "once").delivered(deliver);
        world.talk(chat, "ci").gives(&event);
        world.chat("8").hears(n + 1);
    }
    let open = world.until("the first has ended", || {
        let counts = world.block_on(world.host().store.counts()).unwrap();
        (counts.sessions == 2 && counts.sessions_open == 1).then_some(counts.sessions_open)
    });
    assert_eq!(open, 1, "the other goes on");
    let known = world.until("the other chat is known", || {
        let known = world.block_on(world.host().store.known_chats("fake")).unwrap();
        (!known.is_empty()).then_some(known)
    });
    assert_eq!(known.iter().map(|known| known.chat.id.as_str()).collect::<Vec<_>>(), ["ci:1"]);
}

#[test]
fn a_conversation_whose_answer_is_written_and_whose_end_is_not_ends_with_the_next_start() {
    let mut world = world(TRUSTED);
    let chat = Chat::dm("ci:1");
    ci(&world).gives(&call("/hang on", Deliver::answer_to("fake:8").ending()));
    let running = || world.host().counts.turns_running.load(Ordering::Relaxed);
    world.until("a turn runs", || (running() == 1).then_some(()));
    world.crash();
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = || rt.block_on(async { Store::open(&world.home().join("state.db"), Arc::new(SystemClock)) }).unwrap();
    let life = open();
    assert_eq!(life.loaded.routes.iter().map(|route| &route.origin).collect::<Vec<_>>(), [&chat], "its turn goes on");
    let sessions = rt.block_on(async {
        let left = life.store.recover(life.epoch, 1).await.unwrap();
        let cut_off = life.store.left_turns(&left, TurnId(0)).await.unwrap().remove(0);
        let end = EndTurn {
            turn: cut_off.turn,
            state: TurnEnd::Failed,
            error: None,
            session: cut_off.session,
            messages: Vec::new(),
            deliveries: Vec::new(),
            usage: Usage::default(),
            agent_state: None,
            observed: None,
            now_ms: 1,
        };
        life.store.end_turn(end).await.unwrap();
        let open = life.store.counts().await.unwrap().sessions_open;
        life.store.close().await.unwrap();
        open
    });
    assert_eq!(sessions, 1, "a kill -9 here leaves it open");
    let next = open();
    assert!(next.loaded.routes.is_empty());
    assert_eq!(rt.block_on(next.store.counts()).unwrap().sessions_open, 0);
}

#[test]
fn calls_are_counted_by_their_adapter_and_not_with_people() {
    let capabilities = json!({ "authorizes_upstream": true });
    let more = "[limits]\nuser_messages_per_minute = 1".to_owned();
    let section = format!("{TRUSTED}\nsession = {{ busy = \"queue\" }}");
    let world = World::with(Setting { section, capabilities, more, ..Setting::default() });
    for n in 0..3 {
        ci(&world).gives(&call(&format!("number {n}"), Deliver::answer_to("fake:8")));
    }
    assert_eq!(world.chat("8").hears(3), ["number 0", "number 1", "number 2"]);
    world.settled();
}

#[test]
fn what_leads_nowhere_stays_with_its_adapter_with_the_reason() {
    let world = world(TRUSTED);
    let chat = ci(&world);
    chat.gives(&call("no home", Deliver::answer_to("fake")));
    let heard = chat.hears(1);
    assert!(heard[0].starts_with("(not delivered to \"fake\": fake has no home channel;"), "{heard:?}");
    assert!(heard[0].ends_with("\n\nno home"), "{heard:?}");
    chat.gives(&call("to the log", Deliver::answer_to("local")));
    assert_eq!(chat.hears(2)[1], "to the log");
    let sent = &world.platform.sent()[1];
    assert!(sent.in_reply_to.is_some(), "its adapter knows what was asked");
    world.settled();
}

#[test]
fn what_goes_to_an_instance_that_is_not_there_yet_waits_in_the_outbox() {
    let world = world(TRUSTED);
    for deliver in [Deliver::answer_to("later:-100:17"), Deliver::text_to("later:-100:17")] {
        let text = format!("kept, as it is: {}", deliver.as_is);
        ci(&world).gives(&call(&text, deliver));
    }
    world.until("both are owed", || {
        let counts = world.block_on(world.host().store.counts()).unwrap();
        (counts.outbox == 2 && counts.turns == 0).then_some(())
    });
    assert!(sent_to(&world).is_empty(), "nothing is lost and nothing goes elsewhere");
}

#[test]
fn a_chat_whose_adapter_is_away_is_taken_as_it_is_written_and_hears_of_it_later() {
    let capabilities = json!({ "authorizes_upstream": true, "resolve_target": true, "threads": true });
    let world = World::with(Setting { section: TRUSTED.to_owned(), capabilities, ..Setting::default() });
    world.platform.answers_to(method::RESOLVE_TARGET, Value::Null);
    ci(&world).gives(&call("it is there", Deliver::text_to("fake:8:17")));
    let heard = ci(&world).hears(1);
    assert!(heard[0].starts_with("(not delivered to \"fake:8:17\": fake knows no chat"), "{heard:?}");
    // Otherwise the delivery that is owed below could still be this one.
    world.settled();
    world.set_online(false);
    ci(&world).gives(&call("it is away", Deliver::text_to("fake:8:17")));
    world.until("it is owed", || (world.block_on(world.host().store.counts()).unwrap().outbox == 1).then_some(()));
    world.set_online(true);
    let there = world.talk(Chat::dm("8").in_thread("17"), "8");
    assert_eq!(there.hears(1), ["it is away"]);
    world.settled();
}

#[test]
fn an_adapter_that_nobody_trusts_says_nothing_about_where_answers_go() {
    let world = world("access = { allow_all = true }");
    let chat = ci(&world);
    let given = chat.gives(&call("as usual", Deliver::answer_to("fake:8")));
    assert!(matches!(given, Emitted::New { .. }));
    assert_eq!(chat.hears(1), ["as usual"]);
    world.settled();
    assert_eq!(sent_to(&world), ["ci:1"]);
}

#[test]
fn a_call_waits_in_the_inbox_while_the_host_drains_although_nobody_can_be_told_later() {
    let capabilities = json!({ "supports_async_delivery": false, "authorizes_upstream": true });
    let section = TRUSTED.to_owned();
    let mut world = World::with(Setting { section, capabilities, ..Setting::default() });
    world.host().rests.store(true, std::sync::atomic::Ordering::Relaxed);
    let refused = world.block_on(world.give(&ci(&world).event("somebody waits"))).unwrap_err();
    assert_eq!(refused.code, "busy");
    let given = ci(&world).gives(&call("/stop nobody waits", Deliver::answer_to("origin")));
    assert!(matches!(given, Emitted::New { .. }));
    world.crash();
    world.start();
    assert_eq!(ci(&world).hears(1), ["/stop nobody waits"]);
    world.settled();
}

/// A runtime that answers with whether a later delivery is possible.
struct Witness;

impl AgentRuntime for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn models(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, request: TurnRequest, _: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        let text = format!("later: {}", request.context.async_delivery);
        let usage = Usage::default();
        let (finish_reason, model) = ("stop".to_owned(), String::new());
        Box::pin(std::future::ready(TurnOutcome::Finished {
            messages: vec![Message::assistant(text.clone())],
            text,
            usage,
            finish_reason,
            state: None,
            model,
        }))
    }
}

#[test]
fn the_turn_of_a_call_knows_that_nothing_can_be_delivered_later() {
    let capabilities = json!({ "authorizes_upstream": true });
    let runtime: Option<Arc<dyn AgentRuntime>> = Some(Arc::new(Witness));
    let world = World::with(Setting { section: TRUSTED.to_owned(), capabilities, runtime, ..Setting::default() });
    ci(&world).gives(&call("a service", Deliver::answer_to("fake:8")));
    assert_eq!(world.chat("8").hears(1), ["later: false"]);
    world.chat("7").says("a person");
    assert_eq!(world.chat("7").hears(1), ["later: true"]);
    world.settled();
}

#[test]
fn nobody_is_asked_for_what_a_call_would_need_approval() {
    let world = world(TRUSTED);
    ci(&world).gives(&call("/danger delete it", Deliver::answer_to("fake:8")));
    let heard = world.chat("8").hears(1);
    assert!(heard[0].contains("denied"), "{heard:?}");
    world.settled();
    assert_eq!(sent_to(&world), ["8"]);
}

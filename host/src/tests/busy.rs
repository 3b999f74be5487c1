//! Messages and notices while a turn runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_agent::questions::{ApprovalRequest, TurnQuestion};
use hermes_agent::{AgentRuntime, EventSink, Hold, Message, TurnOutcome, TurnRequest};
use hermes_protocol::{
    Addressed, Attachment, AttachmentKind, Chat, ChatType, Emitted, Event, SendOutcome, Sender, TurnEvent, WaitScope,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::world::{Deaf, Setting, Talk, World};

/// Creates a world in which only the test advances the time.
fn still(session: &str) -> World {
    with(session, Setting::default())
}

fn with(session: &str, setting: Setting) -> World {
    let section = format!(
        "access = {{ allowed_users = [\"7\", \"8\"], admins = [\"1\"] }}\nsession = {{ group_sessions_per_user = false, {session} }}"
    );
    World::with(Setting { section, clock_stands: true, ..setting })
}

const QUEUE: &str = "busy = \"queue\"";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Starts a turn and waits until it runs.
fn starts(world: &World, chat: &Talk<'_>, text: &str) -> Emitted {
    let emitted = chat.says(text);
    runs(world, 1);
    emitted
}

fn runs(world: &World, turns: usize) {
    world.until("the turns run", || {
        let running = ["7", "8", "1"].iter().map(|who| world.host().working.of(Some(&format!("fake:{who}"))).len());
        (running.sum::<usize>() == turns).then_some(())
    });
}

/// Returns the transcript of the newest session, each entry with its speaker.
fn transcript(world: &World) -> Vec<String> {
    let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    let asked = json!({ "sender": { "id": "7" }, "session_id": sessions[0]["id"] });
    let history = world.call("sessions.history", asked).unwrap();
    let entry =
        |row: &serde_json::Value| format!("{}: {}", row["role"].as_str().unwrap(), row["content"].as_str().unwrap());
    history.as_array().unwrap().iter().map(entry).collect()
}

/// Sends a group message that is addressed to the agent.
fn in_group(world: &World, who: &str, text: &str) -> Emitted {
    let id = format!("m:{who}:{text}");
    let event = Event::message(id, Chat::new(ChatType::Group, "g"), Sender::new(who), text)
        .with_message_id(format!("{who}:{text}"))
        .addressed(Addressed::new(true, false, false));
    serde_json::from_slice(&world.block_on(world.give(&event)).unwrap()).unwrap()
}

fn group_heard(world: &World) -> Vec<String> {
    let sent = world.platform.sent();
    sent.into_iter().filter(|sent| sent.chat.id == "g").map(|sent| sent.text).collect()
}

#[test]
fn a_new_message_ends_the_running_turn_and_is_answered_next() {
    let world = still("");
    let chat = world.chat("7");
    starts(&world, &chat, "/hang on");
    waits(&world, chat.says("rather this"));
    world.passes(ms(350));
    assert_eq!(chat.hears(2), ["on\n\n(interrupted)", "rather this"]);
    world.settled();
    let said = transcript(&world);
    assert_eq!(said.first().map(String::as_str), Some("user: /hang on"));
    assert_eq!(said[said.len() - 2..], ["user: rather this", "assistant: rather this"]);
}

/// Waits until the lane of a session has queued an event.
fn waits(world: &World, emitted: Emitted) {
    let Emitted::New { inbox_id } = emitted else { panic!("it is new") };
    let asked = json!({ "inbox_id": inbox_id });
    world.until("it waits", || (world.call("turns.status", asked.clone()).unwrap()["state"] == "queued").then_some(()));
}

#[test]
fn what_was_said_before_the_running_turn_began_does_not_end_it() {
    let world = still("");
    let chat = world.chat("7");
    let said_ms = world.host().now_ms();
    world.passes(ms(60_000));
    let backlog: Vec<_> = (1..4).map(|n| chat.event(&format!("late {n}")).at_ms(said_ms + n)).collect();
    starts(&world, &chat, "/hang on");
    for event in &backlog {
        waits(&world, chat.gives(event));
    }
    world.passes(ms(350));
    waits(&world, chat.gives(&chat.event("/queue last").at_ms(said_ms)));
    assert_eq!(world.host().working.of(Some("fake:7")).len(), 1, "the turn runs on: {:?}", chat.heard());
    chat.says("/stop");
    world.settled();
    let heard = chat.heard();
    assert!(heard.contains(&"late 1\nlate 2\nlate 3".to_owned()), "they are one message: {heard:?}");
    assert_eq!(heard.iter().filter(|text| text.contains("(interrupted)")).count(), 1, "by the stop: {heard:?}");
}

#[test]
fn a_host_whose_clock_runs_ahead_takes_what_is_said_now_as_said_now_and_a_backlog_as_a_backlog() {
    let world = still("");
    let chat = world.chat("7");
    let ahead_ms = 300_000;
    let now_there = || world.host().now_ms() - ahead_ms;
    // The timestamps of several messages reveal the offset of the clock.
    for n in 0..5 {
        chat.gives(&chat.event(&format!("hello {n}")).at_ms(now_there()));
        chat.hears(n + 1);
        world.passes(ms(30_000));
    }
    world.settled();
    let before = chat.heard().len();
    chat.gives(&chat.event("/hang on").at_ms(now_there()));
    runs(&world, 1);
    waits(&world, chat.gives(&chat.event("rather this").at_ms(now_there())));
    world.passes(ms(350));
    assert_eq!(chat.hears(before + 2)[before..], ["on\n\n(interrupted)", "rather this"]);
    world.settled();
    let said_ms = now_there();
    world.passes(ms(60_000));
    chat.gives(&chat.event("/hang on again").at_ms(said_ms));
    runs(&world, 1);
    waits(&world, chat.gives(&chat.event("late").at_ms(said_ms + 20_000)));
    world.passes(ms(350));
    waits(&world, chat.gives(&chat.event("/queue last").at_ms(said_ms + 40_000)));
    assert_eq!(world.host().working.of(Some("fake:7")).len(), 1, "it runs on: {:?}", chat.heard());
    chat.says("/stop");
    world.settled();
    let heard = chat.heard();
    assert!(heard.contains(&"late".to_owned()) && heard.contains(&"last".to_owned()), "each by itself: {heard:?}");
}

#[test]
fn what_an_interrupted_turn_had_said_stays_in_the_transcript_and_is_marked() {
    let world = with("", Setting { capabilities: json!({ "stream": "native" }), ..Setting::default() });
    let chat = world.chat("7");
    starts(&world, &chat, "/hang half of it");
    let shows_all = |event: &TurnEvent| matches!(event, TurnEvent::Chunk { text } if text.ends_with("it"));
    world.until("it is said", || world.platform.stream().iter().any(shows_all).then_some(()));
    waits(&world, chat.says("rather this"));
    world.passes(ms(350));
    assert_eq!(chat.hears(2), ["half of it\n\n(interrupted)", "rather this"], "a stream alone is kept nowhere");
    world.settled();
    assert_eq!(transcript(&world)[1], "assistant: half of it\n\n(interrupted)");
}

#[test]
fn a_cut_answer_that_no_message_showed_replies_to_its_question_before_the_next_answer_also_after_a_crash() {
    for crashes in [false, true] {
        let half = Arc::new(HalfWay(AtomicBool::new(false)));
        let runtime: Arc<dyn AgentRuntime> = half.clone();
        let capabilities = json!({ "edit": false, "stream": "none" });
        let mut world = with("", Setting { capabilities, runtime: Some(runtime), ..Setting::default() });
        let chat = world.chat("7");
        chat.says("hello");
        world.until("half of it is said", || half.0.swap(false, Ordering::SeqCst).then_some(()));
        world.platform.answers(SendOutcome::not_sent(Some(60_000), WaitScope::Chat, "slow down"));
        world.passes(ms(2_000));
        waits(&world, chat.says("rather this"));
        world.passes(ms(350));
        world.until("the second turn runs", || half.0.swap(false, Ordering::SeqCst).then_some(()));
        chat.says("/stop");
        world.until("both are owed", || {
            (world.block_on(world.host().store.counts()).unwrap().outbox >= 2).then_some(())
        });
        if crashes {
            world.crash();
            world.start();
        }
        world.passes(ms(61_000));
        world.is_ready();
        world.settled();
        let sent = world.platform.sent();
        let halves: Vec<_> = sent.iter().filter(|sent| sent.text.starts_with("half")).collect();
        let questions: Vec<_> = halves.iter().map(|sent| sent.reply_to.as_deref().unwrap_or_default()).collect();
        assert_eq!(questions[questions.len() - 2..], ["1", "2"], "crashes {crashes}: {sent:?}");
    }
}

#[test]
fn where_no_message_grows_what_a_stopped_turn_had_said_is_one_message_that_says_so() {
    for stream in ["stream = \"off\"", ""] {
        let half = Arc::new(HalfWay(AtomicBool::new(false)));
        let runtime: Arc<dyn AgentRuntime> = half.clone();
        let capabilities = json!({ "edit": false, "stream": "none" });
        let world = with(stream, Setting { capabilities, runtime: Some(runtime), ..Setting::default() });
        let chat = world.chat("7");
        chat.says("hello");
        world.until("half of it is said", || half.0.swap(false, Ordering::SeqCst).then_some(()));
        chat.says("/stop");
        assert_eq!(chat.hears(2), ["half of it\n\n(interrupted)", "Stopped."], "{stream}");
        chat.says("/background hello");
        chat.hears(3);
        world.until("half of it is said", || half.0.swap(false, Ordering::SeqCst).then_some(()));
        let turn = world.host().working.of(Some("fake:7")).pop().unwrap().turn;
        chat.says(&format!("/agents stop {turn}"));
        assert_eq!(chat.hears(4)[3], "Stopped: hello.");
        world.settled();
        assert_eq!(chat.heard().len(), 4, "what runs beside says nothing that is not whole: {:?}", chat.heard());
    }
}

/// A runtime that returns only half of its answer.
struct HalfWay(AtomicBool);

impl AgentRuntime for HalfWay {
    fn name(&self) -> &'static str {
        "half"
    }

    fn models(&self) -> Vec<String> {
        vec!["half".to_owned()]
    }

    fn run(&self, _: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            events.chunk("half of it").await;
            self.0.store(true, Ordering::SeqCst);
            cancel.cancelled().await;
            TurnOutcome::Interrupted { text: "half of it".to_owned() }
        })
    }
}

#[test]
fn after_an_interruption_all_that_waits_is_answered_together_as_separate_messages() {
    let world = still("");
    let chat = world.chat("7");
    starts(&world, &chat, "/hang on");
    chat.says("/queue one");
    chat.says("/q two");
    assert!(chat.hears(2)[1].starts_with("Queued (2 waiting)"), "{:?}", chat.heard());
    waits(&world, chat.says("three"));
    world.passes(ms(350));
    assert_eq!(chat.hears(4)[2..], ["on\n\n(interrupted)", "one\ntwo\nthree"]);
    world.settled();
    let said = transcript(&world);
    assert_eq!(said[said.len() - 4..], ["user: one", "user: two", "user: three", "assistant: one\ntwo\nthree"]);
}

#[test]
fn a_burst_while_busy_becomes_one_message_of_several_lines() {
    let world = still("");
    let chat = world.chat("7");
    starts(&world, &chat, "/hang on");
    for text in ["one", "two", "three"] {
        waits(&world, chat.says(text));
    }
    world.passes(ms(350));
    assert_eq!(chat.hears(2), ["on\n\n(interrupted)", "one\ntwo\nthree"], "interrupted once");
    world.settled();
    assert!(transcript(&world).contains(&"user: one\ntwo\nthree".to_owned()));
    assert_eq!(world.platform.sent()[1].reply_to.as_deref(), Some("4"), "it answers the newest");
}

#[test]
fn in_queue_mode_messages_wait_in_order_and_the_receipts_are_true() {
    let world = still(QUEUE);
    let chat = world.chat("7");
    starts(&world, &chat, "/hang on");
    chat.says("one");
    assert_eq!(chat.hears(1), ["Queued (1 waiting). I'll answer it when the running turn ends."]);
    waits(&world, chat.says("and more"));
    world.passes(ms(2_000));
    chat.says("two");
    assert!(chat.hears(2)[1].starts_with("Queued (3 waiting)."), "one receipt for one message: {:?}", chat.heard());
    chat.says("/stop");
    let after = ["on\n\n(interrupted)", "Stopped. 3 waiting messages are answered next.", "one\nand more", "two"];
    assert_eq!(chat.hears(6)[2..], after);
}

#[test]
fn in_a_shared_session_only_the_requester_or_an_admin_interrupts_and_two_people_are_never_joined() {
    let world = with("", Setting { runtime: Some(Arc::new(Patient(None))), ..Setting::default() });
    in_group(&world, "7", "hang on");
    runs(&world, 1);
    in_group(&world, "8", "me too");
    world.until("a receipt", || {
        let heard = group_heard(&world);
        (heard == ["Queued (1 waiting): this turn belongs to someone else; only they or an admin can interrupt it."])
            .then_some(())
    });
    world.passes(ms(2_000));
    waits(&world, in_group(&world, "1", "as admin"));
    world.passes(ms(350));
    world.until("both are answered", || (group_heard(&world).len() == 3).then_some(()));
    assert_eq!(group_heard(&world)[1..], ["(interrupted)", "[8] me too / [1] as admin"]);
    let sent = world.platform.sent();
    let interrupted = sent.iter().find(|sent| sent.text == "(interrupted)").unwrap();
    assert_eq!(interrupted.reply_to.as_deref(), Some("7:hang on"), "it names the question that is not answered");
}

/// A runtime that hangs on request, or always with a reason, until it is stopped.
struct Patient(Option<Hold>);

impl AgentRuntime for Patient {
    fn name(&self) -> &'static str {
        "patient"
    }

    fn models(&self) -> Vec<String> {
        vec!["patient".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let said: Vec<&str> = request.input.iter().map(|message| &*message.content).collect();
            if self.0.is_none() && !said[0].contains("hang") {
                return Deaf
                    .run(TurnRequest { input: vec![Message::user(said.join(" / "))], ..request }, events, cancel)
                    .await;
            }
            let _held = self.0.map(|why| events.hold(why));
            events.progress("hold", "holding").await;
            cancel.cancelled().await;
            TurnOutcome::Interrupted { text: String::new() }
        })
    }
}

#[test]
fn an_interruption_is_demoted_aloud_while_helpers_run_or_history_is_shortened() {
    for (hold, words) in [(Hold::Children, "sub-agents"), (Hold::Compacting, "being compressed")] {
        let setting = Setting {
            runtime: Some(Arc::new(Patient(Some(hold)))),
            capabilities: json!({ "stream": "native" }),
            ..Setting::default()
        };
        let world = with("", setting);
        let chat = world.chat("7");
        starts(&world, &chat, "do it");
        let held = |event: &TurnEvent| matches!(event, TurnEvent::Progress { .. });
        world.until("it is held", || world.platform.stream().iter().any(held).then_some(()));
        chat.says("rather this");
        let receipt = chat.hears(1).remove(0);
        assert!(receipt.starts_with("Queued (1 waiting): ") && receipt.contains(words), "{receipt}");
        world.passes(ms(5_000));
        chat.says("/status");
        assert!(chat.hears(2)[1].contains("working, 1 waiting"), "it goes on: {:?}", chat.heard());
    }
}

#[test]
fn a_turn_is_steered_and_what_reached_it_is_part_of_it() {
    let world = still("busy = \"steer\"");
    let chat = world.chat("7");
    starts(&world, &chat, "/follow me");
    chat.says("to the left");
    let heard = chat.hears(2);
    assert!(heard.iter().any(|text| text.starts_with("Sent to the running turn (1 waiting).")), "{heard:?}");
    assert!(heard.contains(&"me\nto the left".to_owned()), "{heard:?}");
    world.settled();
    assert_eq!(transcript(&world), ["user: /follow me", "user: to the left", "assistant: me\nto the left"]);
}

#[test]
fn what_comes_too_late_to_steer_is_said_to_be_late_and_answered_next() {
    let world = still("");
    let chat = world.chat("7");
    starts(&world, &chat, "/slow 300 slowly");
    chat.says("/steer faster");
    let heard = chat.hears(4);
    assert!(heard[0].starts_with("Sent to the running turn (1 waiting)."), "{heard:?}");
    assert_eq!(heard[1..3], ["slowly", "That turn had already finished. I'll answer your message next."]);
    assert_eq!(heard[3], "faster");
    world.settled();
}

#[test]
fn a_runtime_that_cannot_be_steered_makes_it_wait_and_says_so() {
    let world = with("", Setting { runtime: Some(Arc::new(Deaf)), ..Setting::default() });
    let chat = world.chat("7");
    starts(&world, &chat, "hang");
    chat.says("/steer left");
    assert_eq!(chat.hears(1), ["Queued (1 waiting): this agent can't be steered while it is answering."]);
}

#[test]
fn queue_and_steer_are_ordinary_words_when_nothing_runs() {
    let world = still("");
    let chat = world.chat("7");
    chat.says("/queue one");
    assert_eq!(chat.hears(1), ["one"]);
    world.settled();
    chat.says("/steer two");
    assert_eq!(chat.hears(2)[1], "two");
    chat.says("/queue");
    assert_eq!(chat.hears(3)[2], "Usage: `/queue TEXT`.");
}

#[test]
fn busy_is_chosen_for_one_conversation_and_kept() {
    let mut world = still("");
    let chat = world.chat("7");
    chat.says("/busy queue");
    assert_eq!(chat.hears(1), ["Busy mode `queue`: a new message waits until the current turn has ended."]);
    world.settled();
    world.crash();
    world.start();
    let chat = world.chat("7");
    chat.says("/busy");
    assert!(chat.hears(2)[1].starts_with("Busy mode `queue`: "));
    starts(&world, &chat, "/hang on");
    chat.says("wait");
    assert!(chat.hears(3)[2].starts_with("Queued (1 waiting)."));
    chat.says("/busy sometimes");
    assert!(chat.hears(4)[3].contains("`interrupt`, `queue`, `steer`"));
    chat.says("/busy reset");
    chat.hears(5);
    chat.says("/busy");
    assert!(chat.hears(6)[5].starts_with("Busy mode `interrupt`: "));
}

#[test]
fn a_runtime_that_reaches_no_safe_point_is_stopped_in_the_end() {
    let world = with("", Setting { runtime: Some(Arc::new(Deaf)), ..Setting::default() });
    let chat = world.chat("7");
    starts(&world, &chat, "hang");
    waits(&world, chat.says("next"));
    world.passes(ms(350));
    // The lane that answers the second command has checked the time after the first.
    for n in 1..=2 {
        chat.says("/status");
        assert!(chat.hears(n)[n - 1].contains("working, 1 waiting"), "{:?}", chat.heard());
    }
    world.passes(ms(10_000));
    assert_eq!(chat.hears(4)[2..], ["hang\n\n(interrupted)", "next"]);
}

#[test]
fn a_long_text_waits_for_its_continuation_and_a_short_one_never_does() {
    let world = still("");
    let chat = world.chat("7");
    let (first, rest) = ("a".repeat(4_000), "the rest".to_owned());
    waits(&world, chat.says(&first));
    chat.says(&rest);
    let answer = chat.hears(1).concat();
    assert!(answer.contains(&first[..100]), "{answer}");
    world.settled();
    assert_eq!(transcript(&world)[0], format!("user: {first}\n{rest}"));
    let before = chat.heard().len();
    waits(&world, chat.says(&first));
    world.passes(ms(2_000));
    chat.hears(before + 1);
    world.settled();
}

#[test]
fn more_files_of_a_burst_do_not_interrupt_the_turn_on_the_first() {
    let world = still("");
    let chat = world.chat("7");
    let photo = |text: &str| {
        let mut event = chat.event(text);
        event.attachments.push(Attachment::new(
            "0123456789abcdef01234567",
            AttachmentKind::Image,
            "image/png",
            "a.png",
            1,
        ));
        event
    };
    chat.gives(&photo("/hang on"));
    runs(&world, 1);
    for _ in 0..2 {
        waits(&world, chat.gives(&photo("")));
    }
    world.passes(ms(5_000));
    chat.says("/stop");
    let heard = chat.hears(3);
    assert!(heard[0].starts_with("on") && heard[0].ends_with("(interrupted)"), "{heard:?}");
    assert_eq!(heard[1], "Stopped. 2 waiting messages are answered next.", "nothing was said about them");
    assert!(heard[2].matches("a.png").count() >= 2, "one message of two files: {heard:?}");
}

#[test]
fn an_album_whose_parts_come_apart_is_one_message_and_a_late_part_ends_no_turn() {
    let world = still("");
    let chat = world.chat("7");
    let part = |text: &str, name: &str| {
        let mut event = chat.event(text).in_album("G");
        event.attachments.push(Attachment::new(
            "0123456789abcdef01234567",
            AttachmentKind::Image,
            "image/png",
            name,
            1,
        ));
        event
    };
    waits(&world, chat.gives(&part("look", "a.png")));
    world.passes(ms(200));
    waits(&world, chat.gives(&part("", "b.png")));
    world.passes(ms(350));
    let heard = chat.hears(1);
    assert!(heard[0].starts_with("look") && heard[0].contains("a.png") && heard[0].contains("b.png"), "{heard:?}");

    let mut hanging = part("/hang on", "c.png");
    hanging.album = Some("H".to_owned());
    waits(&world, chat.gives(&hanging));
    world.passes(ms(350));
    runs(&world, 1);
    let mut late = part("", "d.png");
    late.album = Some("H".to_owned());
    world.passes(ms(60_000));
    waits(&world, chat.gives(&late));
    world.passes(ms(5_000));
    chat.says("/stop");
    let heard = chat.hears(4);
    assert!(heard[1].starts_with("on") && heard[1].ends_with("(interrupted)"), "{heard:?}");
    assert_eq!(heard[2], "Stopped. One waiting message is answered next.", "nothing was said about it");
    assert!(heard[3].contains("d.png"), "{heard:?}");
}

#[test]
fn whoever_is_answered_only_while_asking_neither_interrupts_nor_is_joined() {
    let capabilities = json!({ "supports_async_delivery": false });
    let world = with("", Setting { capabilities, ..Setting::default() });
    let chat = world.chat("7");
    starts(&world, &chat, "/slow 200 first");
    chat.says("second");
    chat.says("third");
    assert_eq!(chat.hears(3), ["first", "second", "third"]);
    chat.says("/background deep");
    assert!(chat.hears(4)[3].starts_with("Background turns are not available here"));
}

#[test]
fn a_turn_in_the_background_has_a_session_of_its_own_and_answers_here_marked() {
    let world = still("");
    let chat = world.chat("7");
    chat.says("hello");
    chat.hears(1);
    starts(&world, &chat, "/hang on");
    chat.says("/bg think `deeply`");
    let heard = chat.hears(3);
    assert!(heard[1].starts_with("Working on it in the background as turn "), "{heard:?}");
    assert_eq!(heard[2], "Background answer to `think 'deeply'`:\n\nthink `deeply`");
    runs(&world, 1);
    let rows = world.block_on(world.host().store.sessions(Default::default())).unwrap();
    let beside = rows.iter().find(|row| row.parent.is_some()).expect("a session of its own");
    assert!(rows.iter().any(|row| Some(&row.id) == beside.parent.as_ref() && row.messages >= 2), "{rows:?}");
}

#[test]
fn turns_in_the_background_are_bounded_listed_and_can_be_stopped() {
    let world = still("");
    let chat = world.chat("7");
    for _ in 0..4 {
        chat.says("/background /hang on");
    }
    chat.hears(4);
    chat.says("/background one more");
    assert_eq!(
        chat.hears(5)[4],
        "Not started: you already have 4 background turns running, which is the limit. `/agents` lists them."
    );
    chat.says("/agents");
    let list = chat.hears(6).remove(5);
    assert_eq!(list.matches("`/hang on` (in the background, 0 min)").count(), 4, "{list}");
    world.chat("8").says("/tasks");
    assert_eq!(world.chat("8").hears(1), ["Nothing is running for you."]);
    let number = list.lines().find_map(|line| line.strip_prefix("- ")?.split(':').next()).unwrap();
    chat.says(&format!("/agents stop {number}"));
    assert_eq!(chat.hears(7)[6], "Stopped: `/hang on`.", "it is said once it is true");
    runs(&world, 3);
    world.until("there is room again", || {
        chat.says("/background one more");
        chat.heard().last().filter(|text| text.starts_with("Background answer to `one more`")).map(|_| ())
    });
}

#[test]
fn a_turn_in_the_background_can_begin_a_chat_and_goes_on_after_a_crash() {
    let mut world = still("");
    let chat = world.chat("7");
    chat.says("/background /hang on");
    chat.hears(1);
    chat.says("hello");
    assert_eq!(chat.hears(2)[1], "hello");
    // Time stands still, so nothing is ever repeated.
    let owed = || world.block_on(world.host().store.counts()).unwrap().outbox;
    world.until("the receipts are written", || (owed() == 0).then_some(()));
    world.crash();
    world.start();
    runs(&world, 1);
    let chat = world.chat("7");
    chat.says("/agents");
    assert!(chat.hears(3)[2].contains("`/hang on` (in the background"), "{:?}", chat.heard());
}

#[test]
fn a_silent_turn_beats_is_warned_about_and_ends_and_what_waited_is_answered() {
    let world = still(QUEUE);
    let chat = world.chat("7");
    starts(&world, &chat, "/hang");
    chat.says("next");
    chat.hears(1);
    let mut expected = 1;
    for minutes in (3..30).step_by(3) {
        world.passes(Duration::from_secs(180));
        expected += if minutes == 15 { 2 } else { 1 };
        let heard = chat.hears(expected);
        assert!(heard.contains(&format!("Still working ({minutes} min).")), "{heard:?}");
        let warned = heard.iter().any(|text| text.starts_with("The agent has been silent for 15 minutes."));
        assert_eq!(warned, minutes >= 15, "{heard:?}");
    }
    world.passes(Duration::from_secs(180));
    let heard = chat.hears(expected + 2);
    assert!(heard[expected].starts_with("The agent was silent for too long"), "{heard:?}");
    assert_eq!(heard[expected + 1], "next");
}

/// A runtime that makes the lane panic once, by a panic where the lane reads its name.
struct Trap {
    armed: AtomicBool,
}

#[test]
fn a_question_of_a_turn_that_broke_with_its_lane_is_not_open_any_more() {
    let trap = Arc::new(Trap { armed: AtomicBool::new(false) });
    let world = with(QUEUE, Setting { runtime: Some(trap.clone()), ..Setting::default() });
    let chat = world.chat("7");
    chat.says("ask");
    assert!(chat.hears(1)[0].contains("May I do this?"));
    trap.armed.store(true, Ordering::SeqCst);
    chat.says("/status");
    chat.hears(3);
    world.settled();
    assert!(world.block_on(world.host().store.open_asks(hermes_core::ids::DeliveryId(0))).unwrap().is_empty());
    let before = chat.heard().len();
    chat.says("/approve");
    assert_eq!(chat.hears(before + 1)[before], "No approvals are pending here.");
}

impl AgentRuntime for Trap {
    fn name(&self) -> &'static str {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "a trap");
        "trap"
    }

    fn models(&self) -> Vec<String> {
        vec!["trap".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            if request.input[0].content == "ask" {
                events
                    .ask(TurnQuestion::Approval(ApprovalRequest {
                        action: "it".to_owned(),
                        ..ApprovalRequest::default()
                    }))
                    .await;
            }
            Deaf.run(request, events, cancel).await
        })
    }
}

#[test]
fn a_lane_that_breaks_is_healed_at_once_and_its_queue_is_served_in_order() {
    let trap = Arc::new(Trap { armed: AtomicBool::new(false) });
    let world = with(QUEUE, Setting { runtime: Some(trap.clone()), ..Setting::default() });
    let chat = world.chat("7");
    starts(&world, &chat, "hang");
    for text in ["one", "two"] {
        waits(&world, chat.says(text));
        world.passes(ms(2_000));
    }
    chat.hears(2);
    trap.armed.store(true, Ordering::SeqCst);
    chat.says("/status");
    let heard = chat.hears(6);
    assert_eq!(heard.iter().filter(|text| text.starts_with("The host failed on this")).count(), 2, "{heard:?}");
    assert_eq!(heard.iter().filter(|text| *text == "one" || *text == "two").collect::<Vec<_>>(), ["one", "two"]);
    world.settled();
    assert!(!world.host().broken.is_cancelled(), "the host goes on");
    chat.says("/status");
    assert!(chat.hears(7)[6].contains("- Now: idle"));
}

#[test]
fn what_waited_is_answered_in_order_after_a_crash_and_interrupts_nothing() {
    let mut world = still("");
    let chat = world.chat("7");
    starts(&world, &chat, "/hang on");
    for text in ["/queue one", "/queue two", "/queue three"] {
        chat.says(text);
    }
    chat.hears(3);
    world.crash();
    world.start();
    runs(&world, 1);
    world.passes(ms(20_000));
    let chat = world.chat("7");
    chat.says("/stop");
    world.until("all are answered", || chat.heard().iter().any(|text| text == "three").then_some(()));
    let mut heard = chat.heard();
    // The length of the interrupted text varies.
    heard.retain(|text| !text.ends_with("(interrupted)"));
    let after = ["Stopped. 3 waiting messages are answered next.", "one", "two", "three"];
    assert_eq!(heard[3..], after, "no receipt is written twice");
}

#[test]
fn what_waits_when_the_host_ends_is_answered_by_the_next_one() {
    let mut world = still(QUEUE);
    let chat = world.chat("7");
    starts(&world, &chat, "/slow 300 first");
    chat.says("second");
    chat.hears(1);
    world.stop();
    world.start();
    assert_eq!(world.chat("7").hears(3)[1..], ["first", "second"]);
    world.settled();
}

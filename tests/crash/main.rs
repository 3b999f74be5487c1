//! Crash tests: the host dies at every named point of the durable path and at two hundred random points.
//!
//! The scripted platform behaves like a real one: it delivers unacknowledged events again. After each crash,
//! every message must be answered, an answer may be repeated only if its send was interrupted, with a mark, and
//! the database must be consistent.

#![forbid(unsafe_code)]

mod sends;

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use hermes_tests::{Chance, Isolation, World, until};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

/// Mark of a repeated answer.
const MARK: &str = "(possibly repeated)";

#[test]
fn a_host_that_dies_after_receiving_has_acknowledged_nothing() {
    dies_at("after_receive", Redelivered::Yes, Copies::One);
}

#[test]
fn a_host_that_dies_after_the_inbox_commit_answers_once_even_when_it_is_told_again() {
    dies_at("after_inbox_commit", Redelivered::Yes, Copies::One);
}

#[test]
fn a_turn_that_was_cut_off_is_run_again_and_answers_once() {
    dies_at("mid_turn", Redelivered::Yes, Copies::One);
}

#[test]
fn a_reply_owed_before_a_crash_arrives_after_it() {
    dies_at("after_owe", Redelivered::Yes, Copies::One);
}

#[test]
fn a_send_that_never_reached_the_platform_arrives_after_the_crash() {
    // The part is claimed but not sent. The host cannot know that, so the repeat is marked.
    dies_at("mid_send", Redelivered::Yes, Copies::OneMarked);
}

#[test]
fn a_send_whose_outcome_was_lost_is_repeated_once_and_marked() {
    dies_at("after_send_before_settle", Redelivered::Yes, Copies::SecondMarked);
}

#[test]
fn an_answer_that_grows_ends_whole_wherever_the_host_dies_over_its_first_piece() {
    // The four points are: not sent, claimed, sent without a receipt, and sent with a receipt. Only a part that
    // may have arrived is marked.
    for (point, marked) in
        [("after_draft", false), ("mid_send", true), ("after_send_before_settle", true), ("after_owe", false)]
    {
        dies_while_it_grows(point, marked);
    }
}

#[test]
fn a_file_that_the_host_dies_over_is_in_the_one_answer_after_it() {
    // A file that is not yet in its row is fetched again.
    for (point, fetches) in [("files_fetched", 2), ("files_kept", 1)] {
        let mut world = World::new(Isolation::Process, &["7"]);
        let chat = world.scripted.chat("7");
        world.environment("HERMES_CRASH_AT", point);
        world.start();
        let mut event = chat.event("look");
        event["attachments"] = json!([{ "kind": "file", "mime": "text/plain", "name": "a.txt", "fetch": "of:abc" }]);
        world.scripted.tell(json!({ "do": "inbound", "event": event }));
        assert_ne!(world.ended(), Some(0), "{point}: the host dies");
        world.clear_environment();
        world.start();
        let answer = chat.hears(1).remove(0);
        assert!(answer.contains("\"a.txt\", text/plain, 3 bytes") && answer.contains("\nabc\n"), "{point}: {answer}");
        chat.says("afterwards");
        let heard = chat.hears(2);
        assert!(heard[1].contains("afterwards"), "{point}: it is answered once: {heard:?}");
        let asked = world.scripted.seen().iter().filter(|saw| saw["saw"] == "fetch").count();
        assert_eq!(asked, fetches, "{point}");
        settled(&world);
        assert_eq!(world.stop(), Some(0), "{point}: the host ends as asked");
        assert_whole(&world);
    }
}

fn dies_while_it_grows(point: &str, marked: bool) {
    const ANSWER: &str = "one two three four five six";
    let mut world = World::new(Isolation::Process, &["7"]);
    world.configure(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\ntest_words = true\n\n\
         [delivery]\npreview_interval_ms = 50\npreview_chars = 1\n\n\
         [adapter.scripted]\nisolation = \"process\"\naccess = { allowed_users = [\"7\"] }\nsocket = \"SOCKET\"\n",
    );
    let chat = world.scripted.chat("7");
    world.environment("HERMES_CRASH_AT", point);
    world.start();
    chat.says(&format!("/slow 60 {ANSWER}"));
    assert_ne!(world.ended(), Some(0), "{point}: the host dies");
    world.clear_environment();
    world.start();
    let last = if marked { format!("{MARK} {ANSWER}") } else { ANSWER.to_owned() };
    world.scripted.wait(&format!("{point}: {last}"), 30, |seen| {
        let said = seen.iter().rev().find(|said| said["saw"] == "send" || said["saw"] == "edit")?;
        (said["outgoing"]["text"] == *last).then_some(())
    });
    settled(&world);
    assert_eq!(world.stop(), Some(0), "{point}: the host ends as asked");
    assert_whole(&world);
}

#[derive(Clone, Copy, PartialEq)]
enum Redelivered {
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Copies {
    /// The platform sees the answer once, without a mark.
    One,
    /// The platform sees the answer once, with a mark.
    OneMarked,
    /// The platform sees the answer twice, the second time with a mark.
    SecondMarked,
}

fn dies_at(point: &str, redelivered: Redelivered, copies: Copies) {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["7"]);
        let chat = world.scripted.chat("7");
        world.environment("HERMES_CRASH_AT", point);
        world.start();
        let event = chat.event("only once");
        world.scripted.tell(json!({ "do": "inbound", "event": event }));
        assert_ne!(world.ended(), Some(0), "{point}: the host dies");
        world.clear_environment();
        world.start();
        if redelivered == Redelivered::Yes {
            world.scripted.tell(json!({ "do": "inbound", "event": event }));
        }
        let expected = if copies == Copies::SecondMarked { 2 } else { 1 };
        chat.hears(expected);
        // The next message is a full round trip, so all pending messages have arrived before its answer.
        chat.says("afterwards");
        until("the next message is answered", 30, || {
            chat.received().iter().any(|text| text.contains("afterwards")).then_some(())
        });
        let answers: Vec<String> = chat.received().into_iter().filter(|text| text.contains("only once")).collect();
        let marked: Vec<bool> = answers.iter().map(|text| text.contains(MARK)).collect();
        let wanted: &[bool] = match copies {
            Copies::One => &[false],
            Copies::OneMarked => &[true],
            Copies::SecondMarked => &[false, true],
        };
        assert_eq!(marked, wanted, "{point}, {isolation:?}: {answers:?}");
        settled(&world);
        assert_eq!(world.stop(), Some(0), "{point}: the host ends as asked");
        assert_whole(&world);
    });
}

#[test]
fn a_conversation_arrives_in_its_chat_wherever_the_host_dies_on_its_way() {
    for point in ["handoff_pending", "handoff_claimed", "handoff_bound", "handoff_owed"] {
        let mut world = World::with(
            "[adapter.scripted]\nisolation = \"process\"\naccess = { allowed_users = [\"7\"] }\nsocket = \"SOCKET\"\n\
             home_channel = \"#g\"\nsession = { merge_ms = 0, require_mention = false }\n",
        );
        world.start();
        let session = world.let_go("boats");
        assert_eq!(world.stop(), Some(0), "{point}");
        world.environment("HERMES_CRASH_AT", point);
        // The script is part of the greeting of each run, because a pending handoff continues before a test
        // could send a command.
        world.scripted.greet(json!({
            "do": "answer", "method": "create_handoff_thread", "answer": { "type": "group", "id": "g", "thread": "t" },
        }));
        world.start();
        world.wait_state("scripted", "online");
        assert_ne!(world.cli(&["handoff", &session, "scripted"]).status.code(), Some(0), "{point}");
        assert_ne!(world.ended(), Some(0), "{point}: the host dies");
        world.clear_environment();
        world.start();
        until(&format!("{point}: it arrives"), 30, || {
            let shown = world.told(&["handoff", "show", &session, "--json"]);
            let shown: Value = serde_json::from_str(&shown).expect("the handoff is JSON");
            (shown["state"] == "completed").then_some(())
        });
        let chat = world.scripted.group("g", "7").thread("t");
        chat.says("and now?");
        until("the next message is answered", 30, || {
            chat.received().iter().any(|text| text.contains("and now?")).then_some(())
        });
        let opened = chat.received().iter().filter(|text| text.contains("was moved to this chat")).count();
        assert_eq!(opened, 1, "{point}: it is opened once: {:?}", chat.received());
        settled(&world);
        assert_eq!(world.stop(), Some(0), "{point}: the host ends as asked");
        assert_whole(&world);
    }
}

#[test]
fn two_hundred_random_kills_under_load_lose_nothing() {
    const KILLS: u64 = 200;
    // A start takes less on a machine with nothing else to do.
    const START_MS: u32 = 250;
    const CHATS: usize = 6;
    let mut world = World::new(Isolation::Process, &["0", "1", "2", "3", "4", "5"]);
    let chats: Vec<_> = (0..CHATS).map(|n| world.scripted.chat(&n.to_string())).collect();
    // Messages that people wrote and the host has not acknowledged, in order, by chat.
    let mut unacknowledged: Vec<Vec<Value>> = vec![Vec::new(); CHATS];
    let mut written: Vec<Vec<String>> = vec![Vec::new(); CHATS];
    let mut chance = Chance::new(1);
    for round in 0..KILLS {
        let began = Instant::now();
        world.start();
        // The slower the machine, the longer a run: otherwise most turns are cut off more often than they are tried.
        let pace = u32::try_from(began.elapsed().as_millis()).map_or(1, |start_ms| (start_ms / START_MS).max(1));
        for (number, chat) in chats.iter().enumerate() {
            if chance.below(2) == 0 {
                let text = format!("round {round} chat {number}.");
                unacknowledged[number].push(chat.event(&text));
                written[number].push(text);
            }
        }
        forget_acknowledged(&world, &mut unacknowledged);
        for event in unacknowledged.iter().flatten() {
            if !world.scripted.try_tell(&json!({ "do": "inbound", "event": event })) {
                break;
            }
        }
        thread::sleep(Duration::from_millis(chance.below(120)) * pace); // poll: the random time of death
        world.kill();
        forget_acknowledged(&world, &mut unacknowledged);
    }
    world.start();
    for event in unacknowledged.iter().flatten() {
        world.scripted.tell(json!({ "do": "inbound", "event": event }));
    }
    settled(&world);
    for (number, chat) in chats.iter().enumerate() {
        let received = chat.received();
        for text in &written[number] {
            let answers: Vec<&String> = received.iter().filter(|answer| answer.contains(text.as_str())).collect();
            let plain = answers.iter().filter(|answer| !answer.contains(MARK)).count();
            assert!(plain <= 1, "an unmarked copy in chat {number}: {answers:?}");
        }
        // The first copies keep the order in which people wrote.
        let firsts: Vec<usize> = written[number]
            .iter()
            .filter_map(|text| received.iter().position(|answer| answer.contains(text.as_str())))
            .collect();
        assert!(firsts.is_sorted(), "chat {number} is answered in order: {received:?}");
    }
    let total: usize = written.iter().map(Vec::len).sum();
    assert!(total > KILLS as usize, "the load was real: {total} messages");
    assert_eq!(world.stop(), Some(0));
    assert_whole(&world);
    // A turn is resumed three times and an uncertain send is repeated once. Messages interrupted more often are
    // closed, visible to the operator. All others must be answered.
    let mut closed = closed_visibly(&world);
    let mut unanswered = 0;
    for (number, chat) in chats.iter().enumerate() {
        let received = chat.received();
        for text in written[number].iter().filter(|text| !received.iter().any(|answer| answer.contains(text.as_str())))
        {
            unanswered += 1;
            let found = closed.iter().position(|said| said.contains(text.as_str()));
            let found = found.or_else(|| closed.iter().position(String::is_empty));
            assert!(found.is_some(), "{text:?} is neither answered nor closed");
            found.map(|at| closed.remove(at));
        }
    }
    assert!(unanswered * 10 <= total, "{unanswered} of {total} were cut off more often than they were tried");
}

/// Waits until no delivery is pending and no turn runs, so that the end of the host leaves no work behind.
fn settled(world: &World) {
    until("everything is settled", 120, || {
        let queues = &world.status()["queues"];
        (["inbox", "turns", "outbox"].iter().all(|queue| queues[queue] == 0)).then_some(())
    });
}

/// Returns the texts of abandoned deliveries, and an empty text for each failed turn.
fn closed_visibly(world: &World) -> Vec<String> {
    let database = open(world);
    let mut closed = Vec::new();
    for sql in ["SELECT markdown FROM outbox WHERE state = 'abandoned'", "SELECT '' FROM turns WHERE state = 'failed'"]
    {
        let mut statement = database.prepare(sql).expect(sql);
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect(sql);
        closed.extend(rows.map(|row| row.expect("a text")));
    }
    closed
}

/// Removes events that the host has acknowledged, like a platform.
fn forget_acknowledged(world: &World, unacknowledged: &mut [Vec<Value>]) {
    let acknowledged: BTreeMap<String, ()> = world
        .scripted
        .seen()
        .iter()
        .filter(|said| said["emitted"].is_object())
        .filter_map(|said| Some((said["event_id"].as_str()?.to_owned(), ())))
        .collect();
    for chat in unacknowledged {
        chat.retain(|event| !acknowledged.contains_key(event["event_id"].as_str().unwrap_or_default()));
    }
}

/// Asserts that the database passes SQLite's integrity check and contains no unfinished work.
fn assert_whole(world: &World) {
    let database = open(world);
    let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("the check runs");
    assert_eq!(verdict, "ok");
    let count = |sql: &str| -> i64 { database.query_row(sql, [], |row| row.get(0)).expect(sql) };
    assert_eq!(count("SELECT count(*) FROM turns WHERE state IN ('queued', 'running')"), 0, "turns left open");
    assert_eq!(count("SELECT count(*) FROM inbox WHERE state IN ('accepted', 'turned')"), 0, "events left open");
    assert_eq!(count("SELECT count(*) FROM outbox WHERE state IN ('drafting', 'owed')"), 0, "deliveries left open");
}

fn open(world: &World) -> Connection {
    Connection::open_with_flags(world.home().join("state.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the database opens")
}

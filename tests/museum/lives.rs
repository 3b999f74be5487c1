//! Hosts and adapters of the current and the next version, in every combination and both isolations.

use hermes_tests::{Chat, Isolation, Scripted, World, until};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::tomorrow::{self, ANSWER};

#[derive(Clone, Copy, PartialEq)]
enum Built {
    Today,
    Tomorrow,
}

impl Built {
    fn adapter(self) -> &'static str {
        match self {
            Self::Today => "scripted",
            Self::Tomorrow => "tomorrow",
        }
    }
}

/// Returns a host with one scripted adapter, both of their version, not started.
fn asleep(host: Built, adapter: Built, isolation: Isolation) -> World {
    let mut world = World::with(&section(adapter.adapter(), isolation, "SOCKET"));
    if adapter == Built::Tomorrow {
        world.install(tomorrow::adapter(), "tomorrow.so");
    }
    if host == Built::Tomorrow {
        world.use_host(tomorrow::host());
    }
    world
}

/// Returns the running world of [`asleep`].
fn world(host: Built, adapter: Built, isolation: Isolation) -> World {
    let mut world = asleep(host, adapter, isolation);
    world.start();
    world.wait_state(adapter.adapter(), "online");
    world
}

fn section(plugin: &str, isolation: Isolation, socket: &str) -> String {
    format!(
        "[adapter.{plugin}]\nisolation = \"{}\"\nsocket = \"{socket}\"\naccess = {{ allowed_users = [\"7\"] }}\n\n",
        isolation.word()
    )
}

/// Tests the abilities of every combination: receive, answer, survive a panic, shut down.
fn lives(world: &mut World) {
    let chat = world.scripted.chat("7");
    chat.says("first");
    assert!(chat.hears(1)[0].contains("first"));

    // An unknown field must not cause an error.
    let mut event = chat.event("second");
    event["tomorrow"] = json!("kept");
    world.scripted.tell(json!({ "do": "inbound", "event": event }));
    assert!(chat.hears(2)[1].contains("second"));

    let lives = world.scripted.lives();
    world.scripted.tell(json!({ "do": "panic_in", "method": "send" }));
    chat.says("third");
    world.scripted.wait_life(lives + 1);
    heard(&chat, "third");
    assert_eq!(world.stop(), Some(0));
}

fn heard(chat: &Chat, word: &str) {
    until(&format!("{word:?} is heard"), 60, || chat.received().iter().any(|text| text.contains(word)).then_some(()));
}

/// Returns the findings of the adapter when it connected.
fn found(world: &World) -> Value {
    world.scripted.wait("the adapter connects", 30, |seen| seen.iter().find(|said| said["saw"] == "connect").cloned())
}

fn logged(world: &World, line: &str) {
    until(&format!("{line:?} is logged"), 30, || world.log().contains(line).then_some(()));
}

#[test]
fn an_adapter_of_tomorrow_lives_in_the_host_of_today() {
    Isolation::both(|isolation| {
        let mut world = world(Built::Today, Built::Tomorrow, isolation);
        logged(&world, "is built with SDK 1.2.0, newer than the SDK 1.1.0 of this host");
        let found = found(&world);
        assert_eq!(found["host_function"], Value::Null, "{found}");
        assert_eq!(found["host_method"], "unsupported", "{found}");
        lives(&mut world);
    });
}

#[test]
fn an_adapter_of_today_lives_in_the_host_of_tomorrow() {
    Isolation::both(|isolation| {
        let mut world = world(Built::Tomorrow, Built::Today, isolation);
        logged(&world, "museum: module None, instance None");
        logged(&world, "museum: scripted answers 2");
        lives(&mut world);
        assert_eq!(world.scripted.sent()[0]["tomorrow"], "1.2", "a field that the adapter does not know");
        assert!(!world.log().contains("newer than the SDK"), "an older adapter is nothing to warn of");
    });
}

#[test]
fn an_adapter_of_tomorrow_finds_what_is_new_in_the_host_of_tomorrow() {
    Isolation::both(|isolation| {
        let mut world = world(Built::Tomorrow, Built::Tomorrow, isolation);
        logged(&world, &format!("museum: module Some({ANSWER}), instance Some({ANSWER})"));
        logged(&world, "museum: tomorrow answers 0 \"the adapter of tomorrow answers\"");
        let found = found(&world);
        // The child process of an isolated adapter runs the same binary, so it has the function too.
        assert_eq!(found["host_function"], ANSWER, "{found}");
        assert_eq!(found["host_method"], "the host of tomorrow answers", "{found}");
        lives(&mut world);
    });
}

#[test]
fn a_field_of_tomorrow_is_kept_today() {
    Isolation::both(|isolation| {
        let mut world = asleep(Built::Today, Built::Tomorrow, isolation);
        // An event stays in the database until it is answered; a host that dies right after the commit leaves
        // it there.
        world.environment("HERMES_CRASH_AT", "after_inbox_commit");
        world.start();
        let mut event = world.scripted.chat("7").event("keep this");
        event["tomorrow"] = json!("kept");
        world.scripted.tell(json!({ "do": "inbound", "event": event }));
        assert_ne!(world.ended(), Some(0), "the host dies");
        let database = world.home().join("state.db");
        let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let stored: String = database.query_row("SELECT event FROM inbox", [], |row| row.get(0)).unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        assert_eq!(stored["tomorrow"], "kept", "{stored}");
    });
}

#[test]
fn an_answer_of_tomorrow_is_a_doubt_today() {
    Isolation::both(|isolation| {
        let mut world = world(Built::Today, Built::Tomorrow, isolation);
        let chat = world.scripted.chat("7");
        world.scripted.answers(json!({ "type": "tomorrow", "note": "it went by dream" }), 1);
        chat.says("did it arrive");
        // The outcome is uncertain, so the message is repeated with a mark.
        let heard = chat.hears(2);
        assert!(heard[1].contains("(possibly repeated)") && heard[1].contains("did it arrive"), "{heard:?}");
        chat.says("and then");
        assert!(chat.hears(3)[2].contains("and then"));
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn adapters_of_today_and_of_tomorrow_live_side_by_side() {
    for host in [Built::Today, Built::Tomorrow] {
        let mut world = World::with("");
        let other = Scripted::listen(world.home().join("other.sock"));
        let head = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n";
        let today = section("scripted", Isolation::InProcess, "SOCKET");
        let tomorrow = section("tomorrow", Isolation::InProcess, &other.path().display().to_string());
        world.configure(&format!("{head}{today}{tomorrow}"));
        world.install(tomorrow::adapter(), "tomorrow.so");
        if host == Built::Tomorrow {
            world.use_host(tomorrow::host());
        }
        world.start();
        other.wait_life(1);
        world.wait_state("scripted", "online");
        world.wait_state("tomorrow", "online");
        let (here, there) = (world.scripted.chat("7"), other.chat("7"));
        here.says("to the one of today");
        there.says("to the one of tomorrow");
        assert!(here.hears(1)[0].contains("to the one of today"));
        assert!(there.hears(1)[0].contains("to the one of tomorrow"));
        assert_eq!(world.stop(), Some(0));
    }
}

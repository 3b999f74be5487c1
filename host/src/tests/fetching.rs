//! Files that are still with their platform when their message arrives.

use hermes_protocol::{Addressed, Attachment, AttachmentKind, Chat, ChatType, Emitted, Event, ReplyTo};
use serde_json::{Value, json};

use super::doubts::written;
use super::world::{Setting, Talk, World};
use crate::engine::attachments::pdf::tests::{page, pages};

/// Creates a world whose platform delivers files on request.
fn world() -> World {
    world_of("")
}

/// Creates the same world with more keys in its section.
fn world_of(more: &str) -> World {
    let mut capabilities = Setting::default().capabilities;
    capabilities["fetch"] = json!(true);
    capabilities["media"] = json!({ "in": true });
    let section = format!("{}\n{more}", Setting::default().section);
    World::with(Setting { capabilities, section, ..Setting::default() })
}

fn away(reference: &str) -> Attachment {
    Attachment::away(reference, AttachmentKind::Image, "image/png", format!("{reference}.png"), 3)
}

/// Returns the event of a message with files, not yet sent.
fn with_files(chat: &Talk<'_>, text: &str, references: &[&str]) -> Event {
    let mut event = chat.event(text);
    event.attachments = references.iter().map(|reference| away(reference)).collect();
    event
}

/// Returns the references that were requested from the platform.
fn asked(world: &World) -> Vec<Value> {
    world.platform.asked("fetch").into_iter().map(|call| call["file"]["fetch"].clone()).collect()
}

/// Sends a message with a file that does not arrive before the test delivers it.
fn sends_slowly(world: &World, chat: &Talk<'_>, text: &str) -> Emitted {
    let before = asked(world).len();
    world.platform.holds_next("fetch");
    let emitted = chat.gives(&with_files(chat, text, &["slow"]));
    world.until("the file is asked for", || (asked(world).len() > before).then_some(()));
    emitted
}

#[test]
fn a_file_is_fetched_for_whoever_may_speak_and_its_turn_begins_with_it() {
    let world = world();
    let (file, path) = written(&world);
    world.platform.answers_to("fetch", json!(away("f1").fetched(file.media.unwrap(), 3)));
    let chat = world.chat("7");
    let event = with_files(&chat, "look", &["f1"]);
    chat.gives(&event);
    let heard = chat.hears(1).remove(0);
    assert!(heard.contains("[attached image \"f1.png\", image/png, 3 bytes]"), "{heard}");
    assert!(!heard.contains(&*world.home().to_string_lossy()), "no folder of this machine is named: {heard}");
    assert!(matches!(chat.gives(&event), Emitted::Duplicate { .. }));
    world.settled();
    assert_eq!(asked(&world), ["f1"], "once");
    assert!(path.exists());
}

#[test]
fn the_text_of_a_file_and_of_a_quoted_file_reaches_the_turn() {
    let world = world();
    let long = "line of a log\n".repeat(20_000);
    let cases: [(&[u8], &str); 4] = [
        (b"name;value\r\nx;1\r\n", "name;value\nx;1\n"),
        (b"\xff\xfeh\0i\0", "\nhi\n"),
        (long.as_bytes(), "enclose the first 8192 bytes of its text. The rest of the text is not available."),
        (b"PK\x03\x04\0\0", ". The content is not text and is not available.]"),
    ];
    for (n, (bytes, expected)) in cases.into_iter().enumerate() {
        let (file, path) = written(&world);
        std::fs::write(&path, bytes).unwrap();
        let size = bytes.len() as u64;
        let asked_for = Attachment::away("f", AttachmentKind::File, "application/octet-stream", "a b.csv", size);
        world.platform.answers_to("fetch", json!(asked_for.clone().fetched(file.media.unwrap(), size)));
        let chat = world.chat("7");
        let mut event = chat.event("look");
        match n % 2 {
            0 => event.attachments = vec![asked_for],
            _ => {
                let mut quoted = ReplyTo::new("m0");
                quoted.attachments = vec![asked_for];
                event.reply_to = Some(quoted);
            }
        }
        let before = chat.heard().len();
        chat.gives(&event);
        chat.hears(before + 1);
        world.settled();
        // A long answer arrives in several parts.
        let heard = chat.heard()[before..].join("");
        let how = ["[attached file \"a b.csv\"", "[quoted file \"a b.csv\""][n % 2];
        assert!(heard.contains(expected) && heard.contains(how), "{heard}");
        assert!(path.exists());
    }
}

#[test]
fn the_text_of_a_pdf_file_reaches_the_turn_and_a_long_one_is_saved_for_tools() {
    let world = world();
    let line = "one line of a long report ".repeat(4_500);
    let cases = [
        (pages(&[page("first page"), page("second page")]), "\nfirst page\n\nsecond page\n", false),
        (pages(&[page(&line)]), "enclose the first 8192 bytes of the text extracted from the PDF file.", true),
        (pages(&[page(""), page("")]), "contains no text; its pages may be scanned images.", false),
    ];
    for (bytes, expected, is_saved) in cases {
        let (file, path) = written(&world);
        std::fs::write(&path, &bytes).unwrap();
        let (id, size) = (file.media.unwrap(), bytes.len() as u64);
        let asked_for = Attachment::away("f", AttachmentKind::File, "application/pdf", "a.pdf", size);
        world.platform.answers_to("fetch", json!(asked_for.clone().fetched(id.clone(), size)));
        let chat = world.chat("7");
        let mut event = chat.event("look");
        event.attachments = vec![asked_for];
        let before = chat.heard().len();
        chat.gives(&event);
        chat.hears(before + 1);
        world.settled();
        let heard = chat.heard()[before..].join("");
        assert!(heard.contains(expected), "{heard}");
        let saved = std::fs::read_to_string(path.with_extension("txt")).ok();
        assert_eq!(saved, is_saved.then(|| line.trim_end().to_owned()));
    }
}

#[test]
fn nobody_asks_for_files_of_strangers_of_what_a_group_says_to_nobody_and_of_commands() {
    let world = world();
    let stranger = world.chat("99");
    stranger.gives(&with_files(&stranger, "look", &["of a stranger"]));
    let group = world.talk(Chat::new(ChatType::Group, "-1"), "7");
    group.gives(&with_files(&group, "look", &["said to nobody"]));
    let chat = world.chat("7");
    chat.gives(&with_files(&chat, "/status", &["behind a command"]));
    chat.hears(1);
    world.settled();
    let mut event = with_files(&group, "look", &["said to the agent"]);
    event.addressed = Addressed::new(true, false, false);
    group.gives(&event);
    group.hears(1);
    world.settled();
    assert_eq!(asked(&world), ["said to the agent"]);
}

#[test]
fn a_file_that_does_not_come_holds_up_its_senders_words_and_nobody_else() {
    let world = world_of("session = { group_sessions_per_user = false }");
    let group = Chat::new(ChatType::Group, "-1");
    let says = |who: &str, text: &str, references: &[&str]| {
        let talk = world.talk(group.clone(), who);
        let mut event = with_files(&talk, text, references);
        event.addressed = Addressed::new(true, false, false);
        talk.gives(&event);
    };
    world.platform.holds_next("fetch");
    says("7", "with a file", &["slow"]);
    world.until("the file is asked for", || (asked(&world).len() == 1).then_some(()));
    says("7", "behind it", &[]);
    says("8", "of another", &[]);
    let seen = world.talk(group.clone(), "8");
    assert_eq!(seen.hears(1), ["[8] of another"]);
    world.chat("8").says("elsewhere");
    assert_eq!(world.chat("8").hears(1), ["elsewhere"]);
    world.platform.gives_held(&json!(away("slow").not_fetched("it is gone")));
    world.settled();
    let heard = seen.heard().join("\n");
    let (file, behind) = (heard.find("with a file"), heard.find("behind it"));
    assert!(file.is_some() && file < behind, "{heard}");
    assert!(heard.contains("not available: it is gone"), "{heard}");
}

#[test]
fn a_stop_gives_up_a_message_whose_file_does_not_come() {
    let world = world();
    let chat = world.chat("7");
    sends_slowly(&world, &chat, "with a file");
    chat.says("/stop");
    assert_eq!(chat.hears(1), ["Stopped."]);
    world.settled();
    chat.says("what now");
    assert_eq!(chat.hears(2)[1], "what now");
    world.settled();
    assert_eq!(chat.heard().len(), 2, "what was stopped is not answered");
}

#[test]
fn a_message_whose_file_is_on_its_way_is_told_to_wait_and_can_be_withdrawn() {
    let world = world();
    let chat = world.chat("7");
    let Emitted::New { inbox_id } = sends_slowly(&world, &chat, "with a file") else { panic!("it is new") };
    let about = json!({ "inbox_id": inbox_id });
    assert_eq!(world.call("turns.status", about.clone()).unwrap()["state"], "queued");
    world.call("turns.stop", about).unwrap();
    world.settled();
    assert_eq!(chat.heard(), Vec::<String>::new());
}

#[test]
fn what_the_host_dies_over_while_a_file_comes_is_fetched_again_and_answered_once() {
    let mut world = world();
    sends_slowly(&world, &world.chat("7"), "look");
    world.crash();
    world.start_with(false);
    assert_eq!(asked(&world).len(), 1, "nobody is asked who has no link");
    let (file, path) = written(&world);
    world.platform.answers_to("fetch", json!(away("slow").fetched(file.media.unwrap(), 3)));
    world.set_online(true);
    let heard = world.chat("7").hears(1);
    assert!(heard[0].contains("\"slow.png\", image/png, 3 bytes]"), "{heard:?}");
    world.settled();
    assert_eq!(world.chat("7").heard().len(), 1);
    assert_eq!(asked(&world), ["slow", "slow"]);
    assert!(path.exists());
}

#[test]
fn what_was_fetched_stands_in_the_inbox_for_the_next_life_of_the_host() {
    let mut world = world();
    let (file, path) = written(&world);
    world.platform.answers_to("fetch", json!(away("f1").fetched(file.media.clone().unwrap(), 3)));
    let chat = world.chat("7");
    chat.says("/hang on");
    let running = || world.host().counts.turns_running.load(std::sync::atomic::Ordering::Relaxed);
    world.until("a turn runs", || (running() == 1).then_some(()));
    chat.gives(&with_files(&chat, "/queue look", &["f1"]));
    let in_use = || world.block_on(world.host().store.media_in_use()).unwrap();
    world.until("its row names the file", || in_use().contains(file.media.as_ref().unwrap()).then_some(()));
    world.crash();
    world.start();
    world.chat("7").says("/stop");
    let about = "\"f1.png\", image/png, 3 bytes]";
    world.until("it is answered", || world.chat("7").heard().iter().any(|text| text.contains(about)).then_some(()));
    assert_eq!(asked(&world), ["f1"], "once");
    assert!(path.exists());
}

#[test]
fn what_cannot_be_had_is_missing_with_its_reason_and_the_turn_goes_on() {
    let world = world();
    let chat = world.chat("7");
    let answers = [
        (json!(away("f").not_fetched("it was deleted")), "not available: it was deleted"),
        (
            json!(away("f").fetched("../../etc/passwd", 3)),
            "not available: its adapter wrote it outside the media folder",
        ),
        (json!({ "kind": "image" }), "not available: its adapter did not fetch it"),
        (json!("nonsense"), "not available: the answer of the adapter cannot be read"),
    ];
    for (n, (answer, note)) in answers.into_iter().enumerate() {
        world.platform.answers_to("fetch", answer);
        chat.gives(&with_files(&chat, "look", &["f"]));
        let mut heard = chat.hears(2 * (n + 1));
        let (heard, notice) = (heard.pop().unwrap(), heard.pop().unwrap());
        assert!(notice.starts_with("I could not receive"), "{notice}");
        assert!(heard.contains("[attached image \"f.png\", image/png, 3 bytes; ") && heard.contains(note), "{heard}");
    }
    let mut event = chat.event("look");
    event.attachments = vec![Attachment::away("long".repeat(1_000), AttachmentKind::Image, "", "", 0)];
    chat.gives(&event);
    assert!(chat.hears(10)[9].contains("is longer than 2048 bytes"));
    assert_eq!(asked(&world).len(), 4, "what is too long is asked of nobody");
}

#[test]
fn an_adapter_that_does_not_declare_it_is_not_asked() {
    let world = World::new();
    let chat = world.chat("7");
    chat.gives(&with_files(&chat, "look", &["f"]));
    assert!(chat.hears(2)[1].contains("not available: its adapter cannot fetch files"));
    assert_eq!(asked(&world), Vec::<Value>::new());
}

#[test]
fn the_parts_of_an_album_are_one_message_with_all_its_files_in_order() {
    let world = world();
    let chat = world.chat("7");
    let part = |text: &str, reference: &str| with_files(&chat, text, &[reference]).in_album("G1");
    world.platform.holds_next("fetch");
    world.platform.holds_next("fetch");
    chat.gives(&part("three", "a"));
    world.until("the first is asked for", || (asked(&world).len() == 1).then_some(()));
    chat.gives(&part("", "b"));
    world.until("both are asked for", || (asked(&world).len() == 2).then_some(()));
    world.platform.answers_to("fetch", json!(away("c").not_fetched("c is gone")));
    chat.gives(&part("", "c"));
    world.platform.gives_held(&json!(away("a").not_fetched("a is gone")));
    world.platform.gives_held(&json!(away("b").not_fetched("b is gone")));
    let heard = chat.hears(2).remove(1);
    let found: Vec<_> = ["three", "a is gone", "b is gone", "c is gone"].map(|words| heard.find(words)).to_vec();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{heard}");
    world.settled();
    assert_eq!(chat.heard().len(), 2, "one notice about all of them, and one answer");
}

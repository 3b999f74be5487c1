//! Growing answers: their intermediate and final states in a chat.

use hermes_tests::{Isolation, World};
use serde_json::{Value, json};

const QUESTION: &str = "/slow 60 one two three four five six seven eight";
const ANSWER: &str = "one two three four five six seven eight";

#[test]
fn an_answer_grows_in_one_message_and_ends_as_the_whole() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        let chat = world.scripted.chat("7");
        chat.says(QUESTION);
        shows(&world, ANSWER);
        let first = &chat.received()[0];
        assert!(ANSWER.starts_with(first.as_str()) && first != ANSWER, "it began with a piece: {first:?}");
        assert_eq!(chat.received().len(), 1, "one message, whatever it grew to");
        assert!(pieces(&world).iter().all(|piece| ANSWER.starts_with(piece.as_str())), "{:?}", pieces(&world));
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn a_platform_that_asks_to_wait_sees_the_answer_whole_after_it_and_once() {
    let mut world = world(Isolation::InProcess);
    let wait = json!({ "type": "not_sent", "retry_after_ms": 700, "scope": "chat" });
    world.scripted.tell(json!({ "do": "outcome", "for": "edit", "outcome": wait, "times": 1 }));
    world.scripted.chat("7").says(QUESTION);
    shows(&world, ANSWER);
    assert_eq!(world.scripted.chat("7").received().len(), 1, "and no second copy");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_stopped_answer_ends_as_interrupted() {
    let mut world = world(Isolation::InProcess);
    let chat = world.scripted.chat("7");
    chat.says(&format!("/hang {ANSWER}"));
    chat.hears(1);
    chat.says("/stop");
    shows(&world, &format!("{ANSWER}\n\n(interrupted)"));
    assert!(chat.hears(2)[1].contains("Stopped"));
    assert_eq!(world.stop(), Some(0));
}

fn world(isolation: Isolation) -> World {
    let mut world = World::new(isolation, &["7"]);
    world.configure(&format!(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\ntest_words = true\n\n\
         [delivery]\npreview_interval_ms = 50\npreview_chars = 1\n\n\
         [adapter.scripted]\nisolation = \"{}\"\naccess = {{ allowed_users = [\"7\"] }}\nsocket = \"SOCKET\"\n",
        isolation.word()
    ));
    world.start();
    world
}

/// Waits until the text of the last edit is exactly this.
fn shows(world: &World, text: &str) {
    world.scripted.wait(text, 30, |seen| (edits(seen).last()? == text).then_some(()));
}

fn pieces(world: &World) -> Vec<String> {
    edits(&world.scripted.seen())
}

fn edits(seen: &[Value]) -> Vec<String> {
    let edits = seen.iter().filter(|said| said["saw"] == "edit");
    edits.map(|said| said["outgoing"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

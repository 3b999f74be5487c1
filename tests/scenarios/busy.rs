//! Messages that arrive while the agent is busy, across the library boundary and across a crash.

use hermes_tests::{Chat, Isolation, World, until};

/// Returns a world with a model that can hang, in which messages queue.
fn world(isolation: Isolation) -> World {
    let mut world = World::new(isolation, &["7"]);
    world.configure(&format!(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\ntest_words = true\n\n\
         [delivery]\npreview_interval_ms = 50\npreview_chars = 1\n\n\
         [adapter.scripted]\nisolation = \"{}\"\naccess = {{ allowed_users = [\"7\"] }}\nsocket = \"SOCKET\"\n\
         session = {{ busy = \"queue\", merge_ms = 0, continuation_ms = 0 }}\n",
        isolation.word()
    ));
    world.start();
    world
}

/// Waits until the host has acknowledged this number of events.
fn taken(world: &World, count: usize) {
    world.scripted.wait("the events are taken", 20, |seen| {
        (seen.iter().filter(|said| said["emitted"].is_object()).count() >= count).then_some(())
    });
}

/// Returns the answers without receipts and without the answers of commands.
fn answers(chat: &Chat) -> Vec<String> {
    let is_answer = |text: &String| text.contains("message ");
    chat.received().into_iter().filter(is_answer).collect()
}

#[test]
fn what_waits_behind_a_model_that_hangs_outlives_a_kill_and_is_answered_once_each_in_order() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        let chat = world.scripted.chat("7");
        chat.says("/hang on");
        until("the turn runs", 20, || (world.status()["queues"]["turns"] == 1).then_some(()));
        for number in 0..6 {
            chat.says(&format!("message {number}."));
        }
        taken(&world, 7);
        world.kill();
        world.start();
        until("the turn is resumed", 20, || (world.status()["queues"]["turns"] == 1).then_some(()));
        chat.says("/stop");
        let answers = until("all are answered", 20, || Some(answers(&chat)).filter(|answers| answers.len() >= 6));
        let expected: Vec<String> = (0..6).map(|number| format!("message {number}.")).collect();
        assert_eq!(answers, expected, "{isolation:?}");
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn a_half_answer_is_never_the_last_thing_seen_after_a_kill() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        let chat = world.scripted.chat("7");
        chat.says("/hang one two three");
        chat.hears(1);
        world.kill();
        world.start();
        until("the turn is resumed", 20, || (world.status()["queues"]["turns"] == 1).then_some(()));
        chat.says("/stop");
        world.scripted.wait("the answer ends as interrupted", 30, |seen| {
            let last = seen.iter().rev().find(|said| {
                matches!(said["saw"].as_str(), Some("send" | "edit"))
                    && said["outgoing"]["text"].as_str().is_some_and(|text| text.contains("one two"))
            })?;
            last["outgoing"]["text"].as_str()?.ends_with("(interrupted)").then_some(())
        });
        assert_eq!(world.stop(), Some(0));
    });
}

//! Deaths of the host or the adapter process during the same send, once and repeatedly.
//!
//! Such deaths lose no answer: each one is repeated with a mark. Only a message that ends its adapter whenever
//! it alone is in flight is abandoned, and its chat gets a notice.

use hermes_tests::{Isolation, World, until};
use serde_json::json;

use super::{MARK, assert_whole, open, settled};

const CHATS: usize = 10;

/// Cause of death during a send.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// kill -9 of the host.
    Kill,
    /// SIGTERM: the host shuts down while the send hangs.
    Stop,
    /// kill -9 of the adapter process.
    Child,
}

/// Returns a world with short waits, in which ten people may write.
fn world(isolation: Isolation) -> World {
    let world = World::with("");
    let allowed = (0..CHATS).map(|id| format!("\"{id}\"")).collect::<Vec<_>>().join(", ");
    world.configure(&format!(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\ndrain_s = 1\nadapter_stop_s = 1\n\
         adapter_backoff_ms = 20\nadapter_backoff_s_max = 1\n\n[agent]\nruntime = \"echo\"\n\n\
         [delivery]\nbackoff_ms = 20\nbackoff_s_max = 1\n\n\
         [adapter.scripted]\nisolation = \"{}\"\naccess = {{ allowed_users = [{allowed}], operators = [{allowed}] }}\n\
         socket = \"SOCKET\"\nsession = {{ busy = \"queue\", merge_ms = 0, receipts = false }}\n",
        isolation.word()
    ));
    world
}

/// Returns the number of sends that the platform has seen.
fn sends(world: &World) -> usize {
    world.scripted.seen().iter().filter(|said| said["saw"] == "send").count()
}

/// Returns the reasons of the abandoned deliveries.
fn given_up(world: &World) -> Vec<String> {
    let database = open(world);
    let mut statement = database.prepare("SELECT why FROM outbox WHERE state = 'abandoned'").expect("a statement");
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("the tables are known");
    rows.map(|row| row.expect("a text")).collect()
}

/// Causes `deaths`, each during a send; afterwards all calls succeed.
fn dies(world: &mut World, chats: usize, deaths: &[Death]) {
    world.scripted.greet(json!({ "do": "hang_in", "method": "send" }));
    for _ in 1..chats {
        world.scripted.greet(json!({ "do": "hang_in", "method": "send" }));
    }
    world.start();
    let mut in_flight = chats;
    for chat in 0..chats {
        world.scripted.chat(&chat.to_string()).says(&format!("question {chat}."));
    }
    let mut before = 0;
    for (number, death) in deaths.iter().enumerate() {
        until(&format!("{in_flight} sends are in flight, {death:?}"), 60, || {
            (sends(world) >= before + in_flight).then_some(())
        });
        before = sends(world);
        if number + 1 == deaths.len() {
            world.scripted.forget_greetings();
        }
        let lives = world.scripted.lives();
        match death {
            Death::Kill => {
                world.kill();
                world.start();
            }
            Death::Stop => {
                world.stop();
                world.start();
            }
            Death::Child => {
                world.kill_children();
                world.scripted.wait_life(lives + 1);
            }
        }
        // The interrupted part is repeated alone.
        in_flight = 1;
    }
}

fn all_arrive(isolation: Isolation, chats: usize, deaths: &[Death]) {
    let mut world = world(isolation);
    dies(&mut world, chats, deaths);
    settled(&world);
    assert_eq!(given_up(&world), Vec::<String>::new(), "{isolation:?}, {deaths:?}");
    for chat in 0..chats {
        let heard = world.scripted.chat(&chat.to_string()).received();
        let last = heard.last().expect("the answer arrives");
        assert!(
            last.contains(MARK) && last.contains(&format!("question {chat}.")),
            "{isolation:?}, {deaths:?}: {heard:?}"
        );
    }
    assert_eq!(world.stop(), Some(0));
    assert_whole(&world);
}

#[test]
fn ten_of_ten_answers_arrive_marked_after_two_and_three_deaths_of_the_host() {
    Isolation::both(|isolation| {
        all_arrive(isolation, CHATS, &[Death::Kill, Death::Kill]);
        all_arrive(isolation, 1, &[Death::Kill, Death::Kill, Death::Kill]);
    });
}

#[test]
fn an_answer_arrives_marked_after_stops_during_its_send() {
    Isolation::both(|isolation| {
        all_arrive(isolation, 1, &[Death::Stop, Death::Stop]);
        all_arrive(isolation, 2, &[Death::Stop, Death::Kill, Death::Stop]);
    });
}

#[test]
fn ten_of_ten_answers_arrive_marked_after_two_deaths_of_the_process_of_the_adapter() {
    all_arrive(Isolation::Process, CHATS, &[Death::Child, Death::Child]);
    all_arrive(Isolation::Process, 1, &[Death::Kill, Death::Child, Death::Kill]);
}

#[test]
fn an_answer_that_was_interrupted_six_times_is_given_up_and_its_chat_learns_of_it() {
    let mut world = world(Isolation::Process);
    dies(&mut world, 1, &[Death::Kill; 6]);
    settled(&world);
    assert!(given_up(&world)[0].starts_with("interrupted too often"), "{:?}", given_up(&world));
    // Six attempts, then the notice.
    let heard = world.scripted.chat("0").hears(7);
    assert!(heard[6].contains("hermes-host outbox retry"), "{heard:?}");
    settled(&world);
    assert!(world.log().contains("not delivered"), "the log names it");
    assert_eq!(world.stop(), Some(0));
    assert_whole(&world);
}

#[test]
fn one_message_that_breaks_the_adapter_costs_at_most_three_deaths_and_no_other_answer() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        world.scripted.greet(json!({ "do": "abort_on", "text": "poison" }));
        world.start();
        // Nine answers are in flight when the tenth ends the process.
        let receipt = json!({ "message_ids": ["m"], "at_ms": 1 });
        let slow = json!({ "type": "delivered", "receipt": receipt });
        let line = json!({ "do": "outcome", "for": "send", "outcome": slow, "times": CHATS - 1, "delay_ms": 60_000 });
        world.scripted.tell(line);
        for chat in 1..CHATS {
            world.scripted.chat(&chat.to_string()).says(&format!("question {chat}."));
        }
        until("nine sends are in flight", 30, || (sends(&world) == CHATS - 1).then_some(()));
        world.scripted.chat("0").says("poison");
        until("everything is settled", 90, || {
            if !world.runs() {
                world.forget_ended();
                world.launch();
            }
            let told = world.told_if_up(&["status", "--json"])?;
            let status: serde_json::Value = serde_json::from_str(&told).ok()?;
            let queues = &status["queues"];
            (["inbox", "turns", "outbox"].iter().all(|queue| queues[queue] == 0)).then_some(())
        });
        let deaths = world.scripted.lives() - 1;
        assert!(deaths <= 3, "{isolation:?}: {deaths} deaths");
        let why = given_up(&world);
        assert!(matches!(why.as_slice(), [why] if why.starts_with("breaks the adapter")), "{isolation:?}: {why:?}");
        for chat in 1..CHATS {
            let heard = world.scripted.chat(&chat.to_string()).received();
            let arrived = heard.last().is_some_and(|last| last.contains(&format!("question {chat}.")));
            assert!(arrived, "{isolation:?}: {heard:?}");
        }
        until("its chat learns of it", 30, || {
            let heard = world.scripted.chat("0").received();
            heard.last().is_some_and(|said| said.contains("hermes-host outbox retry")).then_some(())
        });
        settled(&world);
        assert_eq!(world.stop(), Some(0));
        assert_whole(&world);
    });
}

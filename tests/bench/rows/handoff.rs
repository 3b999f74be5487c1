//! Handoff of a conversation: time until the host has claimed it, and until its first message is delivered.

use std::{thread, time::Instant};

use hermes_host::engine::operator::{ControlReply, ControlRequest};
use hermes_host::surface::control::Client;
use hermes_tests::{Isolation, World};
use serde_json::json;

use super::{ECHO, HEAD, ms, percentile, scripted};
use crate::Measured;

/// Number of handoffs.
const HANDOFFS: usize = 50;

/// Measures the time from the request on the control socket until the platform is asked for a thread. Includes
/// validation, storage and claim.
pub fn handoff() -> Vec<Measured> {
    let row = |isolation: Isolation| {
        let mut times: Vec<f64> = times(isolation).into_iter().map(|(claimed, _)| claimed).collect();
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        Measured::new(isolation.word(), format!("p50 {p50:.2} ms, p99 {p99:.2} ms"), p50 <= 20.0)
    };
    Isolation::BOTH.into_iter().map(row).collect()
}

/// Measures the time from the request until the first message of the conversation is in its chat. Includes the
/// thread, the route, a turn of the echo runtime and the delivery.
pub fn handoff_to_text() -> Vec<Measured> {
    let row = |isolation: Isolation| {
        let mut times: Vec<f64> = times(isolation).into_iter().map(|(_, text)| text).collect();
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        Measured::new(isolation.word(), format!("p50 {p50:.2} ms, p99 {p99:.2} ms"), None)
    };
    Isolation::BOTH.into_iter().map(row).collect()
}

/// Returns the time until the claim and until the first message for each handoff, in milliseconds.
fn times(isolation: Isolation) -> Vec<(f64, f64)> {
    let mut world = World::with("");
    world.configure(&format!(
        "{HEAD}{ECHO}{}",
        scripted(
            "scripted",
            isolation,
            "socket = \"SOCKET\"\nhome_channel = \"#g\"\naccess = { allowed_users = [\"7\"] }"
        )
    ));
    world.start();
    world.wait_state("scripted", "online");
    let session = world.let_go("boats");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut client = runtime.block_on(Client::connect(&world.home())).expect("the host is there");
    let request = ControlRequest::Handoff { session, instance: "scripted".to_owned(), wait_ms: 30_000 };
    let chat = world.scripted.group("g", "7").thread("t");
    let mut times = Vec::with_capacity(HANDOFFS);
    for n in 1..=HANDOFFS {
        world.scripted.tell(json!({
            "do": "answer", "method": "create_handoff_thread", "answer": { "type": "group", "id": "g", "thread": "t" },
        }));
        let heard = chat.received().len();
        thread::scope(|scope| {
            let started = Instant::now();
            let asked = scope.spawn(|| runtime.block_on(client.ask(&request)));
            world.scripted.wait("a thread is asked for", 30, |seen| {
                (seen.iter().filter(|said| said["saw"] == "create_handoff_thread").count() == n).then_some(())
            });
            let claimed = ms(started.elapsed());
            chat.hears(heard + 1);
            times.push((claimed, ms(started.elapsed())));
            match asked.join().expect("the client does not break") {
                Ok(ControlReply::Handoff { handoff }) => assert_eq!(handoff.state, "completed"),
                other => panic!("{other:?} is no handoff"),
            }
        });
        let heard = chat.received().len();
        chat.says("/return");
        chat.hears(heard + 1);
    }
    world.stop();
    times
}

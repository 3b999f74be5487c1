//! A library that crashes the host: the next start names it and runs it in a separate process.

use hermes_tests::{Isolation, World, artefacts};
use serde_json::json;

/// Starts the host again. The library that crashed it runs in a separate process, reports the reason, and
/// works.
fn comes_back(world: &mut World, why: &str) {
    assert_ne!(world.ended(), Some(0), "the library ends the host");
    world.start();
    let adapter = world.wait_state("scripted", "online");
    assert_eq!(adapter["isolation"], "process", "{adapter}");
    let reason = adapter["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("ended the host") && reason.contains(why), "{adapter}");
    assert!(world.log().contains("ended the previous run of the host"), "{}", world.log());
}

#[test]
fn a_library_that_crashes_while_it_sends_runs_outside_from_then_on() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    assert_eq!(world.wait_state("scripted", "online")["isolation"], "in-process");
    let chat = world.scripted.chat("7");
    world.scripted.tell(json!({ "do": "abort_in", "method": "send" }));
    chat.says("this ends it");
    comes_back(&mut world, "signal 6");
    assert!(chat.hears(1)[0].contains("this ends it"));

    // The isolation outlasts one restart, and an orderly stop blames no other library.
    assert_eq!(world.stop(), Some(0));
    world.start();
    assert_eq!(world.wait_state("scripted", "online")["isolation"], "process");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_library_that_crashes_at_every_start_ends_the_host_once() {
    let mut world = World::with("");
    world.configure(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\nisolation = \"in-process\"\n\n[agent]\nruntime = \"echo\"\n\n\
         [adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n\n\
         [adapter.hostile]\nmode = \"abort_in_create\"\n",
    );
    world.install(&artefacts().fixture("hostile"), "hostile.so");
    world.launch();
    assert_ne!(world.ended(), Some(0));
    world.start();
    world.wait_state("hostile", "reconnecting");
    assert_eq!(world.wait_state("scripted", "online")["isolation"], "in-process", "the other one is not to blame");
    assert!(world.log().contains("ended the previous run of the host"), "{}", world.log());
    assert_eq!(world.stop(), Some(0), "the host outlives it");
}

#[test]
fn a_host_that_is_killed_blames_no_library() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    world.kill();
    world.start();
    let adapter = world.wait_state("scripted", "online");
    assert_eq!(adapter["isolation"], "in-process", "{adapter}");
    assert_eq!(world.stop(), Some(0));
}

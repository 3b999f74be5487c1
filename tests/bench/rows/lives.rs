//! Long-term costs: many sessions, many messages, and recovery after a crash.

use std::{
    thread,
    time::{Duration, Instant},
};

use hermes_tests::{Isolation, World, until};

use super::{HEAD, mib, ms, scripted, way::flood};
use crate::{Measured, process};

/// Measures the memory of ten thousand idle conversations.
pub fn idle_sessions() -> Vec<Measured> {
    let mut small = flood(Isolation::Process, 64, 640).world;
    let before = process::pss_kib(small.pid());
    small.stop();
    let mut world = flood(Isolation::Process, 10_000, 10_000).world;
    // Session tasks end one minute after their last message, and the sweep one minute later releases their
    // memory.
    let deadline = Instant::now() + Duration::from_secs(200);
    let mut quiet = process::pss_kib(world.pid());
    while quiet >= before + 20 * 1024 && Instant::now() < deadline {
        thread::sleep(Duration::from_secs(1)); // poll
        quiet = process::pss_kib(world.pid());
    }
    world.stop();
    let more = mib(quiet.saturating_sub(before));
    vec![Measured::new("after one message each", format!("{more:.1} MB more"), more <= 20.0)]
}

/// Measures recovery: a hundred hanging turns, kill -9, then the next host answers a new person.
pub fn recovery() -> Vec<Measured> {
    let mut world = World::with("");
    let section = scripted("scripted", Isolation::InProcess, "socket = \"SOCKET\"\naccess = { allow_all = true }");
    world.configure(&format!("{HEAD}[agent]\nruntime = \"echo\"\ntest_words = true\n\n{section}"));
    world.start();
    world.wait_state("scripted", "online");
    for n in 0..100 {
        world.scripted.chat(&format!("c{n}")).says("/hang");
    }
    until("a hundred turns run", 60, || (world.status()["queues"]["turns"] == 100).then_some(()));
    world.kill();
    let lives = world.scripted.lives();
    let started = Instant::now();
    world.launch();
    world.scripted.wait_life(lives + 1);
    let chat = world.scripted.chat("somebody new");
    chat.says("are you there?");
    until("somebody new is answered", 60, || (!chat.received().is_empty()).then_some(()));
    let took = ms(started.elapsed());
    world.kill();
    vec![Measured::new("until a new chat is answered", format!("{took:.0} ms"), took <= 1000.0)]
}

/// Measures growth of memory and descriptors with the number of messages.
pub fn flat() -> Vec<Measured> {
    let mut world = flood(Isolation::InProcess, 64, 10_000).world;
    let small = (mib(process::pss_kib(world.pid())), process::descriptors(world.pid()));
    world.stop();
    let mut world = flood(Isolation::InProcess, 64, 100_000).world;
    let large = (mib(process::pss_kib(world.pid())), process::descriptors(world.pid()));
    world.stop();
    let flat = large.0 <= small.0 * 1.25 + 1.0 && large.1 <= small.1 + 4;
    vec![Measured::new(
        "after 10,000 and after 100,000",
        format!("{:.1} and {:.1} MB, {} and {} descriptors", small.0, large.0, small.1, large.1),
        flat,
    )]
}

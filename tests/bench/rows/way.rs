//! The path of a message: its cost, its latency and its throughput.

use std::{
    thread,
    time::{Duration, Instant},
};

use hermes_tests::{Isolation, World};

use super::{ECHO, HEAD, memory::with_telegram, ms, percentile, progress, scripted};
use crate::{Measured, bot_api::BotApi, process};

/// Interval between two messages in the rows with 100 messages per second.
const EVERY: Duration = Duration::from_millis(10);
/// Number of messages in the rows with 100 messages per second.
const EVENTS: usize = 1000;
/// Number of chats that write in turn.
const CHATS: usize = 64;

/// Returns the agent section for a model at `api`.
fn model(api: &BotApi) -> String {
    format!("[agent]\nruntime = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\napi_key = \"k\"\n\n", api.base())
}

/// Measures the processor time of the host and its children for the whole path, with a model over HTTP.
pub fn cpu_per_message() -> Vec<Measured> {
    const MESSAGES: u64 = 1000;
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let api = BotApi::start();
        let mut world = with_telegram(&api, isolation, &model(&api));
        world.launch();
        world.wait_state("telegram", "online");
        for n in 0..50 {
            api.push(n % 16, "warm up");
        }
        api.wait_sent(50);
        let before = process::cpu(world.pid());
        for n in 0..MESSAGES {
            api.push(n % 16, "how much does a message cost?");
            // The load is steady: the cost of one message at a time, without a backlog.
            if n % 16 == 15 {
                api.wait_sent(50 + n + 1);
            }
        }
        api.wait_sent(50 + MESSAGES);
        let each = ms(process::cpu(world.pid()) - before) / MESSAGES as f64;
        world.stop();
        measured.push(Measured::new(
            format!("{}, openai runtime, 16 chats", isolation.word()),
            format!("{each:.2} ms"),
            each <= 0.6,
        ));
    }
    measured
}

/// Returns an online host with the scripted adapter.
fn talking(isolation: Isolation, agent: &str) -> World {
    let mut world = World::with("");
    world.configure(&format!(
        "{HEAD}{agent}{}",
        scripted("scripted", isolation, "socket = \"SOCKET\"\naccess = { allow_all = true }")
    ));
    world.start();
    world.wait_state("scripted", "online");
    world
}

/// Measures the time from a message of a person until the runtime sends its request to the model.
pub fn latency_to_the_runtime() -> Vec<Measured> {
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let api = BotApi::start();
        let mut world = talking(isolation, &model(&api));
        let mut times = Vec::with_capacity(EVENTS);
        for n in 0..EVENTS + CHATS {
            let chat = world.scripted.chat(&format!("c{}", n % CHATS));
            let started = Instant::now();
            chat.says("how long does it take?");
            let asked = api.wait_asked(n + 1);
            // The first message of each chat creates its session and task, so it is not counted.
            if n >= CHATS {
                times.push(ms(asked - started));
            }
            chat.hears(n / CHATS + 1);
            thread::sleep((started + EVERY).saturating_duration_since(Instant::now())); // poll: keeps the rate
        }
        world.stop();
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        measured.push(Measured::new(
            isolation.word(),
            format!("p50 {p50:.2} ms, p99 {p99:.2} ms"),
            p50 <= 2.0 && p99 <= 10.0,
        ));
    }
    measured
}

/// Measures the time from a message of a person until the platform has the answer. The echo runtime adds no
/// latency.
pub fn latency() -> Vec<Measured> {
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let mut world = talking(isolation, ECHO);
        let mut times = Vec::with_capacity(EVENTS);
        for n in 0..EVENTS {
            let chat = world.scripted.chat(&format!("c{}", n % CHATS));
            let started = Instant::now();
            chat.says("how long does it take?");
            chat.hears(n / CHATS + 1);
            times.push(ms(started.elapsed()));
            thread::sleep((started + EVERY).saturating_duration_since(Instant::now())); // poll: keeps the rate
        }
        world.stop();
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        measured.push(Measured::new(isolation.word(), format!("p50 {p50:.2} ms, p99 {p99:.2} ms"), None));
    }
    measured
}

/// The result of the load generator.
pub(super) struct Flooded {
    /// The running host.
    pub world: World,
    /// Answered messages per second, as counted by the adapter.
    pub per_second: f64,
    /// Messages that were emitted again because the host's queue was full.
    pub refused: u64,
    /// Processor time per message of host and children since the start of the host, in milliseconds.
    pub cpu_ms: f64,
}

/// Runs the load generator with `messages` in total and at most eight in flight per chat. The adapter reports
/// the last answer, so that no other process polls the host during the measurement.
pub(super) fn flood(isolation: Isolation, chats: u64, messages: u64) -> Flooded {
    let mut world = World::with("");
    let flood = format!(
        "socket = \"SOCKET\"\nflood = {{ chats = {chats}, messages = {messages}, window = 8 }}\naccess = {{ allow_all = true }}"
    );
    world.configure(&format!("{HEAD}{ECHO}{}", scripted("scripted", isolation, &flood)));
    world.launch();
    let (took_us, refused) = world.scripted.wait("the flood is answered", 300, |seen| {
        let report = seen.iter().find(|said| said["saw"] == "flood")?;
        Some((report["took_us"].as_f64()?, report["refused"].as_u64()?))
    });
    let cpu_ms = ms(process::cpu(world.pid())) / messages as f64;
    let per_second = messages as f64 / (took_us / 1e6);
    progress(format_args!("{} messages: {per_second:.0}/s, {cpu_ms:.3} ms of processor each", messages));
    Flooded { world, per_second, refused, cpu_ms }
}

/// Measures throughput: inbox commit, echo turn and outbox settlement, with every fsync.
pub fn throughput() -> Vec<Measured> {
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let Flooded { mut world, per_second, refused, cpu_ms } = flood(isolation, 64, 40_000);
        world.stop();
        let again = if refused > 0 { format!(", {refused} offered again") } else { String::new() };
        measured.push(Measured::new(
            format!("{}, synchronous=FULL", isolation.word()),
            format!("{per_second:.0} events/s, {cpu_ms:.3} ms of processor each, adapter included{again}"),
            per_second >= 10_000.0,
        ));
    }
    measured
}

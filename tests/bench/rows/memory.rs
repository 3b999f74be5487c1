//! Start time, and memory of an idle host.

use std::time::Instant;

use hermes_tests::{Isolation, World};

use super::{ECHO, HEAD, median, mib, ms, scripted};
use crate::{Measured, bot_api::BotApi, process};

/// Measures the time from the start of the process until `connect` of every adapter was called.
pub fn start() -> Vec<Measured> {
    let mut measured = Vec::new();
    for (count, budget_ms) in [(1, 30.0), (12, 120.0)] {
        for isolation in Isolation::BOTH {
            let sections: String =
                (0..count).map(|n| scripted(&format!("s{n}"), isolation, "socket = \"SOCKET\"")).collect();
            let mut world = World::with("");
            world.configure(&format!("{HEAD}{ECHO}{sections}"));
            let mut runs = Vec::new();
            for run in 0..8 {
                let before = world.scripted.seen().iter().filter(|said| said["saw"] == "connect").count();
                let started = Instant::now();
                world.launch();
                world.scripted.wait("every adapter connects", 60, |seen| {
                    (seen.iter().filter(|said| said["saw"] == "connect").count() >= before + count).then_some(())
                });
                // The first run copies the library; the later ones represent the restarts of an operator.
                if run > 0 {
                    runs.push(ms(started.elapsed()));
                }
                world.kill();
            }
            let median = median(runs);
            measured.push(Measured::new(
                format!("{count}, {}", isolation.word()),
                format!("{median:.1} ms"),
                median <= budget_ms,
            ));
        }
    }
    measured
}

/// Returns a host whose only adapter is Telegram, connected to `api`.
pub(super) fn with_telegram(api: &BotApi, isolation: Isolation, agent: &str) -> World {
    let world = World::with("");
    world.configure(&format!(
        "{HEAD}{agent}[adapter.telegram]\ntoken = \"42:bench\"\nbase_url = \"{}\"\nisolation = \"{}\"\naccess = {{ allow_all = true }}\n",
        api.base(),
        isolation.word(),
    ));
    world
}

/// Measures the memory of a host with in-process Telegram, idle and after sixty messages.
pub fn memory() -> Vec<Measured> {
    let api = BotApi::start();
    let mut world = with_telegram(&api, Isolation::InProcess, ECHO);
    world.launch();
    world.wait_state("telegram", "online");
    let idle = mib(process::pss_kib(world.pid()));
    for n in 0..60 {
        api.push(7, &format!("message {n}"));
        api.wait_sent(n + 1);
    }
    let after = mib(process::pss_kib(world.pid()));
    world.stop();
    vec![
        Measured::new("telegram in-process, idle", format!("{idle:.1} MB"), idle <= 10.0),
        Measured::new("telegram in-process, after 60 messages", format!("{after:.1} MB"), after <= 12.0),
    ]
}

/// Measures the memory of eleven further adapters without TLS.
pub fn further_adapters() -> Vec<Measured> {
    let mut measured = Vec::new();
    for (isolation, budget_mb) in [(Isolation::InProcess, 2.0), (Isolation::Process, 5.0)] {
        let mut sizes = Vec::new();
        for count in [1, 12] {
            let sections: String =
                (0..count).map(|n| scripted(&format!("s{n}"), isolation, "socket = \"SOCKET\"")).collect();
            let mut world = World::with("");
            world.configure(&format!("{HEAD}{ECHO}{sections}"));
            world.launch();
            for n in 0..count {
                world.wait_state(&format!("s{n}"), "online");
            }
            sizes.push(mib(process::pss_kib(world.pid())));
            world.stop();
        }
        let each = (sizes[1] - sizes[0]) / 11.0;
        measured.push(Measured::new(isolation.word(), format!("{each:.2} MB each"), each <= budget_mb));
    }
    measured
}

//! The seam between the host and a library.

use std::{fs, time::Instant};

use hermes_tests::{World, artefacts};

use super::{mib, ms, percentile};
use crate::{
    Measured,
    frames::{self, Isolated},
    process,
};

/// A `send` that the adapter answers at once, from the caller and back.
pub fn round_trip() -> Vec<Measured> {
    const CALLS: usize = 20_000;
    let payload = frames::payload();
    let mut isolated = Isolated::start(&artefacts().host(), &artefacts().fixture("scripted"));
    let (status, _) = isolated.call("connect", b"{}");
    assert_eq!(status, 0);
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started = Instant::now();
        let (status, _) = isolated.call("send", &payload);
        times.push(started.elapsed().as_secs_f64() * 1e6);
        assert_eq!(status, 0);
    }
    let memory = mib(process::pss_kib(isolated.pid()));
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    let mut measured = vec![Measured::new(
        format!("isolated (the runner: {memory:.1} MB PSS)"),
        format!("p50 {p50:.1} µs, p99 {p99:.1} µs"),
        p50 <= 60.0,
    )];
    let mut times = crate::in_process::round_trips(CALLS, &payload);
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    measured.push(Measured::new(
        "in-process, thread hop included",
        format!("p50 {p50:.1} µs, p99 {p99:.1} µs"),
        p50 <= 8.0,
    ));
    measured
}

/// Every adapter's library: its size, and how long `adapter inspect` and the whole check of it take.
pub fn libraries() -> Vec<Measured> {
    let world = World::with("");
    ["api_server", "echo", "telegram", "webchat"]
        .into_iter()
        .map(|id| {
            let library = artefacts().adapter(id);
            let size = mib(fs::metadata(&library).map_or(0, |file| file.len()) / 1024);
            let path = library.display().to_string();
            let started = Instant::now();
            world.told(&["adapter", "check", &path]);
            let took = ms(started.elapsed());
            Measured::new(id, format!("{size:.1} MB, checked in {took:.0} ms (in a process of its own)"), None)
        })
        .collect()
}

//! The boundary between the host and a library.

use std::{fs, sync::mpsc, thread, time::Instant};

use hermes_tests::{World, artefacts};

use super::{mib, ms, percentile};
use crate::{
    Measured,
    frames::{self, Isolated},
    in_process, machine, process,
};

/// Number of calls per measurement.
const CALLS: usize = 20_000;

/// Measures the wake-up of another thread on this machine, which every call across the boundary needs twice.
pub fn thread_hop() -> Vec<Measured> {
    let told = |condition: &str, mut times: Vec<f64>| {
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        Measured::new(condition, format!("p50 {p50:.1} µs, p99 {p99:.1} µs"), None)
    };
    vec![told("on any core", hops()), told("both on one core", machine::on_one_core(hops))]
}

/// Returns the times of a message to a waiting thread and back, in microseconds.
fn hops() -> Vec<f64> {
    let (ask, asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let other = thread::spawn(move || {
        for word in asked {
            answer.send(word).expect("the bench waits for it");
        }
    });
    let times = timed(|| {
        ask.send(0_u8).expect("the other thread lives");
        answered.recv().expect("the other thread lives");
    });
    drop(ask);
    other.join().expect("it only answers");
    times
}

fn timed(mut call: impl FnMut()) -> Vec<f64> {
    (0..CALLS)
        .map(|_| {
            let started = Instant::now();
            call();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect()
}

/// Measures a `send` that the adapter answers at once, from the caller and back.
pub fn round_trip() -> Vec<Measured> {
    let payload = frames::payload();
    let judged = |condition: String, mut times: Vec<f64>, budget_us: f64| {
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        Measured::new(condition, format!("p50 {p50:.1} µs, p99 {p99:.1} µs"), p50 <= budget_us)
    };
    let isolated = || {
        let mut isolated = Isolated::start(&artefacts().host(), &artefacts().fixture("scripted"));
        assert_eq!(isolated.call("connect", b"{}").0, 0);
        let times = timed(|| assert_eq!(isolated.call("send", &payload).0, 0));
        (times, mib(process::pss_kib(isolated.pid())))
    };
    let in_process = || {
        let host = in_process::connected();
        timed(|| assert_eq!(host.call_bytes("send", &payload).wait().status, 0))
    };
    let (apart, memory) = isolated();
    vec![
        judged(format!("isolated (the runner: {memory:.1} MB PSS)"), apart, 60.0),
        judged("isolated, all on one core".to_owned(), machine::on_one_core(|| isolated().0), 60.0),
        judged("in-process, thread hop included".to_owned(), in_process(), 8.0),
        judged("in-process, both on one core".to_owned(), machine::on_one_core(in_process), 8.0),
    ]
}

/// Measures every adapter library: its size, the time of `adapter inspect`, and the time of the complete check.
pub fn libraries() -> Vec<Measured> {
    let world = World::with("");
    let ids = artefacts().adapters();
    ids.into_iter()
        .map(|id| {
            let library = artefacts().adapter(&id);
            let size = mib(fs::metadata(&library).map_or(0, |file| file.len()) / 1024);
            let path = library.display().to_string();
            let started = Instant::now();
            world.told(&["adapter", "check", &path]);
            let took = ms(started.elapsed());
            Measured::new(id, format!("{size:.1} MB, checked in {took:.0} ms (in a process of its own)"), None)
        })
        .collect()
}

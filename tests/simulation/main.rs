//! Lives of a host drawn from seeds: people write, the platform refuses, links break in the middle of a
//! send, adapters panic, the host and the adapter die in the same send once and again, the platform cannot be
//! reached for long, the host dies at named points and at any other, the clock is set before and during a run.
//!
//! `story` draws what happens, `play` lets it happen to the built host with the real seam, `model` says
//! after every step what must never be seen, and at the end what must have come of every message. The
//! model knows nothing of sessions, lanes or transactions; it knows what people were promised.
//!
//! A failing seed is printed with its story. It belongs into `seeds.txt`, which is played first.
//!
//! * `HERMES_SIM_SEED=N` plays one seed, and prints its story.
//! * `HERMES_SIM_SECONDS=N` plays new seeds for that long.

#![forbid(unsafe_code)]

mod model;
mod play;
mod story;

use std::{
    env, panic,
    panic::AssertUnwindSafe,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use story::{BUSY, Story};

/// Seeds that failed once: the seed, what became of messages while a turn ran, and what was wrong.
const KEPT: &str = include_str!("seeds.txt");

/// Seeds played without being asked for more.
const SEEDS: u64 = 24;

#[test]
fn whatever_happens_every_message_is_answered_in_its_place_and_none_twice_without_a_mark() {
    if let Some(seed) = number("HERMES_SIM_SEED") {
        let story = Story::of(seed);
        eprintln!("{story}");
        return play::play(&story);
    }
    for line in KEPT.lines() {
        let mut words = line.split_whitespace();
        let seed = words.next().and_then(|seed| seed.parse().ok()).expect("a line begins with its seed");
        let busy = words.next().and_then(|word| BUSY.into_iter().find(|busy| *busy == word)).expect("then a mode");
        tell_if_it_fails(&Story { busy, ..Story::of(seed) });
    }
    for seed in 1..=SEEDS {
        tell_if_it_fails(&Story::of(seed));
    }
    let Some(seconds) = number("HERMES_SIM_SECONDS") else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let until = Instant::now() + Duration::from_secs(seconds);
    for seed in now.as_secs().. {
        if Instant::now() > until {
            return;
        }
        tell_if_it_fails(&Story::of(seed));
    }
}

fn tell_if_it_fails(story: &Story) {
    let seed = story.seed;
    let began = Instant::now();
    let played = panic::catch_unwind(AssertUnwindSafe(|| play::play(story)));
    eprintln!("seed {seed}: {:.1} s", began.elapsed().as_secs_f64());
    if let Err(why) = played {
        eprintln!("seed {seed} failed:\n{story}");
        panic::resume_unwind(why);
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

//! Simulation: histories drawn from seeds.
//!
//! People write, the platform refuses, and links break during a send. Adapters panic, and the host and the
//! adapter die in the same send repeatedly. The platform is unreachable for long, the host dies at named and
//! random points, and the clock is set before and during a run.
//!
//! `story` draws the events, and `play` executes them with the built host and a real library. `model` checks
//! after every step what must never be visible, and at the end the fate of every message. The model describes the
//! guarantees for users, without sessions, tasks or transactions.
//!
//! A failing seed is printed with its story. Add it to `seeds.txt`, which is played first.
//!
//! * `HERMES_SIM_SEED=N` plays one seed, and prints its story.
//! * `HERMES_SIM_SECONDS=N` plays new seeds for this time.

#![forbid(unsafe_code)]

mod model;
mod play;
mod story;

use std::{
    env, panic,
    panic::AssertUnwindSafe,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hermes_tests::at_once;
use story::{BUSY, Story};

/// Seeds that failed once: the seed, the handling of messages during a turn, and the fault.
const KEPT: &str = include_str!("seeds.txt");

/// Number of seeds played by default.
const SEEDS: u64 = 24;

/// Stories played at the same time: most of one waits for deadlines and deaths.
const AT_ONCE: usize = 4;

#[test]
fn whatever_happens_every_message_is_answered_in_its_place_and_none_twice_without_a_mark() {
    if let Some(seed) = number("HERMES_SIM_SEED") {
        let story = Story::of(seed);
        eprintln!("{story}");
        return play::play(&story);
    }
    let kept = KEPT.lines().map(|line| {
        let mut words = line.split_whitespace();
        let seed = words.next().and_then(|seed| seed.parse().ok()).expect("a line begins with its seed");
        let busy = words.next().and_then(|word| BUSY.into_iter().find(|busy| *busy == word)).expect("then a mode");
        Story { busy, ..Story::of(seed) }
    });
    play_all(kept.chain((1..=SEEDS).map(Story::of)));
    let Some(seconds) = number("HERMES_SIM_SECONDS") else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let until = Instant::now() + Duration::from_secs(seconds);
    play_all((now.as_secs()..).map(Story::of).take_while(move |_| Instant::now() < until));
}

/// Plays the stories, some at the same time; after a failure no other begins.
fn play_all(stories: impl Iterator<Item = Story> + Send) {
    let stories = Mutex::new(stories.fuse());
    let failed = AtomicBool::new(false);
    at_once(&[(); AT_ONCE], |()| {
        let next = || stories.lock().expect("no story is drawn with a panic").next();
        while !failed.load(Ordering::Relaxed)
            && let Some(story) = next()
        {
            if let Err(why) = tell_if_it_fails(&story) {
                failed.store(true, Ordering::Relaxed);
                panic::resume_unwind(why);
            }
        }
    });
}

fn tell_if_it_fails(story: &Story) -> thread::Result<()> {
    let seed = story.seed;
    let began = Instant::now();
    let played = panic::catch_unwind(AssertUnwindSafe(|| play::play(story)));
    eprintln!("seed {seed}: {:.1} s", began.elapsed().as_secs_f64());
    if played.is_err() {
        eprintln!("seed {seed} failed:\n{story}");
    }
    played
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

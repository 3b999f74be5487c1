//! Bytes from outside, changed at random: nothing may panic, hang or break its promise.
//!
//! Runs on stable Rust. libFuzzer needs a nightly compiler and AFL its own build, and what bolero adds on
//! stable is a random engine, which is the two hundred lines of `mutate` and `drive`.
//!
//! Without arguments it runs for a few seconds, so that `cargo test` meets every target; see `README.md`.

#![forbid(unsafe_code)]

mod drive;
mod mutate;
mod targets;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use drive::{Run, drive, replay};

/// How long `cargo test` stays here.
const SECONDS_IN_TESTS: u64 = 6;

fn main() -> ExitCode {
    let mut run = Run { seconds: Duration::from_secs(SECONDS_IN_TESTS), seed: drive::any_seed(), only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--seconds" => run.seconds = Duration::from_secs(number(&value())),
            "--seed" => run.seed = number(&value()),
            "--only" => run.only = Some(value()),
            "--replay" => return replay(&PathBuf::from(value())),
            "--list" => {
                targets::all().iter().for_each(|target| println!("{}", target.name));
                return ExitCode::SUCCESS;
            }
            // What a test harness is told (a filter, `--nocapture`) means nothing here.
            _ => {}
        }
    }
    drive(&run)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

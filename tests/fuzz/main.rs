//! Bytes from outside, changed at random: nothing may panic, hang or break its promise.
//!
//! Runs on stable Rust. libFuzzer needs a nightly compiler and AFL its own build, and what bolero adds on
//! stable is a random engine, which is the two hundred lines of `mutate` and `drive`.
//!
//! Without arguments it runs for a few seconds, so that `cargo test` meets every target; see `README.md`.

#![forbid(unsafe_code)]

mod drive;
mod mutate;
mod ring;
mod targets;

/// Duration within `cargo test`.
const SECONDS_IN_TESTS: u64 = 7;

fn main() -> std::process::ExitCode {
    ring::run(targets::all(), SECONDS_IN_TESTS)
}

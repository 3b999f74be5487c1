//! The ring of Slack: a program of its own, since two adapters cannot be linked into one.

#![forbid(unsafe_code)]

mod drive;
mod mutate;
mod ring;
#[path = "targets/slack.rs"]
mod slack;

fn main() -> std::process::ExitCode {
    ring::run(vec![slack::delivery()], 1)
}

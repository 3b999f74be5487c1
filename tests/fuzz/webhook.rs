//! The ring of webhooks: a program of its own, since two adapters cannot be linked into one.

#![forbid(unsafe_code)]

mod drive;
mod mutate;
mod ring;
#[path = "targets/webhook.rs"]
mod webhook;

fn main() -> std::process::ExitCode {
    ring::run(vec![webhook::call()], 1)
}

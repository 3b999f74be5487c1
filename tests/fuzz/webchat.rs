//! The ring of the web chat: a program of its own, since two adapters cannot be linked into one.

#![forbid(unsafe_code)]

mod drive;
mod mutate;
mod ring;
#[path = "targets/webchat.rs"]
mod webchat;

fn main() -> std::process::ExitCode {
    ring::run(vec![webchat::page()], 1)
}

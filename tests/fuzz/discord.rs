//! The ring of Discord: a program of its own, since two adapters cannot be linked into one.

#![forbid(unsafe_code)]

#[path = "targets/discord.rs"]
mod discord;
mod drive;
mod mutate;
mod ring;

fn main() -> std::process::ExitCode {
    ring::run(vec![discord::gateway()], 1)
}

//! The ring of the API server: a program of its own, since two adapters cannot be linked into one.

#![forbid(unsafe_code)]

#[path = "targets/api_server.rs"]
mod api_server;
mod drive;
mod mutate;
mod ring;

fn main() -> std::process::ExitCode {
    ring::run(vec![api_server::requests()], 1)
}

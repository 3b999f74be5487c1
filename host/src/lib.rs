//! The host process.
//!
//! * [`engine`]: the path of an event from an adapter to the agent and back.
//! * [`surface`]: the command line, the control socket, the status page, and the terminal.
//! * [`app`]: the wiring: start, reload, restart, and ordered end.
//!
//! Below them: `hermes-store` (the database), `hermes-loader` (adapter libraries), `hermes-config`, `hermes-agent`
//! (runtimes and tools), `hermes-core` (decisions without I/O), and `hermes-system` (clock and child processes).

#![forbid(unsafe_code)]

pub mod app;
pub mod engine;
pub mod surface;

#[cfg(test)]
mod tests;

//! The host process, in the order of the path of an event:
//! event → authorized → session → guard → turn → outbox → delivery → adapter.
//!
//! | word | here |
//! |---|---|
//! | event | [`ingress`] commits it before it is acknowledged |
//! | authorized, session | [`dispatcher`], with [`commands`] and [`pairing`] |
//! | guard, turn | [`lane`], one per session; [`context`] before a turn, [`mod@turn`] after it |
//! | outbox, delivery | [`outbox`], one lane per chat; [`mod@render`] makes its parts |
//! | adapter | [`plugins`], and [`services`] for the requests of adapters |
//!
//! [`handoff`] moves a conversation from the terminal to a chat.
//! [`app`] starts and stops the modules, [`recovery`] resumes the work that a crash interrupted,
//! [`host`] is their shared context, [`store`] is the database.
//! [`cli`], [`config`], [`control`] and [`status`] are the operator's interfaces, [`chat`] is the terminal in which
//! the operator talks to the agent.

#![deny(unsafe_code)]

mod accounts;
pub mod app;
mod asking;
mod back;
pub mod chance;
pub mod chat;
pub mod clerk;
pub mod cli;
pub mod clock;
mod codes;
pub mod commands;
pub mod context;
pub mod control;
pub mod crash;
pub mod deliver;
pub mod dispatcher;
pub mod enclose;
pub mod events;
mod fetching;
mod files;
pub mod handoff;
pub mod health;
pub mod host;
pub mod ingress;
pub mod lane;
pub mod lanes;
pub mod live;
mod losses;
pub mod media;
pub mod mirror;
mod observing;
pub mod outbox;
pub mod pairing;
pub mod recovery;
pub mod render;
pub mod reset;
pub mod services;
pub mod status;
pub mod targets;
pub mod tasks;
pub mod tool_log;
pub mod tools;
pub mod turn;
mod value_writes;
pub mod wakes;
mod working;

#[cfg(test)]
mod tests;

//! The host process, in the order of the sentence:
//! event → authorized → session → guard → turn → outbox → delivery → adapter.

#![deny(unsafe_code)]

pub mod app;
pub mod chance;
pub mod clock;
pub mod crash;
pub mod clerk;
pub mod cli;
pub mod commands;
pub mod config;
pub mod context;
pub mod control;
pub mod dispatcher;
pub mod events;
#[expect(unsafe_code, reason = "the one room that talks to foreign libraries")]
mod ffi;
pub mod host;
pub mod ingress;
pub mod lane;
pub mod lanes;
pub mod live;
pub mod mask;
pub mod media;
pub mod outbox;
pub mod pairing;
pub mod plugins;
pub mod recovery;
pub mod render;
pub mod reset;
pub mod services;
pub mod status;
pub mod store;
pub mod turn;

#[cfg(test)]
mod tests;

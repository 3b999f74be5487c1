//! The pure host: what is decided about a message between its arrival and its delivery.
//!
//! The modules follow the sentence: [`access`] admits an event, [`session`] and
//! [`routes`] find its conversation, [`commands`] and [`guard`] decide whether a
//! [`turn`] may start, [`delivery`] says what becomes of each part that is owed.
//! [`rate`] bounds how often people may ask, [`asks`] judges who answers what a turn asks of them.
//! Beside it stand the life of an [`adapter`], [`pairing`], the [`handoff`] of a conversation, the life of a [`task`], the
//! [`context`] of a turn, the [`lateness`] of what comes, the [`settings`] of a conversation, [`backoff`], the [`limits`] of everything and the small words in [`ids`]
//! and [`secret`].
//!
//! Nothing here reads a clock, draws a random number, touches a file or iterates
//! a hash map: `now_ms` and random bytes are arguments, so every decision can be
//! repeated in a test. The shell around it is `hermes-host`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod access;
pub mod adapter;
pub mod asks;
pub mod backoff;
pub mod commands;
pub mod context;
pub mod delivery;
pub mod guard;
pub mod handoff;
pub mod ids;
pub mod lateness;
pub mod limits;
pub mod nearest;
pub mod pairing;
pub mod progress;
pub mod rate;
pub mod routes;
pub mod secret;
pub mod session;
pub mod settings;
pub mod task;
pub mod turn;

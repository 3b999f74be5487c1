//! Pure decision logic of the host, from the arrival of a message to its delivery.
//!
//! The modules follow the path of a message:
//!
//! * [`access`] admits an event.
//! * [`session`] and [`routes`] find its conversation.
//! * [`commands`] and [`guard`] decide whether a turn may start; [`rate`] limits the number of messages.
//! * [`approvals`] evaluates the answers to questions that a turn asks.
//! * [`delivery`] decides the next step for each part of a reply.
//!
//! Further modules:
//!
//! * [`adapter`], [`handoff`] and [`task`] are state machines.
//! * [`pairing`] grants access by codes.
//! * [`context`] describes the origin of a turn, [`settings`] the choices of a conversation.
//! * [`lateness`] estimates the age of messages, and [`backoff`] computes waits.
//! * [`file_refs`], [`message_edit`] and [`text`] are helpers for files, edits and texts; [`clock`] is the port of time.
//! * [`limits`] holds all limits; [`ids`] and [`secret`] hold small types.
//!
//! No code in this crate reads a clock, draws a random number, accesses a file or iterates over a hash map.
//! `now_ms` and random bytes are arguments, so that every decision can be repeated in a test. The crate
//! `hermes-host` connects this logic with the outside world.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(unreachable_pub)]

pub mod access;
pub mod adapter;
pub mod approvals;
pub mod backoff;
pub mod clock;
pub mod commands;
pub mod context;
pub mod delivery;
pub mod file_refs;
pub mod guard;
pub mod handoff;
pub mod ids;
pub mod lateness;
pub mod limits;
pub mod message_edit;
pub mod nearest;
pub mod pairing;
pub mod progress;
pub mod rate;
pub mod routes;
pub mod secret;
pub mod session;
pub mod settings;
pub mod task;
pub mod text;
pub mod transcript;

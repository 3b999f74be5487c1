//! The host process, in the order of the sentence:
//! event → authorized → session → guard → turn → outbox → delivery → adapter.

#![deny(unsafe_code)]

pub mod clock;

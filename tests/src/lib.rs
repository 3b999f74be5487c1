//! Common parts of the tests: the built files, a host with a separate home folder, and the test's end of the
//! scripted adapter.
//!
//! No code here accesses the internals of the host. A test runs the built binary with the built libraries and
//! communicates with it like people and platforms.

#![forbid(unsafe_code)]

mod artefacts;
mod chance;
mod model;
mod scripted;
mod world;

pub use artefacts::{Artefacts, artefacts, cargo};
pub use chance::Chance;
pub use model::Model;
pub use scripted::{Chat, Scripted};
pub use world::{Isolation, World, at_once, until};

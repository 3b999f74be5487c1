//! What the test rings share: the built artefacts, a host on a home of its own,
//! and the other end of the scripted adapter.
//!
//! Nothing here looks inside the host. It is the built binary, it loads the built
//! libraries, and a test talks to it the way people and platforms do.

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
pub use world::{Isolation, World, until};

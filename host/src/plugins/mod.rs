//! Finding, judging, running and minding adapter libraries.
//!
//! A file becomes a running instance in this order, and each step can refuse it
//! with its own [`LoadError`]: found ([`discover`]), judged by owner, mode and
//! accepted hash, read as ELF, negotiated by version, opened from a private copy,
//! created with its configuration. From then on its supervisor keeps it alive.
//!
//! * Nothing waits for the slowest: every instance has a task of its own.
//! * No code of a library runs before every check of its bytes has passed.
//! * What an instance says after the host gave it up is refused.
//!
//! Not here: `unsafe` (see [`crate::ffi`]), and any policy about messages.

mod adapters;
mod discover;
mod elf;
mod error;
mod handle;
mod life;
mod link;
mod plan;
mod state;

pub use adapters::Adapters;
pub use discover::{Found, Place, SearchPath, discover, inspect};
pub use error::LoadError;
pub use handle::{AdapterHandle, INSTANCE_DIED};
pub use link::{AdapterLink, Answer, Destroyed, Isolation, IsolationChoice, PendingCall};
pub use plan::{AdapterEvent, AdapterPlan, AdapterSettings, AdapterStatus, HostServices};
pub use state::AdapterState;

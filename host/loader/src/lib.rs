//! The loading and supervision of adapter libraries.
//!
//! A file becomes a running instance in this order, and each step can refuse it with its own [`LoadError`]: found
//! ([`discover`]), checked by owner, mode and accepted hash, read as ELF, checked by version, opened from a private
//! copy, created with its configuration. From then on its supervisor keeps it running.
//!
//! * Every instance has a task of its own, so no instance waits for another.
//! * No code of a library runs before every check of its bytes has passed, and none in this process before it ran in a
//!   short-lived child ([`schema`]).
//! * Host calls of an instance are refused after the host gave it up.
//!
//! Not in this module: `unsafe` (see [`ffi`]), and any policy about messages.

#![deny(unsafe_code)]

mod adapters;
mod alive;
mod begun;
mod certify;
mod check;
pub mod config_schema;
mod crashes;
mod credential;
mod discover;
mod elf;
mod error;
#[expect(unsafe_code, reason = "the one room that talks to foreign libraries")]
mod ffi;
mod files;
mod footprint;
pub mod frame;
mod handle;
mod in_process;
mod life;
mod link;
mod lock;
mod logs;
mod negotiate;
mod plan;
mod process;
mod proxy_env;
mod runner;
mod said;
mod sandbox;
mod schema;
pub mod sealed;
mod services;
mod spawn;
mod supervisor;
pub mod terminal;
#[cfg(test)]
mod tests;
mod user;
mod watch;

pub use adapters::{Adapters, word_of};
pub use alive::Trips;
pub use begun::{Begun, Outcome};
pub use certify::certify;
pub use check::{CheckLine, check, refusal as check_refusal};
pub use discover::{
    Found, Place, SearchPath, accept, accept_named, discover, inspect, is_accepted, refusal, startable,
};
pub use error::LoadError;
pub use ffi::give_back as give_back_memory;
#[doc(hidden)]
pub use frame::reread as reread_frame;
#[doc(hidden)]
pub use handle::INSTANCE_DIED;
#[doc(hidden)]
pub use handle::SENDS_MAX;
pub use handle::{AdapterHandle, Attempted, Ended, FETCH_GRACE, LifeMark};
pub use hermes_core::adapter::{AdapterChange, AdapterState, TimedAdapterState};
pub use link::{AdapterLink, Answer, Destroyed, Isolation, IsolationChoice, PendingCall};
pub use lock::{Accepted, PluginsLock};
pub use plan::{AdapterEvent, AdapterPlan, AdapterSettings, AdapterStatus, HostServices};
pub use runner::runner_main;
pub use schema::{Judgement, judge, schema};
pub use watch::{Seen, Watch};

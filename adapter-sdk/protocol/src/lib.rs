//! The words between hermes-host and its adapters.
//!
//! Every payload that crosses the seam is one of these types, as JSON. They are
//! plain values: no I/O, no clock, no runtime. Three rules keep yesterday's
//! adapter readable for tomorrow's host, and the other way round:
//!
//! * structs are `#[non_exhaustive]`, new fields are optional with a default,
//!   and fields this version does not know are kept in `extra`;
//! * enums keep a word they do not know instead of failing on it;
//! * nothing is ever re-used, re-typed or re-meant.
//!
//! `PROTOCOL.md` beside the SDK lists each method with request, reply, errors,
//! deadline and bound; `stream.md` the events of a turn.

#![forbid(unsafe_code)]

mod calls;
mod capabilities;
mod chat;
mod event;
mod event_rules;
mod manifest;
mod outgoing;
mod stream;
mod word;

pub use calls::*;
pub use capabilities::*;
pub use chat::*;
pub use event::*;
pub use event_rules::{EVENT_ID_BYTES_MAX, EVENT_RAW_BYTES_MAX};
pub use manifest::*;
pub use outgoing::*;
pub use stream::*;

/// The version of the words in this crate, which is the version of the SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Fields a payload carried that this version has no name for.
pub type Extra = serde_json::Map<String, serde_json::Value>;

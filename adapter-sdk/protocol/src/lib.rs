//! The payloads between hermes-host and its adapters.
//!
//! Every payload that crosses the boundary is one of these types, as JSON. The types are plain
//! values without I/O, clock or async runtime. Three rules keep old adapters compatible
//! with new hosts, and new adapters with old hosts:
//!
//! * Structs are `#[non_exhaustive]`, new fields are optional with a default, and unknown
//!   fields are kept in `extra`.
//! * Enums keep an unknown word instead of rejecting it.
//! * No name is ever reused, retyped or given another meaning.
//!
//! `PROTOCOL.md` of the SDK lists each method with request, reply, errors, deadline and
//! limit; `stream.md` describes the events of a turn.

#![forbid(unsafe_code)]

mod calls;
mod capabilities;
mod chat;
mod event;
mod event_rules;
mod manifest;
mod outgoing;
mod stream;
pub mod text;
mod word;

pub use calls::*;
pub use capabilities::*;
pub use chat::*;
pub use event::*;
pub use event_rules::{EVENT_ID_BYTES_MAX, EVENT_RAW_BYTES_MAX};
pub use manifest::*;
pub use outgoing::*;
pub use stream::*;

/// The version of these payloads, which is the version of the SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The fields of a payload that this version does not know.
pub type Extra = serde_json::Map<String, serde_json::Value>;

//! An SDK for writing chat adapters for hermes-host in safe async Rust.
//!
//! An adapter is a library (`cdylib`) with one type that implements [`Adapter`], a
//! [`manifest!`] that describes the platform, and [`export_adapter!`], which makes the
//! library loadable. Each capability with a method is a small trait ([`Edit`], [`Typing`],
//! …), listed in `export_adapter!`: the compiler checks that declared capabilities are
//! implemented. [`Host`] contains the calls to the host.
//!
//! Invariants that the SDK keeps for its author:
//!
//! * Every instance has its own thread and tokio runtime; a call is a task on it, which is
//!   dropped at an await when the host cancels it.
//! * A panic ends in status PANIC and a poisoned instance, never in the host.
//! * Every call is answered exactly once.
//!
//! `unsafe` code is in `export` only.

#![doc = ""]
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![warn(missing_docs)]

extern crate self as hermes_adapter_sdk;

mod adapter;
mod answer;
mod config;
mod dispatch;
mod guard;
mod host;
mod host_port;
mod instance;
#[cfg(feature = "log")]
mod log_crate;
mod logs;
mod macros;
mod manifest;
mod not_attached;
pub mod prelude;
mod state;

#[expect(unsafe_code, reason = "the only module of the SDK that uses the ABI")]
mod export;

#[cfg(feature = "testing")]
pub mod testing;

pub use adapter::{
    Adapter, ChatInfo, CommandsMenu, Delete, Draft, Edit, Fetch, HandoffThread, NativeStream, React, Reconcile,
    RenameThread, Render, ResolveTarget, Typing,
};
pub use config::AdapterConfig;
pub use hermes_sdk_macros::{AdapterConfig, manifest};
pub use host::{Host, Kv, Media, MediaInfo};
pub use manifest::Manifest;
pub use not_attached::{not_attached, with_line};

pub use hermes_markup as markup;
pub use hermes_protocol as protocol;
pub use {serde, serde_json, tokio, tracing};

/// The items used by the macros' expansions. Not part of the stability promise of 1.x.
#[doc(hidden)]
pub mod __private {
    pub use crate::dispatch::{Exported, manifest_bytes, manifest_len, parts};
    pub use crate::export::{LibHeader, lib_header};
    pub use crate::manifest::{Value, manifest, or_empty};
    pub use {schemars, serde};
}

//! The configuration: `plugins.toml`, the environment and `.env`, read once and checked as a whole.
//!
//! * [`load`] collects every problem before it fails, each with its place, its key and the nearest valid key.
//! * [`Config::resolve`] applies the variables of the adapters' manifests; [`Config::plans`] checks keys against their
//!   schemas.
//! * Precedence: section, then process environment, then `.env`, then the default of [`keys`]. A conflict is a warning.
//! * Secrets are references, which are resolved here and never shown.
//!
//! Not in this module: the effect of the values. Start with [`model`] for the values and with [`keys`] for the table of
//! all keys.

#![forbid(unsafe_code)]

mod build;
mod environment;
mod foreign;
mod idle;
pub mod keys;
mod listeners;
mod load;
mod log_filter;
pub mod model;
mod plans;
mod prepare;
mod private;
mod problem;
mod proxies;
mod read;
mod resets;
mod resolve;
mod sample;
mod secrets;
mod section;
mod show;
mod targets;
mod tree;

pub use load::{FILE_NAME, Origin, Sources, home, load, read};
pub use log_filter::log_filter;
pub use model::*;
pub use plans::isolation;
pub use prepare::{Prepared, manifests_of};
pub use problem::{Problem, Problems, Source, Warning};
pub use proxies::HostProxy;
pub use read::is_instance_name;
pub use sample::{sample, write_sample};
pub use show::{Shown, json_schema};

pub use tree::At;

pub mod mask;
#[cfg(test)]
mod tests;

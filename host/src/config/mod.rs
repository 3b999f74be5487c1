//! What the operator wants: `plugins.toml`, the environment and `.env`, read once
//! and checked as a whole.
//!
//! * [`load`] finds every problem before it gives up, each with its place, its key
//!   and the nearest valid key.
//! * What an adapter's manifest says about variables is applied by
//!   [`Config::resolve`]; what its schema says about keys by [`Config::plans`].
//! * Precedence: section, then process environment, then `.env`, then the default
//!   of [`keys`]. A disagreement is a warning.
//! * Secrets are references. They are resolved here and shown nowhere.
//!
//! Not here: what any of it means. Start with [`model`] for the values and with
//! [`keys`] for the table that everything else comes from.

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
mod schema;
mod secrets;
mod section;
mod show;
mod targets;
mod tree;

pub use keys::RESERVED;
pub use load::{FILE_NAME, Origin, Sources, home, load, read};
pub use model::*;
pub use plans::isolation;
pub use prepare::{Prepared, manifests_of};
pub use problem::{Problem, Problems, Source, Warning, nearest};
pub use proxies::{HostProxy, child_variables};
pub use read::is_instance_name;
pub use sample::sample;
pub use schema::check;
pub use show::{Shown, json_schema};

pub use tree::At;

#[cfg(test)]
mod tests;

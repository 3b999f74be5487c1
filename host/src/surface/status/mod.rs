//! The host's report about itself: `status --json`, a page, metrics and probes on loopback.
//!
//! Not in this module: the origin of the numbers. The pipeline implements [`StatusSource`].

pub mod metrics;
mod page;
mod server;

pub use metrics::Metrics;
pub use server::{BindError, StatusSource, bind, serve};

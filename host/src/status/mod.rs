//! What the host shows of itself: the words of `status --json`, a page, metrics
//! and probes on loopback.
//!
//! Not here: where the numbers come from. The pipeline implements [`StatusSource`].

pub mod human;
pub mod metrics;
mod page;
mod server;
mod words;

pub use metrics::Metrics;
pub use server::{BindError, StatusSource, bind, serve};
pub use words::*;

//! The pure host.

#![forbid(unsafe_code)]

pub mod context;
pub mod ids;
pub mod secret;

//! The operating system as the host uses it: the clock of the machine, and child processes.
//!
//! The core names the ports ([`hermes_core::clock`]); this crate implements them. No other crate reads a clock or starts
//! a process without registering it here.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod children;
pub mod clock;
pub mod rng;

//! Background work: [`tasks`], the [`wakeups`] that report it to its session, and [`processes`] that tools started.
//!
//! A piece of work has a row before it starts, and its session is notified exactly once.

pub mod processes;
pub mod tasks;
pub mod wakeups;

//! The surfaces of the host: the command line, the control socket, the status page, and the terminal.
//!
//! They translate between people or programs and the engine; no decision about messages is made here.

pub mod cli;
pub mod control;
pub mod status;
pub mod terminal;

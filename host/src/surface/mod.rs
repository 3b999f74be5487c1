//! The surfaces of the host: the command line, the control socket, the status page, and the terminal.
//!
//! A surface translates between people or programs and the engine, and decides nothing about messages.

pub mod cli;
pub mod control;
pub mod status;
pub mod terminal;

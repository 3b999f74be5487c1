//! The control socket: the connection of the command line to the running host.
//!
//! `host.sock` in the home folder, mode 0600, one JSON object per line, a greeting first. Only the host's own user is
//! served. A process that the host did not start acts as the operator. A process that descends from the host needs the
//! token of a running turn, and has the rights of that run ([`peer`], [`crate::engine::run_tokens`], [`crate::engine::operator::rights`]). Lines, clients and waits
//! are bounded.
//!
//! Not in this module: the effect of a request. The pipeline gets each request as an [`Asked`].

mod client;
mod line;
pub mod peer;
mod server;
mod socket;

pub use client::{Client, ClientError, Seated, use_token};
pub use line::LineError;
pub use server::{Answers, Seats, serve};
pub use socket::{FILE_NAME, bind, remove};

use crate::engine::operator::{Caller, ControlReply, ControlRequest};

#[cfg(test)]
mod tests;

/// The channel for the answer to one request. Dropping it reports a failure of the host to the client.
pub type ReplyTo = tokio::sync::oneshot::Sender<ControlReply>;

/// One request, its author, and the channel for its answer. The pipeline receives these.
pub type Asked = (ControlRequest, Caller, ReplyTo);

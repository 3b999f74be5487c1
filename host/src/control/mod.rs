//! The control socket: how the command line talks to the running host.
//!
//! `host.sock` in the home folder, mode 0600, one JSON object a line, a greeting
//! first. The peer's user is checked: the host's own user is the operator and
//! nobody else is heard. Lines, clients and waits are bounded.
//!
//! Not here: what a request does. The pipeline gets each as an [`Asked`].

mod client;
mod line;
pub mod records;
mod server;
mod socket;
pub mod tasks;
mod words;

pub use client::{Client, ClientError, Seated};
pub use line::LineError;
pub use server::{Answers, Seats, serve};
pub use socket::{FILE_NAME, bind, remove};
pub use tasks::{TaskEventInfo, TaskInfo};
pub use words::*;

#[cfg(test)]
mod tests;

/// Where the answer to one request goes. Dropping it tells the client that the host failed.
pub type ReplyTo = tokio::sync::oneshot::Sender<ControlReply>;

/// One request and where its answer goes; the pipeline receives these.
pub type Asked = (ControlRequest, ReplyTo);

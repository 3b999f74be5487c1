//! Sealed children: processes for hostile bytes, limited to one socket, memory and processor time.
//!
//! The host starts its own program again, sends the bytes, and reads the answer until the child closes the socket. The
//! child seals itself before it reads the first byte: it can open no file and no socket, start no process and map no
//! code, and it ends at its limits of memory and processor time. A child that cannot be sealed does no work.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::process::{self, ChildSpec};
pub use super::sandbox::SealLimits;
use super::{runner, sandbox, schema};

/// The answer of a sealed child.
#[derive(Debug)]
pub struct Exchanged {
    /// The bytes that arrived before the deadline.
    pub answer: Vec<u8>,
    /// The end of the child in words, for the log.
    pub ended: String,
}

/// Sends a file to a child and returns its answer, limited by `answer_bytes_max` and the deadline.
///
/// # Errors
///
/// The child cannot be started.
pub async fn exchange(
    mut command: Vec<OsString>,
    question: File,
    answer_bytes_max: u64,
    deadline: Duration,
) -> std::io::Result<Exchanged> {
    command.extend(schema::parent());
    let child = process::start(&ChildSpec { command, env: Vec::new(), folder: None }).await?;
    let (answer, ended) = child.exchange(question, answer_bytes_max, deadline).await;
    Ok(Exchanged { answer, ended })
}

/// Seals this process, whose arguments contain `--parent PID`, and returns its socket.
///
/// # Errors
///
/// The socket or the process id of the host is missing.
pub fn enter(
    mut arguments: impl Iterator<Item = OsString>,
    limits: SealLimits,
) -> std::io::Result<(UnixStream, Result<(), String>)> {
    let parent = arguments.find(|argument| argument == "--parent").and_then(|_| arguments.next());
    let parent = parent.and_then(|parent| parent.to_str()?.parse().ok());
    let parent = parent.ok_or_else(|| std::io::Error::other("the process of the host is not named"))?;
    // These restrictions are for adapters, so refusals are ignored; the limits of a sealed child follow.
    drop(sandbox::enter(parent, false));
    let socket = runner::socket()?;
    Ok((socket, sandbox::seal(limits)))
}

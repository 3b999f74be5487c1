//! Sealed children: work on hostile bytes in a process that keeps one socket, its memory and a share of the processor.
//!
//! The host starts its own program again, sends the bytes, and reads the answer until the child closes the socket. The
//! child seals itself before it reads the first byte: it opens no file and no socket, starts no process, maps no code,
//! and ends at its limits of memory and processor time. A child that cannot be sealed does no work.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::process::{self, ChildSpec};
pub(crate) use super::sandbox::SealLimits;
use super::{runner, sandbox, schema};

/// The answer of a sealed child.
#[derive(Debug)]
pub(crate) struct Exchanged {
    /// The bytes that arrived before the deadline.
    pub(crate) answer: Vec<u8>,
    /// The end of the child, for the log.
    pub(crate) ended: String,
}

/// Sends a file to a child and returns its answer, up to `answer_bytes_max` bytes and up to the deadline.
///
/// # Errors
///
/// The child cannot be started.
pub(crate) async fn exchange(
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

/// Seals the process that reads `--parent PID` as its arguments, and returns its socket.
///
/// # Errors
///
/// The child has no socket or no host.
pub(crate) fn enter(
    mut arguments: impl Iterator<Item = OsString>,
    limits: SealLimits,
) -> std::io::Result<(UnixStream, Result<(), String>)> {
    let parent = arguments.find(|argument| argument == "--parent").and_then(|_| arguments.next());
    let parent = parent.and_then(|parent| parent.to_str()?.parse().ok());
    let parent = parent.ok_or_else(|| std::io::Error::other("the process of the host is not named"))?;
    // The refusals are limits of adapters; the limits of a sealed child follow.
    drop(sandbox::enter(parent, false));
    let socket = runner::socket()?;
    Ok((socket, sandbox::seal(limits)))
}

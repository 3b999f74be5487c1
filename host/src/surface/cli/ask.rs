//! Requests to the running host, or to the store if none runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Context, Failure};
use crate::app::{HostLock, LockError, held_by};
use crate::engine::operator::records;
use crate::engine::operator::{ControlReply, ControlRequest};
use crate::surface::control::{Client, ClientError};
use hermes_core::text::is_shown;
use hermes_store::Store;
use hermes_system::clock::SystemClock;

/// Sends a request to the running host. Without a host the command ends with 69.
pub async fn host(context: &Context, request: &ControlRequest) -> Result<ControlReply, Failure> {
    let home = context.home()?;
    let mut client = match Client::connect(&home).await {
        Err(error @ ClientError::NotRunning { .. }) => {
            return Err(held_by(&home).map_or_else(|| error.into(), |pid| deaf(&home, pid)));
        }
        client => client?,
    };
    answered(client.ask(request).await?)
}

/// The sources of a running host: its configuration file, if it has one, and its environment, if that can be read.
pub type Running = (Option<PathBuf>, Option<BTreeMap<String, String>>);

/// Returns the sources of the running host; `None` without a host.
pub async fn running(context: &Context) -> Option<Running> {
    let home = context.home().ok()?;
    held_by(&home)?;
    match Client::connect(&home).await.ok()?.ask(&ControlRequest::Status {}).await.ok()? {
        ControlReply::Status(status) => Some((status.host.config.map(PathBuf::from), environment_of(status.host.pid))),
        _ => None,
    }
}

/// Returns the environment that a process of this user was started with; `None` where it cannot be read.
fn environment_of(pid: u32) -> Option<BTreeMap<String, String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok().filter(|bytes| !bytes.is_empty())?;
    let variables =
        bytes.split(|byte| *byte == 0).filter_map(|variable| str::from_utf8(variable).ok()?.split_once('='));
    Some(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Returns the failure for a host that holds the lock but has no reachable socket.
pub(super) fn deaf(home: &Path, pid: u32) -> Failure {
    Failure::no_host(format!(
        "the host of {} (process {pid}) does not accept commands: it is starting or stopping, or its control socket \
         was removed; in that case stop it with `kill {pid}` and start it again with `hermes-host run`",
        home.display()
    ))
}

/// Sends a request to the running host, or reads the store under its lock if none runs.
pub async fn host_or_store(context: &Context, request: &ControlRequest) -> Result<ControlReply, Failure> {
    let home = context.home()?;
    match Client::connect(&home).await {
        Ok(mut client) => answered(client.ask(request).await?),
        Err(ClientError::NotRunning { .. }) => store(&home, request).await,
        Err(error) => Err(error.into()),
    }
}

async fn store(home: &Path, request: &ControlRequest) -> Result<ControlReply, Failure> {
    let database = home.join("state.db");
    if !database.is_file() {
        let sentence = format!("{} does not exist; `hermes-host run` creates it", database.display());
        return Err(Failure::failed(sentence));
    }
    let lock = HostLock::take(home).map_err(|error| in_use(&error))?;
    let opened = Store::open(&database, Arc::new(SystemClock)).map_err(|error| Failure::failed(error.to_string()))?;
    let reply = records::read_only(&opened.store, request).await;
    opened.store.close().await.map_err(|error| Failure::failed(error.to_string()))?;
    drop(lock);
    answered(reply.ok_or_else(|| ClientError::NotRunning { home: home.to_owned() })?)
}

/// Reports a lock that cannot be taken.
pub(super) fn in_use(error: &LockError) -> Failure {
    match error {
        LockError::Held { .. } => Failure::failed(format!("{error}; it is starting or stopping; try again")),
        error => Failure::failed(error.to_string()),
    }
}

pub(super) fn answered(reply: ControlReply) -> Result<ControlReply, Failure> {
    match reply {
        ControlReply::Error { kind, message } => Err(Failure::answered(kind, message)),
        reply => Ok(reply),
    }
}

/// Sends a command to the host and prints its answer.
pub async fn done(context: &Context, request: &ControlRequest) -> Result<(), Failure> {
    match host(context, request).await? {
        ControlReply::Done { message } => say(&message),
        other => Err(unexpected(&other)),
    }
}

/// Returns the failure for an answer of the wrong type, which happens between different releases.
pub fn unexpected(reply: &ControlReply) -> Failure {
    let kind = serde_json::to_value(reply).ok();
    let kind = kind.as_ref().and_then(|reply| reply.get("type")).and_then(serde_json::Value::as_str).unwrap_or("?");
    Failure::failed(format!(
        "the host sent the unexpected answer `{kind}`; restart the host, which may be of another \
         version"
    ))
}

/// Prints one line.
pub fn say(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints text for people. Names and words in it come from unknown senders, so control characters are removed.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(&plain(text))
}

/// Removes characters that could control a terminal or hide in it.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| is_shown(*c) || matches!(c, '\n' | '\t')).collect()
}

/// Writes to standard output. A closed reader is not an error.
fn write_out(text: &str) -> Result<(), Failure> {
    if cfg!(test) {
        // The test harness captures only the output of this macro.
        print!("{text}");
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("the output cannot be written ({error})")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON, indented.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::failed(error.to_string()))?;
    write_out(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_process_is_the_one_it_was_started_with() {
        let mut child = std::process::Command::new("sleep").arg("60").env_clear().env("A", "1=2").spawn().unwrap();
        // The process has its own environment once the program runs in it.
        let found = std::iter::repeat_with(|| environment_of(child.id())).take(100_000);
        let found = found.flatten().find(|found| found.len() == 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, Some([("A".to_owned(), "1=2".to_owned())].into()));
        assert_eq!(environment_of(u32::MAX), None);
    }
}

//! Commands that change the database while no host runs.
//!
//! The command holds `host.lock` while it runs, so there is never a second writer. A host that starts in the meantime
//! waits for the lock or reports that it is held. The next host welcomes the senders that were admitted here.

use std::path::Path;
use std::sync::Arc;

use hermes_agent::tools::environment::MARK;
use hermes_core::access::Grants;
use hermes_core::context::CONTROL_TOKEN;

use super::ask::{answered, deaf, in_use, say, unexpected};
use super::{Context, Failure};
use crate::app::{HostLock, held_by};
use crate::engine::dispatcher::pairing::{OPERATOR, Pairing, PairingChange};
use crate::engine::operator::{ControlReply, ControlRequest, ErrorKind};
use crate::surface::control::{Client, ClientError};
use hermes_config::Config;
use hermes_core::clock::Clock;
use hermes_core::nearest::nearest;
use hermes_store::{Change, CommandTx, Loaded, Store};
use hermes_system::clock::SystemClock;

/// Asks the running host, or does the work on the database if none runs.
pub async fn host_or_offline(context: &Context, request: &ControlRequest) -> Result<ControlReply, Failure> {
    let home = context.home()?;
    match Client::connect(&home).await {
        Ok(mut client) => answered(client.ask(request).await?),
        Err(error @ ClientError::NotRunning { .. }) => match held_by(&home) {
            Some(pid) => Err(deaf(&home, pid)),
            // A home without a database has nothing to change.
            None if !home.join("state.db").is_file() => Err(error.into()),
            None => offline(context, &home, request).await,
        },
        Err(error) => Err(error.into()),
    }
}

/// Does the same for a request whose answer is a sentence, and prints it.
pub async fn done(context: &Context, request: &ControlRequest) -> Result<(), Failure> {
    match host_or_offline(context, request).await? {
        ControlReply::Done { message } => say(&message),
        other => Err(unexpected(&other)),
    }
}

async fn offline(context: &Context, home: &Path, request: &ControlRequest) -> Result<ControlReply, Failure> {
    if [MARK, CONTROL_TOKEN].iter().any(|name| context.sources.env.contains_key(*name)) {
        return Err(Failure::failed(
            "a host started this process, and no host is running; run the command in a terminal that was not started \
             by the host",
        ));
    }
    let config = configured(context)?;
    let lock = HostLock::take(home).map_err(|error| in_use(&error))?;
    let opened = Store::open(&home.join("state.db"), Arc::new(SystemClock))
        .map_err(|error| Failure::failed(error.to_string()))?;
    let now_ms = SystemClock.now_ms();
    let (reply, changes) = work(&config, opened.loaded, request, now_ms);
    let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms };
    let written = match order.changes.is_empty() {
        true => Ok(Vec::new()),
        false => opened.store.command(order).await,
    };
    let closed = opened.store.close().await;
    drop(lock);
    written.map(drop).and(closed).map_err(|error| Failure::failed(error.to_string()))?;
    answered(reply)
}

/// Reads the parts of the configuration that these commands need. A wrong key of an adapter or of the agent is ignored.
fn configured(context: &Context) -> Result<Config, Failure> {
    let (config, mut problems) = hermes_config::read(context.sources.clone())?;
    let section = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
    problems.0.retain(|problem| matches!(section(&problem.key).as_str(), "" | "host" | "limits"));
    if !problems.0.is_empty() {
        return Err(problems.and(hermes_config::Problems::default()).into());
    }
    Ok(config)
}

/// Returns the answer to a request, valid once the changes are written.
fn work(config: &Config, loaded: Loaded, request: &ControlRequest, now_ms: i64) -> (ControlReply, Vec<Change>) {
    let mut grants: Grants = loaded.grants.into_iter().collect();
    let mut pairing = Pairing::new(&config.limits, loaded.pairing, loaded.lockouts, loaded.offers);
    let mut change = |change| {
        let changed = pairing.change(&mut grants, change, now_ms);
        (changed.reply, changed.changes)
    };
    let unknown = |instance: &str| unknown(config, instance);
    match request.clone() {
        ControlRequest::PairingList {} => (pairing.list(&grants, now_ms), Vec::new()),
        ControlRequest::PairingApprove { instance, code } => match unknown(&instance) {
            None => change(PairingChange::Approve { instance, code, by: OPERATOR.to_owned() }),
            Some(refusal) => (refusal, Vec::new()),
        },
        ControlRequest::PairingRevoke { instance, user } => change(PairingChange::Revoke { instance, user }),
        ControlRequest::PairingClear { instance } => match instance.as_deref().and_then(unknown) {
            None => change(PairingChange::Clear { instance }),
            Some(refusal) => (refusal, Vec::new()),
        },
        ControlRequest::AdapterEnable { instance } => switch(config, instance, true),
        ControlRequest::AdapterDisable { instance } => switch(config, instance, false),
        _ => (ControlReply::error(ErrorKind::Refused, "this command requires a running host"), Vec::new()),
    }
}

fn switch(config: &Config, instance: String, on: bool) -> (ControlReply, Vec<Change>) {
    if let Some(refusal) = unknown(config, &instance) {
        return (refusal, Vec::new());
    }
    let section = config.adapters.get(&instance).and_then(|section| section.enabled);
    if section.is_some_and(|enabled| enabled != on) {
        let words = format!("`enabled` in [adapter.{instance}] has the opposite value; change it there");
        return (ControlReply::error(ErrorKind::Refused, words), Vec::new());
    }
    let words = match on {
        true => format!("{instance} starts at the next start of the host."),
        false => format!("{instance} stays off at the next start of the host."),
    };
    (ControlReply::done(words), vec![Change::AdapterEnabled { instance, on }])
}

/// Returns the refusal of an instance that is not configured.
fn unknown(config: &Config, instance: &str) -> Option<ControlReply> {
    if config.adapters.contains_key(instance) {
        return None;
    }
    let names: Vec<&str> = config.adapters.keys().map(String::as_str).collect();
    let hint = match nearest(instance, names.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None if names.is_empty() => "; no adapter is configured".to_owned(),
        None => format!("; the instances are {}", names.join(", ")),
    };
    Some(ControlReply::error(ErrorKind::NotFound, format!("there is no instance {instance:?}{hint}")))
}

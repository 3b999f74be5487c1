//! `status`, and the commands for the host as a whole.

use std::io::IsTerminal;

use super::ask::{self, print, print_json, unexpected};
use super::table::{Table, ago};
use super::{Context, Failure};
use crate::engine::operator::{AdapterStatus, StatusJson};
use crate::engine::operator::{ControlReply, ControlRequest};
use hermes_config::write_sample;
use hermes_core::clock::Clock;
use hermes_core::text::{counted, one_line, span};
use hermes_system::clock::SystemClock;

/// The longest reason that is shown, in characters.
const WHY_CHARS_MAX: usize = 1_000;

/// The longest name of a chat that is shown, in characters.
const NAME_CHARS_MAX: usize = 60;

pub async fn status(context: &Context, json: bool) -> Result<(), Failure> {
    let status = match ask::host(context, &ControlRequest::Status {}).await? {
        ControlReply::Status(status) => status,
        other => return Err(unexpected(&other)),
    };
    if json {
        return print_json(&status);
    }
    let mut status = status;
    if !std::io::stdout().is_terminal() {
        // An announced URL may contain a secret, and output that is not a terminal may be stored.
        status.adapters.iter_mut().for_each(|adapter| adapter.announced.clear());
    }
    print(&render(&status, SystemClock.now_ms()))
}

pub async fn stop(context: &Context) -> Result<(), Failure> {
    ask::done(context, &ControlRequest::Stop {}).await
}

pub async fn restart(context: &Context) -> Result<(), Failure> {
    ask::done(context, &ControlRequest::Restart {}).await
}

pub async fn drain(context: &Context, undo: bool) -> Result<(), Failure> {
    ask::done(context, &ControlRequest::Drain { undo }).await
}

pub async fn reload(context: &Context) -> Result<(), Failure> {
    ask::done(context, &ControlRequest::Reload {}).await
}

/// Formats the status for people.
pub fn render(status: &StatusJson, now_ms: i64) -> String {
    let host = &status.host;
    let mut out = format!(
        "hermes-host {} is {}, up for {}, process {}\nhome    {}\nconfig  {}\nagent   {}\n\n",
        host.version,
        host.state,
        span(now_ms - host.since),
        host.pid,
        host.home,
        host.config
            .clone()
            .unwrap_or_else(|| format!("built-in; `{}` creates a file to edit", write_sample(&host.home))),
        status.agent.describe(),
    );
    if let Some(trouble) = status.agent.trouble(now_ms) {
        let detail = status.agent.last_error.as_ref().map(|error| format!("; {}", error.detail)).unwrap_or_default();
        out.truncate(out.trim_end().len());
        out.push_str(&format!("\n        {}\n\n", one_line(&format!("{trouble}{detail}"), WHY_CHARS_MAX)));
    }
    if let Some(proxy) = &host.proxy {
        out.insert_str(out.len() - 1, &format!("proxy   {proxy}\n"));
    }
    out.push_str(&adapters(&status.adapters, now_ms));
    for adapter in &status.adapters {
        for announced in &adapter.announced {
            out.push_str(&format!("\n{}: {}  {}", adapter.name, announced.label, announced.url));
        }
    }
    if status.adapters.iter().any(|adapter| !adapter.announced.is_empty()) {
        out.push('\n');
    }
    let queues = &status.queues;
    out.push_str(&format!(
        "\nwaiting  {}, {}, {}, {}; sessions {} open, {} in all\n",
        counted(queues.inbox, "event"),
        counted(queues.turns, "turn"),
        deliveries(queues.outbox),
        counted(queues.handoffs, "handoff"),
        status.sessions.open,
        status.sessions.total
    ));
    if queues.dead > 0 {
        out.push_str(&format!("abandoned {}; `hermes-host outbox list` shows them\n", deliveries(queues.dead)));
    }
    for dead in &status.dead_chats {
        let name = dead.name.as_ref().map(|name| format!(" ({})", one_line(name, NAME_CHARS_MAX))).unwrap_or_default();
        out.push_str(&format!(
            "unreachable  {}:{}{name}, for {}: {}\n",
            dead.instance,
            dead.chat,
            span(now_ms - dead.since),
            one_line(&dead.why, WHY_CHARS_MAX),
        ));
    }
    if !status.dead_chats.is_empty() {
        let more =
            if status.dead_chats_more > 0 { format!("and {} more; ", status.dead_chats_more) } else { String::new() };
        out.push_str(&format!("{more}a chat is reachable again as soon as someone writes in it\n"));
    }
    for warning in &status.warnings {
        out.push_str(&format!("warning: {warning}\n"));
    }
    out
}

/// Formats the table of adapters, with the full reasons below it: a truncated sentence would lose the fix.
pub fn adapters(adapters: &[AdapterStatus], now_ms: i64) -> String {
    let mut table = Table::new(&["ADAPTER", "PLUGIN", "STATE", "SINCE", "PROVEN", "HELD", "RUNS", "GUARANTEE"]);
    let mut reasons = String::new();
    for adapter in adapters {
        let next = adapter.next_try.map(|at| format!("next attempt in {}", span(at - now_ms)));
        let ignored = adapter.upstream_ignored.then(|| "its sender claims are not trusted".to_owned());
        let proxy = adapter.proxy.as_ref().map(|proxy| format!("proxy: {proxy}"));
        let why: Vec<String> = adapter.reason.iter().cloned().chain(next).chain(ignored).chain(proxy).collect();
        if !why.is_empty() {
            reasons.push_str(&format!("{}: {}\n", adapter.name, one_line(&why.join("; "), WHY_CHARS_MAX)));
        }
        table.row([
            adapter.name.clone(),
            format!("{} {}", adapter.plugin, adapter.version),
            adapter.state.clone(),
            ago(now_ms, adapter.since),
            adapter.last_proven.map_or_else(String::new, |at| ago(now_ms, at)),
            if adapter.held > 0 { adapter.held.to_string() } else { String::new() },
            adapter.isolation.clone(),
            adapter.guarantee.clone(),
        ]);
    }
    let table = table.render(
        "no adapter is configured; `hermes-host config sample` prints a section for each library \
         to add to plugins.toml",
    );
    if reasons.is_empty() { table } else { format!("{table}\n{reasons}") }
}

fn deliveries(number: u64) -> String {
    format!("{number} {}", if number == 1 { "delivery" } else { "deliveries" })
}

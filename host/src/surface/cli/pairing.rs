//! `pairing`: access requests of unknown senders, and grants.

use super::args::PairingCommand;
use super::ask::{print, print_json, unexpected};
use super::table::{Table, ago};
use super::{Context, Failure, offline};
use crate::engine::operator::{ControlReply, ControlRequest, GrantInfo, PairingInfo};
use hermes_core::clock::Clock;
use hermes_core::text::span;
use hermes_system::clock::SystemClock;

pub async fn pairing(context: &Context, command: PairingCommand) -> Result<(), Failure> {
    match command {
        PairingCommand::List { json } => list(context, json).await,
        PairingCommand::Approve { instance, code } => {
            offline::done(context, &ControlRequest::PairingApprove { instance, code }).await
        }
        PairingCommand::Revoke { instance, user } => {
            offline::done(context, &ControlRequest::PairingRevoke { instance, user }).await
        }
        PairingCommand::Clear { instance } => offline::done(context, &ControlRequest::PairingClear { instance }).await,
    }
}

async fn list(context: &Context, json: bool) -> Result<(), Failure> {
    let reply = offline::host_or_offline(context, &ControlRequest::PairingList {}).await?;
    let ControlReply::Pairing { requests, grants } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(&serde_json::json!({ "requests": requests, "grants": grants }));
    }
    print(&render(requests, grants, SystemClock.now_ms()))
}

fn render(requests: &[PairingInfo], grants: &[GrantInfo], now_ms: i64) -> String {
    let mut open = Table::new(&["ASKED", "USER", "NAME", "SINCE", "EXPIRES"]);
    for request in requests {
        open.row([
            request.instance.clone(),
            request.user.clone(),
            request.name.clone().unwrap_or_default(),
            ago(now_ms, request.since_ms),
            format!("in {}", span(request.expires_ms - now_ms)),
        ]);
    }
    let mut granted = Table::new(&["GRANTED", "USER", "NAME", "SINCE"]);
    for grant in grants {
        granted.row([
            grant.instance.clone(),
            grant.user.clone(),
            grant.name.clone().unwrap_or_default(),
            ago(now_ms, grant.since_ms),
        ]);
    }
    format!("{}\n{}", open.render("no open requests"), granted.render("no paired users"))
}

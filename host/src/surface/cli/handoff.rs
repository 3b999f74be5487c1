//! `handoff`: conversations that move to a chat.

use super::args::{HandoffArgs, HandoffCommand, Listed, OneSession};
use super::ask::{self, print, print_json, say, unexpected};
use super::table::{Table, ago};
use super::{Context, FAILED, Failure, STILL_RUNNING};
use crate::engine::operator::{ControlReply, ControlRequest, HandoffInfo};
use hermes_core::clock::Clock;
use hermes_system::clock::SystemClock;

pub async fn handoff(context: &Context, args: HandoffArgs) -> Result<(), Failure> {
    match args.command {
        Some(HandoffCommand::List { all, shown }) => list(context, all, shown).await,
        Some(HandoffCommand::Offer(OneSession { session, json })) => {
            let reply = ask::host(context, &ControlRequest::HandoffOffer { session }).await?;
            match &reply {
                ControlReply::HandoffCode { .. } if json => print_json(&reply),
                ControlReply::HandoffCode { message, .. } => say(message),
                other => Err(unexpected(other)),
            }
        }
        Some(HandoffCommand::Show(OneSession { session, json })) => {
            let reply = ask::host_or_store(context, &ControlRequest::HandoffShow { session }).await?;
            tell(&told(&reply)?, json)
        }
        Some(HandoffCommand::Cancel(OneSession { session, json })) => {
            let reply = ask::host(context, &ControlRequest::HandoffCancel { session }).await?;
            tell(&told(&reply)?, json)
        }
        None => {
            // clap requires both arguments if there is no subcommand.
            let (session, instance) = (args.session.unwrap_or_default(), args.instance.unwrap_or_default());
            let request = ControlRequest::Handoff { session, instance, wait_ms: args.wait.saturating_mul(1_000) };
            let handoff = told(&ask::host(context, &request).await?)?;
            tell(&handoff, args.json)?;
            match handoff.state.as_str() {
                "completed" => Ok(()),
                "failed" => Err(Failure::silent(FAILED)),
                _ => Err(Failure::silent(STILL_RUNNING)),
            }
        }
    }
}

fn told(reply: &ControlReply) -> Result<HandoffInfo, Failure> {
    match reply {
        ControlReply::Handoff { handoff } => Ok((**handoff).clone()),
        other => Err(unexpected(other)),
    }
}

fn tell(handoff: &HandoffInfo, json: bool) -> Result<(), Failure> {
    if json { print_json(handoff) } else { say(&sentence(handoff)) }
}

/// Returns the state and the message of a handoff.
fn sentence(handoff: &HandoffInfo) -> String {
    format!("{}: {}", handoff.state, handoff.message)
}

async fn list(context: &Context, all: bool, Listed { limit, json }: Listed) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::HandoffList { limit, all }).await?;
    let ControlReply::Handoffs { handoffs } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(handoffs);
    }
    print(&listing(handoffs, SystemClock.now_ms()))
}

fn listing(handoffs: &[HandoffInfo], now_ms: i64) -> String {
    let mut table = Table::new(&["SESSION", "TITLE", "TO", "STATE", "ASKED", "WHY"]);
    for handoff in handoffs {
        table.row([
            handoff.session.clone(),
            handoff.title.clone().unwrap_or_default(),
            handoff.chat.clone().unwrap_or_else(|| handoff.instance.clone()),
            handoff.state.clone(),
            ago(now_ms, handoff.asked_ms),
            handoff.why.clone().unwrap_or_default(),
        ]);
    }
    table.render("no handoffs in progress; --all also shows completed and failed ones")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handoff(state: &str, why: Option<&str>) -> HandoffInfo {
        serde_json::from_value(serde_json::json!({
            "session": "20260101_1", "title": "trip", "instance": "one", "state": state, "why": why,
            "chat": "one:home", "asked_ms": 1_000, "since_ms": 2_000, "message": "it is so",
            "resume_here": "hermes-host chat --resume 20260101_1", "resume_in_chat": "/resume trip",
        }))
        .unwrap()
    }

    #[test]
    fn conversations_on_their_way_are_listed_with_how_they_stand() {
        let all = [handoff("running", None), handoff("failed", Some("took too long"))];
        assert_eq!(
            listing(&all, 11_000),
            "SESSION     TITLE  TO        STATE    ASKED     WHY\n\
             20260101_1  trip   one:home  running  10 s ago\n\
             20260101_1  trip   one:home  failed   10 s ago  took too long\n"
        );
        assert!(listing(&[], 0).starts_with("no handoffs in progress"));
    }

    #[test]
    fn the_end_is_told_in_a_sentence() {
        assert_eq!(sentence(&handoff("completed", None)), "completed: it is so");
    }
}

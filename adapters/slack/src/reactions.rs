//! Reactions, which Slack identifies by name.

use hermes_adapter_sdk::prelude::*;
use serde_json::json;

use crate::api::ApiError;
use crate::errors::call_error;
use crate::objects::Empty;
use crate::workspace::Destination;

/// The emoji used by the host, with Slack's names. <https://docs.slack.dev/reference/methods/reactions.add>
const NAMES: [(&str, &str); 5] =
    [("👀", "eyes"), ("✅", "white_check_mark"), ("❌", "x"), ("👍", "thumbsup"), ("👎", "thumbsdown")];

/// Reacts to the message `ts` with `emoji` instead of `before`; an empty `emoji` only removes `before`.
pub(crate) async fn set(
    destination: &Destination<'_>,
    ts: &str,
    emoji: &str,
    before: Option<&str>,
) -> Result<(), CallError> {
    if let Some(before) = before.filter(|before| *before != emoji) {
        call(destination, "reactions.remove", ts, name(before)?).await?;
    }
    if emoji.is_empty() { Ok(()) } else { call(destination, "reactions.add", ts, name(emoji)?).await }
}

fn name(emoji: &str) -> Result<&'static str, CallError> {
    let known = NAMES.iter().find(|(known, _)| *known == emoji);
    known
        .map(|(_, name)| *name)
        .ok_or_else(|| CallError::new("invalid", format!("the Slack name of {emoji:?} is unknown")))
}

async fn call(destination: &Destination<'_>, method: &str, ts: &str, name: &str) -> Result<(), CallError> {
    let parameters = [("channel", json!(destination.channel)), ("timestamp", json!(ts)), ("name", json!(name))];
    match destination.call::<Empty>(method, &parameters).await {
        // The reaction is in the requested state already.
        Err(ApiError::Refused(refused)) if matches!(refused.code.as_str(), "already_reacted" | "no_reaction") => Ok(()),
        result => result.map(drop).map_err(call_error),
    }
}

//! Reactions, which Slack identifies by name.

use hermes_adapter_sdk::prelude::*;
use serde_json::json;

use crate::api::{Api, ApiError, Done};
use crate::{Slack, call_error};

/// The emoji used by the host, with Slack's names. <https://docs.slack.dev/reference/methods/reactions.add>
const NAMES: [(&str, &str); 5] =
    [("👀", "eyes"), ("✅", "white_check_mark"), ("❌", "x"), ("👍", "thumbsup"), ("👎", "thumbsdown")];

impl React for Slack {
    async fn react(&self, message: SentMessage, emoji: String, instead_of: Option<String>) -> Result<(), CallError> {
        let (account, space, channel) = self.place(&message.chat)?;
        let on = Message { api: &account.api, token: &space.token, channel: &channel, ts: &message.id };
        if let Some(before) = instead_of.filter(|before| *before != emoji) {
            on.call("reactions.remove", name(&before)?).await?;
        }
        if emoji.is_empty() { Ok(()) } else { on.call("reactions.add", name(&emoji)?).await }
    }
}

fn name(emoji: &str) -> Result<&'static str, CallError> {
    let known = NAMES.iter().find(|(known, _)| *known == emoji);
    known
        .map(|(_, name)| *name)
        .ok_or_else(|| CallError::new("invalid", format!("the Slack name of {emoji:?} is unknown")))
}

/// The message to react to.
struct Message<'a> {
    api: &'a Api,
    token: &'a str,
    channel: &'a str,
    ts: &'a str,
}

impl Message<'_> {
    async fn call(&self, method: &str, name: &str) -> Result<(), CallError> {
        let parameters = [("channel", json!(self.channel)), ("timestamp", json!(self.ts)), ("name", json!(name))];
        match self.api.call::<Done>(self.token, method, &parameters).await {
            // The reaction is in the requested state already.
            Err(ApiError::Refused(refused)) if matches!(refused.code.as_str(), "already_reacted" | "no_reaction") => {
                Ok(())
            }
            answer => answer.map(drop).map_err(call_error),
        }
    }
}

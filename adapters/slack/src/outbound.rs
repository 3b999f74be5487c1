//! Conversion of parts to calls.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::{not_attached, with_line};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, Rejection, call_by};
use crate::blocks::{text, text_and_blocks};
use crate::errors::outcome;
use crate::objects::{Empty, PostedMessage};
use crate::text::escape;
use crate::timestamp::{at_ms, is_ts};
use crate::uploads;
use crate::workspace::Destination;

/// The total time for a message if the host gives none. The time ends before a host that waits one minute, so that the
/// host receives the result.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(55);

/// Sends one part; every call ends by `until`.
pub(crate) async fn send(
    destination: &Destination<'_>,
    message: &Outgoing,
    now_ms: i64,
    until: Instant,
) -> SendOutcome {
    let mut ids = Vec::new();
    let mut with_files = !message.media.is_empty() && message.choices.is_none();
    let mut without_media = None;
    if !message.media.is_empty() {
        let comment = if with_files { text(message) } else { String::new() };
        match uploads::send_files(destination, message, &comment, until).await {
            Ok(mut sent) => ids.append(&mut sent),
            // The text is sent even if its files are rejected.
            Err(ApiError::Refused(refused)) if uploads::is_about_files(&refused) => {
                with_files = false;
                without_media = Some(without_files(message, &refused));
            }
            Err(error) => return outcome(&error),
        }
    }
    let message = without_media.as_ref().unwrap_or(message);
    if with_files || (message.text.trim().is_empty() && !ids.is_empty()) {
        return SendOutcome::Delivered { receipt: Receipt::new(ids, now_ms) };
    }
    if message.text.trim().is_empty() {
        return SendOutcome::refused(RefusalKind::Invalid, "the text is empty; Slack does not accept empty messages");
    }
    match call_by(until, post(destination, message)).await {
        Ok(ts) => {
            let at_ms = ts.as_deref().map_or(now_ms, at_ms);
            SendOutcome::Delivered { receipt: Receipt::new(ids.into_iter().chain(ts).collect(), at_ms) }
        }
        // The files have arrived: a retry of the whole message would duplicate them.
        Err(error) if !ids.is_empty() => SendOutcome::unknown(error.to_string()),
        Err(error) => outcome(&error),
    }
}

/// Posts a message; returns its id if Slack reports one.
async fn post(destination: &Destination<'_>, message: &Outgoing) -> Result<Option<String>, ApiError> {
    let (text, blocks) = text_and_blocks(message);
    let mut parameters = vec![
        ("channel", json!(destination.channel)),
        ("mrkdwn", json!(message.format != Format::Plain)),
        ("text", json!(text)),
        ("blocks", blocks.unwrap_or_default()),
    ];
    parameters.extend(no_unfurl().map(|name| (name, json!(false))));
    if let Some(thread) = &message.chat.thread {
        parameters.push(("thread_ts", json!(thread)));
    }
    let method = match &message.ephemeral_to {
        Some(user) => {
            parameters.push(("user", json!(user)));
            "chat.postEphemeral"
        }
        None => "chat.postMessage",
    };
    let posted: PostedMessage = destination.call(method, &parameters).await?;
    Ok([posted.ts, posted.message_ts].into_iter().find(|ts| is_ts(ts)))
}

/// Returns the parameters that keep Slack from fetching links in an answer. An attacker could make the agent
/// write an address that carries data, and fetching it would send the data to the attacker without a click.
/// <https://docs.slack.dev/messaging/unfurling-links-in-messages#classic_unfurl>
fn no_unfurl() -> impl Iterator<Item = &'static str> {
    ["unfurl_links", "unfurl_media"].into_iter()
}

/// Answers a slash command in a channel without the app as a member. Only the sender of the command sees the
/// answer, and it cannot be edited later.
pub(crate) async fn respond(api: &Api, address: &str, message: &Outgoing, now_ms: i64, until: Instant) -> SendOutcome {
    match call_by(until, api.respond(address, &response_body(message))).await {
        Ok(()) => SendOutcome::Delivered { receipt: Receipt::new(Vec::new(), now_ms) },
        Err(error) => outcome(&error),
    }
}

fn response_body(message: &Outgoing) -> Value {
    let (text, blocks) = text_and_blocks(message);
    let mut response = json!({ "response_type": "ephemeral", "text": text });
    for name in no_unfurl() {
        response[name] = json!(false);
    }
    if let Some(blocks) = blocks {
        response["blocks"] = blocks;
    }
    response
}

/// Edits a sent message.
pub(crate) async fn edit(destination: &Destination<'_>, ts: &str, message: &Outgoing, now_ms: i64) -> SendOutcome {
    if !is_ts(ts) {
        return SendOutcome::refused(RefusalKind::Invalid, format!("{ts:?} is not a Slack message that can be edited"));
    }
    let (text, blocks) = text_and_blocks(message);
    // Without `blocks` the previous blocks would remain.
    let blocks = blocks.unwrap_or_else(|| json!([]));
    let parameters =
        [("channel", json!(destination.channel)), ("ts", json!(ts)), ("text", json!(text)), ("blocks", blocks)];
    match destination.call::<Empty>("chat.update", &parameters).await {
        Ok(_) => SendOutcome::delivered(ts, now_ms),
        Err(error) => outcome(&error),
    }
}

/// Posts the first message of a thread; returns its id.
pub(crate) async fn post_first_message(destination: &Destination<'_>, text: &str) -> Result<String, ApiError> {
    let mut parameters =
        vec![("channel", json!(destination.channel)), ("text", json!(escape(text))), ("mrkdwn", json!(false))];
    parameters.extend(no_unfurl().map(|name| (name, json!(false))));
    let posted: PostedMessage = destination.call("chat.postMessage", &parameters).await?;
    match is_ts(&posted.ts) {
        true => Ok(posted.ts),
        false => Err(ApiError::Unknown("Slack sent no id of the new message".to_owned())),
    }
}

/// Returns the message without its files, with a line that names them and the reason.
fn without_files(message: &Outgoing, refused: &Rejection) -> Outgoing {
    tracing::warn!(%refused, files = message.media.len(), "Slack rejected the files; sending the text without them");
    let mut without = message.clone();
    without.text = with_line(&message.text, &not_attached(&message.media, &message.format, &refused.to_string()));
    without.source = with_line(&message.source, &not_attached(&message.media, &Format::Plain, &refused.to_string()));
    without.media.clear();
    without
}

#[cfg(test)]
mod tests;

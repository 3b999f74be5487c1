//! Conversion of parts to requests, and of the server's responses to outcomes.
//!
//! This module alone classifies the platform's errors.

use std::time::Duration;

use hermes_adapter_net::reqwest::multipart::{Form, Part};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::api::{ApiError, Refused};
use crate::inbound::BUTTON;

/// The maximum number of files per message. <https://docs.discord.com/developers/resources/message#create-message>
pub const FILES_MAX: usize = 10;
/// The maximum number of buttons per row, and of rows.
/// <https://docs.discord.com/developers/components/reference#action-row>
const ROW_MAX: usize = 5;
/// The maximum length of a button's label, in characters.
/// <https://docs.discord.com/developers/components/reference#button>
const LABEL_CHARS_MAX: usize = 80;
/// Flags of a message. <https://docs.discord.com/developers/resources/message#message-object-message-flags>
mod flag {
    pub const SUPPRESS_EMBEDS: u64 = 1 << 2;
    pub const EPHEMERAL: u64 = 1 << 6;
    pub const SUPPRESS_NOTIFICATIONS: u64 = 1 << 12;
}

/// The parts of a delivery that are sent as replies.
#[derive(AdapterConfig, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ReplyMode {
    /// The first part.
    #[default]
    First,
    /// Every part.
    All,
    /// No part.
    Off,
}

/// The settings of this instance's messages.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The parts that are sent as replies.
    pub reply_mode: ReplyMode,
    /// True to show link previews.
    pub link_previews: bool,
}

/// Returns the body of a new message in a channel.
pub fn message(outgoing: &Outgoing, manner: Manner, channel: &str) -> Value {
    let mut body = words(outgoing, manner);
    if !outgoing.key.is_empty() {
        // Within a few minutes Discord answers a repeated key with the existing message.
        // <https://docs.discord.com/developers/resources/message#create-message>
        body["nonce"] = json!(outgoing.key);
        body["enforce_nonce"] = json!(true);
    }
    if let Some(answered) = anchor(outgoing, manner, channel) {
        body["message_reference"] = json!({ "message_id": answered, "fail_if_not_exists": false });
    }
    body
}

/// Returns the body of an answer to an interaction; `private`: only the user of the command sees it.
pub fn answer(outgoing: &Outgoing, manner: Manner, private: bool) -> Value {
    let mut body = words(outgoing, manner);
    if private {
        body["flags"] = json!(body["flags"].as_u64().unwrap_or_default() | flag::EPHEMERAL);
    }
    body
}

/// Returns the body of an edit. Omitted fields stay unchanged, so the body always contains the buttons.
pub fn changed(outgoing: &Outgoing) -> Value {
    json!({ "content": outgoing.text, "components": buttons(outgoing), "allowed_mentions": { "parse": [] } })
}

fn words(outgoing: &Outgoing, manner: Manner) -> Value {
    let mut flags = 0;
    if outgoing.silent {
        flags |= flag::SUPPRESS_NOTIFICATIONS;
    }
    if !manner.link_previews {
        flags |= flag::SUPPRESS_EMBEDS;
    }
    json!({
        "content": outgoing.text,
        "components": buttons(outgoing),
        "flags": flags,
        // An answer may mention users, but never roles or everybody.
        "allowed_mentions": { "parse": ["users"], "replied_user": true },
    })
}

/// Returns the answered message. The message that opened a thread is outside of the thread
/// and cannot be answered there.
fn anchor<'o>(outgoing: &'o Outgoing, manner: Manner, channel: &str) -> Option<&'o str> {
    let wanted = match manner.reply_mode {
        ReplyMode::First => outgoing.part == 1,
        ReplyMode::All => true,
        ReplyMode::Off => false,
    };
    let answered = outgoing.reply_to.as_deref().filter(|_| wanted)?;
    crate::channels::number(answered).filter(|_| answered != channel).map(|_| answered)
}

fn buttons(outgoing: &Outgoing) -> Value {
    let Some(choices) = &outgoing.choices else { return json!([]) };
    let buttons: Vec<Value> = choices
        .options
        .iter()
        .take(ROW_MAX * ROW_MAX)
        .map(|option| {
            let label: String = option.label.chars().take(LABEL_CHARS_MAX).collect();
            // <https://docs.discord.com/developers/components/reference#button-button-styles>
            let style = match option.style.as_str() {
                "primary" => 1,
                "danger" => 4,
                _ => 2,
            };
            json!({ "type": 2, "style": style, "label": label, "custom_id": format!("{BUTTON}{}:{}", choices.ask, option.id) })
        })
        .collect();
    buttons.chunks(ROW_MAX).map(|row| json!({ "type": 1, "components": row })).collect()
}

/// Returns a body with files. <https://docs.discord.com/developers/reference#uploading-files>
pub async fn with_files(mut body: Value, files: &[OutMedia]) -> Result<Form, ApiError> {
    let named: Vec<Value> =
        files.iter().enumerate().map(|(n, file)| json!({ "id": n.to_string(), "filename": file.name })).collect();
    body["attachments"] = Value::Array(named);
    let mut form = Form::new().text("payload_json", body.to_string());
    for (n, file) in files.iter().enumerate() {
        form = form.part(format!("files[{n}]"), part(file).await?);
    }
    Ok(form)
}

async fn part(file: &OutMedia) -> Result<Part, ApiError> {
    let path = file.path.clone();
    let bytes = tokio::task::spawn_blocking(move || std::fs::read(path))
        .await
        .map_err(|error| ApiError::NotSent(error.to_string()))?
        .map_err(|error| ApiError::Unusable(format!("{} cannot be read: {error}", file.name)))?;
    let part = Part::bytes(bytes).file_name(file.name.clone());
    part.mime_str(&file.mime)
        .map_err(|error| ApiError::Unusable(format!("{:?} is not a valid MIME type: {error}", file.mime)))
}

/// Returns the outcome of a delivery to `chat` that failed with this error.
pub fn outcome(error: &ApiError, chat: &Chat) -> SendOutcome {
    match error {
        ApiError::NotSent(detail) => SendOutcome::not_sent(None, WaitScope::Instance, detail.clone()),
        ApiError::Doubtful(detail) => SendOutcome::unknown(detail.clone()),
        ApiError::Keyless(detail) => SendOutcome::unknown_keyless(detail.clone()),
        ApiError::Limited { retry_after, all } => {
            let scope = if *all { WaitScope::Instance } else { WaitScope::Chat };
            SendOutcome::not_sent(Some(ms(*retry_after)), scope, error.to_string())
        }
        ApiError::Unusable(detail) => SendOutcome::refused(RefusalKind::Invalid, detail.clone()),
        ApiError::Refused(refused) if is_barred(refused) => {
            SendOutcome::not_sent(None, WaitScope::Chat, refused.to_string())
        }
        ApiError::Refused(refused) => SendOutcome::refused(refusal(refused, chat), refused.to_string()),
    }
}

/// Returns whether a proxy before Discord rejected the request, which is independent of the
/// chat. A request that is too large stays too large.
fn is_barred(refused: &Refused) -> bool {
    !refused.is_its_own && (400..500).contains(&refused.status) && refused.status != 413
}

/// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
fn refusal(refused: &Refused, chat: &Chat) -> RefusalKind {
    match (refused.code, refused.status) {
        // Unknown channel; an archived or locked thread.
        (10003, _) if chat.thread.is_some() => RefusalKind::ThreadGone,
        (50083 | 160_005, _) => RefusalKind::ThreadGone,
        (10003 | 10004, _) => RefusalKind::ChatGone,
        // No access; the user accepts no direct messages; no permission; verification. A
        // blocked word is a fault of the text.
        (50001 | 50007 | 50009 | 50013, _) => RefusalKind::Forbidden,
        (50035, _) if refused.message.contains("content: BASE_TYPE_MAX_LENGTH") => RefusalKind::TooLong,
        (_, 401) => RefusalKind::Unauthorized,
        (0, 403) => RefusalKind::Forbidden,
        _ => RefusalKind::Invalid,
    }
}

/// Returns a wait in milliseconds, rounded up.
pub fn ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! From a part to the request that carries it, and from the server's answer to an outcome.
//!
//! Every error of the platform is classified here and nowhere else.

use std::time::Duration;

use hermes_adapter_net::reqwest::multipart::{Form, Part};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::api::{ApiError, Refused};
use crate::inbound::BUTTON;

/// The most files of one message. <https://docs.discord.com/developers/resources/message#create-message>
pub const FILES_MAX: usize = 10;
/// Buttons of one row, and rows of one message. <https://docs.discord.com/developers/components/reference#action-row>
const ROW_MAX: usize = 5;
/// The longest label of a button, in characters. <https://docs.discord.com/developers/components/reference#button>
const LABEL_CHARS_MAX: usize = 80;
/// Flags of a message. <https://docs.discord.com/developers/resources/message#message-object-message-flags>
mod flag {
    pub const SUPPRESS_EMBEDS: u64 = 1 << 2;
    pub const EPHEMERAL: u64 = 1 << 6;
    pub const SUPPRESS_NOTIFICATIONS: u64 = 1 << 12;
}

/// Which parts of a delivery answer the message they are about.
#[derive(AdapterConfig, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ReplyMode {
    /// The first one.
    #[default]
    First,
    /// Every one.
    All,
    /// None.
    Off,
}

/// How this instance writes.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Which parts answer.
    pub reply_mode: ReplyMode,
    /// Whether links are previewed.
    pub link_previews: bool,
}

/// The body of a new message in a channel.
pub fn message(outgoing: &Outgoing, manner: Manner, channel: &str) -> Value {
    let mut body = words(outgoing, manner);
    if !outgoing.key.is_empty() {
        // The same key within a few minutes is answered with the message that there is already.
        // <https://docs.discord.com/developers/resources/message#create-message>
        body["nonce"] = json!(outgoing.key);
        body["enforce_nonce"] = json!(true);
    }
    if let Some(answered) = anchor(outgoing, manner, channel) {
        body["message_reference"] = json!({ "message_id": answered, "fail_if_not_exists": false });
    }
    body
}

/// The body of an answer to an interaction; `private`: only who asked sees it.
pub fn answer(outgoing: &Outgoing, manner: Manner, private: bool) -> Value {
    let mut body = words(outgoing, manner);
    if private {
        body["flags"] = json!(body["flags"].as_u64().unwrap_or_default() | flag::EPHEMERAL);
    }
    body
}

/// The body of a message that is changed. What is not named stays, so buttons are named even where there are none.
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
        // People may be called by an answer; roles and everybody never.
        "allowed_mentions": { "parse": ["users"], "replied_user": true },
    })
}

/// The message that is answered. The one that opened a thread lies outside of it and cannot be.
fn anchor<'o>(outgoing: &'o Outgoing, manner: Manner, channel: &str) -> Option<&'o str> {
    let wanted = match manner.reply_mode {
        ReplyMode::First => outgoing.part == 1,
        ReplyMode::All => true,
        ReplyMode::Off => false,
    };
    let answered = outgoing.reply_to.as_deref().filter(|_| wanted)?;
    crate::places::number(answered).filter(|_| answered != channel).map(|_| answered)
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

/// A body with files. <https://docs.discord.com/developers/reference#uploading-files>
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
    part.mime_str(&file.mime).map_err(|error| ApiError::Unusable(format!("{:?} is no MIME type: {error}", file.mime)))
}

/// What an error means for a delivery to `chat`.
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

/// Whether something before Discord refused it: that says nothing about the chat. What is too large stays so.
fn is_barred(refused: &Refused) -> bool {
    !refused.is_its_own && (400..500).contains(&refused.status) && refused.status != 413
}

/// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
fn refusal(refused: &Refused, chat: &Chat) -> RefusalKind {
    match (refused.code, refused.status) {
        // Unknown channel; an archived thread, a locked one.
        (10003, _) if chat.thread.is_some() => RefusalKind::ThreadGone,
        (50083 | 160_005, _) => RefusalKind::ThreadGone,
        (10003 | 10004, _) => RefusalKind::ChatGone,
        // No access; the user takes no direct messages; no permission; verification. A blocked word is the text's fault.
        (50001 | 50007 | 50009 | 50013, _) => RefusalKind::Forbidden,
        (50035, _) if refused.message.contains("content: BASE_TYPE_MAX_LENGTH") => RefusalKind::TooLong,
        (_, 401) => RefusalKind::Unauthorized,
        (0, 403) => RefusalKind::Forbidden,
        _ => RefusalKind::Invalid,
    }
}

/// A wait in milliseconds, never shorter than it was told.
pub fn ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

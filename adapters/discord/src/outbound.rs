//! Conversion of parts to request bodies.

use hermes_adapter_net::reqwest::multipart::{Form, Part};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::buttons;
use crate::config::{ReplyMode, SendOptions};
use crate::snowflake;

/// The maximum number of files per message. <https://docs.discord.com/developers/resources/message#create-message>
pub(crate) const FILES_MAX: usize = 10;
/// Flags of a message. <https://docs.discord.com/developers/resources/message#message-object-message-flags>
mod flag {
    pub(super) const SUPPRESS_EMBEDS: u64 = 1 << 2;
    pub(super) const EPHEMERAL: u64 = 1 << 6;
    pub(super) const SUPPRESS_NOTIFICATIONS: u64 = 1 << 12;
}

/// Returns the body of a new message in a channel.
pub(crate) fn message_body(outgoing: &Outgoing, options: SendOptions, channel: &str) -> Value {
    let mut body = base_body(outgoing, options);
    if !outgoing.key.is_empty() {
        // Within a few minutes Discord answers a repeated key with the existing message.
        // <https://docs.discord.com/developers/resources/message#create-message>
        body["nonce"] = json!(outgoing.key);
        body["enforce_nonce"] = json!(true);
    }
    if let Some(answered) = reply_target(outgoing, options, channel) {
        body["message_reference"] = json!({ "message_id": answered, "fail_if_not_exists": false });
    }
    body
}

/// Returns the body of an answer to an interaction; `private`: only the user of the command sees it.
pub(crate) fn interaction_body(outgoing: &Outgoing, options: SendOptions, private: bool) -> Value {
    let mut body = base_body(outgoing, options);
    if private {
        body["flags"] = json!(body["flags"].as_u64().unwrap_or_default() | flag::EPHEMERAL);
    }
    body
}

/// Returns the body of an edit. Omitted fields stay unchanged, so the body always contains the buttons.
pub(crate) fn edit_body(outgoing: &Outgoing) -> Value {
    json!({ "content": outgoing.text, "components": buttons::rows(outgoing.choices.as_ref()), "allowed_mentions": { "parse": [] } })
}

fn base_body(outgoing: &Outgoing, options: SendOptions) -> Value {
    let mut flags = 0;
    if outgoing.silent {
        flags |= flag::SUPPRESS_NOTIFICATIONS;
    }
    if !options.link_previews {
        flags |= flag::SUPPRESS_EMBEDS;
    }
    json!({
        "content": outgoing.text,
        "components": buttons::rows(outgoing.choices.as_ref()),
        "flags": flags,
        // An answer may mention users, but never roles or everybody.
        "allowed_mentions": { "parse": ["users"], "replied_user": true },
    })
}

/// Returns the answered message. The message that opened a thread is outside of the thread
/// and cannot be answered there.
fn reply_target<'o>(outgoing: &'o Outgoing, options: SendOptions, channel: &str) -> Option<&'o str> {
    let is_reply = match options.reply_mode {
        ReplyMode::First => outgoing.part == 1,
        ReplyMode::All => true,
        ReplyMode::Off => false,
    };
    let answered = outgoing.reply_to.as_deref().filter(|_| is_reply)?;
    snowflake::parse(answered).filter(|_| answered != channel).map(|_| answered)
}

/// Returns a body with files. <https://docs.discord.com/developers/reference#uploading-files>
pub(crate) async fn multipart(mut body: Value, files: &[OutMedia]) -> Result<Form, ApiError> {
    let named: Vec<Value> =
        files.iter().enumerate().map(|(n, file)| json!({ "id": n.to_string(), "filename": file.name })).collect();
    body["attachments"] = Value::Array(named);
    let mut form = Form::new().text("payload_json", body.to_string());
    for (n, file) in files.iter().enumerate() {
        form = form.part(format!("files[{n}]"), file_part(file).await?);
    }
    Ok(form)
}

async fn file_part(file: &OutMedia) -> Result<Part, ApiError> {
    let path = file.path.clone();
    let bytes = tokio::task::spawn_blocking(move || std::fs::read(path))
        .await
        .map_err(|error| ApiError::NotSent(error.to_string()))?
        .map_err(|error| ApiError::Invalid(format!("{} cannot be read: {error}", file.name)))?;
    let part = Part::bytes(bytes).file_name(file.name.clone());
    part.mime_str(&file.mime)
        .map_err(|error| ApiError::Invalid(format!("{:?} is not a valid MIME type: {error}", file.mime)))
}

#[cfg(test)]
mod tests;

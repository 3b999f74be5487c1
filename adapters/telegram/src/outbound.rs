//! Conversion of parts to calls.

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::{not_attached, with_line};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, send_time};
use crate::chat_parameters::{chat_parameters, chat_parameters_without_topic};
use crate::config::{ReplyMode, SendOptions};
use crate::errors::{is_bare_not_found, outcome};
use crate::objects::NewMessage;
use crate::uploads::{FileCall, remaining};

/// The maximum length of a caption, in UTF-16 units; a longer text becomes a separate
/// message. <https://core.telegram.org/bots/api#sendphoto>
const CAPTION_LIMIT_UTF16: usize = 1024;
/// The maximum length of a text, in UTF-16 units. <https://core.telegram.org/bots/api#sendmessage>
const TEXT_LIMIT_UTF16: usize = 4096;
/// The maximum number of files in an album. <https://core.telegram.org/bots/api#sendmediagroup>
const ALBUM_MAX: usize = 10;

/// Sends one part.
pub(crate) async fn send(api: &Api, options: SendOptions, message: &Outgoing, now_ms: i64) -> SendOutcome {
    let chat = match chat_parameters(&message.chat) {
        Ok(chat) => chat,
        Err(outcome) => return outcome,
    };
    let until = deadline(message);
    let text_fits = utf16_len(&message.source) <= CAPTION_LIMIT_UTF16 && message.choices.is_none();
    let mut ids = Vec::new();
    let reply = reply_parameters(options, message);
    let mut text = message.text.clone();
    if !message.media.is_empty() {
        let caption = if text_fits { message.text.as_str() } else { "" };
        let mut refused = None;
        for (number, files) in message.media.chunks(ALBUM_MAX).enumerate() {
            let (caption, reply) = if number == 0 { (caption, reply.clone()) } else { ("", None) };
            let call = FileCall { api, chat: &chat, message, caption, reply, until };
            match call.send(files).await {
                Ok(mut sent) => ids.append(&mut sent),
                // Earlier parts have arrived: a retry of the whole message would duplicate them.
                Err(error) if !ids.is_empty() => return SendOutcome::unknown(error.to_string()),
                Err(error) => match checked_outcome(api, &error).await {
                    // The text is sent even if the files are rejected.
                    SendOutcome::Refused { kind: RefusalKind::Invalid, detail, .. } => {
                        refused = Some(detail);
                        break;
                    }
                    outcome => return outcome,
                },
            }
        }
        match refused {
            Some(why) => text = with_line(&text, &not_attached(&message.media, &message.format, &why)),
            None if text_fits || text.is_empty() => {
                return SendOutcome::Delivered { receipt: Receipt::new(ids, now_ms) };
            }
            None => {}
        }
    }
    if text.trim().is_empty() {
        return SendOutcome::refused(
            RefusalKind::Invalid,
            "the text is empty; Telegram does not accept empty messages",
        );
    }
    let mut parameters = chat;
    parameters.insert("text".into(), json!(text));
    add_options(&mut parameters, options, message);
    // With files, the reply is the first file's message.
    if let Some(reply) = reply.filter(|_| ids.is_empty()) {
        parameters.insert("reply_parameters".into(), reply);
    }
    match api.call_within::<NewMessage>("sendMessage", &parameters, remaining(until)).await {
        Ok(sent) => {
            ids.push(sent.message_id.to_string());
            let at_ms = if sent.date > 0 { sent.date.saturating_mul(1_000) } else { now_ms };
            SendOutcome::Delivered { receipt: Receipt::new(ids, at_ms) }
        }
        Err(error) if !ids.is_empty() => SendOutcome::unknown(error.to_string()),
        Err(error) => checked_outcome(api, &error).await,
    }
}

/// Returns the outcome of a failed call. A bare "Not Found" is the answer to a wrong token and to a method that
/// the server does not have; `getMe` distinguishes the two.
async fn checked_outcome(api: &Api, error: &ApiError) -> SendOutcome {
    match error {
        ApiError::Refused(refused) if is_bare_not_found(refused) => {
            match api.call::<Value>("getMe", &json!({})).await {
                Err(ApiError::Refused(me)) if matches!(me.code, 401 | 404) => {
                    SendOutcome::refused(RefusalKind::Unauthorized, me.description)
                }
                Ok(_) | Err(ApiError::Refused(_)) => outcome(error),
                // The server is unreachable now; the message is retried later.
                Err(_) => SendOutcome::not_sent(None, WaitScope::Chat, refused.description.clone()),
            }
        }
        error => outcome(error),
    }
}

/// Returns the time by which a message must be sent, which is before the host stops waiting.
fn deadline(message: &Outgoing) -> Instant {
    let bytes = message.media.iter().map(|file| file.size).fold(0, u64::saturating_add);
    Instant::now() + message.time(send_time(bytes))
}

/// Edits a sent message.
pub(crate) async fn edit(
    api: &Api,
    options: SendOptions,
    target: &SentMessage,
    message: &Outgoing,
    now_ms: i64,
) -> SendOutcome {
    let Ok(message_id) = target.id.parse::<i64>() else {
        return SendOutcome::refused(RefusalKind::Invalid, format!("{:?} is not a Telegram message id", target.id));
    };
    let mut parameters = match chat_parameters_without_topic(&target.chat) {
        Ok(parameters) => parameters,
        Err(outcome) => return outcome,
    };
    parameters.insert("message_id".into(), json!(message_id));
    parameters.insert("text".into(), json!(message.text));
    add_options(&mut parameters, options, message);
    parameters.remove("disable_notification");
    let within = message.time(send_time(0));
    match api.call_within::<Value>("editMessageText", &parameters, within).await {
        Ok(_) => SendOutcome::delivered(target.id.clone(), now_ms),
        // The message has this content already, which is the requested result.
        Err(ApiError::Refused(refused)) if refused.description.contains("message is not modified") => {
            SendOutcome::delivered(target.id.clone(), now_ms)
        }
        Err(error) => checked_outcome(api, &error).await,
    }
}

/// Returns the parameters of a draft with as much of `text` as fits; plain text, because the markup may be
/// incomplete. <https://core.telegram.org/bots/api#sendmessagedraft>
pub(crate) fn draft(chat: &Chat, text: &str) -> Result<Map<String, Value>, CallError> {
    if chat.kind != ChatType::Dm {
        return Err(CallError::new("refused", "drafts are supported in private chats only"));
    }
    let mut parameters =
        chat_parameters(chat).map_err(|_| CallError::new("invalid", "the chat is not a Telegram chat"))?;
    let mut units = 0;
    let fits = |character: &char| {
        units += character.len_utf16();
        units <= TEXT_LIMIT_UTF16
    };
    parameters.insert("text".into(), json!(text.chars().take_while(fits).collect::<String>()));
    Ok(parameters)
}

fn reply_parameters(options: SendOptions, message: &Outgoing) -> Option<Value> {
    let is_reply = match options.reply_mode {
        ReplyMode::First => message.part == 1,
        ReplyMode::All => true,
        ReplyMode::Off => false,
    };
    let id: i64 = message.reply_to.as_ref().filter(|_| is_reply)?.parse().ok()?;
    Some(json!({ "message_id": id, "allow_sending_without_reply": true }))
}

fn add_options(parameters: &mut Map<String, Value>, options: SendOptions, message: &Outgoing) {
    if message.format == Format::TelegramHtml {
        parameters.insert("parse_mode".into(), json!("HTML"));
    }
    if !options.link_previews {
        parameters.insert("link_preview_options".into(), json!({ "is_disabled": true }));
    }
    if message.silent {
        parameters.insert("disable_notification".into(), json!(true));
    }
    if let Some(choices) = &message.choices {
        // One button per row: labels are sentences, and phones are narrow.
        let rows: Vec<Value> = choices
            .options
            .iter()
            .map(|option| json!([{ "text": option.label, "callback_data": format!("{}:{}", choices.ask, option.id) }]))
            .collect();
        parameters.insert("reply_markup".into(), json!({ "inline_keyboard": rows }));
    }
}

fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests;

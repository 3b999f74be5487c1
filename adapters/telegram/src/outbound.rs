//! Conversion of parts to calls, and of the server's responses to outcomes.
//!
//! This module alone classifies the platform's errors.

use std::time::Duration;

use hermes_adapter_net::reqwest::multipart::{Form, Part};
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::{not_attached, with_line};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use crate::api::{Api, ApiError, Refused, Sent, send_time};
use crate::inbound;

/// The maximum length of a caption, in UTF-16 units; a longer text becomes a separate
/// message. <https://core.telegram.org/bots/api#sendphoto>
const CAPTION_LIMIT_UTF16: usize = 1024;
/// The maximum length of a text, in UTF-16 units. <https://core.telegram.org/bots/api#sendmessage>
const TEXT_LIMIT_UTF16: usize = 4096;
/// The maximum number of files in an album. <https://core.telegram.org/bots/api#sendmediagroup>
const ALBUM_MAX: usize = 10;
/// The maximum size of a picture for `sendPhoto`, in bytes; larger ones are sent as documents.
const PHOTO_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// Error texts for a chat that rejects one kind of content and accepts others.
const KINDS_FORBIDDEN: [&str; 12] = [
    "not enough rights to send photos",
    "not enough rights to send videos",
    "not enough rights to send audios",
    "not enough rights to send music",
    "not enough rights to send documents",
    "not enough rights to send voice",
    "not enough rights to send video notes",
    "not enough rights to send stickers",
    "not enough rights to send animations",
    "not enough rights to send media",
    "not enough rights to send polls",
    "voice_messages_forbidden",
];

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

/// Sends one part.
pub async fn send(api: &Api, manner: Manner, message: &Outgoing, now_ms: i64) -> SendOutcome {
    let place = match place(&message.chat) {
        Ok(place) => place,
        Err(outcome) => return outcome,
    };
    let until = ends_at(message);
    let text_fits = utf16_len(&message.source) <= CAPTION_LIMIT_UTF16 && message.choices.is_none();
    let mut ids = Vec::new();
    let anchor = anchor(manner, message);
    let mut text = message.text.clone();
    if !message.media.is_empty() {
        let caption = if text_fits { message.text.as_str() } else { "" };
        let mut refused = None;
        for (number, files) in message.media.chunks(ALBUM_MAX).enumerate() {
            let (caption, anchor) = if number == 0 { (caption, anchor.clone()) } else { ("", None) };
            let call = Call { api, place: &place, message, caption, anchor, until };
            match call.files(files).await {
                Ok(mut sent) => ids.append(&mut sent),
                // Earlier parts have arrived: a retry of the whole message would duplicate them.
                Err(error) if !ids.is_empty() => return SendOutcome::unknown(error.to_string()),
                Err(error) => match checked(api, &error).await {
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
    let mut parameters = place;
    parameters.insert("text".into(), json!(text));
    add_manner(&mut parameters, manner, message);
    // With files, the reply is the first file's message.
    if let Some(anchor) = anchor.filter(|_| ids.is_empty()) {
        parameters.insert("reply_parameters".into(), anchor);
    }
    match api.call_within::<Sent>("sendMessage", &parameters, left(until)).await {
        Ok(sent) => {
            ids.push(sent.message_id.to_string());
            let at_ms = if sent.date > 0 { sent.date.saturating_mul(1_000) } else { now_ms };
            SendOutcome::Delivered { receipt: Receipt::new(ids, at_ms) }
        }
        Err(error) if !ids.is_empty() => SendOutcome::unknown(error.to_string()),
        Err(error) => checked(api, &error).await,
    }
}

/// Returns the outcome of a failed call. A bare "Not Found" is the answer to a wrong token and to a method that
/// the server does not have; `getMe` distinguishes the two.
async fn checked(api: &Api, error: &ApiError) -> SendOutcome {
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

fn is_bare_not_found(refused: &Refused) -> bool {
    refused.code == 404 && refused.description.trim().trim_end_matches('.').eq_ignore_ascii_case("not found")
}

/// Returns the time by which a message must be sent, which is before the host stops waiting.
fn ends_at(message: &Outgoing) -> Instant {
    let bytes = message.media.iter().map(|file| file.size).fold(0, u64::saturating_add);
    Instant::now() + message.time(send_time(bytes))
}

/// Returns the remaining time.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Edits a sent message.
pub async fn edit(api: &Api, manner: Manner, target: &SentMessage, message: &Outgoing, now_ms: i64) -> SendOutcome {
    let Ok(message_id) = target.id.parse::<i64>() else {
        return SendOutcome::refused(RefusalKind::Invalid, format!("{:?} is not a Telegram message id", target.id));
    };
    let mut parameters = match whole(&target.chat) {
        Ok(place) => place,
        Err(outcome) => return outcome,
    };
    parameters.insert("message_id".into(), json!(message_id));
    parameters.insert("text".into(), json!(message.text));
    add_manner(&mut parameters, manner, message);
    parameters.remove("disable_notification");
    let within = message.time(send_time(0));
    match api.call_within::<Value>("editMessageText", &parameters, within).await {
        Ok(_) => SendOutcome::delivered(target.id.clone(), now_ms),
        // The message has this content already, which is the requested result.
        Err(ApiError::Refused(refused)) if refused.description.contains("message is not modified") => {
            SendOutcome::delivered(target.id.clone(), now_ms)
        }
        Err(error) => checked(api, &error).await,
    }
}

/// Returns the parameters that identify a chat and its topic.
pub fn place(chat: &Chat) -> Result<Map<String, Value>, SendOutcome> {
    let mut parameters = Map::new();
    let id: i64 = chat.id.parse().map_err(|_| {
        SendOutcome::refused(RefusalKind::Invalid, format!("{:?} is not a Telegram chat id (a number)", chat.id))
    })?;
    parameters.insert("chat_id".into(), json!(id));
    if let Some(thread) = &chat.thread {
        let (key, thread) = match thread.strip_prefix(inbound::DIRECT) {
            Some(topic) => ("direct_messages_topic_id", topic),
            None => ("message_thread_id", thread.as_str()),
        };
        let thread: i64 = thread.parse().map_err(|_| {
            SendOutcome::refused(RefusalKind::Invalid, format!("{thread:?} is not a Telegram topic id (a number)"))
        })?;
        parameters.insert(key.into(), json!(thread));
    }
    Ok(parameters)
}

/// Returns the parameters of a chat without its topic, for calls about a message or the whole chat.
pub fn whole(chat: &Chat) -> Result<Map<String, Value>, SendOutcome> {
    let mut chat = chat.clone();
    chat.thread = None;
    place(&chat)
}

/// Returns whether the chat is a person's direct messages with a channel.
pub fn is_direct(chat: &Chat) -> bool {
    chat.thread.as_ref().is_some_and(|thread| thread.starts_with(inbound::DIRECT))
}

/// Returns the parameters of a draft with as much of `text` as fits; plain text, because the markup may be
/// incomplete. <https://core.telegram.org/bots/api#sendmessagedraft>
pub fn draft(chat: &Chat, text: &str) -> Result<Map<String, Value>, CallError> {
    if chat.kind != ChatType::Dm {
        return Err(CallError::new("refused", "drafts are supported in private chats only"));
    }
    let mut parameters = place(chat).map_err(|_| CallError::new("invalid", "the chat is not a Telegram chat"))?;
    let mut units = 0;
    let fits = |character: &char| {
        units += character.len_utf16();
        units <= TEXT_LIMIT_UTF16
    };
    parameters.insert("text".into(), json!(text.chars().take_while(fits).collect::<String>()));
    Ok(parameters)
}

/// Returns the outcome of a delivery that failed with this error.
pub fn outcome(error: &ApiError) -> SendOutcome {
    match error {
        ApiError::NotSent(detail) => SendOutcome::not_sent(None, WaitScope::Instance, detail.clone()),
        ApiError::Unusable(detail) => SendOutcome::refused(RefusalKind::Invalid, detail.clone()),
        ApiError::TooLarge(_) => SendOutcome::unknown(error.to_string()),
        ApiError::Doubtful(detail) => SendOutcome::unknown(detail.clone()),
        ApiError::Refused(refused) => refusal(refused),
    }
}

/// Classifies a refusal. The Bot API has no error codes besides the HTTP status, so the
/// sentences are parsed, only here.
fn refusal(refused: &Refused) -> SendOutcome {
    if let Some(new) = refused.migrate_to_chat_id {
        return SendOutcome::migrated(new.to_string());
    }
    if refused.code == 429 {
        return SendOutcome::not_sent(refused.retry_after_ms, WaitScope::Chat, refused.description.clone());
    }
    let said = refused.description.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let kind = match refused.code {
        401 => RefusalKind::Unauthorized,
        // The server does not have the method; see `checked`.
        404 => RefusalKind::Invalid,
        403 => RefusalKind::Forbidden,
        // "Request Entity Too Large" is about bytes.
        413 => RefusalKind::Invalid,
        _ if says(&["can't parse entities", "can't parse message text", "unsupported start tag", "entity"]) => {
            RefusalKind::BadFormat
        }
        _ if says(&[
            "message is too long",
            "message_too_long",
            "caption is too long",
            "text is too long",
            "too many characters",
        ]) =>
        {
            RefusalKind::TooLong
        }
        _ if says(&["thread not found", "topic_deleted", "topic_closed", "topic closed", "topic not found"]) => {
            RefusalKind::ThreadGone
        }
        _ if says(&["chat not found", "peer_id_invalid", "group chat was deactivated", "user is deactivated"]) => {
            RefusalKind::ChatGone
        }
        // The chat accepts text, but not this kind of content.
        _ if says(&KINDS_FORBIDDEN) => RefusalKind::Invalid,
        _ if says(&["not enough rights", "have no rights", "need administrator rights", "chat_write_forbidden"]) => {
            RefusalKind::Forbidden
        }
        _ => RefusalKind::Invalid,
    };
    SendOutcome::refused(kind, refused.description.clone())
}

fn anchor(manner: Manner, message: &Outgoing) -> Option<Value> {
    let wanted = match manner.reply_mode {
        ReplyMode::First => message.part == 1,
        ReplyMode::All => true,
        ReplyMode::Off => false,
    };
    let id: i64 = message.reply_to.as_ref().filter(|_| wanted)?.parse().ok()?;
    Some(json!({ "message_id": id, "allow_sending_without_reply": true }))
}

fn add_manner(parameters: &mut Map<String, Value>, manner: Manner, message: &Outgoing) {
    if message.format == Format::TelegramHtml {
        parameters.insert("parse_mode".into(), json!("HTML"));
    }
    if !manner.link_previews {
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

/// A call that sends files.
struct Call<'c> {
    api: &'c Api,
    place: &'c Map<String, Value>,
    message: &'c Outgoing,
    caption: &'c str,
    anchor: Option<Value>,
    /// The time by which the call must end.
    until: Instant,
}

impl Call<'_> {
    /// Sends the files by their kinds, or as documents if that is rejected. Returns the ids of the messages.
    async fn files(&self, files: &[OutMedia]) -> Result<Vec<String>, ApiError> {
        let [file] = files else {
            let kind = kind_of_album(files);
            return match self.album(files, kind).await {
                Err(ApiError::Refused(refused)) if kind != Some("document") && is_of_the_form(&refused) => {
                    self.album(files, Some("document")).await
                }
                sent => sent,
            };
        };
        let (method, field) = method_for(file, is_opus(file).await?);
        let sent = match self.one(file, method, field).await {
            // A file that the server rejects as a photo or recording can still be sent as a document.
            Err(ApiError::Refused(refused)) if field != "document" && is_of_the_form(&refused) => {
                self.one(file, "sendDocument", "document").await
            }
            sent => sent,
        };
        Ok(vec![sent?.message_id.to_string()])
    }

    fn form(&self) -> Form {
        let mut form = Form::new();
        for (name, value) in self.place {
            form = form.text(name.clone(), value.to_string());
        }
        if let Some(anchor) = &self.anchor {
            form = form.text("reply_parameters", anchor.to_string());
        }
        if self.message.silent {
            form = form.text("disable_notification", "true");
        }
        form
    }

    fn is_html(&self) -> bool {
        self.message.format == Format::TelegramHtml && !self.caption.is_empty()
    }

    async fn one(&self, file: &OutMedia, method: &str, field: &'static str) -> Result<Sent, ApiError> {
        let mut form = self.form();
        if !self.caption.is_empty() {
            form = form.text("caption", self.caption.to_owned());
        }
        if self.is_html() {
            form = form.text("parse_mode", "HTML");
        }
        self.api.upload(method, form.part(field, part(file).await?), left(self.until)).await
    }

    /// Sends an album, with all files as `kind` or each by its own kind.
    async fn album(&self, files: &[OutMedia], kind: Option<&str>) -> Result<Vec<String>, ApiError> {
        let mut media = Vec::new();
        let mut form = self.form();
        for (number, file) in files.iter().enumerate() {
            let kind = kind.unwrap_or_else(|| method_for(file, false).1);
            let mut item = json!({ "type": kind, "media": format!("attach://f{number}") });
            if number == 0 && !self.caption.is_empty() {
                item["caption"] = json!(self.caption);
                if self.is_html() {
                    item["parse_mode"] = json!("HTML");
                }
            }
            media.push(item);
            form = form.part(format!("f{number}"), part(file).await?);
        }
        let form = form.text("media", Value::Array(media).to_string());
        let sent: Vec<Sent> = self.api.upload("sendMediaGroup", form, left(self.until)).await?;
        Ok(sent.into_iter().map(|one| one.message_id.to_string()).collect())
    }
}

/// Returns the common kind of an album's files; `None` for photos and videos, which may be mixed. Audio files form an
/// album of their own, and all other files are sent as documents. <https://core.telegram.org/bots/api#sendmediagroup>
fn kind_of_album(files: &[OutMedia]) -> Option<&'static str> {
    let are = |kinds: &[&str]| files.iter().all(|file| kinds.contains(&method_for(file, false).1));
    match () {
        () if are(&["photo", "video"]) => None,
        () if are(&["audio"]) => Some("audio"),
        () => Some("document"),
    }
}

/// Returns the method that sends a file, and its form field. Only Opus in Ogg is a voice message on all
/// clients; another format intended as a voice message is sent by its type.
/// <https://core.telegram.org/bots/api#sendvoice>
fn method_for(file: &OutMedia, is_opus: bool) -> (&'static str, &'static str) {
    match file.mime.as_str() {
        "image/jpeg" | "image/png" | "image/webp" if file.size <= PHOTO_BYTES_MAX => ("sendPhoto", "photo"),
        "video/mp4" => ("sendVideo", "video"),
        "audio/mpeg" | "audio/mp4" => ("sendAudio", "audio"),
        "audio/ogg" if is_opus => ("sendVoice", "voice"),
        "audio/ogg" | "audio/x-m4a" | "audio/m4a" | "audio/aac" if file.kind == Some(AttachmentKind::Voice) => {
            ("sendAudio", "audio")
        }
        _ => ("sendDocument", "document"),
    }
}

/// Returns whether a refusal is about the content instead of the chat.
fn is_of_the_form(refused: &Refused) -> bool {
    matches!(refusal(refused), SendOutcome::Refused { kind: RefusalKind::Invalid, .. })
}

/// Returns whether an Ogg stream contains Opus: its first page has one segment, after 28 bytes of header.
async fn is_opus(file: &OutMedia) -> Result<bool, ApiError> {
    if file.mime != "audio/ogg" {
        return Ok(false);
    }
    let mut head = Vec::new();
    let mut start = open(file).await?.take(36);
    start.read_to_end(&mut head).await.map_err(|error| unreadable(file, &error))?;
    Ok(head.get(28..36).is_some_and(|head| head == b"OpusHead"))
}

async fn open(file: &OutMedia) -> Result<tokio::fs::File, ApiError> {
    tokio::fs::File::open(&file.path).await.map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &OutMedia, error: &std::io::Error) -> ApiError {
    ApiError::Unusable(format!("{} cannot be read: {error}", file.name))
}

/// Returns the file as a part of a form; the file is read while it is sent.
async fn part(file: &OutMedia) -> Result<Part, ApiError> {
    let opened = open(file).await?;
    let size = opened.metadata().await.map_err(|error| unreadable(file, &error))?.len();
    let part = Part::stream_with_length(opened, size).file_name(file.name.clone());
    // An invalid MIME type is replaced; the file is sent anyway.
    let mime =
        if Part::text("").mime_str(&file.mime).is_ok() { file.mime.as_str() } else { "application/octet-stream" };
    part.mime_str(mime).map_err(|error| ApiError::Unusable(format!("{mime:?} is not a valid MIME type: {error}")))
}

fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests;

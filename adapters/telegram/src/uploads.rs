//! Outgoing files: the method for each kind, and their form.

use std::time::Duration;

use hermes_adapter_net::reqwest::multipart::{Form, Part};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use crate::api::{Api, ApiError, Rejection};
use crate::errors::refusal;
use crate::objects::NewMessage;

/// The maximum size of a picture for `sendPhoto`, in bytes; larger ones are sent as documents.
const PHOTO_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// A call that sends files.
pub(crate) struct FileCall<'c> {
    pub api: &'c Api,
    /// The parameters that identify the chat.
    pub chat: &'c Map<String, Value>,
    pub message: &'c Outgoing,
    pub caption: &'c str,
    pub reply: Option<Value>,
    /// The time by which the call must end.
    pub until: Instant,
}

impl FileCall<'_> {
    /// Sends the files by their kinds, or as documents if that is rejected. Returns the ids of the messages.
    pub(crate) async fn send(&self, files: &[OutMedia]) -> Result<Vec<String>, ApiError> {
        let [file] = files else {
            let kind = kind_of_album(files);
            return match self.send_album(files, kind).await {
                Err(ApiError::Refused(refused)) if kind != Some("document") && is_about_content(&refused) => {
                    self.send_album(files, Some("document")).await
                }
                sent => sent,
            };
        };
        let (method, field) = method_for(file, is_opus(file).await?);
        let sent = match self.send_one(file, method, field).await {
            // A file that the server rejects as a photo or recording can still be sent as a document.
            Err(ApiError::Refused(refused)) if field != "document" && is_about_content(&refused) => {
                self.send_one(file, "sendDocument", "document").await
            }
            sent => sent,
        };
        Ok(vec![sent?.message_id.to_string()])
    }

    fn form(&self) -> Form {
        let mut form = Form::new();
        for (name, value) in self.chat {
            form = form.text(name.clone(), value.to_string());
        }
        if let Some(reply) = &self.reply {
            form = form.text("reply_parameters", reply.to_string());
        }
        if self.message.silent {
            form = form.text("disable_notification", "true");
        }
        form
    }

    fn is_html(&self) -> bool {
        self.message.format == Format::TelegramHtml && !self.caption.is_empty()
    }

    async fn send_one(&self, file: &OutMedia, method: &str, field: &'static str) -> Result<NewMessage, ApiError> {
        let mut form = self.form();
        if !self.caption.is_empty() {
            form = form.text("caption", self.caption.to_owned());
        }
        if self.is_html() {
            form = form.text("parse_mode", "HTML");
        }
        self.api.upload(method, form.part(field, file_part(file).await?), remaining(self.until)).await
    }

    /// Sends an album, with all files as `kind` or each by its own kind.
    async fn send_album(&self, files: &[OutMedia], kind: Option<&str>) -> Result<Vec<String>, ApiError> {
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
            form = form.part(format!("f{number}"), file_part(file).await?);
        }
        let form = form.text("media", Value::Array(media).to_string());
        let sent: Vec<NewMessage> = self.api.upload("sendMediaGroup", form, remaining(self.until)).await?;
        Ok(sent.into_iter().map(|message| message.message_id.to_string()).collect())
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
fn is_about_content(refused: &Rejection) -> bool {
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
    ApiError::Invalid(format!("{} cannot be read: {error}", file.name))
}

/// Returns the file as a part of a form; the file is read while it is sent.
async fn file_part(file: &OutMedia) -> Result<Part, ApiError> {
    let opened = open(file).await?;
    let size = opened.metadata().await.map_err(|error| unreadable(file, &error))?.len();
    let part = Part::stream_with_length(opened, size).file_name(file.name.clone());
    // An invalid MIME type is replaced; the file is sent anyway.
    let mime =
        if Part::text("").mime_str(&file.mime).is_ok() { file.mime.as_str() } else { "application/octet-stream" };
    part.mime_str(mime).map_err(|error| ApiError::Invalid(format!("{mime:?} is not a valid MIME type: {error}")))
}

/// Returns the remaining time.
pub(crate) fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;

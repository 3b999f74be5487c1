//! The files of incoming messages, as references.

use hermes_adapter_sdk::prelude::*;

use crate::objects::{File, Message};

/// Returns the files of a message. The reference is Telegram's file id, which stays valid for the same bot.
/// <https://core.telegram.org/bots/api#file>
pub(crate) fn attachments(message: &Message) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    let mut add = |kind: AttachmentKind, file: &File, mime: &str, name: &str| {
        let mime = file.mime_type.clone().unwrap_or_else(|| mime.to_owned());
        let name = file.file_name.clone().unwrap_or_else(|| name.to_owned());
        attachments.push(Attachment::away(&file.file_id, kind, mime, name, file.file_size.unwrap_or_default()));
    };
    // All sizes of one photo; the last is the largest.
    if let Some(largest) = message.photo.last() {
        add(AttachmentKind::Image, largest, "image/jpeg", "photo.jpg");
    }
    // An animation comes with a document that is the same file.
    match (&message.animation, &message.document) {
        (Some(animation), _) => add(AttachmentKind::Video, animation, "video/mp4", "animation.mp4"),
        (None, Some(document)) => add(AttachmentKind::File, document, "application/octet-stream", "file"),
        (None, None) => {}
    }
    if let Some(file) = &message.voice {
        add(AttachmentKind::Voice, file, "audio/ogg", "voice.ogg");
    }
    if let Some(file) = &message.audio {
        add(AttachmentKind::Audio, file, "audio/mpeg", "audio.mp3");
    }
    for file in message.video.iter().chain(&message.video_note) {
        add(AttachmentKind::Video, file, "video/mp4", "video.mp4");
    }
    if let Some(file) = &message.sticker {
        let mime = match file {
            File { is_animated: true, .. } => "application/x-tgsticker",
            File { is_video: true, .. } => "video/webm",
            _ => "image/webp",
        };
        add(AttachmentKind::Sticker, file, mime, file.emoji.as_deref().unwrap_or("sticker.webp"));
    }
    attachments
}

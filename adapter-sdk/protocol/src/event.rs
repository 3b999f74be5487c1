//! Incoming events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Chat, Extra, Sender, word::words};

words! {
    /// The kind of a change on the platform.
    pub enum EventKind {
        /// A new message.
        Message = "message",
        /// An edit of an earlier message.
        Edited = "edited",
        /// The deletion of a message.
        Deleted = "deleted",
        /// An added or removed reaction.
        Reaction = "reaction",
        /// A press of a button of an earlier question.
        Choice = "choice",
        /// The move of a chat to another id.
        Migrated = "migrated",
        /// A member who joined or left.
        Member = "member",
    }
}

/// One change on a platform, as an adapter emits it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Event {
    /// The kind of the change.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// The id of the change itself, never of the transport's delivery:
    /// `m:<chat>:<message>`, `e:<chat>:<message>:<revision>`, …
    pub event_id: String,
    /// The time of the change, in milliseconds since the Unix epoch, by the platform's clock.
    pub at_ms: i64,
    /// The chat.
    pub chat: Chat,
    /// The author.
    pub sender: Sender,
    /// The platform's id of the message, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The text, without the mention of this account.
    #[serde(default)]
    pub text: String,
    /// Facts that show whether the message addresses this account.
    #[serde(default)]
    pub addressed: Addressed,
    /// The message that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
    /// The origin of a message that its sender forwarded from another chat. Since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<Forwarded>,
    /// The attached files; an album is one event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The platform's id of the album that contains this message. The messages of one album and sender
    /// become one message for the agent; each carries the same facts in `addressed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// The pressed button, for `choice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceMade>,
    /// The emoji, for `reaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction: Option<String>,
    /// The new id of the chat, for `migrated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrated_to: Option<String>,
    /// The destination of the result, if it does not return to the event's chat. Applies only if the
    /// operator trusts the adapter's `authorizes_upstream`. The text of such an event is never a command,
    /// and no caller waits for the answer, so the turn delivers nothing later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver: Option<Deliver>,
    /// The platform's original data, limited by the adapter to 64 KiB.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub raw: Value,
    /// Fields of a later version.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Event {
    /// Creates a text message.
    pub fn message(event_id: impl Into<String>, chat: Chat, sender: Sender, text: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Message,
            event_id: event_id.into(),
            at_ms: 0,
            chat,
            sender,
            message_id: None,
            text: text.into(),
            addressed: Addressed::default(),
            reply_to: None,
            forwarded: None,
            attachments: Vec::new(),
            album: None,
            choice: None,
            reaction: None,
            migrated_to: None,
            deliver: None,
            raw: Value::Null,
            extra: Extra::new(),
        }
    }

    /// Returns the event with another kind.
    pub fn of_kind(mut self, kind: EventKind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns the event with this time, in milliseconds since the Unix epoch.
    pub fn at_ms(mut self, at_ms: i64) -> Self {
        self.at_ms = at_ms;
        self
    }

    /// Returns the event with the platform's message id.
    pub fn with_message_id(mut self, message_id: impl Into<String>) -> Self {
        self.message_id = Some(message_id.into());
        self
    }

    /// Returns the event as a part of this album.
    pub fn in_album(mut self, album: impl Into<String>) -> Self {
        self.album = Some(album.into());
        self
    }

    /// Returns the event as a forwarded message of this origin. Since 1.1.
    pub fn forwarded(mut self, origin: Forwarded) -> Self {
        self.forwarded = Some(origin);
        self
    }

    /// Returns the event with another destination of its result.
    pub fn delivered(mut self, deliver: Deliver) -> Self {
        self.deliver = Some(deliver);
        self
    }

    /// Returns the event with facts about its addressing.
    pub fn addressed(mut self, addressed: Addressed) -> Self {
        self.addressed = addressed;
        self
    }
}

/// The destination of an event's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Deliver {
    /// The target, as an operator writes it: `<instance>`, `<instance>:<chat>[:<thread>]`, `<instance>:@name`.
    /// `origin`, `local` and a target without a chat name the adapter itself, which receives the answer by `send`.
    pub to: String,
    /// True if the text is delivered unchanged, without a turn of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_is: bool,
    /// True if the chat sends nothing more: its conversation ends with the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

impl Deliver {
    /// Creates a destination for the agent's answer.
    pub fn answer_to(to: impl Into<String>) -> Self {
        Self { to: to.into(), as_is: false, ends: false }
    }

    /// Creates a destination for the text itself, which the agent does not receive.
    pub fn text_to(to: impl Into<String>) -> Self {
        Self { to: to.into(), as_is: true, ends: false }
    }

    /// Returns the destination for a chat that sends nothing more.
    pub fn ending(mut self) -> Self {
        self.ends = true;
        self
    }
}

/// Facts that show whether a message addresses this account, from structured platform data only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Addressed {
    /// True if the text mentions this account; the mention is removed from the text.
    #[serde(default)]
    pub mention: bool,
    /// True if the message answers one of this account's messages.
    #[serde(default)]
    pub reply_to_self: bool,
    /// True if the message is a command for this account.
    #[serde(default)]
    pub command: bool,
}

impl Addressed {
    /// Creates the facts in the order mention, reply to self, command.
    pub fn new(mention: bool, reply_to_self: bool, command: bool) -> Self {
        Self { mention, reply_to_self, command }
    }
}

/// The origin of a forwarded message, as far as the platform reports it. Since 1.1.
///
/// The agent sees the origin, but no decision depends on it: the sender of the event is the person who
/// forwarded it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Forwarded {
    /// The display name of the original author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The display name of the original chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// The original time, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

impl Forwarded {
    /// Creates an unknown origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the origin with the original author's display name.
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the origin with the display name of the original chat.
    pub fn from_chat(mut self, chat: impl Into<String>) -> Self {
        self.chat = Some(chat.into());
        self
    }

    /// Returns the origin with the original time.
    pub fn at_ms(mut self, at_ms: i64) -> Self {
        self.at_ms = Some(at_ms);
        self
    }
}

/// The message that another message answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReplyTo {
    /// The platform's id of that message.
    pub message_id: String,
    /// The text of that message, as far as the platform reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The author of that message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// True if this account wrote it.
    #[serde(default)]
    pub is_self: bool,
    /// The files of that message. Since 1.1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl ReplyTo {
    /// Creates a reference to the answered message.
    pub fn new(message_id: impl Into<String>) -> Self {
        Self { message_id: message_id.into(), ..Self::default() }
    }

    /// Returns the reference with the files of the quoted message. Since 1.1.
    pub fn with_attachments(mut self, attachments: Vec<Attachment>) -> Self {
        self.attachments = attachments;
        self
    }
}

words! {
    /// The kind of a file.
    pub enum AttachmentKind {
        /// An image.
        Image = "image",
        /// A video.
        Video = "video",
        /// Music or another recording.
        Audio = "audio",
        /// A voice message.
        Voice = "voice",
        /// A sticker.
        Sticker = "sticker",
        /// Any other file.
        File = "file",
    }
}

/// The maximum length of a reference to a file that is fetched later, in bytes.
pub const FETCH_BYTES_MAX: usize = 2 * 1024;

/// An incoming file. `media` names a committed `media.create`; `fetch` names a file that is still on its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Attachment {
    /// The id of the committed media; `None` if the file was not fetched (`note` gives the reason).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
    /// The kind of the file.
    pub kind: AttachmentKind,
    /// The MIME type.
    #[serde(default)]
    pub mime: String,
    /// The file name for display.
    #[serde(default)]
    pub name: String,
    /// The size in bytes.
    #[serde(default)]
    pub size: u64,
    /// The reason for a missing file, as a text for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// A reference to the file in the adapter's own format, at most [`FETCH_BYTES_MAX`] bytes. Replaces `media`. The
    /// host calls `fetch` with it after the sender is authorized, also after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<String>,
}

impl Attachment {
    /// Creates an attachment whose bytes are committed under `media`.
    pub fn new(
        media: impl Into<String>,
        kind: AttachmentKind,
        mime: impl Into<String>,
        name: impl Into<String>,
        size: u64,
    ) -> Self {
        Self { media: Some(media.into()), kind, mime: mime.into(), name: name.into(), size, note: None, fetch: None }
    }

    /// Creates an attachment that is still on its platform, at `reference`; `size` is 0 if it is unknown.
    pub fn away(
        reference: impl Into<String>,
        kind: AttachmentKind,
        mime: impl Into<String>,
        name: impl Into<String>,
        size: u64,
    ) -> Self {
        let fetch = Some(reference.into());
        Self { media: None, kind, mime: mime.into(), name: name.into(), size, note: None, fetch }
    }

    /// Returns the attachment after its bytes are committed under `media`.
    pub fn fetched(self, media: impl Into<String>, size: u64) -> Self {
        Self { media: Some(media.into()), size, note: None, fetch: None, ..self }
    }

    /// Returns the attachment as one that could not be fetched, with the reason.
    pub fn not_fetched(self, note: impl Into<String>) -> Self {
        Self { media: None, note: Some(note.into()), fetch: None, ..self }
    }

    /// Creates an attachment that was not fetched, with the reason.
    pub fn missing(kind: AttachmentKind, name: impl Into<String>, size: u64, note: impl Into<String>) -> Self {
        Self { media: None, kind, mime: String::new(), name: name.into(), size, note: Some(note.into()), fetch: None }
    }
}

/// The press of a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChoiceMade {
    /// The id of the question.
    pub ask: String,
    /// The id of the chosen option.
    pub option: String,
}

impl ChoiceMade {
    /// Creates the choice of `option` for the question `ask`.
    pub fn new(ask: impl Into<String>, option: impl Into<String>) -> Self {
        Self { ask: ask.into(), option: option.into() }
    }
}

/// The reply to `emit` after the inbox row is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum Emitted {
    /// The event is new and has this id.
    New {
        /// The id of the inbox row.
        inbox_id: i64,
    },
    /// The event was emitted before and is not processed again.
    Duplicate {
        /// The id of the existing inbox row.
        duplicate_of: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_platform_sent_is_forwarded_with_every_digit() {
        let long: Vec<String> = (1..=500).map(|n| format!(",{}", (f64::from(n) * 0.1 + 0.2) / 3.0)).collect();
        let numbers = format!("[{},9007199254740993,18446744073709551615{}]", 0.1 + 0.2, long.concat());
        let text = format!(
            r#"{{"type":"message","event_id":"m:1","at_ms":1,"chat":{{"type":"dm","id":"1"}},"sender":{{"id":"1","is_bot":false}},"text":"x","raw":{numbers},"later":{numbers}}}"#
        );
        let event: Event = serde_json::from_str(&text).unwrap();
        let again = serde_json::to_string(&event).unwrap();
        assert_eq!(again.matches(&numbers).count(), 2, "{again}");
    }
}

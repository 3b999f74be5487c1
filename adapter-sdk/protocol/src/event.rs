//! What comes in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Chat, Extra, Sender, word::words};

words! {
    /// What changed on the platform.
    pub enum EventKind {
        /// Somebody wrote.
        Message = "message",
        /// Somebody changed what they had written.
        Edited = "edited",
        /// A message is gone.
        Deleted = "deleted",
        /// A reaction was added or removed.
        Reaction = "reaction",
        /// A button of an earlier question was pressed.
        Choice = "choice",
        /// The chat continues under another id.
        Migrated = "migrated",
        /// Somebody joined or left.
        Member = "member",
    }
}

/// One change on a platform, as an adapter emits it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Event {
    /// What changed.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// Names the change itself, never the transport's delivery:
    /// `m:<chat>:<message>`, `e:<chat>:<message>:<revision>`, …
    pub event_id: String,
    /// When it happened, in milliseconds since the Unix epoch, by the platform's clock.
    pub at_ms: i64,
    /// Where.
    pub chat: Chat,
    /// Who.
    pub sender: Sender,
    /// The platform's id of the message, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// What was said, without the mention of this account.
    #[serde(default)]
    pub text: String,
    /// Facts about whether this account was meant.
    #[serde(default)]
    pub addressed: Addressed,
    /// The message this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
    /// The origin of a message that its sender forwarded from another chat. Since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<Forwarded>,
    /// Files that came with it; an album is one event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The platform's id of the album that this message is a part of. Parts of one album of one sender
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
    /// Where what follows from it goes, instead of back to its chat. It counts only from an adapter whose
    /// `authorizes_upstream` the operator trusts. What carries it is words, never a command; nobody waits
    /// for its answer, so its turn delivers nothing later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver: Option<Deliver>,
    /// What the platform sent, bounded by the adapter to 64 KiB.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub raw: Value,
    /// Fields of a later version.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Event {
    /// A text message.
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

    /// The same event of another kind.
    pub fn of_kind(mut self, kind: EventKind) -> Self {
        self.kind = kind;
        self
    }

    /// The same event at this time.
    pub fn at_ms(mut self, at_ms: i64) -> Self {
        self.at_ms = at_ms;
        self
    }

    /// The same event with the platform's message id.
    pub fn with_message_id(mut self, message_id: impl Into<String>) -> Self {
        self.message_id = Some(message_id.into());
        self
    }

    /// The same event as a part of this album.
    pub fn in_album(mut self, album: impl Into<String>) -> Self {
        self.album = Some(album.into());
        self
    }

    /// Returns the event as a forwarded message of this origin. Since 1.1.
    pub fn forwarded(mut self, origin: Forwarded) -> Self {
        self.forwarded = Some(origin);
        self
    }

    /// The same event, whose consequence goes somewhere else.
    pub fn delivered(mut self, deliver: Deliver) -> Self {
        self.deliver = Some(deliver);
        self
    }

    /// The same event with facts about being addressed.
    pub fn addressed(mut self, addressed: Addressed) -> Self {
        self.addressed = addressed;
        self
    }
}

/// Where what follows from an event goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Deliver {
    /// The target, as an operator writes it: `<instance>`, `<instance>:<chat>[:<thread>]`, `<instance>:@name`;
    /// `origin` and `local` are the adapter itself, which is handed the answer by `send`. So is what names no chat.
    pub to: String,
    /// Whether the text goes there as it is, without a turn of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_is: bool,
    /// Whether nothing more comes from this chat: its conversation ends with the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

impl Deliver {
    /// The agent's answer goes to `to`.
    pub fn answer_to(to: impl Into<String>) -> Self {
        Self { to: to.into(), as_is: false, ends: false }
    }

    /// The text itself goes to `to`, and no agent hears it.
    pub fn text_to(to: impl Into<String>) -> Self {
        Self { to: to.into(), as_is: true, ends: false }
    }

    /// The same, from a chat of which nothing more comes.
    pub fn ending(mut self) -> Self {
        self.ends = true;
        self
    }
}

/// Facts about whether this account was meant, from structured platform data only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Addressed {
    /// This account is mentioned inline; the mention is removed from the text.
    #[serde(default)]
    pub mention: bool,
    /// The message answers one of this account's messages.
    #[serde(default)]
    pub reply_to_self: bool,
    /// The message is a command meant for this account.
    #[serde(default)]
    pub command: bool,
}

impl Addressed {
    /// Facts in the order mention, reply to self, command.
    pub fn new(mention: bool, reply_to_self: bool, command: bool) -> Self {
        Self { mention, reply_to_self, command }
    }
}

/// The origin of a forwarded message, as far as the platform reports it. Since 1.1.
///
/// It is information for the agent and decides nothing: the sender of the event is the person who forwarded it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Forwarded {
    /// Display name of the original author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Display name of the chat that the message came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// The original time, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

impl Forwarded {
    /// An origin of which nothing is known.
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

/// The message that another one answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReplyTo {
    /// The platform's id of that message.
    pub message_id: String,
    /// What it said, as far as the platform tells.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// Whether this account wrote it.
    #[serde(default)]
    pub is_self: bool,
    /// Files of that message. Since 1.1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl ReplyTo {
    /// Names the message that is answered.
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
    /// What kind of file.
    pub enum AttachmentKind {
        /// A picture.
        Image = "image",
        /// A film.
        Video = "video",
        /// Music or another recording.
        Audio = "audio",
        /// Something spoken into the chat.
        Voice = "voice",
        /// A sticker.
        Sticker = "sticker",
        /// Any other file.
        File = "file",
    }
}

/// The longest reference to a file that is fetched later, in bytes.
pub const FETCH_BYTES_MAX: usize = 2 * 1024;

/// A file that came in. `media` names a committed `media.create`; `fetch` one that is still with its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Attachment {
    /// Id of the committed media; `None` when the file was not fetched (then `note` says why).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
    /// What kind of file.
    pub kind: AttachmentKind,
    /// MIME type.
    #[serde(default)]
    pub mime: String,
    /// File name for people.
    #[serde(default)]
    pub name: String,
    /// Size in bytes.
    #[serde(default)]
    pub size: u64,
    /// Why the file itself is missing, in words for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where the file is, in words that only the adapter understands, of at most [`FETCH_BYTES_MAX`]. It stands in place
    /// of `media`; the host asks for it with `fetch` once it is known that its sender may speak, also after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<String>,
}

impl Attachment {
    /// An attachment whose bytes are committed under `media`.
    pub fn new(
        media: impl Into<String>,
        kind: AttachmentKind,
        mime: impl Into<String>,
        name: impl Into<String>,
        size: u64,
    ) -> Self {
        Self { media: Some(media.into()), kind, mime: mime.into(), name: name.into(), size, note: None, fetch: None }
    }

    /// An attachment that is still with its platform, at `reference`; `size` is 0 where nobody knows it.
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

    /// The same file, whose bytes are committed under `media` by now.
    pub fn fetched(self, media: impl Into<String>, size: u64) -> Self {
        Self { media: Some(media.into()), size, note: None, fetch: None, ..self }
    }

    /// The same file, which cannot be had, and why.
    pub fn not_fetched(self, note: impl Into<String>) -> Self {
        Self { media: None, note: Some(note.into()), fetch: None, ..self }
    }

    /// An attachment that was not fetched, and why.
    pub fn missing(kind: AttachmentKind, name: impl Into<String>, size: u64, note: impl Into<String>) -> Self {
        Self { media: None, kind, mime: String::new(), name: name.into(), size, note: Some(note.into()), fetch: None }
    }
}

/// The button that somebody pressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChoiceMade {
    /// Id of the question.
    pub ask: String,
    /// Id of the chosen option.
    pub option: String,
}

impl ChoiceMade {
    /// Option `option` of question `ask`.
    pub fn new(ask: impl Into<String>, option: impl Into<String>) -> Self {
        Self { ask: ask.into(), option: option.into() }
    }
}

/// What `emit` answers once the inbox row is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum Emitted {
    /// The host has it now, under this id.
    New {
        /// The inbox row.
        inbox_id: i64,
    },
    /// The host had it before; nothing will happen twice.
    Duplicate {
        /// The inbox row it had.
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

//! Outgoing messages and their results.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AttachmentKind, Chat, Extra, word::words};

/// The time by which an adapter stops waiting for its platform before the host stops waiting for the adapter.
const TIME_LEFT_FOR_THE_ANSWER: Duration = Duration::from_secs(5);

words! {
    /// The purpose of a message.
    pub enum Purpose {
        /// An answer of the agent.
        Reply = "reply",
        /// A message of the host itself.
        Notice = "notice",
        /// A question with choices.
        Ask = "ask",
        /// A result of scheduled work.
        Cron = "cron",
    }
}

words! {
    /// The format of `text`.
    pub enum Format {
        /// Text without markup.
        Plain = "plain",
        /// CommonMark with tables.
        Markdown = "markdown",
        /// The HTML subset of Telegram.
        TelegramHtml = "telegram_html",
        /// The mrkdwn of Slack.
        Mrkdwn = "mrkdwn",
        /// The adapter's own dialect, produced by its `render`.
        Native = "native",
    }
}

/// One part of a delivery, ready to be sent unchanged. `send` never splits a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Outgoing {
    /// The id of the delivery.
    pub delivery: i64,
    /// The number of the part, from 1.
    pub part: u32,
    /// The number of parts.
    pub of: u32,
    /// The idempotency key: the same for every attempt of this part, at most 25 characters of `[A-Za-z0-9_-]`.
    pub key: String,
    /// The purpose of the message.
    pub purpose: Purpose,
    /// The destination.
    pub chat: Chat,
    /// The platform message to answer, the same for every part. The adapter decides which parts are shown as replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The `inbox_id` of the answered event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<i64>,
    /// The rendered text in `format`, within the declared limit.
    pub text: String,
    /// The format of `text`.
    pub format: Format,
    /// The plain text with the same content, for one plain resend after `bad_format`.
    #[serde(default)]
    pub source: String,
    /// The files to attach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<OutMedia>,
    /// The buttons, for `ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Choices>,
    /// True to deliver without a sound.
    #[serde(default)]
    pub silent: bool,
    /// The id of the only sender who may see the message, on platforms that support this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_to: Option<String>,
    /// The time that the host waits for the reply, in milliseconds. The time grows with the size of the files. After
    /// that the call is cancelled and its result is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// Fields of a later version.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Outgoing {
    /// Creates a plain notice with one part.
    pub fn text(chat: Chat, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            delivery: 0,
            part: 1,
            of: 1,
            key: String::new(),
            purpose: Purpose::Notice,
            chat,
            reply_to: None,
            in_reply_to: None,
            source: text.clone(),
            text,
            format: Format::Plain,
            media: Vec::new(),
            choices: None,
            silent: false,
            ephemeral_to: None,
            within_ms: None,
            extra: Extra::new(),
        }
    }

    /// Returns the total time that an adapter may take. The time is a little shorter than the host's wait, so that the
    /// adapter reports the result before the host gives up. `otherwise` applies if the host gives no time.
    pub fn time(&self, otherwise: Duration) -> Duration {
        let Some(within) = self.within_ms.map(Duration::from_millis) else { return otherwise };
        within - TIME_LEFT_FOR_THE_ANSWER.min(within / 4)
    }
}

/// A file that the host provides to the adapter. Adapters open no other path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OutMedia {
    /// The id of the media.
    pub id: String,
    /// The path of the file, readable until the part is settled.
    pub path: String,
    /// The MIME type.
    pub mime: String,
    /// The file name for display.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
    /// The intended presentation, if the MIME type does not determine it. `voice` means a voice
    /// message if the platform has them and accepts this file as one; otherwise the MIME type
    /// decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<AttachmentKind>,
}

impl OutMedia {
    /// Creates a reference to the file at `path`, provided under `id`.
    pub fn new(
        id: impl Into<String>,
        path: impl Into<String>,
        mime: impl Into<String>,
        name: impl Into<String>,
        size: u64,
    ) -> Self {
        Self { id: id.into(), path: path.into(), mime: mime.into(), name: name.into(), size, kind: None }
    }

    /// Returns the file with an intended presentation.
    pub fn shown_as(mut self, kind: AttachmentKind) -> Self {
        self.kind = Some(kind);
        self
    }
}

/// A question with buttons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Choices {
    /// The id of the question, at most 16 characters.
    pub ask: String,
    /// The options, in order.
    pub options: Vec<ChoiceOption>,
    /// The time until which an answer is accepted, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

impl Choices {
    /// Creates a question `ask` with these options, open until `expires_at_ms`.
    pub fn new(ask: impl Into<String>, options: Vec<ChoiceOption>, expires_at_ms: i64) -> Self {
        Self { ask: ask.into(), options, expires_at_ms }
    }
}

/// One button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChoiceOption {
    /// The id of the option, at most 8 characters.
    pub id: String,
    /// The text on the button.
    pub label: String,
    /// `primary`, `danger` or empty.
    #[serde(default)]
    pub style: String,
}

impl ChoiceOption {
    /// Creates an option with the text `label`.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), style: String::new() }
    }
}

/// A message that was sent earlier.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SentMessage {
    /// The chat.
    pub chat: Chat,
    /// The platform's id of the message, from the receipt.
    pub id: String,
}

impl SentMessage {
    /// Creates a reference to message `id` in `chat`.
    pub fn new(chat: Chat, id: impl Into<String>) -> Self {
        Self { chat, id: id.into() }
    }
}

/// The result of one attempt. Only `Unknown` can lead to a duplicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
#[must_use]
pub enum SendOutcome {
    /// The platform confirmed the message.
    Delivered {
        /// The platform's proof.
        receipt: Receipt,
    },
    /// The platform rejected the message.
    Refused {
        /// The reason.
        kind: RefusalKind,
        /// The platform's error text, without secrets.
        #[serde(default)]
        detail: String,
        /// The chat's new id, for `migrated`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        migrated_to: Option<String>,
    },
    /// The message certainly did not arrive and may be retried.
    NotSent {
        /// The wait that the platform requested, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// The scope of the wait.
        #[serde(default)]
        scope: WaitScope,
        /// The reason, for `status`.
        #[serde(default)]
        detail: String,
    },
    /// The message may or may not have arrived.
    Unknown {
        /// The known details, for `outbox show`.
        #[serde(default)]
        detail: String,
        /// True if no idempotency key protected this send: repeating it can create a duplicate, even if the
        /// adapter's `delivery` is `idempotent`. The host repeats it once, with a mark.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keyless: bool,
    },
    /// A result of a later version, treated as [`SendOutcome::Unknown`].
    #[serde(other, skip_serializing)]
    Unrecognised,
}

impl SendOutcome {
    /// Creates the result of a delivery as one platform message.
    pub fn delivered(message_id: impl Into<String>, at_ms: i64) -> Self {
        Self::Delivered { receipt: Receipt { message_ids: vec![message_id.into()], at_ms } }
    }

    /// Creates the result of a rejected send.
    pub fn refused(kind: RefusalKind, detail: impl Into<String>) -> Self {
        Self::Refused { kind, detail: detail.into(), migrated_to: None }
    }

    /// Creates the result of a send that was rejected because the chat continues under `migrated_to`.
    pub fn migrated(migrated_to: impl Into<String>) -> Self {
        Self::Refused { kind: RefusalKind::Migrated, detail: String::new(), migrated_to: Some(migrated_to.into()) }
    }

    /// Creates the result of a send that did not arrive and may be retried after `retry_after_ms` milliseconds.
    pub fn not_sent(retry_after_ms: Option<u64>, scope: WaitScope, detail: impl Into<String>) -> Self {
        Self::NotSent { retry_after_ms, scope, detail: detail.into() }
    }

    /// Creates an unknown result.
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self::Unknown { detail: detail.into(), keyless: false }
    }

    /// Creates an unknown result of a send without idempotency key, for which a retry can create a duplicate.
    pub fn unknown_keyless(detail: impl Into<String>) -> Self {
        Self::Unknown { detail: detail.into(), keyless: true }
    }
}

/// The platform's own proof of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Receipt {
    /// The platform's ids of the created messages, in order.
    #[serde(default)]
    pub message_ids: Vec<String>,
    /// The time of delivery, in milliseconds since the Unix epoch, by the clock that also dates the events: an answer
    /// to this message is never earlier. 0 if it is unknown.
    #[serde(default)]
    pub at_ms: i64,
}

impl Receipt {
    /// Creates a receipt.
    pub fn new(message_ids: Vec<String>, at_ms: i64) -> Self {
        Self { message_ids, at_ms }
    }
}

words! {
    /// The reason for a platform's rejection.
    pub enum RefusalKind {
        /// The text is longer than the platform accepts, although it is within the declared limit.
        TooLong = "too_long",
        /// The platform does not accept the markup; the host retries as plain text.
        BadFormat = "bad_format",
        /// This account may not write in the chat.
        Forbidden = "forbidden",
        /// The chat does not exist.
        ChatGone = "chat_gone",
        /// The thread does not exist; the chat does.
        ThreadGone = "thread_gone",
        /// The chat continues under another id.
        Migrated = "migrated",
        /// The account's credential is rejected.
        Unauthorized = "unauthorized",
        /// The request is invalid; a retry changes nothing.
        Invalid = "invalid",
    }
}

words! {
    /// The scope of the wait after a `not_sent`.
    #[derive(Default)]
    pub enum WaitScope {
        /// This chat only.
        #[default]
        Chat = "chat",
        /// All sends of this instance.
        Instance = "instance",
    }
}

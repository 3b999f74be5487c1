//! What goes out, and what became of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AttachmentKind, Chat, Extra, word::words};

/// How much sooner than the host an adapter stops waiting for its platform.
const TIME_LEFT_FOR_THE_ANSWER: Duration = Duration::from_secs(5);

words! {
    /// Why something is said.
    pub enum Purpose {
        /// An answer of the agent.
        Reply = "reply",
        /// A word of the host itself.
        Notice = "notice",
        /// A question with choices.
        Ask = "ask",
        /// Scheduled work.
        Cron = "cron",
    }
}

words! {
    /// How `text` is written.
    pub enum Format {
        /// No markup at all.
        Plain = "plain",
        /// CommonMark with tables.
        Markdown = "markdown",
        /// The HTML subset of Telegram.
        TelegramHtml = "telegram_html",
        /// The mrkdwn of Slack.
        Mrkdwn = "mrkdwn",
        /// The adapter's own dialect, made by its `render`.
        Native = "native",
    }
}

/// One part of a delivery, ready to be sent as it is. `send` never splits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Outgoing {
    /// The delivery this is a part of.
    pub delivery: i64,
    /// Number of the part, from 1.
    pub part: u32,
    /// How many parts there are.
    pub of: u32,
    /// Idempotency key: the same for every attempt of this part, at most 25 characters of `[A-Za-z0-9_-]`.
    pub key: String,
    /// Why it is said.
    pub purpose: Purpose,
    /// Where to.
    pub chat: Chat,
    /// The platform message to answer, the same with every part; whether this part says so is the adapter's to choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The `inbox_id` of the event that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<i64>,
    /// Rendered text in `format`, within the declared limit.
    pub text: String,
    /// How `text` is written.
    pub format: Format,
    /// The plain text behind `text`, for one plain resend after `bad_format`.
    #[serde(default)]
    pub source: String,
    /// Files to send along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<OutMedia>,
    /// Buttons, for `ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Choices>,
    /// Deliver without a sound.
    #[serde(default)]
    pub silent: bool,
    /// Only this sender may see it, where the platform can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_to: Option<String>,
    /// How long the host waits for the answer, in milliseconds: longer, the more bytes of files go along. What takes
    /// longer is cancelled, and nobody knows whether it arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// Fields of a later version.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Outgoing {
    /// A plain notice in one part.
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

    /// How long an adapter may take for it in all: a little less than the host waits, so that the adapter is the one
    /// who says what became of it; `otherwise` where a host does not say.
    pub fn time(&self, otherwise: Duration) -> Duration {
        let Some(within) = self.within_ms.map(Duration::from_millis) else { return otherwise };
        within - TIME_LEFT_FOR_THE_ANSWER.min(within / 4)
    }
}

/// A file the host opened for the adapter. Adapters open no other path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OutMedia {
    /// Id of the media.
    pub id: String,
    /// Where it lies, readable until the part is settled.
    pub path: String,
    /// MIME type.
    pub mime: String,
    /// File name for people.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// How it is meant to be shown, where its type leaves that open: `voice` is spoken into the chat
    /// where the platform has such messages and takes this file as one, else as its type says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<AttachmentKind>,
}

impl OutMedia {
    /// The file at `path`, opened for the adapter under `id`.
    pub fn new(
        id: impl Into<String>,
        path: impl Into<String>,
        mime: impl Into<String>,
        name: impl Into<String>,
        size: u64,
    ) -> Self {
        Self { id: id.into(), path: path.into(), mime: mime.into(), name: name.into(), size, kind: None }
    }

    /// The same file, meant to be shown so.
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
    /// Id of the question, at most 16 characters.
    pub ask: String,
    /// The options, in order.
    pub options: Vec<ChoiceOption>,
    /// Until when an answer counts, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

impl Choices {
    /// Question `ask` with these options, open until `expires_at_ms`.
    pub fn new(ask: impl Into<String>, options: Vec<ChoiceOption>, expires_at_ms: i64) -> Self {
        Self { ask: ask.into(), options, expires_at_ms }
    }
}

/// One button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChoiceOption {
    /// Id of the option, at most 8 characters.
    pub id: String,
    /// What stands on the button.
    pub label: String,
    /// `primary`, `danger` or empty.
    #[serde(default)]
    pub style: String,
}

impl ChoiceOption {
    /// Option `id` that says `label`.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), style: String::new() }
    }
}

/// A message that was sent before.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SentMessage {
    /// Where it is.
    pub chat: Chat,
    /// The platform's id, as the receipt named it.
    pub id: String,
}

impl SentMessage {
    /// Message `id` in `chat`.
    pub fn new(chat: Chat, id: impl Into<String>) -> Self {
        Self { chat, id: id.into() }
    }
}

/// What one attempt told us. `Unknown` is the only case that can lead to a duplicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
#[must_use]
pub enum SendOutcome {
    /// The platform has it and said so.
    Delivered {
        /// The platform's answer.
        receipt: Receipt,
    },
    /// The platform will not take it.
    Refused {
        /// Why.
        kind: RefusalKind,
        /// The platform's words, without secrets.
        #[serde(default)]
        detail: String,
        /// The chat's new id, for `migrated`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        migrated_to: Option<String>,
    },
    /// It certainly did not arrive and may be tried again.
    NotSent {
        /// How long the platform asked us to wait, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// What has to wait.
        #[serde(default)]
        scope: WaitScope,
        /// Why, for `status`.
        #[serde(default)]
        detail: String,
    },
    /// It may or may not have arrived.
    Unknown {
        /// What is known, for `outbox show`.
        #[serde(default)]
        detail: String,
        /// No key protected this one: asked for again it may arrive twice, also where the adapter's `delivery` is
        /// `idempotent`. The host repeats it once, marked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keyless: bool,
    },
    /// An answer of a later version; it counts as [`SendOutcome::Unknown`].
    #[serde(other, skip_serializing)]
    Unrecognised,
}

impl SendOutcome {
    /// Delivered as one platform message.
    pub fn delivered(message_id: impl Into<String>, at_ms: i64) -> Self {
        Self::Delivered { receipt: Receipt { message_ids: vec![message_id.into()], at_ms } }
    }

    /// Refused by the platform.
    pub fn refused(kind: RefusalKind, detail: impl Into<String>) -> Self {
        Self::Refused { kind, detail: detail.into(), migrated_to: None }
    }

    /// Refused because the chat continues under `migrated_to`.
    pub fn migrated(migrated_to: impl Into<String>) -> Self {
        Self::Refused { kind: RefusalKind::Migrated, detail: String::new(), migrated_to: Some(migrated_to.into()) }
    }

    /// Not sent; may be tried again after `retry_after_ms`.
    pub fn not_sent(retry_after_ms: Option<u64>, scope: WaitScope, detail: impl Into<String>) -> Self {
        Self::NotSent { retry_after_ms, scope, detail: detail.into() }
    }

    /// Doubtful.
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self::Unknown { detail: detail.into(), keyless: false }
    }

    /// Doubtful, and asked for again it may arrive twice, although the adapter is idempotent otherwise.
    pub fn unknown_keyless(detail: impl Into<String>) -> Self {
        Self::Unknown { detail: detail.into(), keyless: true }
    }
}

/// The platform's own proof of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Receipt {
    /// The platform's ids of what was made, in order.
    #[serde(default)]
    pub message_ids: Vec<String>,
    /// When, in milliseconds since the Unix epoch, by the clock that events have their times from: what somebody says
    /// in answer to this is not before it. 0 where nobody knows.
    #[serde(default)]
    pub at_ms: i64,
}

impl Receipt {
    /// These messages at this time.
    pub fn new(message_ids: Vec<String>, at_ms: i64) -> Self {
        Self { message_ids, at_ms }
    }
}

words! {
    /// Why a platform refused.
    pub enum RefusalKind {
        /// Longer than it takes, although within the declared limit.
        TooLong = "too_long",
        /// The markup is not accepted; once more as plain text.
        BadFormat = "bad_format",
        /// This account may not write there.
        Forbidden = "forbidden",
        /// The chat does not exist.
        ChatGone = "chat_gone",
        /// The thread does not exist; the chat does.
        ThreadGone = "thread_gone",
        /// The chat continues under another id.
        Migrated = "migrated",
        /// The account's credential is not accepted.
        Unauthorized = "unauthorized",
        /// The request itself is wrong; trying again changes nothing.
        Invalid = "invalid",
    }
}

words! {
    /// What has to wait after a `not_sent`.
    #[derive(Default)]
    pub enum WaitScope {
        /// This chat only.
        #[default]
        Chat = "chat",
        /// Everything this instance sends.
        Instance = "instance",
    }
}

//! Messages of the Events API.

use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::attachments::MessageAttachment;
use crate::chats;
use crate::context::ThreadSettings;
use crate::objects::{BotIdentity, File};
use crate::optional::{or_default, valid_items};

/// The subtypes of messages written by people or apps; all others come from the platform
/// itself. <https://docs.slack.dev/reference/events/message#subtypes>
const AUTHORED: [&str; 4] = ["file_share", "thread_broadcast", "me_message", "bot_message"];

/// <https://docs.slack.dev/reference/events/message>
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message {
    pub subtype: Option<String>,
    pub channel: String,
    pub user: Option<String>,
    pub bot_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub username: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub text: String,
    pub ts: String,
    pub thread_ts: Option<String>,
    pub parent_user_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub edited: Option<EditTime>,
    #[serde(deserialize_with = "valid_items")]
    pub files: Vec<File>,
    #[serde(deserialize_with = "valid_items")]
    pub attachments: Vec<MessageAttachment>,
    pub blocks: Value,
    pub message: Option<Box<Message>>,
    pub previous_message: Option<Box<Message>>,
    pub deleted_ts: Option<String>,
}

/// The time of an edit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EditTime {
    pub ts: String,
}

impl Message {
    /// Returns whether a person or an app wrote the message.
    pub(crate) fn has_author(&self) -> bool {
        self.subtype.as_deref().is_none_or(|subtype| AUTHORED.contains(&subtype))
    }

    /// Returns whether this app wrote the message.
    pub(crate) fn is_ours(&self, me: &BotIdentity) -> bool {
        self.user.as_deref() == Some(&me.user_id)
            || (self.bot_id.is_some() && self.bot_id.as_deref() == Some(&me.bot_id))
    }

    /// Returns the thread of a message, or the thread that it starts.
    pub(crate) fn thread(&self, channel: &str, threads: ThreadSettings) -> Option<&str> {
        let starts = if chats::is_dm(channel) { threads.in_dms } else { threads.in_channels };
        self.thread_ts.as_deref().or(starts.then_some(self.ts.as_str()))
    }

    /// Returns the sender; `None` for a message of the platform.
    pub(crate) fn sender(&self) -> Option<Sender> {
        let id = self.user.as_ref().or(self.bot_id.as_ref())?;
        let mut sender = Sender::new(id).bot(self.bot_id.is_some());
        sender.name = self.username.clone();
        Some(sender)
    }
}

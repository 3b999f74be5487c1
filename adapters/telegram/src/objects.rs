//! The objects of the Bot API.
//!
//! The types contain only the fields that the adapter reads; all other fields are ignored.
//! <https://core.telegram.org/bots/api#available-types>

use serde::Deserialize;
use serde_json::Value;

/// <https://core.telegram.org/bots/api#user>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct User {
    pub id: i64,
    #[serde(default)]
    pub is_bot: bool,
    #[serde(default)]
    pub first_name: String,
    #[serde(default)]
    pub last_name: Option<String>,
    #[serde(default)]
    pub username: Option<String>,
}

impl User {
    /// Returns the first and last name.
    pub(crate) fn full_name(&self) -> String {
        match &self.last_name {
            Some(last) => format!("{} {last}", self.first_name),
            None => self.first_name.clone(),
        }
    }
}

/// <https://core.telegram.org/bots/api#chat>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Chat {
    pub id: i64,
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub first_name: Option<String>,
    #[serde(default)]
    pub is_forum: bool,
}

impl Chat {
    /// Creates the supergroup that a group becomes.
    pub(crate) fn supergroup(id: i64) -> Self {
        Self { id, kind: "supergroup".to_owned(), title: None, first_name: None, is_forum: false }
    }
}

/// <https://core.telegram.org/bots/api#messageentity>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entity {
    #[serde(rename = "type")]
    pub kind: String,
    /// The offset in UTF-16 units.
    pub offset: usize,
    /// The length in UTF-16 units.
    pub length: usize,
    #[serde(default)]
    pub user: Option<User>,
    /// The address of the link, for `text_link`.
    #[serde(default)]
    pub url: Option<String>,
}

/// A file of any kind.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct File {
    pub file_id: String,
    #[serde(default)]
    pub file_size: Option<u64>,
    #[serde(default)]
    pub file_name: Option<String>,
    #[serde(default)]
    pub mime_type: Option<String>,
    #[serde(default)]
    pub emoji: Option<String>,
    /// For a sticker: true if it is one of Telegram's own animations.
    #[serde(default)]
    pub is_animated: bool,
    /// For a sticker: true if it is a video.
    #[serde(default)]
    pub is_video: bool,
}

/// <https://core.telegram.org/bots/api#location>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Location {
    pub latitude: f64,
    pub longitude: f64,
}

/// <https://core.telegram.org/bots/api#contact>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Contact {
    #[serde(default)]
    pub phone_number: String,
    #[serde(default)]
    pub first_name: String,
}

/// <https://core.telegram.org/bots/api#poll>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Poll {
    #[serde(default)]
    pub question: String,
    #[serde(default)]
    pub options: Vec<TextObject>,
}

/// An object with a text: an option of a poll, a task of a checklist. Its other fields are not read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct TextObject {
    #[serde(default)]
    pub text: String,
}

/// <https://core.telegram.org/bots/api#venue>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Venue {
    pub location: Location,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub address: String,
}

/// <https://core.telegram.org/bots/api#dice>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dice {
    #[serde(default)]
    pub emoji: String,
    #[serde(default)]
    pub value: i64,
}

/// <https://core.telegram.org/bots/api#checklist>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Checklist {
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub tasks: Vec<TextObject>,
}

/// A game or an invoice. <https://core.telegram.org/bots/api#game>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TitledContent {
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub description: String,
}

/// The origin of a forwarded message; one structure for all kinds. <https://core.telegram.org/bots/api#messageorigin>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Origin {
    #[serde(default)]
    pub date: i64,
    #[serde(default)]
    pub sender_user: Option<User>,
    #[serde(default)]
    pub sender_user_name: Option<String>,
    #[serde(default)]
    pub sender_chat: Option<Chat>,
    #[serde(default)]
    pub chat: Option<Chat>,
    #[serde(default)]
    pub author_signature: Option<String>,
}

/// A quoted message of another chat. <https://core.telegram.org/bots/api#externalreplyinfo>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ExternalReply {
    pub origin: Origin,
    #[serde(default)]
    pub message_id: Option<i64>,
}

/// <https://core.telegram.org/bots/api#textquote>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Quote {
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub entities: Vec<Entity>,
}

/// <https://core.telegram.org/bots/api#message>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Message {
    pub message_id: i64,
    #[serde(default)]
    pub date: i64,
    pub chat: Chat,
    #[serde(default)]
    pub from: Option<User>,
    #[serde(default)]
    pub sender_chat: Option<Chat>,
    #[serde(default)]
    pub message_thread_id: Option<i64>,
    #[serde(default)]
    pub is_topic_message: bool,
    #[serde(default)]
    pub direct_messages_topic: Option<DirectMessagesTopic>,
    #[serde(default)]
    pub edit_date: Option<i64>,
    #[serde(default)]
    pub media_group_id: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub entities: Vec<Entity>,
    #[serde(default)]
    pub caption: Option<String>,
    #[serde(default)]
    pub caption_entities: Vec<Entity>,
    #[serde(default)]
    pub reply_to_message: Option<Box<Message>>,
    #[serde(default)]
    pub external_reply: Option<ExternalReply>,
    #[serde(default)]
    pub quote: Option<Quote>,
    #[serde(default)]
    pub forward_origin: Option<Origin>,
    #[serde(default)]
    pub photo: Vec<File>,
    #[serde(default)]
    pub document: Option<File>,
    #[serde(default)]
    pub voice: Option<File>,
    #[serde(default)]
    pub audio: Option<File>,
    #[serde(default)]
    pub video: Option<File>,
    #[serde(default)]
    pub video_note: Option<File>,
    #[serde(default)]
    pub animation: Option<File>,
    #[serde(default)]
    pub sticker: Option<File>,
    #[serde(default)]
    pub location: Option<Location>,
    /// True for a channel's post in the channel's discussion group.
    #[serde(default)]
    pub is_automatic_forward: bool,
    #[serde(default)]
    pub contact: Option<Contact>,
    #[serde(default)]
    pub poll: Option<Poll>,
    #[serde(default)]
    pub venue: Option<Venue>,
    #[serde(default)]
    pub dice: Option<Dice>,
    #[serde(default)]
    pub checklist: Option<Checklist>,
    #[serde(default)]
    pub game: Option<TitledContent>,
    #[serde(default)]
    pub invoice: Option<TitledContent>,
    #[serde(default)]
    pub story: Option<Value>,
    #[serde(default)]
    pub paid_media: Option<Value>,
    #[serde(default)]
    pub migrate_to_chat_id: Option<i64>,
    /// Present on the service message that opened a topic.
    #[serde(default)]
    pub forum_topic_created: Option<Value>,
}

/// <https://core.telegram.org/bots/api#directmessagestopic>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DirectMessagesTopic {
    pub topic_id: i64,
}

/// <https://core.telegram.org/bots/api#callbackquery>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CallbackQuery {
    pub id: String,
    pub from: User,
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub data: Option<String>,
}

/// <https://core.telegram.org/bots/api#update>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Update {
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub edited_message: Option<Message>,
    #[serde(default)]
    pub channel_post: Option<Message>,
    #[serde(default)]
    pub edited_channel_post: Option<Message>,
    #[serde(default)]
    pub callback_query: Option<CallbackQuery>,
}

/// <https://core.telegram.org/bots/api#webhookinfo>
#[derive(Debug, Deserialize)]
pub(crate) struct WebhookInfo {
    #[serde(default)]
    pub url: String,
    #[serde(default)]
    pub pending_update_count: u64,
    #[serde(default)]
    pub last_error_message: Option<String>,
}

/// <https://core.telegram.org/bots/api#file>
#[derive(Debug, Deserialize)]
pub(crate) struct FilePath {
    #[serde(default)]
    pub file_path: Option<String>,
    #[serde(default)]
    pub file_size: Option<u64>,
}

/// A message that the server has just created, with only its id and time.
#[derive(Debug, Deserialize)]
pub(crate) struct NewMessage {
    pub message_id: i64,
    /// The time in seconds since the Unix epoch, by the clock that also dates the events; 0 if it is missing.
    #[serde(default)]
    pub date: i64,
}

/// <https://core.telegram.org/bots/api#forumtopic>
#[derive(Debug, Deserialize)]
pub(crate) struct Topic {
    pub message_thread_id: i64,
}

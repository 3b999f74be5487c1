//! The objects of the HTTP API and the gateway.
//!
//! The types contain only the fields that the adapter reads; all other fields are ignored.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// <https://docs.discord.com/developers/resources/user#user-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct User {
    pub id: String,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub global_name: Option<String>,
    #[serde(default)]
    pub bot: bool,
}

impl User {
    /// Returns the name for display.
    pub(crate) fn display_name(&self) -> &str {
        self.global_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.username)
    }
}

/// <https://docs.discord.com/developers/resources/guild#guild-member-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Member {
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub nick: Option<String>,
    #[serde(default)]
    pub roles: Vec<String>,
}

/// <https://docs.discord.com/developers/resources/channel#channel-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Channel {
    pub id: String,
    #[serde(rename = "type", default)]
    pub kind: u8,
    #[serde(default)]
    pub guild_id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub parent_id: Option<String>,
    /// The user who opened the thread.
    #[serde(default)]
    pub owner_id: Option<String>,
    #[serde(default)]
    pub flags: u64,
    #[serde(default)]
    pub available_tags: Vec<IdOnly>,
    #[serde(default)]
    pub recipients: Vec<User>,
}

/// An object of which only the id is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct IdOnly {
    pub id: String,
}

/// <https://docs.discord.com/developers/resources/message#attachment-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct File {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub filename: String,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub size: u64,
    pub url: String,
}

/// Parses a list and drops invalid entries, so that they do not affect the others or the message.
fn valid_items<'d, T: DeserializeOwned, D: Deserializer<'d>>(list: D) -> Result<Vec<T>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(list)?.unwrap_or_default();
    Ok(list.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

/// Parses an optional field; an invalid value counts as missing.
fn if_valid<'d, T: DeserializeOwned, D: Deserializer<'d>>(field: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(field)?).ok())
}

/// <https://docs.discord.com/developers/resources/message#message-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Message {
    pub id: String,
    pub channel_id: String,
    #[serde(default)]
    pub guild_id: Option<String>,
    #[serde(default)]
    pub author: Option<User>,
    #[serde(default, deserialize_with = "if_valid")]
    pub member: Option<Member>,
    #[serde(default)]
    pub content: String,
    #[serde(default)]
    pub edited_timestamp: Option<String>,
    #[serde(default, deserialize_with = "valid_items")]
    pub mentions: Vec<User>,
    #[serde(default, deserialize_with = "valid_items")]
    pub mention_roles: Vec<String>,
    #[serde(default, deserialize_with = "valid_items")]
    pub attachments: Vec<File>,
    #[serde(rename = "type", default)]
    pub kind: u8,
    #[serde(default)]
    pub flags: u64,
    #[serde(default)]
    pub webhook_id: Option<String>,
    #[serde(default, deserialize_with = "if_valid")]
    pub referenced_message: Option<Box<Message>>,
    #[serde(default, deserialize_with = "valid_items")]
    pub message_snapshots: Vec<Snapshot>,
    #[serde(default, deserialize_with = "valid_items")]
    pub embeds: Vec<Embed>,
    #[serde(default, deserialize_with = "if_valid")]
    pub poll: Option<Poll>,
    #[serde(default, deserialize_with = "valid_items")]
    pub sticker_items: Vec<Sticker>,
}

impl Message {
    /// Returns the files of the message, and those of its forwarded messages.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        let forwarded = self.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        self.attachments.iter().chain(forwarded)
    }
}

/// <https://docs.discord.com/developers/resources/message#message-snapshot-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Snapshot {
    pub message: ForwardedMessage,
}

/// The content of a forwarded message.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ForwardedMessage {
    #[serde(default)]
    pub content: String,
    #[serde(default, deserialize_with = "valid_items")]
    pub attachments: Vec<File>,
    #[serde(default, deserialize_with = "valid_items")]
    pub embeds: Vec<Embed>,
    #[serde(default, deserialize_with = "if_valid")]
    pub poll: Option<Poll>,
    #[serde(default, deserialize_with = "valid_items")]
    pub sticker_items: Vec<Sticker>,
}

/// <https://docs.discord.com/developers/resources/message#embed-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Embed {
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default, deserialize_with = "valid_items")]
    pub fields: Vec<EmbedField>,
    #[serde(default, deserialize_with = "if_valid")]
    pub author: Option<EmbedAuthor>,
    #[serde(default, deserialize_with = "if_valid")]
    pub footer: Option<EmbedText>,
}

/// A field of an embed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct EmbedField {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub value: String,
}

/// The author of an embed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct EmbedAuthor {
    #[serde(default)]
    pub name: Option<String>,
}

/// An object of which only the text is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct EmbedText {
    #[serde(default)]
    pub text: Option<String>,
}

/// <https://docs.discord.com/developers/resources/poll#poll-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Poll {
    #[serde(default)]
    pub question: EmbedText,
    #[serde(default, deserialize_with = "valid_items")]
    pub answers: Vec<PollAnswer>,
}

/// An answer of a poll.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PollAnswer {
    #[serde(default)]
    pub poll_media: EmbedText,
}

/// <https://docs.discord.com/developers/resources/sticker#sticker-item-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sticker {
    #[serde(default)]
    pub name: String,
}

/// <https://docs.discord.com/developers/resources/message#reaction-object>
#[derive(Debug, Deserialize)]
pub(crate) struct MessageReactions {
    #[serde(default)]
    pub reactions: Vec<Reaction>,
}

/// One kind of reaction to a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Reaction {
    /// True if this bot is among the users who reacted.
    #[serde(default)]
    pub me: bool,
    pub emoji: Emoji,
}

/// <https://docs.discord.com/developers/resources/emoji#emoji-object>
#[derive(Debug, Deserialize)]
pub(crate) struct Emoji {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
}

/// A new or edited message, of which only the id is read.
pub(crate) type SentMessageId = IdOnly;

/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Interaction {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: u8,
    pub token: String,
    #[serde(default)]
    pub data: InteractionData,
    #[serde(default)]
    pub guild_id: Option<String>,
    #[serde(default)]
    pub channel: Option<Channel>,
    #[serde(default)]
    pub channel_id: Option<String>,
    #[serde(default)]
    pub member: Option<Member>,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub message: Option<IdOnly>,
}

impl Interaction {
    /// Returns the channel of the interaction.
    pub(crate) fn channel(&self) -> Option<&str> {
        self.channel.as_ref().map(|channel| channel.id.as_str()).or(self.channel_id.as_deref())
    }
}

/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object-interaction-data>
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct InteractionData {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub options: Vec<CommandOption>,
    #[serde(default)]
    pub custom_id: String,
}

/// An argument of a command.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CommandOption {
    #[serde(default)]
    pub value: Value,
}

/// <https://docs.discord.com/developers/events/gateway#get-gateway-bot>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct GatewayBot {
    pub url: String,
    #[serde(default = "one")]
    pub shards: u32,
    #[serde(default)]
    pub session_start_limit: Option<StartLimit>,
}

/// <https://docs.discord.com/developers/events/gateway#session-start-limit-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StartLimit {
    #[serde(default)]
    pub remaining: u32,
    /// The time in milliseconds.
    #[serde(default)]
    pub reset_after: u64,
    #[serde(default = "one")]
    pub max_concurrency: u32,
}

fn one() -> u32 {
    1
}

/// <https://docs.discord.com/developers/resources/application#application-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Application {
    pub id: String,
    #[serde(default)]
    pub flags: u64,
}

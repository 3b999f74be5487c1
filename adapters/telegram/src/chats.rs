//! Descriptors of chats.

use hermes_adapter_sdk::prelude::*;

use crate::objects;

/// The general topic of every forum. Incoming messages carry this id or none. Outgoing messages carry none, because
/// the server rejects it as a target. Typing needs the id to be visible in this topic.
/// <https://github.com/openclaw/openclaw/pull/848>
pub(crate) const GENERAL_TOPIC: i64 = 1;

/// The prefix of a topic in a channel's direct messages, whose numbers are separate from those of forum topics.
/// <https://core.telegram.org/bots/api#directmessagestopic>
pub(crate) const DIRECT_PREFIX: &str = "direct:";

/// Returns the descriptor of a chat; the same on every path.
pub(crate) fn chat(chat: &objects::Chat, thread: Option<i64>) -> Chat {
    let kind = match chat.kind.as_str() {
        "private" => ChatType::Dm,
        "channel" => ChatType::Channel,
        _ => ChatType::Group,
    };
    let mut descriptor = Chat::new(kind, chat.id.to_string());
    descriptor.name = chat.title.clone().or_else(|| chat.first_name.clone());
    descriptor.thread = thread.filter(|id| *id != GENERAL_TOPIC).map(|id| id.to_string());
    descriptor
}

/// Returns the descriptor of a person's direct messages with a channel.
pub(crate) fn direct(channel: &objects::Chat, topic: i64) -> Chat {
    chat(channel, None).in_thread(format!("{DIRECT_PREFIX}{topic}"))
}

/// Returns the descriptor of a topic that was opened in `chat`, equal to that of the topic's messages.
pub(crate) fn opened_topic(chat: Chat, topic: &objects::Topic, name: &str) -> Chat {
    let mut opened = chat.in_thread(topic.message_thread_id.to_string());
    opened.thread_name = Some(name.to_owned());
    opened
}

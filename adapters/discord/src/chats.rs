//! Descriptors of chats.
//!
//! One function builds the descriptor of a chat, for messages, button presses, commands and threads alike.

use hermes_adapter_sdk::prelude::*;

use crate::channels::{ChannelInfo, is_thread, kind};
use crate::snowflake;

/// Returns the descriptor of a chat; the same on every path. A thread has an id of its own, to which messages are sent.
pub(crate) fn chat(channel: &str, info: &ChannelInfo, parent_name: Option<String>) -> Chat {
    if is_thread(info.kind) {
        let mut chat = Chat::new(ChatType::Thread, channel).in_thread(channel);
        chat.parent.clone_from(&info.parent);
        chat.thread_name.clone_from(&info.name);
        chat.space.clone_from(&info.guild);
        chat.name = parent_name.map(|name| format!("#{name}"));
        return chat;
    }
    let kind = match info.kind {
        kind::DM => ChatType::Dm,
        _ if info.guild.is_none() && info.kind != kind::GROUP_DM => ChatType::Dm,
        _ => ChatType::Group,
    };
    let mut chat = Chat::new(kind, channel);
    chat.name = match chat.kind {
        ChatType::Group => info.name.as_ref().map(|name| format!("#{name}")),
        _ => info.name.clone(),
    };
    chat.space.clone_from(&info.guild);
    chat
}

/// Returns the descriptor of the thread that a message opens. The thread has the id of the message, even before it
/// exists. <https://docs.discord.com/developers/resources/channel#start-thread-from-message>
pub(crate) fn message_thread(message: &str, channel: &str, info: &ChannelInfo, name: &str) -> Chat {
    let thread = ChannelInfo {
        kind: kind::PUBLIC_THREAD,
        guild: info.guild.clone(),
        parent: Some(channel.to_owned()),
        name: Some(name.to_owned()),
    };
    chat(message, &thread, info.name.clone())
}

/// Returns the channel to send to. For a thread chat without a thread this is the parent.
pub(crate) fn channel_id(chat: &Chat) -> Option<&str> {
    let id = match (&chat.thread, &chat.parent) {
        (Some(thread), _) => thread,
        (None, Some(parent)) if chat.kind == ChatType::Thread => parent,
        _ => &chat.id,
    };
    snowflake::parse(id).map(|_| id.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_thread_that_a_message_opens_is_the_one_that_its_messages_come_from() {
        let channel =
            ChannelInfo { kind: kind::TEXT, guild: Some("1".into()), parent: None, name: Some("general".into()) };
        let opened = message_thread("99", "10", &channel, "boats");
        let told = ChannelInfo::new(
            &serde_json::from_value(json!({ "id": "99", "type": 11, "parent_id": "10", "name": "other name" }))
                .unwrap(),
            Some("1"),
        );
        let next = chat("99", &told, Some("general".into()));
        assert_eq!(opened, next);
        assert_eq!((opened.parent.as_deref(), channel_id(&opened)), (Some("10"), Some("99")));
    }

    #[test]
    fn what_is_written_to_is_the_thread_and_without_it_its_parent() {
        let mut chat = Chat::new(ChatType::Thread, "99").in_thread("99");
        chat.parent = Some("10".into());
        assert_eq!(channel_id(&chat), Some("99"));
        chat.thread = None;
        assert_eq!(channel_id(&chat), Some("10"));
        assert_eq!(channel_id(&Chat::new(ChatType::Group, "10")), Some("10"));
        for wrong in ["general", "", "-1", "+1", "1/../2", "99999999999999999999999"] {
            assert_eq!(channel_id(&Chat::new(ChatType::Group, wrong)), None, "{wrong:?}");
        }
    }
}

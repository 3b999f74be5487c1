//! Descriptors of chats.
//!
//! The descriptor of a chat is built in one place and from the channel's id alone, because only some payloads contain
//! the kind of channel.

use hermes_adapter_sdk::prelude::*;

/// Returns the descriptor of a channel in a workspace; the same on every path.
pub(crate) fn chat(team: &str, channel: &str, thread: Option<&str>) -> Chat {
    let kind = if is_dm(channel) { ChatType::Dm } else { ChatType::Group };
    let mut chat = Chat::new(kind, format!("{team}/{channel}"));
    chat.thread = thread.map(str::to_owned);
    chat.space = Some(team.to_owned()).filter(|team| !team.is_empty());
    // The channel id as operators write it in `free_chats`.
    chat.parent = (!is_dm(channel)).then(|| channel.to_owned());
    chat
}

/// Returns the workspace and the channel of a chat's id; a bare id has no workspace.
pub(crate) fn split_id(id: &str) -> (Option<&str>, &str) {
    id.split_once('/').map_or((None, id), |(team, channel)| (Some(team), channel))
}

/// Returns whether a channel is a direct message. <https://docs.slack.dev/apis/web-api/using-the-conversations-api>
pub(crate) fn is_dm(channel: &str) -> bool {
    channel.starts_with('D')
}

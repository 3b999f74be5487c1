//! The parameters of calls that identify a chat.

use hermes_adapter_sdk::prelude::*;
use serde_json::{Map, Value, json};

use crate::chats::DIRECT_PREFIX;

/// Returns the parameters that identify a chat and its topic.
pub(crate) fn chat_parameters(chat: &Chat) -> Result<Map<String, Value>, SendOutcome> {
    let mut parameters = Map::new();
    let id: i64 = chat.id.parse().map_err(|_| {
        SendOutcome::refused(RefusalKind::Invalid, format!("{:?} is not a Telegram chat id (a number)", chat.id))
    })?;
    parameters.insert("chat_id".into(), json!(id));
    if let Some(thread) = &chat.thread {
        let (key, thread) = match thread.strip_prefix(DIRECT_PREFIX) {
            Some(topic) => ("direct_messages_topic_id", topic),
            None => ("message_thread_id", thread.as_str()),
        };
        let thread: i64 = thread.parse().map_err(|_| {
            SendOutcome::refused(RefusalKind::Invalid, format!("{thread:?} is not a Telegram topic id (a number)"))
        })?;
        parameters.insert(key.into(), json!(thread));
    }
    Ok(parameters)
}

/// Returns the parameters of a chat without its topic, for calls about a message or the whole chat.
pub(crate) fn chat_parameters_without_topic(chat: &Chat) -> Result<Map<String, Value>, SendOutcome> {
    let mut chat = chat.clone();
    chat.thread = None;
    chat_parameters(&chat)
}

/// Returns whether the chat is a person's direct messages with a channel.
pub(crate) fn is_direct(chat: &Chat) -> bool {
    chat.thread.as_ref().is_some_and(|thread| thread.starts_with(DIRECT_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_none_of_ours_is_refused_and_not_sent_elsewhere() {
        assert!(chat_parameters(&Chat::dm("general")).is_err());
        assert!(chat_parameters(&Chat::dm("7").in_thread("plans")).is_err());
        let parameters = chat_parameters(&Chat::dm("7").in_thread("17")).unwrap();
        assert_eq!((parameters["chat_id"].as_i64(), parameters["message_thread_id"].as_i64()), (Some(7), Some(17)));
    }
}

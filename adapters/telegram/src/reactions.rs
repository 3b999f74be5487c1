//! Reactions. A bot can use Telegram's own emoji only, one per message, which replaces the previous one.
//! <https://core.telegram.org/bots/api#setmessagereaction>

use hermes_adapter_sdk::prelude::*;
use serde_json::{Map, Value, json};

use crate::chat_parameters::chat_parameters_without_topic;

/// Returns the parameters that set the reaction to a message; an empty `emoji` removes it.
pub(crate) fn reaction_parameters(message: &SentMessage, emoji: &str) -> Result<Map<String, Value>, CallError> {
    let invalid = |what: &str| CallError::new("invalid", format!("the {what} is not a Telegram {what}"));
    let mut parameters = chat_parameters_without_topic(&message.chat).map_err(|_| invalid("chat"))?;
    parameters.insert("message_id".into(), json!(message.id.parse::<i64>().map_err(|_| invalid("message"))?));
    let reaction = match supported(emoji) {
        "" => json!([]),
        emoji => json!([{ "type": "emoji", "emoji": emoji }]),
    };
    parameters.insert("reaction".into(), reaction);
    Ok(parameters)
}

/// Returns Telegram's reaction that replaces an emoji that it does not have.
/// <https://core.telegram.org/bots/api#reactiontypeemoji>
fn supported(emoji: &str) -> &str {
    match emoji {
        "✅" => "👍",
        "❌" => "👎",
        emoji => emoji,
    }
}

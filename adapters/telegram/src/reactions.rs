//! Reactions. A bot can use Telegram's own emoji only, one per message, which replaces the previous one.
//! <https://core.telegram.org/bots/api#setmessagereaction>

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::{Telegram, outbound};

impl React for Telegram {
    async fn react(&self, message: SentMessage, emoji: String, _: Option<String>) -> Result<(), CallError> {
        let invalid = |what: &str| CallError::new("invalid", format!("the {what} is not a Telegram {what}"));
        let mut parameters = outbound::whole(&message.chat).map_err(|_| invalid("chat"))?;
        parameters.insert("message_id".into(), json!(message.id.parse::<i64>().map_err(|_| invalid("message"))?));
        let reaction = match nearest(&emoji) {
            "" => json!([]),
            emoji => json!([{ "type": "emoji", "emoji": emoji }]),
        };
        parameters.insert("reaction".into(), reaction);
        self.call::<Value>("setMessageReaction", &parameters).await.map(drop)
    }
}

/// Returns Telegram's reaction that replaces an emoji that it does not have.
/// <https://core.telegram.org/bots/api#reactiontypeemoji>
fn nearest(emoji: &str) -> &str {
    match emoji {
        "✅" => "👍",
        "❌" => "👎",
        emoji => emoji,
    }
}

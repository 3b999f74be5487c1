//! Reactions of the bot to messages.

use hermes_adapter_net::reqwest::Method;
use serde_json::Value;

use crate::api::ApiError;
use crate::connection::Connection;
use crate::objects::MessageReactions;

/// The maximum number of removed reactions per message.
const REACTIONS_MAX: usize = 20;

impl Connection {
    /// Reacts to the message at `path` with `emoji` instead of `before`. An empty `emoji` removes `before`, or all
    /// reactions of this bot. <https://docs.discord.com/developers/resources/message#create-reaction>
    pub(crate) async fn set_reaction(&self, path: &str, emoji: &str, before: Option<&str>) -> Result<(), ApiError> {
        match before.filter(|before| *before != emoji) {
            Some(before) => self.remove_reaction(path, before).await?,
            None if emoji.is_empty() => return self.remove_own_reactions(path).await,
            None => {}
        }
        if emoji.is_empty() {
            return Ok(());
        }
        let path = format!("{path}/reactions/{}/@me", percent_encoded(emoji));
        self.api.request::<Value>(Method::PUT, &path).await.map(drop)
    }

    /// Removes all reactions of this bot from the message at `path`.
    /// <https://docs.discord.com/developers/resources/message#delete-own-reaction>
    async fn remove_own_reactions(&self, path: &str) -> Result<(), ApiError> {
        let message: MessageReactions = self.api.request(Method::GET, path).await?;
        for reaction in message.reactions.iter().filter(|reaction| reaction.me).take(REACTIONS_MAX) {
            let emoji = &reaction.emoji;
            let name = emoji.name.as_deref().unwrap_or("_");
            let named = emoji.id.as_ref().map_or_else(|| name.to_owned(), |id| format!("{name}:{id}"));
            let path = format!("{path}/reactions/{}/@me", percent_encoded(&named));
            self.api.request::<Value>(Method::DELETE, &path).await?;
        }
        Ok(())
    }

    /// Removes one reaction of this bot from the message at `path`; a missing one is no error.
    async fn remove_reaction(&self, path: &str, emoji: &str) -> Result<(), ApiError> {
        let path = format!("{path}/reactions/{}/@me", percent_encoded(emoji));
        match self.api.request::<Value>(Method::DELETE, &path).await {
            Err(ApiError::Refused(refused)) if refused.status == 404 => Ok(()),
            answer => answer.map(drop),
        }
    }
}

/// Encodes an emoji as a part of a path: `👀`, or `name:id` for a guild's emoji.
fn percent_encoded(emoji: &str) -> String {
    emoji
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emoji_becomes_a_part_of_a_path() {
        assert_eq!(
            (percent_encoded("👀"), percent_encoded("party_parrot:12")),
            ("%F0%9F%91%80".to_owned(), "party_parrot%3A12".to_owned())
        );
        assert_eq!(percent_encoded("../x"), "%2E%2E%2Fx");
    }
}

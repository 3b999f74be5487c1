//! Threads that the host requests, and targets that people write.

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{ApiError, Channel, Sent};
use crate::channels::{self, Place, kind};
use crate::connection::Connection;
use crate::inbound::THREAD_NAME_CHARS_MAX;
use crate::sending::{ARCHIVE_MINUTES, call_error};
use crate::threads::Known;

/// The flag of a forum whose posts need a tag.
/// <https://docs.discord.com/developers/resources/channel#channel-object-channel-flags>
const REQUIRE_TAG: u64 = 1 << 4;
/// The tolerance between the local clock and the platform's, in milliseconds.
const CLOCKS_APART_MS: i64 = 60_000;
/// The name of a thread without a given name.
const UNNAMED: &str = "handoff";
/// The maximum number of listed channels.
const LISTED_MAX: usize = 500;

/// The threads of a guild that are not archived.
#[derive(Deserialize)]
struct Active {
    #[serde(default)]
    threads: Vec<Channel>,
}

/// A parsed target.
#[derive(Debug, PartialEq, Eq)]
pub enum Target<'t> {
    /// A channel or a thread.
    Channel(&'t str),
    /// The direct messages with a user.
    Person(&'t str),
}

/// Parses `123`, `<#123>`, `123:456` (a thread after its channel), `@123`, `<@123>` and `user:123`.
pub fn target(text: &str) -> Option<Target<'_>> {
    let text = text.trim();
    let marked = |mark: &str| text.strip_prefix(mark).and_then(|rest| rest.strip_suffix('>'));
    let is_id = |id: &&str| channels::number(id).is_some();
    if let Some(person) = text.strip_prefix("user:").or(marked("<@!")).or(marked("<@")).or(text.strip_prefix('@')) {
        return Some(person).filter(is_id).map(Target::Person);
    }
    let channel = marked("<#").unwrap_or(text);
    match channel.split_once(':') {
        Some((channel, thread)) => Some(thread).filter(is_id).filter(|_| is_id(&channel)).map(Target::Channel),
        None => Some(channel).filter(is_id).map(Target::Channel),
    }
}

impl Connection {
    /// Returns the chat of a target; `None`: it does not exist, or this bot may not see it.
    pub async fn resolve(&self, text: &str) -> Result<Option<Chat>, CallError> {
        let found = match target(text) {
            None => return Ok(None),
            Some(Target::Channel(id)) => self.look_up(id, None).await.map(|place| (id.to_owned(), place)),
            Some(Target::Person(id)) => self.direct(id).await,
        };
        match found {
            Ok((id, place)) => {
                if let Some(parent) = place.parent.as_deref().filter(|_| channels::is_thread(place.kind)) {
                    self.know(parent).await;
                }
                Ok(Some(self.described(&id, &place)))
            }
            Err(ApiError::Refused(refused)) => {
                tracing::debug!(%refused, "no such chat");
                Ok(None)
            }
            Err(error) => Err(call_error(error)),
        }
    }

    /// Returns the channel of the direct messages with a user.
    /// <https://docs.discord.com/developers/resources/user#create-dm>
    pub async fn direct(&self, person: &str) -> Result<(String, Place), ApiError> {
        let body = json!({ "recipient_id": person });
        let channel: Channel = self.api.send(Method::POST, "users/@me/channels", &body).await?;
        let place = Place::of(&channel, None);
        self.places.put(&channel.id, place.clone());
        Ok((channel.id, place))
    }

    /// Looks up an unknown channel; only the channel's name depends on it.
    async fn know(&self, channel: &str) {
        if self.places.get(channel).is_none()
            && let Err(error) = self.look_up(channel, None).await
        {
            tracing::debug!(%error, "channel of a thread has no name");
        }
    }

    /// Returns the channels and threads of guilds that the gateway has reported.
    pub fn listed(&self) -> Vec<Chat> {
        let listed = self.places.written_in();
        listed.iter().rev().take(LISTED_MAX).map(|(id, place)| self.described(id, place)).collect()
    }

    /// Opens a thread in `chat` for a handoff; `None` if the chat does not support threads.
    pub async fn open_thread(&self, chat: Chat, name: &str, key: String) -> Result<Option<Chat>, CallError> {
        if chat.kind != ChatType::Group {
            return Ok(None);
        }
        let channel = self.place(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Discord chat"))?;
        let turn = self.opening.of(&key);
        let _one_at_a_time = turn.lock().await;
        let known = self.threads.lock().await.by_key(&key);
        if let Known::Thread(thread) = &known {
            let place = match self.places.get(thread) {
                Some(place) => place,
                None => self.look_up(thread, None).await.map_err(call_error)?,
            };
            return Ok(Some(self.described(thread, &place)));
        }
        let parent: Channel = self.api.ask(Method::GET, &format!("channels/{channel}")).await.map_err(call_error)?;
        self.places.put(&channel, Place::of(&parent, None));
        if !matches!(parent.kind, kind::TEXT | kind::ANNOUNCEMENT | kind::FORUM | kind::MEDIA) {
            return Ok(None);
        }
        let name: String = name.trim().chars().take(THREAD_NAME_CHARS_MAX).collect();
        let name = if name.is_empty() { UNNAMED.to_owned() } else { name };
        let left = match known {
            Known::Asked { at_ms } => self.left_behind(&parent, &name, at_ms).await.map_err(call_error)?,
            _ => None,
        };
        let now_ms = self.host.now_ms();
        self.change_threads(|threads| threads.ask(&key, now_ms)).await?;
        let opened = match (left, parent.kind) {
            (Some(thread), _) => Ok(thread),
            (None, kind::TEXT | kind::ANNOUNCEMENT) => self.bare_thread(&parent, &name, &key).await,
            (None, _) => self.post_in(&parent, &name).await,
        };
        let kept = match &opened {
            Ok(thread) => self.change_threads(|threads| threads.answer(&key, Some(&thread.id))).await,
            // The thread may exist, and the key must not open another one: the next attempt searches for it.
            Err(ApiError::Doubtful(_)) => Ok(()),
            Err(_) => self.change_threads(|threads| threads.answer(&key, None)).await,
        };
        if let Err(error) = kept {
            // At worst the next attempt searches for the thread.
            tracing::warn!(%error, "outcome of opening a thread cannot be saved");
        }
        let opened = opened.map_err(call_error)?;
        let place = Place::of(&opened, parent.guild_id.as_deref());
        self.places.put(&opened.id, place.clone());
        Ok(Some(self.described(&opened.id, &place)))
    }

    /// Returns the thread that an interrupted request of an earlier attempt opened here under this name.
    /// <https://docs.discord.com/developers/resources/guild#list-active-guild-threads>
    async fn left_behind(&self, parent: &Channel, name: &str, asked_ms: i64) -> Result<Option<Channel>, ApiError> {
        let Some(guild) = parent.guild_id.as_deref().filter(|guild| channels::number(guild).is_some()) else {
            return Ok(None);
        };
        let active: Active = self.api.ask(Method::GET, &format!("guilds/{guild}/threads/active")).await?;
        let me = self.me.get().map(|me| me.id.as_str());
        let is_it = |thread: &Channel| {
            thread.parent_id.as_deref() == Some(&parent.id)
                && thread.name.as_deref() == Some(name)
                && thread.owner_id.as_deref() == me
                && channels::at_ms(&thread.id) >= asked_ms - CLOCKS_APART_MS
        };
        Ok(active.threads.into_iter().find(is_it))
    }

    /// Opens a thread without a message. If that is rejected, posts a message with the purpose and opens its thread.
    /// <https://docs.discord.com/developers/resources/channel#start-thread-without-message>
    async fn bare_thread(&self, parent: &Channel, name: &str, key: &str) -> Result<Channel, ApiError> {
        let kind = if parent.kind == kind::ANNOUNCEMENT { kind::ANNOUNCEMENT_THREAD } else { kind::PUBLIC_THREAD };
        let body = json!({ "name": name, "type": kind, "auto_archive_duration": ARCHIVE_MINUTES });
        let opened = self.api.send(Method::POST, &format!("channels/{}/threads", parent.id), &body).await;
        let refused = match opened {
            Err(ApiError::Refused(refused)) => refused,
            other => return other,
        };
        tracing::info!(%refused, "opening the thread from a message instead");
        let mut seed = seed(name);
        // A repeated request with the same key returns the same message.
        seed["nonce"] = json!(key.chars().rev().take(25).collect::<String>());
        seed["enforce_nonce"] = json!(true);
        let sent: Sent = self.api.send(Method::POST, &format!("channels/{}/messages", parent.id), &seed).await?;
        self.thread_from(&parent.id, &sent.id, name).await
    }

    /// Creates a post in a forum.
    /// <https://docs.discord.com/developers/resources/channel#start-thread-in-forum-or-media-channel>
    async fn post_in(&self, forum: &Channel, name: &str) -> Result<Channel, ApiError> {
        let mut body = json!({ "name": name, "auto_archive_duration": ARCHIVE_MINUTES, "message": seed(name) });
        if forum.flags & REQUIRE_TAG != 0
            && let Some(tag) = forum.available_tags.first()
        {
            body["applied_tags"] = json!([tag.id]);
        }
        self.api.send(Method::POST, &format!("channels/{}/threads", forum.id), &body).await
    }

    /// Renames a thread.
    pub async fn rename(&self, chat: &Chat, name: &str) -> Result<(), CallError> {
        if chat.kind != ChatType::Thread || chat.thread.is_none() {
            return Err(CallError::new("invalid", "this is not a thread; channels are not renamed"));
        }
        let thread = self.place(chat).map_err(|_| CallError::new("invalid", "the chat is not a Discord chat"))?;
        let name: String = name.chars().take(THREAD_NAME_CHARS_MAX).collect();
        let path = format!("channels/{thread}");
        self.api.send::<Value>(Method::PATCH, &path, &json!({ "name": name })).await.map(drop).map_err(call_error)
    }
}

/// Returns the first message of a thread.
fn seed(name: &str) -> Value {
    json!({ "content": format!("\u{1f9f5} {name}"), "allowed_mentions": { "parse": [] } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_for_a_chat_is_read_and_a_name_is_none() {
        for text in ["123", " 123 ", "<#123>", "9:123"] {
            assert_eq!(target(text), Some(Target::Channel("123")), "{text:?}");
        }
        for text in ["@123", "<@123>", "<@!123>", "user:123"] {
            assert_eq!(target(text), Some(Target::Person("123")), "{text:?}");
        }
        for text in ["general", "#general", "", "@ada", "<@&123>", "1:plans", "plans:1", "user:", "-5", "1/2"] {
            assert_eq!(target(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_seed_calls_nobody() {
        assert_eq!(seed("@everyone")["allowed_mentions"]["parse"], json!([]));
    }
}

//! Requests for threads: those that a first answer opens, and those that the host asks for.

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::channels::{ChannelInfo, kind};
use crate::connection::Connection;
use crate::errors::{call_error, outcome};
use crate::inbound::THREAD_NAME_CHARS_MAX;
use crate::objects::{Channel, SentMessageId};
use crate::snowflake;
use crate::threads::{self, ThreadState, Threads};

/// The time for which a thread is shown after its last message, in minutes.
const ARCHIVE_MINUTES: u32 = 1440;
/// The wait in milliseconds if it is unknown whether a thread was opened.
const THREAD_WAIT_MS: u64 = 1000;
/// The flag of a forum whose posts need a tag.
/// <https://docs.discord.com/developers/resources/channel#channel-object-channel-flags>
const REQUIRE_TAG: u64 = 1 << 4;
/// The tolerance between the local clock and the platform's, in milliseconds.
const CLOCK_TOLERANCE_MS: i64 = 60_000;
/// The name of a thread without a given name.
const DEFAULT_NAME: &str = "handoff";

/// The threads of a guild that are not archived.
#[derive(Deserialize)]
struct ActiveThreads {
    #[serde(default)]
    threads: Vec<Channel>,
}

impl Connection {
    /// Records that the first answer to a message opens a thread. Called before the host has the event.
    pub(crate) async fn reserve_thread(&self, message: &str) -> Result<(), ConnectError> {
        let mut threads = self.threads.lock().await;
        if threads.add_pending(message) {
            let saved = self.host.kv().set(threads::STORE_KEY, &threads.to_json()).await;
            saved.map_err(|error| ConnectError::retry(format!("a thread cannot be reserved: {error}")))?;
        }
        Ok(())
    }

    /// Opens the reserved thread of a message before the first message in it is sent.
    pub(crate) async fn open_reserved_thread(&self, chat: &Chat) -> Result<(), SendOutcome> {
        let (Some(thread), Some(channel)) = (&chat.thread, &chat.parent) else { return Ok(()) };
        if !self.threads.lock().await.is_pending(thread) {
            return Ok(());
        }
        let lock = self.thread_locks.lock_for(thread);
        let _guard = lock.lock().await;
        if !self.threads.lock().await.is_pending(thread) {
            return Ok(());
        }
        let name = chat.thread_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("Conversation");
        let opened = self.open_message_thread(channel, thread, name).await;
        match &opened {
            Ok(found) => self.channels.insert(thread, ChannelInfo::new(found, None)),
            // The thread exists already.
            Err(error) if error.code() == Some(160_004) => {}
            Err(ApiError::Refused(refused)) => {
                tracing::warn!(%refused, channel, "thread cannot be opened; answering in the channel");
                if refused.status == 403 {
                    self.channels_without_threads.lock().await.insert(channel.clone());
                }
            }
            Err(error @ ApiError::RateLimited { .. }) => return Err(outcome(error, chat)),
            // The message itself was certainly not sent, and a repeated request for the thread creates no second one.
            Err(error) => {
                return Err(SendOutcome::not_sent(Some(THREAD_WAIT_MS), WaitScope::Chat, error.to_string()));
            }
        }
        if let Err(error) = self.update_threads(|threads| threads.remove_pending(thread)).await {
            // At worst the thread is requested again, and exists already.
            tracing::warn!(%error, "opened thread cannot be saved");
        }
        match opened {
            Err(ApiError::Refused(refused)) if refused.code != 160_004 => {
                Err(SendOutcome::refused(RefusalKind::ThreadGone, refused.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Changes the stored threads. The lock is never held during a call to the platform.
    async fn update_threads(&self, change: impl FnOnce(&mut Threads)) -> Result<(), CallError> {
        let mut threads = self.threads.lock().await;
        change(&mut threads);
        self.host.kv().set(threads::STORE_KEY, &threads.to_json()).await
    }

    /// Opens the thread of a message.
    /// <https://docs.discord.com/developers/resources/channel#start-thread-from-message>
    async fn open_message_thread(&self, channel: &str, message: &str, name: &str) -> Result<Channel, ApiError> {
        let name: String = name.chars().take(THREAD_NAME_CHARS_MAX).collect();
        let body = json!({ "name": name, "auto_archive_duration": ARCHIVE_MINUTES });
        self.api.send_json(Method::POST, &format!("channels/{channel}/messages/{message}/threads"), &body).await
    }

    /// Opens a thread in `chat` for a handoff; `None` if the chat does not support threads.
    pub(crate) async fn open_handoff_thread(
        &self,
        chat: Chat,
        name: &str,
        key: &str,
    ) -> Result<Option<Chat>, CallError> {
        if chat.kind != ChatType::Group {
            return Ok(None);
        }
        let channel =
            self.channel_id(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Discord chat"))?;
        let lock = self.thread_locks.lock_for(key);
        let _guard = lock.lock().await;
        let state = self.threads.lock().await.state_of(key);
        if let ThreadState::Opened(thread) = &state {
            let info = match self.channels.get(thread) {
                Some(info) => info,
                None => self.look_up(thread, None).await.map_err(call_error)?,
            };
            return Ok(Some(self.chat_descriptor(thread, &info)));
        }
        let parent: Channel =
            self.api.request(Method::GET, &format!("channels/{channel}")).await.map_err(call_error)?;
        self.channels.insert(&channel, ChannelInfo::new(&parent, None));
        if !matches!(parent.kind, kind::TEXT | kind::ANNOUNCEMENT | kind::FORUM | kind::MEDIA) {
            return Ok(None);
        }
        let name: String = name.trim().chars().take(THREAD_NAME_CHARS_MAX).collect();
        let name = if name.is_empty() { DEFAULT_NAME.to_owned() } else { name };
        let interrupted = match state {
            ThreadState::Requested { at_ms } => {
                self.find_interrupted(&parent, &name, at_ms).await.map_err(call_error)?
            }
            _ => None,
        };
        let now_ms = self.host.now_ms();
        self.update_threads(|threads| threads.add_request(key, now_ms)).await?;
        let opened = match (interrupted, parent.kind) {
            (Some(thread), _) => Ok(thread),
            (None, kind::TEXT | kind::ANNOUNCEMENT) => self.open_bare_thread(&parent, &name, key).await,
            (None, _) => self.create_post(&parent, &name).await,
        };
        let saved = match &opened {
            Ok(thread) => self.update_threads(|threads| threads.set_thread(key, Some(&thread.id))).await,
            // The thread may exist, and the key must not open another one: the next attempt searches for it.
            Err(ApiError::Unknown(_)) => Ok(()),
            Err(_) => self.update_threads(|threads| threads.set_thread(key, None)).await,
        };
        if let Err(error) = saved {
            // At worst the next attempt searches for the thread.
            tracing::warn!(%error, "outcome of opening a thread cannot be saved");
        }
        let opened = opened.map_err(call_error)?;
        let info = ChannelInfo::new(&opened, parent.guild_id.as_deref());
        self.channels.insert(&opened.id, info.clone());
        Ok(Some(self.chat_descriptor(&opened.id, &info)))
    }

    /// Returns the thread that an interrupted request of an earlier attempt opened here under this name.
    /// <https://docs.discord.com/developers/resources/guild#list-active-guild-threads>
    async fn find_interrupted(
        &self,
        parent: &Channel,
        name: &str,
        requested_ms: i64,
    ) -> Result<Option<Channel>, ApiError> {
        let Some(guild) = parent.guild_id.as_deref().filter(|guild| snowflake::parse(guild).is_some()) else {
            return Ok(None);
        };
        let active: ActiveThreads = self.api.request(Method::GET, &format!("guilds/{guild}/threads/active")).await?;
        let bot = self.identity.get().map(|identity| identity.user.as_str());
        let is_ours = |thread: &Channel| {
            thread.parent_id.as_deref() == Some(&parent.id)
                && thread.name.as_deref() == Some(name)
                && thread.owner_id.as_deref() == bot
                && snowflake::time_ms(&thread.id) >= requested_ms - CLOCK_TOLERANCE_MS
        };
        Ok(active.threads.into_iter().find(is_ours))
    }

    /// Opens a thread without a message. If that is rejected, posts a message with the purpose and opens its thread.
    /// <https://docs.discord.com/developers/resources/channel#start-thread-without-message>
    async fn open_bare_thread(&self, parent: &Channel, name: &str, key: &str) -> Result<Channel, ApiError> {
        let kind = if parent.kind == kind::ANNOUNCEMENT { kind::ANNOUNCEMENT_THREAD } else { kind::PUBLIC_THREAD };
        let body = json!({ "name": name, "type": kind, "auto_archive_duration": ARCHIVE_MINUTES });
        let opened = self.api.send_json(Method::POST, &format!("channels/{}/threads", parent.id), &body).await;
        let refused = match opened {
            Err(ApiError::Refused(refused)) => refused,
            other => return other,
        };
        tracing::info!(%refused, "opening the thread from a message instead");
        let mut body = first_message(name);
        // A repeated request with the same key returns the same message.
        body["nonce"] = json!(key.chars().rev().take(25).collect::<String>());
        body["enforce_nonce"] = json!(true);
        let sent: SentMessageId =
            self.api.send_json(Method::POST, &format!("channels/{}/messages", parent.id), &body).await?;
        self.open_message_thread(&parent.id, &sent.id, name).await
    }

    /// Creates a post in a forum.
    /// <https://docs.discord.com/developers/resources/channel#start-thread-in-forum-or-media-channel>
    async fn create_post(&self, forum: &Channel, name: &str) -> Result<Channel, ApiError> {
        let mut body =
            json!({ "name": name, "auto_archive_duration": ARCHIVE_MINUTES, "message": first_message(name) });
        if forum.flags & REQUIRE_TAG != 0 {
            if let Some(tag) = forum.available_tags.first() {
                body["applied_tags"] = json!([tag.id]);
            }
        }
        self.api.send_json(Method::POST, &format!("channels/{}/threads", forum.id), &body).await
    }

    /// Renames a thread.
    pub(crate) async fn rename_thread(&self, chat: &Chat, name: &str) -> Result<(), CallError> {
        if chat.kind != ChatType::Thread || chat.thread.is_none() {
            return Err(CallError::new("invalid", "this is not a thread; channels are not renamed"));
        }
        let thread = self.channel_id(chat).map_err(|_| CallError::new("invalid", "the chat is not a Discord chat"))?;
        let name: String = name.chars().take(THREAD_NAME_CHARS_MAX).collect();
        let path = format!("channels/{thread}");
        self.api.send_json::<Value>(Method::PATCH, &path, &json!({ "name": name })).await.map(drop).map_err(call_error)
    }
}

/// Returns the first message of a thread.
fn first_message(name: &str) -> Value {
    json!({ "content": format!("\u{1f9f5} {name}"), "allowed_mentions": { "parse": [] } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_of_a_thread_calls_nobody() {
        assert_eq!(first_message("@everyone")["allowed_mentions"]["parse"], json!([]));
    }
}

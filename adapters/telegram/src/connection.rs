//! The link: the identity of the bot, and the long poll.
//!
//! The server deletes an update after a poll requests a later one, so the offset moves only
//! past updates whose events the host has committed. The offset is also stored in the
//! host's key-value store, for servers that lose it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::api::{Api, ApiError, Message, POLL_SLACK, Refused, Update, User};
use crate::conflicts::Conflicts;
use crate::inbound::{self, Incoming};
use crate::topics::Forums;
use crate::webhook::Webhook;

/// The requested kinds of updates.
pub const ALLOWED_UPDATES: [&str; 5] =
    ["message", "edited_message", "channel_post", "edited_channel_post", "callback_query"];
/// Kinds of updates that hold a message.
const MESSAGES: [&str; 4] = ["message", "edited_message", "channel_post", "edited_channel_post"];
/// The key of the next offset.
const OFFSET_KEY: &str = "offset";
/// The upper limit of update ids. A larger id is invalid, and an offset after it would never match an update.
const UPDATE_ID_END: i64 = 1 << 40;
/// The maximum number of updates per poll.
const BATCH_MAX: u32 = 100;
/// Chats whose updates are handed over at once; other calls of the instance find room beside them.
const CHATS_AT_ONCE: usize = 16;
/// Repeats of an event that the host had no room for.
const BUSY_REPEATS_MAX: u32 = 20;
/// Pause before such a repeat.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// The wait for further parts of an album after the last one. The parts arrive as separate updates in direct sequence.
const ALBUM_PAUSE: Duration = Duration::from_millis(700);
/// The maximum number of polls for further parts of an album; an album has at most ten parts.
const ALBUM_ROUNDS_MAX: usize = 10;
/// The pause after a server repeats confirmed updates.
const REPEATED_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of button presses being acknowledged at the same time; further ones are not acknowledged.
pub const PRESSES_MAX: usize = 16;
/// The timeout of an acknowledgement.
const PRESS_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a raw update stored with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;

/// The link of one bot.
pub struct Connection {
    pub api: Api,
    pub host: Host,
    /// The bot's own account, as reported when the link was last opened.
    pub me: Mutex<Option<Arc<User>>>,
    pub poll_timeout: Duration,
    pub media_bytes_max: u64,
    /// The folder of a local server's files, if the host may read it.
    pub local_files: Option<PathBuf>,
    /// The webhook; `None` for polling.
    pub webhook: Option<Webhook>,
    /// Permits for acknowledgements of button presses.
    pub presses: Arc<Semaphore>,
    /// Conflicts with other processes that receive this bot's messages.
    pub conflicts: Conflicts,
    /// The known forums.
    pub forums: Forums,
}

impl Connection {
    /// Requests the bot's own account, and sets or deletes the webhook. An active webhook would block polling.
    pub async fn open(&self) -> Result<(), ConnectError> {
        let me: User = self.api.call("getMe", &json!({})).await.map_err(|error| match error {
            // Only this 404 is about the token, because every server has `getMe`.
            ApiError::Refused(refused) if refused.code == 404 => bad_token(&refused),
            error => lost(&error),
        })?;
        self.host.lock_credential(&format!("telegram:{}", me.id)).await.map_err(|error| {
            ConnectError::not_locked(&error, "use a separate bot for each instance, or stop the other one")
        })?;
        match &self.webhook {
            Some(webhook) => webhook.open(self).await?,
            // Another process may have set the webhook on purpose, and would set it again.
            None if self.conflicts.is_open() => {}
            None => match self.api.call::<Value>("deleteWebhook", &json!({})).await {
                // A server without webhooks has none to delete.
                Err(ApiError::Refused(refused)) if refused.code == 404 => {}
                deleted => drop(deleted.map_err(|error| lost(&error))?),
            },
        }
        self.host.proved();
        self.host.announce(format!("@{}", me.username.as_deref().unwrap_or("bot")), "");
        // A token always belongs to the same bot, but the name of the bot may change.
        *self.me.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(me));
        Ok(())
    }

    /// Returns the bot's own account.
    pub fn me(&self) -> Result<Arc<User>, ConnectError> {
        let me = self.me.lock().unwrap_or_else(PoisonError::into_inner).clone();
        me.ok_or_else(|| ConnectError::retry("the instance is not connected"))
    }

    /// Receives updates until the link is lost.
    pub async fn receive(&self) -> Result<(), ConnectError> {
        match &self.webhook {
            Some(webhook) => webhook.receive(self).await,
            None => self.poll_on().await,
        }
    }

    /// Polls until the link is lost.
    async fn poll_on(&self) -> Result<(), ConnectError> {
        let me = self.me()?;
        self.conflicts.begin();
        let mut offset = self.stored_offset().await?;
        loop {
            let batch = self.poll(offset, self.poll_timeout).await?;
            let batch = self.whole_albums(batch).await?;
            if batch.is_empty() {
                continue;
            }
            self.hand_over_all(&batch, &me).await?;
            let next = next_offset(&batch);
            if next.is_none() || next == offset {
                tokio::time::sleep(REPEATED_PAUSE).await;
                continue;
            }
            offset = next;
            self.store_offset(offset).await?;
        }
    }

    async fn poll(&self, offset: Option<i64>, wait: Duration) -> Result<Vec<Value>, ConnectError> {
        if let Some(words) = self.conflicts.to_tell() {
            self.host.link(LinkWord::Degraded, words);
        }
        let mut parameters = json!({ "timeout": wait.as_secs(), "allowed_updates": ALLOWED_UPDATES });
        if let Some(offset) = offset {
            parameters["offset"] = json!(offset);
        }
        let mut limit = BATCH_MAX;
        loop {
            parameters["limit"] = json!(limit);
            match self.api.call_within("getUpdates", &parameters, wait + POLL_SLACK).await {
                Ok(batch) => {
                    self.host.proved();
                    if self.conflicts.pass() {
                        self.host.link(LinkWord::Online, "");
                    }
                    return Ok(batch);
                }
                // Requests fewer updates until the response is small enough; the same batch would fail forever.
                Err(ApiError::TooLarge(_)) if limit > 1 => limit /= 2,
                Err(ApiError::Refused(refused)) if refused.code == 409 => return Err(self.conflicts.meet(&refused)),
                Err(error) => return Err(lost(&error)),
            }
        }
    }

    /// Polls again with the same offset while the batch ends inside an album. These polls confirm no update.
    async fn whole_albums(&self, mut batch: Vec<Value>) -> Result<Vec<Value>, ConnectError> {
        for _ in 0..ALBUM_ROUNDS_MAX {
            let Some(last) = batch.last() else { break };
            if media_group(last).is_none() || batch.len() as u32 >= BATCH_MAX {
                break;
            }
            let Some(first) = batch.first().and_then(update_id) else { break };
            tokio::time::sleep(ALBUM_PAUSE).await;
            let again = self.poll(Some(first), Duration::ZERO).await?;
            let grown = again.len() > batch.len();
            if again.len() >= batch.len() {
                batch = again;
            }
            if !grown {
                break;
            }
        }
        Ok(batch)
    }

    /// Hands over a batch. The chats are handed over concurrently, so that their events share a commit of the host; the
    /// events of one chat follow each other, so that their order stays whatever the host refuses.
    async fn hand_over_all(&self, batch: &[Value], me: &User) -> Result<(), ConnectError> {
        for chats in by_chat(batch) {
            let chats: Vec<_> = chats.into_iter().map(|groups| self.hand_over_in_order(groups, me)).collect();
            stream::iter(chats).buffer_unordered(CHATS_AT_ONCE).try_collect::<()>().await?;
        }
        Ok(())
    }

    async fn hand_over_in_order(&self, groups: Vec<&[Value]>, me: &User) -> Result<(), ConnectError> {
        for group in groups {
            self.hand_over(group, me).await?;
        }
        Ok(())
    }

    /// Emits an event; repeats it for a while if the host has too many calls of this instance.
    async fn emit(&self, event: &Event) -> Result<Emitted, CallError> {
        for _ in 0..BUSY_REPEATS_MAX {
            match self.host.emit(event).await {
                Err(error) if error.code == "busy" => tokio::time::sleep(BUSY_PAUSE).await,
                answer => return answer,
            }
        }
        self.host.emit(event).await
    }

    /// Emits the event of one update, or of the updates of one album.
    pub async fn hand_over(&self, group: &[Value], me: &User) -> Result<(), ConnectError> {
        let updates: Vec<Update> = group
            .iter()
            .filter_map(|update| {
                // An invalid update does not block the others.
                serde_json::from_value(update.clone())
                    .inspect_err(
                        |error| tracing::warn!(update_id = update_id(update), %error, "update cannot be parsed"),
                    )
                    .ok()
            })
            .collect();
        self.forums.note(updates.iter().find_map(inbound::forum));
        let incoming = match updates.as_slice() {
            [] => None,
            [update] => inbound::incoming(update, me),
            several => {
                let messages: Vec<Message> = several
                    .iter()
                    .filter_map(|update| update.message.clone().or_else(|| update.channel_post.clone()))
                    .collect();
                inbound::album(&messages, me)
            }
        };
        let Some(Incoming { mut event, callback }) = incoming else { return Ok(()) };
        if let [update] = group {
            if update.to_string().len() <= RAW_BYTES_MAX {
                event.raw = update.clone();
            }
        }
        match self.emit(&event).await {
            Ok(_) => {}
            // The host will never accept this event, and later updates must not be blocked.
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(update_id = group.first().and_then(update_id), %error, "update skipped");
            }
            Err(error) => return Err(ConnectError::retry(format!("the host rejected an event: {error}"))),
        }
        if let Some(callback) = callback {
            self.acknowledge(callback);
        }
        Ok(())
    }

    /// Ends the progress indicator on a button, in the background, because no other step depends on it.
    fn acknowledge(&self, callback: String) {
        let Ok(room) = Arc::clone(&self.presses).try_acquire_owned() else { return };
        let api = self.api.clone();
        self.host.spawn(async move {
            let query = json!({ "callback_query_id": callback });
            if let Err(error) = api.call_within::<Value>("answerCallbackQuery", &query, PRESS_TIMEOUT).await {
                tracing::debug!(%error, "button press cannot be acknowledged");
            }
            drop(room);
        });
    }

    async fn stored_offset(&self) -> Result<Option<i64>, ConnectError> {
        let stored = self.host.kv().get(OFFSET_KEY).await.map_err(|error| ConnectError::retry(error.to_string()))?;
        Ok(stored.and_then(|text| text.parse().ok()))
    }

    async fn store_offset(&self, offset: Option<i64>) -> Result<(), ConnectError> {
        let Some(offset) = offset else { return Ok(()) };
        let stored = self.host.kv().set(OFFSET_KEY, &offset.to_string()).await;
        stored.map_err(|error| ConnectError::retry(format!("the offset cannot be saved: {error}")))
    }
}

fn bad_token(refused: &Refused) -> ConnectError {
    ConnectError::fatal(
        format!("Telegram rejected the token ({})", refused.description),
        "copy the token of the bot from @BotFather into `token` (or TELEGRAM_BOT_TOKEN)",
    )
}

/// Returns the effect of an error on the link. A 404 is about one method: the next connect
/// checks the token with `getMe`.
pub fn lost(error: &ApiError) -> ConnectError {
    let refused = match error {
        ApiError::Refused(refused) => refused,
        ApiError::NotSent(detail) => return ConnectError::unreachable(detail),
        _ => return ConnectError::retry(error.to_string()),
    };
    match refused.code {
        401 => bad_token(refused),
        429 => ConnectError::retry_after_ms(refused.description.clone(), refused.retry_after_ms.unwrap_or(1000)),
        _ => ConnectError::retry(refused.description.clone()),
    }
}

/// Returns the id of an update.
pub fn update_id(update: &Value) -> Option<i64> {
    update["update_id"].as_i64().filter(|id| (0..UPDATE_ID_END).contains(id))
}

/// Returns the offset of the next poll; `None` if no update has an id.
fn next_offset(batch: &[Value]) -> Option<i64> {
    batch.iter().filter_map(update_id).max().map(|id| id.saturating_add(1))
}

fn media_group(update: &Value) -> Option<&str> {
    update["message"]["media_group_id"].as_str().or_else(|| update["channel_post"]["media_group_id"].as_str())
}

/// Cuts a batch into stretches, and each stretch into its chats. A chat that moves is a stretch of its own: nothing of
/// its new id is handed over before.
fn by_chat(batch: &[Value]) -> Vec<Vec<Vec<&[Value]>>> {
    let mut stretches = vec![BTreeMap::<_, Vec<_>>::new()];
    for group in groups(batch) {
        let moves = group.iter().any(moves);
        if moves {
            stretches.push(BTreeMap::new());
        }
        if let Some(stretch) = stretches.last_mut() {
            stretch.entry(group.first().and_then(chat_id)).or_default().push(group);
        }
        if moves {
            stretches.push(BTreeMap::new());
        }
    }
    stretches.into_iter().map(|chats| chats.into_values().collect()).collect()
}

/// Returns the chat of an update.
fn chat_id(update: &Value) -> Option<i64> {
    let mut messages = MESSAGES.iter().map(|kind| &update[*kind]).chain([&update["callback_query"]["message"]]);
    messages.find_map(|message| message["chat"]["id"].as_i64())
}

/// Returns true if an update gives a chat another id.
fn moves(update: &Value) -> bool {
    let message = &update["message"];
    !message["migrate_to_chat_id"].is_null() || !message["migrate_from_chat_id"].is_null()
}

/// Splits a batch into groups with one event each: an update, or the adjacent updates of one album.
fn groups(batch: &[Value]) -> impl Iterator<Item = &[Value]> {
    batch.chunk_by(|one, next| media_group(one).is_some() && media_group(one) == media_group(next))
}

#[cfg(test)]
mod tests;

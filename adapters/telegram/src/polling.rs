//! The long poll, and its offset.
//!
//! The server deletes an update after a poll requests a later one, so the offset moves only past updates whose events
//! the host has committed. The offset is also stored in the host's key-value store, for servers that lose it.

use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::api::{ApiError, POLL_EXTRA_TIME};
use crate::conflicts::Conflicts;
use crate::connection::Connection;
use crate::errors::connect_error;
use crate::objects::User;
use crate::updates::{ALLOWED_UPDATES, by_chat, media_group, next_offset, update_id};

/// The key of the stored offset.
const OFFSET_KEY: &str = "offset";
/// The maximum number of updates per poll.
const BATCH_MAX: u32 = 100;
/// The maximum number of chats whose updates are emitted at the same time, which leaves room for other calls of the
/// instance.
const PARALLEL_CHATS_MAX: usize = 16;
/// The wait for further parts of an album after the last one. The parts arrive as separate updates in direct sequence.
const ALBUM_PAUSE: Duration = Duration::from_millis(700);
/// The maximum number of polls for further parts of an album; an album has at most ten parts.
const ALBUM_ROUNDS_MAX: usize = 10;
/// The pause after a server repeats confirmed updates.
const REPEATED_PAUSE: Duration = Duration::from_secs(1);

/// The long poll of one bot.
pub(crate) struct Polling {
    timeout: Duration,
    /// Conflicts with other processes that receive this bot's messages.
    conflicts: Conflicts,
}

impl Polling {
    /// Creates a poll that waits up to `timeout` for updates.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, conflicts: Conflicts::default() }
    }

    /// Deletes the webhook, which would block polling.
    pub(crate) async fn open(&self, connection: &Connection) -> Result<(), ConnectError> {
        // Another process may have set the webhook on purpose, and would set it again.
        if self.conflicts.is_active() {
            return Ok(());
        }
        match connection.api.call::<Value>("deleteWebhook", &json!({})).await {
            // A server without webhooks has none to delete.
            Err(ApiError::Refused(refused)) if refused.code == 404 => Ok(()),
            deleted => deleted.map(drop).map_err(|error| connect_error(&error)),
        }
    }

    /// Polls until the link is lost.
    pub(crate) async fn receive(&self, connection: &Connection) -> Result<(), ConnectError> {
        let me = connection.me()?;
        self.conflicts.reset_report();
        let mut offset = stored_offset(&connection.host).await?;
        loop {
            let batch = self.poll(connection, offset, self.timeout).await?;
            let batch = self.complete_album(connection, batch).await?;
            if batch.is_empty() {
                continue;
            }
            process_batch(connection, &batch, &me).await?;
            let next = next_offset(&batch);
            if next.is_none() || next == offset {
                sleep(REPEATED_PAUSE).await;
                continue;
            }
            offset = next;
            store_offset(&connection.host, offset).await?;
        }
    }

    async fn poll(
        &self,
        connection: &Connection,
        offset: Option<i64>,
        wait: Duration,
    ) -> Result<Vec<Value>, ConnectError> {
        if let Some(report) = self.conflicts.take_report() {
            connection.host.link(LinkWord::Degraded, report);
        }
        let mut parameters = json!({ "timeout": wait.as_secs(), "allowed_updates": ALLOWED_UPDATES });
        if let Some(offset) = offset {
            parameters["offset"] = json!(offset);
        }
        let mut limit = BATCH_MAX;
        loop {
            parameters["limit"] = json!(limit);
            match connection.api.call_within("getUpdates", &parameters, wait + POLL_EXTRA_TIME).await {
                Ok(batch) => {
                    connection.host.proved();
                    if self.conflicts.record_success() {
                        connection.host.link(LinkWord::Online, "");
                    }
                    return Ok(batch);
                }
                // Requests fewer updates until the response is small enough; the same batch would fail forever.
                Err(ApiError::TooLarge(_)) if limit > 1 => limit /= 2,
                Err(ApiError::Refused(refused)) if refused.code == 409 => return Err(self.conflicts.record(&refused)),
                Err(error) => return Err(connect_error(&error)),
            }
        }
    }

    /// Polls again with the same offset while the batch ends inside an album. These polls confirm no update.
    async fn complete_album(&self, connection: &Connection, mut batch: Vec<Value>) -> Result<Vec<Value>, ConnectError> {
        for _ in 0..ALBUM_ROUNDS_MAX {
            let Some(last) = batch.last() else { break };
            if media_group(last).is_none() || batch.len() as u32 >= BATCH_MAX {
                break;
            }
            let Some(first) = batch.first().and_then(update_id) else { break };
            sleep(ALBUM_PAUSE).await;
            let again = self.poll(connection, Some(first), Duration::ZERO).await?;
            let has_grown = again.len() > batch.len();
            if again.len() >= batch.len() {
                batch = again;
            }
            if !has_grown {
                break;
            }
        }
        Ok(batch)
    }
}

/// Processes a batch. The chats are processed concurrently, so that their events share a commit of the host; the
/// events of one chat follow each other, so that their order stays whatever the host refuses.
async fn process_batch(connection: &Connection, batch: &[Value], me: &User) -> Result<(), ConnectError> {
    for chats in by_chat(batch) {
        let chats: Vec<_> = chats.into_iter().map(|groups| process_in_order(connection, groups, me)).collect();
        stream::iter(chats).buffer_unordered(PARALLEL_CHATS_MAX).try_collect::<()>().await?;
    }
    Ok(())
}

async fn process_in_order(connection: &Connection, groups: Vec<&[Value]>, me: &User) -> Result<(), ConnectError> {
    for group in groups {
        connection.process(group, me).await?;
    }
    Ok(())
}

async fn stored_offset(host: &Host) -> Result<Option<i64>, ConnectError> {
    let stored = host.kv().get(OFFSET_KEY).await.map_err(|error| ConnectError::retry(error.to_string()))?;
    Ok(stored.and_then(|text| text.parse().ok()))
}

async fn store_offset(host: &Host, offset: Option<i64>) -> Result<(), ConnectError> {
    let Some(offset) = offset else { return Ok(()) };
    let stored = host.kv().set(OFFSET_KEY, &offset.to_string()).await;
    stored.map_err(|error| ConnectError::retry(format!("the offset cannot be saved: {error}")))
}

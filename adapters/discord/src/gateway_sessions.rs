//! The stored sessions of the shards, and the effect of a disconnect on them.

use hermes_adapter_sdk::prelude::*;

use crate::gateway::{Disconnect, Session};

/// The number of consecutive failed resumes after which a session is abandoned, because it may be permanently broken.
const RESUMES_MAX: u32 = 8;
/// The same for resumes that end with a normal close: the gateway does not restart twice in a row.
const NORMAL_CLOSES_MAX: u32 = 2;

/// Returns the stored session of a shard, if it belongs to this bot and this number of shards.
pub(crate) async fn load(
    host: &Host,
    bot: &str,
    shard: u32,
    shard_count: u32,
) -> Result<Option<Session>, ConnectError> {
    let stored = host.kv().get(&store_key(shard)).await.map_err(|error| ConnectError::retry(error.to_string()))?;
    let session: Option<Session> = stored.and_then(|text| serde_json::from_str(&text).ok());
    Ok(session.filter(|session| session.bot == bot && session.shard_count == shard_count))
}

/// Stores the session of a shard.
pub(crate) async fn save(host: &Host, shard: u32, session: &Session) -> Result<(), ConnectError> {
    let text = serde_json::to_string(session).expect("texts and numbers are always JSON");
    let saved = host.kv().set(&store_key(shard), &text).await;
    saved.map_err(|error| ConnectError::retry(format!("the session cannot be saved: {error}")))
}

/// Deletes the session of a shard.
pub(crate) async fn delete(host: &Host, shard: u32) {
    if let Err(error) = host.kv().delete(&store_key(shard)).await {
        tracing::warn!(%error, "ended session cannot be removed; the gateway will reject it again");
    }
}

/// Returns the effect of a failed opening. A session whose own address fails is resumed at the gateway's address
/// next; one that fails repeatedly while the HTTP API works is abandoned.
pub(crate) async fn after_failed_open(
    host: &Host,
    shard: u32,
    session: Option<Session>,
    disconnect: Disconnect,
) -> ConnectError {
    if let (Some(mut session), Disconnect::Resumable(reason) | Disconnect::NormalClose(reason)) = (session, &disconnect)
    {
        session.failures = session.failures.saturating_add(1);
        let is_normal = matches!(disconnect, Disconnect::NormalClose(_));
        if session.failures >= if is_normal { NORMAL_CLOSES_MAX } else { RESUMES_MAX } {
            return after_disconnect(host, shard, Disconnect::SessionEnded(reason.clone())).await;
        }
        if let Err(error) = save(host, shard, &session).await {
            return error;
        }
    }
    after_disconnect(host, shard, disconnect).await
}

/// Returns the effect of a disconnect on the link; an ended session is deleted.
pub(crate) async fn after_disconnect(host: &Host, shard: u32, disconnect: Disconnect) -> ConnectError {
    match disconnect {
        Disconnect::Fatal { reason, remedy } => ConnectError::fatal(reason, remedy),
        Disconnect::Resumable(reason) | Disconnect::NormalClose(reason) => ConnectError::retry(reason),
        Disconnect::SessionEnded(reason) | Disconnect::Reshard(reason) => {
            delete(host, shard).await;
            ConnectError::retry(reason)
        }
    }
}

fn store_key(shard: u32) -> String {
    format!("session:{shard}")
}

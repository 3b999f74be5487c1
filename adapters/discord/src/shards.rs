//! The shards of one account: opened one after the other, followed in parallel.
//!
//! The gateway allows a few new sessions per five seconds, so `connect` opens as many as its time allows, and the
//! others are opened while the first are followed. A shard that loses its connection is reopened in place. The link is
//! lost when no shard is left, or when a person has to act.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_sdk::prelude::*;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::connection::{BotIdentity, Connection};
use crate::gateway::{Disconnect, Session, Shard, ShardOptions};
use crate::gateway_sessions;
use crate::identify_limit::IdentifyLimit;
use crate::shard_events::{LostShard, follow, until_done};

/// The time in which `connect` opens further shards; the host waits thirty seconds for it.
const OPENING_MAX: Duration = Duration::from_secs(15);
/// The uptime after which a lost shard is reopened immediately.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// The maximum number of shards per instance.
const SHARDS_MAX: u32 = 256;
/// The first and the longest wait before a shard is reopened.
const REOPEN_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The shards of one account.
#[derive(Default)]
pub(crate) struct Shards {
    /// The shards that `connect` opened, until `run` takes them.
    opened: Mutex<Option<OpenShards>>,
}

/// The shards that are open, and those still to open.
struct OpenShards {
    shards: Vec<(u32, Shard)>,
    missing: VecDeque<u32>,
    gateway: Gateway,
}

/// The address of the gateway, the number of shards, and the rate limit of new sessions.
struct Gateway {
    url: Url,
    shard_count: u32,
    identify_limit: IdentifyLimit,
}

/// The result of reopening a shard.
type Reopened = (u32, Gateway, Result<Shard, ConnectError>);

impl Shards {
    /// Requests the identity of the bot, and opens the first shard and further ones without a long wait.
    pub(crate) async fn open(&self, connection: &Connection) -> Result<(), ConnectError> {
        *self.opened.lock().await = None;
        connection.identify().await?;
        connection.load_state().await?;
        connection.emit_pending_commands().await?;
        let (url, found) = connection.find_gateway().await?;
        let mut gateway = Gateway {
            url,
            shard_count: found.shards.clamp(1, SHARDS_MAX),
            identify_limit: IdentifyLimit::new(found.session_start_limit),
        };
        let mut missing: VecDeque<u32> = (0..gateway.shard_count).collect();
        let until = Instant::now() + OPENING_MAX;
        let mut shards = Vec::new();
        while let Some(number) = missing.pop_front() {
            if shards.is_empty() {
                shards.push((number, open_shard(connection, number, &mut gateway).await?));
                continue;
            }
            match timeout_at(until, open_shard(connection, number, &mut gateway)).await {
                Ok(Ok(shard)) => shards.push((number, shard)),
                Ok(Err(error @ ConnectError::Fatal { .. })) => return Err(error),
                Ok(Err(error)) => {
                    tracing::info!(shard = number, %error, "shard cannot be opened yet");
                    missing.push_back(number);
                    break;
                }
                Err(_) => {
                    missing.push_front(number);
                    break;
                }
            }
        }
        if !missing.is_empty() {
            tracing::info!(up = shards.len(), of = gateway.shard_count, "opening the remaining shards one by one");
        }
        *self.opened.lock().await = Some(OpenShards { shards, missing, gateway });
        connection.host.proved();
        Ok(())
    }

    /// Receives events until no shard is connected; the next `open` resumes the sessions.
    pub(crate) async fn receive(&self, connection: &Connection) -> Result<(), ConnectError> {
        let Some(OpenShards { shards, mut missing, gateway }) = self.opened.lock().await.take() else {
            return Err(ConnectError::retry("the instance is not connected"));
        };
        let (end, ending) = watch::channel(false);
        let mut followed: FuturesUnordered<BoxFuture<'_, LostShard>> = FuturesUnordered::new();
        for (number, shard) in shards {
            followed.push(follow(connection, number, shard, ending.clone()).boxed());
        }
        let mut gateway = Some(gateway);
        let mut backoff = Backoff::new(REOPEN_BACKOFF.0, REOPEN_BACKOFF.1);
        let mut opening: Option<BoxFuture<'_, Reopened>> = None;
        let mut wait = Duration::ZERO;
        loop {
            if opening.is_none() {
                if let Some(number) = missing.pop_front() {
                    if let Some(gateway) = gateway.take() {
                        opening = Some(reopen(connection, number, gateway, wait).boxed());
                    }
                }
            }
            let is_opening = opening.is_some();
            let lost = tokio::select! {
                Some(lost) = followed.next() => lost,
                reopened = until_done(&mut opening), if is_opening => {
                    opening = None;
                    let (number, used_gateway, opened) = reopened;
                    gateway = Some(used_gateway);
                    match opened {
                        Ok(shard) => {
                            wait = Duration::ZERO;
                            followed.push(follow(connection, number, shard, ending.clone()).boxed());
                            continue;
                        }
                        Err(error) => LostShard::new(number, error),
                    }
                }
            };
            if lost.ends_all || followed.is_empty() {
                // A shard with events of an ended session processes them to the end.
                end.send_replace(true);
                while followed.next().await.is_some() {}
                return Err(lost.error);
            }
            tracing::info!(shard = lost.number, error = %lost.error, "shard is not connected; the others continue");
            missing.push_back(lost.number);
            if lost.uptime >= STABLE_AFTER {
                backoff.reset();
            }
            wait = retry_after(&lost.error).unwrap_or_else(|| backoff.next_delay());
        }
    }
}

async fn reopen(connection: &Connection, number: u32, mut gateway: Gateway, wait: Duration) -> Reopened {
    sleep(wait).await;
    // The limit of new sessions dates from the opening of the link, which may be long ago.
    if let Ok((_, found)) = connection.find_gateway().await {
        gateway.identify_limit.refresh(found.session_start_limit);
    }
    let opened = open_shard(connection, number, &mut gateway).await;
    (number, gateway, opened)
}

/// Opens one shard: resumes its session, or starts a new one when that is allowed.
async fn open_shard(connection: &Connection, number: u32, gateway: &mut Gateway) -> Result<Shard, ConnectError> {
    let Some(identity) = connection.identity.get() else {
        return Err(ConnectError::retry("the account of the bot is not known yet"));
    };
    let host = &connection.host;
    let mut session = gateway_sessions::load(host, &identity.user, number, gateway.shard_count).await?;
    if session.is_none() {
        gateway.identify_limit.acquire().await?;
    }
    let mut opened = connect_shard(connection, identity, number, gateway, session.clone()).await;
    if let Err(Disconnect::SessionEnded(reason)) = &opened {
        if session.take().is_some() {
            // A new session needs a new connection to the gateway's address.
            // <https://docs.discord.com/developers/events/gateway#preparing-to-resume>
            tracing::info!(shard = number, reason, "session cannot be resumed; starting a new one");
            gateway_sessions::delete(host, number).await;
            gateway.identify_limit.acquire().await?;
            opened = connect_shard(connection, identity, number, gateway, None).await;
        }
    }
    match opened {
        Ok(shard) => {
            gateway_sessions::save(host, number, &shard.session).await?;
            Ok(shard)
        }
        Err(disconnect) => Err(gateway_sessions::after_failed_open(host, number, session, disconnect).await),
    }
}

async fn connect_shard(
    connection: &Connection,
    identity: &BotIdentity,
    number: u32,
    gateway: &Gateway,
    session: Option<Session>,
) -> Result<Shard, Disconnect> {
    let options = ShardOptions {
        client: &connection.sockets,
        url: &gateway.url,
        force_url: connection.gateway_url.is_some(),
        version: connection.gateway_version,
        token: &connection.token,
        bot: &identity.user,
        shard: (number, gateway.shard_count),
        message_content: connection.settings.message_content,
    };
    Shard::open(&options, session).await
}

/// Returns the wait that an error requests.
fn retry_after(error: &ConnectError) -> Option<Duration> {
    match error {
        ConnectError::Retry { after_ms, .. } => after_ms.map(Duration::from_millis),
        _ => None,
    }
}

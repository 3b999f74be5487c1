//! The link: the clients and the state of one bot, its identity, and the address of its gateway.
//!
//! A session's sequence number moves only past events that the host has committed. The number is stored in the host's
//! key-value store: after a lost link or a restart the gateway repeats the missed events. The events of a shard are
//! processed one at a time, in order (`events`); meanwhile the connection is read and its heartbeat sent (`shards`).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use hermes_adapter_net::client::base_url;
use hermes_adapter_net::fetch::{FetchOptions, Fetcher};
use hermes_adapter_net::reqwest::{Method, Url};
use hermes_adapter_net::ws::{WsClient, ws_url};
use hermes_adapter_net::{ClientError, ClientOptions};
use hermes_adapter_sdk::prelude::*;
use tokio::sync::{Mutex, Notify};

use crate::acknowledgements::Acknowledgements;
use crate::api::{Api, ApiError, Rejection};
use crate::channels::Channels;
use crate::config::{Config, Settings};
use crate::echoes::Echoes;
use crate::errors::connect_error;
use crate::interactions::{self, Interactions};
use crate::members::Members;
use crate::objects::{Application, GatewayBot, User};
use crate::thread_locks::ThreadLocks;
use crate::threads::{self, Threads};

/// The version of the gateway if `base_url` contains none.
const VERSION: u32 = 10;
/// The flags of an application that may read message content.
/// <https://docs.discord.com/developers/resources/application#application-object-application-flags>
const MAY_READ: u64 = (1 << 18) | (1 << 19);
/// The permissions for messages, channels and threads, reactions and files.
/// <https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags>
const PERMISSIONS: u64 = (1 << 6) | (1 << 10) | (1 << 11) | (1 << 14) | (1 << 15) | (1 << 16) | (1 << 35) | (1 << 38);

/// The identity of the bot.
#[derive(Clone, Debug)]
pub(crate) struct BotIdentity {
    /// The user id of the bot.
    pub user: String,
    /// The id of the application.
    pub application: String,
}

/// The link of one bot.
pub(crate) struct Connection {
    pub api: Api,
    pub host: Host,
    pub settings: Settings,
    pub token: String,
    /// The client for websockets.
    pub sockets: WsClient,
    /// The gateway that the operator configured.
    pub gateway_url: Option<Url>,
    pub gateway_version: u32,
    pub fetcher: Fetcher,
    pub identity: OnceLock<BotIdentity>,
    pub channels: Channels,
    pub members: Members,
    pub threads: Mutex<Threads>,
    pub thread_locks: ThreadLocks,
    pub interactions: Mutex<Interactions>,
    pub acknowledgements: Acknowledgements,
    /// Notified when the event id of a command is known.
    pub event_id_known: Notify,
    pub echoes: Echoes,
    /// Channels in which the bot may not open threads.
    pub channels_without_threads: Mutex<BTreeSet<String>>,
    /// True after the stored state was loaded.
    is_state_loaded: Mutex<bool>,
}

impl Connection {
    /// Creates the link of the configured bot, without a connection.
    pub(crate) fn new(config: Config, host: Host) -> Result<Self, ClientError> {
        let base = base_url(&config.base_url)?;
        let gateway_url = config.gateway_url.as_deref().map(ws_url).transpose()?;
        let mut sockets = ClientOptions::default();
        let proxy = &host.info().proxy;
        sockets.ca_file.clone_from(&config.ca_file);
        sockets.proxy.clone_from(proxy);
        // Without encrypted connections no certificate is loaded.
        sockets.plain_http = base.scheme() == "http" && gateway_url.as_ref().is_none_or(|url| url.scheme() == "http");
        let mut files = FetchOptions::default();
        files.origins = file_origins(&base, config.file_url.as_deref())?;
        files.ca_file.clone_from(&config.ca_file);
        files.proxy.clone_from(proxy);
        files.bytes_max = config.media_bytes_max;
        Ok(Self {
            api: Api::new(&config.token, &config.base_url, config.ca_file.as_deref(), proxy)?,
            host,
            token: config.token.clone(),
            settings: config.into(),
            sockets: WsClient::new(&sockets)?,
            gateway_url,
            gateway_version: version(&base),
            fetcher: Fetcher::new(files)?,
            identity: OnceLock::new(),
            channels: Default::default(),
            members: Default::default(),
            threads: Default::default(),
            thread_locks: Default::default(),
            interactions: Default::default(),
            acknowledgements: Default::default(),
            event_id_known: Default::default(),
            echoes: Default::default(),
            channels_without_threads: Default::default(),
            is_state_loaded: Default::default(),
        })
    }

    /// Requests the identity of the bot, and checks its required permissions.
    pub(crate) async fn identify(&self) -> Result<(), ConnectError> {
        let user: User =
            self.api.request(Method::GET, "users/@me").await.map_err(|error| connect_error("GET users/@me", &error))?;
        self.host.lock_credential(&format!("discord:{}", user.id)).await.map_err(|error| {
            ConnectError::not_locked(&error, "use a separate bot for each instance, or stop the other one")
        })?;
        let application = match self.api.request::<Application>(Method::GET, "applications/@me").await {
            Ok(application) => Some(application),
            // A server without this endpoint; there the bot and its application have the same id.
            Err(ApiError::Refused(Rejection { status: 404 | 405 | 501, .. })) => None,
            // The bot works without this answer: the gateway rejects an intent that is switched off.
            Err(ApiError::Refused(refused)) if refused.status == 403 => {
                tracing::warn!(%refused, "GET /applications/@me was rejected; skipping the check of the bot's intents");
                None
            }
            Err(error) => return Err(connect_error("GET applications/@me", &error)),
        };
        let may_read = application.as_ref().is_none_or(|application| application.flags & MAY_READ != 0);
        if self.settings.message_content && !may_read {
            return Err(ConnectError::fatal(
                "Discord does not send the content of messages to this bot",
                "enable Message Content Intent in the Developer Portal (Bot, Privileged Gateway Intents), or set `message_content = false` to read only direct messages and mentions",
            ));
        }
        let application = application.map_or_else(|| user.id.clone(), |found| found.id);
        let identity = BotIdentity { user: user.id, application };
        let invite = format!(
            "https://discord.com/oauth2/authorize?client_id={}&scope=bot+applications.commands&permissions={PERMISSIONS}",
            identity.application
        );
        self.host.announce(format!("@{} (invite it)", user.username), invite);
        // The first answer stays, because a token always belongs to the same bot.
        self.identity.get_or_init(|| identity);
        Ok(())
    }

    /// Returns the address of the gateway, and its recommended number of shards.
    pub(crate) async fn find_gateway(&self) -> Result<(Url, GatewayBot), ConnectError> {
        let found = match (self.api.request::<GatewayBot>(Method::GET, "gateway/bot").await, &self.gateway_url) {
            (Ok(found), _) => found,
            (Err(error @ (ApiError::RateLimited { .. } | ApiError::NotSent(_))), _) => {
                return Err(connect_error("GET gateway/bot", &error));
            }
            (Err(error @ ApiError::Refused(Rejection { status: 401, .. })), _) => {
                return Err(connect_error("GET gateway/bot", &error));
            }
            // A server without this endpoint, whose address the operator configured.
            (Err(_), Some(url)) => GatewayBot { url: url.to_string(), shards: 1, session_start_limit: None },
            (Err(error), None) => return Err(connect_error("GET gateway/bot", &error)),
        };
        let url = match &self.gateway_url {
            Some(url) => url.clone(),
            None => ws_url(&found.url)
                .map_err(|error| ConnectError::retry(format!("the address of the gateway is invalid: {error}")))?,
        };
        Ok((url, found))
    }

    /// Loads the stored state of an earlier run, once.
    pub(crate) async fn load_state(&self) -> Result<(), ConnectError> {
        let mut is_loaded = self.is_state_loaded.lock().await;
        if !*is_loaded {
            let read = |key: &'static str| async move {
                self.host.kv().get(key).await.map_err(|error| ConnectError::retry(error.to_string()))
            };
            *self.threads.lock().await = Threads::parse(read(threads::STORE_KEY).await?.as_deref());
            *self.interactions.lock().await = Interactions::parse(read(interactions::STORE_KEY).await?.as_deref());
            *is_loaded = true;
        }
        Ok(())
    }

    /// Emits an event. `None`: the host will never accept it, and later events must not be blocked.
    pub(crate) async fn emit(&self, event: &Event) -> Result<Option<Emitted>, ConnectError> {
        match self.host.emit(event).await {
            Ok(emitted) => {
                self.host.proved();
                Ok(Some(emitted))
            }
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(event_id = event.event_id, %error, "event skipped");
                Ok(None)
            }
            Err(error) => Err(ConnectError::retry(format!("the host rejected an event: {error}"))),
        }
    }
}

/// Returns the origins of files that may be in any network. Discord's own servers are on
/// the public network and need no entry.
fn file_origins(base: &Url, files: Option<&str>) -> Result<Vec<Url>, ClientError> {
    let mut origins = vec![base.clone()];
    origins.extend(files.map(base_url).transpose()?);
    Ok(origins)
}

/// Returns the version at the end of an address: 9 for `…/api/v9`.
fn version(base: &Url) -> u32 {
    let last = base.path().rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').and_then(|version| version.parse().ok()).unwrap_or(VERSION)
}

#[cfg(test)]
mod tests;

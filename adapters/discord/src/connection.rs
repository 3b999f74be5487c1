//! The link: the identity of the bot, and the processing of each event.
//!
//! A session's sequence number moves only past events that the host has committed. The number is stored in the host's
//! key-value store: after a lost link or a restart the gateway repeats the missed events. The events of a shard are
//! processed one at a time, in order; meanwhile the connection is read and its heartbeat sent (`shards`).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use hermes_adapter_net::fetch::Fetcher;
use hermes_adapter_net::reqwest::{Method, Url};
use hermes_adapter_net::ws::{WsClient, ws_url};
use hermes_adapter_sdk::prelude::*;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};

use crate::api::{Api, ApiError, Application, GatewayBot, Interaction, Message, Refused, User};
use crate::channels::{self, Place, Places};
use crate::commands::Acknowledgements;
use crate::echoes::Echoes;
use crate::gateway::Dispatch;
use crate::inbound::{self, Ears};
use crate::interactions::{self, Interactions};
use crate::members::Members;
use crate::outbound::{Manner, ms};
use crate::shards::Opened;
use crate::threads::{self, Threads, Turns};

/// The maximum size of a raw event stored with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;
/// The maximum number of failed lookups of a channel while its event, and all later ones, wait.
const LOOK_UPS_MAX: u32 = 4;
/// The flags of an application that may read message content.
/// <https://docs.discord.com/developers/resources/application#application-object-application-flags>
const MAY_READ: u64 = (1 << 18) | (1 << 19);
/// The permissions for messages, channels and threads, reactions and files.
/// <https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags>
const PERMISSIONS: u64 = (1 << 6) | (1 << 10) | (1 << 11) | (1 << 14) | (1 << 15) | (1 << 16) | (1 << 35) | (1 << 38);

/// The operator's settings.
pub struct Choice {
    /// True if a mention of the bot in a channel opens a thread.
    pub auto_thread: bool,
    /// Channels in which no thread is opened.
    pub no_thread_channels: BTreeSet<String>,
    /// Channels to listen to; empty: all.
    pub allowed_channels: BTreeSet<String>,
    /// Channels to ignore.
    pub ignored_channels: BTreeSet<String>,
    /// Servers whose roles count in direct messages.
    pub role_guilds: BTreeSet<String>,
    /// True to ignore a message that mentions only other users.
    pub leaves_others_alone: bool,
    /// True to request the content of messages.
    pub message_content: bool,
    /// True if answers to commands are visible to everybody.
    pub public_answers: bool,
    /// The maximum size of an incoming file, in bytes.
    pub media_bytes_max: u64,
}

/// The identity of the bot.
#[derive(Clone, Debug)]
pub struct Me {
    /// The user id of the bot.
    pub id: String,
    /// The id of the application.
    pub application: String,
}

/// The link of one bot.
pub struct Connection {
    pub api: Api,
    pub host: Host,
    pub manner: Manner,
    pub choice: Choice,
    pub token: String,
    /// The client for websockets.
    pub sockets: WsClient,
    /// The gateway that the operator configured.
    pub gateway_url: Option<Url>,
    pub version: u32,
    pub fetcher: Fetcher,
    pub me: OnceLock<Me>,
    pub places: Places,
    pub members: Members,
    pub threads: Mutex<Threads>,
    /// Locks for opening threads.
    pub opening: Turns,
    pub interactions: Mutex<Interactions>,
    pub acknowledgements: Acknowledgements,
    /// Notified when the event id of a command is known.
    pub arrivals: Notify,
    pub echoes: Echoes,
    /// Channels in which the bot may not open threads.
    pub threadless: Mutex<BTreeSet<String>>,
    /// True after the stored state was loaded.
    pub recalled: Mutex<bool>,
    /// The shards that `connect` opened, until `run` takes them.
    pub shards: Mutex<Option<Opened>>,
}

impl Connection {
    /// Requests the identity of the bot, and checks its required permissions.
    pub async fn identify(&self) -> Result<(), ConnectError> {
        let user: User = self.api.ask(Method::GET, "users/@me").await.map_err(|error| lost("GET users/@me", &error))?;
        self.host.lock_credential(&format!("discord:{}", user.id)).await.map_err(|error| {
            ConnectError::not_locked(&error, "use a separate bot for each instance, or stop the other one")
        })?;
        let application = match self.api.ask::<Application>(Method::GET, "applications/@me").await {
            Ok(application) => Some(application),
            // A server without this endpoint; there the bot and its application have the same id.
            Err(ApiError::Refused(Refused { status: 404 | 405 | 501, .. })) => None,
            // The bot works without this answer: the gateway rejects an intent that is switched off.
            Err(ApiError::Refused(refused)) if refused.status == 403 => {
                tracing::warn!(%refused, "GET /applications/@me was rejected; skipping the check of the bot's intents");
                None
            }
            Err(error) => return Err(lost("GET applications/@me", &error)),
        };
        let may_read = application.as_ref().is_none_or(|application| application.flags & MAY_READ != 0);
        if self.choice.message_content && !may_read {
            return Err(ConnectError::fatal(
                "Discord does not send the content of messages to this bot",
                "enable Message Content Intent in the Developer Portal (Bot, Privileged Gateway Intents), or set `message_content = false` to read only direct messages and mentions",
            ));
        }
        let me = Me { application: application.map_or_else(|| user.id.clone(), |found| found.id), id: user.id };
        let invite = format!(
            "https://discord.com/oauth2/authorize?client_id={}&scope=bot+applications.commands&permissions={PERMISSIONS}",
            me.application
        );
        self.host.announce(format!("@{} (invite it)", user.username), invite);
        // The first answer stays, because a token always belongs to the same bot.
        self.me.get_or_init(|| me);
        Ok(())
    }

    /// Returns the address of the gateway, and its recommended number of shards.
    pub async fn gateway(&self) -> Result<(Url, GatewayBot), ConnectError> {
        let told = match (self.api.ask::<GatewayBot>(Method::GET, "gateway/bot").await, &self.gateway_url) {
            (Ok(told), _) => told,
            (Err(error @ (ApiError::Limited { .. } | ApiError::NotSent(_))), _) => {
                return Err(lost("GET gateway/bot", &error));
            }
            (Err(error @ ApiError::Refused(Refused { status: 401, .. })), _) => {
                return Err(lost("GET gateway/bot", &error));
            }
            // A server without this endpoint, whose address the operator configured.
            (Err(_), Some(url)) => GatewayBot { url: url.to_string(), shards: 1, session_start_limit: None },
            (Err(error), None) => return Err(lost("GET gateway/bot", &error)),
        };
        let url = match &self.gateway_url {
            Some(url) => url.clone(),
            None => ws_url(&told.url)
                .map_err(|error| ConnectError::retry(format!("the address of the gateway is invalid: {error}")))?,
        };
        Ok((url, told))
    }

    /// Loads the state of an earlier run once, and continues with it.
    pub async fn recall(&self) -> Result<(), ConnectError> {
        let mut recalled = self.recalled.lock().await;
        if !*recalled {
            let read = |key: &'static str| async move {
                self.host.kv().get(key).await.map_err(|error| ConnectError::retry(error.to_string()))
            };
            *self.threads.lock().await = Threads::read(read(threads::KEPT_AS).await?.as_deref());
            *self.interactions.lock().await = Interactions::read(read(interactions::KEPT_AS).await?.as_deref());
            *recalled = true;
        }
        self.hand_over_again().await
    }

    /// Processes one event of the gateway; returns `true` if it became an event of the host.
    pub async fn take_in(&self, dispatch: Dispatch) -> Result<bool, ConnectError> {
        let Some(me) = self.me.get() else { return Ok(false) };
        match dispatch.name.as_str() {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" => {
                let Some(message) = understood::<Message>(&dispatch) else { return Ok(false) };
                self.message(message, dispatch, me).await
            }
            "INTERACTION_CREATE" => {
                let Some(interaction) = understood::<Interaction>(&dispatch) else { return Ok(false) };
                self.interaction(interaction).await
            }
            name => {
                self.places.hear(name, &dispatch.data, &me.id);
                Ok(false)
            }
        }
    }

    async fn message(&self, message: Message, dispatch: Dispatch, me: &Me) -> Result<bool, ConnectError> {
        if channels::number(&message.channel_id).is_none() {
            return Ok(false);
        }
        let (mut chat, place) = self.chat_of(&message.channel_id, message.guild_id.as_deref(), None).await?;
        if !self.listens_to(&message.channel_id, &place).await? {
            return Ok(false);
        }
        let own_role = self.own_role(&message, me).await;
        let ears =
            Ears { me: &me.id, own_role: own_role.as_deref(), leaves_others_alone: self.choice.leaves_others_alone };
        if chat.kind == ChatType::Dm && chat.name.is_none() {
            chat.name = message.author.as_ref().map(|author| author.shown().to_owned());
        }
        let read = if dispatch.name == "MESSAGE_UPDATE" { inbound::changed } else { inbound::written };
        let Some(mut event) = read(&message, chat, ears) else { return Ok(false) };
        if self.opens_thread(&event, &message, &place).await {
            event.chat =
                channels::thread_of(&message.id, &message.channel_id, &place, &inbound::thread_name(&event.text));
            self.promise(&message.id).await?;
        } else {
            let thread = self.places.get(&message.id);
            let is_promised = self.threads.lock().await.is_promised(&message.id);
            if inbound::is_in_its_thread(&event, thread.as_ref(), is_promised) {
                let name = thread.and_then(|thread| thread.name).unwrap_or_else(|| inbound::thread_name(&event.text));
                event.chat = channels::thread_of(&message.id, &message.channel_id, &place, &name);
            }
        }
        if dispatch.data.to_string().len() <= RAW_BYTES_MAX {
            event.raw = dispatch.data;
        }
        self.add_roles(&mut event).await;
        self.emit(&event).await?;
        Ok(true)
    }

    async fn opens_thread(&self, event: &Event, message: &Message, place: &Place) -> bool {
        let here = &message.channel_id;
        self.choice.auto_thread
            && inbound::opens_thread(event, message, place)
            && !self.choice.no_thread_channels.contains(here)
            && !self.threadless.lock().await.contains(here)
    }

    /// Records that the first answer to a message opens a thread. Called before the host has the event.
    async fn promise(&self, message: &str) -> Result<(), ConnectError> {
        let mut threads = self.threads.lock().await;
        if threads.promise(message) {
            let kept = self.host.kv().set(threads::KEPT_AS, &threads.written()).await;
            kept.map_err(|error| ConnectError::retry(format!("a thread cannot be reserved: {error}")))?;
        }
        Ok(())
    }

    /// Emits an event. `None`: the host will never accept it, and later events must not be blocked.
    pub async fn emit(&self, event: &Event) -> Result<Option<Emitted>, ConnectError> {
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

    /// Returns the descriptor and the known facts of a channel; requests them from the server if nothing is known.
    pub async fn chat_of(
        &self,
        channel: &str,
        guild: Option<&str>,
        told: Option<Place>,
    ) -> Result<(Chat, Place), ConnectError> {
        let known = self.places.get(channel).or(told);
        let place = match (known, guild) {
            (Some(place), _) => place,
            (None, None) => Place { kind: channels::kind::DM, guild: None, parent: None, name: None },
            (None, Some(_)) => self.learn(channel, guild).await?.unwrap_or_else(|| Place {
                kind: channels::kind::TEXT,
                guild: guild.map(str::to_owned),
                parent: None,
                name: None,
            }),
        };
        Ok((self.described(channel, &place), place))
    }

    /// Requests a channel of an event from the server; `None`: the known facts must suffice.
    async fn learn(&self, channel: &str, guild: Option<&str>) -> Result<Option<Place>, ConnectError> {
        match self.look_up(channel, guild).await {
            Ok(place) => Ok(Some(place)),
            Err(ApiError::Refused(_)) => Ok(None),
            // A wrong descriptor would lead to another conversation, so the lookup is retried. However, one channel
            // without an answer must not block all others forever.
            Err(error) if self.places.miss(channel) <= LOOK_UPS_MAX => Err(lost("GET channels", &error)),
            Err(error) => {
                tracing::warn!(%error, channel, "channel lookup failed; treating the channel as a text channel");
                Ok(None)
            }
        }
    }

    /// Requests a channel from the server.
    pub async fn look_up(&self, channel: &str, guild: Option<&str>) -> Result<Place, ApiError> {
        let found: crate::api::Channel = self.api.ask(Method::GET, &format!("channels/{channel}")).await?;
        let place = Place::of(&found, guild);
        self.places.put(channel, place.clone());
        Ok(place)
    }

    /// Returns the descriptor of a channel.
    pub fn described(&self, channel: &str, place: &Place) -> Chat {
        let parent = place.parent.as_deref().filter(|_| channels::is_thread(place.kind));
        channels::chat(channel, place, parent.and_then(|parent| self.places.get(parent)?.name))
    }

    /// Returns the bot's own role if a message mentions a role. A resumed session does not receive the roles.
    async fn own_role(&self, message: &Message, me: &Me) -> Option<String> {
        let guild = message.guild_id.as_deref().filter(|_| !message.mention_roles.is_empty())?;
        if channels::number(guild).is_some() && !self.places.knows_role(guild) {
            match self.api.ask::<Value>(Method::GET, &format!("guilds/{guild}/roles")).await {
                Ok(roles) => self.places.hear_roles(&roles, guild, &me.id),
                Err(ApiError::Refused(_)) => self.places.hear_roles(&Value::Array(Vec::new()), guild, &me.id),
                // At worst a mention of the role is not recognized; that must not end the link.
                Err(error) => tracing::debug!(%error, "roles of a guild are not available"),
            }
        }
        self.places.own_role(guild)
    }

    /// Returns whether the bot listens to a channel, by its own id, that of its parent channel or that of its category.
    pub async fn listens_to(&self, channel: &str, place: &Place) -> Result<bool, ConnectError> {
        if place.guild.is_none() || (self.choice.allowed_channels.is_empty() && self.choice.ignored_channels.is_empty())
        {
            return Ok(true);
        }
        let parent = place.parent.as_deref().filter(|_| channels::is_thread(place.kind));
        let above = match parent.map(|parent| (parent, self.places.get(parent))) {
            None => None,
            Some((_, Some(parent))) => parent.parent,
            Some((parent, None)) => self.learn(parent, place.guild.as_deref()).await?.and_then(|parent| parent.parent),
        };
        let names = [Some(channel), place.parent.as_deref(), above.as_deref()];
        let stands_in = |list: &BTreeSet<String>| names.iter().flatten().any(|id| list.contains(*id));
        Ok(!stands_in(&self.choice.ignored_channels)
            && (self.choice.allowed_channels.is_empty() || stands_in(&self.choice.allowed_channels)))
    }
}

/// Parses an event; an invalid event does not block the others.
pub fn understood<T: serde::de::DeserializeOwned>(dispatch: &Dispatch) -> Option<T> {
    serde_json::from_value(dispatch.data.clone())
        .inspect_err(|error| tracing::warn!(name = dispatch.name, %error, "event cannot be parsed"))
        .ok()
}

/// Maps an error of a call to the HTTP API to what it means for the link. The reason names the call.
pub fn lost(call: &str, error: &ApiError) -> ConnectError {
    match error {
        ApiError::Refused(refused) if refused.status == 401 => ConnectError::fatal(
            format!("Discord rejected the token ({refused})"),
            "copy the token of the bot from the Developer Portal (Bot, Reset Token) into `token` (or DISCORD_BOT_TOKEN)",
        ),
        ApiError::Limited { retry_after, .. } => ConnectError::retry_after_ms(error.to_string(), ms(*retry_after)),
        ApiError::NotSent(detail) => ConnectError::unreachable(detail),
        error => ConnectError::retry(format!("{call}: {error}")),
    }
}

#[cfg(test)]
mod tests;

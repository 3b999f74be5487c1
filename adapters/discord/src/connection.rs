//! The link: who we are, and what is done with each event.
//!
//! A session's number moves only past events that the host has committed, and is kept in the host's store: after a
//! lost link or a restart the gateway tells again what came meanwhile. One event of a shard is taken in at a time, in
//! order; meanwhile the connection is read and its heartbeat kept (`shards`).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use hermes_adapter_net::fetch::Fetcher;
use hermes_adapter_net::reqwest::{Client, Method, Url};
use hermes_adapter_net::ws::ws_url;
use hermes_adapter_sdk::prelude::*;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};

use crate::api::{Api, ApiError, Application, GatewayBot, Interaction, Message, Refused, User};
use crate::commands::Acknowledgements;
use crate::echoes::Echoes;
use crate::gateway::Dispatch;
use crate::inbound::{self, Ears};
use crate::interactions::{self, Interactions};
use crate::outbound::{Manner, ms};
use crate::places::{self, Place, Places};
use crate::shards::Opened;
use crate::threads::{self, Threads, Turns};

/// The longest raw event that is kept with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;
/// How often one channel may be asked about in vain while an event of it waits, and all that is behind it.
const LOOK_UPS_MAX: u32 = 4;
/// The application may be told what people write.
/// <https://docs.discord.com/developers/resources/application#application-object-application-flags>
const MAY_READ: u64 = (1 << 18) | (1 << 19);
/// Messages, channels and threads, reactions and files.
/// <https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags>
const PERMISSIONS: u64 = (1 << 6) | (1 << 10) | (1 << 11) | (1 << 14) | (1 << 15) | (1 << 16) | (1 << 35) | (1 << 38);

/// What the operator chose.
pub struct Choice {
    /// Whether calling the bot in a channel opens a thread.
    pub auto_thread: bool,
    /// Channels in which it opens none.
    pub no_thread_channels: BTreeSet<String>,
    /// Channels that are listened to; empty: all.
    pub allowed_channels: BTreeSet<String>,
    /// Channels that are not listened to.
    pub ignored_channels: BTreeSet<String>,
    /// Whether a message that calls somebody else only is left alone.
    pub leaves_others_alone: bool,
    /// Whether the content of messages is asked for.
    pub message_content: bool,
    /// Whether answers to commands are seen by everybody.
    pub public_answers: bool,
    /// The largest file that is fetched, in bytes.
    pub media_bytes_max: u64,
}

/// Who we are.
#[derive(Clone, Debug)]
pub struct Me {
    /// The bot's user id.
    pub id: String,
    /// The application's id.
    pub application: String,
}

/// One account's link.
pub struct Connection {
    pub api: Api,
    pub host: Host,
    pub manner: Manner,
    pub choice: Choice,
    pub token: String,
    /// Opens websockets.
    pub sockets: Client,
    /// Where the operator wants the gateway to be.
    pub gateway_url: Option<Url>,
    pub version: u32,
    pub fetcher: Fetcher,
    pub me: OnceLock<Me>,
    pub places: Places,
    pub threads: Mutex<Threads>,
    /// Whose turn it is to open a thread.
    pub opening: Turns,
    pub interactions: Mutex<Interactions>,
    pub acknowledgements: Acknowledgements,
    /// Told whenever it is known which event a command became.
    pub arrivals: Notify,
    pub echoes: Echoes,
    /// Channels in which no thread may be opened.
    pub threadless: Mutex<BTreeSet<String>>,
    /// Whether what the host kept was read.
    pub recalled: Mutex<bool>,
    /// What `connect` opened, until `run` takes it.
    pub shards: Mutex<Option<Opened>>,
}

impl Connection {
    /// Who the bot is, and whether it may do what it is for.
    pub async fn identify(&self) -> Result<(), ConnectError> {
        let user: User = self.api.ask(Method::GET, "users/@me").await.map_err(|error| lost(&error))?;
        self.host.lock_credential(&format!("discord:{}", user.id)).await.map_err(|error| {
            ConnectError::not_locked(&error, "give each instance a bot of its own, or stop the other one")
        })?;
        let application = match self.api.ask::<Application>(Method::GET, "applications/@me").await {
            Ok(application) => Some(application),
            // A server without this page; there the bot and its application have one id.
            Err(ApiError::Refused(Refused { status: 404 | 405 | 501, .. })) => None,
            // The bot works without it: the gateway refuses an intent that is switched off.
            Err(ApiError::Refused(refused)) if refused.status == 403 => {
                tracing::warn!(%refused, "GET /applications/@me is refused; the intents of the bot are not checked");
                None
            }
            Err(error) => return Err(lost(&error)),
        };
        let may_read = application.as_ref().is_none_or(|application| application.flags & MAY_READ != 0);
        if self.choice.message_content && !may_read {
            return Err(ConnectError::fatal(
                "Discord does not tell this bot what people write",
                "switch on Message Content Intent in the Developer Portal (Bot, Privileged Gateway Intents), or set `message_content = false`: then it reads only direct messages and those that call it",
            ));
        }
        let me = Me { application: application.map_or_else(|| user.id.clone(), |found| found.id), id: user.id };
        let invite = format!(
            "https://discord.com/oauth2/authorize?client_id={}&scope=bot+applications.commands&permissions={PERMISSIONS}",
            me.application
        );
        self.host.announce(format!("@{} (invite it)", user.username), invite);
        // The first answer stays: a token never changes its bot.
        self.me.get_or_init(|| me);
        Ok(())
    }

    /// Where the gateway is, and how many shards it wants.
    pub async fn gateway(&self) -> Result<(Url, GatewayBot), ConnectError> {
        let told = match (self.api.ask::<GatewayBot>(Method::GET, "gateway/bot").await, &self.gateway_url) {
            (Ok(told), _) => told,
            (Err(error @ (ApiError::Limited { .. } | ApiError::NotSent(_))), _) => return Err(lost(&error)),
            (Err(error @ ApiError::Refused(Refused { status: 401, .. })), _) => return Err(lost(&error)),
            // A server without this page, where the operator has named the address.
            (Err(_), Some(url)) => GatewayBot { url: url.to_string(), shards: 1, session_start_limit: None },
            (Err(error), None) => return Err(lost(&error)),
        };
        let url = match &self.gateway_url {
            Some(url) => url.clone(),
            None => ws_url(&told.url)
                .map_err(|error| ConnectError::retry(format!("the gateway's address cannot be used: {error}")))?,
        };
        Ok((url, told))
    }

    /// Reads once what an earlier life kept, and goes on with it.
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

    /// What one event of the gateway means; `true`: it became an event of the host.
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
        if places::number(&message.channel_id).is_none() {
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
                places::thread_of(&message.id, &message.channel_id, &place, &inbound::thread_name(&event.text));
            self.promise(&message.id).await?;
        } else {
            let thread = self.places.get(&message.id);
            let is_promised = self.threads.lock().await.is_promised(&message.id);
            if inbound::is_in_its_thread(&event, thread.as_ref(), is_promised) {
                let name = thread.and_then(|thread| thread.name).unwrap_or_else(|| inbound::thread_name(&event.text));
                event.chat = places::thread_of(&message.id, &message.channel_id, &place, &name);
            }
        }
        if dispatch.data.to_string().len() <= RAW_BYTES_MAX {
            event.raw = dispatch.data;
        }
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

    /// Remembers, before the host has the event, that its first answer opens a thread.
    async fn promise(&self, message: &str) -> Result<(), ConnectError> {
        let mut threads = self.threads.lock().await;
        if threads.promise(message) {
            let kept = self.host.kv().set(threads::KEPT_AS, &threads.written()).await;
            kept.map_err(|error| ConnectError::retry(format!("a thread could not be promised: {error}")))?;
        }
        Ok(())
    }

    /// Hands an event over. `None`: the host will never take this one, and what is behind it must not wait for ever.
    pub async fn emit(&self, event: &Event) -> Result<Option<Emitted>, ConnectError> {
        match self.host.emit(event).await {
            Ok(emitted) => {
                self.host.proved();
                Ok(Some(emitted))
            }
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(event_id = event.event_id, %error, "an event is left out");
                Ok(None)
            }
            Err(error) => Err(ConnectError::retry(format!("the host did not take an event: {error}"))),
        }
    }

    /// The descriptor of a channel and what is known about it; asks the server where that is nothing.
    pub async fn chat_of(
        &self,
        channel: &str,
        guild: Option<&str>,
        told: Option<Place>,
    ) -> Result<(Chat, Place), ConnectError> {
        let known = self.places.get(channel).or(told);
        let place = match (known, guild) {
            (Some(place), _) => place,
            (None, None) => Place { kind: places::kind::DM, guild: None, parent: None, name: None },
            (None, Some(_)) => self.learn(channel, guild).await?.unwrap_or_else(|| Place {
                kind: places::kind::TEXT,
                guild: guild.map(str::to_owned),
                parent: None,
                name: None,
            }),
        };
        Ok((self.described(channel, &place), place))
    }

    /// Asks the server about a channel of which an event is; `None`: what is known without its answer has to do.
    async fn learn(&self, channel: &str, guild: Option<&str>) -> Result<Option<Place>, ConnectError> {
        match self.look_up(channel, guild).await {
            Ok(place) => Ok(Some(place)),
            Err(ApiError::Refused(_)) => Ok(None),
            // A wrong descriptor would lead to another conversation: rather once more, but one channel about which the
            // server never tells must not hold up all the others for ever.
            Err(error) if self.places.miss(channel) <= LOOK_UPS_MAX => Err(lost(&error)),
            Err(error) => {
                tracing::warn!(%error, channel, "the server does not tell about a channel; it is taken for one of text");
                Ok(None)
            }
        }
    }

    /// Asks the server about a channel.
    pub async fn look_up(&self, channel: &str, guild: Option<&str>) -> Result<Place, ApiError> {
        let found: crate::api::Channel = self.api.ask(Method::GET, &format!("channels/{channel}")).await?;
        let place = Place::of(&found, guild);
        self.places.put(channel, place.clone());
        Ok(place)
    }

    /// The descriptor of a channel.
    pub fn described(&self, channel: &str, place: &Place) -> Chat {
        let parent = place.parent.as_deref().filter(|_| places::is_thread(place.kind));
        places::chat(channel, place, parent.and_then(|parent| self.places.get(parent)?.name))
    }

    /// The role that belongs to the bot where a message calls a role. A session that was resumed does not tell it.
    async fn own_role(&self, message: &Message, me: &Me) -> Option<String> {
        let guild = message.guild_id.as_deref().filter(|_| !message.mention_roles.is_empty())?;
        if places::number(guild).is_some() && !self.places.knows_role(guild) {
            match self.api.ask::<Value>(Method::GET, &format!("guilds/{guild}/roles")).await {
                Ok(roles) => self.places.hear_roles(&roles, guild, &me.id),
                Err(ApiError::Refused(_)) => self.places.hear_roles(&Value::Array(Vec::new()), guild, &me.id),
                // At worst a call by the role is not heard; that must not end the link.
                Err(error) => tracing::debug!(%error, "the roles of a guild are not told"),
            }
        }
        self.places.own_role(guild)
    }

    /// Whether a channel is listened to: by its own id, that of its channel or that of its category.
    pub async fn listens_to(&self, channel: &str, place: &Place) -> Result<bool, ConnectError> {
        if place.guild.is_none() || (self.choice.allowed_channels.is_empty() && self.choice.ignored_channels.is_empty())
        {
            return Ok(true);
        }
        let parent = place.parent.as_deref().filter(|_| places::is_thread(place.kind));
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

/// One event that is not understood does not hold up the others.
pub fn understood<T: serde::de::DeserializeOwned>(dispatch: &Dispatch) -> Option<T> {
    serde_json::from_value(dispatch.data.clone())
        .inspect_err(|error| tracing::warn!(name = dispatch.name, %error, "an event is not understood"))
        .ok()
}

/// What an error of the HTTP API means for the link.
pub fn lost(error: &ApiError) -> ConnectError {
    match error {
        ApiError::Refused(refused) if refused.status == 401 => ConnectError::fatal(
            format!("Discord does not accept the token ({refused})"),
            "copy the bot's token from the Developer Portal (Bot, Reset Token) into `token` (or DISCORD_BOT_TOKEN)",
        ),
        ApiError::Limited { retry_after, .. } => ConnectError::retry_after_ms(error.to_string(), ms(*retry_after)),
        ApiError::NotSent(detail) => ConnectError::unreachable(detail),
        error => ConnectError::retry(error.to_string()),
    }
}

#[cfg(test)]
mod tests;

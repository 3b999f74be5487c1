//! Lookups of channels: the known facts, or the server's answer.

use std::collections::BTreeSet;

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::channels::{self, ChannelInfo};
use crate::chats;
use crate::connection::{BotIdentity, Connection};
use crate::errors::{call_error, connect_error, invalid_id};
use crate::objects::{Channel, Message};
use crate::snowflake;
use crate::target::{self, Target};

/// The maximum number of failed lookups of a channel while its event, and all later ones, wait.
const LOOKUPS_MAX: u32 = 4;
/// The maximum number of listed channels.
const LISTED_MAX: usize = 500;

impl Connection {
    /// Returns the descriptor and the known facts of a channel; requests them from the server if nothing is known.
    pub(crate) async fn chat_and_info(
        &self,
        channel: &str,
        guild: Option<&str>,
        given: Option<ChannelInfo>,
    ) -> Result<(Chat, ChannelInfo), ConnectError> {
        let known = self.channels.get(channel).or(given);
        let info = match (known, guild) {
            (Some(info), _) => info,
            (None, None) => ChannelInfo { kind: channels::kind::DM, guild: None, parent: None, name: None },
            (None, Some(_)) => self.fetch_info(channel, guild).await?.unwrap_or_else(|| ChannelInfo {
                kind: channels::kind::TEXT,
                guild: guild.map(str::to_owned),
                parent: None,
                name: None,
            }),
        };
        Ok((self.chat_descriptor(channel, &info), info))
    }

    /// Requests a channel of an event from the server; `None`: the known facts must suffice.
    async fn fetch_info(&self, channel: &str, guild: Option<&str>) -> Result<Option<ChannelInfo>, ConnectError> {
        match self.look_up(channel, guild).await {
            Ok(info) => Ok(Some(info)),
            Err(ApiError::Refused(_)) => Ok(None),
            // A wrong descriptor would lead to another conversation, so the lookup is retried. However, one channel
            // without an answer must not block all others forever.
            Err(error) if self.channels.record_failed_lookup(channel) <= LOOKUPS_MAX => {
                Err(connect_error("GET channels", &error))
            }
            Err(error) => {
                tracing::warn!(%error, channel, "channel lookup failed; treating the channel as a text channel");
                Ok(None)
            }
        }
    }

    /// Requests a channel from the server.
    pub(crate) async fn look_up(&self, channel: &str, guild: Option<&str>) -> Result<ChannelInfo, ApiError> {
        let channel_object: Channel = self.api.request(Method::GET, &format!("channels/{channel}")).await?;
        let info = ChannelInfo::new(&channel_object, guild);
        self.channels.insert(channel, info.clone());
        Ok(info)
    }

    /// Returns the descriptor of a channel.
    pub(crate) fn chat_descriptor(&self, channel: &str, info: &ChannelInfo) -> Chat {
        let parent = info.parent.as_deref().filter(|_| channels::is_thread(info.kind));
        chats::chat(channel, info, parent.and_then(|parent| self.channels.get(parent)?.name))
    }

    /// Returns the bot's own role if a message mentions a role. A resumed session does not receive the roles.
    pub(crate) async fn own_role(&self, message: &Message, identity: &BotIdentity) -> Option<String> {
        let guild = message.guild_id.as_deref().filter(|_| !message.mention_roles.is_empty())?;
        if snowflake::parse(guild).is_some() && !self.channels.knows_role(guild) {
            match self.api.request::<Value>(Method::GET, &format!("guilds/{guild}/roles")).await {
                Ok(roles) => self.channels.set_roles(&roles, guild, &identity.user),
                Err(ApiError::Refused(_)) => self.channels.set_roles(&Value::Array(Vec::new()), guild, &identity.user),
                // At worst a mention of the role is not recognized; that must not end the link.
                Err(error) => tracing::debug!(%error, "roles of a guild are not available"),
            }
        }
        self.channels.own_role(guild)
    }

    /// Returns whether the bot listens to a channel, by its own id, that of its parent channel or that of its category.
    pub(crate) async fn listens_to(&self, channel: &str, info: &ChannelInfo) -> Result<bool, ConnectError> {
        if info.guild.is_none()
            || (self.settings.allowed_channels.is_empty() && self.settings.ignored_channels.is_empty())
        {
            return Ok(true);
        }
        let parent = info.parent.as_deref().filter(|_| channels::is_thread(info.kind));
        let grandparent = match parent.map(|parent| (parent, self.channels.get(parent))) {
            None => None,
            Some((_, Some(parent))) => parent.parent,
            Some((parent, None)) => {
                self.fetch_info(parent, info.guild.as_deref()).await?.and_then(|parent| parent.parent)
            }
        };
        let ids = [Some(channel), info.parent.as_deref(), grandparent.as_deref()];
        let is_in = |list: &BTreeSet<String>| ids.iter().flatten().any(|id| list.contains(*id));
        Ok(!is_in(&self.settings.ignored_channels)
            && (self.settings.allowed_channels.is_empty() || is_in(&self.settings.allowed_channels)))
    }

    /// Returns the channel to send to.
    pub(crate) fn channel_id(&self, chat: &Chat) -> Result<String, SendOutcome> {
        chats::channel_id(chat).map(str::to_owned).ok_or_else(|| invalid_id("channel", &chat.id))
    }

    /// Returns the chat of a target; `None`: it does not exist, or this bot may not see it.
    pub(crate) async fn resolve_target(&self, text: &str) -> Result<Option<Chat>, CallError> {
        let found = match target::parse(text) {
            None => return Ok(None),
            Some(Target::Channel(id)) => self.look_up(id, None).await.map(|info| (id.to_owned(), info)),
            Some(Target::User(id)) => self.open_dm(id).await,
        };
        match found {
            Ok((id, info)) => {
                if let Some(parent) = info.parent.as_deref().filter(|_| channels::is_thread(info.kind)) {
                    self.look_up_name(parent).await;
                }
                Ok(Some(self.chat_descriptor(&id, &info)))
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
    pub(crate) async fn open_dm(&self, user: &str) -> Result<(String, ChannelInfo), ApiError> {
        let body = json!({ "recipient_id": user });
        let channel: Channel = self.api.send_json(Method::POST, "users/@me/channels", &body).await?;
        let info = ChannelInfo::new(&channel, None);
        self.channels.insert(&channel.id, info.clone());
        Ok((channel.id, info))
    }

    /// Looks up an unknown channel; only the channel's name depends on it.
    async fn look_up_name(&self, channel: &str) {
        if self.channels.get(channel).is_none() {
            if let Err(error) = self.look_up(channel, None).await {
                tracing::debug!(%error, "channel of a thread has no name");
            }
        }
    }

    /// Returns the channels and threads of guilds that the gateway has reported.
    pub(crate) fn list_chats(&self) -> Vec<Chat> {
        let listed = self.channels.message_channels();
        listed.iter().rev().take(LISTED_MAX).map(|(id, info)| self.chat_descriptor(id, info)).collect()
    }
}

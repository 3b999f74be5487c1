//! The events of the gateway: preprocessed at reception, and processed in order.

use futures_util::future::BoxFuture;
use hermes_adapter_sdk::prelude::*;

use crate::channels::ChannelInfo;
use crate::chats;
use crate::connection::{BotIdentity, Connection};
use crate::gateway::Dispatch;
use crate::inbound::{self, MessageFilter};
use crate::objects::{Interaction, Message};
use crate::snowflake;

/// The maximum size of a raw event stored with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;

impl Connection {
    /// Inspects an event when it is received; the returned future acknowledges it.
    pub(crate) fn preprocess(&self, dispatch: &Dispatch) -> Option<BoxFuture<'_, ()>> {
        match dispatch.name.as_str() {
            "MESSAGE_CREATE" => {
                self.record_echo(dispatch);
                None
            }
            "INTERACTION_CREATE" => {
                let interaction = dispatch.parse::<Interaction>().filter(inbound::is_ours)?;
                Some(self.start_acknowledgement(interaction))
            }
            _ => None,
        }
    }

    /// Records the key of the bot's own message, which the gateway repeats.
    fn record_echo(&self, dispatch: &Dispatch) {
        let bot = self.identity.get().map(|identity| identity.user.as_str());
        let data = &dispatch.data;
        if data["author"]["id"].as_str() == bot {
            if let (Some(key), Some(message)) = (data["nonce"].as_str(), data["id"].as_str()) {
                self.echoes.record(key, message);
            }
        }
    }

    /// Processes one event of the gateway; returns `true` if it became an event of the host.
    pub(crate) async fn process(&self, dispatch: Dispatch) -> Result<bool, ConnectError> {
        let Some(identity) = self.identity.get() else { return Ok(false) };
        match dispatch.name.as_str() {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" => {
                let Some(message) = dispatch.parse::<Message>() else { return Ok(false) };
                self.process_message(message, dispatch, identity).await
            }
            "INTERACTION_CREATE" => {
                let Some(interaction) = dispatch.parse::<Interaction>() else { return Ok(false) };
                self.process_interaction(interaction).await
            }
            name => {
                self.channels.handle(name, &dispatch.data, &identity.user);
                Ok(false)
            }
        }
    }

    async fn process_message(
        &self,
        message: Message,
        dispatch: Dispatch,
        identity: &BotIdentity,
    ) -> Result<bool, ConnectError> {
        if snowflake::parse(&message.channel_id).is_none() {
            return Ok(false);
        }
        let (mut chat, channel) = self.chat_and_info(&message.channel_id, message.guild_id.as_deref(), None).await?;
        if !self.listens_to(&message.channel_id, &channel).await? {
            return Ok(false);
        }
        let own_role = self.own_role(&message, identity).await;
        let filter = MessageFilter {
            bot: &identity.user,
            own_role: own_role.as_deref(),
            ignore_other_mentions: self.settings.ignore_other_mentions,
        };
        if chat.kind == ChatType::Dm && chat.name.is_none() {
            chat.name = message.author.as_ref().map(|author| author.display_name().to_owned());
        }
        let convert = if dispatch.name == "MESSAGE_UPDATE" { inbound::from_edit } else { inbound::from_message };
        let Some(mut event) = convert(&message, chat, filter) else { return Ok(false) };
        if self.starts_thread(&event, &message, &channel).await {
            let name = inbound::thread_name(&event.text);
            event.chat = chats::message_thread(&message.id, &message.channel_id, &channel, &name);
            self.reserve_thread(&message.id).await?;
        } else {
            let thread = self.channels.get(&message.id);
            let is_pending = self.threads.lock().await.is_pending(&message.id);
            if inbound::is_edit_in_thread(&event, thread.as_ref(), is_pending) {
                let name = thread.and_then(|thread| thread.name).unwrap_or_else(|| inbound::thread_name(&event.text));
                event.chat = chats::message_thread(&message.id, &message.channel_id, &channel, &name);
            }
        }
        if dispatch.data.to_string().len() <= RAW_BYTES_MAX {
            event.raw = dispatch.data;
        }
        self.members.add_roles(&self.api, &self.settings.role_guilds, &mut event).await;
        self.emit(&event).await?;
        Ok(true)
    }

    async fn starts_thread(&self, event: &Event, message: &Message, channel: &ChannelInfo) -> bool {
        let id = &message.channel_id;
        self.settings.auto_thread
            && inbound::starts_thread(event, message, channel)
            && !self.settings.no_thread_channels.contains(id)
            && !self.channels_without_threads.lock().await.contains(id)
    }
}

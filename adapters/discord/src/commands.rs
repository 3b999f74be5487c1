//! Commands and button presses: acknowledged immediately, and emitted in the order of their shard's events.
//!
//! The platform waits three seconds for an acknowledgement, and earlier events may take longer. No interaction is
//! lost by that: until the host has its event, the session's sequence number stays before it, and the gateway
//! repeats it.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::channels::ChannelInfo;
use crate::connection::Connection;
use crate::errors::ms;
use crate::inbound;
use crate::interactions::{self, Interactions, OpenInteraction, PendingCommand};
use crate::objects::Interaction;

/// The timeout of an acknowledgement; the platform itself waits three seconds.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-callback>
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that an answer waits for the event id of its command.
const EVENT_ID_TIMEOUT: Duration = Duration::from_secs(5);

impl Connection {
    /// Emits a command or a button press; returns `true` if it became an event of the host.
    pub(crate) async fn process_interaction(&self, interaction: Interaction) -> Result<bool, ConnectError> {
        if !inbound::is_ours(&interaction) {
            return Ok(false);
        }
        let Some((chat, channel)) = self.interaction_channel(&interaction).await? else { return Ok(false) };
        if !self.listens_to(interaction.channel().unwrap_or_default(), &channel).await? {
            return Ok(false);
        }
        let Some(mut event) = inbound::from_interaction(&interaction, chat) else { return Ok(false) };
        self.members.add_roles(&self.api, &self.settings.role_guilds, &mut event).await;
        if interaction.kind != inbound::COMMAND {
            self.emit(&event).await?;
            return Ok(true);
        }
        let requester = (event.chat.kind != ChatType::Dm).then(|| event.sender.id.clone());
        let command = PendingCommand { id: interaction.id, token: interaction.token, requester, event };
        let saved = self.update_interactions(|interactions| interactions.add_pending(command.clone())).await;
        saved.map_err(|error| ConnectError::retry(format!("a command cannot be saved: {error}")))?;
        self.emit_command(command).await?;
        Ok(true)
    }

    /// Emits a stored command, and stores the id of its event.
    async fn emit_command(&self, command: PendingCommand) -> Result<(), ConnectError> {
        let inbox = match self.emit(&command.event).await? {
            Some(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => Some(inbox_id),
            _ => None,
        };
        let now_ms = self.host.now_ms();
        let saved =
            self.update_interactions(|interactions| interactions.set_event_id(&command.id, inbox, now_ms)).await;
        self.event_id_known.notify_waiters();
        // At worst the command is emitted again, and the host recognizes it.
        saved.unwrap_or_else(|error| tracing::warn!(%error, "command that was handed over cannot be removed"));
        Ok(())
    }

    /// Emits the commands stored by an earlier run. Only the host knows whether it has them, and under which event id.
    pub(crate) async fn emit_pending_commands(&self) -> Result<(), ConnectError> {
        let commands = self.interactions.lock().await.pending();
        for command in commands {
            self.emit_command(command).await?;
        }
        Ok(())
    }

    /// Returns the chat of an interaction; `None` if it has no channel.
    async fn interaction_channel(
        &self,
        interaction: &Interaction,
    ) -> Result<Option<(Chat, ChannelInfo)>, ConnectError> {
        let Some(channel) = interaction.channel() else { return Ok(None) };
        let guild = interaction.guild_id.as_deref();
        let info = interaction.channel.as_ref().map(|channel| ChannelInfo::new(channel, guild));
        self.chat_and_info(channel, guild, info).await.map(Some)
    }

    /// Registers the acknowledgement of an interaction; the returned future sends it.
    pub(crate) fn start_acknowledgement(&self, interaction: Interaction) -> BoxFuture<'_, ()> {
        let result = self.acknowledgements.begin(&interaction.id);
        async move {
            let done = timeout(ACKNOWLEDGE_TIMEOUT, self.acknowledge(&interaction)).await;
            result.send_replace(Some(done.unwrap_or(false)));
        }
        .boxed()
    }

    /// Acknowledges an interaction for the waiting user; returns `false` if the interaction accepts no answer.
    /// <https://docs.discord.com/developers/interactions/receiving-and-responding#create-interaction-response>
    async fn acknowledge(&self, interaction: &Interaction) -> bool {
        let Ok(Some((_, channel))) = self.interaction_channel(interaction).await else { return false };
        if !self.listens_to(interaction.channel().unwrap_or_default(), &channel).await.unwrap_or(false) {
            return false;
        }
        let body = match interaction.kind {
            inbound::COMMAND if self.settings.public_answers => json!({ "type": 5 }),
            inbound::COMMAND => json!({ "type": 5, "data": { "flags": 64 } }),
            _ => json!({ "type": 6 }),
        };
        let path = format!("interactions/{}/{}/callback", interaction.id, interaction.token);
        match self.api.send_json::<Value>(Method::POST, &path, &body).await {
            Ok(_) => true,
            // The interaction was acknowledged before the link was lost.
            Err(error) if error.code() == Some(40060) => true,
            Err(error) => {
                tracing::debug!(%error, "interaction cannot be acknowledged");
                false
            }
        }
    }

    /// Returns the interaction to which an answer belongs, after its acknowledgement. An interaction that
    /// accepts no answer is removed.
    ///
    /// # Errors
    ///
    /// If it is not known yet whether the answer is for one person only.
    pub(crate) async fn interaction_for(&self, outgoing: &Outgoing) -> Result<Option<OpenInteraction>, SendOutcome> {
        let Some(inbox) = outgoing.in_reply_to else { return Ok(None) };
        let waited = timeout(EVENT_ID_TIMEOUT, self.wait_for_event_id(inbox, &outgoing.chat)).await;
        waited.map_err(|_| {
            let why = "a command is on its way to the host, and this message may be its answer";
            SendOutcome::not_sent(Some(ms(EVENT_ID_TIMEOUT)), WaitScope::Chat, why)
        })?;
        let Some(open) = self.interactions.lock().await.by_event(inbox, self.host.now_ms()) else { return Ok(None) };
        if self.acknowledgements.wait(&open.id).await {
            return Ok(Some(open));
        }
        self.remove_interaction(inbox).await;
        Ok(None)
    }

    /// Waits while the event `inbox` may be a command without a known event id.
    async fn wait_for_event_id(&self, inbox: i64, chat: &Chat) {
        loop {
            let mut notified = std::pin::pin!(self.event_id_known.notified());
            notified.as_mut().enable();
            if !self.interactions.lock().await.may_be_pending(inbox, chat) {
                return;
            }
            notified.await;
        }
    }

    /// Removes an interaction that accepts no answers.
    pub(crate) async fn remove_interaction(&self, inbox: i64) {
        self.update_interactions_or_log(|interactions| interactions.remove(inbox)).await;
    }

    /// Changes the stored interactions. The lock is never held during a call to the platform.
    async fn update_interactions(&self, change: impl FnOnce(&mut Interactions)) -> Result<(), CallError> {
        let mut interactions = self.interactions.lock().await;
        change(&mut interactions);
        self.host.kv().set(interactions::STORE_KEY, &interactions.stored_value()).await
    }

    /// Does the same and only logs a failed write, which costs at most a private answer.
    pub(crate) async fn update_interactions_or_log(&self, change: impl FnOnce(&mut Interactions)) {
        if let Err(error) = self.update_interactions(change).await {
            tracing::warn!(%error, "open interactions cannot be saved");
        }
    }
}

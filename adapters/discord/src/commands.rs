//! Commands and button presses: acknowledged immediately, and emitted in the order of their shard's events.
//!
//! The platform waits three seconds for an acknowledgement, and earlier events may take longer. No interaction is
//! lost by that: until the host has its event, the session's sequence number stays before it, and the gateway
//! repeats it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::api::Interaction;
use crate::channels::Place;
use crate::connection::{Connection, understood};
use crate::gateway::Dispatch;
use crate::inbound;
use crate::interactions::{self, Coming, Interactions, Open};
use crate::outbound::ms;

/// The timeout of an acknowledgement; the platform itself waits three seconds.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-callback>
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of remembered acknowledgements; an answer waits for its own.
const ACKNOWLEDGED_MAX: usize = 256;
/// The time that an answer waits for the event id of its command.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of an acknowledgement; `None` until it is known.
type Acknowledged = watch::Receiver<Option<bool>>;

/// The acknowledgements of this run, by interaction, the oldest first.
#[derive(Debug, Default)]
pub struct Acknowledgements(Mutex<VecDeque<(String, Acknowledged)>>);

impl Acknowledgements {
    fn list(&self) -> MutexGuard<'_, VecDeque<(String, Acknowledged)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an acknowledgement that starts.
    fn begin(&self, interaction: &str) -> watch::Sender<Option<bool>> {
        let (tell, told) = watch::channel(None);
        let mut list = self.list();
        list.retain(|(known, _)| known != interaction);
        list.push_back((interaction.to_owned(), told));
        while list.len() > ACKNOWLEDGED_MAX {
            list.pop_front();
        }
        tell
    }

    /// Waits for the end of an acknowledgement; returns `false` if the interaction accepts
    /// no answer. An acknowledgement of an earlier run may have succeeded.
    async fn end_of(&self, interaction: &str) -> bool {
        let known = self.list().iter().find(|(known, _)| known == interaction).map(|(_, told)| told.clone());
        let Some(mut told) = known else { return true };
        // The task was cancelled; only the platform knows the result.
        told.wait_for(Option::is_some).await.map_or(true, |told| *told != Some(false))
    }
}

impl Connection {
    /// Inspects an event when it is received; the returned future acknowledges it.
    pub fn hear_ahead(&self, dispatch: &Dispatch) -> Option<BoxFuture<'_, ()>> {
        match dispatch.name.as_str() {
            "MESSAGE_CREATE" => {
                self.hear_echo(dispatch);
                None
            }
            "INTERACTION_CREATE" => {
                let interaction = understood::<Interaction>(dispatch).filter(inbound::is_ours)?;
                let tell = self.acknowledgements.begin(&interaction.id);
                let acknowledging = async move {
                    let done = timeout(ACKNOWLEDGE_TIMEOUT, self.acknowledge(&interaction)).await;
                    tell.send_replace(Some(done.unwrap_or(false)));
                };
                Some(acknowledging.boxed())
            }
            _ => None,
        }
    }

    /// Records the key of the bot's own message, which the gateway repeats.
    fn hear_echo(&self, dispatch: &Dispatch) {
        let me = self.me.get().map(|me| me.id.as_str());
        let data = &dispatch.data;
        if data["author"]["id"].as_str() == me
            && let (Some(key), Some(message)) = (data["nonce"].as_str(), data["id"].as_str())
        {
            self.echoes.note(key, message);
        }
    }

    /// Emits a command or a button press; returns `true` if it became an event of the host.
    pub async fn interaction(&self, interaction: Interaction) -> Result<bool, ConnectError> {
        if !inbound::is_ours(&interaction) {
            return Ok(false);
        }
        let Some((chat, place)) = self.place_of(&interaction).await? else { return Ok(false) };
        if !self.listens_to(interaction.channel().unwrap_or_default(), &place).await? {
            return Ok(false);
        }
        let Some(mut event) = inbound::acted(&interaction, chat) else { return Ok(false) };
        self.add_roles(&mut event).await;
        if interaction.kind != inbound::COMMAND {
            self.emit(&event).await?;
            return Ok(true);
        }
        let asker = (event.chat.kind != ChatType::Dm).then(|| event.sender.id.clone());
        let coming = Coming { id: interaction.id, token: interaction.token, asker, event };
        let kept = self.change_interactions(|open| open.expect(coming.clone())).await;
        kept.map_err(|error| ConnectError::retry(format!("a command cannot be saved: {error}")))?;
        self.hand_over(coming).await?;
        Ok(true)
    }

    /// Emits a stored command, and stores the id of its event.
    async fn hand_over(&self, coming: Coming) -> Result<(), ConnectError> {
        let inbox = match self.emit(&coming.event).await? {
            Some(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => Some(inbox_id),
            _ => None,
        };
        let now_ms = self.host.now_ms();
        let kept = self.change_interactions(|open| open.arrived(&coming.id, inbox, now_ms)).await;
        self.arrivals.notify_waiters();
        // At worst the command is emitted again, and the host recognizes it.
        kept.unwrap_or_else(|error| tracing::warn!(%error, "command that was handed over cannot be removed"));
        Ok(())
    }

    /// Emits the commands stored by an earlier run. Only the host knows whether it has them, and under which event id.
    pub async fn hand_over_again(&self) -> Result<(), ConnectError> {
        let coming = self.interactions.lock().await.coming();
        for coming in coming {
            self.hand_over(coming).await?;
        }
        Ok(())
    }

    /// Returns the chat of an interaction; `None` if it has no channel.
    async fn place_of(&self, interaction: &Interaction) -> Result<Option<(Chat, Place)>, ConnectError> {
        let Some(channel) = interaction.channel() else { return Ok(None) };
        let guild = interaction.guild_id.as_deref();
        let told = interaction.channel.as_ref().map(|channel| Place::of(channel, guild));
        self.chat_of(channel, guild, told).await.map(Some)
    }

    /// Acknowledges an interaction for the waiting user; returns `false` if the interaction accepts no answer.
    /// <https://docs.discord.com/developers/interactions/receiving-and-responding#create-interaction-response>
    async fn acknowledge(&self, interaction: &Interaction) -> bool {
        let Ok(Some((_, place))) = self.place_of(interaction).await else { return false };
        if !self.listens_to(interaction.channel().unwrap_or_default(), &place).await.unwrap_or(false) {
            return false;
        }
        let body = match interaction.kind {
            inbound::COMMAND if self.choice.public_answers => json!({ "type": 5 }),
            inbound::COMMAND => json!({ "type": 5, "data": { "flags": 64 } }),
            _ => json!({ "type": 6 }),
        };
        let path = format!("interactions/{}/{}/callback", interaction.id, interaction.token);
        match self.api.send::<Value>(Method::POST, &path, &body).await {
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
    pub async fn interaction_of(&self, outgoing: &Outgoing) -> Result<Option<Open>, SendOutcome> {
        let Some(inbox) = outgoing.in_reply_to else { return Ok(None) };
        let known = timeout(ARRIVAL_TIMEOUT, self.arrival(inbox, &outgoing.chat)).await;
        known.map_err(|_| {
            let why = "a command is on its way to the host, and this message may be its answer";
            SendOutcome::not_sent(Some(ms(ARRIVAL_TIMEOUT)), WaitScope::Chat, why)
        })?;
        let Some(open) = self.interactions.lock().await.of_event(inbox, self.host.now_ms()) else { return Ok(None) };
        if self.acknowledgements.end_of(&open.id).await {
            return Ok(Some(open));
        }
        self.forget_interaction(inbox).await;
        Ok(None)
    }

    /// Waits while the event `inbox` may be a command without a known event id.
    async fn arrival(&self, inbox: i64, chat: &Chat) {
        loop {
            let mut arrived = std::pin::pin!(self.arrivals.notified());
            arrived.as_mut().enable();
            if !self.interactions.lock().await.may_be_coming(inbox, chat) {
                return;
            }
            arrived.await;
        }
    }

    /// Removes an interaction that accepts no answers.
    pub async fn forget_interaction(&self, inbox: i64) {
        self.note_interaction(|open| open.forget(inbox)).await;
    }

    /// Changes the stored interactions. The lock is never held during a call to the platform.
    async fn change_interactions(&self, change: impl FnOnce(&mut Interactions)) -> Result<(), CallError> {
        let mut open = self.interactions.lock().await;
        change(&mut open);
        self.host.kv().set(interactions::KEPT_AS, &open.written()).await
    }

    /// Does the same and only logs a failed write, which costs at most a private answer.
    pub async fn note_interaction(&self, change: impl FnOnce(&mut Interactions)) {
        if let Err(error) = self.change_interactions(change).await {
            tracing::warn!(%error, "open interactions cannot be saved");
        }
    }
}

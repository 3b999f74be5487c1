//! Commands and presses: acknowledged when they are read, handed over when their turn comes.
//!
//! The platform waits three seconds for an acknowledgement, and what stands before an event may take longer. That is
//! no loss: as long as the host has not got the event, the session's number stands before it, and it is told again.

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
use crate::connection::{Connection, understood};
use crate::gateway::Dispatch;
use crate::inbound;
use crate::interactions::{self, Coming, Interactions, Open};
use crate::outbound::ms;
use crate::places::Place;

/// How long an acknowledgement may take; the platform itself waits three seconds for it.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-callback>
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Acknowledgements that are remembered: an answer waits for its own.
const ACKNOWLEDGED_MAX: usize = 256;
/// How long an answer waits until it is known which event a command became.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// What became of an acknowledgement, once it is known.
type Acknowledged = watch::Receiver<Option<bool>>;

/// The acknowledgements of this life, by interaction, the oldest first.
#[derive(Debug, Default)]
pub struct Acknowledgements(Mutex<VecDeque<(String, Acknowledged)>>);

impl Acknowledgements {
    fn list(&self) -> MutexGuard<'_, VecDeque<(String, Acknowledged)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One begins.
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

    /// Waits until one has ended; `false`: the interaction takes no answer. One of an earlier life may have gone well.
    async fn end_of(&self, interaction: &str) -> bool {
        let known = self.list().iter().find(|(known, _)| known == interaction).map(|(_, told)| told.clone());
        let Some(mut told) = known else { return true };
        // Whoever was to tell was cut off: the platform knows.
        told.wait_for(Option::is_some).await.map_or(true, |told| *told != Some(false))
    }
}

impl Connection {
    /// Looks at an event when it is read; what is returned acknowledges it.
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

    /// A message of this bot is told with the key that it was sent with.
    fn hear_echo(&self, dispatch: &Dispatch) {
        let me = self.me.get().map(|me| me.id.as_str());
        let data = &dispatch.data;
        if data["author"]["id"].as_str() == me
            && let (Some(key), Some(message)) = (data["nonce"].as_str(), data["id"].as_str())
        {
            self.echoes.note(key, message);
        }
    }

    /// Takes a command or a press in; `true`: it became an event of the host.
    pub async fn interaction(&self, interaction: Interaction) -> Result<bool, ConnectError> {
        if !inbound::is_ours(&interaction) {
            return Ok(false);
        }
        let Some((chat, place)) = self.place_of(&interaction).await? else { return Ok(false) };
        if !self.listens_to(interaction.channel().unwrap_or_default(), &place).await? {
            return Ok(false);
        }
        let Some(event) = inbound::acted(&interaction, chat) else { return Ok(false) };
        if interaction.kind != inbound::COMMAND {
            self.emit(&event).await?;
            return Ok(true);
        }
        let asker = (event.chat.kind != ChatType::Dm).then(|| event.sender.id.clone());
        let coming = Coming { id: interaction.id, token: interaction.token, asker, event };
        let kept = self.change_interactions(|open| open.expect(coming.clone())).await;
        kept.map_err(|error| ConnectError::retry(format!("a command could not be kept: {error}")))?;
        self.hand_over(coming).await?;
        Ok(true)
    }

    /// Hands a command over that is kept, and keeps which event it became.
    async fn hand_over(&self, coming: Coming) -> Result<(), ConnectError> {
        let inbox = match self.emit(&coming.event).await? {
            Some(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => Some(inbox_id),
            _ => None,
        };
        let now_ms = self.host.now_ms();
        let kept = self.change_interactions(|open| open.arrived(&coming.id, inbox, now_ms)).await;
        self.arrivals.notify_waiters();
        // At worst it is handed over once more, and known.
        kept.unwrap_or_else(|error| tracing::warn!(%error, "a command that is handed over stays noted"));
        Ok(())
    }

    /// Hands over what an earlier life kept: the host has it or not, and only the host knows as which event.
    pub async fn hand_over_again(&self) -> Result<(), ConnectError> {
        let coming = self.interactions.lock().await.coming();
        for coming in coming {
            self.hand_over(coming).await?;
        }
        Ok(())
    }

    /// Where an interaction happened; `None`: nowhere.
    async fn place_of(&self, interaction: &Interaction) -> Result<Option<(Chat, Place)>, ConnectError> {
        let Some(channel) = interaction.channel() else { return Ok(None) };
        let guild = interaction.guild_id.as_deref();
        let told = interaction.channel.as_ref().map(|channel| Place::of(channel, guild));
        self.chat_of(channel, guild, told).await.map(Some)
    }

    /// Ends the wait of whoever pressed or commanded; `false`: the interaction takes no answer.
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
            // It was acknowledged before the link was lost.
            Err(error) if error.code() == Some(40060) => true,
            Err(error) => {
                tracing::debug!(%error, "an interaction was not acknowledged");
                false
            }
        }
    }

    /// The interaction that an answer goes to, once it is acknowledged; one that takes none is forgotten.
    ///
    /// # Errors
    ///
    /// Nobody knows yet whether the answer is for one person only.
    pub async fn interaction_of(&self, outgoing: &Outgoing) -> Result<Option<Open>, SendOutcome> {
        let Some(inbox) = outgoing.in_reply_to else { return Ok(None) };
        let known = timeout(ARRIVAL_TIMEOUT, self.arrival(inbox, &outgoing.chat)).await;
        known.map_err(|_| {
            let why = "a command is on its way to the host, and this may be the answer to it";
            SendOutcome::not_sent(Some(ms(ARRIVAL_TIMEOUT)), WaitScope::Chat, why)
        })?;
        let Some(open) = self.interactions.lock().await.of_event(inbox, self.host.now_ms()) else { return Ok(None) };
        if self.acknowledgements.end_of(&open.id).await {
            return Ok(Some(open));
        }
        self.forget_interaction(inbox).await;
        Ok(None)
    }

    /// Waits while the event `inbox` may be a command of which that is not known yet.
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

    /// The interaction takes no answer any more.
    pub async fn forget_interaction(&self, inbox: i64) {
        self.note_interaction(|open| open.forget(inbox)).await;
    }

    /// Changes what is known of interactions, and keeps it for another life. Nothing is asked of the platform meanwhile.
    async fn change_interactions(&self, change: impl FnOnce(&mut Interactions)) -> Result<(), CallError> {
        let mut open = self.interactions.lock().await;
        change(&mut open);
        self.host.kv().set(interactions::KEPT_AS, &open.written()).await
    }

    /// The same where it is no harm if it is not kept: a token that is lost costs a private answer, no more.
    pub async fn note_interaction(&self, change: impl FnOnce(&mut Interactions)) {
        if let Err(error) = self.change_interactions(change).await {
            tracing::warn!(%error, "interactions that can be answered are not kept");
        }
    }
}

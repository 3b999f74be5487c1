//! The link: the client and the account of one bot, and the processing of its updates.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::api::{Api, ApiError};
use crate::errors::{connect_error, invalid_token};
use crate::forums::Forums;
use crate::inbound::{self, Incoming};
use crate::objects::{Message, Update, User};
use crate::updates::update_id;

/// The maximum number of repeats of an event for which the host had no room.
const BUSY_REPEATS_MAX: u32 = 20;
/// The pause before such a repeat.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of button presses being acknowledged at the same time; further ones are not acknowledged.
const ACKNOWLEDGEMENTS_MAX: usize = 16;
/// The timeout of an acknowledgement.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a raw update stored with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;

/// The link of one bot.
pub(crate) struct Connection {
    pub api: Api,
    pub host: Host,
    pub media_bytes_max: u64,
    /// The folder of a local server's files, if the host may read it.
    pub local_files: Option<PathBuf>,
    /// The known forums.
    pub forums: Forums,
    /// The bot's own account, as reported when the link was last opened.
    me: Mutex<Option<Arc<User>>>,
    acknowledgement_permits: Arc<Semaphore>,
}

impl Connection {
    /// Creates the link, without a connection.
    pub(crate) fn new(api: Api, host: Host, media_bytes_max: u64, local_files: Option<PathBuf>) -> Self {
        Self {
            api,
            host,
            media_bytes_max,
            local_files,
            forums: Forums::default(),
            me: Mutex::default(),
            acknowledgement_permits: Arc::new(Semaphore::new(ACKNOWLEDGEMENTS_MAX)),
        }
    }

    /// Requests the bot's own account, and locks it for this instance.
    pub(crate) async fn authenticate(&self) -> Result<User, ConnectError> {
        let me: User = self.api.call("getMe", &json!({})).await.map_err(|error| match error {
            // Only this 404 is about the token, because every server has `getMe`.
            ApiError::Refused(refused) if refused.code == 404 => invalid_token(&refused),
            error => connect_error(&error),
        })?;
        self.host.lock_credential(&format!("telegram:{}", me.id)).await.map_err(|error| {
            ConnectError::not_locked(&error, "use a separate bot for each instance, or stop the other one")
        })?;
        Ok(me)
    }

    /// Reports the open link. A token always belongs to the same bot, but the name of the bot may change.
    pub(crate) fn set_online(&self, me: User) {
        self.host.proved();
        self.host.announce(format!("@{}", me.username.as_deref().unwrap_or("bot")), "");
        *self.me.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(me));
    }

    /// Returns the bot's own account.
    pub(crate) fn me(&self) -> Result<Arc<User>, ConnectError> {
        let me = self.me.lock().unwrap_or_else(PoisonError::into_inner).clone();
        me.ok_or_else(|| ConnectError::retry("the instance is not connected"))
    }

    /// Emits an event; repeats it for a while if the host has too many calls of this instance.
    async fn emit(&self, event: &Event) -> Result<Emitted, CallError> {
        for _ in 0..BUSY_REPEATS_MAX {
            match self.host.emit(event).await {
                Err(error) if error.code == "busy" => sleep(BUSY_PAUSE).await,
                result => return result,
            }
        }
        self.host.emit(event).await
    }

    /// Emits the event of one update, or of the updates of one album.
    pub(crate) async fn process(&self, group: &[Value], me: &User) -> Result<(), ConnectError> {
        let updates: Vec<Update> = group
            .iter()
            .filter_map(|update| {
                // An invalid update does not block the others.
                serde_json::from_value(update.clone())
                    .inspect_err(
                        |error| tracing::warn!(update_id = update_id(update), %error, "update cannot be parsed"),
                    )
                    .ok()
            })
            .collect();
        self.forums.record(updates.iter().find_map(inbound::forum));
        let incoming = match updates.as_slice() {
            [] => None,
            [update] => inbound::from_update(update, me),
            updates => {
                let messages: Vec<Message> = updates
                    .iter()
                    .filter_map(|update| update.message.clone().or_else(|| update.channel_post.clone()))
                    .collect();
                inbound::from_album(&messages, me)
            }
        };
        let Some(Incoming { mut event, callback }) = incoming else { return Ok(()) };
        if let [update] = group {
            if update.to_string().len() <= RAW_BYTES_MAX {
                event.raw = update.clone();
            }
        }
        match self.emit(&event).await {
            Ok(_) => {}
            // The host will never accept this event, and later updates must not be blocked.
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(update_id = group.first().and_then(update_id), %error, "update skipped");
            }
            Err(error) => return Err(ConnectError::retry(format!("the host rejected an event: {error}"))),
        }
        if let Some(callback) = callback {
            self.acknowledge(callback);
        }
        Ok(())
    }

    /// Ends the progress indicator on a button, in the background, because no other step depends on it.
    fn acknowledge(&self, callback: String) {
        let Ok(permit) = Arc::clone(&self.acknowledgement_permits).try_acquire_owned() else { return };
        let api = self.api.clone();
        self.host.spawn(async move {
            let query = json!({ "callback_query_id": callback });
            if let Err(error) = api.call_within::<Value>("answerCallbackQuery", &query, ACKNOWLEDGE_TIMEOUT).await {
                tracing::debug!(%error, "button press cannot be acknowledged");
            }
            drop(permit);
        });
    }
}

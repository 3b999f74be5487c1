//! The receiver of deliveries: it emits the event, and acknowledges the delivery after the host has accepted it.
//!
//! Slack repeats a delivery without acknowledgement within three seconds. The event id identifies the change
//! instead of the delivery, so no change is lost or counted twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::account::Account;
use crate::channel_queues::{self, ChannelQueues};
use crate::chats;
use crate::config::Config;
use crate::context::{ReadContext, ThreadSettings};
use crate::delivery::{Delivery, DeliveryKind};
use crate::inbound;
use crate::payload::texts;
use crate::slash_command;
use crate::text;
use crate::workspace::Workspace;

/// The maximum number of mentioned users whose names are requested per text.
const MENTIONS_MAX: usize = 20;
/// The maximum number of remembered changes that were emitted.
const RECENT_MAX: usize = 512;

/// A receiver of deliveries.
pub(crate) struct Receiver {
    account: Arc<Account>,
    host: Host,
    threads: ThreadSettings,
    slash_command: String,
    /// The ids of the channels to listen to; empty: all.
    allowed_channels: Vec<String>,
    recent: Mutex<VecDeque<String>>,
}

impl Receiver {
    /// Creates a receiver without remembered changes.
    pub(crate) fn new(account: Arc<Account>, host: Host, config: &Config) -> Self {
        Self {
            account,
            host,
            threads: config.threads(),
            slash_command: config.slash_command.clone(),
            allowed_channels: config.allowed_channels.clone(),
            recent: Mutex::default(),
        }
    }

    /// Returns whether the app listens to the channel; direct messages are always included.
    fn is_allowed(&self, chat: &Chat) -> bool {
        let is_listed = |name: &String| *name == chat.id || chat.parent.as_ref() == Some(name);
        self.allowed_channels.is_empty() || chat.kind == ChatType::Dm || self.allowed_channels.iter().any(is_listed)
    }

    /// Creates the queues, and the future that processes them.
    pub(crate) fn open(&self) -> (ChannelQueues, BoxFuture<'_, Result<(), ConnectError>>) {
        let (queues, deliveries) = ChannelQueues::new();
        (queues, channel_queues::process_all(deliveries, |delivery| self.process(delivery)).boxed())
    }

    /// Converts one delivery, emits the event and acknowledges the delivery.
    async fn process(&self, delivery: Delivery) -> Result<(), ConnectError> {
        let Delivery { kind, payload, ack } = delivery;
        if payload["type"] == "app_rate_limited" {
            // <https://docs.slack.dev/reference/events/app_rate_limited>
            tracing::warn!(
                team = payload["team_id"].as_str(),
                "Slack limits the events of a workspace for a while because of their rate; add the app to fewer channels"
            );
            ack.send().await;
            return Ok(());
        }
        let Some(workspace) = self.account.workspace_of(&payload) else {
            tracing::warn!("delivery skipped: `bot_token` contains no token of its workspace");
            ack.send().await;
            return Ok(());
        };
        let event = match kind {
            DeliveryKind::Event => self.read_event(&payload, &workspace, &BTreeMap::new()),
            DeliveryKind::SlashCommand => self.read_slash(&payload, &workspace).await,
            DeliveryKind::Button => inbound::from_button(&payload, &workspace.me),
        };
        let event = event.filter(|event| self.is_allowed(&event.chat) && !self.is_recent(&event.event_id));
        let Some(mut event) = event else {
            ack.send().await;
            return Ok(());
        };
        let key = event.event_id.clone();
        let response_url =
            payload["response_url"].as_str().filter(|_| kind == DeliveryKind::SlashCommand).map(str::to_owned);
        let users = self.mentioned_users(&payload, &workspace, kind);
        let names = self.add_names(&workspace, &mut event, &users).await;
        if !users.is_empty() {
            if let Some(named) = self.read_event(&payload, &workspace, &names) {
                event.text = named.text;
            }
        }
        match self.host.emit(&event).await {
            Ok(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => {
                if let Some(url) = response_url {
                    self.account.response_urls.insert(inbox_id, &url, self.host.now_ms());
                }
            }
            Ok(_) => {}
            // The host will never accept this event, and Slack would repeat it forever.
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(event_id = key, %error, "delivery skipped");
            }
            Err(error) => return Err(ConnectError::retry(format!("the host rejected an event: {error}"))),
        }
        self.record_recent(key);
        ack.send().await;
        Ok(())
    }

    fn read_event(&self, payload: &Value, workspace: &Workspace, names: &BTreeMap<String, String>) -> Option<Event> {
        if self.account.is_own(payload) {
            return None;
        }
        inbound::from_event(payload, ReadContext { me: &workspace.me, threads: self.threads, names })
    }

    /// Returns the users mentioned in the text of an event.
    fn mentioned_users(&self, payload: &Value, workspace: &Workspace, kind: DeliveryKind) -> Vec<String> {
        let texts = texts(payload).into_iter().filter(|_| kind == DeliveryKind::Event);
        texts
            .flat_map(|text| text::mentioned_users(text, &workspace.me.user_id))
            .take(MENTIONS_MAX)
            .map(str::to_owned)
            .collect()
    }

    /// Converts a slash command. The configured command contains a command of the host or a text for the agent;
    /// any other one is itself the command.
    async fn read_slash(&self, payload: &Value, workspace: &Workspace) -> Option<Event> {
        let commands = self.commands().await;
        let names = BTreeMap::new();
        let context = ReadContext { me: &workspace.me, threads: self.threads, names: &names };
        inbound::from_slash_command(payload, context, self.host.now_ms(), |command| {
            slash_command::meaning(command, &self.slash_command, commands.as_deref())
        })
    }

    /// Returns the names of the host's commands; `None` if the host does not report them.
    async fn commands(&self) -> Option<Vec<String>> {
        let commands: Vec<CommandInfo> = self.host.call("commands.list", &json!({})).await.ok()?;
        Some(commands.into_iter().map(|command| command.name).collect())
    }

    /// Adds the names of the sender and the channel; returns the names of the others. One
    /// deadline applies to all requests.
    async fn add_names(&self, workspace: &Workspace, event: &mut Event, others: &[String]) -> BTreeMap<String, String> {
        let sender = Some(&event.sender.id).filter(|_| event.sender.name.is_none());
        let users = others.iter().chain(sender).map(String::as_str);
        let channel = chats::split_id(&event.chat.id).1;
        let channel = async {
            match event.chat.kind {
                ChatType::Dm => None,
                _ => self.account.names.channel(&self.account.api, workspace, channel).await,
            }
        };
        let (names, channel) = tokio::join!(self.account.names.users(&self.account.api, workspace, users), channel);
        event.chat.name = channel;
        if event.sender.name.is_none() {
            event.sender.name = names.get(&event.sender.id).cloned();
        }
        names
    }

    /// Returns whether a change was emitted already.
    fn is_recent(&self, key: &str) -> bool {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|recent| recent == key)
    }

    /// Records that the host has accepted a change.
    fn record_recent(&self, key: String) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(key);
        while recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }
}

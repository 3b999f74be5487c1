//! The receiver of deliveries: it emits the event, and acknowledges the delivery after the host has accepted it.
//!
//! Slack repeats a delivery without acknowledgement within three seconds. The event id identifies the change
//! instead of the delivery, so no change is lost or counted twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::Config;
use crate::account::{Account, Space};
use crate::channel_queues::{self, Delivery, Kind, Lanes};
use crate::inbound::{self, Reader, Slash, Threads};
use crate::text;

/// The maximum number of mentioned users whose names are requested per text.
const MENTIONS_MAX: usize = 20;
/// The maximum number of remembered changes that were emitted.
const RECENT_MAX: usize = 512;

/// A receiver of deliveries.
pub struct Receiver {
    pub account: Arc<Account>,
    pub host: Host,
    pub threads: Threads,
    pub slash_command: String,
    /// The ids of the channels to listen to; empty: all.
    pub allowed_channels: Vec<String>,
    recent: Mutex<VecDeque<String>>,
}

impl Receiver {
    /// Creates a receiver without remembered changes.
    pub fn new(account: Arc<Account>, host: Host, config: &Config) -> Self {
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
        let is_named = |name: &String| *name == chat.id || chat.parent.as_ref() == Some(name);
        self.allowed_channels.is_empty() || chat.kind == ChatType::Dm || self.allowed_channels.iter().any(is_named)
    }

    /// Creates the queues, and the future that processes them.
    pub fn open(&self) -> (Lanes, BoxFuture<'_, Result<(), ConnectError>>) {
        let (lanes, from) = Lanes::new();
        (lanes, channel_queues::work(from, |delivery| self.take(delivery)).boxed())
    }

    /// Converts one delivery, emits the event and acknowledges the delivery.
    async fn take(&self, delivery: Delivery) -> Result<(), ConnectError> {
        let Delivery { kind, payload, ack } = delivery;
        if payload["type"] == "app_rate_limited" {
            // <https://docs.slack.dev/reference/events/app_rate_limited>
            tracing::warn!(
                team = payload["team_id"].as_str(),
                "Slack limits the events of a workspace for a while because of their rate; add the app to fewer channels"
            );
            ack.say().await;
            return Ok(());
        }
        let Some(space) = self.account.space_of(&payload) else {
            tracing::warn!("delivery skipped: `bot_token` contains no token of its workspace");
            ack.say().await;
            return Ok(());
        };
        let read = match kind {
            Kind::Event => self.read_event(&payload, &space, &BTreeMap::new()),
            Kind::Slash => self.read_slash(&payload, &space).await,
            Kind::Interactive => inbound::pressed(&payload, &space.me),
        };
        let read = read.filter(|event| self.is_allowed(&event.chat) && !self.is_known(&event.event_id));
        let Some(mut event) = read else {
            ack.say().await;
            return Ok(());
        };
        let key = event.event_id.clone();
        let response_url = payload["response_url"].as_str().filter(|_| kind == Kind::Slash).map(str::to_owned);
        let users = self.mentioned(&payload, &space, kind);
        let names = self.add_names(&space, &mut event, &users).await;
        if !users.is_empty() {
            if let Some(named) = self.read_event(&payload, &space, &names) {
                event.text = named.text;
            }
        }
        match self.host.emit(&event).await {
            Ok(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => {
                if let Some(url) = response_url {
                    self.account.note_command(inbox_id, &url, self.host.now_ms());
                }
            }
            Ok(_) => {}
            // The host will never accept this event, and Slack would repeat it forever.
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(event_id = key, %error, "delivery skipped");
            }
            Err(error) => return Err(ConnectError::retry(format!("the host rejected an event: {error}"))),
        }
        self.done(key);
        ack.say().await;
        Ok(())
    }

    fn read_event(&self, payload: &Value, space: &Space, names: &BTreeMap<String, String>) -> Option<Event> {
        if self.account.is_own(payload) {
            return None;
        }
        inbound::event(payload, Reader { me: &space.me, threads: self.threads, names })
    }

    /// Returns the users mentioned in the text of an event.
    fn mentioned(&self, payload: &Value, space: &Space, kind: Kind) -> Vec<String> {
        let texts = inbound::texts(payload).into_iter().filter(|_| kind == Kind::Event);
        texts.flat_map(|said| text::mentioned(said, &space.me.user_id)).take(MENTIONS_MAX).map(str::to_owned).collect()
    }

    /// Converts a slash command. The configured command contains a command of the host or a text for the agent;
    /// any other one is itself the command.
    async fn read_slash(&self, payload: &Value, space: &Space) -> Option<Event> {
        let commands = self.commands().await;
        let names = BTreeMap::new();
        let reader = Reader { me: &space.me, threads: self.threads, names: &names };
        inbound::slash(payload, reader, self.host.now_ms(), |slash| {
            meant(slash, &self.slash_command, commands.as_deref())
        })
    }

    /// Returns the names of the host's commands; `None` if the host does not report them.
    async fn commands(&self) -> Option<Vec<String>> {
        let found: Vec<CommandInfo> = self.host.call("commands.list", &json!({})).await.ok()?;
        Some(found.into_iter().map(|command| command.name).collect())
    }

    /// Adds the names of the sender and the channel; returns the names of the others. One
    /// deadline applies to all requests.
    async fn add_names(&self, space: &Space, event: &mut Event, others: &[String]) -> BTreeMap<String, String> {
        let sender = Some(&event.sender.id).filter(|_| event.sender.name.is_none());
        let users = others.iter().chain(sender).map(String::as_str);
        let channel = inbound::place(&event.chat.id).1;
        let channel = async {
            match event.chat.kind {
                ChatType::Dm => None,
                _ => self.account.channel_name(space, channel).await,
            }
        };
        let (names, channel) = tokio::join!(self.account.user_names(space, users), channel);
        event.chat.name = channel;
        if event.sender.name.is_none() {
            event.sender.name = names.get(&event.sender.id).cloned();
        }
        names
    }

    /// Returns whether a change was emitted already.
    fn is_known(&self, key: &str) -> bool {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|known| known == key)
    }

    /// Records that the host has accepted a change.
    fn done(&self, key: String) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(key);
        while recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }
}

/// Returns the meaning of a slash command.
fn meant(slash: &Slash, own: &str, commands: Option<&[String]>) -> String {
    if !slash.command.eq_ignore_ascii_case(own) {
        return format!("{} {}", slash.command, slash.text).trim().to_owned();
    }
    let text = slash.text.strip_prefix(['/', '!']).unwrap_or(&slash.text);
    if text.is_empty() {
        return "/help".to_owned();
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_marked = text.len() < slash.text.len();
    let is_known = commands.is_none_or(|commands| commands.iter().any(|name| name.eq_ignore_ascii_case(first)));
    if is_marked || is_known { format!("/{text}") } else { slash.text.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_slash_command_says_a_command_or_words() {
        let commands = ["status".to_owned(), "new".to_owned()];
        let say = |command: &str, text: &str| {
            let slash = Slash { command: command.to_owned(), text: text.to_owned() };
            meant(&slash, "/hermes", Some(&commands))
        };
        assert_eq!(say("/hermes", ""), "/help");
        assert_eq!(say("/hermes", "status now"), "/status now");
        assert_eq!(say("/Hermes", "/n"), "/n", "an alias is in no menu");
        assert_eq!(say("/hermes", "!new"), "/new");
        assert_eq!(say("/hermes", "what is new"), "what is new");
        assert_eq!(say("/new", "about boats"), "/new about boats");
        let slash = Slash { command: "/hermes".to_owned(), text: "n".to_owned() };
        assert_eq!(meant(&slash, "/hermes", None), "/n", "a host that tells no commands judges itself");
    }
}

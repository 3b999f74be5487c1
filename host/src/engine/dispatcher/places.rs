//! Chats that the host may name by itself: home channels, and the known chats.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_core::delivery::HomeSource;
use hermes_core::ids::SessionId;
use hermes_protocol::Chat;

use super::{Arrived, Dispatcher};
use crate::engine::dispatcher::drops::Note;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::targets;
use hermes_store::{Change, HomeChannelRow};

/// Time after which a chat with new events is stored again, in milliseconds, to update its rank among the known chats.
const SEEN_AGAIN_MS: i64 = 3_600_000;

/// Chats that are remembered as stored; beyond that all are forgotten and stored again.
const SEEN_MAX: usize = 8_192;

/// Shortest time between two requests for an adapter's list of chats, in milliseconds; made with its next link.
const LISTED_AGAIN_MS: i64 = 3_600_000;

/// The chats that are known to be stored.
#[derive(Default)]
pub(super) struct Seen {
    chats: BTreeMap<Key, (Names, i64)>,
    listed: BTreeMap<Arc<str>, i64>,
}

/// Instance, chat and thread.
type Key = (Arc<str>, String, Option<String>);

/// Names of a chat and of its thread.
type Names = (Option<String>, Option<String>);

impl Seen {
    /// Returns whether a chat has to be stored: it is new, has another name, or was stored long ago.
    fn is_news(&mut self, instance: &Arc<str>, chat: &Chat, now_ms: i64) -> bool {
        let key = (Arc::clone(instance), chat.id.clone(), chat.thread.clone());
        let names = (chat.name.clone(), chat.thread_name.clone());
        match self.chats.get(&key) {
            Some((known, at_ms)) if *known == names && now_ms.saturating_sub(*at_ms) < SEEN_AGAIN_MS => return false,
            Some(_) => {}
            None if self.chats.len() >= SEEN_MAX => self.chats.clear(),
            None => {}
        }
        self.chats.insert(key, (names, now_ms));
        true
    }

    /// Returns whether an adapter has to be asked for its chats.
    fn lists(&mut self, instance: &Arc<str>, now_ms: i64) -> bool {
        let due = self.listed.get(instance).is_none_or(|at| now_ms.saturating_sub(*at) >= LISTED_AGAIN_MS);
        if due {
            self.listed.insert(Arc::clone(instance), now_ms);
        }
        due
    }
}

impl Dispatcher {
    /// Stores a chat in which an admitted sender wrote, so that it can be named.
    pub(super) fn saw(&mut self, instance: &Arc<str>, chat: &Chat) {
        let seen_ms = self.host.now_ms();
        if self.seen.is_news(instance, chat, seen_ms) {
            let saw = Change::SawChat { instance: instance.to_string(), chat: chat.clone(), seen_ms };
            self.note(Note::Changes(vec![saw]));
        }
    }

    /// Asks an adapter with a link to resolve the home channel of the configuration, and to list its chats.
    pub(super) fn ask_for_places(&mut self, instance: &Arc<str>) {
        let Some(adapter) = self.host.adapter(instance) else { return };
        let configured = self.host.live().config.adapters.get(&**instance).and_then(|one| one.home_channel.clone());
        let lists = adapter.capabilities().chat_info && self.seen.lists(instance, self.host.now_ms());
        if configured.is_none() && !lists {
            return;
        }
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            if lists {
                targets::learn(&host, &adapter).await;
            }
            let Some(home) = configured else { return };
            match targets::configured_home(&host, &adapter, &home).await {
                Ok(chat) => {
                    let instance = adapter.instance().to_string();
                    host.tell(HostEvent::control(Control::Home { instance, home, chat })).await;
                }
                Err(why) => tracing::warn!(instance = %adapter.instance(), "home channel could not be resolved: {why}"),
            }
        });
    }

    /// Sets the home channel that an adapter resolved, unless the configuration has changed meanwhile.
    pub(super) fn has_home(&mut self, instance: &str, home: &hermes_config::HomeChannel, chat: Chat) {
        let configured = self.host.live().config.adapters.get(instance).and_then(|one| one.home_channel.clone());
        if configured.as_ref() == Some(home) {
            self.homes.configure(instance, Some(chat));
            self.host.show_homes(self.homes.clone());
        }
    }

    /// Resolves the home channels again after a change of the configuration.
    pub(super) fn reread_homes(&mut self) {
        let instances: Vec<Arc<str>> = self
            .host
            .adapters()
            .map(|all| all.all())
            .unwrap_or_default()
            .iter()
            .map(|one| Arc::clone(one.instance()))
            .collect();
        for instance in &instances {
            self.homes.configure(instance, None);
        }
        self.host.show_homes(self.homes.clone());
        for instance in &instances {
            if self.host.adapter(instance).is_some_and(|adapter| adapter.is_online()) {
                self.ask_for_places(instance);
            }
        }
    }

    /// `/sethome [off]`: makes this chat the home channel.
    pub(crate) fn set_home(&mut self, arrived: &Arrived, args: &str) -> (String, Vec<Change>) {
        let (instance, event) = (arrived.instance.to_string(), arrived.event.get());
        if self.host.live().config.adapters.get(&instance).is_some_and(|section| section.home_channel.is_some()) {
            let words = format!(
                "The home channel of {instance} is set by the operator (`home_channel` in [adapter.{instance}] or its \
                 variable), which takes precedence. Nothing was changed."
            );
            return (words, Vec::new());
        }
        // A thread that begins with the command itself was not chosen by anyone.
        let mut chat = event.chat.clone();
        if chat.thread.is_some() && chat.thread == event.message_id {
            (chat.thread, chat.thread_name) = (None, None);
        }
        let former = self.homes.told(&instance).filter(|(_, by)| *by == HomeSource::Chat).map(|(chat, _)| chat.clone());
        let (words, change) = match args.trim() {
            "" => {
                let row = HomeChannelRow {
                    instance: instance.clone(),
                    chat: chat.clone(),
                    set_by: format!("{instance}:{}", event.sender.id),
                    set_ms: self.host.now_ms(),
                };
                self.homes.set(&instance, Some(chat.clone()));
                let words = match former {
                    Some(former) if former == chat => "This is already the home channel.".to_owned(),
                    Some(former) => format!(
                        "This is now the home channel of {instance}; it was {} before.",
                        former.name.as_deref().unwrap_or(&former.id)
                    ),
                    None => format!("This is now the home channel of {instance}. `/sethome off` unsets it."),
                };
                (words, Change::HomeChannel(row))
            }
            "off" if former.is_none() => return (format!("{instance} has no home channel."), Vec::new()),
            "off" => {
                self.homes.set(&instance, None);
                (format!("{instance} no longer has a home channel."), Change::ForgetHomeChannel { instance })
            }
            _ => {
                return (
                    "Use `/sethome` in the chat that should be the home channel, or `/sethome off`.".to_owned(),
                    Vec::new(),
                );
            }
        };
        self.host.show_homes(self.homes.clone());
        (words, vec![change])
    }

    /// Returns the session of a chat and thread, if there is exactly one.
    pub(super) fn session_of(&self, instance: &str, chat: &Chat) -> Option<SessionId> {
        let here = || self.routes.iter().filter(|route| route.instance == instance && route.origin == *chat);
        let first = here().next()?;
        // A shared route belongs to everybody, whatever other routes there are.
        let one = here().find(|route| route.shared);
        let one = one.or_else(|| here().all(|route| route.session == first.session).then_some(first));
        one.map(|route| route.session.clone())
    }
}

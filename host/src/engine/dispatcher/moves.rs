//! Chats that become reachable again or continue under another id.

use hermes_core::routes::Route;
use hermes_core::session::SessionKey;
use hermes_protocol::{Chat, Event};

use super::{Dispatcher, route};
use crate::engine::dispatcher::drops::Note;
use crate::engine::outbox::{OutboxMessage, Target};
use hermes_store::{Change, RouteRow};

/// Time after which an unreachable chat is tried again, in milliseconds: a channel in which only the agent writes never
/// sends an event, and a refusal may have been wrong.
const DEAD_MS: i64 = 30 * 60 * 1000;

impl Dispatcher {
    /// Marks a chat that sent an event as reachable.
    pub(super) fn revive(&mut self, instance: &str, chat: &Chat) {
        if self.dead.is_empty() {
            return;
        }
        if let Some(dead) = self.dead.remove(&(instance.to_owned(), chat.id.clone())) {
            self.note(Note::Changes(vec![Change::Revive { instance: dead.instance, chat: dead.chat }]));
        }
    }

    /// Returns the reason for which a chat cannot be written to, if it is known and recent.
    pub(super) fn dead_since_lately(&mut self, instance: &str, chat: &Chat) -> Option<String> {
        let key = (instance.to_owned(), chat.id.clone());
        let dead = self.dead.get(&key)?;
        if self.host.now_ms().saturating_sub(dead.since_ms) < DEAD_MS {
            return Some(dead.why.clone());
        }
        tracing::info!(instance, chat = chat.id, "retrying a chat that was unreachable");
        self.revive(instance, chat);
        None
    }

    /// Follows a chat that continues under another id. Only the platform reports that, so its cause needs no admission;
    /// a chat without a part of the agent is not followed.
    pub(super) fn follow(&mut self, instance: &str, event: &Event) {
        let Some(id) = event.migrated_to.clone().filter(|id| !id.is_empty()) else { return };
        let mut to = event.chat.clone();
        to.id = id;
        let routes = self.migrate(instance, &event.chat, &to);
        self.say_lists_that_name(instance, &event.chat.id, &to.id);
        let (instance, from) = (instance.to_owned(), event.chat.clone());
        self.note(Note::Changes(vec![Change::Migrated { instance, from, to, routes }]));
    }

    /// Returns whether the agent has a part in a chat: a conversation, the home channel, or an entry in the operator's
    /// lists.
    pub(super) fn has_part_in(&self, instance: &str, chat: &Chat) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|route| route.instance == instance && route.origin.id == chat.id)
            || self.homes.get(instance).is_some_and(|home| home.id == chat.id)
            || self.host.live().names_chat(instance, &chat.id).is_some()
    }

    /// Logs the operator's lists that name a chat by its former id.
    fn say_lists_that_name(&self, instance: &str, from: &str, to: &str) {
        if let Some(list) = self.host.live().names_chat(instance, from) {
            tracing::warn!(
                instance,
                from,
                to,
                "the chat has a new id, which is not in `{list}`; add {to} to it in plugins.toml, or messages there \
                 stay unanswered"
            );
        }
    }

    /// Moves every route of a chat to its new id; returns the old key and the new row of each. If the new chat has a
    /// conversation already, that one stays, and the moving one ends.
    pub(super) fn migrate(&mut self, instance: &str, from: &Chat, to: &Chat) -> Vec<(String, RouteRow)> {
        let now_ms = self.host.now_ms();
        let moving: Vec<Route> = self
            .routes
            .iter()
            .filter(|route| route.instance == instance && route.origin.id == from.id && route.origin.kind == from.kind)
            .cloned()
            .collect();
        let mut rows = Vec::new();
        for old in moving {
            let Some(key) = moved_key(&old, to) else { continue };
            if self.routes.has(&key) {
                self.end_moved(old);
                continue;
            }
            let mut row =
                RouteRow::new(key, &*old.profile, &*old.instance, old.session.clone(), old.origin.clone(), now_ms);
            row.origin.id.clone_from(&to.id);
            row.shared = old.shared;
            row.participates = old.participates;
            self.routes.unbind(&old.key);
            self.routes.bind(route(row.clone()));
            rows.push((old.key, row));
        }
        if self.homes.follow(instance, from, to) {
            self.host.show_homes(self.homes.clone());
        }
        self.asks.follow(instance, from, to);
        let is_chat = |target: &Target| *target.instance == *instance && target.chat == from.id;
        self.outbox.send_where(is_chat, || OutboxMessage::Moved(to.clone()));
        rows
    }
}

impl Dispatcher {
    /// Removes a route whose new key is occupied, and ends its session if no other chat leads there.
    fn end_moved(&mut self, old: Route) {
        self.routes.unbind(&old.key);
        let mut changes = vec![Change::UnbindRoute { key: old.key }];
        if self.routes.of_session(&old.session).next().is_none() {
            let session = old.session;
            tracing::info!(%session, "the chat moved to one that already has a conversation; this session ends");
            changes.push(Change::EndSession { session, reason: "moved".to_owned() });
        }
        self.note(Note::Changes(changes));
    }
}

/// Returns the key of a route after its chat moved. The rest of the key stays as it is.
fn moved_key(route: &Route, to: &Chat) -> Option<String> {
    let mut origin = route.origin.clone();
    let old = SessionKey::shared(&route.profile, &route.instance, &origin).ok()?.stored();
    origin.id.clone_from(&to.id);
    let new = SessionKey::shared(&route.profile, &route.instance, &origin).ok()?.stored();
    Some(format!("{new}{}", route.key.strip_prefix(&old)?))
}

//! Chats that come back to life or continue under another id.

use hermes_core::routes::Route;
use hermes_core::session::SessionKey;
use hermes_protocol::Chat;

use super::{Arrived, Dispatcher, route};
use crate::clerk::Note;
use crate::outbox::{OutboxMessage, Target};
use crate::store::{Change, RouteRow};

impl Dispatcher {
    /// A chat spoke: it can be written to again.
    pub(super) fn revive(&mut self, instance: &str, chat: &Chat) {
        if self.dead.is_empty() {
            return;
        }
        if let Some(dead) = self.dead.remove(&(instance.to_owned(), chat.id.clone())) {
            self.note(Note::Changes(vec![Change::Revive { instance: dead.instance, chat: dead.chat }]));
        }
    }

    /// The platform says that a chat continues under another id.
    pub(super) fn follow(&mut self, arrived: &Arrived) {
        let event = arrived.event.get();
        let Some(id) = event.migrated_to.clone().filter(|id| !id.is_empty()) else { return };
        let mut to = event.chat.clone();
        to.id = id;
        let routes = self.migrate(&arrived.instance, &event.chat, &to);
        let (instance, from) = (arrived.instance.to_string(), event.chat.clone());
        self.note(Note::Changes(vec![Change::Migrated { instance, from, to, routes }]));
    }

    /// Leads every route of a chat to its new id; returns the old key and the new row of each. Where the
    /// new place has a conversation of its own, that one stays, and the one that would have moved ends.
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
    /// Takes away a route whose new place is occupied, and ends its session if nothing else leads there.
    fn end_moved(&mut self, old: Route) {
        self.routes.unbind(&old.key);
        let mut changes = vec![Change::UnbindRoute { key: old.key }];
        if self.routes.of_session(&old.session).next().is_none() {
            let session = old.session;
            tracing::info!(%session, "the chat moved to a place that has a conversation of its own; this one ends");
            changes.push(Change::EndSession { session, reason: "moved".to_owned() });
        }
        self.note(Note::Changes(changes));
    }
}

/// The key of a route after its chat moved. What follows the place in a key is kept as it is.
fn moved_key(route: &Route, to: &Chat) -> Option<String> {
    let mut origin = route.origin.clone();
    let old = SessionKey::shared(&route.profile, &route.instance, &origin).ok()?.stored();
    origin.id.clone_from(&to.id);
    let new = SessionKey::shared(&route.profile, &route.instance, &origin).ok()?.stored();
    Some(format!("{new}{}", route.key.strip_prefix(&old)?))
}

//! Which session a conversation leads to, in memory.
//!
//! The dispatcher owns the one [`RouteTable`]; it is loaded at start and changed
//! in the same step as the row. A route that is marked `shared` was bound by a
//! handoff for everybody in its chat and thread, and is tried before the
//! participant's own key.

use std::collections::{BTreeMap, BTreeSet};

use hermes_protocol::{Chat, Sender};

use crate::ids::SessionId;
use crate::session::{KeyPolicy, NoIdentity, SessionKey};

#[cfg(test)]
mod tests;

/// One row: this conversation goes on in this session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The key, as [`SessionKey::stored`] writes it.
    pub key: String,
    /// The session it leads to.
    pub session: SessionId,
    /// The profile it belongs to.
    pub profile: String,
    /// The instance it belongs to.
    pub instance: String,
    /// Where it was opened: replies that nobody asked for go there.
    pub origin: Chat,
    /// Whether everybody in this chat and thread is in it, whatever the key policy says.
    pub shared: bool,
    /// Whether the agent takes part here, so that a thread needs no mention.
    pub participates: bool,
}

/// All routes.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    by_key: BTreeMap<String, Route>,
    /// Keys of the routes in which the agent takes part, by the shared key of their place.
    participating: BTreeMap<String, BTreeSet<String>>,
}

impl RouteTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the key under which `sender` speaks in `chat`, and where it leads.
    ///
    /// # Errors
    ///
    /// A message without any identity opens no session.
    pub fn resolve(
        &self,
        profile: &str,
        instance: &str,
        chat: &Chat,
        sender: &Sender,
        policy: KeyPolicy,
    ) -> Result<(SessionKey, Option<&Route>), NoIdentity> {
        let own = SessionKey::for_chat(profile, instance, chat, sender, policy)?;
        if let Ok(shared) = SessionKey::shared(profile, instance, chat)
            && let Some(route) = self.get(&shared)
            && route.shared
        {
            return Ok((shared, Some(route)));
        }
        let route = self.get(&own);
        Ok((own, route))
    }

    /// Returns the route of a key.
    pub fn get(&self, key: &SessionKey) -> Option<&Route> {
        self.by_key.get(&key.stored())
    }

    /// Returns the route of a stored key.
    pub fn at(&self, key: &str) -> Option<&Route> {
        self.by_key.get(key)
    }

    /// Whether a stored key leads somewhere.
    pub fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// Binds a route and returns the one that had its key.
    pub fn bind(&mut self, route: Route) -> Option<Route> {
        let former = self.unbind(&route.key);
        if route.participates
            && let Some(place) = place(&route)
        {
            self.participating.entry(place).or_default().insert(route.key.clone());
        }
        self.by_key.insert(route.key.clone(), route);
        former
    }

    /// Takes a route away, by its stored key.
    pub fn unbind(&mut self, key: &str) -> Option<Route> {
        let route = self.by_key.remove(key)?;
        if let Some(place) = place(&route)
            && let Some(keys) = self.participating.get_mut(&place)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.participating.remove(&place);
            }
        }
        Some(route)
    }

    /// Whether the agent takes part in this chat and thread, in whosever conversation.
    pub fn participates(&self, profile: &str, instance: &str, chat: &Chat) -> bool {
        SessionKey::shared(profile, instance, chat).is_ok_and(|place| self.participating.contains_key(&place.stored()))
    }

    /// Returns the routes that lead to a session, in the order of their keys.
    pub fn of_session<'a>(&'a self, session: &'a SessionId) -> impl Iterator<Item = &'a Route> {
        self.by_key.values().filter(move |route| route.session == *session)
    }

    /// Returns every route, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.by_key.values()
    }

    /// Returns how many routes there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// The shared key of the place where a route was opened.
fn place(route: &Route) -> Option<String> {
    SessionKey::shared(&route.profile, &route.instance, &route.origin).ok().map(|key| key.stored())
}

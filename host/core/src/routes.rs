//! The table that maps conversations to sessions.
//!
//! The dispatcher owns the only [`RouteTable`]. It is loaded at start and changed together with its rows. A
//! route marked `shared` was bound by a handoff for all members of its chat and thread; it takes precedence
//! over the participant's own key.
//!
//! Some platforms open a thread for each message. A handoff bound to a chat therefore also covers the threads
//! of that chat that have no conversation of their own. In a direct chat, a handoff bound to a thread also
//! covers the messages outside of the thread.

use std::collections::{BTreeMap, BTreeSet};

use hermes_protocol::{Chat, ChatType, Sender};

use crate::ids::SessionId;
use crate::session::{KeyPolicy, MissingIdentity, SessionKey, is_dm};

#[cfg(test)]
mod tests;

/// Joined threads that are remembered. A forgotten thread needs one more mention.
const JOINED_MAX: usize = 4_096;

/// One row: the session of one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Key, as written by [`SessionKey::stored`].
    pub key: String,
    /// Session of the conversation.
    pub session: SessionId,
    /// Profile of the conversation.
    pub profile: String,
    /// Instance of the conversation.
    pub instance: String,
    /// Chat in which the conversation was opened; unsolicited replies go there.
    pub origin: Chat,
    /// Covers all members of the chat and thread, regardless of the key policy.
    pub shared: bool,
    /// True if the agent takes part here, so that a thread needs no mention.
    pub participates: bool,
}

/// The table of all routes.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    by_key: BTreeMap<String, Route>,
    /// Keys of the routes in which the agent takes part, by the shared key of their place.
    participating: BTreeMap<String, BTreeSet<String>>,
    /// By the shared key of a thread whose messages go to the route of the surrounding chat: the key of that
    /// route.
    joined: BTreeMap<String, String>,
}

impl RouteTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the key under which `sender` writes in `chat`, and its route.
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
    ) -> Result<(SessionKey, Option<&Route>), MissingIdentity> {
        let own = SessionKey::for_chat(profile, instance, chat, sender, policy)?;
        if let Ok(shared) = SessionKey::shared(profile, instance, chat)
            && let Some(route) = self.shared(&shared)
        {
            return Ok((shared, Some(route)));
        }
        if let Some(route) = self.get(&own) {
            return Ok((own, Some(route)));
        }
        match self.handed_over_around(profile, instance, chat) {
            Some((key, route)) => Ok((key, Some(route))),
            None => Ok((own, None)),
        }
    }

    /// Returns the handed-over conversation around `chat`: that of the chat that contains the thread, or, in a
    /// direct chat, that of one of its threads.
    fn handed_over_around(&self, profile: &str, instance: &str, chat: &Chat) -> Option<(SessionKey, &Route)> {
        let key_of = |chat: &Chat| SessionKey::shared(profile, instance, chat).ok();
        let above = parents(chat).iter().filter_map(key_of).find_map(|key| Some((key.clone(), self.shared(&key)?)));
        if above.is_some() || !is_dm(&chat.kind) {
            return above;
        }
        let mut whole = chat.clone();
        whole.thread = None;
        let whole = key_of(&whole)?.stored();
        // Matches every key that continues with a colon; `;` is the next character.
        let threads = self.by_key.range(format!("{whole}:")..format!("{whole};"));
        // Platforms that open a thread for each message use ascending thread ids, so the latest handoff wins.
        let route = threads.map(|(_, route)| route).rfind(|route| route.shared)?;
        let key = key_of(&route.origin).filter(|key| key.stored() == route.key)?;
        Some((key, route))
    }

    /// Returns the shared route of a key.
    fn shared(&self, key: &SessionKey) -> Option<&Route> {
        self.get(key).filter(|route| route.shared)
    }

    /// Returns the route of a key.
    pub fn get(&self, key: &SessionKey) -> Option<&Route> {
        self.by_key.get(&key.stored())
    }

    /// Returns the route of a stored key.
    pub fn at(&self, key: &str) -> Option<&Route> {
        self.by_key.get(key)
    }

    /// Returns true if a stored key has a route.
    pub fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// Binds a route and returns the previous one of the same key.
    pub fn bind(&mut self, route: Route) -> Option<Route> {
        let former = self.remove(&route.key);
        if !route.shared {
            self.leave(&route.key);
        }
        if route.participates
            && let Some(place) = place(&route)
        {
            self.participating.entry(place).or_default().insert(route.key.clone());
        }
        self.by_key.insert(route.key.clone(), route);
        former
    }

    /// Removes the route of a stored key.
    pub fn unbind(&mut self, key: &str) -> Option<Route> {
        self.leave(key);
        self.remove(key)
    }

    /// Forgets the threads that were joined through a route.
    fn leave(&mut self, key: &str) {
        self.joined.retain(|_, route| route != key);
    }

    fn remove(&mut self, key: &str) -> Option<Route> {
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

    /// Returns true if the agent takes part in this chat and thread, in any conversation.
    pub fn participates(&self, profile: &str, instance: &str, chat: &Chat) -> bool {
        SessionKey::shared(profile, instance, chat).is_ok_and(|place| {
            let place = place.stored();
            self.participating.contains_key(&place) || self.joined.contains_key(&place)
        })
    }

    /// Records that the agent takes part in a thread whose messages go to the route of the surrounding chat.
    pub fn join(&mut self, profile: &str, instance: &str, chat: &Chat, route: &str) {
        let Ok(place) = SessionKey::shared(profile, instance, chat) else { return };
        if is_dm(&chat.kind) || place.stored() == route || !self.has(route) {
            return;
        }
        self.joined.insert(place.stored(), route.to_owned());
        if self.joined.len() > JOINED_MAX {
            self.joined.pop_first();
        }
    }

    /// Returns the routes of a session, in the order of their keys.
    pub fn of_session<'a>(&'a self, session: &'a SessionId) -> impl Iterator<Item = &'a Route> {
        self.by_key.values().filter(move |route| route.session == *session)
    }

    /// Returns all routes, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.by_key.values()
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns true if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// Returns the chats that may contain a thread: the same chat without its thread, and its parent chat.
fn parents(chat: &Chat) -> Vec<Chat> {
    let mut parents = Vec::new();
    if chat.thread.is_some() && chat.kind != ChatType::Thread {
        let mut whole = chat.clone();
        whole.thread = None;
        parents.push(whole);
    }
    if chat.kind == ChatType::Thread
        && let Some(parent) = &chat.parent
    {
        parents.extend([ChatType::Group, ChatType::Channel].map(|kind| Chat::new(kind, parent.clone())));
    }
    parents
}

/// Returns the shared key of the place in which a route was opened.
fn place(route: &Route) -> Option<String> {
    SessionKey::shared(&route.profile, &route.instance, &route.origin).ok().map(|key| key.stored())
}

//! Which session a conversation leads to, in memory.
//!
//! The dispatcher owns the one [`RouteTable`]; it is loaded at start and changed
//! in the same step as the row. A route that is marked `shared` was bound by a
//! handoff for everybody in its chat and thread, and is tried before the
//! participant's own key.
//!
//! Some platforms open a thread for each message. A handoff that is bound to a chat
//! therefore also has the threads of that chat that have no conversation of their
//! own, and in a direct chat a handoff that is bound to a thread has the messages
//! outside of it.

use std::collections::{BTreeMap, BTreeSet};

use hermes_protocol::{Chat, ChatType, Sender};

use crate::ids::SessionId;
use crate::session::{KeyPolicy, NoIdentity, SessionKey, is_dm};

#[cfg(test)]
mod tests;

/// Joined threads that are remembered. A thread that is forgotten needs one more mention.
const JOINED_MAX: usize = 4_096;

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
    /// The shared keys of threads whose messages go to the route of the chat around them, and the key of that route.
    joined: BTreeMap<String, String>,
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

    /// Returns the handed-over conversation of the chat around `chat`: that of the chat in which the thread lies, or
    /// in a direct chat that of one of its threads.
    fn handed_over_around(&self, profile: &str, instance: &str, chat: &Chat) -> Option<(SessionKey, &Route)> {
        let key_of = |chat: &Chat| SessionKey::shared(profile, instance, chat).ok();
        let above = parents(chat).iter().filter_map(key_of).find_map(|key| Some((key.clone(), self.shared(&key)?)));
        if above.is_some() || !is_dm(&chat.kind) {
            return above;
        }
        let mut whole = chat.clone();
        whole.thread = None;
        let whole = key_of(&whole)?.stored();
        // Every key that continues with a colon: `;` is the next character.
        let threads = self.by_key.range(format!("{whole}:")..format!("{whole};"));
        // Ids of threads ascend on the platforms that open one for each message, so the latest handoff wins.
        let route = threads.map(|(_, route)| route).rfind(|route| route.shared)?;
        let key = key_of(&route.origin).filter(|key| key.stored() == route.key)?;
        Some((key, route))
    }

    /// Returns the route of a key that everybody shares.
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

    /// Whether a stored key leads somewhere.
    pub fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// Binds a route and returns the one that had its key.
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

    /// Takes a route away, by its stored key.
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

    /// Whether the agent takes part in this chat and thread, in whosever conversation.
    pub fn participates(&self, profile: &str, instance: &str, chat: &Chat) -> bool {
        SessionKey::shared(profile, instance, chat).is_ok_and(|place| {
            let place = place.stored();
            self.participating.contains_key(&place) || self.joined.contains_key(&place)
        })
    }

    /// Notes that the agent takes part in a thread whose messages go to the route of the chat around it.
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

/// Returns the chats in which a thread may lie: the same chat without its thread, and the chat that it names as parent.
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

/// The shared key of the place where a route was opened.
fn place(route: &Route) -> Option<String> {
    SessionKey::shared(&route.profile, &route.instance, &route.origin).ok().map(|key| key.stored())
}

//! Conversations on their way from the terminal to a chat.
//!
//! * [`request`] checks what somebody asks for and writes it down; what cannot work is refused at once;
//! * [`watcher`] takes up what was asked for: woken by the request itself, at the start of the host, and every half
//!   minute. It gives up what takes too long, and lets go of what is over;
//! * [`serve`] carries one of them out: a thread in the destination's home channel, the chat bound to the session, and
//!   the event that opens the conversation there;
//! * [`wait`] tells the requester how it ended.
//!
//! The states are [`hermes_core::handoff`]; each arrow is one transaction of the store. From the request to the end
//! the session is *leased*: nothing but the handoff's own turn is added to it. The lease stands in the store, where
//! the start of a turn meets it, and here in memory, so that people are told at once.
//!
//! The handoff is over when the delivery of its turn's answer is settled, in the same transaction; nothing here waits
//! for that but those who want to know.

mod request;
mod serve;
mod wait;
mod watcher;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hermes_core::ids::{InboxId, SessionId};
use tokio::sync::{Notify, watch};

pub use request::{Asked, Refused, cancel, info, offer, request};
pub(crate) use request::{has_chat, shown};
pub use wait::until_over;
pub use watcher::{take_up, watch};

/// The sessions that are on their way.
#[derive(Debug)]
pub struct Handoffs {
    leases: ArcSwap<BTreeMap<SessionId, Lease>>,
    /// Wakes the watcher.
    wake: Notify,
    /// Changes whenever a handoff may have ended.
    changed: watch::Sender<u64>,
}

/// A session that is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Where to.
    pub instance: Arc<str>,
    /// The event that opens the conversation there, once it exists.
    pub inbox: Option<InboxId>,
    /// Whom the session belongs to, where that is known.
    pub owner: Option<String>,
    /// Whether an earlier life of the host left it: its adapter may still be on its way.
    pub is_left: bool,
}

impl Default for Handoffs {
    fn default() -> Self {
        Self { leases: ArcSwap::default(), wake: Notify::new(), changed: watch::Sender::new(0) }
    }
}

impl Handoffs {
    /// Whether a session is on its way.
    pub fn has(&self, session: &SessionId) -> bool {
        self.leases.load().contains_key(session)
    }

    /// How a session is on its way.
    pub fn lease(&self, session: &SessionId) -> Option<Lease> {
        self.leases.load().get(session).cloned()
    }

    /// What answers an event is settled, or its turn is over: where it opens a conversation in its chat, the watcher
    /// looks whether that was the end of it.
    pub fn answered(&self, inbox: Option<InboxId>) {
        let leases = self.leases.load();
        if inbox.is_some() && leases.values().any(|lease| lease.inbox == inbox) {
            self.look();
        }
    }

    /// A turn of a session is over; one that says nothing ends its handoff, too.
    pub fn turn_over(&self, session: &SessionId) {
        if self.has(session) {
            self.look();
        }
    }

    /// An instance has a link: what waits for it is looked at.
    pub fn ready(&self, instance: &str) {
        if self.leases.load().values().any(|lease| *lease.instance == *instance) {
            self.look();
        }
    }

    fn look(&self) {
        self.wake.notify_one();
    }

    /// Leases a session, unless it is; returns whether it was not.
    fn grant(&self, session: &SessionId, lease: &Lease) -> bool {
        let granted = !self.has(session);
        self.change(|leases| {
            leases.entry(session.clone()).or_insert_with(|| lease.clone());
        });
        granted
    }

    /// Says which event opens a conversation in its chat.
    fn opens_with(&self, session: &SessionId, inbox: InboxId, owner: Option<String>) {
        self.change(|leases| {
            if let Some(lease) = leases.get_mut(session) {
                lease.inbox = Some(inbox);
                lease.owner.clone_from(&owner);
            }
        });
    }

    fn let_go(&self, session: &SessionId) {
        self.change(|leases| {
            leases.remove(session);
        });
        self.changed.send_modify(|count| *count += 1);
    }

    fn sessions(&self) -> Vec<SessionId> {
        self.leases.load().keys().cloned().collect()
    }

    fn change(&self, how: impl Fn(&mut BTreeMap<SessionId, Lease>)) {
        self.leases.rcu(|leases| {
            let mut leases = BTreeMap::clone(leases);
            how(&mut leases);
            leases
        });
    }
}

/// What somebody is told who writes to a conversation that is on its way.
pub fn on_its_way(instance: &str) -> String {
    format!(
        "This conversation is just being handed over to {instance}, so nothing was added to it. Write again when it \
         is there."
    )
}

//! Handoffs: sessions that move from the terminal to a chat.
//!
//! * [`request`] checks a request and stores it. A request that cannot succeed is refused at once.
//! * [`watcher`] starts stored handoffs. A request, the start of the host and a timer of 30 seconds wake it. It also
//!   times out slow handoffs and releases the leases of finished ones.
//! * [`serve`] carries one handoff out: it opens a thread in the home channel of the destination, binds that chat to
//!   the session, and stores the event that opens the conversation there.
//! * [`wait`] reports the result to the requester.
//!
//! The states are defined in [`hermes_core::handoff`]; each transition is one transaction of the store. From the
//! request to the end the session is *leased*: only the handoff's own turn is added to it. The store holds the lease,
//! so that the start of a turn respects it, and so does this module, so that senders are notified at once.
//!
//! The transaction that settles the delivery of the turn's answer also ends the handoff. Only a requester who wants to
//! know the result waits for it here.

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

/// The leased sessions.
#[derive(Debug)]
pub struct Handoffs {
    leases: ArcSwap<BTreeMap<SessionId, Lease>>,
    /// Wakes the watcher.
    wake: Notify,
    /// Changes whenever a handoff may have ended.
    changed: watch::Sender<u64>,
}

/// The lease of a session with a handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The destination.
    pub instance: Arc<str>,
    /// The event that opens the conversation at the destination, once it exists.
    pub inbox: Option<InboxId>,
    /// The owner of the session, if known.
    pub owner: Option<String>,
    /// True if an earlier run of the host started the handoff: its adapter may still be starting.
    pub is_left: bool,
}

impl Default for Handoffs {
    fn default() -> Self {
        Self { leases: ArcSwap::default(), wake: Notify::new(), changed: watch::Sender::new(0) }
    }
}

impl Handoffs {
    /// Returns whether a session is leased.
    pub fn has(&self, session: &SessionId) -> bool {
        self.leases.load().contains_key(session)
    }

    /// Returns the lease of a session.
    pub fn lease(&self, session: &SessionId) -> Option<Lease> {
        self.leases.load().get(session).cloned()
    }

    /// Wakes the watcher if `inbox` opens a conversation at its destination: the answer to that event is settled or its
    /// turn has ended, so the handoff may be over.
    pub fn answered(&self, inbox: Option<InboxId>) {
        let leases = self.leases.load();
        if inbox.is_some() && leases.values().any(|lease| lease.inbox == inbox) {
            self.look();
        }
    }

    /// Wakes the watcher after a turn of a leased session; a turn without an answer ends the handoff, too.
    pub fn turn_over(&self, session: &SessionId) {
        if self.has(session) {
            self.look();
        }
    }

    /// Wakes the watcher if a handoff waits for this instance, which has a link again.
    pub fn ready(&self, instance: &str) {
        if self.leases.load().values().any(|lease| *lease.instance == *instance) {
            self.look();
        }
    }

    fn look(&self) {
        self.wake.notify_one();
    }

    /// Leases a session unless it is leased; returns whether the lease is new.
    fn grant(&self, session: &SessionId, lease: &Lease) -> bool {
        let granted = !self.has(session);
        self.change(|leases| {
            leases.entry(session.clone()).or_insert_with(|| lease.clone());
        });
        granted
    }

    /// Notes the event that opens a conversation at its destination.
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

/// Returns the reply to a sender who writes to a session during its handoff.
pub fn on_its_way(instance: &str) -> String {
    format!(
        "A handoff of this conversation to {instance} is in progress, so your message was not added. Please send it \
         again there."
    )
}

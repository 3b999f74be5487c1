//! What all requests of one instance share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::sync::{Semaphore, watch};

use crate::Config;
use crate::door::Key;
use crate::inbound::Instructed;
use crate::kept::Kept;
use crate::turn::Turn;

/// Ended requests that are remembered, so that a repeated send gets the same outcome.
const SETTLED_MAX: usize = 1024;

/// What all requests of one instance share.
pub struct Server {
    /// The host.
    pub host: Host,
    /// What the operator wrote.
    pub config: Config,
    /// The key, once it is known.
    pub key: OnceLock<Key>,
    /// Whether only this machine can reach the listener.
    pub on_loopback: OnceLock<bool>,
    /// How many more requests may wait for answers.
    pub room: Arc<Semaphore>,
    /// Answers under their idempotency keys.
    pub kept: Kept,
    /// What clients told conversations how to be.
    pub instructed: Instructed,
    open: Mutex<Open>,
    /// Told when a request gets its inbox id, or will never get one.
    opened: watch::Sender<()>,
}

#[derive(Default)]
struct Open {
    by_event: BTreeMap<String, Arc<Turn>>,
    by_inbox: BTreeMap<i64, Arc<Turn>>,
    /// Requests whose event the host has not confirmed yet.
    opening: usize,
    /// How requests ended: whether the host's reply was taken.
    settled: VecDeque<(i64, bool)>,
}

/// Which request a word of the host belongs to.
pub enum Found {
    /// It is open.
    Open(Arc<Turn>),
    /// It is over.
    Settled {
        /// Whether somebody has the host's reply.
        taken: bool,
    },
    /// There is none.
    None,
}

impl Server {
    /// A server without open requests.
    pub fn new(config: Config, host: Host) -> Self {
        Self {
            // What is out of range is refused on connect; this only must not panic before.
            room: Arc::new(Semaphore::new(config.requests_max.min(Semaphore::MAX_PERMITS))),
            kept: Kept::default(),
            instructed: Instructed::default(),
            key: OnceLock::new(),
            on_loopback: OnceLock::new(),
            open: Mutex::default(),
            opened: watch::Sender::new(()),
            host,
            config,
        }
    }

    /// The longest a request may take.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.config.request_timeout_s)
    }

    /// The open request with this event, or the one that `make` makes; `true` when it is new.
    pub fn enter(&self, event_id: &str, make: impl FnOnce() -> Turn) -> (Arc<Turn>, bool) {
        let mut open = self.lock();
        if let Some(turn) = open.by_event.get(event_id) {
            return (Arc::clone(turn), false);
        }
        let turn = Arc::new(make());
        open.by_event.insert(event_id.to_owned(), Arc::clone(&turn));
        open.opening += 1;
        (turn, true)
    }

    /// The host has confirmed the event of `turn`, or will not.
    pub fn confirmed(&self, turn: &Arc<Turn>, inbox_id: Option<i64>) {
        let mut open = self.lock();
        open.opening = open.opening.saturating_sub(1);
        if let Some(inbox_id) = inbox_id {
            open.by_inbox.insert(inbox_id, Arc::clone(turn));
        }
        drop(open);
        self.opened.send_replace(());
    }

    /// Nobody waits for `turn` any more.
    pub fn leave(&self, turn: &Turn, taken: bool) {
        let mut open = self.lock();
        open.by_event.remove(turn.event_id());
        if let Some(inbox_id) = turn.inbox_id() {
            open.by_inbox.remove(&inbox_id);
            open.settled.push_back((inbox_id, taken));
            if open.settled.len() > SETTLED_MAX {
                open.settled.pop_front();
            }
        }
    }

    /// Finds the request that event `inbox_id` came from. The host may answer before
    /// it has told us the id; then this waits until every open question of that kind is settled.
    pub async fn find(&self, inbox_id: i64) -> Found {
        let mut opened = self.opened.subscribe();
        loop {
            opened.borrow_and_update();
            {
                let open = self.lock();
                if let Some(turn) = open.by_inbox.get(&inbox_id) {
                    return Found::Open(Arc::clone(turn));
                }
                if let Some((_, taken)) = open.settled.iter().rev().find(|(id, _)| *id == inbox_id) {
                    return Found::Settled { taken: *taken };
                }
                if open.opening == 0 {
                    return Found::None;
                }
            }
            if opened.changed().await.is_err() {
                return Found::None;
            }
        }
    }

    /// The open requests of a chat.
    pub fn in_chat(&self, chat: &Chat) -> Vec<Arc<Turn>> {
        self.lock().by_inbox.values().filter(|turn| turn.chat() == chat).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

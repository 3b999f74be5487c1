//! The shared state of all requests of an instance.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::sync::{Semaphore, watch};

use crate::Config;
use crate::answers::AnswerStore;
use crate::instructions::Instructed;
use crate::key::Key;
use crate::open_request::Turn;

/// The maximum number of remembered ended requests; a repeated send gets the same outcome.
const SETTLED_MAX: usize = 1024;

/// The shared state of all requests of an instance.
pub struct Server {
    pub host: Host,
    /// The configuration.
    pub config: Config,
    /// The API key, after the first connect.
    pub key: OnceLock<Key>,
    /// True if only this machine can reach the listener.
    pub on_loopback: OnceLock<bool>,
    /// Permits for requests that wait for answers.
    pub room: Arc<Semaphore>,
    /// The answers stored under their idempotency keys.
    pub answers: AnswerStore,
    /// The instructions that conversations have received from clients.
    pub instructed: Instructed,
    open: Mutex<Open>,
    /// Notified when a request gets its `inbox_id`, or certainly gets none.
    opened: watch::Sender<()>,
}

#[derive(Default)]
struct Open {
    by_event: BTreeMap<String, Arc<Turn>>,
    by_inbox: BTreeMap<i64, Arc<Turn>>,
    /// The number of requests whose event the host has not confirmed yet.
    opening: usize,
    /// The results of ended requests: the `inbox_id`, and whether the host's reply was read.
    settled: VecDeque<(i64, bool)>,
}

/// The request to which a message of the host belongs.
pub enum Found {
    /// The request is open.
    Open(Arc<Turn>),
    /// The request has ended.
    Settled {
        /// True if a requester has read the host's reply.
        taken: bool,
    },
    /// There is no such request.
    None,
}

impl Server {
    /// Creates a server without open requests.
    pub fn new(config: Config, host: Host) -> Self {
        Self {
            // Values out of range are rejected on connect; this must only not panic before.
            room: Arc::new(Semaphore::new(config.requests_max.min(Semaphore::MAX_PERMITS))),
            answers: AnswerStore::new(host.clone()),
            instructed: Instructed::default(),
            key: OnceLock::new(),
            on_loopback: OnceLock::new(),
            open: Mutex::default(),
            opened: watch::Sender::new(()),
            host,
            config,
        }
    }

    /// Returns the maximum duration of a request.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.config.request_timeout_s)
    }

    /// Returns the open request with this event, or the one created by `make`; `true` if it is new.
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

    /// Records that the host has confirmed the event of `turn`, or will not.
    pub fn confirmed(&self, turn: &Arc<Turn>, inbox_id: Option<i64>) {
        let mut open = self.lock();
        open.opening = open.opening.saturating_sub(1);
        if let Some(inbox_id) = inbox_id {
            open.by_inbox.insert(inbox_id, Arc::clone(turn));
        }
        drop(open);
        self.opened.send_replace(());
    }

    /// Removes `turn`, which has no requester any more.
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

    /// Returns the request of the event `inbox_id`. The host may reply before its confirmation
    /// of the event arrives. In that case this waits until all pending confirmations have
    /// arrived.
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

    /// Returns the open requests of a chat.
    pub fn in_chat(&self, chat: &Chat) -> Vec<Arc<Turn>> {
        self.lock().by_inbox.values().filter(|turn| turn.chat() == chat).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

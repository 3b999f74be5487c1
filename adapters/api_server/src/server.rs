//! The shared state of all requests of an instance.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::sync::{Semaphore, watch};

use crate::Config;
use crate::answers::AnswerStore;
use crate::instructions::InstructionLog;
use crate::key::Key;
use crate::open_request::OpenRequest;

/// The maximum number of remembered ended requests; a repeated send gets the same outcome.
const SETTLED_MAX: usize = 1024;

/// The shared state of all requests of an instance.
pub(crate) struct Server {
    pub(crate) host: Host,
    /// The configuration.
    pub(crate) config: Config,
    /// The API key, after the first connect.
    pub(crate) key: OnceLock<Key>,
    /// True if only this machine can reach the listener.
    pub(crate) on_loopback: OnceLock<bool>,
    /// Permits for requests that wait for answers.
    pub(crate) permits: Arc<Semaphore>,
    /// The answers stored under their idempotency keys.
    pub(crate) answers: AnswerStore,
    /// The instructions that conversations have received from clients.
    pub(crate) instructions: InstructionLog,
    open: Mutex<OpenRequests>,
    /// Notified when a request gets its `inbox_id`, or certainly gets none.
    confirmations: watch::Sender<()>,
}

#[derive(Default)]
struct OpenRequests {
    by_event: BTreeMap<String, Arc<OpenRequest>>,
    by_inbox: BTreeMap<i64, Arc<OpenRequest>>,
    /// The number of requests whose event the host has not confirmed yet.
    unconfirmed: usize,
    /// The results of ended requests: the `inbox_id`, and whether the host's reply was read.
    settled: VecDeque<(i64, bool)>,
}

/// The request to which a message of the host belongs.
pub(crate) enum Lookup {
    /// The request is open.
    Open(Arc<OpenRequest>),
    /// The request has ended.
    Settled {
        /// True if a requester has read the host's reply.
        delivered: bool,
    },
    /// There is no such request.
    None,
}

impl Server {
    /// Creates a server without open requests.
    pub(crate) fn new(config: Config, host: Host) -> Self {
        Self {
            // Values out of range are rejected on connect; this must only not panic before.
            permits: Arc::new(Semaphore::new(config.requests_max.min(Semaphore::MAX_PERMITS))),
            answers: AnswerStore::new(host.clone()),
            instructions: InstructionLog::default(),
            key: OnceLock::new(),
            on_loopback: OnceLock::new(),
            open: Mutex::default(),
            confirmations: watch::Sender::new(()),
            host,
            config,
        }
    }

    /// Returns the maximum duration of a request.
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.config.request_timeout_s)
    }

    /// Returns the open request with this event, or the one created by `make`; `true` if it is new.
    pub(crate) fn join_or_open(&self, event_id: &str, make: impl FnOnce() -> OpenRequest) -> (Arc<OpenRequest>, bool) {
        let mut open = self.lock();
        if let Some(request) = open.by_event.get(event_id) {
            return (Arc::clone(request), false);
        }
        let request = Arc::new(make());
        open.by_event.insert(event_id.to_owned(), Arc::clone(&request));
        open.unconfirmed += 1;
        (request, true)
    }

    /// Records that the host has confirmed the event of `turn`, or will not.
    pub(crate) fn confirm(&self, request: &Arc<OpenRequest>, inbox_id: Option<i64>) {
        let mut open = self.lock();
        open.unconfirmed = open.unconfirmed.saturating_sub(1);
        if let Some(inbox_id) = inbox_id {
            open.by_inbox.insert(inbox_id, Arc::clone(request));
        }
        drop(open);
        self.confirmations.send_replace(());
    }

    /// Removes `turn`, which has no requester any more.
    pub(crate) fn close(&self, request: &OpenRequest, delivered: bool) {
        let mut open = self.lock();
        open.by_event.remove(request.event_id());
        if let Some(inbox_id) = request.inbox_id() {
            open.by_inbox.remove(&inbox_id);
            open.settled.push_back((inbox_id, delivered));
            if open.settled.len() > SETTLED_MAX {
                open.settled.pop_front();
            }
        }
    }

    /// Returns the request of the event `inbox_id`. The host may reply before its confirmation
    /// of the event arrives. In that case this waits until all pending confirmations have
    /// arrived.
    pub(crate) async fn find(&self, inbox_id: i64) -> Lookup {
        let mut confirmations = self.confirmations.subscribe();
        loop {
            confirmations.borrow_and_update();
            {
                let open = self.lock();
                if let Some(request) = open.by_inbox.get(&inbox_id) {
                    return Lookup::Open(Arc::clone(request));
                }
                if let Some((_, delivered)) = open.settled.iter().rev().find(|(id, _)| *id == inbox_id) {
                    return Lookup::Settled { delivered: *delivered };
                }
                if open.unconfirmed == 0 {
                    return Lookup::None;
                }
            }
            if confirmations.changed().await.is_err() {
                return Lookup::None;
            }
        }
    }

    /// Returns the open requests of a chat.
    pub(crate) fn in_chat(&self, chat: &Chat) -> Vec<Arc<OpenRequest>> {
        self.lock().by_inbox.values().filter(|request| request.chat() == chat).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

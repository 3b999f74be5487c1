//! Which lanes there are: tasks made on demand, one per key, let go when idle.
//!
//! A lane that has nothing to do says how many messages it has taken. When that is
//! all that were sent, its mailbox is closed and the task ends; otherwise a message
//! is on its way and the lane lives on. So no message is ever put into a mailbox
//! that nobody reads.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::events::{HostEvent, LaneOver};
use crate::host::Host;

/// What the task of a lane may take while it waits.
const TASK_BYTES_MAX: usize = 4 * 1024;

/// All lanes of one kind.
pub struct Lanes<K, M> {
    by_key: BTreeMap<K, End<M>>,
    made: u64,
    alive: usize,
    /// Tasks that are over since somebody asked.
    ended: usize,
}

struct End<M> {
    mailbox: mpsc::UnboundedSender<M>,
    sent: u64,
    serial: u64,
}

impl<K, M> Default for Lanes<K, M> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), made: 0, alive: 0, ended: 0 }
    }
}

impl<K: Ord + Clone + Send + 'static, M: Send + 'static> Lanes<K, M> {
    /// Whether a key has a lane.
    pub fn has(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// Sends to the lane of `key`; `false` when it has none.
    pub fn send(&mut self, key: &K, message: M) -> Result<(), M> {
        let Some(end) = self.by_key.get_mut(key) else { return Err(message) };
        end.sent += 1;
        // The task of an open mailbox can only be gone because it broke; then the host restarts.
        let _ = end.mailbox.send(message);
        Ok(())
    }

    /// Makes the lane of `key` with the task that `run` returns; `over` says when it ended.
    pub fn open<F>(
        &mut self,
        host: &Arc<Host>,
        key: K,
        run: impl FnOnce(mpsc::UnboundedReceiver<M>) -> F,
        over: impl FnOnce(LaneOver<K>) -> HostEvent + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        // A crowd has thousands of them. What a lane does now and then belongs into a box.
        const { assert!(size_of::<F>() <= TASK_BYTES_MAX, "a lane's task is too large") };
        let (mailbox, messages) = mpsc::unbounded_channel();
        self.made += 1;
        self.alive += 1;
        let serial = self.made;
        self.by_key.insert(key.clone(), End { mailbox, sent: 0, serial });
        let task = run(messages);
        let host = Arc::clone(host);
        tokio::spawn(async move {
            let broken = AssertUnwindSafe(task).catch_unwind().await.is_err();
            host.tell(over(LaneOver { key, serial, broken })).await;
        });
    }

    /// Lets an idle lane go, unless something is on its way to it. Returns whether it went.
    pub fn release(&mut self, key: &K, taken: u64) -> bool {
        let idle = self.by_key.get(key).is_some_and(|end| end.sent == taken);
        if idle {
            self.by_key.remove(key);
        }
        idle
    }

    /// Notes that a task is over.
    pub fn over(&mut self, over: &LaneOver<K>) {
        self.alive -= 1;
        self.ended += 1;
        if self.by_key.get(&over.key).is_some_and(|end| end.serial == over.serial) {
            self.by_key.remove(&over.key);
        }
    }

    /// Sends the same to every lane.
    pub fn broadcast(&mut self, mut message: impl FnMut() -> M) {
        for end in self.by_key.values_mut() {
            end.sent += 1;
            // See `send`.
            let _ = end.mailbox.send(message());
        }
    }

    /// Sends to every lane whose key is wanted.
    pub fn send_where(&mut self, mut wanted: impl FnMut(&K) -> bool, mut message: impl FnMut() -> M) {
        for (_, end) in self.by_key.iter_mut().filter(|(key, _)| wanted(key)) {
            end.sent += 1;
            // See `send`.
            let _ = end.mailbox.send(message());
        }
    }

    /// Whether at least `many` tasks are over since this last was true.
    pub fn have_ended(&mut self, many: usize) -> bool {
        let have = self.ended >= many;
        if have {
            self.ended = 0;
        }
        have
    }

    /// Returns how many tasks are not over.
    pub fn alive(&self) -> usize {
        self.alive
    }
}

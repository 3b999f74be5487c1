//! The list of lanes: tasks that are created on demand, one per key, and released when idle.
//!
//! An idle lane reports the number of messages that it has taken. If that equals the number sent, its mailbox is closed
//! and the task ends; otherwise a message is on its way and the lane continues. So no message is ever put into a
//! mailbox without a reader.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::engine::messages::{HostEvent, LaneOver};
use crate::engine::runtime::Host;

/// The largest task of a waiting lane, in bytes.
const TASK_BYTES_MAX: usize = 4 * 1024;

/// All lanes of one kind.
pub struct Lanes<K, M> {
    by_key: BTreeMap<K, End<M>>,
    made: u64,
    alive: usize,
    /// Tasks that ended since `have_ended` last returned true.
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
    /// Returns whether a key has a lane.
    pub fn has(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// Sends to the lane of `key`; returns the message if there is none.
    pub fn send(&mut self, key: &K, message: M) -> Result<(), M> {
        let Some(end) = self.by_key.get_mut(key) else { return Err(message) };
        end.sent += 1;
        // The task of an open mailbox can only be gone after a panic; then the host restarts.
        let _ = end.mailbox.send(message);
        Ok(())
    }

    /// Creates the lane of `key` with the task that `run` returns; `over` builds the event of its end.
    pub fn open<F>(
        &mut self,
        host: &Arc<Host>,
        key: K,
        run: impl FnOnce(mpsc::UnboundedReceiver<M>) -> F,
        over: impl FnOnce(LaneOver<K>) -> HostEvent + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        // A host under load has thousands of them. Rarely used state of a lane belongs into a box.
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

    /// Releases an idle lane unless a message is on its way to it. Returns whether it was released.
    pub fn release(&mut self, key: &K, taken: u64) -> bool {
        let idle = self.by_key.get(key).is_some_and(|end| end.sent == taken);
        if idle {
            self.by_key.remove(key);
        }
        idle
    }

    /// Notes the end of a task.
    pub fn over(&mut self, over: &LaneOver<K>) {
        self.alive -= 1;
        self.ended += 1;
        if self.by_key.get(&over.key).is_some_and(|end| end.serial == over.serial) {
            self.by_key.remove(&over.key);
        }
    }

    /// Sends the same message to every lane.
    pub fn broadcast(&mut self, mut message: impl FnMut() -> M) {
        for end in self.by_key.values_mut() {
            end.sent += 1;
            // See `send`.
            let _ = end.mailbox.send(message());
        }
    }

    /// Sends to every lane with a matching key.
    pub fn send_where(&mut self, mut wanted: impl FnMut(&K) -> bool, mut message: impl FnMut() -> M) {
        for (_, end) in self.by_key.iter_mut().filter(|(key, _)| wanted(key)) {
            end.sent += 1;
            // See `send`.
            let _ = end.mailbox.send(message());
        }
    }

    /// Returns whether at least `many` tasks have ended since this last returned true.
    pub fn have_ended(&mut self, many: usize) -> bool {
        let have = self.ended >= many;
        if have {
            self.ended = 0;
        }
        have
    }

    /// Returns the number of running tasks.
    pub fn alive(&self) -> usize {
        self.alive
    }
}

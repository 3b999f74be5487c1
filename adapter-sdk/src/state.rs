//! The shared state of one instance: its host, its open calls, its first panic.
//!
//! Invariants:
//!
//! * A call is in `Calls::open` from its acceptance until its future is dropped, and its
//!   answer is taken from there exactly once.
//! * The lock is never held while an answer is fired or the author's code runs.

use std::collections::{BTreeMap, btree_map::Entry};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_adapter_abi::{CALLS_MAX, status};
use hermes_protocol::HostInfo;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::answer::{Answer, Reply};
use crate::guard::PanicBarrier;
use crate::host_port::HostPort;

/// The shared state of the thread, the calls and every [`Host`] of one instance.
pub(crate) struct InstanceState {
    host: Arc<dyn HostPort>,
    instance: Arc<str>,
    info: HostInfo,
    /// The folder of the instance's own files, if the host provides one.
    data_dir: Option<PathBuf>,
    /// Cancelled when the instance is shut down.
    stop: CancellationToken,
    /// Cancelled at the first panic.
    poisoned: CancellationToken,
    /// The message of that panic.
    panic: OnceLock<String>,
    calls: Mutex<Calls>,
    /// Notified after the end of every call.
    call_ended: Notify,
    runtime: OnceLock<Handle>,
    shutdown_deadline_ms: AtomicU64,
}

#[derive(Default)]
struct Calls {
    open: BTreeMap<u64, OpenCall>,
    /// True if no further call is accepted.
    closed: bool,
    /// True if the thread has ended.
    over: bool,
    /// The answers to fire when the thread has ended.
    shutdowns: Vec<Answer>,
}

struct OpenCall {
    cancel: CancellationToken,
    answer: Answer,
}

impl InstanceState {
    pub(crate) fn new(host: Arc<dyn HostPort>, instance: Arc<str>, info: HostInfo, data_dir: Option<PathBuf>) -> Self {
        Self {
            host,
            instance,
            info,
            data_dir,
            stop: CancellationToken::new(),
            poisoned: CancellationToken::new(),
            panic: OnceLock::new(),
            calls: Mutex::default(),
            call_ended: Notify::new(),
            runtime: OnceLock::new(),
            shutdown_deadline_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn host(&self) -> &Arc<dyn HostPort> {
        &self.host
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn info(&self) -> &HostInfo {
        &self.info
    }

    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Returns the token that is cancelled when the instance is shut down.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the token that is cancelled at the first panic.
    pub(crate) fn poisoned(&self) -> &CancellationToken {
        &self.poisoned
    }

    /// Sets the runtime of [`InstanceState::spawn`]; called once, before a `Host` exists.
    pub(crate) fn set_runtime(&self, runtime: Handle) {
        let _ = self.runtime.set(runtime);
    }

    /// Returns the longest wait that a shutdown requested.
    pub(crate) fn shutdown_deadline(&self) -> Duration {
        Duration::from_millis(self.shutdown_deadline_ms.load(Ordering::Relaxed))
    }

    /// Runs `work` until it ends or the instance ends.
    pub(crate) fn spawn(self: &Arc<Self>, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let state = Arc::clone(self);
        let runtime = self.runtime.get().expect("the runtime is there before a Host is handed out");
        runtime.spawn(async move {
            let work = PanicBarrier::new(work, state.poisons("the end of a task"));
            tokio::select! {
                biased;
                () = state.stop.cancelled() => {}
                end = work => if let Err(message) = end {
                    state.poison("a task", &message);
                }
            }
        });
    }

    /// Records the first panic; every later call is answered POISONED.
    pub(crate) fn poison(&self, place: &str, message: &str) {
        let _ = self.panic.set(format!("panic in {place}: {message}"));
        self.poisoned.cancel();
    }

    /// Returns `poison` as a callback.
    pub(crate) fn poisons(self: &Arc<Self>, place: &'static str) -> impl FnMut(String) + Send + Unpin + use<> {
        let state = Arc::clone(self);
        move |message| state.poison(place, &message)
    }

    /// Returns the error that names the first panic.
    pub(crate) fn panic_reply(&self, status: i32) -> Reply {
        let sentence = self.panic.get().map_or("the adapter panicked", String::as_str);
        Reply::error(status, "panic", format!("instance `{}`: {sentence}", self.instance))
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts call `id`, or answers with the reason of the refusal.
    pub(crate) fn accept(self: &Arc<Self>, id: u64, answer: Answer) -> Option<AcceptedCall> {
        if self.poisoned.is_cancelled() {
            answer.fire(self.panic_reply(status::POISONED));
            return None;
        }
        let mut calls = self.lock();
        let refused = if calls.closed {
            Reply::error(status::DROPPED, "stopping", "the instance is shutting down")
        } else if calls.open.len() >= CALLS_MAX {
            Reply::error(status::BUSY, "busy", format!("{CALLS_MAX} calls are open"))
        } else if let Entry::Vacant(place) = calls.open.entry(id) {
            let cancel = self.stop.child_token();
            place.insert(OpenCall { cancel: cancel.clone(), answer });
            return Some(AcceptedCall { state: Arc::clone(self), id, cancel, reply: None });
        } else {
            Reply::error(status::ERR, "invalid", format!("call id {id} is in use"))
        };
        drop(calls);
        answer.fire(refused);
        None
    }

    /// Ends call `id` with `reply`; without a reply it counts as dropped.
    fn end(&self, id: u64, reply: Option<Reply>) {
        let ended = self.lock().open.remove(&id);
        if let Some(OpenCall { answer, .. }) = ended {
            match reply {
                Some(reply) => answer.fire(reply),
                None => drop(answer),
            }
        }
        self.call_ended.notify_one();
    }

    /// Drops the future of call `id` at its next await; an unknown id does nothing.
    pub(crate) fn cancel(&self, id: u64) {
        let cancel = self.lock().open.get(&id).map(|call| call.cancel.clone());
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    /// Stops the instance; `answer` is fired when its thread has ended.
    pub(crate) fn shut_down(&self, deadline_ms: u64, answer: Answer) {
        self.shutdown_deadline_ms.fetch_max(deadline_ms, Ordering::Relaxed);
        let already_over = {
            let mut calls = self.lock();
            calls.closed = true;
            if calls.over {
                Some(answer)
            } else {
                calls.shutdowns.push(answer);
                None
            }
        };
        self.stop.cancel();
        if let Some(answer) = already_over {
            answer.fire(Reply::new(status::OK, b"{}".to_vec()));
        }
    }

    /// Rejects further calls.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Waits until no call is open.
    pub(crate) async fn wait_idle(&self) {
        while !self.lock().open.is_empty() {
            self.call_ended.notified().await;
        }
    }

    /// Handles the end of the thread: drops the open calls and answers the waiting shutdowns.
    pub(crate) fn over(&self) {
        let (open, shutdowns) = {
            let mut calls = self.lock();
            calls.over = true;
            (std::mem::take(&mut calls.open), std::mem::take(&mut calls.shutdowns))
        };
        drop(open);
        for answer in shutdowns {
            answer.fire(Reply::new(status::OK, b"{}".to_vec()));
        }
    }

    /// Handles a stuck thread: drops all open answers.
    pub(crate) fn give_up(&self) {
        let (open, shutdowns) = {
            let mut calls = self.lock();
            (std::mem::take(&mut calls.open), std::mem::take(&mut calls.shutdowns))
        };
        drop(open);
        drop(shutdowns);
    }
}

/// A call in `Calls::open`, which ends when this value is dropped.
pub(crate) struct AcceptedCall {
    state: Arc<InstanceState>,
    id: u64,
    cancel: CancellationToken,
    reply: Option<Reply>,
}

impl AcceptedCall {
    pub(crate) fn state(&self) -> &Arc<InstanceState> {
        &self.state
    }

    /// Returns the token that is cancelled with the call.
    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Answers the call; without a reply it counts as dropped.
    pub(crate) fn end_with(mut self, reply: Option<Reply>) {
        self.reply = reply;
    }
}

impl Drop for AcceptedCall {
    fn drop(&mut self) {
        self.state.end(self.id, self.reply.take());
    }
}

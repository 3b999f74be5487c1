//! One adapter instance: its thread, its runtime, its open calls.
//!
//! Invariants:
//!
//! * A call is in `Calls::open` from its acceptance until its future is dropped, and its
//!   answer is taken from there exactly once.
//! * The lock is never held while an answer is fired or the author's code runs.
//! * The adapter is created, polled and dropped on its own thread.
//! * The thread outlives every open call, unless it is stuck.
//!
//! No `unsafe`: pointers and vtables are in `export`.

use std::collections::{BTreeMap, btree_map::Entry};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hermes_adapter_abi::{CALLS_MAX, status};
use hermes_protocol::{CallError, Envelope, HostInfo, host_method, method};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::dispatch::{Exported, Reply, dispatch};
use crate::export::{Answer, HostSide};
use crate::guard::{Guarded, guard};
use crate::{AdapterConfig, Host, Manifest, logs};

/// The time limit of `new`.
const NEW_DEADLINE: Duration = Duration::from_secs(1);
/// The maximum length of a method's name, in bytes.
const METHOD_BYTES_MAX: usize = 64;
/// The maximum size of a payload, in bytes, which equals that of a frame.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The time that the end of an instance waits for the author's blocking work.
const BLOCKING_GRACE_MAX: Duration = Duration::from_secs(1);

/// The shared state of the thread, the calls and every [`Host`] of one instance.
pub(crate) struct Core {
    side: HostSide,
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

/// The host's handle on an instance.
pub(crate) struct Seat<A> {
    core: Arc<Core>,
    runtime: Handle,
    adapter: Weak<A>,
    thread: JoinHandle<()>,
    /// Disconnected when the body of the thread has ended.
    over: Mutex<mpsc::Receiver<()>>,
}

/// The result of `destroy`.
pub(crate) enum Destroyed<A> {
    Joined,
    Stuck(Box<Seat<A>>),
}

/// The result of `new` for the seat.
type Made<A> = Result<(Handle, Weak<A>), Unmade>;

/// The reason for a missing instance.
enum Unmade {
    /// `new` panicked.
    Panicked(String),
    /// The thread or its runtime failed to start.
    Failed(String),
}

/// Reports the failure of `create` to the host under `code`.
fn create_failed(core: &Core, code: &str, sentence: &str) {
    let error = CallError::new(code, sentence);
    let payload = serde_json::to_vec(&error).expect("an error has string keys only");
    // A host of 1.0 does not know the method; nobody waits for the answer.
    core.side().call(host_method::CREATE_FAILED, &payload, |_, _| {});
}

/// Creates an instance from the host's envelope.
///
/// The error is one sentence for the operator, which names the instance and the key.
pub(crate) fn create<A: Exported>(side: HostSide, envelope: &[u8]) -> Result<Seat<A>, String> {
    let plugin = A::MANIFEST.id();
    let envelope: Envelope = serde_json::from_slice(envelope)
        .map_err(|error| format!("adapter `{plugin}`: the envelope of the host cannot be parsed: {error}"))?;
    let instance: Arc<str> = envelope.instance.into();
    let config = judged_config::<A>(envelope.config)
        .map_err(|error| format!("instance `{instance}` of adapter `{plugin}`: {error}"))?;

    logs::forward_panics();
    #[cfg(feature = "log")]
    crate::log_crate::install();
    let core = Arc::new(Core::new(side, Arc::clone(&instance), envelope.host, envelope.data_dir.map(PathBuf::from)));
    let (made, wait_made) = mpsc::sync_channel::<Made<A>>(1);
    let (alive, over) = mpsc::channel::<()>();
    let thread = thread::Builder::new()
        .name(thread_name(&instance))
        .spawn({
            let core = Arc::clone(&core);
            move || {
                body::<A>(&core, config, made);
                drop(core);
                drop(alive);
            }
        })
        .map_err(|error| format!("instance `{instance}` of adapter `{plugin}`: cannot start a thread: {error}"))?;

    match wait_made.recv_timeout(NEW_DEADLINE) {
        Ok(Ok((runtime, adapter))) => Ok(Seat { core, runtime, adapter, thread, over: Mutex::new(over) }),
        Ok(Err(unmade)) => {
            let (code, sentence) = match unmade {
                Unmade::Panicked(message) => ("panic", format!("panic in `new`: {message}")),
                Unmade::Failed(sentence) => ("refused", sentence),
            };
            create_failed(&core, code, &sentence);
            // Dropping the core releases the host's handle.
            drop(core);
            // Waiting for the thread releases the host's handle before the answer, within a limit.
            if over.recv_timeout(NEW_DEADLINE) == Err(mpsc::RecvTimeoutError::Disconnected) {
                let _ = thread.join();
            }
            Err(format!("instance `{instance}` of adapter `{plugin}`: {sentence}"))
        }
        Err(_) => {
            // An instance that is created too late sees this cancellation and ends by itself.
            core.stop.cancel();
            create_failed(&core, "late", "`new` did not return in time");
            Err(format!(
                "instance `{instance}` of adapter `{plugin}`: `new` did not return within {} ms; move slow work to `connect`",
                NEW_DEADLINE.as_millis()
            ))
        }
    }
}

/// Checks a configuration without creating an instance of it.
pub(crate) fn check_config<A: Exported>(config: &[u8]) -> Result<(), String> {
    // The parser's own message could contain a value.
    let mut config: serde_json::Value =
        serde_json::from_slice(config).map_err(|_| "the configuration is not valid JSON".to_owned())?;
    // The host passes its own key `home_channel` along, because only the adapter knows the names of its chats.
    let home = config.as_object_mut().and_then(|keys| keys.remove("home_channel"));
    let home = home.as_ref().and_then(serde_json::Value::as_str).map_or(Ok(()), A::check_home_channel);
    match (judged_config::<A>(config), home) {
        (Ok(_), judged) => judged,
        (Err(sentence), Ok(())) => Err(sentence),
        (Err(one), Err(other)) => Err(format!("{one}; and {other}")),
    }
}

/// Parses a configuration and lets the adapter check its values.
fn judged_config<A: Exported>(config: serde_json::Value) -> Result<A::Config, String> {
    let config = read_config::<A::Config>(config, &A::MANIFEST)?;
    A::check(&config).map(|()| config)
}

fn read_config<C: AdapterConfig>(config: serde_json::Value, manifest: &Manifest) -> Result<C, String> {
    let config = if config.is_null() { serde_json::json!({}) } else { config };
    serde_path_to_error::deserialize(config).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." | "" => format!("configuration: {}", error.inner()),
            // The parser's own message would contain the value.
            _ if is_secret::<C>(manifest, &path) => {
                format!("configuration key `{path}`: does not match the schema (the value of a secret is not shown)")
            }
            path => format!("configuration key `{path}`: {}", error.inner()),
        }
    })
}

/// Returns whether the manifest or the schema marks the value at `path` as a secret. Indexes of lists
/// are ignored; a property with a marked name counts at any depth.
fn is_secret<C: AdapterConfig>(manifest: &Manifest, path: &str) -> bool {
    let keys: Vec<&str> =
        path.split('.').filter_map(|part| part.split('[').next()).filter(|key| !key.is_empty()).collect();
    let schema = schemars::schema_for!(C).to_value();
    manifest.is_secret(&keys.join(".")) || keys.iter().any(|key| marks(&schema, key))
}

/// Returns whether a schema marks a property `key` with `writeOnly`, or as a password.
fn marks(schema: &serde_json::Value, key: &str) -> bool {
    let marked = schema["properties"]
        .get(key)
        .is_some_and(|property| property["writeOnly"] == true || property["format"] == "password");
    let mut below =
        schema.as_object().into_iter().flat_map(serde_json::Map::values).chain(schema.as_array().into_iter().flatten());
    marked || below.any(|part| marks(part, key))
}

/// Returns the name of a thread; the kernel shows 15 bytes of it.
fn thread_name(instance: &str) -> String {
    instance.chars().filter(|c| *c != '\0').take(15).collect()
}

/// Runs the instance's thread from its start to its end.
fn body<A: Exported>(core: &Arc<Core>, config: A::Config, made: mpsc::SyncSender<Made<A>>) {
    let _route = logs::route(core);
    #[cfg(feature = "multi-thread")]
    let builder = on_threads(A::WORKER_THREADS);
    #[cfg(not(feature = "multi-thread"))]
    let builder = Builder::new_current_thread();
    let runtime = match runtime(core, builder) {
        Ok(runtime) => runtime,
        Err(error) => {
            // A creator that is gone has reported its own error.
            let _ = made.send(Err(Unmade::Failed(format!("cannot start the async runtime: {error}"))));
            return;
        }
    };
    let _ = core.runtime.set(runtime.handle().clone());

    let live = guard(|| {
        runtime.block_on(async {
            let adapter = match guard(|| A::new(config, Host::new(Arc::clone(core)))) {
                Ok(adapter) => Arc::new(adapter),
                Err(message) => {
                    let _ = made.send(Err(Unmade::Panicked(message)));
                    return None;
                }
            };
            if made.send(Ok((runtime.handle().clone(), Arc::downgrade(&adapter)))).is_err() {
                return Some(adapter);
            }
            core.stop.cancelled().await;
            core.close();
            core.wait_idle().await;
            Some(adapter)
        })
    });
    core.close();
    let grace = Duration::from_millis(core.shutdown_deadline_ms.load(Ordering::Relaxed)).min(BLOCKING_GRACE_MAX);
    if let Err(message) = guard(|| runtime.shutdown_timeout(grace)) {
        core.poison("the end of a task", &message);
    }
    if let Err(message) = guard(|| drop(live)) {
        core.poison("the adapter's `drop`", &message);
    }
    core.over();
}

fn runtime(core: &Arc<Core>, mut builder: Builder) -> std::io::Result<Runtime> {
    // Weak, because the core contains the runtime's handle.
    let weak = Arc::downgrade(core);
    builder
        .enable_time()
        .enable_io()
        .max_blocking_threads(16)
        // A crash is attributed by the name of its thread.
        .thread_name(thread_name(&core.instance))
        .on_thread_start(move || {
            if let Some(core) = weak.upgrade() {
                logs::route_for_ever(&core);
            }
        })
        .on_thread_stop(logs::end_route)
        .build()
}

/// Returns a runtime with `count` threads, or on the instance's own thread if `count` is 0.
#[cfg(feature = "multi-thread")]
fn on_threads(count: usize) -> Builder {
    if count == 0 {
        return Builder::new_current_thread();
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count);
    builder
}

impl Core {
    fn new(side: HostSide, instance: Arc<str>, info: HostInfo, data_dir: Option<PathBuf>) -> Self {
        Self {
            side,
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

    pub(crate) fn side(&self) -> &HostSide {
        &self.side
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

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs `work` until it ends or the instance ends.
    pub(crate) fn spawn(self: &Arc<Self>, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let core = Arc::clone(self);
        let runtime = self.runtime.get().expect("the runtime is there before a Host is handed out");
        runtime.spawn(async move {
            let work = Guarded::new(work, core.poisons("the end of a task"));
            tokio::select! {
                biased;
                () = core.stop.cancelled() => {}
                end = work => if let Err(message) = end {
                    core.poison("a task", &message);
                }
            }
        });
    }

    /// Records the first panic; every later call is answered POISONED.
    fn poison(&self, place: &str, message: &str) {
        let _ = self.panic.set(format!("panic in {place}: {message}"));
        self.poisoned.cancel();
    }

    /// Returns `poison` as a callback.
    fn poisons(self: &Arc<Self>, place: &'static str) -> impl FnMut(String) + Send + Unpin + use<> {
        let core = Arc::clone(self);
        move |message| core.poison(place, &message)
    }

    fn panic_reply(&self, status: i32) -> Reply {
        let sentence = self.panic.get().map_or("the adapter panicked", String::as_str);
        Reply::error(status, "panic", format!("instance `{}`: {sentence}", self.instance))
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts call `id`, or answers with the reason of the refusal.
    fn open(&self, id: u64, answer: Answer) -> Option<CancellationToken> {
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
            return Some(cancel);
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

    fn close(&self) {
        self.lock().closed = true;
    }

    async fn wait_idle(&self) {
        while !self.lock().open.is_empty() {
            self.call_ended.notified().await;
        }
    }

    /// Handles the end of the thread: drops the open calls and answers the waiting shutdowns.
    fn over(&self) {
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
    fn give_up(&self) {
        let (open, shutdowns) = {
            let mut calls = self.lock();
            (std::mem::take(&mut calls.open), std::mem::take(&mut calls.shutdowns))
        };
        drop(open);
        drop(shutdowns);
    }
}

/// A guard that ends its call with the task.
struct CallGuard {
    core: Arc<Core>,
    id: u64,
    reply: Option<Reply>,
}

impl CallGuard {
    fn end_with(mut self, reply: Option<Reply>) {
        self.reply = reply;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.core.end(self.id, self.reply.take());
    }
}

impl<A: Exported> Seat<A> {
    /// Starts a call. Never blocks.
    pub(crate) fn call(&self, id: u64, method: &str, payload: &[u8], answer: Answer) {
        if method.len() > METHOD_BYTES_MAX || payload.len() > PAYLOAD_BYTES_MAX {
            let sentence = format!(
                "the call exceeds the limits of {METHOD_BYTES_MAX} bytes for the method and {PAYLOAD_BYTES_MAX} bytes for the payload"
            );
            answer.fire(Reply::error(status::ERR, "invalid", sentence));
            return;
        }
        let Some(cancel) = self.core.open(id, answer) else { return };
        let call = CallGuard { core: Arc::clone(&self.core), id, reply: None };
        let adapter = Weak::clone(&self.adapter);
        let method = method.to_owned();
        let payload = payload.to_vec();
        self.runtime.spawn(async move {
            let reply = answer_call(&call.core, adapter, method, payload, &cancel).await;
            call.end_with(reply);
        });
    }

    /// Drops the future of call `id` at its next await.
    pub(crate) fn cancel(&self, id: u64) {
        let cancel = self.core.lock().open.get(&id).map(|call| call.cancel.clone());
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    /// Shuts the instance down; `answer` is fired when its thread has ended. Never blocks.
    pub(crate) fn shutdown(&self, deadline_ms: u64, answer: Answer) {
        self.core.shutdown_deadline_ms.fetch_max(deadline_ms, Ordering::Relaxed);
        let already_over = {
            let mut calls = self.core.lock();
            calls.closed = true;
            if calls.over {
                Some(answer)
            } else {
                calls.shutdowns.push(answer);
                None
            }
        };
        self.core.stop.cancel();
        if let Some(answer) = already_over {
            answer.fire(Reply::new(status::OK, b"{}".to_vec()));
        }
    }

    /// Waits for the end of the thread, at most `deadline`.
    pub(crate) fn destroy(self: Box<Self>, deadline: Duration) -> Destroyed<A> {
        self.core.close();
        self.core.stop.cancel();
        if self.thread.thread().id() == thread::current().id() {
            // The thread cannot wait for itself.
            return Destroyed::Stuck(self);
        }
        let waited = self.over.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(deadline);
        if waited == Err(mpsc::RecvTimeoutError::Timeout) {
            self.core.give_up();
            return Destroyed::Stuck(self);
        }
        // The body has ended and is guarded; only the thread's local storage remains.
        let _ = self.thread.join();
        Destroyed::Joined
    }
}

/// Runs one call, from its bytes to its reply; `None` if it was cancelled.
async fn answer_call<A: Exported>(
    core: &Arc<Core>,
    adapter: Weak<A>,
    method: String,
    payload: Vec<u8>,
    cancel: &CancellationToken,
) -> Option<Reply> {
    // A long-running call ends with a panic elsewhere, so that the host learns of it
    // immediately. Other calls run to their end, because a half-sent message is worse than
    // a late answer.
    let lasting = matches!(method.as_str(), method::CONNECT | method::RUN);
    let place = format!("`{method}`");
    let adapter = adapter.upgrade()?;
    let work = Guarded::new(
        Box::pin(async move { dispatch(&adapter, &method, &payload).await }),
        core.poisons("the end of a call"),
    );
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        () = core.poisoned.cancelled(), if lasting => Some(core.panic_reply(status::PANIC)),
        end = work => match end {
            Ok(reply) => Some(reply),
            Err(message) => {
                core.poison(&place, &message);
                Some(core.panic_reply(status::PANIC))
            }
        },
    }
}

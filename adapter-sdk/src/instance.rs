//! One adapter instance: its thread, its runtime, its calls.
//!
//! Invariants:
//!
//! * The adapter is created, polled and dropped on its own thread.
//! * The thread outlives every open call, unless it is stuck.
//!
//! No `unsafe`: pointers and vtables are in `export`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hermes_adapter_abi::status;
use hermes_protocol::{CallError, Envelope, host_method, method};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::answer::{Answer, Reply};
use crate::config;
use crate::dispatch::{Exported, dispatch};
use crate::guard::{PanicBarrier, guard};
use crate::host::Host;
use crate::host_port::HostPort;
use crate::logs;
use crate::state::{AcceptedCall, InstanceState};

/// The time limit of `new`.
const NEW_DEADLINE: Duration = Duration::from_secs(1);
/// The maximum length of a method's name, in bytes.
const METHOD_BYTES_MAX: usize = 64;
/// The maximum size of a payload, in bytes, which equals that of a frame.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The time that the end of an instance waits for the author's blocking work.
const BLOCKING_GRACE_MAX: Duration = Duration::from_secs(1);

/// The host's handle on an instance.
pub(crate) struct InstanceHandle<A> {
    state: Arc<InstanceState>,
    runtime: Handle,
    adapter: Weak<A>,
    thread: JoinHandle<()>,
    /// Disconnected when the body of the thread has ended.
    over: Mutex<mpsc::Receiver<()>>,
}

/// The result of `destroy`.
pub(crate) enum DestroyResult<A> {
    Joined,
    Stuck(Box<InstanceHandle<A>>),
}

/// The result of `new` for the handle.
type Creation<A> = Result<(Handle, Weak<A>), CreateError>;

/// The reason for a missing instance.
enum CreateError {
    /// `new` panicked.
    Panicked(String),
    /// The thread or its runtime failed to start.
    Failed(String),
}

/// Reports the failure of `create` to the host under `code`.
fn create_failed(state: &InstanceState, code: &str, sentence: &str) {
    let error = CallError::new(code, sentence);
    let payload = serde_json::to_vec(&error).expect("an error has string keys only");
    // A host of 1.0 does not know the method; nobody waits for the answer.
    state.host().call(host_method::CREATE_FAILED, &payload, Box::new(|_, _| {}));
}

/// Creates an instance from the host's envelope.
///
/// The error is one sentence for the operator, which names the instance and the key.
pub(crate) fn create<A: Exported>(host: Arc<dyn HostPort>, envelope: &[u8]) -> Result<InstanceHandle<A>, String> {
    let plugin = A::MANIFEST.id();
    let envelope: Envelope = serde_json::from_slice(envelope)
        .map_err(|error| format!("adapter `{plugin}`: the envelope of the host cannot be parsed: {error}"))?;
    let instance: Arc<str> = envelope.instance.into();
    let config = judged_config::<A>(envelope.config)
        .map_err(|error| format!("instance `{instance}` of adapter `{plugin}`: {error}"))?;

    logs::forward_panics();
    #[cfg(feature = "log")]
    crate::log_crate::install();
    let state =
        Arc::new(InstanceState::new(host, Arc::clone(&instance), envelope.host, envelope.data_dir.map(PathBuf::from)));
    let (created, wait_created) = mpsc::sync_channel::<Creation<A>>(1);
    let (alive, over) = mpsc::channel::<()>();
    let thread = thread::Builder::new()
        .name(thread_name(&instance))
        .spawn({
            let state = Arc::clone(&state);
            move || {
                body::<A>(&state, config, created);
                drop(state);
                drop(alive);
            }
        })
        .map_err(|error| format!("instance `{instance}` of adapter `{plugin}`: cannot start a thread: {error}"))?;

    match wait_created.recv_timeout(NEW_DEADLINE) {
        Ok(Ok((runtime, adapter))) => Ok(InstanceHandle { state, runtime, adapter, thread, over: Mutex::new(over) }),
        Ok(Err(error)) => {
            let (code, sentence) = match error {
                CreateError::Panicked(message) => ("panic", format!("panic in `new`: {message}")),
                CreateError::Failed(sentence) => ("refused", sentence),
            };
            create_failed(&state, code, &sentence);
            // Dropping the state releases the host's handle.
            drop(state);
            // Waiting for the thread releases the host's handle before the answer, within a limit.
            if over.recv_timeout(NEW_DEADLINE) == Err(mpsc::RecvTimeoutError::Disconnected) {
                let _ = thread.join();
            }
            Err(format!("instance `{instance}` of adapter `{plugin}`: {sentence}"))
        }
        Err(_) => {
            // An instance that is created too late sees this cancellation and ends by itself.
            state.stopping().cancel();
            create_failed(&state, "late", "`new` did not return in time");
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
    let config = config::read::<A::Config>(config, &A::MANIFEST)?;
    A::check(&config).map(|()| config)
}

/// Returns the name of a thread; the kernel shows 15 bytes of it.
fn thread_name(instance: &str) -> String {
    instance.chars().filter(|c| *c != '\0').take(15).collect()
}

/// Runs the instance's thread from its start to its end.
fn body<A: Exported>(state: &Arc<InstanceState>, config: A::Config, created: mpsc::SyncSender<Creation<A>>) {
    let _route = logs::route(state.host());
    #[cfg(feature = "multi-thread")]
    let builder = on_threads(A::WORKER_THREADS);
    #[cfg(not(feature = "multi-thread"))]
    let builder = Builder::new_current_thread();
    let runtime = match runtime(state, builder) {
        Ok(runtime) => runtime,
        Err(error) => {
            // A creator that is gone has reported its own error.
            let _ = created.send(Err(CreateError::Failed(format!("cannot start the async runtime: {error}"))));
            return;
        }
    };
    state.set_runtime(runtime.handle().clone());

    let live = guard(|| {
        runtime.block_on(async {
            let adapter = match guard(|| A::new(config, Host::new(Arc::clone(state)))) {
                Ok(adapter) => Arc::new(adapter),
                Err(message) => {
                    let _ = created.send(Err(CreateError::Panicked(message)));
                    return None;
                }
            };
            if created.send(Ok((runtime.handle().clone(), Arc::downgrade(&adapter)))).is_err() {
                return Some(adapter);
            }
            state.stopping().cancelled().await;
            state.close();
            state.wait_idle().await;
            Some(adapter)
        })
    });
    state.close();
    let grace = state.shutdown_deadline().min(BLOCKING_GRACE_MAX);
    if let Err(message) = guard(|| runtime.shutdown_timeout(grace)) {
        state.poison("the end of a task", &message);
    }
    if let Err(message) = guard(|| drop(live)) {
        state.poison("the adapter's `drop`", &message);
    }
    state.over();
}

fn runtime(state: &Arc<InstanceState>, mut builder: Builder) -> std::io::Result<Runtime> {
    // Weak, because the state contains the runtime's handle, and its drop releases the host.
    let weak = Arc::downgrade(state.host());
    builder
        .enable_time()
        .enable_io()
        .max_blocking_threads(16)
        // A crash is attributed by the name of its thread.
        .thread_name(thread_name(state.instance()))
        .on_thread_start(move || {
            if let Some(host) = weak.upgrade() {
                logs::route_for_ever(&host);
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

impl<A: Exported> InstanceHandle<A> {
    /// Starts a call. Never blocks.
    pub(crate) fn call(&self, id: u64, method: &str, payload: &[u8], answer: Answer) {
        if method.len() > METHOD_BYTES_MAX || payload.len() > PAYLOAD_BYTES_MAX {
            let sentence = format!(
                "the call exceeds the limits of {METHOD_BYTES_MAX} bytes for the method and {PAYLOAD_BYTES_MAX} bytes for the payload"
            );
            answer.fire(Reply::error(status::ERR, "invalid", sentence));
            return;
        }
        let Some(call) = self.state.accept(id, answer) else { return };
        let adapter = Weak::clone(&self.adapter);
        let method = method.to_owned();
        let payload = payload.to_vec();
        self.runtime.spawn(async move {
            let reply = answer_call(&call, adapter, method, payload).await;
            call.end_with(reply);
        });
    }

    /// Drops the future of call `id` at its next await.
    pub(crate) fn cancel(&self, id: u64) {
        self.state.cancel(id);
    }

    /// Shuts the instance down; `answer` is fired when its thread has ended. Never blocks.
    pub(crate) fn shutdown(&self, deadline_ms: u64, answer: Answer) {
        self.state.shut_down(deadline_ms, answer);
    }

    /// Waits for the end of the thread, at most `deadline`.
    pub(crate) fn destroy(self: Box<Self>, deadline: Duration) -> DestroyResult<A> {
        self.state.close();
        self.state.stopping().cancel();
        if self.thread.thread().id() == thread::current().id() {
            // The thread cannot wait for itself.
            return DestroyResult::Stuck(self);
        }
        let waited = self.over.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(deadline);
        if waited == Err(mpsc::RecvTimeoutError::Timeout) {
            self.state.give_up();
            return DestroyResult::Stuck(self);
        }
        // The body has ended and is guarded; only the thread's local storage remains.
        let _ = self.thread.join();
        DestroyResult::Joined
    }
}

/// Runs one call, from its bytes to its reply; `None` if it was cancelled.
async fn answer_call<A: Exported>(
    call: &AcceptedCall,
    adapter: Weak<A>,
    method: String,
    payload: Vec<u8>,
) -> Option<Reply> {
    let state = call.state();
    // A long-running call ends with a panic elsewhere, so that the host learns of it
    // immediately. Other calls run to their end, because a half-sent message is worse than
    // a late answer.
    let lasting = matches!(method.as_str(), method::CONNECT | method::RUN);
    let place = format!("`{method}`");
    let adapter = adapter.upgrade()?;
    let work = PanicBarrier::new(
        Box::pin(async move { dispatch(&adapter, &method, &payload).await }),
        state.poisons("the end of a call"),
    );
    tokio::select! {
        biased;
        () = call.cancel_token().cancelled() => None,
        () = state.poisoned().cancelled(), if lasting => Some(state.panic_reply(status::PANIC)),
        end = work => match end {
            Ok(reply) => Some(reply),
            Err(message) => {
                state.poison(&place, &message);
                Some(state.panic_reply(status::PANIC))
            }
        },
    }
}

//! The link to an instance inside this process: a vtable.
//!
//! The host uses it for the adapters that it ships with, and the child process for all others, so both call a library
//! through the same code.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use hermes_adapter_abi::{SDK_VERSION, status};
use hermes_protocol::{CallError, host_method};
use tokio::sync::oneshot;

use super::{AdapterLink, Answer, Destroyed, Isolation, LoadError, PendingCall};
use crate::ffi::{ForeignInstance, HostPort, Library, OpenError, Reply};

/// Deadline for loading a library, which was loaded in a child before.
const LOAD: Duration = Duration::from_secs(15);
/// Additional time for `destroy` after its own deadline. After it the instance counts as stuck.
const DESTROY_GRACE: Duration = Duration::from_secs(1);

/// Opens a private copy. Refusals name `origin`.
pub(super) fn open(origin: &Path, copy: &Path, sdk: &str, manifest_json: &str) -> Result<Library, LoadError> {
    let path = origin.to_owned();
    let library = Library::open(copy).map_err(|error| match error {
        OpenError::Loader(why) => LoadError::Dlopen { path, why },
        OpenError::NoRoot => LoadError::NoRootSymbol { path },
        OpenError::Header => LoadError::WrongHeader { path, host: SDK_VERSION.to_owned() },
        OpenError::Layout(why) => {
            tracing::debug!(target: "plugins", "layout of {}: {why}", path.display());
            LoadError::LayoutMismatch { path, plugin: sdk.to_owned(), host: SDK_VERSION.to_owned() }
        }
    })?;
    if library.manifest().trim_end_matches('\0') != manifest_json {
        return Err(LoadError::ManifestDiffers { path: origin.to_owned() });
    }
    Ok(library)
}

/// Loads a library and creates an instance on a new thread. Each step has its own deadline. An instance that arrives
/// late is destroyed at once.
pub(super) fn create(
    sdk: &str,
    load: impl FnOnce() -> Result<Library, LoadError> + Send + 'static,
    instance: &str,
    port: Arc<dyn HostPort>,
    envelope: Vec<u8>,
    deadline: Duration,
) -> Result<ForeignInstance, LoadError> {
    let creating = Arc::new(Creating { port, failed: OnceLock::new() });
    let port = Arc::clone(&creating) as Arc<dyn HostPort>;
    let (tell_loaded, loaded) = std::sync::mpsc::sync_channel(1);
    let (tell, told) = std::sync::mpsc::sync_channel(0);
    // If a constructor ends the process, the name of the thread identifies the instance.
    let thread =
        std::thread::Builder::new().name(instance.chars().filter(|c| *c != '\0').take(15).collect()).spawn(move || {
            let library = load();
            // The caller may have given up.
            let _ = tell_loaded.send(library.as_ref().map(drop).map_err(Clone::clone));
            let Ok(library) = library else { return };
            let created = library.create(port, &envelope);
            if let Err(std::sync::mpsc::SendError(Ok(late))) = tell.send(created) {
                late.destroy(deadline);
            }
        });
    let instance = instance.to_owned();
    if let Err(error) = thread {
        return Err(LoadError::CreateFailed { instance, why: format!("the thread cannot be started: {error}") });
    }
    match loaded.recv_timeout(LOAD) {
        Ok(loaded) => loaded?,
        Err(_) => return Err(LoadError::CreateTimedOut { instance, deadline_ms: millis(LOAD) }),
    }
    match told.recv_timeout(deadline) {
        Ok(Ok(created)) => Ok(created),
        Ok(Err(why)) => Err(refused(instance, why, deadline, creating.how(sdk))),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            Err(LoadError::CreatePanicked { instance, why: "the thread that creates it ended".to_owned() })
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
            Err(LoadError::CreateTimedOut { instance, deadline_ms: millis(deadline) })
        }
    }
}

/// The failure of `create`. A panic or a late `new` is retried; a refusal waits for the operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    Panic,
    Late,
    Refused,
    /// The library uses SDK 1.0, which reports all failures by their sentence.
    Unsaid,
}

fn refused(instance: String, why: String, deadline: Duration, how: Failure) -> LoadError {
    // Errors of SDK 1.0 begin with the names of instance and adapter.
    let said = |words: &str| {
        let own = why.split_once("` of adapter `").and_then(|(_, rest)| rest.split_once("`: "));
        how == Failure::Unsaid && own.is_some_and(|(_, sentence)| sentence.starts_with(words))
    };
    if how == Failure::Panic || said("panic in `new`: ") {
        LoadError::CreatePanicked { instance, why }
    } else if how == Failure::Late || said("`new` did not return") {
        LoadError::CreateTimedOut { instance, deadline_ms: millis(deadline) }
    } else {
        LoadError::CreateFailed { instance, why }
    }
}

/// The host port of an instance under creation, which also receives the kind of a failure.
struct Creating {
    port: Arc<dyn HostPort>,
    failed: OnceLock<Failure>,
}

impl Creating {
    /// Returns the failure of `create`. A library of SDK 1.0 does not report it.
    fn how(&self, sdk: &str) -> Failure {
        let unsaid = if sdk.starts_with("1.0.") { Failure::Unsaid } else { Failure::Refused };
        self.failed.get().copied().unwrap_or(unsaid)
    }
}

impl HostPort for Creating {
    fn call(&self, method: &str, payload: Vec<u8>, reply: Reply) {
        if method != host_method::CREATE_FAILED {
            return self.port.call(method, payload, reply);
        }
        let code = serde_json::from_slice::<CallError>(&payload).map(|error| error.code).unwrap_or_default();
        let failure = match code.as_str() {
            "panic" => Failure::Panic,
            "late" => Failure::Late,
            _ => Failure::Refused,
        };
        // The first report counts.
        let _ = self.failed.set(failure);
        reply.send(status::OK, b"{}".to_vec());
    }

    fn log(&self, level: u8, target: &str, fields: &str) {
        self.port.log(level, target, fields);
    }

    fn max_level(&self) -> u8 {
        self.port.max_level()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// An instance inside this process.
pub(super) struct InProcess {
    instance: Arc<ForeignInstance>,
    next: AtomicU64,
}

impl InProcess {
    pub(super) fn new(instance: ForeignInstance) -> Self {
        Self { instance: Arc::new(instance), next: AtomicU64::new(1) }
    }
}

impl AdapterLink for InProcess {
    fn call(&self, method: &str, payload: Vec<u8>) -> PendingCall {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, answer) = oneshot::channel();
        self.instance.call(id, method, &payload, answered(tell));
        let instance = Arc::clone(&self.instance);
        PendingCall::new(id, answer, move |id| instance.cancel(id))
    }

    fn shutdown(&self, deadline: Duration) -> BoxFuture<'static, Answer> {
        let (tell, answer) = oneshot::channel();
        self.instance.shutdown(deadline, answered(tell));
        Box::pin(async move {
            match tokio::time::timeout(deadline, answer).await {
                Ok(Ok(answer)) => answer,
                _ => Answer::bare(status::DROPPED),
            }
        })
    }

    fn destroy(self: Arc<Self>, deadline: Duration) -> BoxFuture<'static, Destroyed> {
        let (tell, told) = oneshot::channel();
        let instance = Arc::clone(&self.instance);
        // A thread of its own: a library that ignores the deadline must not block a thread of the runtime.
        let thread = std::thread::Builder::new().name("adapter-destroy".to_owned()).spawn(move || {
            // The receiver may have given up; then the caller counts the instance as stuck.
            let _ = tell.send(instance.destroy(deadline));
        });
        Box::pin(async move {
            if thread.is_err() {
                return Destroyed::Stuck;
            }
            match tokio::time::timeout(deadline.saturating_add(DESTROY_GRACE), told).await {
                Ok(Ok(true)) => Destroyed::Joined,
                _ => Destroyed::Stuck,
            }
        })
    }

    fn closed(&self) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }

    fn heartbeat(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }

    fn isolation(&self) -> Isolation {
        Isolation::InProcess
    }
}

fn answered(tell: oneshot::Sender<Answer>) -> Reply {
    Reply::new(move |status, payload| {
        // If the receiver is gone, the caller has cancelled.
        let _ = tell.send(Answer { status, payload });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(why: &str, how: Failure) -> &'static str {
        refused("one".to_owned(), why.to_owned(), Duration::ZERO, how).code()
    }

    #[test]
    fn a_sentence_of_the_adapter_is_not_taken_for_a_panic() {
        let own = "instance `one` of adapter `x`: panic in `new`: the key `panic` is wrong";
        assert_eq!(code(own, Failure::Refused), "create_failed");
        assert_eq!(code(own, Failure::Panic), "create_panicked");
        assert_eq!(code("anything", Failure::Late), "create_timed_out");
        // For a library of SDK 1.0 only the position of the words decides.
        assert_eq!(code(own, Failure::Unsaid), "create_panicked");
        let within = "instance `one` of adapter `x`: the motto `panic in `new`: x` is too long";
        assert_eq!(code(within, Failure::Unsaid), "create_failed");
    }
}

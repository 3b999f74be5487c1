//! The host, from the view of one instance.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_adapter_abi::{Status, status};
use hermes_protocol::{
    Announce, CallError, Emitted, Event, HostInfo, LinkState, LinkWord, MediaCreate, MediaSlot, host_method,
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;

use crate::state::InstanceState;

/// The host's functions for an adapter. Cheap to clone; all clones belong to one instance.
#[derive(Clone)]
pub struct Host {
    state: Arc<InstanceState>,
}

impl Host {
    pub(crate) fn new(state: Arc<InstanceState>) -> Self {
        Self { state }
    }

    /// Returns the name of this instance.
    pub fn instance(&self) -> &str {
        self.state.instance()
    }

    /// Returns facts about the host.
    pub fn info(&self) -> &HostInfo {
        self.state.info()
    }

    /// Hands an event to the host. Returns after the host has committed the event. Only
    /// then may the adapter move an offset or acknowledge. The wait also provides
    /// back-pressure.
    ///
    /// # Errors
    ///
    /// If the host did not accept the event; it may be emitted again.
    pub async fn emit(&self, event: &Event) -> Result<Emitted, CallError> {
        self.call(host_method::EMIT, event).await
    }

    /// Returns the store of small values that survive restarts, such as offsets and cursors.
    pub fn kv(&self) -> Kv<'_> {
        Kv { host: self }
    }

    /// Returns the folder for this instance's own files, such as a database or a session of the platform's library.
    /// The folder exists, only the host's user can access it, and it survives restarts and updates. Small values
    /// belong in [`Host::kv`].
    ///
    /// `None` if the host is older than 1.1. Since 1.1.
    pub fn data_dir(&self) -> Option<&Path> {
        self.state.data_dir()
    }

    /// Returns the store of incoming files.
    pub fn media(&self) -> Media<'_> {
        Media { host: self }
    }

    /// Reads a secret of this instance's configuration.
    ///
    /// # Errors
    ///
    /// `not_found` if no secret has this name.
    pub async fn secret(&self, name: &str) -> Result<String, CallError> {
        let value: HeldValue = self.call(host_method::SECRET, &json!({ "name": name })).await?;
        value.value.ok_or_else(|| CallError::new("not_found", format!("unknown secret `{name}`")))
    }

    /// Reports the state of the link, for a library that reconnects itself.
    pub fn link(&self, state: LinkWord, reason: impl Into<String>) {
        self.tell(host_method::LINK, &LinkState::new(state, reason));
    }

    /// Reports that a round trip with data has just succeeded. Call it after every one.
    pub fn proved(&self) {
        self.tell(host_method::PROVED, &json!({}));
    }

    /// Announces an address for the start-up output and `status`.
    pub fn announce(&self, label: impl Into<String>, url: impl Into<String>) {
        self.tell(host_method::ANNOUNCE, &Announce::new(label, url));
    }

    /// Adds `value` to the metric `name`.
    pub fn metric(&self, name: &str, value: f64) {
        self.tell(host_method::METRIC, &json!({ "name": name, "value": value }));
    }

    /// Claims a credential, so that no other instance uses the same account. `identity` identifies the
    /// account and is never the secret itself.
    ///
    /// # Errors
    ///
    /// `credential_in_use` if another instance holds it. [`ConnectError::not_locked`] decides which errors
    /// are worth a retry.
    ///
    /// [`ConnectError::not_locked`]: hermes_protocol::ConnectError::not_locked
    pub async fn lock_credential(&self, identity: &str) -> Result<(), CallError> {
        self.call::<IgnoredAny>(host_method::LOCK_CREDENTIAL, &json!({ "identity": identity })).await.map(drop)
    }

    /// Calls a host method by name, for the methods in the manifest's `uses`.
    ///
    /// # Errors
    ///
    /// The host's error, `unsupported` for an unknown method, `busy` if the host has too
    /// many calls of this instance, `invalid` if the answer has another structure.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, payload: &impl Serialize) -> Result<T, CallError> {
        let payload = serde_json::to_vec(payload).map_err(|error| {
            CallError::new("invalid", format!("the payload of `{method}` cannot be serialized as JSON: {error}"))
        })?;
        let (answered, answer) = oneshot::channel();
        let on_answer = move |status, payload| {
            // The caller may have stopped waiting for the answer.
            let _ = answered.send((status, payload));
        };
        self.state.host().call(method, &payload, Box::new(on_answer));
        match answer.await {
            Ok((status::OK, payload)) => serde_json::from_slice(&payload).map_err(|error| {
                CallError::new("invalid", format!("the answer of the host to `{method}` cannot be parsed: {error}"))
            }),
            Ok((status, payload)) => Err(refusal(method, status, &payload)),
            Err(_) => Err(CallError::new("unavailable", format!("the host dropped `{method}`"))),
        }
    }

    /// Waits until the instance is shut down.
    pub async fn cancelled(&self) {
        self.state.stopping().cancelled().await;
    }

    /// Returns whether the instance is being shut down.
    pub fn is_cancelled(&self) -> bool {
        self.state.stopping().is_cancelled()
    }

    /// Runs `work` on the instance's runtime until it ends or the instance ends. A panic in
    /// it poisons the instance, like a panic in a call.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.state.spawn(Box::pin(work));
    }

    /// Returns the current time in milliseconds since the Unix epoch, for events without a time from the platform.
    #[expect(clippy::disallowed_methods, reason = "an adapter has no clock but the system's")]
    pub fn now_ms(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
    }

    /// Calls a method without waiting for an answer. Never blocks.
    fn tell(&self, method: &str, payload: &impl Serialize) {
        if let Ok(payload) = serde_json::to_vec(payload) {
            self.state.host().call(method, &payload, Box::new(|_, _| {}));
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("instance", &self.instance()).finish_non_exhaustive()
    }
}

/// Returns the error for a status other than OK.
fn refusal(method: &str, status: Status, payload: &[u8]) -> CallError {
    if let Ok(error) = serde_json::from_slice(payload) {
        return error;
    }
    let (code, why) = match status {
        status::UNSUPPORTED => ("unsupported", "this host does not support the method"),
        status::BUSY => ("busy", "this instance has too many open calls to the host"),
        status::DROPPED => ("unavailable", "the host ended the call without an answer"),
        _ => ("unavailable", "the host failed to answer"),
    };
    CallError::new(code, format!("`{method}`: {why}"))
}

/// `{"value": …}`
#[derive(Deserialize)]
struct HeldValue {
    #[serde(default)]
    value: Option<String>,
}

/// The store of one instance's small values, which survive restarts.
#[derive(Clone, Copy, Debug)]
pub struct Kv<'h> {
    host: &'h Host,
}

impl Kv<'_> {
    /// Reads the value of `key`.
    ///
    /// # Errors
    ///
    /// If the host cannot read it.
    pub async fn get(&self, key: &str) -> Result<Option<String>, CallError> {
        let held: HeldValue = self.host.call(host_method::KV_GET, &json!({ "key": key })).await?;
        Ok(held.value)
    }

    /// Writes a value of at most 64 KiB; returns after it is committed.
    ///
    /// # Errors
    ///
    /// If the host cannot write it.
    pub async fn set(&self, key: &str, value: &str) -> Result<(), CallError> {
        self.host.call::<IgnoredAny>(host_method::KV_SET, &json!({ "key": key, "value": value })).await.map(drop)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// If the host cannot write.
    pub async fn delete(&self, key: &str) -> Result<(), CallError> {
        self.host.call::<IgnoredAny>(host_method::KV_DELETE, &json!({ "key": key })).await.map(drop)
    }
}

/// The store of incoming files: call [`create`](Media::create), write the file, call
/// [`commit`](Media::commit), then name the id in the event.
#[derive(Clone, Copy, Debug)]
pub struct Media<'h> {
    host: &'h Host,
}

impl Media<'_> {
    /// Reserves a path for a file.
    ///
    /// # Errors
    ///
    /// If the file is too large or the host has no space.
    pub async fn create(&self, file: MediaCreate) -> Result<MediaSlot, CallError> {
        self.host.call(host_method::MEDIA_CREATE, &file).await
    }

    /// Commits a file after it is written.
    ///
    /// # Errors
    ///
    /// If the file differs from its announcement.
    pub async fn commit(&self, id: &str) -> Result<MediaInfo, CallError> {
        self.host.call(host_method::MEDIA_COMMIT, &json!({ "id": id })).await
    }
}

/// The host's facts about a committed file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct MediaInfo {
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 hash in hexadecimal.
    #[serde(default)]
    pub sha256: String,
}

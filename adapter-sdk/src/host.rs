//! The host, as one instance sees it.

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

use crate::instance::Core;

/// The way back to the host. Cheap to clone; all clones speak for one instance.
#[derive(Clone)]
pub struct Host {
    core: Arc<Core>,
}

impl Host {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Name of this instance.
    pub fn instance(&self) -> &str {
        self.core.instance()
    }

    /// What is known about the host.
    pub fn info(&self) -> &HostInfo {
        self.core.info()
    }

    /// Hands an event over. Returns once the host has committed it: that is the
    /// permission to move an offset or to acknowledge, and the back-pressure.
    ///
    /// # Errors
    ///
    /// When the host did not take the event; it may be emitted again.
    pub async fn emit(&self, event: &Event) -> Result<Emitted, CallError> {
        self.call(host_method::EMIT, event).await
    }

    /// Small values that survive restarts: offsets, cursors.
    pub fn kv(&self) -> Kv<'_> {
        Kv { host: self }
    }

    /// Returns the folder in which this instance keeps its own files: a database, a session of its platform's library.
    /// It exists, only the host's user can enter it, and it outlives restarts and updates. Small values belong into
    /// [`Host::kv`].
    ///
    /// `None` where the host is older than 1.1. Since 1.1.
    pub fn data_dir(&self) -> Option<&Path> {
        self.core.data_dir()
    }

    /// Files that came in.
    pub fn media(&self) -> Media<'_> {
        Media { host: self }
    }

    /// Reads a secret of this instance's configuration.
    ///
    /// # Errors
    ///
    /// `not_found` when there is none of this name.
    pub async fn secret(&self, name: &str) -> Result<String, CallError> {
        let value: HeldValue = self.call(host_method::SECRET, &json!({ "name": name })).await?;
        value.value.ok_or_else(|| CallError::new("not_found", format!("there is no secret `{name}`")))
    }

    /// Reports the link, for a library that reconnects itself.
    pub fn link(&self, state: LinkWord, reason: impl Into<String>) {
        self.tell(host_method::LINK, &LinkState::new(state, reason));
    }

    /// Says that a data-carrying round trip just worked. Say it on every one.
    pub fn proved(&self) {
        self.tell(host_method::PROVED, &json!({}));
    }

    /// Gives the operator a line for start-up and `status`.
    pub fn announce(&self, label: impl Into<String>, url: impl Into<String>) {
        self.tell(host_method::ANNOUNCE, &Announce::new(label, url));
    }

    /// Counts something.
    pub fn metric(&self, name: &str, value: f64) {
        self.tell(host_method::METRIC, &json!({ "name": name, "value": value }));
    }

    /// Claims a credential, so that no other instance uses the same account.
    /// `identity` names the account, never the secret itself.
    ///
    /// # Errors
    ///
    /// `credential_in_use` when another instance holds it; [`ConnectError::not_locked`] knows what is worth
    /// another try.
    ///
    /// [`ConnectError::not_locked`]: hermes_protocol::ConnectError::not_locked
    pub async fn lock_credential(&self, identity: &str) -> Result<(), CallError> {
        self.call::<IgnoredAny>(host_method::LOCK_CREDENTIAL, &json!({ "identity": identity })).await.map(drop)
    }

    /// Calls a host method by name, for those named in the manifest's `uses`.
    ///
    /// # Errors
    ///
    /// The host's own, `unsupported` for a method it does not have, `busy` when it
    /// has too many calls of this instance, `invalid` when the answer has another shape.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, payload: &impl Serialize) -> Result<T, CallError> {
        let payload = serde_json::to_vec(payload)
            .map_err(|error| CallError::new("invalid", format!("`{method}` cannot be written as JSON: {error}")))?;
        let (answered, answer) = oneshot::channel();
        self.core.side().call(method, &payload, move |status, payload| {
            // A caller that is gone does not wait for the answer.
            let _ = answered.send((status, payload));
        });
        match answer.await {
            Ok((status::OK, payload)) => serde_json::from_slice(&payload)
                .map_err(|error| CallError::new("invalid", format!("the host's answer to `{method}`: {error}"))),
            Ok((status, payload)) => Err(refusal(method, status, &payload)),
            Err(_) => Err(CallError::new("unavailable", format!("the host dropped `{method}`"))),
        }
    }

    /// Waits until the instance is asked to end.
    pub async fn cancelled(&self) {
        self.core.stopping().cancelled().await;
    }

    /// Whether the instance is asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.core.stopping().is_cancelled()
    }

    /// Runs `work` on the instance's own runtime until it is done or the instance
    /// ends. A panic in it poisons the instance, as one in a call does.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.core.spawn(Box::pin(work));
    }

    /// The time, in milliseconds since the Unix epoch, for what a platform does not date.
    #[expect(clippy::disallowed_methods, reason = "an adapter has no clock but the system's")]
    pub fn now_ms(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
    }

    /// Calls without waiting for an answer. Never blocks.
    fn tell(&self, method: &str, payload: &impl Serialize) {
        if let Ok(payload) = serde_json::to_vec(payload) {
            self.core.side().call(method, &payload, |_, _| {});
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("instance", &self.instance()).finish_non_exhaustive()
    }
}

/// The error behind a status that is not OK.
fn refusal(method: &str, status: Status, payload: &[u8]) -> CallError {
    if let Ok(error) = serde_json::from_slice(payload) {
        return error;
    }
    let (code, why) = match status {
        status::UNSUPPORTED => ("unsupported", "this host has no such method"),
        status::BUSY => ("busy", "the host has too many calls of this instance"),
        status::DROPPED => ("unavailable", "the host ended the call without an answer"),
        _ => ("unavailable", "the host could not answer"),
    };
    CallError::new(code, format!("`{method}`: {why}"))
}

/// `{"value": …}`
#[derive(Deserialize)]
struct HeldValue {
    #[serde(default)]
    value: Option<String>,
}

/// Small values of one instance that survive restarts.
#[derive(Clone, Copy, Debug)]
pub struct Kv<'h> {
    host: &'h Host,
}

impl Kv<'_> {
    /// Reads the value under `key`.
    ///
    /// # Errors
    ///
    /// When the host cannot read it.
    pub async fn get(&self, key: &str) -> Result<Option<String>, CallError> {
        let held: HeldValue = self.host.call(host_method::KV_GET, &json!({ "key": key })).await?;
        Ok(held.value)
    }

    /// Writes at most 64 KiB under `key`; returns once it is committed.
    ///
    /// # Errors
    ///
    /// When the host cannot write it.
    pub async fn set(&self, key: &str, value: &str) -> Result<(), CallError> {
        self.host.call::<IgnoredAny>(host_method::KV_SET, &json!({ "key": key, "value": value })).await.map(drop)
    }

    /// Forgets `key`.
    ///
    /// # Errors
    ///
    /// When the host cannot write.
    pub async fn delete(&self, key: &str) -> Result<(), CallError> {
        self.host.call::<IgnoredAny>(host_method::KV_DELETE, &json!({ "key": key })).await.map(drop)
    }
}

/// Files that came in: [`create`](Media::create), write the file, [`commit`](Media::commit),
/// then name the id in the event.
#[derive(Clone, Copy, Debug)]
pub struct Media<'h> {
    host: &'h Host,
}

impl Media<'_> {
    /// Asks for a place to write a file to.
    ///
    /// # Errors
    ///
    /// When the file is too large or the host has no room.
    pub async fn create(&self, file: MediaCreate) -> Result<MediaSlot, CallError> {
        self.host.call(host_method::MEDIA_CREATE, &file).await
    }

    /// Says that the file is written.
    ///
    /// # Errors
    ///
    /// When the file is not what was announced.
    pub async fn commit(&self, id: &str) -> Result<MediaInfo, CallError> {
        self.host.call(host_method::MEDIA_COMMIT, &json!({ "id": id })).await
    }
}

/// What the host found when a file was committed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct MediaInfo {
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    #[serde(default)]
    pub sha256: String,
}

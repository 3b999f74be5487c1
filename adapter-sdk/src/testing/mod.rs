//! A host in the test's own process (feature `testing`).
//!
//! [`MockHost`] loads an adapter type through the same vtables as hermes-host does, so a
//! test observes the same statuses, bytes and deadlines. The mock records the adapter's calls and
//! answers the host methods that an adapter may use. All waits have a deadline and block
//! the calling thread. A test that also simulates a platform on tokio uses a multi-thread
//! runtime, or awaits a [`Pending`].
//!
//! ```
//! use hermes_adapter_sdk::prelude::*;
//! use hermes_adapter_sdk::testing::MockHost;
//!
//! #[derive(AdapterConfig)]
//! struct Config {}
//! struct Parrot;
//!
//! impl Adapter for Parrot {
//!     const MANIFEST: Manifest = manifest! { id: "parrot", label: "Parrot" };
//!     type Config = Config;
//!     fn new(_: Config, _: Host) -> Self { Self }
//!     async fn connect(&self) -> Result<(), ConnectError> { Ok(()) }
//!     async fn send(&self, message: Outgoing) -> SendOutcome { SendOutcome::delivered(message.text, 0) }
//! }
//! hermes_adapter_sdk::test_adapter!(Parrot); // an adapter's own crate has `export_adapter!(Parrot);`
//!
//! let host = MockHost::start::<Parrot>(serde_json::json!({})).expect("it starts");
//! host.connect().expect("it connects");
//! let outcome = host.send(&Outgoing::text(Chat::dm("1"), "hello"));
//! assert_eq!(outcome, SendOutcome::delivered("hello", 0));
//! ```

mod board;
mod conformance;
mod pending;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_protocol::{
    CallError, ConnectError, Envelope, Event, HostInfo, Outgoing, ProxySettings, SDK_VERSION, SendOutcome, method,
};
use serde::Serialize;
use serde_json::{Value, json};

use self::board::Board;
pub use self::board::{HostCall, LogLine};
pub use self::conformance::{certify, conformance};
pub use self::pending::{CallAnswer, Pending};
use crate::dispatch::Exported;
use crate::export::{self, MockInstance};

pub use hermes_adapter_abi::status;

/// The maximum wait of a test.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The settings of a [`MockHost`].
pub struct Setup {
    instance: String,
    features: Vec<String>,
    data_dir: Option<PathBuf>,
    proxy: ProxySettings,
    board: Board,
}

impl Setup {
    /// Adds a feature of the host.
    #[must_use]
    pub fn feature(mut self, feature: &str) -> Self {
        self.features.push(feature.to_owned());
        self
    }

    /// Records log records up to `level` (1 error to 5 trace); the default is 5.
    #[must_use]
    pub fn max_level(mut self, level: u8) -> Self {
        self.board.set_max_level(level);
        self
    }

    /// Sets the secret `name`.
    #[must_use]
    pub fn secret(self, name: &str, value: &str) -> Self {
        self.board.set_secret(name, value);
        self
    }

    /// Answers a host method with `with` instead of the mock's own answer.
    #[must_use]
    pub fn answer(
        self,
        method: &str,
        with: impl Fn(&Value) -> Result<Value, CallError> + Send + Sync + 'static,
    ) -> Self {
        self.board.set_answer(method, Box::new(with));
        self
    }

    /// Leaves calls of a host method unanswered.
    #[must_use]
    pub fn hold(self, method: &str) -> Self {
        self.board.set_held(method);
        self
    }

    /// Sets the folder in which `media.create` creates files.
    #[must_use]
    pub fn media_dir(self, dir: impl Into<PathBuf>) -> Self {
        self.board.set_media_dir(dir.into());
        self
    }

    /// Sets the folder that [`Host::data_dir`](crate::Host::data_dir) returns. By default there is none, as with a host
    /// of 1.0. Since 1.1.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// Names the proxies of [`HostInfo::proxy`] for the instance. Since 1.1.
    #[must_use]
    pub fn proxy(mut self, proxy: ProxySettings) -> Self {
        self.proxy = proxy;
        self
    }

    /// Creates the instance.
    ///
    /// # Errors
    ///
    /// The adapter's error.
    pub fn start<A: Exported>(self, config: Value) -> Result<MockHost, String> {
        let mut info = HostInfo::new(SDK_VERSION, self.features);
        info.proxy = self.proxy;
        let mut envelope = Envelope::new(info, self.instance, config);
        envelope.data_dir = self.data_dir.map(|dir| dir.display().to_string());
        let envelope = serde_json::to_vec(&envelope).expect("an envelope is JSON");
        let board = Arc::new(self.board);
        let loaded = export::create::<A>(Arc::clone(&board) as Arc<dyn export::MockPort>, &envelope)?;
        Ok(MockHost { board, loaded: Arc::new(loaded), ids: AtomicU64::new(1), manifest: export::manifest::<A>() })
    }
}

/// A host with one instance. Dropping it ends the instance.
pub struct MockHost {
    board: Arc<Board>,
    loaded: Arc<MockInstance>,
    ids: AtomicU64,
    manifest: String,
}

impl MockHost {
    /// Starts instance `test` of `A` with this configuration.
    ///
    /// # Errors
    ///
    /// The adapter's error.
    pub fn start<A: Exported>(config: Value) -> Result<Self, String> {
        Self::setup("test").start::<A>(config)
    }

    /// Returns the settings of an instance with this name.
    pub fn setup(instance: &str) -> Setup {
        let (features, proxy) = (Vec::new(), ProxySettings::default());
        Setup { instance: instance.to_owned(), features, data_dir: None, proxy, board: Board::default() }
    }

    /// Returns the JSON Schema of the configuration of `A`.
    pub fn config_schema<A: Exported>() -> Value {
        serde_json::from_str(&export::config_schema::<A>()).expect("the SDK writes JSON")
    }

    /// Lets `A` check a configuration without creating an instance of it.
    ///
    /// # Errors
    ///
    /// The sentence that `hermes-host config check` shows.
    pub fn check_config<A: Exported>(config: &Value) -> Result<(), String> {
        match export::check_config::<A>(config.to_string().as_bytes()) {
            sentence if sentence.is_empty() => Ok(()),
            sentence => Err(sentence),
        }
    }

    /// Returns the manifest, as `manifest()` returns it.
    pub fn manifest(&self) -> &str {
        &self.manifest
    }

    /// Calls a method. Dropping the [`Pending`] cancels the call.
    pub fn call(&self, method: &str, payload: &impl Serialize) -> Pending {
        self.call_bytes(method, &serde_json::to_vec(payload).expect("a test's payload is JSON"))
    }

    /// Calls a method with a raw payload.
    pub fn call_bytes(&self, method: &str, payload: &[u8]) -> Pending {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let pending = Pending::new(method, Some((Arc::clone(&self.loaded), id)));
        self.loaded.call(id, method, payload, pending.filler());
        pending
    }

    /// Calls `connect`.
    ///
    /// # Errors
    ///
    /// The adapter's error.
    ///
    /// # Panics
    ///
    /// If the call ends with another status.
    pub fn connect(&self) -> Result<(), ConnectError> {
        let answer = self.call(method::CONNECT, &json!({})).wait();
        match answer.status {
            status::OK => Ok(()),
            status::ERR => Err(answer.json()),
            _ => panic!("connect ended with {answer:?}"),
        }
    }

    /// Calls `run`; the call continues until the [`Pending`] is dropped.
    pub fn run(&self) -> Pending {
        self.call(method::RUN, &json!({}))
    }

    /// Calls `send`.
    ///
    /// # Panics
    ///
    /// If the call does not end with status OK.
    pub fn send(&self, outgoing: &Outgoing) -> SendOutcome {
        self.call(method::SEND, outgoing).wait().ok()
    }

    /// Returns all emitted events.
    pub fn emitted(&self) -> Vec<Event> {
        self.board.emitted()
    }

    /// Waits for the next event that was not taken yet.
    ///
    /// # Panics
    ///
    /// If no event arrives within [`PATIENCE`].
    pub fn next_event(&self) -> Event {
        let payload = self.next_host_call("emit");
        serde_json::from_value(payload).expect("an adapter emits events")
    }

    /// Waits for the next call of a host method that was not taken yet, and returns its payload.
    ///
    /// # Panics
    ///
    /// If no call arrives within [`PATIENCE`].
    pub fn next_host_call(&self, method: &str) -> Value {
        let call = self.board.take_call(Some(method), PATIENCE);
        call.unwrap_or_else(|| panic!("the adapter did not call `{method}`")).payload
    }

    /// Returns all host calls.
    pub fn host_calls(&self) -> Vec<HostCall> {
        self.board.calls()
    }

    /// Returns all log records.
    pub fn logs(&self) -> Vec<LogLine> {
        self.board.logs()
    }

    /// Waits for a log record whose message contains `text`.
    ///
    /// # Panics
    ///
    /// If no record arrives within [`PATIENCE`].
    pub fn wait_log(&self, text: &str) -> LogLine {
        self.board.wait_log(text, PATIENCE).unwrap_or_else(|| panic!("no log record says `{text}`"))
    }

    /// Returns the value that the adapter stored under `key`.
    pub fn kv(&self, key: &str) -> Option<String> {
        self.board.kv(key)
    }

    /// Shuts the instance down.
    pub fn shutdown(&self, deadline: Duration) -> Pending {
        let pending = Pending::new("shutdown", None);
        self.loaded.shutdown(deadline, pending.filler());
        pending
    }

    /// Destroys the instance; returns `false` if it is stuck. A second call has no effect.
    pub fn destroy(&self, deadline: Duration) -> bool {
        self.loaded.destroy(deadline) == 0
    }

    /// Returns whether the adapter has released its host handle.
    pub fn is_released(&self) -> bool {
        self.board.is_released()
    }

    pub(crate) fn take_call(&self, deadline: Duration) -> Option<HostCall> {
        self.board.take_call(None, deadline)
    }
}

impl Drop for MockHost {
    fn drop(&mut self) {
        self.destroy(PATIENCE);
    }
}

/// Runs the conformance list on an adapter, as a test: `conformance!(MyAdapter);` or, with a
/// sample configuration, `conformance!(MyAdapter, { "token": "1:x" });`.
#[macro_export]
macro_rules! conformance {
    ($adapter:ty) => {
        $crate::conformance!($adapter, {});
    };
    ($adapter:ty, $config:tt) => {
        #[test]
        fn the_adapter_passes_conformance() {
            $crate::testing::conformance::<$adapter>($crate::serde_json::json!($config));
        }
    };
}

/// Runs all conformance cases on an adapter with its stage, as a test: `certify!(MyAdapter);` reads
/// `testdata/certify.toml` next to the adapter's `Cargo.toml`.
#[macro_export]
macro_rules! certify {
    ($adapter:ty) => {
        #[test]
        fn the_adapter_passes_conformance_with_its_stage() {
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/certify.toml");
            $crate::testing::certify::<$adapter>(&file);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[derive(AdapterConfig)]
    struct Config {
        stillborn: bool,
    }

    struct Infant;

    impl Adapter for Infant {
        const MANIFEST: Manifest = manifest! { id: "infant", label: "Infant" };
        type Config = Config;

        fn new(config: Config, _: Host) -> Self {
            assert!(!config.stillborn, "stillborn");
            Self
        }

        async fn connect(&self) -> Result<(), ConnectError> {
            Ok(())
        }

        async fn send(&self, _: Outgoing) -> SendOutcome {
            SendOutcome::unknown("")
        }
    }

    crate::test_adapter!(Infant);

    #[test]
    fn a_failed_create_gives_the_hosts_handle_back() {
        for config in [json!({}), json!({ "stillborn": true })] {
            let board = Arc::new(Board::default());
            let envelope = json!({ "host": { "sdk": SDK_VERSION }, "instance": "x", "config": config }).to_string();
            let made = export::create::<Infant>(Arc::clone(&board) as Arc<dyn export::MockPort>, envelope.as_bytes());
            assert!(made.is_err());
            assert!(board.is_released());
        }
    }

    #[test]
    fn the_exported_name_is_the_one_that_abi_stable_looks_for() {
        let name = abi_stable::library::ROOT_MODULE_LOADER_NAME;
        assert_eq!(name, "_1as_0lib_1header_0root_bmodule_bloader");
    }
}

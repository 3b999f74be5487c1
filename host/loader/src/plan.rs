//! The interface of this module: the plans it runs, the events it reports, and the services it calls.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hermes_core::limits::HOST_CALLS_IN_FLIGHT_MAX;
use hermes_protocol::{CallError, ProxySettings};
use serde::Serialize;
use serde_json::Value;

use super::{AdapterHandle, AdapterState, IsolationChoice, SearchPath, Watch, sandbox::Ground, user};
use hermes_core::clock::Clock;
use hermes_system::clock::SystemClock;

/// The configuration of one instance.
#[derive(Clone, PartialEq)]
pub struct AdapterPlan {
    /// Name of the instance; session keys contain it.
    pub instance: String,
    /// Id of the plugin.
    pub plugin: String,
    /// The adapter's own keys with resolved secrets.
    pub config: Value,
    /// Values that must not appear in any log.
    pub secrets: Vec<String>,
    /// The place where it runs.
    pub isolation: IsolationChoice,
    /// `false` if the operator disabled it.
    pub enabled: bool,
    /// `true` if the adapter's proofs about its senders count.
    pub trust_upstream: bool,
    /// Host methods granted in addition to those of a trusted instance.
    pub granted: BTreeSet<String>,
    /// The proxies for its outgoing connections.
    pub proxy: ProxySettings,
    /// The program and its arguments, if a program that speaks frames replaces the library.
    pub command: Option<Vec<String>>,
    /// The working folder of that program: the folder of the file that names it. `None`: the working folder of the
    /// host.
    pub folder: Option<PathBuf>,
}

impl AdapterPlan {
    /// Creates the plan of an enabled instance of `plugin` with defaults for everything else.
    pub fn new(instance: impl Into<String>, plugin: impl Into<String>, config: Value) -> Self {
        Self {
            instance: instance.into(),
            plugin: plugin.into(),
            config,
            secrets: Vec::new(),
            isolation: IsolationChoice::Auto,
            enabled: true,
            trust_upstream: false,
            granted: BTreeSet::new(),
            proxy: ProxySettings::default(),
            command: None,
            folder: None,
        }
    }
}

impl std::fmt::Debug for AdapterPlan {
    /// Leaves out `config` and `secrets`, which hold credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterPlan")
            .field("instance", &self.instance)
            .field("plugin", &self.plugin)
            .field("isolation", &self.isolation)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// An event about adapters for the dispatcher.
#[derive(Clone, Debug)]
pub enum AdapterEvent {
    /// An instance changed its state.
    State {
        /// The instance.
        instance: Arc<str>,
        /// The new state.
        state: AdapterState,
    },
    /// A new incarnation has its first link: its outbox lanes may send.
    Ready {
        /// The instance.
        instance: Arc<str>,
    },
    /// A line for start-up and `status`.
    Announced {
        /// The instance.
        instance: Arc<str>,
        /// The label.
        label: String,
        /// The URL.
        url: String,
    },
}

/// The host methods that `plugins` does not answer itself.
pub trait HostServices: Send + Sync + 'static {
    /// Answers one call of `from`. The error code `unsupported` means that the method does not exist.
    fn call(
        &self,
        from: &AdapterHandle,
        method: &str,
        payload: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, CallError>>;

    /// Reports that `from` locked a credential. `is_first`: its current incarnation held none before. The adapter gets
    /// its answer after this call.
    fn locked(
        &self,
        from: &AdapterHandle,
        identity: String,
        is_first: bool,
    ) -> BoxFuture<'static, Result<(), CallError>> {
        let _ = (from, identity, is_first);
        Box::pin(async { Ok(()) })
    }
}

/// One line of `status.adapters`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdapterStatus {
    /// Name of the instance, or the id of an available file.
    pub name: String,
    /// Id of the plugin.
    pub plugin: String,
    /// Version of the plugin; empty while unknown.
    pub version: String,
    /// `in-process` or `process`; empty while no instance runs.
    pub isolation: &'static str,
    /// The sandbox restrictions of its process in words; `None` inside the host and while no instance runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// The word for its state; `available` for a file without a section.
    pub state: String,
    /// Start of this state, in milliseconds since the Unix epoch.
    pub since: i64,
    /// The reason for the state, and the fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The stable code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Time of the next attempt, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try: Option<i64>,
    /// Time of the last round trip that carried data, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_proven: Option<i64>,
    /// Count of parts that wait for it; set by the outbox.
    pub held: u64,
    /// Its delivery class.
    pub guarantee: String,
    /// Its announcements: label and URL.
    pub announced: Vec<(String, String)>,
    /// Count of the times that the instance died or was recreated in this run of the host.
    pub restarts: u64,
    /// `true` if roles of the platform are ignored because `trust_upstream` is not set.
    pub upstream_ignored: bool,
}

/// Limits and folders. Every wait has a named setting.
#[derive(Clone)]
pub struct AdapterSettings {
    /// The home folder.
    pub home: PathBuf,
    /// The folders that are searched for libraries.
    pub search: SearchPath,
    /// The meaning of `auto`; [`IsolationChoice::Auto`] is the rule by folder.
    pub isolation: IsolationChoice,
    /// `true` if accepted hashes are enforced.
    pub pin: bool,
    /// The command that runs a library in a child; the file is appended. Default: this executable, `adapter-runner`.
    pub runner: Vec<OsString>,
    /// Deadline of the short-lived child that opens a library first.
    pub probe: Duration,
    /// Deadline of `create`.
    pub create: Duration,
    /// Deadline of `connect`.
    pub connect: Duration,
    /// Deadline of `send`, `edit` and `lookup`.
    pub send: Duration,
    /// Deadline of a hint.
    pub hint: Duration,
    /// Deadline of `disconnect` and of `destroy`.
    pub end: Duration,
    /// First wait of the backoff.
    pub backoff_first: Duration,
    /// Longest wait of the backoff.
    pub backoff_max: Duration,
    /// Concurrent host calls of one instance.
    pub host_calls_max: usize,
    /// Silence after which an instance is asked for its health, unless its manifest sets another time.
    pub ask_after: Duration,
    /// Deadline of `health`.
    pub health: Duration,
    /// Interval of the heartbeat of a child process.
    pub heartbeat: Duration,
    /// Delay of a heartbeat after which the state of the instance shows it.
    pub late: Duration,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// The user's runtime folder for credential locks. `None`: they are stored in the user's home directory.
    pub runtime_dir: Option<PathBuf>,
    /// Environment variables of a child, with their values.
    pub child_env: Vec<(OsString, OsString)>,
    /// `true` if a crash of this process leaves a note for the next start.
    pub last_words: bool,
    /// `true` if a child gives up files, ports and system calls that it does not need, as far as the kernel supports
    /// it.
    pub confine: bool,
    /// The observer of calls; `None` by default.
    pub watch: Option<Watch>,
    /// Instances that run in a process of their own regardless of their section, because the previous run of the host
    /// ended while they were delivering.
    pub isolated: BTreeSet<String>,
    /// Files that no child may read, in addition to the private files of the home: the sources of configured secrets.
    pub private: Vec<PathBuf>,
    /// Instances that may open Unix sockets although they are sandboxed.
    pub unix_sockets: BTreeSet<String>,
    /// The home directory of the user, by the password database.
    pub user_home: Option<PathBuf>,
}

impl AdapterSettings {
    /// Creates the defaults for this home and these folders.
    pub fn new(home: impl Into<PathBuf>, search: SearchPath) -> Self {
        let runner = std::env::current_exe().map(|exe| vec![exe.into_os_string(), "adapter-runner".into()]);
        Self {
            home: home.into(),
            search,
            isolation: IsolationChoice::Auto,
            isolated: BTreeSet::new(),
            pin: true,
            // Without the path of this executable no child can start; the spawn then reports it.
            runner: runner.unwrap_or_default(),
            probe: Duration::from_secs(15),
            create: Duration::from_secs(1),
            connect: Duration::from_secs(30),
            send: Duration::from_secs(60),
            hint: Duration::from_secs(10),
            end: Duration::from_secs(5),
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(300),
            host_calls_max: HOST_CALLS_IN_FLIGHT_MAX,
            ask_after: Duration::from_secs(60),
            // Longer than an adapter waits for its platform, so that the adapter reports the loss.
            health: Duration::from_secs(45),
            heartbeat: Duration::from_secs(5),
            late: Duration::from_secs(3),
            clock: Arc::new(SystemClock),
            runtime_dir: None,
            child_env: Vec::new(),
            last_words: false,
            confine: true,
            watch: None,
            private: Vec::new(),
            unix_sockets: BTreeSet::new(),
            user_home: user::home(),
        }
    }

    /// Returns the inputs for the decision what a child may access.
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground {
            home: &self.home,
            user_home: self.user_home.as_deref(),
            private: &self.private,
            env: &self.child_env,
            unix_sockets: &self.unix_sockets,
        }
    }
}

impl std::fmt::Debug for AdapterSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterSettings")
            .field("home", &self.home)
            .field("search", &self.search)
            .finish_non_exhaustive()
    }
}

//! What the operator wants to run, what the rest of the host is told, and what it is asked.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hermes_core::limits::HOST_CALLS_IN_FLIGHT_MAX;
use hermes_protocol::{CallError, ProxySettings};
use serde::Serialize;
use serde_json::Value;

use super::{AdapterHandle, AdapterState, IsolationChoice, SearchPath, Watch, sandbox::Ground, user};
use crate::clock::{Clock, SystemClock};

/// One instance as the configuration describes it.
#[derive(Clone, PartialEq)]
pub struct AdapterPlan {
    /// Name of the instance; session keys contain it.
    pub instance: String,
    /// Id of the plugin.
    pub plugin: String,
    /// The adapter's own keys, secrets resolved.
    pub config: Value,
    /// Values that no log may show.
    pub secrets: Vec<String>,
    /// Where to run it.
    pub isolation: IsolationChoice,
    /// Whether to run it at all.
    pub enabled: bool,
    /// Whether what the adapter proves about its senders counts.
    pub trust_upstream: bool,
    /// Host methods granted besides those a trusted instance gets anyway.
    pub granted: BTreeSet<String>,
    /// The proxies for its outgoing connections.
    pub proxy: ProxySettings,
    /// A program that speaks frames, instead of a library.
    pub command: Option<Vec<String>>,
    /// Where that program works: the folder of the file that names it. `None`: where the host works.
    pub folder: Option<PathBuf>,
}

impl AdapterPlan {
    /// An enabled instance of `plugin` with everything else at its default.
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

/// What the dispatcher is told about adapters.
#[derive(Clone, Debug)]
pub enum AdapterEvent {
    /// An instance changed its state.
    State {
        /// The instance.
        instance: Arc<str>,
        /// Its state from here on.
        state: AdapterState,
    },
    /// An instance has a link for the first time in this life: its outbox lanes may go.
    Ready {
        /// The instance.
        instance: Arc<str>,
    },
    /// A line for start-up and `status`.
    Announced {
        /// The instance.
        instance: Arc<str>,
        /// What it is.
        label: String,
        /// Where to open it.
        url: String,
    },
}

/// What adapters may ask of the host beyond what `plugins` answers itself.
pub trait HostServices: Send + Sync + 'static {
    /// Answers one call of `from`. An error with the code `unsupported` says that there is no such method.
    fn call(
        &self,
        from: &AdapterHandle,
        method: &str,
        payload: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, CallError>>;

    /// `from` has locked a credential; `is_first`: its present life held none before. The adapter hears of it once
    /// this is done.
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
    /// Name of the instance; of an available file its id.
    pub name: String,
    /// Id of the plugin.
    pub plugin: String,
    /// Version of the plugin, empty while unknown.
    pub version: String,
    /// `in-process` or `process`; empty while nothing runs.
    pub isolation: &'static str,
    /// What its process has given up, in words; `None` inside the host and while nothing runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// The word of its state; `available` for a file without a section.
    pub state: String,
    /// Since when, in milliseconds since the Unix epoch.
    pub since: i64,
    /// Why it is in that state, and what mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The stable code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// When the next attempt is made, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try: Option<i64>,
    /// When a round trip last carried data, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_proven: Option<i64>,
    /// Parts that wait for it; filled by the outbox.
    pub held: u64,
    /// Its delivery class.
    pub guarantee: String,
    /// What it announced: label and URL.
    pub announced: Vec<(String, String)>,
    /// How often the instance died or was rebuilt in this life of the host.
    pub restarts: u64,
    /// Set where roles of the platform are ignored because `trust_upstream` is not set.
    pub upstream_ignored: bool,
}

/// Bounds and places; every wait has a name with its meaning.
#[derive(Clone)]
pub struct AdapterSettings {
    /// The home folder.
    pub home: PathBuf,
    /// Where libraries are looked for.
    pub search: SearchPath,
    /// What `auto` means; [`IsolationChoice::Auto`] is the rule by folder.
    pub isolation: IsolationChoice,
    /// Whether accepted hashes are enforced.
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
    /// Host calls of one instance that are under way at once.
    pub host_calls_max: usize,
    /// How long an instance may be silent before it is asked, where its manifest promises nothing.
    pub ask_after: Duration,
    /// How long a question after its health may stay unanswered.
    pub health: Duration,
    /// How often a child process is asked for a sign of life.
    pub heartbeat: Duration,
    /// How long a sign of life may be late before the state of the instance says so.
    pub late: Duration,
    /// Where *now* comes from.
    pub clock: Arc<dyn Clock>,
    /// The user's runtime folder, for credential locks; otherwise they lie in the user's home directory.
    pub runtime_dir: Option<PathBuf>,
    /// Environment names a child keeps, with their values.
    pub child_env: Vec<(OsString, OsString)>,
    /// Whether a crash of this process is to leave a note for the next start.
    pub last_words: bool,
    /// Whether a child gives up files, ports and system calls that it does not need, where the kernel can.
    pub confine: bool,
    /// Who watches what passes; nobody as a rule.
    pub watch: Option<Watch>,
    /// Instances that run in a process of their own whatever their section says: the previous run of the host ended
    /// while they were delivering.
    pub isolated: BTreeSet<String>,
    /// Files that no child may read, besides what is private in the home: where secrets were configured.
    pub private: Vec<PathBuf>,
    /// Instances that may open Unix sockets although they are confined.
    pub unix_sockets: BTreeSet<String>,
    /// The home directory of the user, by the password database.
    pub user_home: Option<PathBuf>,
}

impl AdapterSettings {
    /// The defaults for this home and these folders.
    pub fn new(home: impl Into<PathBuf>, search: SearchPath) -> Self {
        let runner = std::env::current_exe().map(|exe| vec![exe.into_os_string(), "adapter-runner".into()]);
        Self {
            home: home.into(),
            search,
            isolation: IsolationChoice::Auto,
            isolated: BTreeSet::new(),
            pin: true,
            // Without a path of our own no child can start; the spawn then says so.
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
            // Longer than an adapter waits for its platform: it is the adapter that says what is lost.
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

    /// What is needed to decide what a child may touch.
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

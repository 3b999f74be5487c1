//! What `status --json` prints and the status page shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::human::{counted, span};

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusJson {
    /// The process.
    pub host: HostStatus,
    /// Every configured instance, and every library that no section asks for.
    pub adapters: Vec<AdapterStatus>,
    /// How much waits.
    pub queues: QueueStatus,
    /// How many conversations.
    pub sessions: SessionStatus,
    /// Who answers.
    pub agent: AgentStatus,
    /// Chats that cannot be written to until somebody writes there; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_chats: Vec<DeadChat>,
    /// How many more there are.
    #[serde(default)]
    pub dead_chats_more: usize,
    /// What the operator should know: configuration warnings, load errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Since when, Unix ms.
    pub since: i64,
    /// `starting`, `online`, `draining`, `stopping`.
    pub state: String,
    /// The home folder.
    pub home: String,
    /// The configuration file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Which life of the host this is.
    pub epoch: i64,
    /// The proxy for outgoing connections and what set it, without credentials; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Why nothing can be stored, while that is so; then no event is taken either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterStatus {
    /// The instance.
    pub name: String,
    /// The adapter it runs.
    pub plugin: String,
    /// Version of the adapter; empty while unknown.
    pub version: String,
    /// `in-process` or `process`.
    pub isolation: String,
    /// What its process has given up: `landlock v6 (files, ports, signals), seccomp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// Its own proxy, where its section names one, without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// `starting`, `online`, `reconnecting`, `degraded`, `paused`, `draining`, `stopped`, `stuck`, `failed`, `available`.
    pub state: String,
    /// Since when, Unix ms.
    pub since: i64,
    /// Why, and what to do.
    #[serde(default)]
    pub reason: Option<String>,
    /// When it is tried again, Unix ms.
    #[serde(default)]
    pub next_try: Option<i64>,
    /// The last proven round trip, Unix ms.
    #[serde(default)]
    pub last_proven: Option<i64>,
    /// How many deliveries wait for it.
    #[serde(default)]
    pub held: u64,
    /// What a doubtful send can lead to: `idempotent`, `reconcilable`, `at-least-once`.
    #[serde(default)]
    pub guarantee: String,
    /// Addresses it announced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<Announced>,
    /// The stable code of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How often it died or was rebuilt in this life of the host.
    #[serde(default)]
    pub restarts: u64,
    /// Set where what it vouches for is ignored because `trust_upstream` is not set.
    #[serde(default)]
    pub upstream_ignored: bool,
}

impl AdapterStatus {
    /// Whether a section asks for it; else it is a file that lies in a folder.
    pub fn is_instance(&self) -> bool {
        self.state != "available" && !self.plugin.is_empty()
    }
}

impl From<crate::plugins::AdapterStatus> for AdapterStatus {
    fn from(status: crate::plugins::AdapterStatus) -> Self {
        Self {
            proxy: None,
            name: status.name,
            plugin: status.plugin,
            version: status.version,
            isolation: status.isolation.to_owned(),
            confined: status.confined,
            state: status.state,
            since: status.since,
            reason: status.reason,
            next_try: status.next_try,
            last_proven: status.last_proven,
            held: status.held,
            guarantee: status.guarantee.replace('_', "-"),
            announced: status.announced.into_iter().map(|(label, url)| Announced { label, url }).collect(),
            code: status.code.map(str::to_owned),
            restarts: status.restarts,
            upstream_ignored: status.upstream_ignored,
        }
    }
}

/// An address that an adapter announced. It may carry a key: shown to the operator only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// What it is.
    pub label: String,
    /// Where.
    pub url: String,
}

/// A chat that cannot be written to until somebody writes there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadChat {
    /// Through which instance.
    pub instance: String,
    /// Its id.
    pub chat: String,
    /// The name people know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the platform said.
    pub why: String,
    /// Since when, Unix ms.
    pub since: i64,
}

impl From<crate::store::DeadTargetRow> for DeadChat {
    fn from(row: crate::store::DeadTargetRow) -> Self {
        let crate::store::DeadTargetRow { instance, chat, why, since_ms } = row;
        Self { instance, chat: chat.id, name: chat.name, why, since: since_ms }
    }
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Events without a turn.
    pub inbox: u64,
    /// Turns that run or wait.
    pub turns: u64,
    /// Deliveries that are owed.
    pub outbox: u64,
    /// Handoffs under way.
    pub handoffs: u64,
    /// Deliveries that were abandoned and not looked at.
    pub dead: u64,
}

/// How many conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Not ended.
    pub open: u64,
    /// With a running turn.
    pub running: u64,
    /// All that are stored.
    pub total: u64,
}

/// Who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// The runtime.
    pub runtime: String,
    /// The model, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `ok`; `failing`: the last turn failed; `waiting`: a turn has waited for the first sign of the model for long.
    #[serde(default)]
    pub state: String,
    /// The beginning of that state where it is not `ok`, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Failed turns since the last answer.
    #[serde(default)]
    pub consecutive_failures: u64,
    /// Failed turns since the start of the host, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Answered turns since the start of the host.
    #[serde(default)]
    pub answered: u64,
    /// The last answer, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<i64>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<AgentError>,
}

/// A failure of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    /// The time, Unix ms.
    pub at: i64,
    /// The stable word of its kind.
    pub kind: String,
    /// The detail, for the operator only.
    pub detail: String,
}

/// The time after which a turn without any sign of the model counts as waiting, in milliseconds.
const WAITING_MS: i64 = 30_000;

impl AgentStatus {
    /// The status of an agent with this health.
    pub fn new(runtime: &str, model: Option<String>, health: crate::health::State, now_ms: i64) -> Self {
        let waiting = health.waiting_since_ms().filter(|since| now_ms - since >= WAITING_MS);
        let (state, since) = match (health.failing_since_ms, waiting) {
            (Some(since), _) => ("failing", Some(since)),
            (None, Some(since)) => ("waiting", Some(since)),
            (None, None) => ("ok", None),
        };
        Self {
            runtime: runtime.to_owned(),
            model,
            state: state.to_owned(),
            since,
            consecutive_failures: health.consecutive,
            failures: health.failures.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            answered: health.answered,
            last_answer: health.last_answer_ms,
            last_error: health.last.map(|(at, kind, detail)| AgentError { at, kind: kind.to_owned(), detail }),
        }
    }

    /// Whether the agent does not answer at the moment.
    pub fn is_failing(&self) -> bool {
        matches!(self.state.as_str(), "failing" | "waiting")
    }

    /// Returns the trouble of the agent in one line, without details that only the operator may read.
    pub fn trouble(&self, now_ms: i64) -> Option<String> {
        let since = span(now_ms - self.since.unwrap_or(now_ms));
        match self.state.as_str() {
            "failing" => {
                let kind = self.last_error.as_ref().map_or("unknown", |error| error.kind.as_str());
                let turns = counted(self.consecutive_failures, "failed turn");
                Some(format!("the agent has been failing for {since} ({turns}, last: {kind})"))
            }
            "waiting" => Some(format!("the model has given no sign for {since}")),
            _ => None,
        }
    }

    /// The runtime, and its model where that says more.
    pub fn describe(&self) -> String {
        match &self.model {
            Some(model) if *model != self.runtime => format!("{} ({model})", self.runtime),
            _ => self.runtime.clone(),
        }
    }
}

//! The content of `status --json` and the status page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use hermes_core::text::{counted, span};

/// The state of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusJson {
    /// The process.
    pub host: HostStatus,
    /// Every configured instance, and every library without a section.
    pub adapters: Vec<AdapterStatus>,
    /// Counts of waiting work.
    pub queues: QueueStatus,
    /// Counts of conversations.
    pub sessions: SessionStatus,
    /// The agent.
    pub agent: AgentStatus,
    /// Chats that refuse messages until a user writes there; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_chats: Vec<DeadChat>,
    /// Count of further such chats.
    #[serde(default)]
    pub dead_chats_more: usize,
    /// Warnings for the operator: from the configuration, and load errors.
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
    /// Start, Unix ms.
    pub since: i64,
    /// `starting`, `online`, `draining`, `stopping`.
    pub state: String,
    /// The home folder.
    pub home: String,
    /// The configuration file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The number of this run of the host.
    pub epoch: i64,
    /// The proxy for outgoing connections and what set it, without credentials; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The reason why the store fails; then no event is accepted either. Absent if it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterStatus {
    /// The instance.
    pub name: String,
    /// The plugin id.
    pub plugin: String,
    /// Version of the adapter; empty while unknown.
    pub version: String,
    /// `in-process` or `process`.
    pub isolation: String,
    /// The sandbox restrictions of its process: `landlock v6 (files, ports, signals), seccomp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// Its own proxy, if its section names one, without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// `starting`, `online`, `reconnecting`, `degraded`, `paused`, `draining`, `stopped`, `stuck`, `failed`, `available`.
    pub state: String,
    /// Start of the state, Unix ms.
    pub since: i64,
    /// The reason of the state and the fix.
    #[serde(default)]
    pub reason: Option<String>,
    /// Time of the next attempt, Unix ms.
    #[serde(default)]
    pub next_try: Option<i64>,
    /// Time of the last round trip that carried data, Unix ms.
    #[serde(default)]
    pub last_proven: Option<i64>,
    /// Count of deliveries that wait for it.
    #[serde(default)]
    pub held: u64,
    /// The delivery class, which applies to sends with an unknown outcome: `idempotent`, `reconcilable`,
    /// `at-least-once`.
    #[serde(default)]
    pub guarantee: String,
    /// Announced URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<Announced>,
    /// The stable code of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Count of the times that it died or was recreated in this run of the host.
    #[serde(default)]
    pub restarts: u64,
    /// `true` if its proofs are ignored because `trust_upstream` is not set.
    #[serde(default)]
    pub upstream_ignored: bool,
}

impl AdapterStatus {
    /// Returns `true` if it has a section. Otherwise it is a file in a folder.
    pub fn is_instance(&self) -> bool {
        self.state != "available" && !self.plugin.is_empty()
    }
}

impl From<hermes_loader::AdapterStatus> for AdapterStatus {
    fn from(status: hermes_loader::AdapterStatus) -> Self {
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

/// A URL that an adapter announced. Only the operator sees it, because it may contain a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// The label.
    pub label: String,
    /// The URL.
    pub url: String,
}

/// A chat that refuses messages until a user writes there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadChat {
    /// The instance.
    pub instance: String,
    /// Its id.
    pub chat: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The error of the platform.
    pub why: String,
    /// Time of the error, Unix ms.
    pub since: i64,
}

impl From<hermes_store::DeadTargetRow> for DeadChat {
    fn from(row: hermes_store::DeadTargetRow) -> Self {
        let hermes_store::DeadTargetRow { instance, chat, why, since_ms } = row;
        Self { instance, chat: chat.id, name: chat.name, why, since: since_ms }
    }
}

/// Counts of waiting work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Events without a turn.
    pub inbox: u64,
    /// Running and waiting turns.
    pub turns: u64,
    /// Owed deliveries.
    pub outbox: u64,
    /// Running handoffs.
    pub handoffs: u64,
    /// Abandoned deliveries that the operator has not seen.
    pub dead: u64,
}

/// Counts of conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Conversations that have not ended.
    pub open: u64,
    /// Conversations with a running turn.
    pub running: u64,
    /// All stored conversations.
    pub total: u64,
}

/// The state of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// The runtime.
    pub runtime: String,
    /// The model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `ok`; `failing`: the last turn failed; `waiting`: a turn waits for the first output of the model for long.
    #[serde(default)]
    pub state: String,
    /// Start of that state if it is not `ok`, Unix ms.
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

/// Wait for the first output of the model after which a turn counts as waiting, in milliseconds.
const WAITING_MS: i64 = 30_000;

impl AgentStatus {
    /// Creates the status of an agent with this health.
    pub fn new(runtime: &str, model: Option<String>, health: crate::engine::agent_health::State, now_ms: i64) -> Self {
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

    /// Returns `true` if the agent does not answer at the moment.
    pub fn is_failing(&self) -> bool {
        matches!(self.state.as_str(), "failing" | "waiting")
    }

    /// Returns the trouble of the agent in one line, without details for the operator.
    pub fn trouble(&self, now_ms: i64) -> Option<String> {
        let since = span(now_ms - self.since.unwrap_or(now_ms));
        match self.state.as_str() {
            "failing" => {
                let kind = self.last_error.as_ref().map_or("unknown", |error| error.kind.as_str());
                let turns = counted(self.consecutive_failures, "failed turn");
                Some(format!("the agent has been failing for {since} ({turns}, last: {kind})"))
            }
            "waiting" => Some(format!("the model has not responded for {since}")),
            _ => None,
        }
    }

    /// Returns the runtime, with its model if that has another name.
    pub fn describe(&self) -> String {
        match &self.model {
            Some(model) if *model != self.runtime => format!("{} ({model})", self.runtime),
            _ => self.runtime.clone(),
        }
    }
}

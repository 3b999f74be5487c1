//! What an agent can do besides talking.
//!
//! A [`Tool`] says what it is called, what it takes ([`ToolSpec`]) and what it does. The
//! loop of a runtime offers them, checks the arguments against the schema, writes each
//! call into the [`Ledger`] before it starts and its result after, and hands the turn's
//! context over as a value: a tool knows nothing of a turn that it was not given.
//!
//! * [`Toolbox`]: the tools that are switched on, by name.
//! * [`ports`]: what the shell lends: the ledger, the masker, search, messages, later news.
//! * [`schema`]: arguments that a model wrote, checked.
//! * [`gate`]: the one place that decides whether something can be promised for later.
//! * [`output`], [`environment`], [`group`], [`background`]: what commands get and leave behind.
//! * the tools: [`terminal`], [`process`], [`mod@todo`], [`memory`], [`search`], [`send`], [`delegate`],
//!   [`task`].

pub mod background;
pub mod children;
pub mod delegate;
pub mod environment;
pub mod gate;
pub mod group;
pub mod memory;
pub mod output;
pub mod ports;
pub mod process;
pub mod schema;
pub mod search;
pub mod send;
pub mod task;
pub mod terminal;
pub mod todo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use hermes_core::nearest::nearest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{AgentConfig, EventSink, LeftRunning, LeftSomewhere};
use background::Processes;
use delegate::Delegate;
pub use ports::{CallRow, Ledger, Ports, StartedCall, replayed};

/// Every tool of this version, as `[agent] tools` names them.
pub const NAMES: [&str; 8] =
    ["terminal", "process", "delegate_task", "send_message", "session_search", "memory", "todo", "task"];

/// The word for all of them.
pub const ALL: &str = "all";

/// Every word of `[agent] tools`.
pub const WORDS: [&str; 9] =
    [ALL, "terminal", "process", "delegate_task", "send_message", "session_search", "memory", "todo", "task"];

/// The longest result that a model gets, in bytes.
pub const RESULT_BYTES_MAX: usize = 32 << 10;

/// The longest line that tells of a call, in characters.
const SUMMARY_CHARS_MAX: usize = 400;

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does and when to use it.
    pub description: String,
    /// Its arguments, as a JSON Schema of an object.
    pub schema: Value,
    /// Whether several calls may run side by side.
    pub parallel: bool,
}

/// What a tool knows of the turn that calls it, besides its context.
#[derive(Clone)]
pub struct ToolSide {
    /// The turn.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// Where it says what it does, and asks people.
    pub events: EventSink,
    /// How deep it stands in tasks that were handed on.
    pub depth: u32,
    /// Helpers of the whole turn so far, however deep they stand.
    pub helpers: Arc<AtomicU32>,
    /// Cancelled when the helper that it belongs to is to end; a turn's own never is.
    pub stop: CancellationToken,
    /// Who answers a task that is handed on.
    pub delegate: Option<Arc<dyn Delegate>>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// What the model is told.
    pub text: String,
    /// Whether it did not do what was asked.
    pub failed: bool,
}

impl ToolResult {
    /// It was done.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: false }
    }

    /// It was done, and this is known of it.
    pub fn of(value: Value) -> Self {
        Self::done(value.to_string())
    }

    /// It was not done, and why; one sentence that the model can use.
    pub fn failed(why: impl std::fmt::Display) -> Self {
        Self { text: json!({ "error": why.to_string() }).to_string(), failed: true }
    }
}

/// Something that an agent can do.
pub trait Tool: Send + Sync {
    /// Returns what a model is told about it.
    fn spec(&self) -> ToolSpec;

    /// Returns what a call is about, in a few words for people.
    fn summary(&self, arguments: &Value) -> String {
        arguments.to_string()
    }

    /// Does it. `arguments` fit the schema. Dropping the future ends what it started.
    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, side: &'c ToolSide) -> BoxFuture<'c, ToolResult>;
}

/// A call as a model made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's name of it, unique within its answer.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
}

impl ToolCall {
    /// The call as endpoints and transcripts write it.
    pub fn to_json(&self) -> Value {
        json!({"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}})
    }
}

/// A call that can run.
pub(crate) struct Ready {
    pub tool: Arc<dyn Tool>,
    pub arguments: Value,
    pub summary: String,
    pub parallel: bool,
}

/// The tools that are switched on.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<&'static str, (ToolSpec, Arc<dyn Tool>)>,
    memory: Option<memory::Notes>,
    processes: Option<Arc<Processes>>,
    ports: Ports,
}

impl Toolbox {
    /// The tools that a configuration switches on, with what the shell lends them.
    pub fn new(config: &AgentConfig, ports: Ports) -> Self {
        let is_on = |name: &str| config.tools.iter().any(|on| on == name || on == ALL);
        let processes = Arc::new(Processes::new(config.home.clone(), ports.clone()));
        let notes = memory::Notes::new(&config.home);
        let all: [Arc<dyn Tool>; NAMES.len()] = [
            Arc::new(terminal::Terminal::new(config, Arc::clone(&processes), ports.clone())),
            Arc::new(process::Process::new(config, Arc::clone(&processes))),
            Arc::new(delegate::DelegateTask::new(ports.clone())),
            Arc::new(send::SendMessage::new(ports.clone())),
            Arc::new(search::SessionSearch::new(ports.clone())),
            Arc::new(memory::Memory::new(notes.clone())),
            Arc::new(todo::Todo::default()),
            Arc::new(task::Task::new(&ports)),
        ];
        let memory = is_on("memory").then_some(notes);
        let mut toolbox = Self { memory, processes: Some(processes), ports, ..Self::default() };
        all.into_iter().filter(|tool| is_on(tool.spec().name)).for_each(|tool| toolbox.add(tool));
        toolbox
    }

    /// A toolbox of these tools alone.
    pub fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>, ports: Ports) -> Self {
        let mut toolbox = Self { ports, ..Self::default() };
        tools.into_iter().for_each(|tool| toolbox.add(tool));
        toolbox
    }

    fn add(&mut self, tool: Arc<dyn Tool>) {
        let spec = tool.spec();
        self.tools.insert(spec.name, (spec, tool));
    }

    /// The same without one tool.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut fewer = self.clone();
        fewer.tools.remove(name);
        fewer
    }

    /// The same with a ledger that keeps nothing: what a task does belongs to the call that handed it on.
    pub(crate) fn unwritten(&self) -> Self {
        Self { ports: Ports { ledger: Ports::default().ledger, ..self.ports.clone() }, ..self.clone() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Takes up what an earlier life of the host left in the background; returns what sessions still follow.
    pub async fn take_up(&self) -> BTreeSet<String> {
        match &self.processes {
            Some(processes) => processes.take_up().await,
            None => BTreeSet::new(),
        }
    }

    /// The commands that the conversation of this context has running in the background, the oldest first.
    pub fn left_running(&self, context: &TurnContext) -> Vec<LeftRunning> {
        let own = self.processes.iter().flat_map(|processes| processes.of(context));
        own.filter(|process| !process.is_over()).map(|process| process.left()).collect()
    }

    /// The same of all conversations.
    pub fn left_everywhere(&self) -> Vec<LeftSomewhere> {
        let mut all: Vec<_> = self.processes.iter().flat_map(|processes| processes.all()).collect();
        all.sort_by_key(|process| std::cmp::Reverse(process.runs_for()));
        all.iter().filter(|process| !process.is_over()).map(|process| process.left_somewhere()).collect()
    }

    /// Ends one of those of a conversation; of any without one. `false`: none of that id runs.
    pub fn end_process(&self, context: Option<&TurnContext>, id: &str) -> bool {
        let some = self.processes.iter().flat_map(|processes| match context {
            Some(context) => processes.of(context),
            None => processes.all(),
        });
        let found = some.into_iter().find(|process| process.id == id && !process.is_over());
        if let Some(process) = &found {
            process.kill();
        }
        found.is_some()
    }

    /// What the shell lends.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The tools as an endpoint is offered them.
    pub(crate) fn offered(&self) -> Value {
        let offered = self.tools.values().map(|(spec, _)| {
            let function = json!({"name": spec.name, "description": spec.description, "parameters": spec.schema});
            json!({"type": "function", "function": function})
        });
        Value::Array(offered.collect())
    }

    /// What the model is told before the conversation: what was kept for whoever asks.
    pub(crate) async fn remembered(&self, context: &TurnContext) -> Option<String> {
        self.memory.as_ref()?.told(context).await
    }

    /// Checks a call.
    ///
    /// # Errors
    ///
    /// One sentence that tells the model what to do differently.
    pub(crate) fn ready(&self, call: &ToolCall) -> Result<Ready, String> {
        let Some((spec, tool)) = self.tools.get(call.name.as_str()) else {
            let names = || self.tools.keys().copied();
            let near = nearest(&call.name, names()).map(|near| format!("; did you mean {near:?}"));
            let all = names().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no tool {:?}{}; there are: {all}", call.name, near.unwrap_or_default()));
        };
        let arguments = schema::read(&call.arguments, &spec.schema)
            .map_err(|why| format!("the arguments of {} are wrong: {why}", spec.name))?;
        let summary: String = tool.summary(&arguments).chars().take(SUMMARY_CHARS_MAX).collect();
        Ok(Ready { tool: Arc::clone(tool), arguments, summary, parallel: spec.parallel })
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Toolbox({})", self.tools.keys().copied().collect::<Vec<_>>().join(", "))
    }
}

/// A text argument; empty where it is missing.
pub(crate) fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments[name].as_str().unwrap_or_default()
}

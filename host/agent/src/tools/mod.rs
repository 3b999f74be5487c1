//! The tools of an agent.
//!
//! A [`Tool`] describes itself with a [`ToolSpec`] and executes calls. The loop of a runtime offers the tools
//! to the model and checks arguments against the schema. It writes each call to the [`Ledger`] before it starts
//! and its result afterwards, and passes the context of the turn explicitly.
//!
//! * [`Toolbox`]: the enabled tools, by name.
//! * [`ports`]: the interfaces of the host: ledger, masking, search, messages, tasks, notifications.
//! * [`schema`]: the check of a model's arguments.
//! * [`late_delivery`]: the decision whether results can be delivered after the turn.
//! * [`output`], [`environment`], [`group`], [`background`]: the output, environment and processes of commands.
//! * The tools: [`terminal`], [`process`], [`mod@todo`], [`memory`], [`search`], [`send`], [`delegate`],
//!   [`task`].

pub mod background;
pub mod delegate;
pub mod environment;
pub mod group;
pub mod late_delivery;
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

use crate::{AgentConfig, BackgroundProcess, EventSink, OwnedProcess};
use background::Processes;
use delegate::Delegate;
pub use hermes_core::transcript::{CallRow, StartedCall, ToolCall};
pub use ports::{Ledger, Ports, replayed};

/// Names of all tools, as used in `[agent] tools`.
pub const NAMES: [&str; 8] =
    ["terminal", "process", "delegate_task", "send_message", "session_search", "memory", "todo", "task"];

/// Word that enables all tools.
pub const ALL: &str = "all";

/// All words permitted in `[agent] tools`.
pub const WORDS: [&str; 9] =
    [ALL, "terminal", "process", "delegate_task", "send_message", "session_search", "memory", "todo", "task"];

/// Longest result for the model, in bytes.
pub const RESULT_BYTES_MAX: usize = 32 << 10;

/// Longest summary of a call, in characters.
const SUMMARY_CHARS_MAX: usize = 400;

/// The description of a tool for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Name of the tool.
    pub name: &'static str,
    /// Purpose of the tool and conditions for its use.
    pub description: String,
    /// Arguments, as a JSON Schema of an object.
    pub schema: Value,
    /// True if several calls may run in parallel.
    pub parallel: bool,
}

/// The state of the calling turn for tools, in addition to its context.
#[derive(Clone)]
pub struct CallScope {
    /// Id of the turn.
    pub turn: TurnId,
    /// Session of the turn.
    pub session: SessionId,
    /// Sink for progress and questions.
    pub events: EventSink,
    /// Nesting level of delegated tasks.
    pub depth: u32,
    /// Number of helpers of the whole turn so far, on all levels.
    pub helpers: Arc<AtomicU32>,
    /// Cancelled when the helper that runs the tool must end; never cancelled for the turn itself.
    pub stop: CancellationToken,
    /// Executor of delegated tasks.
    pub delegate: Option<Arc<dyn Delegate>>,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// Text for the model.
    pub text: String,
    /// True if the call failed.
    pub failed: bool,
}

impl ToolResult {
    /// Creates a successful result with a text.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: false }
    }

    /// Creates a successful result with a JSON value.
    pub fn of(value: Value) -> Self {
        Self::done(value.to_string())
    }

    /// Creates a failed result with one sentence for the model.
    pub fn failed(why: impl std::fmt::Display) -> Self {
        Self { text: json!({ "error": why.to_string() }).to_string(), failed: true }
    }
}

/// An action that an agent can call.
pub trait Tool: Send + Sync {
    /// Returns the description for the model.
    fn spec(&self) -> ToolSpec;

    /// Returns a summary of a call in a few words for people.
    fn summary(&self, arguments: &Value) -> String {
        arguments.to_string()
    }

    /// Executes a call. `arguments` match the schema. Dropping the future ends all processes that the call
    /// started.
    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, side: &'c CallScope)
    -> BoxFuture<'c, ToolResult>;
}

/// A checked call that can run.
pub(crate) struct PreparedCall {
    pub tool: Arc<dyn Tool>,
    pub arguments: Value,
    pub summary: String,
    pub parallel: bool,
}

/// The set of enabled tools.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<&'static str, (ToolSpec, Arc<dyn Tool>)>,
    memory: Option<memory::MemoryFiles>,
    processes: Option<Arc<Processes>>,
    ports: Ports,
}

impl Toolbox {
    /// Creates the tools that a configuration enables.
    pub fn new(config: &AgentConfig, ports: Ports) -> Self {
        let is_on = |name: &str| config.tools.iter().any(|on| on == name || on == ALL);
        let processes = Arc::new(Processes::new(config.home.clone(), ports.clone()));
        let notes = memory::MemoryFiles::new(&config.home);
        let all: [Arc<dyn Tool>; NAMES.len()] = [
            Arc::new(terminal::TerminalTool::new(config, Arc::clone(&processes), ports.clone())),
            Arc::new(process::ProcessTool::new(config, Arc::clone(&processes))),
            Arc::new(delegate::DelegateTool::new(ports.clone())),
            Arc::new(send::SendMessageTool::new(ports.clone())),
            Arc::new(search::SessionSearchTool::new(ports.clone())),
            Arc::new(memory::MemoryTool::new(notes.clone())),
            Arc::new(todo::TodoTool::default()),
            Arc::new(task::TaskTool::new(&ports)),
        ];
        let memory = is_on("memory").then_some(notes);
        let mut toolbox = Self { memory, processes: Some(processes), ports, ..Self::default() };
        all.into_iter().filter(|tool| is_on(tool.spec().name)).for_each(|tool| toolbox.add(tool));
        toolbox
    }

    /// Creates a toolbox with these tools only.
    pub fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>, ports: Ports) -> Self {
        let mut toolbox = Self { ports, ..Self::default() };
        tools.into_iter().for_each(|tool| toolbox.add(tool));
        toolbox
    }

    fn add(&mut self, tool: Arc<dyn Tool>) {
        let spec = tool.spec();
        self.tools.insert(spec.name, (spec, tool));
    }

    /// Returns a copy without one tool.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut fewer = self.clone();
        fewer.tools.remove(name);
        fewer
    }

    /// Returns a copy without a ledger: the calls of a delegated task belong to the call that delegated it.
    pub(crate) fn unwritten(&self) -> Self {
        Self { ports: Ports { ledger: Ports::default().ledger, ..self.ports.clone() }, ..self.clone() }
    }

    /// Returns true if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Adopts the background processes that an earlier run of the host left behind. Returns the ids that
    /// sessions still follow.
    pub async fn adopt_background(&self) -> BTreeSet<String> {
        match &self.processes {
            Some(processes) => processes.adopt().await,
            None => BTreeSet::new(),
        }
    }

    /// Returns the background processes of the context's conversation, oldest first.
    pub fn left_running(&self, context: &TurnContext) -> Vec<BackgroundProcess> {
        let own = self.processes.iter().flat_map(|processes| processes.of(context));
        own.filter(|process| !process.is_over()).map(|process| process.left()).collect()
    }

    /// Returns the background processes of all conversations, oldest first.
    pub fn left_everywhere(&self) -> Vec<OwnedProcess> {
        let mut all: Vec<_> = self.processes.iter().flat_map(|processes| processes.all()).collect();
        all.sort_by_key(|process| std::cmp::Reverse(process.runs_for()));
        all.iter().filter(|process| !process.is_over()).map(|process| process.left_somewhere()).collect()
    }

    /// Kills a background process of the context's conversation, or of any conversation without a context.
    /// Returns false if none with this id runs.
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

    /// Returns the ports of the host.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Returns the tool definitions in the format of endpoints.
    pub(crate) fn offered(&self) -> Value {
        let offered = self.tools.values().map(|(spec, _)| {
            let function = json!({"name": spec.name, "description": spec.description, "parameters": spec.schema});
            json!({"type": "function", "function": function})
        });
        Value::Array(offered.collect())
    }

    /// Returns the memory of the requester as instructions for the model.
    pub(crate) async fn remembered(&self, context: &TurnContext) -> Option<String> {
        self.memory.as_ref()?.notified(context).await
    }

    /// Reads the arguments of a call: the reader as the fuzz ring reaches it. Returns the schema of the tool, and the
    /// arguments as the tool gets them.
    #[doc(hidden)]
    pub fn read_arguments(&self, tool: &str, arguments: &str) -> Option<(Value, Result<Value, String>)> {
        let call = ToolCall { id: String::new(), name: tool.to_owned(), arguments: arguments.to_owned() };
        let (spec, _) = self.tools.get(tool)?;
        Some((spec.schema.clone(), self.ready(&call).map(|ready| ready.arguments)))
    }

    /// Checks a call.
    ///
    /// # Errors
    ///
    /// One sentence that tells the model how to correct the call.
    pub(crate) fn ready(&self, call: &ToolCall) -> Result<PreparedCall, String> {
        let Some((spec, tool)) = self.tools.get(call.name.as_str()) else {
            let names = || self.tools.keys().copied();
            let near = nearest(&call.name, names()).map(|near| format!("; did you mean {near:?}"));
            let all = names().collect::<Vec<_>>().join(", ");
            return Err(format!("unknown tool {:?}{}; available tools: {all}", call.name, near.unwrap_or_default()));
        };
        let arguments = schema::read(&call.arguments, &spec.schema)
            .map_err(|why| format!("invalid arguments of {}: {why}", spec.name))?;
        let summary: String = tool.summary(&arguments).chars().take(SUMMARY_CHARS_MAX).collect();
        Ok(PreparedCall { tool: Arc::clone(tool), arguments, summary, parallel: spec.parallel })
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Toolbox({})", self.tools.keys().copied().collect::<Vec<_>>().join(", "))
    }
}

/// Returns a text argument, or an empty text if it is missing.
pub(crate) fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments[name].as_str().unwrap_or_default()
}

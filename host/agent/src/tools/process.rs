//! The tool `process`, which controls background processes of the same session.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_protocol::text::prefix;
use serde_json::{Value, json};

use super::background::{self, ProcessState, Processes};
use super::terminal::Shell;
use super::{CallScope, Tool, ToolResult, ToolSpec, text};
use crate::AgentConfig;

/// Longest wait, in seconds.
const WAIT_S_MAX: u64 = 600;

/// Default wait, in seconds.
const WAIT_S: u64 = 60;

/// Characters written at once.
const WRITTEN_CHARS_MAX: usize = 4_000;

/// Bytes of unfinished input kept per process; more than the shell policy judges at once.
const UNFINISHED_BYTES_MAX: usize = 80 << 10;

/// The tool.
pub struct ProcessTool {
    shell: Shell,
    processes: Arc<Processes>,
}

impl ProcessTool {
    /// Creates the tool for these processes.
    pub fn new(config: &AgentConfig, processes: Arc<Processes>) -> Self {
        Self { shell: Shell::new(config), processes }
    }

    fn find(&self, context: &TurnContext, id: &str) -> Result<Arc<background::Process>, String> {
        let own = self.processes.of(context);
        if let Some(process) = own.iter().find(|process| process.id == id) {
            return Ok(Arc::clone(process));
        }
        let ids: Vec<&str> = own.iter().map(|process| process.id.as_str()).collect();
        Err(match (id.is_empty(), ids.is_empty()) {
            (true, false) => format!("\"process\" is missing; processes of this conversation: {}", ids.join(", ")),
            (false, false) => format!("unknown process {id:?}; processes of this conversation: {}", ids.join(", ")),
            (_, true) => "this conversation has no background process".to_owned(),
        })
    }

    async fn act(&self, context: &TurnContext, arguments: &Value, side: &CallScope) -> Result<Value, String> {
        let id = text(arguments, "process");
        match text(arguments, "action") {
            "list" => {
                let own = self.processes.of(context);
                Ok(json!({"processes": own.iter().map(|process| self.about(process)).collect::<Vec<_>>()}))
            }
            "wait" => {
                let process = self.find(context, id)?;
                let seconds = arguments["timeout"].as_u64().unwrap_or(WAIT_S).min(WAIT_S_MAX);
                process.ended(Duration::from_secs(seconds)).await;
                Ok(self.polled(&process))
            }
            "kill" => {
                let process = self.find(context, id)?;
                process.kill();
                process.gone(Duration::from_secs(5)).await;
                Ok(self.polled(&process))
            }
            "write" => {
                let process = self.find(context, id)?;
                let written = text(arguments, "text");
                if written.is_empty() {
                    return Err("\"text\" is missing".to_owned());
                }
                self.write(context, &process, written, side).await?;
                Ok(json!({"written": written.len()}))
            }
            _ => Ok(self.polled(&*self.find(context, id)?)),
        }
    }

    /// Writes to a process. Its reader may be a shell, so the input is judged like a command, together with
    /// earlier unfinished input such as half a word, an open quote, or text after `<<`.
    async fn write(
        &self,
        context: &TurnContext,
        process: &background::Process,
        written: &str,
        side: &CallScope,
    ) -> Result<(), String> {
        let folder = self.shell.folder(context, "").unwrap_or_default();
        let command = process.shown(self.processes.ports(), 200);
        let why = format!("Input for the process {} (`{command}`).", process.id);
        // The lock is held until the input is written, so that two concurrent writes are judged together.
        let mut unfinished = process.unfinished.lock().await;
        let code = format!("{}{written}", unfinished.as_deref().unwrap_or_default());
        let unclear = match *unfinished {
            None => Some("its earlier input is not known any more"),
            Some(_) if self.shell.is_unclear(&process.command, &folder) => Some("it may execute its input"),
            Some(_) => None,
        };
        self.shell.approve_input(&code, &folder, unclear, &why, side).await?;
        // Input that a process accepted only in part also stays unfinished.
        *unfinished = unfinished.as_ref().map(|_| if is_finished(&code) { String::new() } else { kept(code) });
        process.write(written)
    }

    fn polled(&self, process: &background::Process) -> Value {
        let mut about = self.about(process);
        about["output"] = json!(process.printed(self.processes.ports()));
        about
    }

    fn about(&self, process: &background::Process) -> Value {
        let command = process.shown(self.processes.ports(), 300);
        let mut about = json!({"process": process.id, "state": "running", "command": command});
        match process.state() {
            ProcessState::Running => about["seconds"] = json!(process.runs_for().as_secs()),
            ProcessState::Left(code) => {
                about["exit_code"] = json!(code);
                about["how"] = json!(background::left_description(code));
            }
            ProcessState::Ended(end) => {
                about["state"] = json!("ended");
                about["exit_code"] = json!(end.code());
                about["how"] = json!(end.words());
            }
        }
        about
    }
}

/// Returns true if a shell that has read this input waits for no continuation. False in doubt; the input is
/// then judged again with its continuation.
fn is_finished(code: &str) -> bool {
    let is_even = |sign: char| code.matches(sign).count().is_multiple_of(2);
    let is_paired = |open: char, close: char| code.matches(open).count() == code.matches(close).count();
    let goes_on = ["\\", "|", "&&"].iter().any(|end| code.trim_end().ends_with(end));
    let is_whole = code.ends_with('\n') && !goes_on && !code.contains("<<");
    is_whole && ['\'', '"', '`'].into_iter().all(is_even) && is_paired('(', ')') && is_paired('{', '}')
}

/// Truncates unfinished input. A longer input is never judged as harmless, so its end is not needed.
fn kept(mut code: String) -> String {
    code.truncate(prefix(&code, UNFINISHED_BYTES_MAX).len());
    code
}

impl Tool for ProcessTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "process",
            description:
                "Manages the background processes that `terminal` started. Actions: list; poll (returns state and new \
                output); wait (until the process ends, at most `timeout`); kill; write (sends `text` to its input; \
                end a line with \\n)."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "action": {"enum": ["list", "poll", "wait", "kill", "write"]},
                    "process": {"type": "string", "description": "Id of the process, as returned by terminal."},
                    "timeout": {"type": "integer", "minimum": 1, "maximum": WAIT_S_MAX, "description": "Maximum wait of `wait`, in seconds."},
                    "text": {"type": "string", "maxLength": WRITTEN_CHARS_MAX, "description": "Input for `write`."},
                },
                "required": ["action"],
            }),
            parallel: false,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        format!("{} {}", text(arguments, "action"), text(arguments, "process")).trim_end().to_owned()
    }

    fn call<'c>(
        &'c self,
        context: &'c TurnContext,
        arguments: Value,
        side: &'c CallScope,
    ) -> BoxFuture<'c, ToolResult> {
        Box::pin(
            async move { self.act(context, &arguments, side).await.map_or_else(ToolResult::failed, ToolResult::of) },
        )
    }
}

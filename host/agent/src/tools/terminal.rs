//! The tool `terminal`, which runs a shell command in the foreground or background.
//!
//! A dangerous command needs approval first. A command in the foreground ends with its turn, together with all
//! its processes; a command in the background runs until it ends or is killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_core::approvals::Verdict;
use hermes_core::context::TurnContext;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

use super::background::{self, NewProcess, Processes, Watch};
use super::output::OutputCapture;
use super::{CallScope, Ports, RESULT_BYTES_MAX, Tool, ToolResult, ToolSpec, environment, group, late_delivery, text};
use crate::AgentConfig;
use crate::questions::{Answer, ApprovalRequest, TurnQuestion};
use crate::shell_policy::{self, Danger, Rules};

/// Longest command, in characters.
const COMMAND_CHARS_MAX: usize = 32_000;

/// Longest time limit of a command in the foreground, in seconds.
pub const TIMEOUT_S_MAX: u64 = 1_200;

/// Highest number of output patterns.
const PATTERNS_MAX: usize = 16;

/// Longest pattern, in characters.
const PATTERN_CHARS_MAX: usize = 200;

/// Wait for the last output of a command after its end.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Bytes of a result reserved for the text around the output.
const AROUND_BYTES: usize = 1_024;

/// The configuration of the shell: program, environment, folders and rules.
#[derive(Clone, Debug)]
pub struct Shell {
    /// Program of the shell.
    pub program: PathBuf,
    /// Environment variables of every command.
    pub environment: BTreeMap<String, String>,
    /// Default working folder; `None` uses the folder of the host.
    pub cwd: Option<PathBuf>,
    /// Rules of the shell policy.
    pub rules: Rules,
}

impl Shell {
    /// Creates the shell of a configuration.
    pub fn new(config: &AgentConfig) -> Self {
        let program = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            program: PathBuf::from(program.unwrap_or("/bin/sh")),
            environment: config.environment.clone(),
            cwd: config.cwd.clone(),
            rules: Rules {
                patterns: config.dangerous.clone(),
                host_home: text(&config.home),
                readable: if config.home.as_os_str().is_empty() {
                    String::new()
                } else {
                    text(&config.home.join("media"))
                },
                work: config.cwd.as_deref().map(text).unwrap_or_default(),
                user_home: config.environment.get("HOME").cloned(),
            },
        }
    }

    /// Returns the folder of a command: the requested one, or else that of the turn, of the configuration, or
    /// of the host.
    ///
    /// # Errors
    ///
    /// The folder does not exist.
    pub fn folder(&self, context: &TurnContext, wanted: &str) -> Result<PathBuf, String> {
        let turns = Some(context.cwd.as_str()).filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let base = turns.or_else(|| self.cwd.clone()).unwrap_or_else(here);
        let home = self.rules.user_home.as_deref().filter(|_| wanted == "~" || wanted.starts_with("~/"));
        let folder = match home {
            Some(home) => Path::new(home).join(wanted.trim_start_matches(['~', '/'])),
            None => base.join(wanted),
        };
        if folder.is_dir() { Ok(folder) } else { Err(format!("the folder {} does not exist", folder.display())) }
    }

    /// Creates a command of this shell without arguments.
    pub fn command(&self, context: &TurnContext, folder: &Path, mark: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(environment::of(context, &self.environment, mark)).current_dir(folder);
        command
    }

    /// Returns a folder in the form that the policy judges: with all links resolved, in the notation of the
    /// rules.
    fn judged(&self, folder: &Path) -> String {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (real_folder, home) = (real(folder), &self.rules.host_home);
        for known in [&self.rules.work, home].into_iter().filter(|known| !known.is_empty()) {
            if let Ok(below) = real_folder.strip_prefix(real(Path::new(known))) {
                return Path::new(known).join(below).to_string_lossy().into_owned();
            }
        }
        real_folder.to_string_lossy().into_owned()
    }

    /// Judges a command by the shell policy. `root` is the working folder of the turn.
    fn judge(&self, code: &str, folder: &Path, root: &Path) -> Option<Danger> {
        shell_policy::judge(code, &self.judged(folder), &self.judged(root), &self.rules)
    }

    /// Requests approval of a command, unless the shell policy permits it. `named` is true if the command names
    /// its folder, which the question then shows. `root` is the working folder of the turn.
    ///
    /// # Errors
    ///
    /// The refusal and its reason.
    pub async fn approve(
        &self,
        code: &str,
        folder: &Path,
        root: &Path,
        named: bool,
        why: &str,
        side: &CallScope,
    ) -> Result<(), String> {
        let Some(danger) = self.judge(code, folder, root) else { return Ok(()) };
        let place = if named { format!(" (in {})", folder.display()) } else { String::new() };
        self.ask(code, danger, &place, why, side).await
    }

    /// Requests approval of input for a process, unless a shell could run it safely too. `unclear` is the
    /// reason for which the process may execute any input. Without one, text that merely contains unlisted
    /// programs is permitted.
    ///
    /// # Errors
    ///
    /// The refusal and its reason.
    pub async fn approve_input(
        &self,
        text: &str,
        folder: &Path,
        unclear: Option<&str>,
        why: &str,
        side: &CallScope,
    ) -> Result<(), String> {
        let known = self.judge(text, folder, folder).filter(|danger| !danger.unlisted);
        let danger = match (known, unclear) {
            (None, None) => return Ok(()),
            (Some(danger), None) => danger,
            (Some(danger), Some(unclear)) => {
                Danger { kind: String::new(), why: format!("{}; {unclear}", danger.why), unlisted: false }
            }
            (None, Some(unclear)) => Danger { kind: String::new(), why: unclear.to_owned(), unlisted: false },
        };
        self.ask(text, danger, "", why, side).await
    }

    /// Returns true if a command may execute any input, like a shell or an interpreter.
    pub fn is_unclear(&self, code: &str, folder: &Path) -> bool {
        self.judge(code, folder, folder).is_some_and(|danger| danger.kind.is_empty())
    }

    async fn ask(&self, code: &str, danger: Danger, place: &str, why: &str, side: &CallScope) -> Result<(), String> {
        let needed = format!("approval is required because {}", danger.why);
        let approval = ApprovalRequest {
            kind: danger.kind,
            action: code.to_owned(),
            why: why.to_owned(),
            danger: Some(format!("{}{place}", danger.why)),
        };
        match side.events.ask(TurnQuestion::Approval(approval)).await {
            Answer::Approved(Verdict::Once | Verdict::Session | Verdict::Always) => Ok(()),
            Answer::Denied { why: Some(why) } => {
                Err(format!("not run: the request for approval was denied ({why}); {needed}"))
            }
            Answer::Denied { why: None } => Err(format!(
                "not run: the request for approval was denied; {needed}. Try another way, or ask for the reason"
            )),
            Answer::Unanswered => Err(format!("not run: the request for approval was not answered in time; {needed}")),
            _ => Err("not run: the command requires approval, and approval is not possible here".to_owned()),
        }
    }
}

/// The tool.
pub struct TerminalTool {
    shell: Shell,
    timeout: Duration,
    processes: Arc<Processes>,
    ports: Ports,
}

impl TerminalTool {
    /// Creates the tool of a configuration.
    pub fn new(config: &AgentConfig, processes: Arc<Processes>, ports: Ports) -> Self {
        Self { shell: Shell::new(config), timeout: config.terminal_timeout, processes, ports }
    }

    async fn run(&self, context: &TurnContext, arguments: &Value, side: &CallScope) -> Result<ToolResult, String> {
        let code = text(arguments, "command");
        if code.trim().is_empty() {
            return Err("the command is empty".to_owned());
        }
        if code.contains('\0') {
            return Err("the command contains a NUL character; remove it".to_owned());
        }
        let wanted = text(arguments, "cwd");
        let folder = self.shell.folder(context, wanted)?;
        let root = self.shell.folder(context, "")?;
        let wants_news = arguments["notify_on_complete"] == true || arguments["watch_patterns"].is_array();
        let background = arguments["background"] == true;
        if wants_news && !background {
            return Err("notify_on_complete and watch_patterns require background=true".to_owned());
        }
        self.shell.approve(code, &folder, &root, !wanted.is_empty(), text(arguments, "why"), side).await?;
        if background {
            return self.start(context, arguments, &folder, side).await;
        }
        let seconds = arguments["timeout"].as_u64().map(Duration::from_secs);
        let ran = self.wait_for(context, code, &folder, seconds.unwrap_or(self.timeout), side).await?;
        Ok(ran)
    }

    async fn wait_for(
        &self,
        context: &TurnContext,
        code: &str,
        folder: &Path,
        timeout: Duration,
        side: &CallScope,
    ) -> Result<ToolResult, String> {
        let mark = group::mark(side.turn);
        let shell = self.shell.command(context, folder, &mark);
        let started = group::start(shell, &self.shell.program, code, &mark);
        let group::ForegroundCommand { mut child, mut printed, lifeline } =
            started.map_err(|error| format!("cannot start the command: {error}"))?;
        let mut group = group::Group::of(&child, &mark);
        let mut capture = OutputCapture::default();
        let mut buffer = vec![0; 16 << 10];
        let mut until = Instant::now() + timeout;
        let (mut status, mut open, mut timed_out) = (None, true, false);
        while open || status.is_none() {
            tokio::select! {
                read = printed.read(&mut buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(count) => capture.push(&buffer[..count]),
                },
                ended = child.wait(), if status.is_none() => {
                    status = Some(ended.map_err(|error| format!("cannot read the exit status: {error}"))?);
                    until = Instant::now() + LAST_WORDS;
                }
                () = tokio::time::sleep_until(until) => {
                    timed_out = status.is_none();
                    group.kill();
                    // The last output may still be arriving.
                    let drained = Instant::now() + LAST_WORDS;
                    while let Ok(Ok(count @ 1..)) = timeout_at(drained, printed.read(&mut buffer)).await {
                        capture.push(&buffer[..count]);
                    }
                    break;
                }
            }
        }
        group.kill();
        drop(lifeline);
        let output = capture.shown(&*self.ports.mask, RESULT_BYTES_MAX - AROUND_BYTES);
        let code = status.as_ref().and_then(std::process::ExitStatus::code);
        let mut result = json!({"exit_code": code, "output": output});
        if timed_out {
            let seconds = timeout.as_secs();
            result["timed_out"] = json!(true);
            result["note"] = json!(format!(
                "the command was killed after {seconds} s; use a longer timeout (at most {TIMEOUT_S_MAX}) or background=true"
            ));
        } else if code.is_none() {
            let signal = status.as_ref().and_then(std::os::unix::process::ExitStatusExt::signal);
            let by = signal.map_or_else(|| "a signal".to_owned(), background::signal_name);
            result["note"] = json!(format!("the command was terminated by {by}"));
        }
        Ok(ToolResult { text: result.to_string(), failed: timed_out })
    }

    async fn start(
        &self,
        context: &TurnContext,
        arguments: &Value,
        folder: &Path,
        side: &CallScope,
    ) -> Result<ToolResult, String> {
        let notify = arguments["notify_on_complete"] == true;
        let patterns: Vec<String> = arguments["watch_patterns"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|p| p.as_str().map(str::to_owned))
            .collect();
        let wants = notify || !patterns.is_empty();
        let delivers = late_delivery::delivers_later(context, &self.ports);
        let watch = (wants && delivers).then_some(Watch { notify, patterns });
        let new = NewProcess {
            command: text(arguments, "command").to_owned(),
            folder: folder.to_owned(),
            watch,
            turn: side.turn,
        };
        let process = self.processes.start(&self.shell, context, new).await?;
        let mut result = json!({
            "process": process.id,
            "pid": process.pid,
            "notify_on_complete": notify && delivers,
            "note": "The command runs in the background. Check it with process(action=\"poll\").",
        });
        if wants && !delivers {
            result["notify_unsupported"] = json!(late_delivery::unsupported_reason(context));
        }
        if arguments["watch_patterns"].is_array() {
            result["watch_patterns"] = if delivers { arguments["watch_patterns"].clone() } else { json!([]) };
        }
        Ok(ToolResult::of(result))
    }
}

impl Tool for TerminalTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "terminal",
            description: "Runs a shell command on the host and returns its exit code and output. Dangerous commands \
                require approval by a user. For servers and long-running commands, use background=true and manage \
                the process with `process`."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "maxLength": COMMAND_CHARS_MAX, "description": "The shell command."},
                    "timeout": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_S_MAX, "description": "Time limit in seconds; the command is killed after it."},
                    "cwd": {"type": "string", "description": "Working folder of the command."},
                    "why": {"type": "string", "maxLength": 400, "description": "Purpose of the command in one sentence, shown to the user who approves it."},
                    "background": {"type": "boolean", "description": "Run the command in the background and return at once."},
                    "notify_on_complete": {"type": "boolean", "description": "With background=true: notify you when the command ends."},
                    "watch_patterns": {
                        "type": "array", "maxItems": PATTERNS_MAX,
                        "items": {"type": "string", "maxLength": PATTERN_CHARS_MAX},
                        "description": "With background=true: notify you when the output contains one of these texts.",
                    },
                },
                "required": ["command"],
            }),
            parallel: false,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        text(arguments, "command").to_owned()
    }

    fn call<'c>(
        &'c self,
        context: &'c TurnContext,
        arguments: Value,
        side: &'c CallScope,
    ) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move { self.run(context, &arguments, side).await.unwrap_or_else(ToolResult::failed) })
    }
}

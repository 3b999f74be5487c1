//! The stage of an adapter: a program that simulates its platform.
//!
//! An adapter provides `testdata/certify.toml`: a sample configuration under `[config]` and `stage = [command]`. The
//! command runs in the folder of that file. Its first line on standard output is an object whose keys override the
//! sample: `{"base_url": "http://127.0.0.1:4711"}`. After that it reads one JSON object per line and answers each with
//! one:
//!
//! | request | answer, after the request has taken effect |
//! |---|---|
//! | `{"inbound": {"chat": "dm" \| "group" \| CHAT, "from": 1 \| 2, "text": …, "bot"?: true, "own"?: true}}` | `{"id": …}`: person 1 or 2, another bot, or the adapter's own account wrote the text; CHAT is a descriptor that the adapter returned; with `"file": {"name": …, "text": …}` a file with these bytes is attached, if the adapter declares `fetch` |
//! | `{"inbound": {"again": ID}}` | `{}`: the same change is delivered again |
//! | `{"fault": {"kind": KIND}}` | `{}` |
//! | `{"journal": {}}` | `{"journal": [{"text": …}, …]}`: the messages of the adapter's account, the oldest first |
//!
//! | kind | effect |
//! |---|---|
//! | `429` | the next message is rejected with a request to retry after `retry_after_s` |
//! | `5xx` | the next message gets a server error |
//! | `cut` | the link is cut once |
//! | `silence` | the platform sends no answers and no events |
//! | `file` | the next file is refused for good, and no text |
//! | `malformed` | the next incoming event is preceded by malformed data |
//! | `expired` | the credential is rejected |
//! | `none` | all faults end |
//!
//! A fault replaces the previous one: `expired` after `silence` answers again, with a rejection. A stage never waits
//! for the adapter: an event that arrives while the link is cut is stored, answered immediately, and delivered after
//! the adapter reconnects. The adapter cannot reconnect before that answer is written.
//!
//! The stage's standard error is shown below a failed case.
//!
//! A stage answers a request that its platform does not support with `{"unsupported": "why"}`. The stage exits when its
//! standard input ends.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};

/// The maximum time between a request and the stage's answer.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// The maximum length of an answer, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The maximum length of a line of standard error that is forwarded in one piece, in bytes.
const TALK_BYTES_MAX: u64 = 2_000;

/// The maximum number of buffered lines of standard error.
const TALK_LINES_MAX: usize = 4_096;

/// The maximum number of lines of standard error shown for a failed case.
const SAID_MAX: usize = 8;

/// The time to wait for the last lines of a stage that has exited.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);

/// The reason why a stage did not execute a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageError {
    /// The platform does not support it; contains the reason.
    Unsupported(String),
    /// The stage does not work; contains the observed behaviour.
    Broken(String),
}

impl std::fmt::Display for StageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsupported(why) => f.write_str(why),
            Self::Broken(what) => write!(f, "the platform simulator failed: {what}"),
        }
    }
}

/// The simulated platform of an adapter.
pub trait Stage: Send {
    /// Sends a request and returns the answer.
    ///
    /// # Errors
    ///
    /// If the platform does not support the request, or the stage does not work.
    fn tell(&mut self, line: &Value) -> Result<Value, StageError>;

    /// Returns the last lines of standard error since the previous call, the oldest first.
    fn said(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A stage in its own process. Dropping it ends the process.
#[derive(Debug)]
pub struct StageProgram {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The lines of the stage's standard error, which also go to our own.
    talk: Receiver<String>,
}

impl StageProgram {
    /// Starts `command` in `folder`. Returns the stage and the keys for the configuration.
    ///
    /// # Errors
    ///
    /// If the command cannot be started or its first line is not an object.
    pub fn start(command: &[String], folder: &Path) -> Result<(Self, Map<String, Value>), StageError> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| StageError::Broken("`stage` is empty".to_owned()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| StageError::Broken(format!("`{program}` cannot be started ({error})")))?;
        let output = child.stdout.take().expect("it was piped");
        let (told, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            loop {
                let mut line = String::new();
                let read = std::io::Read::take(&mut reader, LINE_BYTES_MAX).read_line(&mut line);
                // The receiver was dropped, or the stage closed its output.
                if !matches!(read, Ok(1..)) || told.send(line).is_err() {
                    return;
                }
            }
        });
        let errors = child.stderr.take().expect("it was piped");
        let (overheard, talk) = sync_channel(TALK_LINES_MAX);
        thread::spawn(move || overhear(errors, &overheard));
        let input = child.stdin.take();
        let mut stage = Self { child, input, lines, talk };
        match stage.heard()? {
            Value::Object(keys) => Ok((stage, keys)),
            other => Err(StageError::Broken(format!("its first line is {other}"))),
        }
    }

    fn heard(&mut self) -> Result<Value, StageError> {
        let line = self.lines.recv_timeout(ANSWER_WAIT).map_err(|error| {
            StageError::Broken(match error {
                RecvTimeoutError::Timeout => format!("it sent nothing for {} s", ANSWER_WAIT.as_secs()),
                RecvTimeoutError::Disconnected => {
                    // The stage's last error line arrives before its exit is reported.
                    let last = self.talk.recv_timeout(LAST_WORDS_WAIT).ok();
                    last.map_or_else(|| "it ended".to_owned(), |last| format!("it ended after {last:?}"))
                }
            })
        })?;
        serde_json::from_str(&line).map_err(|error| StageError::Broken(format!("{error} in {}", line.trim())))
    }
}

impl Stage for StageProgram {
    fn tell(&mut self, line: &Value) -> Result<Value, StageError> {
        let input = self.input.as_mut().ok_or_else(|| StageError::Broken("it does not read its input".to_owned()))?;
        writeln!(input, "{line}")
            .map_err(|error| StageError::Broken(format!("it does not read its input ({error})")))?;
        let answer = self.heard()?;
        match answer["unsupported"].as_str() {
            Some(why) => Err(StageError::Unsupported(why.to_owned())),
            None => Ok(answer),
        }
    }

    fn said(&mut self) -> Vec<String> {
        let said: Vec<String> = self.talk.try_iter().collect();
        said[said.len().saturating_sub(SAID_MAX)..].to_vec()
    }
}

/// Copies a stage's standard error to our own and buffers its lines. A line that finds the buffer full is only copied.
fn overhear(errors: ChildStderr, overheard: &SyncSender<String>) {
    let mut reader = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut reader, TALK_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        // A failed write to standard error cannot be reported.
        let _ = writeln!(std::io::stderr(), "{line}");
        let _ = overheard.try_send(line);
    }
}

impl Drop for StageProgram {
    fn drop(&mut self) {
        // The end of input asks the stage to exit; a stage that continues is killed.
        self.input.take();
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // A closed output means that the stage has exited.
            if self.lines.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        // The stage may have exited in the meantime.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

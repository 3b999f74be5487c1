//! The platform of an adapter, as a program that plays it.
//!
//! An adapter ships `testdata/certify.toml`: a sample configuration under `[config]` and `stage = [command]`. The
//! command runs in the folder of that file. Its first line on standard output is an object whose keys are put over
//! the sample: `{"base_url": "http://127.0.0.1:4711"}`. From then on it reads one JSON object a line and answers each
//! with one:
//!
//! | it is told | it answers, once it is so |
//! |---|---|
//! | `{"inbound": {"chat": "dm" \| "group" \| CHAT, "from": 1 \| 2, "text": …, "bot"?: true, "own"?: true}}` | `{"id": …}`: person 1 or 2, another bot, or the adapter's own account wrote; CHAT is a descriptor that the adapter gave; with `"file": {"name": …, "text": …}` a file of these bytes comes with it, where the adapter declares `fetch` |
//! | `{"inbound": {"again": ID}}` | `{}`: the same change is delivered once more |
//! | `{"fault": {"kind": KIND}}` | `{}` |
//! | `{"journal": {}}` | `{"journal": [{"text": …}, …]}`: what the adapter's account wrote, the oldest first |
//!
//! | kind | what happens |
//! |---|---|
//! | `429` | the next message is not taken, and to be sent again after `retry_after_s` |
//! | `5xx` | the next message meets a broken server |
//! | `cut` | the link is cut once |
//! | `silence` | nothing is answered and nothing is told any more |
//! | `malformed` | what comes in next is preceded by something that is not understood |
//! | `expired` | the credential is not accepted any more |
//! | `none` | everything works again |
//!
//! A fault replaces the one before it: `expired` after `silence` answers again, and refuses. A stage never waits for the
//! adapter: what is said while the link is cut is kept, answered at once, and delivered when the adapter is back, since
//! it is not let back before the answer is there.
//!
//! Its standard error is shown under a case that failed.
//!
//! What its platform does not have it answers with `{"unsupported": "why"}`. It ends when its standard input does.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};

/// How long a stage may take over one line.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// The longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The longest line of a stage's talk that is passed on in one piece, in bytes.
const TALK_BYTES_MAX: u64 = 2_000;

/// Lines of it that wait for whoever asks.
const TALK_LINES_MAX: usize = 4_096;

/// Lines of it that are told of a case that failed.
const SAID_MAX: usize = 8;

/// How long the last words of a stage that ended are waited for.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);

/// Why the stage did not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageError {
    /// Its platform has no such thing; why.
    Unsupported(String),
    /// It does not play; what it said instead.
    Broken(String),
}

impl std::fmt::Display for StageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsupported(why) => f.write_str(why),
            Self::Broken(what) => write!(f, "the stage does not play: {what}"),
        }
    }
}

/// Who plays the platform.
pub trait Stage: Send {
    /// Tells it one thing and returns its answer.
    ///
    /// # Errors
    ///
    /// When it has no such thing, or does not play.
    fn tell(&mut self, line: &Value) -> Result<Value, StageError>;

    /// The last lines of its own talk, beside its answers, since this was asked; the oldest first.
    fn said(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A stage in a process of its own. Dropping it ends the process.
#[derive(Debug)]
pub struct StageProgram {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Standard error, which also goes to ours.
    talk: Receiver<String>,
}

impl StageProgram {
    /// Starts `command` in `folder`; returns it and the keys for the configuration.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not begin with an object.
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
                // Whoever listened is gone, or the stage is.
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
            other => Err(StageError::Broken(format!("it began with {other}"))),
        }
    }

    fn heard(&mut self) -> Result<Value, StageError> {
        let line = self.lines.recv_timeout(ANSWER_WAIT).map_err(|error| {
            StageError::Broken(match error {
                RecvTimeoutError::Timeout => format!("it says nothing for {} s", ANSWER_WAIT.as_secs()),
                RecvTimeoutError::Disconnected => {
                    // What it complained of is told before its end is.
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
        let input = self.input.as_mut().ok_or_else(|| StageError::Broken("it hears nothing".to_owned()))?;
        writeln!(input, "{line}").map_err(|error| StageError::Broken(format!("it hears nothing ({error})")))?;
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

/// Passes a stage's standard error on to ours, and keeps it for whoever asks; what nobody asks for in time is only passed on.
fn overhear(errors: ChildStderr, overheard: &SyncSender<String>) {
    let mut reader = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut reader, TALK_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        // Nobody can be told that this cannot be told.
        let _ = writeln!(std::io::stderr(), "{line}");
        let _ = overheard.try_send(line);
    }
}

impl Drop for StageProgram {
    fn drop(&mut self) {
        // The end of its input is the word to leave; one that stays is ended.
        self.input.take();
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // Whoever hears nothing more from it knows that its output is closed.
            if self.lines.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        // It may have ended by itself meanwhile.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

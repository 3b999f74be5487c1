//! The interface between the host and a runtime.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use hermes_core::settings::Effort;
use hermes_protocol::{TurnEvent, Usage};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Message;
use crate::questions::{Answer, TurnQuestion};
use crate::steer::{self, Hold, HoldGuard, HostLine, TurnLine};

/// A runtime that answers turns. Shared by all sessions; keeps no state per session.
pub trait AgentRuntime: Send + Sync {
    /// Returns the name of the runtime, as in the configuration and `metadata`.
    fn name(&self) -> &'static str;

    /// Returns the selectable models, the default first. Never empty.
    fn models(&self) -> Vec<String>;

    /// Returns true if turns poll [`EventSink::take_steering`] between their steps, so that messages can reach a
    /// running turn.
    fn steers(&self) -> bool {
        false
    }

    /// Adopts the background work that an earlier run of the host left behind. Returns the ids of
    /// [`crate::tools::ports::Wakeups`] that sessions still follow. Called once, when sessions can be woken.
    fn adopt_background(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(async { BTreeSet::new() })
    }

    /// Returns the background processes of the context's conversation, oldest first.
    fn processes(&self, _context: &TurnContext) -> Vec<BackgroundProcess> {
        Vec::new()
    }

    /// Ends a background process of the conversation. Returns false if none with this id runs.
    fn end_process(&self, _context: &TurnContext, _id: &str) -> bool {
        false
    }

    /// Returns the background processes of all conversations, for the operator.
    fn all_processes(&self) -> Vec<OwnedProcess> {
        Vec::new()
    }

    /// Ends a background process of any conversation. Returns false if none with this id runs.
    fn end_any_process(&self, _id: &str) -> bool {
        false
    }

    /// Answers one turn. Returns within one second of `cancel`, in every state.
    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome>;
}

/// A background process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// Id of the process.
    pub id: String,
    /// The command.
    pub command: String,
    /// Elapsed time.
    pub runs_for: Duration,
}

/// A background process and its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedProcess {
    /// Session key as text.
    pub key: String,
    /// Session of the conversation.
    pub session: Option<SessionId>,
    /// The process.
    pub left: BackgroundProcess,
}

/// The complete description of a turn for a runtime.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Session of the conversation.
    pub session_id: SessionId,
    /// Id of the turn, for logs.
    pub turn_id: TurnId,
    /// Origin of the turn.
    pub context: TurnContext,
    /// Instructions of the host in addition to the configured system prompt, such as a description of the
    /// platform. May be empty.
    pub system: String,
    /// Earlier messages, oldest first.
    pub history: Vec<Arc<Message>>,
    /// Messages to answer, oldest first; never empty.
    pub input: Vec<Message>,
    /// Folder with the files of `attachments`, each named by the id in `media`.
    pub media: Option<PathBuf>,
    /// Model selected by the session; `None` uses the configured one.
    pub model: Option<String>,
    /// Reasoning effort, if one was selected.
    pub reasoning: Option<Effort>,
    /// The `state` that this runtime returned after the session's last turn.
    pub state: Option<Value>,
    /// Steps of the turn before a restart of the host: answers with calls and their results, in order. The turn
    /// continues after them, and they become part of the transcript.
    pub steps: Vec<Message>,
    /// Allows tools. False for work of the host itself, such as a summary.
    pub tools: bool,
}

/// Outcome of a turn.
#[derive(Clone, Debug)]
pub enum TurnOutcome {
    /// The turn was answered.
    Finished {
        /// Answer, without reasoning.
        text: String,
        /// Messages to append to the transcript after the input, oldest first.
        messages: Vec<Message>,
        /// Token usage.
        usage: Usage,
        /// Finish reason: `stop` or `length`.
        finish_reason: String,
        /// Model that answered, as named by the endpoint.
        model: String,
        /// Opaque state of the runtime for the session.
        state: Option<Value>,
    },
    /// The turn was cancelled.
    Interrupted {
        /// Text before the cancellation.
        text: String,
    },
    /// The turn failed.
    Failed(Failure),
}

/// Kind of the failure of a conversation that exceeds the context window.
pub const CONTEXT_TOO_LONG: &str = "context_too_long";

/// The failure of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable word for the stream and the store: `runtime_failed` or `runtime_timeout`.
    pub code: &'static str,
    /// Stable word for status and metrics, more precise than the code.
    pub kind: &'static str,
    /// One sentence for the requester.
    pub sentence: String,
    /// Detail for the log, including a truncated message of the endpoint, without secrets.
    pub detail: String,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// Text before the failure; may be empty.
    pub partial: String,
}

/// The receiver of a runtime's output during a turn.
///
/// The channel is bounded, so a slow reader slows the runtime down. A closed channel does not stop the runtime,
/// because the outcome contains the whole text.
#[derive(Clone, Debug)]
pub struct EventSink {
    events: mpsc::Sender<TurnEvent>,
    line: HostLine,
    quiet: bool,
}

impl EventSink {
    /// Events that may wait for the reader.
    pub const EVENTS_MAX: usize = 64;

    /// Creates a sink and the receiver for its reader.
    pub fn channel() -> (Self, mpsc::Receiver<TurnEvent>) {
        let (sink, reader, _) = Self::with_line();
        (sink, reader)
    }

    /// Creates a sink, the receiver for its reader, and the line that steers the turn.
    pub fn with_line() -> (Self, mpsc::Receiver<TurnEvent>, TurnLine) {
        let (events, reader) = mpsc::channel(Self::EVENTS_MAX);
        let (turn, line) = steer::line();
        (Self { events, line, quiet: false }, reader, turn)
    }

    /// Creates the sink of a helper of the turn. Its text is not part of the answer, and it is not steered.
    pub fn for_helper(&self) -> Self {
        Self { quiet: true, ..self.clone() }
    }

    /// Takes the steering messages; empty if none wait. Called between two steps. The taken messages belong to
    /// this turn and get no other answer.
    pub async fn take_steering(&self) -> Vec<Message> {
        if self.quiet { Vec::new() } else { self.line.take_steering().await }
    }

    /// Waits until [`Self::take_steering`] has messages to take.
    pub async fn wait_for_steering(&self) {
        self.line.wait_for_steering().await;
    }

    /// Asks people a question and waits for the answer. The host decides who is asked, in which chat and for
    /// how long. Dropping the future withdraws the question. A turn that waits here does not count as inactive.
    pub async fn ask(&self, ask: TurnQuestion) -> Answer {
        self.line.ask(ask).await
    }

    /// Reports that the oldest `messages` of the history did not fit into the answered request.
    pub fn left_out(&self, messages: usize) {
        if !self.quiet {
            self.line.left_out(messages);
        }
    }

    /// Protects the turn from interruptions other than `/stop` until the returned value is dropped.
    pub fn hold(&self, why: Hold) -> HoldGuard {
        self.line.hold(why)
    }

    /// Sends the next piece of the answer; an empty piece is skipped.
    pub async fn chunk(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() && !self.quiet {
            self.put(TurnEvent::Chunk { text }).await;
        }
    }

    /// Sends one line about the current activity.
    pub async fn progress(&self, stage: impl Into<String>, text: impl Into<String>) {
        self.put(TurnEvent::Progress { stage: stage.into(), text: text.into(), tool: None }).await;
    }

    /// Reports the use of a tool, with its arguments in one line.
    pub async fn tool(&self, name: impl Into<String>, text: impl Into<String>) {
        self.put(TurnEvent::Progress { stage: "tool".to_owned(), text: text.into(), tool: Some(name.into()) }).await;
    }

    async fn put(&self, event: TurnEvent) {
        // A closed sink has no reader, so nothing is lost.
        let _ = self.events.send(event).await;
    }
}

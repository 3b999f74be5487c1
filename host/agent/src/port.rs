//! What the host and a runtime say to each other.

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
use crate::ask::{Answer, Ask};
use crate::steer::{self, Held, Hold, HostLine, TurnLine};

/// Somebody who answers turns. Shared by all lanes; it keeps no state per session.
pub trait AgentRuntime: Send + Sync {
    /// Returns the runtime's name, as configuration and `metadata` spell it.
    fn name(&self) -> &'static str;

    /// Returns the models a client may ask for, the default first. Never empty.
    fn models(&self) -> Vec<String>;

    /// Returns whether a turn asks [`EventSink::steered`] between its steps, so that words can reach it while it runs.
    fn steers(&self) -> bool {
        false
    }

    /// Takes up what an earlier life of the host left running besides turns; returns what sessions still follow, by
    /// the ids of [`crate::tools::ports::Wakes`]. Called once, when sessions can be woken.
    fn take_up(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(async { BTreeSet::new() })
    }

    /// What the conversation of this context has running in the background, the oldest first.
    fn processes(&self, _context: &TurnContext) -> Vec<LeftRunning> {
        Vec::new()
    }

    /// Ends one of those. `false`: none of that id runs.
    fn end_process(&self, _context: &TurnContext, _id: &str) -> bool {
        false
    }

    /// What all conversations have running in the background, for the operator.
    fn processes_of_all(&self) -> Vec<LeftSomewhere> {
        Vec::new()
    }

    /// Ends one of those. `false`: none of that id runs.
    fn end_process_of_any(&self, _id: &str) -> bool {
        false
    }

    /// Answers one turn. Returns within a second of `cancel`, whatever it waits for.
    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome>;
}

/// A command that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRunning {
    /// Its name.
    pub id: String,
    /// The command.
    pub command: String,
    /// For how long it has run.
    pub runs_for: Duration,
}

/// A command that runs in the background, and where it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftSomewhere {
    /// The printed key of the conversation.
    pub key: String,
    /// The session.
    pub session: Option<SessionId>,
    /// The command.
    pub left: LeftRunning,
}

/// Everything a runtime gets to know about one turn.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The conversation.
    pub session_id: SessionId,
    /// The turn, for logs.
    pub turn_id: TurnId,
    /// Where the turn came from.
    pub context: TurnContext,
    /// What the host tells the model besides the configured system prompt, such as what the platform is like. May be empty.
    pub system: String,
    /// The conversation so far, oldest first.
    pub history: Vec<Arc<Message>>,
    /// What the turn answers, oldest first; never empty.
    pub input: Vec<Message>,
    /// The folder in which the files of `attachments` lie, each under the id that `media` names.
    pub media: Option<PathBuf>,
    /// A model the session asks for instead of the configured one.
    pub model: Option<String>,
    /// How much the model should think, where somebody chose it.
    pub reasoning: Option<Effort>,
    /// What this runtime returned as `state` after the session's last turn.
    pub state: Option<Value>,
    /// What the turn did before a restart of the host cut it off: answers with calls, and their results, in order.
    /// The turn goes on behind them, and they are part of what its transcript gains.
    pub steps: Vec<Message>,
    /// Whether tools may be used; not by work of the host itself, such as a summary.
    pub tools: bool,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub enum TurnOutcome {
    /// It was answered.
    Finished {
        /// The answer, without reasoning.
        text: String,
        /// What the transcript gains besides the input, oldest first.
        messages: Vec<Message>,
        /// What it cost.
        usage: Usage,
        /// Why the model stopped: `stop` or `length`.
        finish_reason: String,
        /// The model that answered, as the endpoint names it.
        model: String,
        /// The runtime's own continuity data for the session.
        state: Option<Value>,
    },
    /// It was cancelled.
    Interrupted {
        /// What had been said until then.
        text: String,
    },
    /// It failed.
    Failed(Failure),
}

/// The kind of a failure because of a message that is longer than the model's window.
pub const CONTEXT_TOO_LONG: &str = "context_too_long";

/// Why a turn has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A stable word for the stream and the store: `runtime_failed` or `runtime_timeout`.
    pub code: &'static str,
    /// A stable word for status and metrics, more precise than the code.
    pub kind: &'static str,
    /// One honest sentence for the person who asked.
    pub sentence: String,
    /// What the log should say: the endpoint's own words among them, cut short, never a secret.
    pub detail: String,
    /// Whether the same request may work later.
    pub retryable: bool,
    /// What had been said before it failed; empty when nothing had.
    pub partial: String,
}

/// Where a runtime puts what it has while it works.
///
/// The channel is bounded, so a slow reader slows the runtime down. A reader
/// that has gone away is no reason to stop: what is said is kept by the outcome.
#[derive(Clone, Debug)]
pub struct EventSink {
    events: mpsc::Sender<TurnEvent>,
    line: HostLine,
    quiet: bool,
}

impl EventSink {
    /// Events that may wait for the reader.
    pub const EVENTS_MAX: usize = 64;

    /// Makes a sink and the end its reader holds.
    pub fn channel() -> (Self, mpsc::Receiver<TurnEvent>) {
        let (sink, reader, _) = Self::with_line();
        (sink, reader)
    }

    /// The same, and the line by which the turn can be steered.
    pub fn with_line() -> (Self, mpsc::Receiver<TurnEvent>, TurnLine) {
        let (events, reader) = mpsc::channel(Self::EVENTS_MAX);
        let (turn, line) = steer::line();
        (Self { events, line, quiet: false }, reader, turn)
    }

    /// The same for a helper of the turn: what it says is no part of the answer, and it is not steered.
    pub fn quiet(&self) -> Self {
        Self { quiet: true, ..self.clone() }
    }

    /// Takes what people said to steer the turn; empty when nothing waits. To be asked between two steps: what is
    /// taken belongs to this turn and is answered nowhere else.
    pub async fn steered(&self) -> Vec<Message> {
        if self.quiet { Vec::new() } else { self.line.take().await }
    }

    /// Waits until something is there to be taken with [`Self::steered`].
    pub async fn steering(&self) {
        self.line.waits().await;
    }

    /// Asks people something and waits for what becomes of it: who is asked, where and for how long is the host's.
    /// Dropping the future takes the question back. A turn that waits here is not silent.
    pub async fn ask(&self, ask: Ask) -> Answer {
        self.line.ask(ask).await
    }

    /// Reports that the oldest `messages` of the history did not fit into the request that was answered.
    pub fn left_out(&self, messages: usize) {
        if !self.quiet {
            self.line.left_out(messages);
        }
    }

    /// Keeps the turn from being interrupted, other than by `/stop`, until the returned value is dropped.
    pub fn hold(&self, why: Hold) -> Held {
        self.line.hold(why)
    }

    /// Says the next piece of the answer; an empty piece is not said.
    pub async fn chunk(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() && !self.quiet {
            self.put(TurnEvent::Chunk { text }).await;
        }
    }

    /// Says in one line what is being done.
    pub async fn progress(&self, stage: impl Into<String>, text: impl Into<String>) {
        self.put(TurnEvent::Progress { stage: stage.into(), text: text.into(), tool: None }).await;
    }

    /// Says that a tool is used, and with what, in one line.
    pub async fn tool(&self, name: impl Into<String>, text: impl Into<String>) {
        self.put(TurnEvent::Progress { stage: "tool".to_owned(), text: text.into(), tool: Some(name.into()) }).await;
    }

    async fn put(&self, event: TurnEvent) {
        // A closed sink has no reader to miss anything.
        let _ = self.events.send(event).await;
    }
}

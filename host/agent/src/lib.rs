//! Who answers: the runtime port and the runtimes behind it.
//!
//! A turn is handed over as one [`TurnRequest`]; the runtime streams what it has
//! into an [`EventSink`] and ends with exactly one [`TurnOutcome`]. A runtime
//! never fails by panicking or by staying silent: every way in which a model or
//! its network can misbehave ends in one honest sentence for the person who
//! asked and one line for the log.
//!
//! * [`port`]: what the host and a runtime say to each other.
//! * [`ask`]: what a turn asks of people while it runs.
//! * [`steer`]: words that reach a turn while it runs.
//! * [`config`]: which runtime answers, and how long it may take.
//! * [`echo`]: answers with what it heard; proves the path without a network.
//! * [`openai`]: any OpenAI-compatible chat completions endpoint.
//! * [`shell_policy`]: the commands that run without approval.
//! * [`tools`]: what an agent can do besides talking, and what the shell lends it.
//!
//! Not here: the database; a runtime sees a transcript and returns messages, the lane
//! writes them, and whatever a tool needs of the host comes through a port.

#![forbid(unsafe_code)]

pub mod ask;
pub mod config;
pub mod echo;
pub mod message;
pub mod openai;
pub mod port;
pub mod shell_policy;
pub mod steer;
pub mod tools;

pub use config::{AgentConfig, BuildError, RuntimeKind, Timeouts, build, build_with};
pub use message::{Message, Role};
pub use port::{
    AgentRuntime, CONTEXT_TOO_LONG, EventSink, Failure, LeftRunning, LeftSomewhere, TurnOutcome, TurnRequest,
};
pub use steer::Hold;

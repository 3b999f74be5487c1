//! Agent runtimes and the port that connects them with the host.
//!
//! The host passes a turn as one [`TurnRequest`]. The runtime streams its output into an [`EventSink`] and ends
//! with exactly one [`TurnOutcome`]. A runtime neither panics nor stays silent: every failure of a model or its
//! network produces one sentence for the requester and one line for the log.
//!
//! * [`port`]: the interface between the host and a runtime.
//! * [`questions`]: questions of a running turn to people.
//! * [`steer`]: messages that reach a running turn.
//! * [`config`]: selection and time limits of the runtime.
//! * [`echo`]: a runtime that repeats its input; tests the path without a network.
//! * [`openai`]: a client for OpenAI-compatible chat completion endpoints.
//! * [`shell_policy`]: the commands that run without approval.
//! * [`tools`]: the tools of an agent and the ports that they need from the host.
//!
//! The database is not part of this crate. A runtime reads a transcript and returns messages, which the session
//! writes; a tool accesses the host only through a port.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod config;
pub mod echo;
pub mod openai;
pub mod port;
pub mod questions;
pub mod shell_policy;
pub mod steer;
pub mod tools;

pub use config::{AgentConfig, BuildError, RuntimeKind, Timeouts, build, build_with};
pub use hermes_core::transcript::{Message, Role};
pub use port::{
    AgentRuntime, BackgroundProcess, CONTEXT_TOO_LONG, EventSink, Failure, OwnedProcess, TurnOutcome, TurnRequest,
};
pub use steer::Hold;

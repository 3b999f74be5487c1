//! The events of a turn, for native streams.

use serde::{Deserialize, Serialize};

/// One event of a running turn. `metadata` comes first, then any number of `progress` and
/// `chunk` events, then exactly one `done` or `error`, which ends the turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnEvent {
    /// Facts about the turn.
    Metadata {
        /// The session of the turn.
        session_id: String,
        /// The id of the turn.
        turn_id: i64,
        /// The model that answers, if the runtime names one.
        #[serde(default)]
        model: String,
        /// The runtime that answers.
        #[serde(default)]
        runtime: String,
    },
    /// The current activity, for display.
    Progress {
        /// One of `thinking`, `tool`, `approval`, `notice`.
        stage: String,
        /// The activity in one line.
        text: String,
        /// The name of the tool, for `tool`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// More text. All chunks joined in order are the answer so far.
    Chunk {
        /// The text.
        text: String,
    },
    /// The turn failed; no event follows.
    Error {
        /// A stable error code: `runtime_failed`, `runtime_timeout`, `stopped`, `host_stopping`.
        code: String,
        /// The error in one sentence, for the user.
        message: String,
        /// True if the same request may succeed later.
        #[serde(default)]
        retryable: bool,
    },
    /// The turn ended; no event follows.
    Done {
        /// The reason for the end: `stop`, `length`, `stopped`, `silent`.
        finish_reason: String,
        /// The cost of the turn.
        #[serde(default)]
        usage: Usage,
    },
    /// An event of a later version; ignored.
    #[serde(other, skip_serializing)]
    Unrecognised,
}

impl TurnEvent {
    /// Returns whether no event follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Error { .. } | Self::Done { .. })
    }
}

/// The cost of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// The number of input tokens.
    pub input_tokens: u64,
    /// The number of output tokens.
    pub output_tokens: u64,
    /// The number of requests to the model.
    pub api_calls: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
}

impl Usage {
    /// Creates the cost of one request.
    pub fn tokens(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, api_calls: 1, tool_calls: 0 }
    }
}

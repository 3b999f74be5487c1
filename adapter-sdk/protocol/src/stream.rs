//! The events of a turn, as native streams carry them.

use serde::{Deserialize, Serialize};

/// One event of a running turn. `metadata` comes first, then any number of
/// `progress` and `chunk`, then exactly one of `done` or `error`, which ends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnEvent {
    /// What this turn is.
    Metadata {
        /// The session it belongs to.
        session_id: String,
        /// The turn.
        turn_id: i64,
        /// Model that answers, where the runtime names one.
        #[serde(default)]
        model: String,
        /// Runtime that answers.
        #[serde(default)]
        runtime: String,
    },
    /// What it is doing, for people.
    Progress {
        /// `thinking`, `tool`, `approval`, `notice`.
        stage: String,
        /// One line.
        text: String,
        /// Name of the tool, for `tool`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// More text. Joined in order the chunks are the answer so far.
    Chunk {
        /// The piece.
        text: String,
    },
    /// The turn failed; nothing follows.
    Error {
        /// A stable word: `runtime_failed`, `runtime_timeout`, `stopped`, `host_stopping`.
        code: String,
        /// One sentence for the user.
        message: String,
        /// Whether the same request may work later.
        #[serde(default)]
        retryable: bool,
    },
    /// The turn is over; nothing follows.
    Done {
        /// Why it ended: `stop`, `length`, `stopped`, `silent`.
        finish_reason: String,
        /// What it cost.
        #[serde(default)]
        usage: Usage,
    },
    /// An event of a later version; ignored.
    #[serde(other, skip_serializing)]
    Unrecognised,
}

impl TurnEvent {
    /// Whether nothing follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Error { .. } | Self::Done { .. })
    }
}

/// What a turn cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Requests to the model.
    pub api_calls: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

impl Usage {
    /// Tokens in and out of one request.
    pub fn tokens(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, api_calls: 1, tool_calls: 0 }
    }
}

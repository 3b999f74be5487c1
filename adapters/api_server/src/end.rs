//! The end of a request.

use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub(crate) enum End {
    /// The request was answered.
    Answered {
        /// The answer.
        text: String,
        /// `stop`, `length`, `stopped` or `silent`.
        finish_reason: String,
        /// The cost of the answer.
        usage: Usage,
        /// The model that answered, if it is known.
        model: String,
    },
    /// The request failed.
    Failed {
        /// The HTTP status.
        status: u16,
        /// A stable error code.
        code: String,
        /// The error in one sentence.
        message: String,
        /// True if the same request may succeed later.
        retryable: bool,
        /// True if the message is the host's own, so that this end also delivers it.
        of_host: bool,
    },
}

impl End {
    /// Creates a failure detected by this adapter.
    pub(crate) fn failed(status: u16, code: &str, message: impl Into<String>) -> Self {
        let retryable = matches!(status, 429 | 503 | 504);
        Self::Failed { status, code: code.to_owned(), message: message.into(), retryable, of_host: false }
    }

    /// Returns whether the same event can have no better end.
    pub(crate) fn is_final(&self) -> bool {
        self.delivers_reply() || matches!(self, Self::Failed { status: 504, .. })
    }

    /// Returns whether this end delivers a reply of the host.
    pub(crate) fn delivers_reply(&self) -> bool {
        matches!(self, Self::Answered { .. } | Self::Failed { of_host: true, .. })
    }
}

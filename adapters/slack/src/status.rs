//! The status that Slack shows in a thread while the agent works.

use std::sync::atomic::{AtomicBool, Ordering};

use hermes_adapter_sdk::prelude::*;
use serde_json::json;

use crate::api::ApiError;
use crate::errors::call_error;
use crate::objects::Empty;
use crate::workspace::Destination;

/// Error codes that mean that the whole app cannot show a status.
const UNSUPPORTED: [&str; 5] =
    ["missing_scope", "not_allowed_token_type", "no_permission", "unknown_method", "method_deprecated"];

/// The status of the app in threads.
pub(crate) struct ThreadStatus {
    /// The text that is shown; empty: none.
    text: String,
    /// True after Slack has reported that the app cannot show a status.
    is_unsupported: AtomicBool,
}

impl ThreadStatus {
    /// Creates a status with this text; empty: none is shown.
    pub(crate) fn new(text: String) -> Self {
        Self { text, is_unsupported: AtomicBool::new(false) }
    }

    /// Returns whether a status can be shown.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.text.is_empty() && !self.is_unsupported.load(Ordering::Relaxed)
    }

    /// Shows or removes the status in a thread.
    /// <https://docs.slack.dev/reference/methods/assistant.threads.setStatus>
    pub(crate) async fn set(&self, destination: &Destination<'_>, thread: &str, is_on: bool) -> Result<(), CallError> {
        let status = if is_on { self.text.as_str() } else { "" };
        let parameters =
            [("channel_id", json!(destination.channel)), ("thread_ts", json!(thread)), ("status", json!(status))];
        match destination.call::<Empty>("assistant.threads.setStatus", &parameters).await {
            Err(ApiError::Refused(refused)) if UNSUPPORTED.contains(&refused.code.as_str()) => {
                tracing::info!(%refused, "status display is not supported; disabled");
                self.is_unsupported.store(true, Ordering::Relaxed);
                Ok(())
            }
            other => other.map(drop).map_err(call_error),
        }
    }
}

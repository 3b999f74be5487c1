//! Any OpenAI-compatible chat completions endpoint.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{AgentConfig, AgentRuntime, BuildError, EventSink, Failure, TurnOutcome, TurnRequest};

/// The `openai` runtime.
pub struct OpenAi {
    model: String,
}

impl OpenAi {
    /// The runtime that `config` describes.
    ///
    /// # Errors
    ///
    /// Says which key of `[agent]` is missing or wrong.
    pub fn new(config: &AgentConfig) -> Result<Self, BuildError> {
        Ok(Self { model: config.model.clone().unwrap_or_default() })
    }
}

impl AgentRuntime for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn models(&self) -> Vec<String> {
        vec![self.model.clone()]
    }

    fn run(&self, _: TurnRequest, _: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async {
            TurnOutcome::Failed(Failure {
                code: "runtime_failed",
                sentence: "The openai runtime is not there yet.".into(),
                detail: String::new(),
                retryable: false,
                partial: String::new(),
            })
        })
    }
}

//! Answers with what it heard. Proves the whole path without a network.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{AgentRuntime, EventSink, Message, TurnOutcome, TurnRequest};
use hermes_protocol::Usage;

/// The echo runtime.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    test_words: bool,
}

impl Echo {
    /// An echo that understands its test words, or does not.
    pub fn new(test_words: bool) -> Self {
        Self { test_words }
    }
}

impl AgentRuntime for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn models(&self) -> Vec<String> {
        vec!["echo".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let text = request.input.last().map(|m| m.content.clone()).unwrap_or_default();
            let _ = (self.test_words, cancel);
            events.chunk(text.clone()).await;
            TurnOutcome::Finished {
                messages: vec![Message::assistant(text.clone())],
                text,
                usage: Usage::default(),
                finish_reason: "stop".into(),
                model: "echo".into(),
                state: None,
            }
        })
    }
}

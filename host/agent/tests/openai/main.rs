//! Tests of the `openai` runtime against a faulty endpoint.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod endpoint;
mod faults;
mod good;
mod pictures;
mod repair;
mod shapes;
mod stopping;
mod tools;

use std::time::Duration;

use endpoint::Endpoint;
use hermes_agent::{
    AgentConfig, AgentRuntime, EventSink, Failure, Message, RuntimeKind, Timeouts, TurnOutcome, TurnRequest, build,
};
use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use hermes_core::secret::Secret;
use hermes_protocol::TurnEvent;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-test-hunter2";

fn config(base_url: &str) -> AgentConfig {
    AgentConfig {
        runtime: RuntimeKind::OpenAi,
        base_url: Some(base_url.to_owned()),
        model: Some("test-model".to_owned()),
        api_key: Some(Secret::new(KEY)),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(20),
            idle: Duration::from_secs(20),
        },
        ..AgentConfig::default()
    }
}

/// Returns a runtime with short time limits.
fn impatient(endpoint: &Endpoint) -> Arc<dyn AgentRuntime> {
    let mut config = config(&endpoint.base_url);
    config.timeouts.first_byte = Duration::from_millis(300);
    config.timeouts.idle = Duration::from_millis(150);
    build(&config).unwrap()
}

fn runtime(endpoint: &Endpoint) -> Arc<dyn AgentRuntime> {
    build(&config(&endpoint.base_url)).unwrap()
}

fn request(text: &str) -> TurnRequest {
    TurnRequest {
        session_id: SessionId("s1".to_owned()),
        turn_id: TurnId(1),
        context: TurnContext::default(),
        system: String::new(),
        history: Vec::new(),
        input: vec![Message::user(text)],
        media: None,
        model: None,
        reasoning: None,
        state: None,
        steps: Vec::new(),
        tools: true,
    }
}

/// Runs one turn and returns its outcome and its chunks.
async fn turn(runtime: &dyn AgentRuntime) -> (TurnOutcome, Vec<String>) {
    let (sink, mut reader) = EventSink::channel();
    let collect = async {
        let mut chunks = Vec::new();
        while let Some(event) = reader.recv().await {
            if let TurnEvent::Chunk { text } = event {
                chunks.push(text);
            }
        }
        chunks
    };
    tokio::join!(runtime.run(request("hello"), sink, CancellationToken::new()), collect)
}

/// Returns the text of a turn that must finish, after a comparison with the streamed text.
async fn answered(runtime: &dyn AgentRuntime) -> String {
    let (outcome, chunks) = turn(runtime).await;
    let TurnOutcome::Finished { text, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(chunks.concat(), text, "what was streamed is the answer");
    text
}

/// Returns the failure of a turn that must fail, after a check for text that no failure may contain.
async fn failed(runtime: &dyn AgentRuntime) -> Failure {
    let (outcome, chunks) = turn(runtime).await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(!format!("{failure:?}").contains("hunter2"), "no secret: {failure:?}");
    assert_eq!(chunks.concat(), failure.partial, "what was streamed is what was said");
    let sentence = &failure.sentence;
    assert!(sentence.ends_with('.') && sentence.len() > 20 && !sentence.contains('\n'), "a sentence: {sentence}");
    failure
}

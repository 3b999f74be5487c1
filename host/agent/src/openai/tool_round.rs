//! Execution of the tool calls of one answer.

use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::TurnId;

use super::wire::json;
use crate::Message;
use crate::tools::output::bounded;
use crate::tools::ports::result_of;
use crate::tools::{CallScope, PreparedCall, RESULT_BYTES_MAX, StartedCall, ToolCall, ToolResult, Toolbox};

/// Interval of the signal that tools are still running.
const STILL_WORKING: Duration = Duration::from_secs(60);

/// The tool calls of one answer and their context.
pub(super) struct ToolRound<'a> {
    /// Available tools.
    pub tools: &'a Toolbox,
    /// Context of the turn.
    pub context: &'a TurnContext,
    /// State of the turn for tools.
    pub side: &'a CallScope,
    /// Index of the answer, from 0.
    pub step: u32,
    /// Text of the answer before the calls.
    pub said: &'a str,
    /// Number of its first call within the turn.
    pub first: u32,
    /// True if the answer ended at its length limit.
    pub cut: bool,
}

impl ToolRound<'_> {
    /// Runs the calls, in parallel if all of them allow it, otherwise in order. Returns their results in order.
    pub(super) async fn execute(&self, calls: &[ToolCall]) -> Vec<Message> {
        let ready: Vec<Result<PreparedCall, String>> = calls.iter().map(|call| self.tools.ready(call)).collect();
        let in_parallel = calls.len() > 1 && ready.iter().all(|ready| ready.as_ref().is_ok_and(|ready| ready.parallel));
        let numbered: Vec<(u32, &ToolCall)> = (self.first..).zip(calls).collect();
        if in_parallel {
            if let Err(why) = self.record(&numbered).await {
                return calls.iter().map(|call| result_of(call, not_recorded(&why))).collect();
            }
            let running = numbered.iter().zip(&ready).map(|((n, call), ready)| self.run(*n, call, ready));
            return futures_util::future::join_all(running).await;
        }
        let mut results = Vec::new();
        for (numbered, ready) in numbered.iter().zip(&ready) {
            results.push(match self.record(std::slice::from_ref(numbered)).await {
                Ok(()) => self.run(numbered.0, numbered.1, ready).await,
                Err(why) => result_of(numbered.1, not_recorded(&why)),
            });
        }
        results
    }

    /// Records the start of calls in the ledger.
    async fn record(&self, calls: &[(u32, &ToolCall)]) -> Result<(), String> {
        let started = |(n, call): &(u32, &ToolCall)| StartedCall {
            n: *n,
            step: self.step,
            said: self.said.to_owned(),
            call: (*call).clone(),
        };
        self.tools.ports().ledger.started(self.turn(), calls.iter().map(started).collect()).await
    }

    async fn run(&self, n: u32, call: &ToolCall, ready: &Result<PreparedCall, String>) -> Message {
        let result = match ready {
            Err(why) if self.cut && json::object(&call.arguments).is_err() => ToolResult::failed(format!(
                "{why}; your answer reached its length limit before the call was complete; repeat the call with shorter arguments"
            )),
            Err(why) => ToolResult::failed(why),
            Ok(ready) => {
                let mask = &self.tools.ports().mask;
                self.side.events.tool(&*call.name, mask.mask(ready.summary.clone())).await;
                self.called(&call.name, ready).await
            }
        };
        let text = bounded(&self.tools.ports().mask.mask(result.text), RESULT_BYTES_MAX);
        if let Err(why) = self.tools.ports().ledger.ended(self.turn(), n, text.clone()).await {
            tracing::warn!(turn = %self.turn(), tool = %call.name, why, "tool result cannot be stored");
        }
        result_of(call, text)
    }

    async fn called(&self, name: &str, ready: &PreparedCall) -> ToolResult {
        let called = ready.tool.call(self.context, ready.arguments.clone(), self.side);
        tokio::pin!(called);
        loop {
            match tokio::time::timeout(STILL_WORKING, &mut called).await {
                Ok(result) => return result,
                Err(_) => self.side.events.progress("working", format!("{name}: {}", ready.summary)).await,
            }
        }
    }

    fn turn(&self) -> TurnId {
        self.side.turn
    }
}

fn not_recorded(why: &str) -> String {
    ToolResult::failed(format!("not run: the host could not record the call ({why})")).text
}

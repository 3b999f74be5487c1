//! The course of a turn from its first request to its last answer.
//!
//! Each step is one request. If its answer calls tools, they are executed and the next step begins with their
//! results. Steering messages are inserted between two steps. A model that never stops calling tools is finally
//! asked for an answer without tools.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use futures_util::future::BoxFuture;
use hermes_protocol::Usage;
use tokio_util::sync::CancellationToken;

use super::Model;
use super::completion::CompletionContext;
use super::error::EndpointError;
use super::tool_round::ToolRound;
use super::wire::answer::{Answer, FinishReason};
use crate::tools::delegate::{Delegate, DelegatedTask, HELPER, ITERATIONS_MAX};
use crate::tools::{CallScope, ToolCall, Toolbox};
use crate::{EventSink, Message, TurnOutcome, TurnRequest};

/// Separator between the text before and after tool calls.
const BETWEEN: &str = "\n\n";

/// The text of a turn so far.
#[derive(Debug, Default)]
pub(super) struct TurnText {
    before: String,
    answer: Answer,
}

impl TurnText {
    /// Returns the complete text.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.answer.shown_text())
    }

    /// Begins the next answer.
    fn next(&mut self) {
        self.before = self.text();
        let lead = if self.before.trim().is_empty() { "" } else { BETWEEN };
        self.answer = Answer::behind(lead);
    }
}

/// The executor of one turn's steps.
pub(super) struct TurnSteps<'m> {
    model: &'m Arc<Model>,
    tools: Toolbox,
    iterations_max: u32,
    depth: u32,
    /// Number of helpers of the turn so far, including those of its helpers.
    helpers: Arc<AtomicU32>,
    /// Cancelled when these steps belong to a helper that must end.
    stop: CancellationToken,
}

impl<'m> TurnSteps<'m> {
    /// Creates the executor of a turn.
    pub(super) fn of_turn(model: &'m Arc<Model>) -> Self {
        Self {
            model,
            tools: model.tools.clone(),
            iterations_max: model.iterations_max,
            depth: 0,
            helpers: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Creates the executor of a delegated task.
    fn of_task(model: &'m Arc<Model>, depth: u32, side: &CallScope) -> Self {
        let tools = model.tools.unwritten();
        let tools = if depth >= crate::tools::delegate::DEPTH_MAX { tools.without("delegate_task") } else { tools };
        Self {
            model,
            tools,
            iterations_max: model.iterations_max.min(ITERATIONS_MAX),
            depth,
            helpers: Arc::clone(&side.helpers),
            stop: side.stop.clone(),
        }
    }

    /// Executes the steps. `turn_text` holds the text so far, even if the future is dropped.
    pub(super) async fn answer(
        &self,
        request: &mut TurnRequest,
        events: &EventSink,
        turn_text: &mut TurnText,
    ) -> TurnOutcome {
        let model = &request.model.clone().unwrap_or_else(|| self.model.model.clone());
        if request.tools
            && let Some(remembered) = self.tools.remembered(&request.context).await
        {
            request.system = format!("{}\n\n{remembered}", request.system).trim_start().to_owned();
        }
        let mut turn = TurnProgress::new(request);
        let error = loop {
            let closing = turn.iterations >= self.iterations_max;
            let tools = (request.tools && !self.tools.is_empty()).then_some(&self.tools);
            let asking = CompletionContext { model, events, tools, closing };
            let asked = self.model.complete(request, &asking, &mut turn_text.answer, &mut turn.attempts).await;
            turn.add(turn_text.answer.usage);
            let answer = match asked {
                Ok(()) => &mut turn_text.answer,
                Err(error) => break error,
            };
            let calls = std::mem::take(&mut answer.calls);
            let offered = tools.is_some() && self.model.traits.accepts_tools(model);
            if let Some(error) = completion_error(answer, !calls.is_empty(), offered, closing) {
                break error;
            }
            if calls.is_empty() || closing {
                return self.finished(turn, turn_text, model);
            }
            let calls = calls.finished(turn.step);
            self.execute(calls, request, events, &turn_text.answer, &mut turn).await;
            turn_text.next();
        };
        let address = self.model.address();
        let mut failure = error.into_failure(model, address, turn.attempts, turn_text.text());
        if !self.model.key.is_empty() {
            failure.detail = failure.detail.replace(&self.model.key, "[hidden]");
        }
        TurnOutcome::Failed(failure)
    }

    async fn execute(
        &self,
        calls: Vec<ToolCall>,
        request: &mut TurnRequest,
        events: &EventSink,
        answer: &Answer,
        turn: &mut TurnProgress,
    ) {
        let delegate: Arc<dyn Delegate> = Arc::clone(self.model) as Arc<dyn Delegate>;
        let side = CallScope {
            turn: request.turn_id,
            session: request.session_id.clone(),
            events: events.clone(),
            depth: self.depth,
            helpers: Arc::clone(&self.helpers),
            stop: self.stop.clone(),
            delegate: Some(delegate),
        };
        let round = ToolRound {
            tools: &self.tools,
            context: &request.context,
            side: &side,
            step: turn.step,
            said: &answer.text,
            first: turn.calls,
            cut: answer.end == Some(FinishReason::Length),
        };
        let results = round.execute(&calls).await;
        let mut asked = Message::assistant(answer.text.clone());
        asked.reasoning = Some(answer.reasoning.clone()).filter(|thought| !thought.is_empty());
        asked.tool_calls = calls.iter().map(ToolCall::to_json).collect();
        let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        turn.calls = turn.calls.saturating_add(count);
        turn.usage.tool_calls = turn.usage.tool_calls.saturating_add(u64::from(count));
        turn.step += 1;
        turn.iterations += 1;
        for message in std::iter::once(asked).chain(results) {
            request.input.push(message.clone());
            turn.gained.push(message);
        }
    }

    fn finished(&self, mut turn: TurnProgress, turn_text: &mut TurnText, model: &str) -> TurnOutcome {
        let text = turn_text.text();
        let answer = &mut turn_text.answer;
        let mut message = Message::assistant(std::mem::take(&mut answer.text));
        message.reasoning = Some(std::mem::take(&mut answer.reasoning)).filter(|thought| !thought.is_empty());
        turn.gained.push(message);
        turn.usage.api_calls = u64::from(turn.attempts);
        TurnOutcome::Finished {
            text,
            messages: turn.gained,
            usage: turn.usage,
            finish_reason: if answer.end == Some(FinishReason::Length) { "length" } else { "stop" }.to_owned(),
            model: answer.model.take().unwrap_or_else(|| model.to_owned()),
            state: None,
        }
    }
}

/// The progress of a turn.
#[derive(Default)]
struct TurnProgress {
    /// Answers with tool calls in this run of the host.
    iterations: u32,
    /// Answers with tool calls in all runs of the host.
    step: u32,
    /// Tool calls in all runs of the host.
    calls: u32,
    attempts: u32,
    usage: Usage,
    gained: Vec<Message>,
}

impl TurnProgress {
    /// Continues after the steps of an earlier run of the host.
    fn new(request: &mut TurnRequest) -> Self {
        let gained = std::mem::take(&mut request.steps);
        request.input.extend(gained.iter().cloned());
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let asked = gained.iter().filter(|message| !message.tool_calls.is_empty());
        Self {
            step: count(asked.clone().count()),
            calls: count(asked.map(|message| message.tool_calls.len()).sum()),
            gained,
            ..Self::default()
        }
    }

    fn add(&mut self, usage: Usage) {
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(usage.input_tokens);
        self.usage.output_tokens = self.usage.output_tokens.saturating_add(usage.output_tokens);
    }
}

/// Returns the failure of an answer that was read completely.
fn completion_error(answer: &Answer, calls: bool, offered: bool, closing: bool) -> Option<EndpointError> {
    if answer.end == Some(FinishReason::Filter) {
        return Some(EndpointError::Filtered { message: "finish_reason content_filter".to_owned() });
    }
    if calls && offered && !closing {
        return None;
    }
    let called = calls || answer.end == Some(FinishReason::Calls) && answer.text.trim().is_empty();
    if called && !offered {
        return Some(EndpointError::ToolCall);
    }
    if !answer.text.trim().is_empty() {
        return None;
    }
    Some(match &answer.end {
        _ if closing && called => EndpointError::OnlyCalls,
        Some(FinishReason::Length) => EndpointError::OnlyLength,
        _ => EndpointError::Empty,
    })
}

impl Delegate for Model {
    fn answer(
        self: Arc<Self>,
        task: DelegatedTask,
        side: CallScope,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            let mut request = TurnRequest {
                session_id: side.session.clone(),
                turn_id: side.turn,
                context: task.context,
                system: HELPER.to_owned(),
                history: Vec::new(),
                input: vec![Message::user(task.task)],
                media: None,
                model: None,
                reasoning: None,
                state: None,
                steps: Vec::new(),
                tools: true,
            };
            let mut turn_text = TurnText::default();
            let steps = TurnSteps::of_task(&self, task.depth, &side);
            let answered = steps.task(&mut request, &side.events, &mut turn_text);
            match cancel.run_until_cancelled(answered).await {
                Some(TurnOutcome::Finished { text, .. }) => Ok(text),
                Some(TurnOutcome::Failed(failure)) => Err(failure.sentence),
                Some(TurnOutcome::Interrupted { .. }) | None => Err("it was stopped".to_owned()),
            }
        })
    }
}

impl TurnSteps<'_> {
    /// Executes the steps of a task. Boxed, because a task may delegate another one.
    fn task<'s>(
        &'s self,
        request: &'s mut TurnRequest,
        events: &'s EventSink,
        turn_text: &'s mut TurnText,
    ) -> BoxFuture<'s, TurnOutcome> {
        Box::pin(self.answer(request, events, turn_text))
    }
}

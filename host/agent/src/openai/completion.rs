//! One chat completion: the HTTP request to the model, repeated until it is answered. A transient failure before
//! any output repeats the same request; a refusal leads to a different one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::reqwest::Response;
use hermes_adapter_net::{NetError, retry_after};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::error::EndpointError;
use super::learned::room_of_window;
use super::pictures::Pictures;
use super::refusal::RequestVariant;
use super::request::{self, OptionalFields, RequestBody, RequestForm, ToolOffer};
use super::response::{self, ResponseTimeouts};
use super::wire::answer::{Answer, FinishReason};
use super::wire::shape::MessageShape;
use super::{Model, Timeouts};
use crate::tools::Toolbox;
use crate::{EventSink, TurnRequest};

/// Retries of a request that failed before any output.
const RETRIES_MAX: u32 = 3;

/// Repetitions of a request whose answer was empty.
const EMPTY_MAX: u32 = 2;

/// Bytes read from the start of an error body.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// Text before reasoning that is shown because there is no answer.
const ONLY_REASONING: &str = "(The model returned only its reasoning, without an answer:)\n\n";

/// The model of a completion, and the context of the turn.
#[derive(Clone, Copy)]
pub(super) struct CompletionContext<'a> {
    /// Model.
    pub model: &'a str,
    /// Receiver of the answer, and source of steering messages.
    pub events: &'a EventSink,
    /// Tools that the model may call.
    pub tools: Option<&'a Toolbox>,
    /// True if the model has used up its tool rounds and must answer.
    pub closing: bool,
}

/// The requests of one completion so far.
struct Attempts {
    variant: RequestVariant,
    retries: u32,
    empty: u32,
    /// The last refused body, with the refusal.
    refused: Option<(Value, EndpointError)>,
    backoff: Backoff,
    timeouts: ResponseTimeouts,
}

impl Model {
    /// Sends requests until one is answered or none can succeed. Adds their number to `requests`.
    pub(super) async fn complete(
        &self,
        request: &mut TurnRequest,
        context: &CompletionContext<'_>,
        answer: &mut Answer,
        requests: &mut u32,
    ) -> Result<(), EndpointError> {
        let CompletionContext { model, events, .. } = *context;
        let mut attempts = self.first_attempt(request, model).await;
        loop {
            // Steering is added before the answer begins; after that the request can no longer change.
            request.input.extend(events.take_steering().await);
            let fields = self.optional_fields(context, attempts.variant.effort);
            let form = self.form(model, attempts.variant.shape);
            let pictures = &attempts.variant.pictures;
            let body = request::body(request, model, &self.system_prompt, form, &fields, pictures);
            if let Some((_, refusal)) = attempts.refused.as_ref().filter(|(refused, _)| *refused == body.json) {
                // The change had no effect; try the next one.
                if !attempts.variant.change_shape(refusal) {
                    return Err(refusal.clone());
                }
                continue;
            }
            *requests += 1;
            answer.begin(self.traits.holds_back(model));
            match self.send(&body.json, events, answer, attempts.timeouts).await {
                Ok(()) if attempts.retries_empty(answer) => {
                    tracing::debug!(model, "empty answer from the model; retrying");
                    tokio::time::sleep(attempts.backoff.next_delay()).await;
                    attempts.timeouts = self.response_timeouts();
                }
                Ok(()) => {
                    self.traits.record_answer(model, answer, attempts.variant.shape, body.tokens);
                    show_reasoning(answer, events).await;
                    events.left_out(body.left_out);
                    return Ok(());
                }
                Err(error) if answer.was_shown() || !answer.calls.is_empty() => return Err(error),
                Err(error) => self.prepare_next(error, model, &fields, body, &mut attempts).await?,
            }
        }
    }

    async fn first_attempt(&self, request: &TurnRequest, model: &str) -> Attempts {
        let pictures = match self.sends_pictures.load(Ordering::Relaxed) {
            true => Pictures::read(request).await,
            false => Pictures::default(),
        };
        Attempts {
            variant: RequestVariant::new(request.reasoning.is_some(), pictures, self.traits.of(model).shape),
            retries: 0,
            empty: 0,
            refused: None,
            backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(8)),
            timeouts: self.response_timeouts(),
        }
    }

    /// Prepares the request after one that failed before any output: changes it after a refusal, or waits after a
    /// transient failure.
    ///
    /// # Errors
    ///
    /// The failure, if no further request may succeed.
    async fn prepare_next(
        &self,
        error: EndpointError,
        model: &str,
        fields: &OptionalFields,
        body: RequestBody,
        attempts: &mut Attempts,
    ) -> Result<(), EndpointError> {
        if self.adapt(model, &error, fields, &body, &mut attempts.variant) {
            // The same request may be correct at another address.
            attempts.refused = (!error.suggests_wrong_address()).then_some((body.json, error));
            attempts.timeouts = self.response_timeouts();
            return Ok(());
        }
        if !error.is_transient() || attempts.retries == RETRIES_MAX {
            return Err(error);
        }
        attempts.retries += 1;
        let wait = error.retry_after().unwrap_or_else(|| attempts.backoff.next_delay());
        if Instant::now() + wait >= attempts.timeouts.first {
            return Err(error);
        }
        let retries = attempts.retries;
        tracing::debug!(
            model,
            retries,
            ?wait,
            "request to the model endpoint failed before the answer started; retrying"
        );
        tokio::time::sleep(wait).await;
        attempts.refused = None;
        Ok(())
    }

    fn response_timeouts(&self) -> ResponseTimeouts {
        let Timeouts { first_byte, idle, .. } = self.timeouts;
        ResponseTimeouts { first: Instant::now() + first_byte, first_byte, idle }
    }

    fn optional_fields(&self, context: &CompletionContext<'_>, effort: bool) -> OptionalFields {
        let tools = context.tools.filter(|_| self.traits.accepts_tools(context.model));
        OptionalFields {
            usage: self.accepts_stream_options.load(Ordering::Relaxed),
            effort,
            offer: tools.map(|tools| ToolOffer { tools: tools.offered(), closing: context.closing }),
        }
    }

    /// Returns the form of a request from the configured window and the learned properties of the model.
    fn form(&self, model: &str, shape: MessageShape) -> RequestForm {
        let known = self.traits.of(model).room;
        let configured = self.context_window.map(room_of_window);
        let room = [known, configured].into_iter().flatten().min();
        RequestForm { history_messages_max: self.history_messages_max, shape, room }
    }

    async fn send(
        &self,
        body: &Value,
        events: &EventSink,
        answer: &mut Answer,
        timeouts: ResponseTimeouts,
    ) -> Result<(), EndpointError> {
        let send = self.client.post(self.address().clone()).headers(self.headers.clone()).json(body).send();
        let no_response = |_| EndpointError::NoResponse { after: timeouts.first_byte };
        let response = timeout_at(timeouts.first, send).await.map_err(no_response)?.map_err(NetError::from)?;
        if response.status().is_success() {
            return response::read(response, answer, events, timeouts).await;
        }
        Err(refusal(response, timeouts).await)
    }
}

impl Attempts {
    /// Returns true if an answer contains so little that the request is repeated.
    fn retries_empty(&mut self, answer: &Answer) -> bool {
        let used_up = answer.end == Some(FinishReason::Length) && !answer.reasoning.is_empty();
        if !answer.is_empty() || used_up || answer.end == Some(FinishReason::Filter) {
            return false;
        }
        // A server that puts whole answers into the reasoning will do so again.
        let max = if answer.separates_reasoning { 1 } else { EMPTY_MAX };
        self.empty += 1;
        self.refused = None;
        self.empty <= max
    }
}

/// Shows the reasoning of an answer that contains nothing else.
async fn show_reasoning(answer: &mut Answer, events: &EventSink) {
    let is_over = !matches!(answer.end, Some(FinishReason::Length | FinishReason::Filter));
    if answer.is_empty() && is_over && !answer.reasoning.trim().is_empty() {
        answer.text = format!("{ONLY_REASONING}{}", answer.reasoning.trim());
        events.chunk(answer.shown_text()).await;
    }
}

async fn refusal(response: Response, timeouts: ResponseTimeouts) -> EndpointError {
    let status = response.status().as_u16();
    let wait = retry_after::from_headers(response.headers());
    let start = response::read_start(response, ERROR_BYTES_MAX, timeouts).await;
    EndpointError::of_status(status, wait, &start)
}

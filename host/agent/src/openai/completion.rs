//! Requests that are repeated until they succeed. A transient failure before any output repeats the same
//! request; a refusal leads to a different one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::reqwest::Response;
use hermes_adapter_net::{NetError, retry_after};
use tokio::time::{Instant, timeout_at};

use super::Model;
use super::Timeouts;
use super::error::Trouble;
use super::learned::room_of_window;
use super::pictures::Pictures;
use super::request::{self, Body, Extras, Form, Offer};
use super::response::{self, Patience};
use super::wire::answer::{Answer, End};
use super::wire::history::Shape;
use crate::tools::Toolbox;
use crate::{EventSink, TurnRequest};

/// Retries of a request that failed before any output.
const RETRIES_MAX: u32 = 3;

/// Repetitions of a request whose answer was empty.
const EMPTY_MAX: u32 = 2;

/// Changed requests after refusals.
const CHANGES_MAX: u32 = 12;

/// Bytes read from the start of an error body.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// Text before reasoning that is shown because there is no answer.
const ONLY_REASONING: &str = "(The model returned only its reasoning, without an answer:)\n\n";

/// The model of a request, and the context of the turn.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    /// Model.
    pub model: &'a str,
    /// Receiver of the answer, and source of steering messages.
    pub events: &'a EventSink,
    /// Tools that the model may call.
    pub tools: Option<&'a Toolbox>,
    /// True if the model has used up its tool rounds and must answer.
    pub closing: bool,
}

/// The form of the next request, as changed by refusals.
struct Attempt {
    effort: bool,
    pictures: Pictures,
    shape: Shape,
    /// Refusals that led to a changed request.
    changes: u32,
    retries: u32,
    empty: u32,
    /// True once the alternative address of the endpoint was tried.
    other_address: bool,
    /// The last refused request.
    refused: Option<serde_json::Value>,
    backoff: Backoff,
}

/// Reaction to a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// Send a changed request, which may succeed.
    Ask,
    /// Fail; no other request helps.
    Fail,
}

impl Model {
    /// Sends requests until one is answered or none can succeed.
    pub(super) async fn ask_until_answered(
        &self,
        request: &mut TurnRequest,
        asking: &Asking<'_>,
        answer: &mut Answer,
        attempts: &mut u32,
    ) -> Result<(), Trouble> {
        let Asking { model, events, tools, .. } = *asking;
        let mut patience = self.patience();
        let mut attempt = Attempt {
            effort: request.reasoning.is_some(),
            pictures: match self.takes_pictures.load(Ordering::Relaxed) {
                true => Pictures::read(request).await,
                false => Pictures::default(),
            },
            shape: self.habits.of(model).shape,
            changes: 0,
            retries: 0,
            empty: 0,
            other_address: false,
            refused: None,
            backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(8)),
        };
        let mut trouble = None;
        loop {
            let offer = match tools {
                Some(tools) if self.habits.takes_tools(model) => {
                    Some(Offer { tools: tools.offered(), closing: asking.closing })
                }
                _ => None,
            };
            let with =
                Extras { usage: self.takes_stream_options.load(Ordering::Relaxed), effort: attempt.effort, offer };
            // Steering is added before the answer begins; after that the request can no longer change.
            request.input.extend(events.steered().await);
            let form = self.form(model, attempt.shape);
            let body = request::body(request, model, &self.system_prompt, form, &with, &attempt.pictures);
            if attempt.refused.as_ref() == Some(&body.json)
                && let Some(refusal) = &trouble
            {
                // The change had no effect; try the next one.
                match may_dislike_messages(refusal).and_then(|words| attempt.shape.after(words)) {
                    Some(shape) => attempt.shape = shape,
                    None => return Err(refusal.clone()),
                }
                continue;
            }
            *attempts += 1;
            answer.begin(self.habits.holds_back(model));
            let asked = self.ask(&body.json, events, answer, patience).await;
            let failed = match asked {
                Ok(()) if attempt.asks_again(answer) => {
                    tracing::debug!(model, "empty answer from the model; retrying");
                    tokio::time::sleep(attempt.backoff.next_delay()).await;
                    patience = self.patience();
                    continue;
                }
                Ok(()) => {
                    self.habits.answered(model, answer, attempt.shape, body.tokens);
                    show_reasoning(answer, events).await;
                    events.left_out(body.left_out);
                    return Ok(());
                }
                Err(failed) => failed,
            };
            let nothing_said = !answer.was_shown() && answer.calls.is_empty();
            if nothing_said && self.react(model, &failed, &with, &body, &mut attempt) == Reaction::Ask {
                attempt.changes += 1;
                // The same request may be correct at another address.
                attempt.refused = (!failed.blames_address()).then_some(body.json);
                trouble = Some(failed);
                patience = self.patience();
                continue;
            }
            if !nothing_said || !failed.is_passing() || attempt.retries == RETRIES_MAX {
                return Err(failed);
            }
            attempt.retries += 1;
            let wait = failed.retry_after().unwrap_or_else(|| attempt.backoff.next_delay());
            if Instant::now() + wait >= patience.first {
                return Err(failed);
            }
            tracing::debug!(
                model,
                attempt.retries,
                ?wait,
                "request to the model endpoint failed before the answer started; retrying"
            );
            tokio::time::sleep(wait).await;
            attempt.refused = None;
        }
    }

    fn patience(&self) -> Patience {
        let Timeouts { first_byte, idle, .. } = self.timeouts;
        Patience { first: Instant::now() + first_byte, first_byte, idle }
    }

    /// Returns the form of a request from the configured window and the learned properties of the model.
    fn form(&self, model: &str, shape: Shape) -> Form {
        let known = self.habits.of(model).room;
        let configured = self.context_window.map(room_of_window);
        let room = [known, configured].into_iter().flatten().min();
        Form { history_messages_max: self.history_messages_max, shape, room }
    }

    /// Changes the property of the next request to which the refusal refers.
    fn react(&self, model: &str, trouble: &Trouble, with: &Extras, body: &Body, attempt: &mut Attempt) -> Reaction {
        if attempt.changes == CHANGES_MAX {
            return Reaction::Fail;
        }
        if self.changes_address(trouble, attempt) {
            return Reaction::Ask;
        }
        if with.usage && dislikes_stream_options(trouble) {
            self.takes_stream_options.store(false, Ordering::Relaxed);
        } else if with.offer.is_some() && dislikes_tools(trouble) {
            tracing::warn!(model, "model does not support tools; sending requests without tools for a while");
            self.habits.refuses_tools(model);
        } else if let Trouble::ContextTooLong { words, .. } = trouble {
            let room = self.habits.was_too_long(model, body.tokens, words);
            if body.tokens <= room && !attempt.pictures.is_empty() {
                attempt.pictures = Pictures::default();
            }
            tracing::info!(model, tokens = body.tokens, room, "conversation exceeds the context window of the model");
        } else if with.effort && dislikes_effort(trouble) {
            // Applies to this model only; another one may accept it.
            tracing::warn!(model, "model does not support reasoning effort; sending requests without it");
            attempt.effort = false;
        } else if !attempt.pictures.is_empty() && may_dislike_pictures(trouble) {
            // Retry without pictures. Only a refusal that mentions pictures disables them permanently.
            if names_pictures(trouble) {
                tracing::warn!(model, "endpoint does not support images; sending only file names from now on");
                self.takes_pictures.store(false, Ordering::Relaxed);
            }
            attempt.pictures = Pictures::default();
        } else if let Some(shape) = may_dislike_messages(trouble).and_then(|words| attempt.shape.after(words)) {
            tracing::info!(model, ?shape, "endpoint rejected the message format; retrying with another format");
            attempt.shape = shape;
        } else {
            return Reaction::Fail;
        }
        Reaction::Ask
    }

    /// Switches to the alternative address if the first one does not answer like a chat completion endpoint.
    fn changes_address(&self, trouble: &Trouble, attempt: &mut Attempt) -> bool {
        if !trouble.blames_address() || self.addresses.len() < 2 {
            return false;
        }
        let at = self.address.load(Ordering::Relaxed);
        if attempt.other_address {
            // Neither address is correct; the error names the first one.
            self.address.store(0, Ordering::Relaxed);
            return false;
        }
        attempt.other_address = true;
        self.address.store(1 - at.min(1), Ordering::Relaxed);
        true
    }

    async fn ask(
        &self,
        body: &serde_json::Value,
        events: &EventSink,
        answer: &mut Answer,
        patience: Patience,
    ) -> Result<(), Trouble> {
        let send = self.client.post(self.address().clone()).headers(self.headers.clone()).json(body).send();
        let no_answer = |_| Trouble::NoAnswer { after: patience.first_byte };
        let response = timeout_at(patience.first, send).await.map_err(no_answer)?.map_err(NetError::from)?;
        if response.status().is_success() {
            return response::read(response, answer, events, patience).await;
        }
        Err(refused(response, patience).await)
    }
}

impl Attempt {
    /// Returns true if an answer contains so little that the request is repeated.
    fn asks_again(&mut self, answer: &Answer) -> bool {
        let used_up = answer.end == Some(End::Length) && !answer.reasoning.is_empty();
        if !answer.is_empty() || used_up || answer.end == Some(End::Filter) {
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
    let is_over = !matches!(answer.end, Some(End::Length | End::Filter));
    if answer.is_empty() && is_over && !answer.reasoning.trim().is_empty() {
        answer.text = format!("{ONLY_REASONING}{}", answer.reasoning.trim());
        events.chunk(answer.said()).await;
    }
}

async fn refused(response: Response, patience: Patience) -> Trouble {
    let status = response.status().as_u16();
    let wait = retry_after::from_headers(response.headers());
    let start = response::read_start(response, ERROR_BYTES_MAX, patience).await;
    Trouble::of_status(status, wait, &start)
}

/// Returns true if the endpoint refused the request because of `stream_options`.
fn dislikes_stream_options(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { status: 400 | 422, words }
        if words.contains("stream_options") || words.contains("include_usage"))
}

/// Returns true if the model refused the request because of the reasoning effort.
fn dislikes_effort(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { status: 400 | 422, words }
        if words.contains("reasoning") && !words.contains("reasoning_content"))
}

/// Returns true if a refusal may concern the pictures of the request.
fn may_dislike_pictures(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { status: 400 | 404 | 413 | 415 | 422, .. } | Trouble::NoSuchAddress { .. })
}

/// Returns the message of a refusal that may concern the messages of the request.
fn may_dislike_messages(trouble: &Trouble) -> Option<&str> {
    let about_something_else =
        ["api key", "temperature", "max_tokens", "unsupported parameter", "unrecognized", "billing"];
    let template = ["role", "template", "jinja", "alternat", "system"];
    let says = |words: &str, needles: &[&str]| {
        let words = words.to_ascii_lowercase();
        needles.iter().any(|needle| words.contains(needle))
    };
    match trouble {
        Trouble::Refused { status: 400 | 422, words } if !says(words, &about_something_else) => Some(words),
        // Local servers fail when the chat template of their model rejects the messages.
        Trouble::ServerFailed { status: 500, words, .. } if says(words, &template) => Some(words),
        _ => None,
    }
}

/// Returns true if a refusal mentions pictures.
fn names_pictures(trouble: &Trouble) -> bool {
    let (Trouble::Refused { words, .. } | Trouble::NoSuchAddress { words, .. }) = trouble else { return false };
    let words = words.to_ascii_lowercase();
    ["image", "vision", "multimodal"].iter().any(|word| words.contains(word))
}

/// Returns true if the endpoint reports that it or the model does not support tools.
fn dislikes_tools(trouble: &Trouble) -> bool {
    let words = match trouble {
        Trouble::Refused { status: 400 | 422, words }
        | Trouble::NotFound { words }
        | Trouble::NoSuchAddress { words, .. }
        | Trouble::ServerFailed { status: 501, words, .. } => words.to_ascii_lowercase(),
        _ => return false,
    };
    // An error about a single tool or call does not count.
    let words: String = words.chars().filter(|c| !matches!(c, '`' | '"' | '\'')).collect();
    let what = ["tools", "tool use", "tool calls", "tool calling", "tool-calling", "functions", "function calling"];
    let before =
        ["not support ", "n't support ", "that support ", "unsupported parameter: ", "not allow ", "no support for "];
    let behind = [" not supported", " is not supported", " are not supported", " is unsupported", " is not enabled"];
    what.iter().any(|what| {
        before.iter().any(|before| words.contains(&format!("{before}{what}")))
            || behind.iter().any(|behind| words.contains(&format!("{what}{behind}")))
    }) || words.contains("requires --enable-auto-tool-choice")
}

//! One request, made until it is answered: again where the trouble passes and nothing was
//! said, and differently where the endpoint does not take what it was sent.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::body::read_start;
use hermes_adapter_net::reqwest::Response;
use hermes_adapter_net::{NetError, retry_after};
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::failure::Trouble;
use super::pictures::Pictures;
use super::read::{self, Patience};
use super::request::{self, Extras, Offer};
use super::{Model, Timeouts};
use crate::tools::Toolbox;
use crate::{EventSink, TurnRequest};

/// How often a request is made again that failed before anything was said.
const RETRIES_MAX: u32 = 3;

/// The beginning of an error's body that is read.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// Models that are remembered to take no tools.
const WITHOUT_TOOLS_MAX: usize = 256;

/// How long a model is believed to take no tools; then it is offered them again.
const WITHOUT_TOOLS_FOR: Duration = Duration::from_secs(600);

/// Who is asked, and with what at hand.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    /// The model.
    pub model: &'a str,
    /// Where the answer is said, and who steers.
    pub events: &'a EventSink,
    /// What the model may call.
    pub tools: Option<&'a Toolbox>,
    /// Whether it has called enough and is to answer.
    pub closing: bool,
}

impl Model {
    /// Asks, and asks again as long as nothing was said, the trouble passes and there is time.
    pub(super) async fn ask_until_answered(
        &self,
        request: &mut TurnRequest,
        asking: &Asking<'_>,
        answer: &mut Answer,
        attempts: &mut u32,
    ) -> Result<(), Trouble> {
        let Asking { model, events, tools, .. } = *asking;
        let Timeouts { first_byte, idle, .. } = self.timeouts;
        let patience = Patience { first: Instant::now() + first_byte, first_byte, idle };
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));
        let mut retries = 0;
        let mut effort = request.reasoning.is_some();
        let mut pictures = match self.takes_pictures.load(Ordering::Relaxed) {
            true => Pictures::read(request).await,
            false => Pictures::default(),
        };
        loop {
            let offer = match tools {
                Some(tools) if self.takes_tools(model) => {
                    Some(Offer { tools: tools.offered(), closing: asking.closing })
                }
                _ => None,
            };
            let with = Extras { usage: self.takes_stream_options.load(Ordering::Relaxed), effort, offer };
            // Once an answer has begun it is too late to ask differently.
            request.input.extend(events.steered().await);
            *attempts += 1;
            let body = request::body(request, model, &self.system_prompt, self.history_messages_max, &with, &pictures);
            let trouble = match self.ask(&body, events, answer, patience).await {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            let nothing_said = answer.is_untouched();
            if with.usage && dislikes_stream_options(&trouble) {
                self.takes_stream_options.store(false, Ordering::Relaxed);
                continue;
            }
            if with.offer.is_some() && nothing_said && dislikes_tools(&trouble) {
                tracing::warn!(model, "the model takes no tools; it is asked without for a while");
                self.remember_without_tools(model);
                continue;
            }
            if with.effort && dislikes_effort(&trouble) {
                // Of this model only; another one may take it.
                tracing::warn!(model, "the model takes no reasoning effort; it is asked without");
                effort = false;
                continue;
            }
            if !pictures.is_empty() && nothing_said && may_dislike_pictures(&trouble) {
                // Once more without; only words about pictures mean that there is no use in trying again.
                if names_pictures(&trouble) {
                    tracing::warn!(model, "the endpoint takes no pictures; files are only named from here on");
                    self.takes_pictures.store(false, Ordering::Relaxed);
                }
                pictures = Pictures::default();
                continue;
            }
            if !nothing_said || !trouble.is_passing() || retries == RETRIES_MAX {
                return Err(trouble);
            }
            retries += 1;
            let wait = trouble.retry_after().unwrap_or_else(|| backoff.next_delay());
            if Instant::now() + wait >= patience.first {
                return Err(trouble);
            }
            tracing::debug!(model, retries, ?wait, "the model endpoint failed before it said anything; asking again");
            tokio::time::sleep(wait).await;
            answer.begin_again();
        }
    }

    async fn ask(
        &self,
        body: &serde_json::Value,
        events: &EventSink,
        answer: &mut Answer,
        patience: Patience,
    ) -> Result<(), Trouble> {
        let send = self.client.post(self.url.clone()).headers(self.headers.clone()).json(body).send();
        let no_answer = |_| Trouble::NoAnswer { after: patience.first_byte };
        let response = timeout_at(patience.first, send).await.map_err(no_answer)?.map_err(NetError::from)?;
        if response.status().is_success() {
            return read::read(response, answer, events, patience).await;
        }
        Err(refused(response, patience).await)
    }

    fn remember_without_tools(&self, model: &str) {
        let mut without = self.without_tools.lock().unwrap_or_else(PoisonError::into_inner);
        without.retain(|_, until| *until > Instant::now());
        if without.len() < WITHOUT_TOOLS_MAX {
            without.insert(model.to_owned(), Instant::now() + WITHOUT_TOOLS_FOR);
        }
    }

    /// Whether a model has not refused tools lately.
    pub(super) fn takes_tools(&self, model: &str) -> bool {
        let without = self.without_tools.lock().unwrap_or_else(PoisonError::into_inner);
        without.get(model).is_none_or(|until| *until <= Instant::now())
    }
}

async fn refused(response: Response, patience: Patience) -> Trouble {
    let status = response.status().as_u16();
    let wait = retry_after::from_headers(response.headers());
    // A body that does not come is no reason to forget the status.
    let start = timeout_at(patience.first, read_start(response, ERROR_BYTES_MAX)).await.unwrap_or_default();
    Trouble::of_status(status, wait, &start)
}

/// Whether the endpoint refused the request for the wish to be told the usage.
fn dislikes_stream_options(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { status: 400 | 422, words }
        if words.contains("stream_options") || words.contains("include_usage"))
}

/// Whether the model refused the request for the effort that was asked for.
fn dislikes_effort(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { status: 400 | 422, words } if words.contains("reasoning"))
}

/// Whether a refusal can be about the pictures of the request.
fn may_dislike_pictures(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { status: 400 | 404 | 413 | 415 | 422, .. })
}

/// Whether a refusal says that pictures are not taken at all.
fn names_pictures(trouble: &Trouble) -> bool {
    let Trouble::Refused { words, .. } = trouble else { return false };
    let words = words.to_ascii_lowercase();
    ["image", "vision", "multimodal"].iter().any(|word| words.contains(word))
}

/// Whether the endpoint said that it, or the model, takes no tools at all.
fn dislikes_tools(trouble: &Trouble) -> bool {
    let words = match trouble {
        Trouble::Refused { status: 400 | 422, words }
        | Trouble::NotFound { words }
        | Trouble::ServerFailed { status: 501, words, .. } => words.to_ascii_lowercase(),
        _ => return false,
    };
    // An error about one tool, or one call, is none about tools.
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

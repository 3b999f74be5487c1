//! Any OpenAI-compatible chat completions endpoint.
//!
//! One request a turn, streamed. A request that failed before anything was said
//! is made again a few times; after the first piece it never is, since nobody
//! wants two beginnings. No tools are offered.
//!
//! * [`request`]: what the endpoint is asked.
//! * [`read`]: reads the answer, whatever its form.
//! * [`answer`]: what has been said so far.
//! * [`pictures`]: what a model that can see is shown.
//! * [`failure`]: every way to fail, and its sentence.

mod answer;
mod failure;
mod pictures;
mod read;
mod request;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::body::read_start;
use hermes_adapter_net::client::{base_url, is_loopback};
use hermes_adapter_net::reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_net::reqwest::{Client, Response, Url};
use hermes_adapter_net::{ClientOptions, NetError, http_client, retry_after};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use self::answer::Answer;
use self::failure::Trouble;
use self::pictures::Pictures;
use self::read::Patience;
use self::request::Extras;
use crate::{AgentConfig, AgentRuntime, BuildError, EventSink, Message, Timeouts, TurnOutcome, TurnRequest};

/// The endpoint of a configuration that names none.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// The model of a configuration that names neither endpoint nor model.
pub const DEFAULT_MODEL: &str = "gpt-4.1-mini";

/// How often a request is made again that failed before anything was said.
const RETRIES_MAX: u32 = 3;

/// The beginning of an error's body that is read.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// The `openai` runtime.
pub struct OpenAi {
    client: Client,
    url: Url,
    headers: HeaderMap,
    key: String,
    model: String,
    other_models: Vec<String>,
    system_prompt: String,
    history_messages_max: usize,
    timeouts: Timeouts,
    /// Whether the endpoint takes `stream_options`; some refuse the whole request because of it.
    takes_stream_options: AtomicBool,
    /// Whether the model is shown pictures: the operator wants it, and the endpoint has not refused any.
    takes_pictures: AtomicBool,
}

impl OpenAi {
    /// The runtime that `config` describes.
    ///
    /// # Errors
    ///
    /// Says which key of `[agent]` is missing or wrong. Nothing is asked over the network.
    pub fn new(config: &AgentConfig) -> Result<Self, BuildError> {
        let is_default = config.base_url.is_none();
        let base = base_url(config.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL))
            .map_err(|error| BuildError::BaseUrl { why: error.to_string() })?;
        let key = config.api_key.as_ref().map(|key| key.expose().trim().to_owned()).unwrap_or_default();
        if is_default && key.is_empty() {
            let mend = "set OPENAI_API_KEY, or name another endpoint in base_url";
            return Err(BuildError::Missing { key: "api_key", runtime: "openai", mend });
        }
        let model = match config.model.as_deref().map(str::trim).filter(|model| !model.is_empty()) {
            Some(model) => model.to_owned(),
            None if is_default => DEFAULT_MODEL.to_owned(),
            None => {
                let mend = "name a model that the endpoint of base_url has";
                return Err(BuildError::Missing { key: "model", runtime: "openai", mend });
            }
        };
        let mut options = ClientOptions::for_base_url(&base);
        options.connect_timeout = config.timeouts.connect;
        options.total_timeout = None;
        options.ca_file = config.ca_file.clone();
        if !key.is_empty() && base.scheme() == "http" && !is_loopback(&base) {
            tracing::warn!("[agent] base_url begins with http://: the API key travels unencrypted");
        }
        Ok(Self {
            client: http_client(&options).map_err(BuildError::Client)?,
            url: endpoint(&base)?,
            headers: headers(&key)?,
            key,
            other_models: config.models.iter().filter(|other| **other != model).cloned().collect(),
            model,
            system_prompt: config.system_prompt.clone().unwrap_or_default(),
            history_messages_max: config.history_messages_max,
            timeouts: config.timeouts,
            takes_stream_options: AtomicBool::new(true),
            takes_pictures: AtomicBool::new(config.pictures),
        })
    }

    async fn answer(&self, request: &mut TurnRequest, events: &EventSink, answer: &mut Answer) -> TurnOutcome {
        let model = &request.model.clone().unwrap_or_else(|| self.model.clone());
        let mut attempts = 0;
        let trouble = match self.ask_until_answered(request, model, events, answer, &mut attempts).await {
            Ok(()) => trouble_of(answer),
            Err(trouble) => Some(trouble),
        };
        answer.usage.api_calls = u64::from(attempts);
        if let Some(trouble) = trouble {
            let mut failure = trouble.into_failure(model, attempts, std::mem::take(&mut answer.text));
            if !self.key.is_empty() {
                failure.detail = failure.detail.replace(&self.key, "[***]");
            }
            return TurnOutcome::Failed(failure);
        }
        let mut message = Message::assistant(answer.text.clone());
        message.reasoning = Some(std::mem::take(&mut answer.reasoning)).filter(|thought| !thought.is_empty());
        TurnOutcome::Finished {
            text: std::mem::take(&mut answer.text),
            messages: vec![message],
            usage: answer.usage,
            finish_reason: if answer.finish_reason.as_deref() == Some("length") { "length" } else { "stop" }.to_owned(),
            model: answer.model.take().unwrap_or_else(|| model.to_owned()),
            state: None,
        }
    }

    /// Asks, and asks again as long as nothing was said, the trouble passes and there is time.
    async fn ask_until_answered(
        &self,
        request: &mut TurnRequest,
        model: &str,
        events: &EventSink,
        answer: &mut Answer,
        attempts: &mut u32,
    ) -> Result<(), Trouble> {
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
            let with = Extras { usage: self.takes_stream_options.load(Ordering::Relaxed), effort };
            // Once an answer has begun it is too late to ask differently.
            request.input.extend(events.steered().await);
            *attempts += 1;
            let body = request::body(request, model, &self.system_prompt, self.history_messages_max, with, &pictures);
            let trouble = match self.ask(&body, events, answer, patience).await {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            let nothing_said = answer.text.is_empty() && answer.reasoning.is_empty() && answer.finish_reason.is_none();
            if with.usage && dislikes_stream_options(&trouble) {
                self.takes_stream_options.store(false, Ordering::Relaxed);
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
            *answer = Answer::default();
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
}

impl AgentRuntime for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn models(&self) -> Vec<String> {
        std::iter::once(&self.model).chain(&self.other_models).cloned().collect()
    }

    fn steers(&self) -> bool {
        true
    }

    fn run(
        &self,
        mut request: TurnRequest,
        events: EventSink,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let mut answer = Answer::default();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                outcome = self.answer(&mut request, &events, &mut answer) => return outcome,
            }
            TurnOutcome::Interrupted { text: answer.text }
        })
    }
}

/// What is wrong with an answer that was read to its end.
fn trouble_of(answer: &Answer) -> Option<Trouble> {
    let reason = answer.finish_reason.as_deref().unwrap_or_default();
    if reason == "content_filter" {
        return Some(Trouble::Filtered { words: "finish_reason content_filter".to_owned() });
    }
    if answer.tool_call || matches!(reason, "tool_calls" | "function_call") {
        return Some(Trouble::ToolCall);
    }
    if !answer.text.trim().is_empty() {
        return None;
    }
    Some(if reason == "length" { Trouble::OnlyLength } else { Trouble::Empty })
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

fn endpoint(base: &Url) -> Result<Url, BuildError> {
    let address = format!("{}/chat/completions", base.as_str().trim_end_matches('/'));
    Url::parse(&address).map_err(|error| BuildError::BaseUrl { why: error.to_string() })
}

fn headers(key: &str) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if !key.is_empty() {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| BuildError::ApiKey)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

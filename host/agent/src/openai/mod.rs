//! A runtime for OpenAI-compatible chat completion endpoints.
//!
//! A turn is one streamed request, and one more after each round of tool calls. A request that fails before any
//! output is retried a few times. After the first piece it is never retried, because the chat would then show
//! two beginnings.
//!
//! * [`turn`]: the course of a turn from its first request to its last answer.
//! * [`completion`]: one request to the model, repeated until it is answered.
//! * [`refusal`]: the changes of a request after a refusal.
//! * [`tool_round`]: the execution of the tool calls of an answer.
//! * [`request`]: the body of a request.
//! * [`response`]: the reader of responses in all their forms.
//! * [`wire`]: the parser for answers and the writer for histories.
//! * [`learned`]: learned properties of models.
//! * [`pictures`]: pictures for models that accept them.
//! * [`error`], [`error_text`]: the errors of an endpoint and their texts.

mod completion;
mod error;
mod error_text;
mod learned;
mod pictures;
mod refusal;
mod request;
mod response;
mod tool_round;
mod turn;
pub(crate) mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use hermes_adapter_net::client::{base_url, is_loopback};
use hermes_adapter_net::reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_net::reqwest::{Client, Url};
use hermes_adapter_net::{ClientOptions, http_client};
use hermes_core::context::TurnContext;
use tokio_util::sync::CancellationToken;

use self::learned::LearnedTraits;
use self::turn::{TurnSteps, TurnText};
use crate::tools::Toolbox;
use crate::{
    AgentConfig, AgentRuntime, BackgroundProcess, BuildError, EventSink, OwnedProcess, Timeouts, TurnOutcome,
    TurnRequest,
};

/// Default endpoint.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// Default model of the default endpoint.
pub const DEFAULT_MODEL: &str = "gpt-4.1-mini";

/// The `openai` runtime.
pub struct OpenAi(Arc<Model>);

/// The endpoint and its state.
struct Model {
    client: Client,
    /// Address of requests, followed by the alternative that is tried if the first one is not an endpoint.
    addresses: Vec<Url>,
    /// Index of the address in use.
    address: AtomicUsize,
    headers: HeaderMap,
    key: String,
    model: String,
    other_models: Vec<String>,
    system_prompt: String,
    history_messages_max: usize,
    timeouts: Timeouts,
    /// True if the endpoint accepts `stream_options`; some refuse the whole request because of it.
    accepts_stream_options: AtomicBool,
    /// True if pictures are sent: the operator enabled them and the endpoint has not refused any.
    sends_pictures: AtomicBool,
    /// Context window in tokens, if configured.
    context_window: Option<usize>,
    traits: LearnedTraits,
    tools: Toolbox,
    iterations_max: u32,
}

impl OpenAi {
    /// Creates the runtime that `config` describes, without network access.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if a key of `[agent]` is missing or invalid.
    pub fn new(config: &AgentConfig, tools: Toolbox) -> Result<Self, BuildError> {
        let is_default = config.base_url.is_none();
        let base = base_url(config.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL))
            .map_err(|error| BuildError::BaseUrl { why: error.to_string() })?;
        let key = config.api_key.as_ref().map(|key| key.expose().trim().to_owned()).unwrap_or_default();
        if is_default && key.is_empty() {
            let remedy = "set OPENAI_API_KEY, or set base_url to another endpoint";
            return Err(BuildError::Missing { key: "api_key", runtime: "openai", remedy });
        }
        let model = match config.model.as_deref().map(str::trim).filter(|model| !model.is_empty()) {
            Some(model) => model.to_owned(),
            None if is_default => DEFAULT_MODEL.to_owned(),
            None => {
                let remedy = "set it to a model of the endpoint in base_url";
                return Err(BuildError::Missing { key: "model", runtime: "openai", remedy });
            }
        };
        let mut options = ClientOptions::for_base_url(&base);
        options.connect_timeout = config.timeouts.connect;
        options.total_timeout = None;
        options.ca_file = config.ca_file.clone();
        options.proxy = config.proxy.clone();
        if !key.is_empty() && base.scheme() == "http" && !is_loopback(&base) {
            tracing::warn!("[agent] base_url uses http://; the API key is sent unencrypted");
        }
        Ok(Self(Arc::new(Model {
            client: http_client(&options).map_err(BuildError::Client)?,
            addresses: addresses(&base)?,
            address: AtomicUsize::new(0),
            headers: headers(&key)?,
            key,
            other_models: config.models.iter().filter(|other| **other != model).cloned().collect(),
            model,
            system_prompt: config.system_prompt.clone().unwrap_or_default(),
            history_messages_max: config.history_messages_max,
            timeouts: config.timeouts,
            accepts_stream_options: AtomicBool::new(true),
            sends_pictures: AtomicBool::new(config.pictures),
            context_window: config.context_window,
            traits: LearnedTraits::default(),
            tools,
            iterations_max: config.iterations_max.max(1),
        })))
    }
}

impl AgentRuntime for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn models(&self) -> Vec<String> {
        std::iter::once(&self.0.model).chain(&self.0.other_models).cloned().collect()
    }

    fn steers(&self) -> bool {
        true
    }

    fn adopt_background(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(self.0.tools.adopt_background())
    }

    fn processes(&self, context: &TurnContext) -> Vec<BackgroundProcess> {
        self.0.tools.left_running(context)
    }

    fn end_process(&self, context: &TurnContext, id: &str) -> bool {
        self.0.tools.end_process(Some(context), id)
    }

    fn all_processes(&self) -> Vec<OwnedProcess> {
        self.0.tools.left_everywhere()
    }

    fn end_any_process(&self, id: &str) -> bool {
        self.0.tools.end_process(None, id)
    }

    fn run(
        &self,
        mut request: TurnRequest,
        events: EventSink,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let mut turn_text = TurnText::default();
            let steps = TurnSteps::of_turn(&self.0);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                outcome = steps.answer(&mut request, &events, &mut turn_text) => return outcome,
            }
            TurnOutcome::Interrupted { text: turn_text.text() }
        })
    }
}

impl Model {
    /// Returns the address in use.
    fn address(&self) -> &Url {
        let at = self.address.load(Ordering::Relaxed);
        self.addresses.get(at).unwrap_or(&self.addresses[0])
    }
}

/// Returns the addresses of requests for a base URL. A URL with the full path is used unchanged. For a URL
/// without a version, `/v1` is added as an alternative.
fn addresses(base: &Url) -> Result<Vec<Url>, BuildError> {
    let base = base.as_str().trim_end_matches('/');
    let parse = |address: String| Url::parse(&address).map_err(|error| BuildError::BaseUrl { why: error.to_string() });
    if base.ends_with("/chat/completions") {
        return Ok(vec![parse(base.to_owned())?]);
    }
    let mut addresses = vec![parse(format!("{base}/chat/completions"))?];
    let is_version =
        |part: &str| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if !addresses[0].path().split('/').any(is_version) {
        addresses.push(parse(format!("{base}/v1/chat/completions"))?);
    }
    Ok(addresses)
}

fn headers(key: &str) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    // A compressed stream arrives in large chunks.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !key.is_empty() {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| BuildError::ApiKey)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

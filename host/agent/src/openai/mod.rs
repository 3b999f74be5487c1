//! Any OpenAI-compatible chat completions endpoint.
//!
//! A turn is one request, streamed, and one more after every round of tools that the
//! model calls. A request that failed before anything was said is made again a few
//! times; after the first piece it never is, since nobody wants two beginnings.
//!
//! * [`steps`]: a turn from its first request to its last answer.
//! * [`asking`]: one request, until it is answered.
//! * [`calls`]: the execution of the calls of an answer.
//! * [`request`]: what the endpoint is asked.
//! * [`read`]: reads the answer, whatever its form.
//! * [`wire`]: the parsing of answers and the writing of histories.
//! * [`habits`]: the peculiarities of models that were learnt.
//! * [`pictures`]: what a model that can see is shown.
//! * [`failure`]: every way to fail, and its sentence.

mod asking;
mod calls;
mod failure;
mod habits;
mod pictures;
mod read;
mod request;
mod steps;
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

use self::habits::AllHabits;
use self::steps::{Steps, Talk};
use crate::tools::Toolbox;
use crate::{
    AgentConfig, AgentRuntime, BuildError, EventSink, LeftRunning, LeftSomewhere, Timeouts, TurnOutcome, TurnRequest,
};

/// The endpoint of a configuration that names none.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// The model of a configuration that names neither endpoint nor model.
pub const DEFAULT_MODEL: &str = "gpt-4.1-mini";

/// The `openai` runtime.
pub struct OpenAi(Arc<Model>);

/// The endpoint, and what is known of it.
struct Model {
    client: Client,
    /// The address of requests, and the one that is tried where that is not an endpoint's.
    addresses: Vec<Url>,
    /// The address in use, by its place in `addresses`.
    address: AtomicUsize,
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
    /// The tokens that the model reads at most, where the operator says so.
    context_window: Option<usize>,
    habits: AllHabits,
    tools: Toolbox,
    iterations_max: u32,
}

impl OpenAi {
    /// The runtime that `config` describes.
    ///
    /// # Errors
    ///
    /// Says which key of `[agent]` is missing or wrong. Nothing is asked over the network.
    pub fn new(config: &AgentConfig, tools: Toolbox) -> Result<Self, BuildError> {
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
        options.proxy = config.proxy.clone();
        if !key.is_empty() && base.scheme() == "http" && !is_loopback(&base) {
            tracing::warn!("[agent] base_url begins with http://: the API key travels unencrypted");
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
            takes_stream_options: AtomicBool::new(true),
            takes_pictures: AtomicBool::new(config.pictures),
            context_window: config.context_window,
            habits: AllHabits::default(),
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

    fn take_up(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(self.0.tools.take_up())
    }

    fn processes(&self, context: &TurnContext) -> Vec<LeftRunning> {
        self.0.tools.left_running(context)
    }

    fn end_process(&self, context: &TurnContext, id: &str) -> bool {
        self.0.tools.end_process(Some(context), id)
    }

    fn processes_of_all(&self) -> Vec<LeftSomewhere> {
        self.0.tools.left_everywhere()
    }

    fn end_process_of_any(&self, id: &str) -> bool {
        self.0.tools.end_process(None, id)
    }

    fn run(
        &self,
        mut request: TurnRequest,
        events: EventSink,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let mut talk = Talk::default();
            let steps = Steps::of_turn(&self.0);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                outcome = steps.answer(&mut request, &events, &mut talk) => return outcome,
            }
            TurnOutcome::Interrupted { text: talk.text() }
        })
    }
}

impl Model {
    /// The address of requests.
    fn address(&self) -> &Url {
        let at = self.address.load(Ordering::Relaxed);
        self.addresses.get(at).unwrap_or(&self.addresses[0])
    }
}

/// Returns the address of requests below a base address. A base that holds the whole path is taken as it is; for one
/// without a version, the usual one is tried where the address turns out to be wrong.
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
    // A compressed stream comes in lumps.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !key.is_empty() {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| BuildError::ApiKey)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

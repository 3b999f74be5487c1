//! Which runtime answers, and how long it may take.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::secret::Secret;
use hermes_core::settings::Effort;

use crate::AgentRuntime;
use crate::echo::Echo;
use crate::openai::OpenAi;
use crate::tools::{Ports, Toolbox};

/// The runtimes of this version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Answers with what it heard.
    #[default]
    Echo,
    /// An OpenAI-compatible endpoint.
    OpenAi,
}

impl RuntimeKind {
    /// The words of all runtimes, as configuration spells them.
    pub const WORDS: [&str; 2] = ["echo", "openai"];

    /// Returns the word of this runtime.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::OpenAi => "openai",
        }
    }

    /// Returns the runtime of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Echo, Self::OpenAi].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The `[agent]` section, secrets resolved.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Which runtime answers.
    pub runtime: RuntimeKind,
    /// Where the endpoint is: what stands before `/chat/completions`.
    pub base_url: Option<String>,
    /// The model to ask for.
    pub model: Option<String>,
    /// Other models that may be asked for.
    pub models: Vec<String>,
    /// The endpoint's key; endpoints on this machine often need none.
    pub api_key: Option<Secret>,
    /// What the model is told before every conversation.
    pub system_prompt: Option<String>,
    /// Whom the agent can be, by name: what is told besides the prompt where somebody chose it.
    pub personalities: BTreeMap<String, String>,
    /// How much the model should think where nobody chose it.
    pub reasoning: Option<Effort>,
    /// Whether its thoughts are shown where nobody chose it.
    pub show_reasoning: bool,
    /// Certificates to trust besides the system's, as a PEM file.
    pub ca_file: Option<PathBuf>,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// The most messages of history a model gets; the oldest are left out.
    pub history_messages_max: usize,
    /// The tokens that the model reads at most; `None`: learnt from the endpoint.
    pub context_window: Option<usize>,
    /// Whether pictures that come in are shown to the model.
    pub pictures: bool,
    /// Whether the echo runtime understands its test words.
    pub test_words: bool,
    /// The tools that are switched on, by name; [`crate::tools::ALL`] means every one.
    pub tools: Vec<String>,
    /// How often a model may call tools in one turn before it has to answer.
    pub iterations_max: u32,
    /// How long a command may take when nobody says.
    pub terminal_timeout: Duration,
    /// Where commands run when nobody says; `None`: where the host does.
    pub cwd: Option<PathBuf>,
    /// Patterns of commands that need approval besides the usual ones.
    pub dangerous: Vec<String>,
    /// The home folder of the host; empty where there is none.
    pub home: PathBuf,
    /// What commands find in their environment besides their turn.
    pub environment: BTreeMap<String, String>,
    /// The proxies for connections to the endpoint.
    pub proxy: hermes_adapter_net::proxy::ProxySettings,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            runtime: RuntimeKind::Echo,
            base_url: None,
            model: None,
            models: Vec::new(),
            api_key: None,
            system_prompt: None,
            personalities: BTreeMap::new(),
            reasoning: None,
            show_reasoning: false,
            ca_file: None,
            timeouts: Timeouts::default(),
            history_messages_max: 200,
            context_window: None,
            pictures: true,
            test_words: false,
            tools: Vec::new(),
            iterations_max: 40,
            terminal_timeout: Duration::from_secs(180),
            cwd: None,
            dangerous: Vec::new(),
            home: PathBuf::new(),
            environment: BTreeMap::new(),
            proxy: Default::default(),
        }
    }
}

/// How long an endpoint may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// Until the first piece of an answer, all retries included.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), first_byte: Duration::from_secs(120), idle: Duration::from_secs(60) }
    }
}

/// Why no runtime could be made. The operator mends it in `[agent]`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A key is missing that this runtime needs.
    #[error("[agent] {key} is missing, and the {runtime} runtime needs it; {mend}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The runtime.
        runtime: &'static str,
        /// What to write.
        mend: &'static str,
    },
    /// The address cannot be used.
    #[error("[agent] base_url cannot be used ({why}); write something like \"https://api.openai.com/v1\"")]
    BaseUrl {
        /// What is wrong with it.
        why: String,
    },
    /// The key cannot be sent.
    #[error("[agent] api_key holds characters that cannot be sent; check it for a line break or a space")]
    ApiKey,
    /// The HTTP client could not be made.
    #[error("[agent] the HTTP client could not be made")]
    Client(#[source] hermes_adapter_net::ClientError),
}

/// Makes the runtime that `config` names.
///
/// # Errors
///
/// Says which key of `[agent]` is missing or wrong. Nothing is asked over the network.
pub fn build(config: &AgentConfig) -> Result<Arc<dyn AgentRuntime>, BuildError> {
    build_with(config, Ports::default())
}

/// [`build`] with what the shell lends to tools.
///
/// # Errors
///
/// As [`build`].
pub fn build_with(config: &AgentConfig, ports: Ports) -> Result<Arc<dyn AgentRuntime>, BuildError> {
    match config.runtime {
        RuntimeKind::Echo => Ok(Arc::new(Echo::new(config.test_words))),
        RuntimeKind::OpenAi => Ok(Arc::new(OpenAi::new(config, Toolbox::new(config, ports))?)),
    }
}

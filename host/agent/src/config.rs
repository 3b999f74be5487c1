//! Configuration of the runtime.

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

/// The available runtimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Repeats the input.
    #[default]
    Echo,
    /// An OpenAI-compatible endpoint.
    OpenAi,
}

impl RuntimeKind {
    /// All words in the configuration.
    pub const WORDS: [&str; 2] = ["echo", "openai"];

    /// Returns the word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::OpenAi => "openai",
        }
    }

    /// Parses a word of the configuration.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Echo, Self::OpenAi].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The `[agent]` section with resolved secrets.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Runtime that answers.
    pub runtime: RuntimeKind,
    /// Base URL of the endpoint: the part before `/chat/completions`.
    pub base_url: Option<String>,
    /// Default model.
    pub model: Option<String>,
    /// Further models that users may select.
    pub models: Vec<String>,
    /// API key of the endpoint; local endpoints often need none.
    pub api_key: Option<Secret>,
    /// System prompt of every conversation.
    pub system_prompt: Option<String>,
    /// Personalities by name: text added to the prompt of conversations that select it.
    pub personalities: BTreeMap<String, String>,
    /// Reasoning effort of conversations that select none.
    pub reasoning: Option<Effort>,
    /// Shows the reasoning in conversations without a choice of their own.
    pub show_reasoning: bool,
    /// PEM file with certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Time limits of the endpoint.
    pub timeouts: Timeouts,
    /// Highest number of history messages sent to a model; the oldest are omitted.
    pub history_messages_max: usize,
    /// Context window of the model in tokens; `None` if it is learned from the endpoint.
    pub context_window: Option<usize>,
    /// Sends incoming pictures to the model.
    pub pictures: bool,
    /// Enables the test words of the echo runtime.
    pub test_words: bool,
    /// Adds an explanation by the echo runtime to the first answer of each conversation.
    pub introduces: bool,
    /// Enabled tools, by name; [`crate::tools::ALL`] enables every tool.
    pub tools: Vec<String>,
    /// Highest number of tool rounds in one turn; after that the model must answer.
    pub iterations_max: u32,
    /// Default time limit of a command.
    pub terminal_timeout: Duration,
    /// Default working folder of commands; `None` uses the folder of the host.
    pub cwd: Option<PathBuf>,
    /// Additional patterns of commands that need approval.
    pub dangerous: Vec<String>,
    /// Home folder of the host; empty if there is none.
    pub home: PathBuf,
    /// Environment variables of commands, in addition to those of the turn.
    pub environment: BTreeMap<String, String>,
    /// Proxies for connections to the endpoint.
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
            introduces: false,
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

/// Time limits of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for the connection.
    pub connect: Duration,
    /// Limit for the first piece of an answer, including all retries.
    pub first_byte: Duration,
    /// Limit between two pieces of an answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), first_byte: Duration::from_secs(120), idle: Duration::from_secs(60) }
    }
}

/// Error in the `[agent]` section that prevents the creation of the runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A key that the runtime needs is missing.
    #[error("[agent] {key} is missing; the {runtime} runtime needs it: {remedy}")]
    Missing {
        /// Missing key.
        key: &'static str,
        /// Selected runtime.
        runtime: &'static str,
        /// Next step for the operator.
        remedy: &'static str,
    },
    /// The base URL is invalid.
    #[error("[agent] base_url is invalid ({why}); use a URL like \"https://api.openai.com/v1\"")]
    BaseUrl {
        /// Reason.
        why: String,
    },
    /// The API key cannot be sent in a header.
    #[error(
        "[agent] api_key contains characters that are not allowed in an HTTP header; check it for a line break or a space"
    )]
    ApiKey,
    /// The HTTP client could not be created.
    #[error("[agent] the HTTP client cannot be created")]
    Client(#[source] hermes_adapter_net::ClientError),
}

/// Creates the runtime that `config` selects, without network access.
///
/// # Errors
///
/// [`BuildError`] if a key of `[agent]` is missing or invalid.
pub fn build(config: &AgentConfig) -> Result<Arc<dyn AgentRuntime>, BuildError> {
    build_with(config, Ports::default())
}

/// Creates the runtime like [`build`], with the ports of the host for its tools.
///
/// # Errors
///
/// [`BuildError`], as for [`build`].
pub fn build_with(config: &AgentConfig, ports: Ports) -> Result<Arc<dyn AgentRuntime>, BuildError> {
    match config.runtime {
        RuntimeKind::Echo => Ok(Arc::new(Echo::new(config.test_words).introducing(config.introduces))),
        RuntimeKind::OpenAi => Ok(Arc::new(OpenAi::new(config, Toolbox::new(config, ports))?)),
    }
}

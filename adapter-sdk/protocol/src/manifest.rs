//! What an adapter library says about itself, readable without opening it.

use serde::{Deserialize, Serialize};

use crate::{Capabilities, Extra};

/// The manifest: the JSON in the ELF section `.hermes.adapter`, byte for byte
/// what the root function `manifest()` returns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Manifest {
    /// Version of this shape; 1.
    pub schema: u32,
    /// Stable id of the adapter: `[a-z][a-z0-9_]*`, at most 32 characters.
    pub id: String,
    /// Name for people.
    pub label: String,
    /// Version of the adapter.
    pub version: String,
    /// SDK version it was built with.
    pub sdk: String,
    /// Version of the binary contract; 1.
    pub abi: u32,
    /// Which hosts (their SDK version) it runs on, as a semver requirement; empty: any of the same major.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requires_host: String,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Transport in a word: `long-poll`, `websocket`, `http`, `none`, …
    #[serde(default)]
    pub transport: String,
    /// Environment names that stand for config keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvName>,
    /// Config keys that hold secrets, with dots for what stands deeper: `token`, `webhook.secret`. The
    /// schema may mark others with `writeOnly`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Host methods it wants besides the basic ones (`turns.stop`, `sessions.list`, …).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Ports and routes it listens on, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listens: Vec<String>,
    /// Hosts it must reach; shown, not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connects: Vec<String>,
    /// Whether missed events are replayed by the platform after a reconnect: `offset`, `resume` or `none`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replay: String,
    /// What the model should know about the platform.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub platform_hint: String,
    /// How a person finds the id of a home channel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub home_channel_help: String,
    /// Target triple it was built for.
    #[serde(default)]
    pub target: String,
    /// Licence of the adapter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub license: String,
    /// Fields of a later version.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

/// An environment variable that stands for a config key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EnvName {
    /// The variable, `TELEGRAM_BOT_TOKEN`.
    pub name: String,
    /// The key it stands for: a key of the adapter (`token`), or `access.allowed_users`,
    /// `access.allow_all`, `home_channel`, `session.require_mention`.
    pub key: String,
    /// Whether the variable alone enables the adapter.
    #[serde(default)]
    pub enables: bool,
    /// Set when operators should use another name: which one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub retired_for: String,
}

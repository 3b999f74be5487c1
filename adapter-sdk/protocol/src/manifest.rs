//! The manifest of an adapter library, readable without loading the library.

use serde::{Deserialize, Serialize};

use crate::{Capabilities, Extra};

/// The manifest: the JSON in the ELF section `.hermes.adapter`, identical byte by byte to
/// the return value of the root function `manifest()`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Manifest {
    /// The version of this structure; 1.
    pub schema: u32,
    /// The stable id of the adapter: `[a-z][a-z0-9_]*`, at most 32 characters.
    pub id: String,
    /// The name for display.
    pub label: String,
    /// The version of the adapter.
    pub version: String,
    /// The SDK version of the build.
    pub sdk: String,
    /// The version of the binary interface; 1.
    pub abi: u32,
    /// The supported hosts, as a semver requirement on their SDK version; empty: any of the same major version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requires_host: String,
    /// The capabilities of the adapter.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The transport in one word: `long-poll`, `websocket`, `http`, `none`, …
    #[serde(default)]
    pub transport: String,
    /// Environment variables that set config keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvName>,
    /// Config keys that contain secrets, with dots for nested keys: `token`, `webhook.secret`. The schema
    /// may mark more keys with `writeOnly`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Host methods that the adapter uses in addition to the basic ones (`turns.stop`, `sessions.list`, …).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Ports and routes on which the adapter listens, for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listens: Vec<String>,
    /// Hosts that the adapter connects to; for display, not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connects: Vec<String>,
    /// The mechanism by which the platform replays missed events after a reconnect: `offset`, `resume` or `none`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replay: String,
    /// Facts about the platform for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub platform_hint: String,
    /// Instructions for finding the id of a home channel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub home_channel_help: String,
    /// The target triple of the build.
    #[serde(default)]
    pub target: String,
    /// The licence of the adapter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub license: String,
    /// Fields of a later version.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

/// An environment variable that sets a config key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EnvName {
    /// The name of the variable, such as `TELEGRAM_BOT_TOKEN`.
    pub name: String,
    /// The config key that it sets: a key of the adapter (`token`), or
    /// `access.allowed_users`, `access.allow_all`, `home_channel`,
    /// `session.require_mention`.
    pub key: String,
    /// True if the variable alone enables the adapter.
    #[serde(default)]
    pub enables: bool,
    /// The name of the variable that replaces this one; empty if this one is current.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub retired_for: String,
}

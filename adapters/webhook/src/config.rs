//! The keys of `[adapter.webhook]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hermes_adapter_sdk::prelude::*;
use serde_json::Value;

/// Keys of `[adapter.webhook]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The address and port to listen on.
    #[serde(default = "default_listen")]
    pub(crate) listen: String,
    /// A port that replaces the one in `listen`.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// The secret of every route without its own.
    #[serde(default)]
    pub(crate) secret: Option<String>,
    /// Additional valid secrets, for the time in which a secret is replaced.
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
    /// The routes by name: `[adapter.webhook.routes.NAME]` is called at `/webhooks/NAME`.
    #[serde(default)]
    pub(crate) routes: BTreeMap<String, RouteConfig>,
    /// A folder with more routes: each `*.json` in it is `{"NAME": {"secret": …, "prompt": …}, …}`. Changes
    /// apply from the next call on. An absolute path; the files must be readable by their owner only.
    #[serde(default)]
    pub(crate) routes_dir: Option<PathBuf>,
    /// The maximum number of accepted calls per route and minute (1 to 3600).
    #[serde(default = "default_rate")]
    #[schemars(range(min = 1, max = 3600))]
    pub(crate) rate_per_minute: u32,
    /// The maximum size of a body, in bytes (1024 to 16777216).
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1024, max = 16777216))]
    pub(crate) body_bytes_max: usize,
    /// The maximum difference between a signature's time and the local time, in seconds (30 to 3600).
    #[serde(default = "default_age_s_max")]
    #[schemars(range(min = 30, max = 3600))]
    pub(crate) age_s_max: u64,
    /// The time in which the same signed bytes count only once, in seconds (60 to 2592000); at least twice `age_s_max`.
    #[serde(default = "default_replay_s")]
    #[schemars(range(min = 60, max = 2592000))]
    pub(crate) replay_s: u64,
}

/// Keys of one route.
#[derive(AdapterConfig)]
pub(crate) struct RouteConfig {
    /// The secret of this route; by default that of the section.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(crate) secret: Option<String>,
    /// Additional valid secrets.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(crate) secrets: Vec<String>,
    /// The signature of calls: `auto`, `github`, `gitlab`, `standard` (also Svix), `v2` or `v1`; or a service: `gitea`,
    /// `forgejo`, `gogs`, `stripe`, `slack`, `linear`, `sentry`, `bitbucket`, `jira`, `shopify`, `woocommerce`,
    /// `typeform`.
    #[serde(default = "default_signature")]
    pub(crate) signature: String,
    /// The header of the signature, for any other sender: `linear-signature`.
    #[serde(default)]
    pub(crate) signature_header: Option<String>,
    /// The signed message: `body`; `timestamp` (`TIME.BODY`); `stripe` (the same, the header is
    /// `t=TIME,v1=SIGNATURE`); or `slack` (`v0:TIME:BODY`).
    #[serde(default)]
    pub(crate) signature_scheme: Option<String>,
    /// The encoding of the signature: `hex` or `base64`. Unset: either.
    #[serde(default)]
    pub(crate) signature_encoding: Option<String>,
    /// The text before the signature, such as `sha256=`.
    #[serde(default)]
    pub(crate) signature_prefix: Option<String>,
    /// The header of the signed time, in seconds.
    #[serde(default)]
    pub(crate) timestamp_header: Option<String>,
    /// The accepted events, such as `pull_request`; empty: all.
    #[serde(default)]
    pub(crate) events: Vec<String>,
    /// Conditions on the payload: one condition, or a list of conditions that must all hold.
    #[serde(default)]
    pub(crate) filters: Option<Value>,
    /// The prompt for the agent, with values of the payload: `{pull_request.title}`.
    #[serde(default)]
    pub(crate) prompt: Option<String>,
    /// The destination of the answer: `log`, or a target such as `telegram`, `telegram:123456789`, `slack:@ops`.
    #[serde(default = "default_deliver")]
    #[schemars(extend("format" = "target"))]
    pub(crate) deliver: String,
    /// True to deliver the text itself, without the agent.
    #[serde(default)]
    pub(crate) deliver_only: bool,
    /// The `rate_per_minute` of this route.
    #[serde(default)]
    pub(crate) rate_per_minute: Option<u32>,
    /// The `body_bytes_max` of this route.
    #[serde(default)]
    pub(crate) body_bytes_max: Option<usize>,
    /// The `age_s_max` of this route.
    #[serde(default)]
    pub(crate) age_s_max: Option<u64>,
    /// The `replay_s` of this route.
    #[serde(default)]
    pub(crate) replay_s: Option<u64>,
    /// False to disable the route.
    #[serde(default = "default_true")]
    pub(crate) enabled: bool,
    /// A description for people.
    #[serde(default)]
    #[expect(dead_code, reason = "only people read it, in the file")]
    pub(crate) description: String,
}

fn default_listen() -> String {
    "127.0.0.1:8644".to_owned()
}

fn default_rate() -> u32 {
    30
}

fn default_body_bytes_max() -> usize {
    1024 * 1024
}

fn default_age_s_max() -> u64 {
    300
}

fn default_replay_s() -> u64 {
    3_600
}

fn default_signature() -> String {
    "auto".to_owned()
}

fn default_deliver() -> String {
    "log".to_owned()
}

fn default_true() -> bool {
    true
}

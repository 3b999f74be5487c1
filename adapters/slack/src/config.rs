//! The configuration: its keys and their validation.

use std::net::SocketAddr;
use std::path::PathBuf;

use hermes_adapter_net::client::base_url;
use hermes_adapter_net::ws::ws_url;
use hermes_adapter_sdk::prelude::*;

use crate::context::ThreadSettings;
use crate::target::Target;

/// The maximum number of sockets per app. <https://docs.slack.dev/apis/events-api/using-socket-mode#connections>
const CONNECTIONS_MAX: usize = 10;
/// The maximum number of bot tokens per instance.
const WORKSPACES_MAX: usize = 50;

/// Keys of `[adapter.slack]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The bot token (`xoxb-…`); several, separated by commas, for an app in several workspaces.
    bot_token: String,
    /// The app-level token (`xapp-…`) with `connections:write`, for Socket Mode.
    #[serde(default)]
    pub(crate) app_token: Option<String>,
    /// The signing secret, for the Events API over HTTP instead of Socket Mode.
    #[serde(default)]
    pub(crate) signing_secret: Option<String>,
    /// The address and port of the Events API; Slack must reach it through https.
    #[serde(default = "default_listen")]
    pub(crate) listen: String,
    /// The address before the name of a method.
    #[serde(default = "default_base_url")]
    pub(crate) base_url: String,
    /// The server for sockets instead of the one that Slack names: `wss://host`.
    #[serde(default)]
    pub(crate) gateway_url: Option<String>,
    /// The origin of files in addition to Slack's own servers.
    #[serde(default)]
    pub(crate) file_url: Option<String>,
    /// A PEM file with a certificate to trust in addition to the system's.
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
    /// The number of sockets that are open at the same time (1 to 10).
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 10))]
    pub(crate) connections: usize,
    /// The interval of pings on a socket, in seconds (1 to 60); three unanswered pings close it.
    #[serde(default = "default_ping_s")]
    #[schemars(range(min = 1, max = 60))]
    pub(crate) ping_s: u64,
    /// True to answer a message in a channel in a thread, which is a conversation of its own.
    #[serde(default = "default_true")]
    reply_in_thread: bool,
    /// True to begin a thread, which is a conversation of its own, with each direct message. A thread that the person
    /// opens is one in any case.
    #[serde(default)]
    dm_threads: bool,
    /// The ids of the channels to listen to; empty: all to which the app was invited.
    /// Direct messages are always included.
    #[serde(default)]
    pub(crate) allowed_channels: Vec<String>,
    /// The slash command that contains the host's commands: `/hermes status`.
    #[serde(default = "default_slash_command")]
    pub(crate) slash_command: String,
    /// The status shown while the agent works; empty: none.
    #[serde(default = "default_status_text")]
    pub(crate) status_text: String,
    /// The maximum size of an incoming file, in bytes.
    #[serde(default = "default_media_bytes_max")]
    pub(crate) media_bytes_max: u64,
}

fn default_base_url() -> String {
    "https://slack.com/api".to_owned()
}

pub(crate) fn default_listen() -> String {
    "127.0.0.1:8645".to_owned()
}

fn default_connections() -> usize {
    2
}

fn default_ping_s() -> u64 {
    15
}

fn default_true() -> bool {
    true
}

fn default_slash_command() -> String {
    "/hermes".to_owned()
}

fn default_status_text() -> String {
    "is thinking…".to_owned()
}

fn default_media_bytes_max() -> u64 {
    50 * 1024 * 1024
}

impl Config {
    /// Returns the bot tokens.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.bot_token.split(',').map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the settings for threads.
    pub(crate) fn threads(&self) -> ThreadSettings {
        ThreadSettings { in_channels: self.reply_in_thread, in_dms: self.dm_threads }
    }

    /// Validates the values beyond their types.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_tokens()?;
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(format!("`connections` is {}; choose 1 to {CONNECTIONS_MAX}", self.connections));
        }
        if !(1..=60).contains(&self.ping_s) {
            return Err(format!("`ping_s` is {}; choose 1 to 60", self.ping_s));
        }
        if !self.slash_command.starts_with('/') || self.slash_command.contains(char::is_whitespace) {
            return Err("`slash_command` is invalid; use a command like \"/hermes\"".to_owned());
        }
        let is_channel = |name: &&String| matches!(Target::parse(name), Some(Target::Id { thread: None, .. }));
        if let Some(wrong) = self.allowed_channels.iter().find(|name| !is_channel(name)) {
            return Err(format!(
                "`allowed_channels` contains {wrong:?}, which is not an id; use an id like \"C0123ABCD\""
            ));
        }
        if self.listen.parse::<SocketAddr>().is_err() {
            return Err(format!(
                "`listen` is {:?}; use an address and a port, like \"{}\"",
                self.listen,
                default_listen()
            ));
        }
        for (key, address) in [("base_url", Some(&self.base_url)), ("file_url", self.file_url.as_ref())] {
            if let Some(Err(why)) = address.map(|address| base_url(address)) {
                return Err(format!("`{key}` cannot be used: {why}; use a URL like \"{}\"", default_base_url()));
            }
        }
        match self.gateway_url.as_deref().map(ws_url) {
            Some(Err(why)) => Err(format!("`gateway_url` cannot be used: {why}; use a URL like \"wss://host\"")),
            _ => Ok(()),
        }
    }

    fn check_tokens(&self) -> Result<(), String> {
        let tokens = self.tokens();
        if tokens.is_empty() || tokens.iter().any(|token| !token.starts_with("xoxb-")) {
            return Err(
                "`bot_token` is not a bot token (xoxb-…); copy it from \"OAuth & Permissions\" of the app".to_owned()
            );
        }
        if tokens.len() > WORKSPACES_MAX {
            return Err(format!("`bot_token` contains {} tokens; the limit is {WORKSPACES_MAX}", tokens.len()));
        }
        match (&self.app_token, &self.signing_secret) {
            (Some(token), _) if !token.starts_with("xapp-") => Err(
                "`app_token` is not an app-level token (xapp-…); create one under \"Basic Information\" of the app".to_owned(),
            ),
            (Some(_), Some(_)) => Err(
                "`app_token` and `signing_secret` are both set, but Slack delivers either to sockets or to an address; keep only `app_token` for Socket Mode".to_owned(),
            ),
            (None, None) => Err(
                "neither `app_token` nor `signing_secret` is set; set `app_token` (SLACK_APP_TOKEN) for Socket Mode".to_owned(),
            ),
            (None, Some(secret)) if secret.trim().is_empty() => {
                Err("`signing_secret` is empty; copy it from \"Basic Information\" of the app".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Validates the home channel.
pub(crate) fn check_home_channel(home: &str) -> Result<(), String> {
    match Target::parse(home) {
        Some(_) => Ok(()),
        None => Err(format!(
            "`home_channel` is {home:?}, which is not a Slack chat; use the id of a channel or user, like \"C0123ABCD\" (\"C0123ABCD:1700000000.000100\" for a thread, \"T0123/C0123ABCD\" with several workspaces), or \"#name\""
        )),
    }
}

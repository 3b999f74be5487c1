//! The configuration: its keys, its validation, and the settings that the other modules read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hermes_adapter_net::client::base_url;
use hermes_adapter_net::ws::ws_url;
use hermes_adapter_sdk::prelude::*;

use crate::snowflake;
use crate::target;

/// The maximum number of servers whose roles can count in direct messages.
const ROLE_GUILDS_MAX: usize = 10;

/// Keys of `[adapter.discord]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The bot's token, from the Developer Portal.
    pub(crate) token: String,
    /// The HTTP API with its version; another address is for a server of your own.
    #[serde(default = "default_base_url")]
    pub(crate) base_url: String,
    /// The address of the gateway; by default the API returns it. Sessions are resumed there, too.
    #[serde(default)]
    pub(crate) gateway_url: Option<String>,
    /// The origin of files in addition to Discord's own servers, for a server of your own.
    #[serde(default)]
    pub(crate) file_url: Option<String>,
    /// A PEM file with a certificate to trust in addition to the system's.
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
    /// True to request the content of all messages (Message Content Intent). Without it the bot reads only direct
    /// messages and those that mention it.
    #[serde(default = "yes")]
    message_content: bool,
    /// True to open a thread for the conversation when a message in a channel mentions the bot.
    #[serde(default = "yes")]
    auto_thread: bool,
    /// The ids of channels in which no thread is opened.
    #[serde(default)]
    no_thread_channels: Vec<String>,
    /// The ids of channels, or categories, to listen to; empty: all.
    #[serde(default)]
    allowed_channels: Vec<String>,
    /// The ids of channels, or categories, to ignore.
    #[serde(default)]
    ignored_channels: Vec<String>,
    /// Ids of servers whose roles count in direct messages too (`access.allowed_roles`); empty: none.
    #[serde(default)]
    role_guilds: Vec<String>,
    /// True to ignore a message that mentions other users and not the bot.
    #[serde(default = "yes")]
    ignore_other_mentions: bool,
    /// True to show answers to slash commands to everybody; otherwise only to the user of the command.
    #[serde(default)]
    public_commands: bool,
    /// The maximum size of an incoming file, in bytes.
    #[serde(default = "default_media_bytes_max")]
    pub(crate) media_bytes_max: u64,
    /// The parts of an answer that are sent as replies: `first`, `all` or `off`.
    #[serde(default)]
    reply_mode: ReplyMode,
    /// True to show previews of links in answers.
    #[serde(default = "yes")]
    link_previews: bool,
}

/// The parts of a delivery that are sent as replies.
#[derive(AdapterConfig, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyMode {
    /// The first part.
    #[default]
    First,
    /// Every part.
    All,
    /// No part.
    Off,
}

fn default_base_url() -> String {
    "https://discord.com/api/v10".to_owned()
}

fn default_media_bytes_max() -> u64 {
    25 * 1024 * 1024
}

fn yes() -> bool {
    true
}

impl Config {
    /// Validates the values beyond their types.
    pub(crate) fn check(&self) -> Result<(), String> {
        let token = self.token.as_str();
        if token.starts_with("Bot ") || token.is_empty() || !token.contains('.') || token.contains(char::is_whitespace)
        {
            return Err("`token` does not look like a bot token (one word with dots); copy it from the Developer Portal (Bot, Reset Token), without \"Bot \" before it".to_owned());
        }
        let addresses = [
            ("base_url", Some(&self.base_url), true),
            ("gateway_url", self.gateway_url.as_ref(), false),
            ("file_url", self.file_url.as_ref(), true),
        ];
        for (key, address, is_http) in addresses {
            let read = address.map(|address| if is_http { base_url(address) } else { ws_url(address) });
            if let Some(Err(why)) = read {
                let example = if is_http { default_base_url() } else { "wss://gateway.discord.gg".to_owned() };
                return Err(format!("`{key}` cannot be used: {why}; use a URL like \"{example}\""));
            }
        }
        let lists = [
            ("no_thread_channels", &self.no_thread_channels),
            ("allowed_channels", &self.allowed_channels),
            ("ignored_channels", &self.ignored_channels),
        ];
        for (key, list) in lists {
            if let Some(wrong) = list.iter().find(|id| snowflake::parse(id).is_none()) {
                return Err(format!(
                    "`{key}` contains {wrong:?}, which is not an id; use the number of the channel (enable Developer Mode, then Copy Channel ID)"
                ));
            }
        }
        if let Some(wrong) = self.role_guilds.iter().find(|id| snowflake::parse(id).is_none()) {
            return Err(format!(
                "`role_guilds` contains {wrong:?}, which is not an id; use the number of the server (enable Developer Mode, then Copy Server ID)"
            ));
        }
        if self.role_guilds.len() > ROLE_GUILDS_MAX {
            return Err(format!("`role_guilds` contains more than {ROLE_GUILDS_MAX} servers"));
        }
        Ok(())
    }
}

/// Validates the home channel.
pub(crate) fn check_home_channel(home: &str) -> Result<(), String> {
    // After `#` may come the name of any channel that the gateway reports.
    if target::parse(home).is_some() || home.strip_prefix('#').is_some_and(|name| !name.trim().is_empty()) {
        return Ok(());
    }
    Err(format!(
        "`home_channel` is {home:?}, which is not a chat; use the number of the channel, like \"175928847299117063\", or \"user:ID\""
    ))
}

/// The settings of one instance, as the other modules read them.
pub(crate) struct Settings {
    /// True if a mention of the bot in a channel opens a thread.
    pub(crate) auto_thread: bool,
    /// Channels in which no thread is opened.
    pub(crate) no_thread_channels: BTreeSet<String>,
    /// Channels to listen to; empty: all.
    pub(crate) allowed_channels: BTreeSet<String>,
    /// Channels to ignore.
    pub(crate) ignored_channels: BTreeSet<String>,
    /// Servers whose roles count in direct messages.
    pub(crate) role_guilds: BTreeSet<String>,
    /// True to ignore a message that mentions only other users.
    pub(crate) ignore_other_mentions: bool,
    /// True to request the content of messages.
    pub(crate) message_content: bool,
    /// True if answers to commands are visible to everybody.
    pub(crate) public_answers: bool,
    /// The maximum size of an incoming file, in bytes.
    pub(crate) media_bytes_max: u64,
    /// The options of outgoing messages.
    pub(crate) send_options: SendOptions,
}

/// The options of outgoing messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOptions {
    /// The parts that are sent as replies.
    pub(crate) reply_mode: ReplyMode,
    /// True to show link previews.
    pub(crate) link_previews: bool,
}

impl From<Config> for Settings {
    fn from(config: Config) -> Self {
        let set = |list: Vec<String>| list.into_iter().collect();
        Self {
            auto_thread: config.auto_thread,
            no_thread_channels: set(config.no_thread_channels),
            allowed_channels: set(config.allowed_channels),
            ignored_channels: set(config.ignored_channels),
            role_guilds: set(config.role_guilds),
            ignore_other_mentions: config.ignore_other_mentions,
            message_content: config.message_content,
            public_answers: config.public_commands,
            media_bytes_max: config.media_bytes_max,
            send_options: SendOptions { reply_mode: config.reply_mode, link_previews: config.link_previews },
        }
    }
}

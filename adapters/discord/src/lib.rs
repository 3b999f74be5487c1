//! Discord, over the gateway and the HTTP API.
//!
//! * `api`: the HTTP API, typed, without policy; `rate_limits`: its rate limits;
//! * `gateway`: one connection of one shard, from hello to its close code;
//! * `shards`: the connections of one account, and their sessions;
//! * `connection`: the bot's identity, and the processing of each event; `files`: files of messages;
//! * `inbound`: conversion of gateway events to events of the host; `content`: the text of embeds, polls and
//!   stickers;
//! * `channels`: channels and their descriptors;
//! * `outbound`: conversion of parts to requests, and the only classification of errors; `sending`: their
//!   destination;
//! * `threads`, `thread_requests`: threads opened by their first answer, and those that the host requests;
//! * `echoes`: messages that are known to have arrived;
//! * `commands`, `interactions`, `menu`: commands and their answers.

#![forbid(unsafe_code)]

mod api;
mod channels;
mod commands;
mod connection;
mod content;
mod echoes;
mod files;
mod gateway;
mod inbound;
mod interactions;
mod members;
mod menu;
mod outbound;
mod rate_limits;
mod sending;
mod shards;
mod thread_requests;
mod threads;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use hermes_adapter_net::client::base_url;
use hermes_adapter_net::fetch::{FetchOptions, Fetcher};
use hermes_adapter_net::reqwest::{Method, Url};
use hermes_adapter_net::ws::{WsClient, ws_url};
use hermes_adapter_net::{ClientError, ClientOptions};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use api::{Api, User};
use connection::{Choice, Connection};
use outbound::{Manner, ReplyMode};
use sending::call_error;

/// The version of the gateway if `base_url` contains none.
const VERSION: u32 = 10;

/// Reads one text of the gateway for a bot with the id 42: the reader as the fuzz ring reaches it.
#[doc(hidden)]
pub fn read_payload(text: &[u8]) -> Option<Event> {
    let dispatch = gateway::dispatch_of(text)?;
    let chat = |channel: &str| Some(Chat::new(ChatType::Group, channels::number(channel).map(|_| channel)?));
    let ears = inbound::Ears { me: "42", own_role: Some("9"), leaves_others_alone: false };
    match dispatch.name.as_str() {
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" => {
            let message: api::Message = connection::understood(&dispatch)?;
            let read = if dispatch.name == "MESSAGE_UPDATE" { inbound::changed } else { inbound::written };
            read(&message, chat(&message.channel_id)?, ears)
        }
        "INTERACTION_CREATE" => {
            let interaction: api::Interaction = connection::understood(&dispatch)?;
            let channel = interaction.channel().filter(|_| inbound::is_ours(&interaction))?;
            inbound::acted(&interaction, chat(channel)?)
        }
        _ => None,
    }
}

/// Keys of `[adapter.discord]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The bot's token, from the Developer Portal.
    token: String,
    /// The HTTP API with its version; another address is for a server of your own.
    #[serde(default = "default_base_url")]
    base_url: String,
    /// The address of the gateway; by default the API returns it. Sessions are resumed there, too.
    #[serde(default)]
    gateway_url: Option<String>,
    /// The origin of files in addition to Discord's own servers, for a server of your own.
    #[serde(default)]
    file_url: Option<String>,
    /// A PEM file with a certificate to trust in addition to the system's.
    #[serde(default)]
    ca_file: Option<PathBuf>,
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
    media_bytes_max: u64,
    /// The parts of an answer that are sent as replies: `first`, `all` or `off`.
    #[serde(default)]
    reply_mode: ReplyMode,
    /// True to show previews of links in answers.
    #[serde(default = "yes")]
    link_previews: bool,
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

/// The adapter for one bot.
pub struct Discord {
    /// The link, or the reason why the configuration is invalid.
    connection: Result<Connection, ConnectError>,
}

impl Adapter for Discord {
    const MANIFEST: Manifest = manifest! {
        id: "discord",
        label: "Discord",
        transport: "gateway",
        replay: "resume",
        connects: ["discord.com", "gateway.discord.gg", "cdn.discordapp.com"],
        secrets: ["token"],
        env: [
            { name: "DISCORD_BOT_TOKEN", key: "token", enables: true },
            { name: "DISCORD_BASE_URL", key: "base_url" },
            { name: "DISCORD_GATEWAY_URL", key: "gateway_url" },
            { name: "DISCORD_ALLOWED_USERS", key: "access.allowed_users" },
            { name: "DISCORD_ALLOW_ALL_USERS", key: "access.allow_all" },
            { name: "DISCORD_ALLOWED_ROLES", key: "access.allowed_roles" },
            { name: "DISCORD_HOME_CHANNEL", key: "home_channel" },
            { name: "DISCORD_HOME_CHANNEL_THREAD_ID", key: "home_channel.thread" },
            { name: "DISCORD_REACTIONS", key: "session.reactions" },
            { name: "DISCORD_REQUIRE_MENTION", key: "session.require_mention" },
            { name: "DISCORD_FREE_RESPONSE_CHANNELS", key: "session.free_chats" },
            { name: "DISCORD_ALLOWED_CHANNELS", key: "allowed_channels" },
            { name: "DISCORD_IGNORED_CHANNELS", key: "ignored_channels" },
            { name: "DISCORD_AUTO_THREAD", key: "auto_thread" },
            { name: "DISCORD_NO_THREAD_CHANNELS", key: "no_thread_channels" },
            { name: "DISCORD_IGNORE_NO_MENTION", key: "ignore_other_mentions" },
            { name: "DISCORD_REPLY_TO_MODE", key: "reply_mode" },
        ],
        threads: true,
        buttons: true,
        media: { in: true, out: true, albums: true, out_bytes_max: 10485760 },
        text: { limit: 2000, unit: utf16, dialect: discord },
        stream: edit,
        delivery: idempotent,
        group_default: addressed,
        liveness: { interval_s: 120 },
        platform_hint: "You are talking on Discord. Discord markdown is rendered; tables become monospace. <@ID> mentions a user.",
        home_channel_help: "the id of a channel (enable Developer Mode, then Copy Channel ID), or user:ID for direct messages to a user",
    };

    type Config = Config;

    fn check(config: &Config) -> Result<(), String> {
        let token = config.token.as_str();
        if token.starts_with("Bot ") || token.is_empty() || !token.contains('.') || token.contains(char::is_whitespace)
        {
            return Err("`token` does not look like a bot token (one word with dots); copy it from the Developer Portal (Bot, Reset Token), without \"Bot \" before it".to_owned());
        }
        let addresses = [
            ("base_url", Some(&config.base_url), true),
            ("gateway_url", config.gateway_url.as_ref(), false),
            ("file_url", config.file_url.as_ref(), true),
        ];
        for (key, address, is_http) in addresses {
            let read = address.map(|address| if is_http { base_url(address) } else { ws_url(address) });
            if let Some(Err(why)) = read {
                let example = if is_http { default_base_url() } else { "wss://gateway.discord.gg".to_owned() };
                return Err(format!("`{key}` cannot be used: {why}; use a URL like \"{example}\""));
            }
        }
        let lists = [
            ("no_thread_channels", &config.no_thread_channels),
            ("allowed_channels", &config.allowed_channels),
            ("ignored_channels", &config.ignored_channels),
        ];
        for (key, list) in lists {
            if let Some(wrong) = list.iter().find(|id| channels::number(id).is_none()) {
                return Err(format!(
                    "`{key}` contains {wrong:?}, which is not an id; use the number of the channel (enable Developer Mode, then Copy Channel ID)"
                ));
            }
        }
        if let Some(wrong) = config.role_guilds.iter().find(|id| channels::number(id).is_none()) {
            return Err(format!(
                "`role_guilds` contains {wrong:?}, which is not an id; use the number of the server (enable Developer Mode, then Copy Server ID)"
            ));
        }
        if config.role_guilds.len() > members::ROLE_GUILDS_MAX {
            return Err(format!("`role_guilds` contains more than {} servers", members::ROLE_GUILDS_MAX));
        }
        Ok(())
    }

    fn check_home_channel(home: &str) -> Result<(), String> {
        // After `#` may come the name of any channel that the gateway reports.
        if thread_requests::target(home).is_some() || home.strip_prefix('#').is_some_and(|name| !name.trim().is_empty())
        {
            return Ok(());
        }
        Err(format!(
            "`home_channel` is {home:?}, which is not a chat; use the number of the channel, like \"175928847299117063\", or \"user:ID\""
        ))
    }

    fn new(config: Config, host: Host) -> Self {
        Self { connection: connection(config, host) }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        self.link()?.open().await
    }

    async fn run(&self) -> Result<(), ConnectError> {
        self.link()?.receive().await
    }

    async fn health(&self) -> Result<(), CallError> {
        self.reached()?.api.ask::<User>(Method::GET, "users/@me").await.map(drop).map_err(call_error)
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        match &self.connection {
            Ok(link) => link.send(&message).await,
            Err(error) => SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()),
        }
    }
}

impl Edit for Discord {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        match &self.connection {
            Ok(link) => link.edit(&message, &outgoing).await,
            Err(error) => SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()),
        }
    }
}

impl Delete for Discord {
    async fn delete(&self, message: SentMessage) -> Result<(), CallError> {
        let (link, path) = self.message(&message)?;
        link.api.ask::<Value>(Method::DELETE, &path).await.map(drop).map_err(call_error)
    }
}

impl Fetch for Discord {
    async fn fetch(&self, file: Attachment, _: Duration) -> Attachment {
        match self.reached() {
            Ok(link) => link.fetch(file).await,
            Err(error) => file.not_fetched(error.to_string()),
        }
    }
}

impl Typing for Discord {
    async fn typing(&self, chat: Chat, on: bool) -> Result<(), CallError> {
        if !on {
            return Ok(()); // The indicator ends by itself after ten seconds, or with the next message.
        }
        self.reached()?.show_typing(&chat).await
    }
}

impl React for Discord {
    /// <https://docs.discord.com/developers/resources/message#create-reaction>
    async fn react(&self, message: SentMessage, emoji: String, instead_of: Option<String>) -> Result<(), CallError> {
        let (link, path) = self.message(&where_it_lies(message))?;
        match instead_of.filter(|before| *before != emoji) {
            Some(before) => link.take_reaction_back(&path, &before).await.map_err(call_error)?,
            None if emoji.is_empty() => return link.take_reactions_back(&path).await.map_err(call_error),
            None => {}
        }
        if emoji.is_empty() {
            return Ok(());
        }
        let path = format!("{path}/reactions/{}/@me", encoded(&emoji));
        link.api.ask::<Value>(Method::PUT, &path).await.map(drop).map_err(call_error)
    }
}

impl CommandsMenu for Discord {
    /// <https://docs.discord.com/developers/interactions/application-commands#bulk-overwrite-global-application-commands>
    async fn set_commands(&self, commands: Vec<CommandInfo>) -> Result<(), CallError> {
        let link = self.reached()?;
        let me = link.me.get().ok_or_else(|| CallError::new("unavailable", "the instance is not connected"))?;
        let path = format!("applications/{}/commands", me.application);
        let entries = json!(menu::entries(&commands));
        link.api.send::<Value>(Method::PUT, &path, &entries).await.map(drop).map_err(call_error)
    }
}

impl HandoffThread for Discord {
    async fn create_handoff_thread(&self, chat: Chat, name: String, key: String) -> Result<Option<Chat>, CallError> {
        self.reached()?.open_thread(chat, &name, key).await
    }
}

impl RenameThread for Discord {
    async fn rename_thread(&self, chat: Chat, name: String) -> Result<(), CallError> {
        self.reached()?.rename(&chat, &name).await
    }
}

impl ResolveTarget for Discord {
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        self.reached()?.resolve(&target).await
    }
}

impl ChatInfo for Discord {
    async fn chat_info(&self, chat: Chat) -> Result<Option<Chat>, CallError> {
        let link = self.reached()?;
        let channel = link.place(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Discord chat"))?;
        link.resolve(&channel).await
    }

    async fn chat_list(&self) -> Result<Vec<Chat>, CallError> {
        Ok(self.reached()?.listed())
    }
}

impl Discord {
    fn link(&self) -> Result<&Connection, ConnectError> {
        self.connection.as_ref().map_err(Clone::clone)
    }

    fn reached(&self) -> Result<&Connection, CallError> {
        self.link().map_err(|error| CallError::new("unavailable", error.to_string()))
    }

    /// Returns the link, and the API path of a message.
    fn message(&self, message: &SentMessage) -> Result<(&Connection, String), CallError> {
        let link = self.reached()?;
        let wrong = || CallError::new("invalid", "the message is not a Discord message");
        let channel = link.place(&message.chat).map_err(|_| wrong())?;
        channels::number(&message.id).ok_or_else(wrong)?;
        Ok((link, format!("channels/{channel}/messages/{}", message.id)))
    }
}

/// Returns a message with the channel that contains it: the first message of a thread is outside of the thread.
fn where_it_lies(mut message: SentMessage) -> SentMessage {
    let is_beginning = channels::target(&message.chat) == Some(message.id.as_str());
    if let (true, Some(parent)) = (is_beginning, &message.chat.parent) {
        message.chat = Chat::new(ChatType::Group, parent.clone());
    }
    message
}

/// Encodes an emoji as a part of a path: `👀`, or `name:id` for a guild's emoji.
fn encoded(emoji: &str) -> String {
    emoji
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

fn connection(config: Config, host: Host) -> Result<Connection, ConnectError> {
    linked(config, host).map_err(|error| {
        ConnectError::fatal(
            format!("the address of the server cannot be used: {error}"),
            "correct `base_url`, `gateway_url`, `file_url` or `ca_file`",
        )
    })
}

fn linked(config: Config, host: Host) -> Result<Connection, ClientError> {
    let base = base_url(&config.base_url)?;
    let gateway_url = config.gateway_url.as_deref().map(ws_url).transpose()?;
    let mut sockets = ClientOptions::default();
    let proxy = &host.info().proxy;
    sockets.ca_file.clone_from(&config.ca_file);
    sockets.proxy.clone_from(proxy);
    // Without encrypted connections no certificate is loaded.
    sockets.plain_http = base.scheme() == "http" && gateway_url.as_ref().is_none_or(|url| url.scheme() == "http");
    let mut files = FetchOptions::default();
    files.origins = fetched_from(&base, config.file_url.as_deref())?;
    files.ca_file.clone_from(&config.ca_file);
    files.proxy.clone_from(proxy);
    files.bytes_max = config.media_bytes_max;
    let set = |list: Vec<String>| list.into_iter().collect::<BTreeSet<String>>();
    Ok(Connection {
        api: Api::new(&config.token, &config.base_url, config.ca_file.as_deref(), proxy)?,
        host,
        manner: Manner { reply_mode: config.reply_mode, link_previews: config.link_previews },
        choice: Choice {
            auto_thread: config.auto_thread,
            no_thread_channels: set(config.no_thread_channels),
            allowed_channels: set(config.allowed_channels),
            ignored_channels: set(config.ignored_channels),
            role_guilds: set(config.role_guilds),
            leaves_others_alone: config.ignore_other_mentions,
            message_content: config.message_content,
            public_answers: config.public_commands,
            media_bytes_max: config.media_bytes_max,
        },
        token: config.token,
        sockets: WsClient::new(&sockets)?,
        gateway_url,
        version: version(&base),
        fetcher: Fetcher::new(files)?,
        me: OnceLock::new(),
        places: Default::default(),
        members: Default::default(),
        threads: Default::default(),
        opening: Default::default(),
        interactions: Default::default(),
        acknowledgements: Default::default(),
        arrivals: Default::default(),
        echoes: Default::default(),
        threadless: Default::default(),
        recalled: Default::default(),
        shards: Default::default(),
    })
}

/// Returns the origins of files that may be in any network. Discord's own servers are on
/// the public network and need no entry.
fn fetched_from(base: &Url, files: Option<&str>) -> Result<Vec<Url>, ClientError> {
    let mut origins = vec![base.clone()];
    origins.extend(files.map(base_url).transpose()?);
    Ok(origins)
}

/// Returns the version at the end of an address: 9 for `…/api/v9`.
fn version(base: &Url) -> u32 {
    let last = base.path().rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').and_then(|version| version.parse().ok()).unwrap_or(VERSION)
}

export_adapter!(
    Discord:
        Edit + Delete + Typing + React + Fetch + HandoffThread + RenameThread + CommandsMenu + ResolveTarget + ChatInfo
);

#[cfg(test)]
mod tests {
    use hermes_adapter_sdk::testing::MockHost;

    use super::*;

    fn checked(keys: Value) -> Result<(), String> {
        let mut config = json!({ "token": "MTk4.Cl2FMQ.SECRET" });
        config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        MockHost::check_config::<Discord>(&config)
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused_when_the_configuration_is_read() {
        assert_eq!(checked(json!({})), Ok(()));
        for token in ["", "Bot a.b.c", "SECRET", "a.b c"] {
            let sentence = checked(json!({ "token": token })).unwrap_err();
            assert!(sentence.contains("Developer Portal") && !sentence.contains("SECRET"), "{sentence}");
        }
        for (key, address) in [("base_url", "discord.com"), ("gateway_url", "ftp://a.b"), ("file_url", "https://")] {
            let sentence = checked(json!({ key: address })).unwrap_err();
            assert!(
                sentence.starts_with(&format!("`{key}` cannot be used: ")) && sentence.contains("; use"),
                "{sentence}"
            );
        }
        let sentence = checked(json!({ "allowed_channels": ["1", "general"] })).unwrap_err();
        assert!(
            sentence.starts_with("`allowed_channels` contains \"general\"") && sentence.contains("Copy Channel ID")
        );
        assert_eq!(checked(json!({ "gateway_url": "ws://127.0.0.1:1", "allowed_channels": ["1"] })), Ok(()));
    }

    #[test]
    fn a_home_channel_that_can_be_no_chat_is_refused_before_anybody_writes_there() {
        for home in ["175928847299117063", "1:2", "user:5", "<#7>", "#general"] {
            assert_eq!(checked(json!({ "home_channel": home })), Ok(()), "{home}");
        }
        for home in ["general", "1:plans", "@ada", "#"] {
            let sentence = checked(json!({ "home_channel": home })).unwrap_err();
            assert!(sentence.starts_with("`home_channel` is ") && sentence.contains("; use"), "{sentence}");
        }
    }

    #[test]
    fn the_version_of_the_gateway_is_that_of_the_address() {
        let of = |address: &str| version(&base_url(address).unwrap());
        assert_eq!((of("https://discord.com/api/v10"), of("http://a.b/api/v9"), of("http://a.b")), (10, 9, VERSION));
    }

    #[test]
    fn an_emoji_becomes_a_part_of_a_path() {
        assert_eq!(
            (encoded("👀"), encoded("party_parrot:12")),
            ("%F0%9F%91%80".to_owned(), "party_parrot%3A12".to_owned())
        );
        assert_eq!(encoded("../x"), "%2E%2E%2Fx");
    }

    #[test]
    fn a_server_that_is_away_is_named_with_its_key_and_not_with_the_token() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let config = json!({ "token": "MTk4.Cl2FMQ.SECRET", "base_url": format!("http://{closed}/api/v10") });
        let host = MockHost::start::<Discord>(config).expect("it starts");
        let Err(ConnectError::Retry { reason, .. }) = host.connect() else { panic!("it may come back") };
        assert!(reason.starts_with(&format!("{closed} (`base_url`) cannot be reached: ")), "{reason}");
        assert!(!reason.contains("SECRET"), "{reason}");
    }
}

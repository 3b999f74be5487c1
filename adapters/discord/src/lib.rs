//! Discord, over the gateway and the HTTP API.
//!
//! From the network up:
//!
//! * `api`: the HTTP API; `rate_limits`: its rate limits; `objects`: its objects; `snowflake`: ids;
//! * `gateway`: one connection of one shard, from hello to its close code;
//! * `config`: the keys and settings; `target`: targets that people write;
//! * `channels`: the known channels; `chats`: descriptors of chats; `members`: roles of users;
//! * `threads`, `thread_locks`, `interactions`, `acknowledgements`, `echoes`: the state of threads, commands and sent
//!   messages;
//! * `inbound`: conversion of gateway events to events of the host; `content`: the text of embeds, polls and
//!   stickers; `file_ref`: references to files;
//! * `outbound`: conversion of parts to request bodies; `buttons`: buttons and their ids; `errors`: the only
//!   classification of errors;
//! * `connection`: the link of the bot with its clients and its state; `lookup`: lookups of channels;
//! * `commands`: commands and button presses; `menu`: the command menu; `thread_requests`: opened threads;
//!   `reactions`; `files`: downloads; `sending`: the destination of each part;
//! * `events`: the processing of each gateway event; `gateway_sessions`: the stored sessions; `identify_limit`: the rate limit
//!   of new ones; `shard_events`: the events of one shard; `shards`: the connections of one account.

#![forbid(unsafe_code)]
#![deny(unreachable_pub)]

mod acknowledgements;
mod api;
mod buttons;
mod channels;
mod chats;
mod commands;
mod config;
mod connection;
mod content;
mod echoes;
mod errors;
mod events;
mod file_ref;
mod files;
mod gateway;
mod gateway_sessions;
mod identify_limit;
mod inbound;
mod interactions;
mod lookup;
mod members;
mod menu;
mod objects;
mod outbound;
mod rate_limits;
mod reactions;
mod sending;
mod shard_events;
mod shards;
mod snowflake;
mod target;
mod thread_locks;
mod thread_requests;
mod threads;

use std::time::Duration;

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

pub use config::Config;

use connection::Connection;
use errors::call_error;
use objects::{Interaction, Message, User};
use shards::Shards;

/// Reads one text of the gateway for a bot with the id 42: the reader as the fuzz ring reaches it.
#[doc(hidden)]
pub fn read_payload(text: &[u8]) -> Option<Event> {
    let dispatch = gateway::Dispatch::from_text(text)?;
    let chat = |channel: &str| Some(Chat::new(ChatType::Group, snowflake::parse(channel).map(|_| channel)?));
    let filter = inbound::MessageFilter { bot: "42", own_role: Some("9"), ignore_other_mentions: false };
    match dispatch.name.as_str() {
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" => {
            let message: Message = dispatch.parse()?;
            let convert = if dispatch.name == "MESSAGE_UPDATE" { inbound::from_edit } else { inbound::from_message };
            convert(&message, chat(&message.channel_id)?, filter)
        }
        "INTERACTION_CREATE" => {
            let interaction: Interaction = dispatch.parse()?;
            let channel = interaction.channel().filter(|_| inbound::is_ours(&interaction))?;
            inbound::from_interaction(&interaction, chat(channel)?)
        }
        _ => None,
    }
}

/// The adapter for one bot.
pub struct Discord {
    /// The link, or the reason why the configuration is invalid.
    connection: Result<Connection, ConnectError>,
    shards: Shards,
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
        config.check()
    }

    fn check_home_channel(home: &str) -> Result<(), String> {
        config::check_home_channel(home)
    }

    fn new(config: Config, host: Host) -> Self {
        let connection = Connection::new(config, host).map_err(|error| {
            ConnectError::fatal(
                format!("the address of the server cannot be used: {error}"),
                "correct `base_url`, `gateway_url`, `file_url` or `ca_file`",
            )
        });
        Self { connection, shards: Shards::default() }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        self.shards.open(self.link()?).await
    }

    async fn run(&self) -> Result<(), ConnectError> {
        self.shards.receive(self.link()?).await
    }

    async fn health(&self) -> Result<(), CallError> {
        self.link_for_call()?.api.request::<User>(Method::GET, "users/@me").await.map(drop).map_err(call_error)
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
        let (link, path) = self.message_path(&message)?;
        link.api.request::<Value>(Method::DELETE, &path).await.map(drop).map_err(call_error)
    }
}

impl Fetch for Discord {
    async fn fetch(&self, file: Attachment, _: Duration) -> Attachment {
        match self.link_for_call() {
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
        self.link_for_call()?.show_typing(&chat).await
    }
}

impl React for Discord {
    async fn react(&self, message: SentMessage, emoji: String, instead_of: Option<String>) -> Result<(), CallError> {
        let (link, path) = self.message_path(&with_own_channel(message))?;
        link.set_reaction(&path, &emoji, instead_of.as_deref()).await.map_err(call_error)
    }
}

impl CommandsMenu for Discord {
    /// <https://docs.discord.com/developers/interactions/application-commands#bulk-overwrite-global-application-commands>
    async fn set_commands(&self, commands: Vec<CommandInfo>) -> Result<(), CallError> {
        let link = self.link_for_call()?;
        let identity =
            link.identity.get().ok_or_else(|| CallError::new("unavailable", "the instance is not connected"))?;
        let path = format!("applications/{}/commands", identity.application);
        let entries = json!(menu::entries(&commands));
        link.api.send_json::<Value>(Method::PUT, &path, &entries).await.map(drop).map_err(call_error)
    }
}

impl HandoffThread for Discord {
    async fn create_handoff_thread(&self, chat: Chat, name: String, key: String) -> Result<Option<Chat>, CallError> {
        self.link_for_call()?.open_handoff_thread(chat, &name, &key).await
    }
}

impl RenameThread for Discord {
    async fn rename_thread(&self, chat: Chat, name: String) -> Result<(), CallError> {
        self.link_for_call()?.rename_thread(&chat, &name).await
    }
}

impl ResolveTarget for Discord {
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        self.link_for_call()?.resolve_target(&target).await
    }
}

impl ChatInfo for Discord {
    async fn chat_info(&self, chat: Chat) -> Result<Option<Chat>, CallError> {
        let link = self.link_for_call()?;
        let channel =
            link.channel_id(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Discord chat"))?;
        link.resolve_target(&channel).await
    }

    async fn chat_list(&self) -> Result<Vec<Chat>, CallError> {
        Ok(self.link_for_call()?.list_chats())
    }
}

impl Discord {
    fn link(&self) -> Result<&Connection, ConnectError> {
        self.connection.as_ref().map_err(Clone::clone)
    }

    fn link_for_call(&self) -> Result<&Connection, CallError> {
        self.link().map_err(|error| CallError::new("unavailable", error.to_string()))
    }

    /// Returns the link, and the API path of a message.
    fn message_path(&self, message: &SentMessage) -> Result<(&Connection, String), CallError> {
        let link = self.link_for_call()?;
        let wrong = || CallError::new("invalid", "the message is not a Discord message");
        let channel = link.channel_id(&message.chat).map_err(|_| wrong())?;
        snowflake::parse(&message.id).ok_or_else(wrong)?;
        Ok((link, format!("channels/{channel}/messages/{}", message.id)))
    }
}

/// Returns a message with the channel that contains it: the first message of a thread is outside of the thread.
fn with_own_channel(mut message: SentMessage) -> SentMessage {
    let is_first = chats::channel_id(&message.chat) == Some(message.id.as_str());
    if let (true, Some(parent)) = (is_first, &message.chat.parent) {
        message.chat = Chat::new(ChatType::Group, parent.clone());
    }
    message
}

export_adapter!(
    Discord:
        Edit + Delete + Typing + React + Fetch + HandoffThread + RenameThread + CommandsMenu + ResolveTarget + ChatInfo
);

#[cfg(test)]
mod tests {
    use hermes_adapter_sdk::testing::MockHost;

    use super::*;

    hermes_adapter_sdk::certify!(Discord);

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
    fn a_server_that_is_away_is_named_with_its_key_and_not_with_the_token() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let config = json!({ "token": "MTk4.Cl2FMQ.SECRET", "base_url": format!("http://{closed}/api/v10") });
        let host = MockHost::start::<Discord>(config).expect("it starts");
        let Err(ConnectError::Retry { reason, .. }) = host.connect() else { panic!("it may come back") };
        assert!(reason.starts_with(&format!("{closed} (`base_url`) cannot be reached: ")), "{reason}");
        assert!(!reason.contains("SECRET"), "{reason}");
    }
}

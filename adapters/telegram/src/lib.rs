//! Telegram, over the Bot API's long poll or its webhook.
//!
//! * `api`: the Bot API itself, typed, without policy;
//! * `inbound`: conversion of updates to events;
//! * `outbound`: conversion of parts to calls, and the only classification of errors;
//! * `reactions`: reactions, limited to Telegram's own emoji;
//! * `menu`: the command menu;
//! * `topics`: the topics opened for the host;
//! * `connection`: the bot's identity, the poll and its offset;
//! * `conflicts`: other processes that receive this bot's messages;
//! * `files`: files of incoming messages;
//! * `webhook`: updates that the server pushes.

#![forbid(unsafe_code)]

mod api;
mod conflicts;
mod connection;
mod files;
mod inbound;
mod menu;
mod outbound;
mod reactions;
mod topics;
mod webhook;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hermes_adapter_net::client::base_url;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::sync::{Mutex, Semaphore};
use serde_json::{Value, json};

use api::{Api, ApiError, Topic};
use conflicts::Conflicts;
use connection::{Connection, PRESSES_MAX};
use outbound::{Manner, ReplyMode};
use topics::{Forums, Known, Opened};
use webhook::Webhook;

/// The reason for not requesting a topic again.
const ASKED_BEFORE: &str = "the outcome of an earlier request for this topic is unknown; no second topic is opened";

/// The maximum length of a topic's name, in characters. <https://core.telegram.org/bots/api#createforumtopic>
const TOPIC_NAME_MAX: usize = 128;

/// Parses one update for a bot named `hermes_bot`; the entry point for fuzzing.
#[doc(hidden)]
pub fn read_update(update: &[u8]) -> Option<Event> {
    let me = serde_json::from_value(json!({ "id": 42, "is_bot": true, "first_name": "H", "username": "hermes_bot" }));
    inbound::incoming(&serde_json::from_slice(update).ok()?, &me.ok()?).map(|incoming| incoming.event)
}

/// Keys of `[adapter.telegram]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The bot's token, from @BotFather.
    token: String,
    /// The address before `/bot<token>`; another address is for a Bot API server of your own.
    #[serde(default = "default_base_url")]
    base_url: String,
    /// The address before `/bot<token>` for downloads of files; by default `base_url` and `/file`.
    #[serde(default)]
    file_url: Option<String>,
    /// A PEM file with a certificate to trust in addition to the system's.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// The time that one poll waits for updates, in seconds (1 to 50).
    #[serde(default = "default_poll_timeout_s")]
    #[schemars(range(min = 1, max = 50))]
    poll_timeout_s: u64,
    /// The address to which the server pushes updates instead of being polled: an https address that leads to `listen`.
    #[serde(default)]
    webhook_url: Option<String>,
    /// The secret by which the server proves its identity; required for a webhook.
    #[serde(default)]
    webhook_secret: Option<String>,
    /// The address and port on which a webhook's updates arrive.
    #[serde(default = "default_listen")]
    listen: String,
    /// The maximum size of an incoming file, in bytes; the public server provides at most 20 MiB.
    #[serde(default = "default_media_bytes_max")]
    media_bytes_max: u64,
    /// The maximum size of an outgoing file, in bytes; the public server accepts 50 MiB, one of your own 2000 MiB.
    #[serde(default = "default_out_bytes_max")]
    #[expect(dead_code, reason = "the host reads it, who lends the files")]
    out_bytes_max: u64,
    /// The folder of a local server's files, if it runs with `--local` on this machine.
    #[serde(default)]
    local_files: Option<PathBuf>,
    /// The parts of an answer that quote the answered message: `first`, `all` or `off`.
    #[serde(default)]
    reply_mode: ReplyMode,
    /// True to show a growing answer as a draft in private chats, instead of by edits.
    #[serde(default)]
    drafts: bool,
    /// True to show previews of links in answers. A preview makes Telegram's servers fetch the address.
    #[serde(default)]
    link_previews: bool,
}

impl Config {
    fn webhook_address(&self) -> Result<Option<SocketAddr>, String> {
        webhook::check(self.webhook_url.as_deref(), self.webhook_secret.as_deref(), &self.listen)
    }
}

fn default_base_url() -> String {
    "https://api.telegram.org".to_owned()
}

fn default_poll_timeout_s() -> u64 {
    25
}

fn default_listen() -> String {
    "127.0.0.1:8443".to_owned()
}

fn default_media_bytes_max() -> u64 {
    20 * 1024 * 1024
}

fn default_out_bytes_max() -> u64 {
    50 * 1024 * 1024
}

/// The adapter for one bot.
pub struct Telegram {
    /// The link, or the reason why the configuration is invalid.
    connection: Result<Connection, ConnectError>,
    manner: Manner,
    /// A lock that is held while a topic is opened and stored.
    opening: Mutex<()>,
    drafts: bool,
    /// The number of the next draft: changes of one draft are animated, and a new number replaces it.
    draft_id: AtomicI64,
}

impl Adapter for Telegram {
    const MANIFEST: Manifest = manifest! {
        id: "telegram",
        label: "Telegram",
        transport: "long-poll",
        replay: "offset",
        connects: ["api.telegram.org"],
        listens: ["127.0.0.1:8443/, with `webhook_url`"],
        secrets: ["token", "webhook_secret"],
        env: [
            { name: "TELEGRAM_BOT_TOKEN", key: "token", enables: true },
            { name: "TELEGRAM_BASE_URL", key: "base_url" },
            { name: "TELEGRAM_WEBHOOK_URL", key: "webhook_url" },
            { name: "TELEGRAM_WEBHOOK_SECRET", key: "webhook_secret" },
            { name: "TELEGRAM_ALLOWED_USERS", key: "access.allowed_users" },
            { name: "TELEGRAM_ALLOW_ALL_USERS", key: "access.allow_all" },
            { name: "TELEGRAM_HOME_CHANNEL", key: "home_channel" },
            { name: "TELEGRAM_HOME_CHANNEL_THREAD_ID", key: "home_channel.thread" },
            { name: "TELEGRAM_REACTIONS", key: "session.reactions" },
            { name: "TELEGRAM_REQUIRE_MENTION", key: "session.require_mention" },
        ],
        threads: true,
        voice: true,
        buttons: true,
        media: { in: true, out: true, albums: true, in_bytes_max: 20971520, out_bytes_max: 52428800, caption_limit: 1024 },
        text: { limit: 4096, unit: utf16, dialect: telegram },
        stream: edit,
        delivery: at_least_once,
        group_default: all,
        liveness: { interval_s: 90 },
        platform_hint: "You are talking on Telegram. Markdown is rendered; tables become monospace.",
        home_channel_help: "the number of a chat: ask @userinfobot for your own, or see `hermes-host session list`",
    };

    type Config = Config;

    fn check(config: &Config) -> Result<(), String> {
        let looks_right = config.token.split_once(':').is_some_and(|(id, secret)| {
            !secret.is_empty() && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
        });
        if !looks_right {
            return Err("`token` does not look like a bot token (123456:ABC…); copy it from @BotFather".to_owned());
        }
        if !(1..=50).contains(&config.poll_timeout_s) {
            return Err(format!("`poll_timeout_s` is {}; choose 1 to 50", config.poll_timeout_s));
        }
        if config.local_files.as_ref().is_some_and(|folder| !folder.is_absolute()) {
            return Err(
                "`local_files` is not an absolute path; use the folder in which the server stores its files".to_owned()
            );
        }
        let addresses = [("base_url", Some(&config.base_url)), ("file_url", config.file_url.as_ref())];
        for (key, address) in addresses {
            if let Some(Err(why)) = address.map(|address| base_url(address)) {
                return Err(format!("`{key}` cannot be used: {why}; use a URL like \"{}\"", default_base_url()));
            }
        }
        config.webhook_address().map(drop)
    }

    fn check_home_channel(home: &str) -> Result<(), String> {
        let is_number = |text: &str| text.trim().parse::<i64>().is_ok();
        let is_place = match home.split_once(':') {
            Some((id, topic)) => is_number(id) && is_number(topic),
            None => is_number(home),
        };
        // After `@` may come the name of any chat that has sent a message.
        if is_place || home.strip_prefix('@').is_some_and(|name| !name.trim().is_empty()) {
            return Ok(());
        }
        Err(format!(
            "`home_channel` is {home:?}, which is not a chat; use its number, like \"-1001234\" (\"-1001234:17\" for a topic), or \"@name\""
        ))
    }

    fn new(config: Config, host: Host) -> Self {
        let manner = Manner { reply_mode: config.reply_mode, link_previews: config.link_previews };
        let drafts = config.drafts;
        Self {
            connection: connection(config, host),
            manner,
            drafts,
            opening: Mutex::default(),
            draft_id: AtomicI64::new(1),
        }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        self.link()?.open().await
    }

    async fn run(&self) -> Result<(), ConnectError> {
        self.link()?.receive().await
    }

    async fn health(&self) -> Result<(), CallError> {
        let link = self.link().map_err(|error| CallError::new("unavailable", error.to_string()))?;
        link.api.call::<Value>("getMe", &json!({})).await.map(drop).map_err(call_error)
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        match &self.connection {
            Ok(link) => outbound::send(&link.api, self.manner, &message, link.host.now_ms()).await,
            Err(error) => SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()),
        }
    }
}

impl Edit for Telegram {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        match &self.connection {
            Ok(link) => outbound::edit(&link.api, self.manner, &message, &outgoing, link.host.now_ms()).await,
            Err(error) => SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()),
        }
    }
}

impl Fetch for Telegram {
    async fn fetch(&self, file: Attachment, within: Duration) -> Attachment {
        match &self.connection {
            Ok(link) => link.fetch(file, within).await,
            Err(error) => file.not_fetched(error.to_string()),
        }
    }
}

impl Typing for Telegram {
    async fn typing(&self, chat: Chat, on: bool) -> Result<(), CallError> {
        if !on {
            return Ok(()); // The indicator ends by itself after five seconds, or with the next message.
        }
        if outbound::is_direct(&chat) {
            return Ok(()); // Typing is not supported there. <https://core.telegram.org/bots/api#sendchataction>
        }
        let mut parameters =
            outbound::place(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Telegram chat"))?;
        if self.connection.as_ref().is_ok_and(|link| chat.thread.is_none() && link.forums.has(&chat.id)) {
            parameters.insert("message_thread_id".into(), json!(inbound::GENERAL_TOPIC));
        }
        parameters.insert("action".into(), json!("typing"));
        self.call::<Value>("sendChatAction", &parameters).await.map(drop)
    }
}

impl Draft for Telegram {
    /// Shows a draft in a private chat; other chats have none. A draft is never deleted: it disappears with the
    /// next message, or by itself after half a minute.
    async fn draft(&self, chat: Chat, text: String) -> Result<(), CallError> {
        if text.is_empty() {
            self.draft_id.fetch_add(1, Ordering::Relaxed); // An empty text would show "Thinking…".
            return Ok(());
        }
        if !self.drafts {
            return Err(CallError::new("refused", "`drafts` is off; answers are streamed by edits"));
        }
        let mut parameters = outbound::draft(&chat, &text)?;
        parameters.insert("draft_id".into(), json!(self.draft_id.load(Ordering::Relaxed)));
        self.call::<Value>("sendMessageDraft", &parameters).await.map(drop)
    }
}

impl CommandsMenu for Telegram {
    async fn set_commands(&self, commands: Vec<CommandInfo>) -> Result<(), CallError> {
        self.call::<Value>("setMyCommands", &json!({ "commands": menu::entries(&commands) })).await.map(drop)
    }
}

impl HandoffThread for Telegram {
    /// Opens a topic in a forum or in a private chat. The returned descriptor equals that of the topic's messages.
    async fn create_handoff_thread(&self, chat: Chat, name: String, key: String) -> Result<Option<Chat>, CallError> {
        if chat.kind == ChatType::Channel || outbound::is_direct(&chat) {
            return Ok(None);
        }
        let mut parameters =
            outbound::whole(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Telegram chat"))?;
        parameters.insert("name".into(), json!(name.chars().take(TOPIC_NAME_MAX).collect::<String>()));
        let _one_at_a_time = self.opening.lock().await;
        let topic = self.topic_of(&key, &parameters).await?;
        Ok(Some(inbound::opened(chat, &topic, &name)))
    }
}

impl RenameThread for Telegram {
    async fn rename_thread(&self, chat: Chat, name: String) -> Result<(), CallError> {
        if chat.thread.is_none() || outbound::is_direct(&chat) {
            return Err(CallError::new("invalid", "this is not a topic; the general topic is not renamed"));
        }
        let mut parameters =
            outbound::place(&chat).map_err(|_| CallError::new("invalid", "the chat is not a Telegram chat"))?;
        parameters.insert("name".into(), json!(name.chars().take(TOPIC_NAME_MAX).collect::<String>()));
        self.call::<Value>("editForumTopic", &parameters).await.map(drop)
    }
}

impl ResolveTarget for Telegram {
    /// Resolves `-1001234` or `123456`, with `:17` for a topic and `:direct:17` for a person's messages to a channel,
    /// or `@name` for a public channel or group.
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        if is_public_name(&target) {
            return match self.call::<api::Chat>("getChat", &json!({ "chat_id": target })).await {
                Ok(chat) => Ok(Some(inbound::chat(&chat, None))),
                // The server knows no such name, or none that this bot may see.
                Err(error) if error.code == "refused" => Ok(None),
                Err(error) => Err(error),
            };
        }
        let (id, thread) = match target.split_once(':') {
            Some((id, thread)) => (id, Some(thread)),
            None => (target.as_str(), None),
        };
        let Ok(number) = id.trim().parse::<i64>() else { return Ok(None) };
        let link = self.link().map_err(|error| CallError::new("unavailable", error.to_string()))?;
        let described: api::Chat = match link.api.call("getChat", &json!({ "chat_id": number })).await {
            Ok(chat) => chat,
            Err(ApiError::Refused(refused)) => match refused.migrate_to_chat_id {
                Some(moved) => api::Chat::supergroup(moved),
                // The server knows no such chat, or none that this bot may see.
                None => return Ok(None),
            },
            Err(error) => return Err(call_error(error)),
        };
        let direct = thread.map(str::trim).and_then(|thread| thread.strip_prefix(inbound::DIRECT));
        let thread = match direct.or(thread).map(str::trim).map(str::parse::<i64>) {
            Some(Err(_)) => return Ok(None),
            Some(Ok(thread)) => Some(thread),
            None => None,
        };
        Ok(Some(match (direct, thread) {
            (Some(_), Some(topic)) => inbound::direct(&described, topic),
            _ => inbound::chat(&described, thread),
        }))
    }
}

/// Returns whether this may be the public name of a channel or group. <https://core.telegram.org/bots/api#getchat>
fn is_public_name(target: &str) -> bool {
    let name = target.strip_prefix('@').unwrap_or_default();
    (4..=32).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

impl Telegram {
    /// Returns the topic of a key: the one opened earlier, or a new one. A key whose
    /// earlier request was interrupted opens none.
    async fn topic_of(&self, key: &str, parameters: &impl serde::Serialize) -> Result<Topic, CallError> {
        let link = self.link().map_err(|error| CallError::new("unavailable", error.to_string()))?;
        let kv = link.host.kv();
        let mut opened = Opened::read(kv.get(topics::KEPT_AS).await?.as_deref());
        match opened.by(key) {
            Known::No => {}
            Known::Asked => return Err(CallError::new("unavailable", ASKED_BEFORE)),
            Known::Topic(message_thread_id) => return Ok(Topic { message_thread_id }),
        }
        kv.set(topics::KEPT_AS, &opened.note(key, None)).await?;
        let made: Result<Topic, ApiError> = link.api.call("createForumTopic", parameters).await;
        let kept = match &made {
            Ok(topic) => Some(opened.note(key, Some(topic.message_thread_id))),
            Err(ApiError::Refused(_) | ApiError::NotSent(_) | ApiError::Unusable(_)) => Some(opened.forget(key)),
            // The topic may exist, so the key must not open another one.
            Err(ApiError::TooLarge(_) | ApiError::Doubtful(_)) => None,
        };
        if let Some(kept) = kept {
            if let Err(error) = kv.set(topics::KEPT_AS, &kept).await {
                // At worst the same key opens no topic.
                tracing::warn!(%error, "outcome of opening a topic cannot be saved");
            }
        }
        made.map_err(call_error)
    }

    fn link(&self) -> Result<&Connection, ConnectError> {
        self.connection.as_ref().map_err(Clone::clone)
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl serde::Serialize,
    ) -> Result<T, CallError> {
        let link = self.link().map_err(|error| CallError::new("unavailable", error.to_string()))?;
        link.api.call(method, parameters).await.map_err(call_error)
    }
}

fn connection(config: Config, host: Host) -> Result<Connection, ConnectError> {
    let (files, ca_file) = (config.file_url.as_deref(), config.ca_file.as_deref());
    let api = Api::new(&config.token, &config.base_url, files, ca_file, &host.info().proxy);
    let api = api.map_err(|error| {
        ConnectError::fatal(
            format!("the address of the server cannot be used: {error}"),
            "correct `base_url`, `file_url` or `ca_file`",
        )
    })?;
    let address = config.webhook_address();
    let address = address.map_err(|error| ConnectError::fatal(error, "correct the webhook keys"))?;
    let webhook = match (address, config.webhook_url, config.webhook_secret) {
        (Some(address), Some(url), Some(secret)) => Some(Webhook::new(url, secret, address)),
        _ => None,
    };
    Ok(Connection {
        api,
        host,
        me: std::sync::Mutex::default(),
        poll_timeout: Duration::from_secs(config.poll_timeout_s),
        media_bytes_max: config.media_bytes_max,
        local_files: config.local_files,
        webhook,
        presses: Arc::new(Semaphore::new(PRESSES_MAX)),
        conflicts: Conflicts::default(),
        forums: Forums::default(),
    })
}

fn call_error(error: ApiError) -> CallError {
    let code = match &error {
        ApiError::Refused(_) => "refused",
        ApiError::Unusable(_) => "invalid",
        ApiError::NotSent(_) | ApiError::TooLarge(_) | ApiError::Doubtful(_) => "unavailable",
    };
    let wait_ms = match &error {
        ApiError::Refused(refused) => refused.retry_after_ms,
        _ => None,
    };
    CallError::new(code, error.to_string()).retry_after_ms(wait_ms)
}

export_adapter!(
    Telegram: Edit + Typing + React + Draft + Fetch + HandoffThread + RenameThread + CommandsMenu + ResolveTarget
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_public_name_is_asked_for() {
        for name in ["@news", "@hermes_channel", "@a123"] {
            assert!(is_public_name(name), "{name}");
        }
        for other in ["", "@", "@abc", "news", "@two words", "-100", "@ünter", "@{\"a\":1}"] {
            assert!(!is_public_name(other), "{other}");
        }
    }
}

//! Telegram, over the Bot API's long poll or its webhook.
//!
//! From the network up:
//!
//! * `api`: the Bot API, without policy; `objects`: its objects; `errors`: the only classification of errors;
//! * `config`: the keys; `chats`, `chat_parameters`: descriptors of chats, and the parameters that identify a chat;
//! * `updates`: raw updates; `entities`, `content`, `attachments`, `inbound`: conversion of updates to events;
//! * `uploads`, `outbound`: conversion of parts to calls; `menu`: the command menu;
//! * `forums`: the known forums; `connection`: the client and the account of the bot, and the processing of updates;
//! * `conflicts`, `polling` and `webhook`: the two transports of updates; `files`: downloads; `topics`: topics opened
//!   for the host; `reactions`;
//! * `link`: the parts of an instance.

#![forbid(unsafe_code)]
#![deny(unreachable_pub)]

mod api;
mod attachments;
mod chat_parameters;
mod chats;
mod config;
mod conflicts;
mod connection;
mod content;
mod entities;
mod errors;
mod files;
mod forums;
mod inbound;
mod link;
mod menu;
mod objects;
mod outbound;
mod polling;
mod reactions;
mod topics;
mod updates;
mod uploads;
mod webhook;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use config::Config;

use api::ApiError;
use chat_parameters::{chat_parameters, chat_parameters_without_topic, is_direct};
use config::SendOptions;
use connection::Connection;
use errors::call_error;
use link::Link;
use topics::HandoffTopics;

/// The maximum length of a topic's name, in characters. <https://core.telegram.org/bots/api#createforumtopic>
const TOPIC_NAME_CHARS_MAX: usize = 128;

/// Parses one update for a bot named `hermes_bot`; the entry point for fuzzing.
#[doc(hidden)]
pub fn read_update(update: &[u8]) -> Option<Event> {
    let me = serde_json::from_value(json!({ "id": 42, "is_bot": true, "first_name": "H", "username": "hermes_bot" }));
    inbound::from_update(&serde_json::from_slice(update).ok()?, &me.ok()?).map(|incoming| incoming.event)
}

/// The adapter for one bot.
pub struct Telegram {
    /// The link, or the reason why the configuration is invalid.
    link: Result<Link, ConnectError>,
    send_options: SendOptions,
    topics: HandoffTopics,
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
        config.check()
    }

    fn check_home_channel(home: &str) -> Result<(), String> {
        config::check_home_channel(home)
    }

    fn new(config: Config, host: Host) -> Self {
        let (send_options, drafts) = (config.send_options(), config.drafts);
        Self {
            link: Link::new(config, host),
            send_options,
            topics: HandoffTopics::default(),
            drafts,
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
        self.call::<Value>("getMe", &json!({})).await.map(drop)
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        match &self.link {
            Ok(Link { connection, .. }) => {
                outbound::send(&connection.api, self.send_options, &message, connection.host.now_ms()).await
            }
            Err(error) => SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()),
        }
    }
}

impl Edit for Telegram {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        match &self.link {
            Ok(Link { connection, .. }) => {
                let now_ms = connection.host.now_ms();
                outbound::edit(&connection.api, self.send_options, &message, &outgoing, now_ms).await
            }
            Err(error) => SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()),
        }
    }
}

impl Fetch for Telegram {
    async fn fetch(&self, file: Attachment, within: Duration) -> Attachment {
        match &self.link {
            Ok(link) => link.connection.fetch(file, within).await,
            Err(error) => file.not_fetched(error.to_string()),
        }
    }
}

impl Typing for Telegram {
    async fn typing(&self, chat: Chat, on: bool) -> Result<(), CallError> {
        if !on {
            return Ok(()); // The indicator ends by itself after five seconds, or with the next message.
        }
        if is_direct(&chat) {
            return Ok(()); // Typing is not supported there. <https://core.telegram.org/bots/api#sendchataction>
        }
        let mut parameters = chat_parameters(&chat).map_err(not_a_chat)?;
        if chat.thread.is_none() && self.link.as_ref().is_ok_and(|link| link.connection.forums.contains(&chat.id)) {
            parameters.insert("message_thread_id".into(), json!(chats::GENERAL_TOPIC));
        }
        parameters.insert("action".into(), json!("typing"));
        self.call::<Value>("sendChatAction", &parameters).await.map(drop)
    }
}

impl React for Telegram {
    async fn react(&self, message: SentMessage, emoji: String, _: Option<String>) -> Result<(), CallError> {
        let parameters = reactions::reaction_parameters(&message, &emoji)?;
        self.call::<Value>("setMessageReaction", &parameters).await.map(drop)
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
        if chat.kind == ChatType::Channel || is_direct(&chat) {
            return Ok(None);
        }
        let mut parameters = chat_parameters_without_topic(&chat).map_err(not_a_chat)?;
        parameters.insert("name".into(), json!(name.chars().take(TOPIC_NAME_CHARS_MAX).collect::<String>()));
        let topic = self.topics.open(self.connection()?, &parameters, &key).await?;
        Ok(Some(chats::opened_topic(chat, &topic, &name)))
    }
}

impl RenameThread for Telegram {
    async fn rename_thread(&self, chat: Chat, name: String) -> Result<(), CallError> {
        if chat.thread.is_none() || is_direct(&chat) {
            return Err(CallError::new("invalid", "this is not a topic; the general topic is not renamed"));
        }
        let mut parameters = chat_parameters(&chat).map_err(not_a_chat)?;
        parameters.insert("name".into(), json!(name.chars().take(TOPIC_NAME_CHARS_MAX).collect::<String>()));
        self.call::<Value>("editForumTopic", &parameters).await.map(drop)
    }
}

impl ResolveTarget for Telegram {
    /// Resolves `-1001234` or `123456`, with `:17` for a topic and `:direct:17` for a person's messages to a channel,
    /// or `@name` for a public channel or group.
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        if is_public_name(&target) {
            return match self.call::<objects::Chat>("getChat", &json!({ "chat_id": target })).await {
                Ok(chat) => Ok(Some(chats::chat(&chat, None))),
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
        let found: objects::Chat = match self.connection()?.api.call("getChat", &json!({ "chat_id": number })).await {
            Ok(chat) => chat,
            Err(ApiError::Refused(refused)) => match refused.migrate_to_chat_id {
                Some(moved) => objects::Chat::supergroup(moved),
                // The server knows no such chat, or none that this bot may see.
                None => return Ok(None),
            },
            Err(error) => return Err(call_error(error)),
        };
        let direct = thread.map(str::trim).and_then(|thread| thread.strip_prefix(chats::DIRECT_PREFIX));
        let thread = match direct.or(thread).map(str::trim).map(str::parse::<i64>) {
            Some(Err(_)) => return Ok(None),
            Some(Ok(thread)) => Some(thread),
            None => None,
        };
        Ok(Some(match (direct, thread) {
            (Some(_), Some(topic)) => chats::direct(&found, topic),
            _ => chats::chat(&found, thread),
        }))
    }
}

impl Telegram {
    fn link(&self) -> Result<&Link, ConnectError> {
        self.link.as_ref().map_err(Clone::clone)
    }

    fn connection(&self) -> Result<&Connection, CallError> {
        self.link().map(|link| &link.connection).map_err(|error| CallError::new("unavailable", error.to_string()))
    }

    async fn call<T: DeserializeOwned>(&self, method: &str, parameters: &impl Serialize) -> Result<T, CallError> {
        self.connection()?.api.call(method, parameters).await.map_err(call_error)
    }
}

/// Returns the error of a call to a chat that is none of Telegram's.
fn not_a_chat(_: SendOutcome) -> CallError {
    CallError::new("invalid", "the chat is not a Telegram chat")
}

/// Returns whether this may be the public name of a channel or group. <https://core.telegram.org/bots/api#getchat>
fn is_public_name(target: &str) -> bool {
    let name = target.strip_prefix('@').unwrap_or_default();
    (4..=32).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

export_adapter!(
    Telegram: Edit + Typing + React + Draft + Fetch + HandoffThread + RenameThread + CommandsMenu + ResolveTarget
);

#[cfg(test)]
mod tests {
    use super::*;

    hermes_adapter_sdk::certify!(Telegram);

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

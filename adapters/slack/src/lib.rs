//! Slack, over Socket Mode or the Events API.
//!
//! From the network up:
//!
//! * `api`: the Web API, without policy; `objects`: its objects; `errors`: the only classification of errors;
//! * `chats`, `timestamp`, `target`: descriptors of chats, ids of messages, targets that people write; `config`;
//! * `payload`: facts in the payload of a delivery; `text`: Slack's text; `content`: the text in blocks;
//! * `workspace`, `account`: the workspaces and the app's identity in each; `names`, `response_urls`, `shared_threads`,
//!   `conversations`: names, answers to commands, threads of shared channels, lookups;
//! * `context`, `messages`, `attachments`, `optional`, `inbound`: conversion of payloads to events; `slash_command`: the meaning of
//!   slash commands; `file_ref`: references to files;
//! * `delivery`, `channel_queues`: deliveries, parallel across channels and sequential within one; `receiver`: emits
//!   their events, then acknowledges them;
//! * `socket`, `socket_mode` and `signature`, `events_api`: the two transports of deliveries;
//! * `blocks`, `uploads`, `outbound`: conversion of parts to calls; `files`: downloads; `reactions`; `status`;
//!   `handoff_threads`: threads started for the host;
//! * `link`: the parts of an instance.

#![forbid(unsafe_code)]
#![deny(unreachable_pub)]

mod account;
mod api;
mod attachments;
mod blocks;
mod channel_queues;
mod chats;
mod config;
mod content;
mod context;
mod conversations;
mod delivery;
mod errors;
mod events_api;
mod file_ref;
mod files;
mod handoff_threads;
mod inbound;
mod link;
mod messages;
mod names;
mod objects;
mod optional;
mod outbound;
mod payload;
mod reactions;
mod receiver;
mod response_urls;
mod shared_threads;
mod signature;
mod slash_command;
mod socket;
mod socket_mode;
mod status;
mod target;
mod text;
mod timestamp;
mod uploads;
mod workspace;

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_adapter_net::lenient;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::Instant;
use serde_json::{Value, json};

pub use config::Config;

use account::Account;
use api::ApiError;
use context::{ReadContext, ThreadSettings};
use errors::call_error;
use handoff_threads::HandoffThreads;
use link::Link;
use objects::BotIdentity;
use status::ThreadStatus;
use target::Target;
use timestamp::is_ts;
use workspace::Destination;

/// Reads one delivery of the workspace `T1`, in which this app is the user `UME`: the reader as the fuzz ring reaches it.
#[doc(hidden)]
pub fn read_delivery(text: &[u8]) -> Option<Event> {
    let payload: Value = lenient::from_slice(text).ok()?;
    let me = json!({ "team_id": "T1", "user_id": "UME", "bot_id": "BME" });
    let me: BotIdentity = serde_json::from_value(me).ok()?;
    let threads = ThreadSettings { in_channels: true, in_dms: false };
    let context = ReadContext { me: &me, threads, names: &BTreeMap::new() };
    match payload["type"].as_str() {
        Some("event_callback") => inbound::from_event(&payload, context),
        Some("block_actions") => inbound::from_button(&payload, &me),
        _ => inbound::from_slash_command(&payload, context, 1, |slash| format!("{} {}", slash.command, slash.text)),
    }
}

/// The adapter for one app.
pub struct Slack {
    /// The link, or the reason why the configuration is invalid.
    link: Result<Link, ConnectError>,
    host: Host,
    status: ThreadStatus,
    handoff_threads: HandoffThreads,
}

impl Adapter for Slack {
    const MANIFEST: Manifest = manifest! {
        id: "slack",
        label: "Slack",
        transport: "websocket",
        replay: "none",
        connects: ["slack.com", "files.slack.com", "hooks.slack.com", "wss-primary.slack.com"],
        // An entry that cannot be parsed as a port would allow this adapter's process to open any port.
        listens: ["127.0.0.1:8645", "/slack/events", "/slack/commands", "/slack/interactive"],
        secrets: ["bot_token", "app_token", "signing_secret"],
        env: [
            { name: "SLACK_BOT_TOKEN", key: "bot_token", enables: true },
            { name: "SLACK_APP_TOKEN", key: "app_token" },
            { name: "SLACK_SIGNING_SECRET", key: "signing_secret" },
            { name: "SLACK_ALLOWED_USERS", key: "access.allowed_users" },
            { name: "SLACK_ALLOW_ALL_USERS", key: "access.allow_all" },
            { name: "SLACK_HOME_CHANNEL", key: "home_channel" },
            { name: "SLACK_HOME_CHANNEL_THREAD_ID", key: "home_channel.thread" },
            { name: "SLACK_REACTIONS", key: "session.reactions" },
            { name: "SLACK_REQUIRE_MENTION", key: "session.require_mention" },
            { name: "SLACK_FREE_RESPONSE_CHANNELS", key: "session.free_chats" },
            { name: "SLACK_ALLOWED_CHANNELS", key: "allowed_channels" },
        ],
        uses: ["commands.list"],
        threads: true,
        voice: true,
        buttons: true,
        media: { in: true, out: true, albums: true, in_bytes_max: 0, out_bytes_max: 52428800, caption_limit: 3000 },
        // A longer text can be posted, but not edited: `chat.update` accepts four sections of 3000.
        text: { limit: 12000, unit: utf16, dialect: mrkdwn },
        stream: edit,
        delivery: at_least_once,
        command_prefix: "!",
        group_default: addressed,
        liveness: { interval_s: 180 },
        platform_hint: "You are talking on Slack. Markdown is rendered as mrkdwn; headings become bold and tables monospace.",
        home_channel_help: "the id of a channel or user (at the end of \"Copy link\"), or \"#name\"; or send /sethome there",
    };

    type Config = Config;

    fn check(config: &Config) -> Result<(), String> {
        config.check()
    }

    fn check_home_channel(home: &str) -> Result<(), String> {
        config::check_home_channel(home)
    }

    fn new(config: Config, host: Host) -> Self {
        let status = ThreadStatus::new(config.status_text.clone());
        Self { link: Link::new(config, &host), host, status, handoff_threads: HandoffThreads::default() }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        self.link()?.connect(&self.host).await
    }

    async fn run(&self) -> Result<(), ConnectError> {
        self.link()?.run().await
    }

    async fn health(&self) -> Result<(), CallError> {
        self.account()?.check().await.map_err(call_error)
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        let now_ms = self.host.now_ms();
        let destination = match self.send_destination(&message.chat) {
            Ok(destination) => destination,
            Err(outcome) => return outcome,
        };
        let until = Instant::now() + message.time(outbound::SEND_TIMEOUT);
        let outcome = outbound::send(&destination, &message, now_ms, until).await;
        let is_outside = matches!(
            outcome,
            SendOutcome::Refused { kind: RefusalKind::Forbidden | RefusalKind::ChatGone, .. } if message.media.is_empty()
        );
        match self.account().ok().and_then(|account| account.response_urls.get(message.in_reply_to, now_ms)) {
            Some(url) if is_outside => outbound::respond(destination.api, &url, &message, now_ms, until).await,
            _ => outcome,
        }
    }
}

impl Edit for Slack {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        match self.send_destination(&message.chat) {
            Ok(destination) => outbound::edit(&destination, &message.id, &outgoing, self.host.now_ms()).await,
            Err(outcome) => outcome,
        }
    }
}

impl Fetch for Slack {
    async fn fetch(&self, file: Attachment, _: Duration) -> Attachment {
        match self.link() {
            Ok(link) => link.files.fetch(&link.account, &self.host, file).await,
            Err(error) => file.not_fetched(error.to_string()),
        }
    }
}

impl Typing for Slack {
    /// Shows the app's status in a thread; Slack has no status elsewhere.
    async fn typing(&self, chat: Chat, on: bool) -> Result<(), CallError> {
        let Some(thread) = chat.thread.as_ref().filter(|_| self.status.is_enabled()) else { return Ok(()) };
        self.status.set(&self.destination(&chat)?, thread, on).await
    }
}

impl React for Slack {
    async fn react(&self, message: SentMessage, emoji: String, instead_of: Option<String>) -> Result<(), CallError> {
        reactions::set(&self.destination(&message.chat)?, &message.id, &emoji, instead_of.as_deref()).await
    }
}

impl HandoffThread for Slack {
    /// Posts the first message of a thread. The returned descriptor equals that of the thread's messages.
    async fn create_handoff_thread(&self, chat: Chat, name: String, key: String) -> Result<Option<Chat>, CallError> {
        let destination = self.destination(&chat)?;
        let ts = self.handoff_threads.open(&self.host, &destination, &name, &key).await?;
        let mut opened = chats::chat(&destination.workspace.me.team_id, &destination.channel, Some(&ts));
        (opened.name, opened.thread_name) = (chat.name, Some(name));
        Ok(Some(opened))
    }
}

impl ResolveTarget for Slack {
    /// Resolves `C0123`, `D0123` or `G0123`, `U0123` for the direct messages with a user, or `#name`. A prefix
    /// `T0123/` names the workspace, a suffix `:1700000000.000100` a thread.
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        let Some(target) = Target::parse(&target) else { return Ok(None) };
        let account = self.account()?;
        if let Target::Name(name) = target {
            let found = conversations::channel_by_name(&account.api, account.workspaces(), name).await;
            let found = found.map_err(call_error)?;
            return Ok(found.map(|(workspace, channel)| {
                chats::chat(&workspace.me.team_id, &channel.id, None).named(format!("#{name}"))
            }));
        }
        let Target::Id { id, thread } = target else { return Ok(None) };
        let Ok(Destination { api, workspace, channel }) = account.destination(id) else { return Ok(None) };
        if !channel.starts_with(['U', 'W']) {
            let name = account.names.channel(api, &workspace, &channel).await;
            let mut chat = chats::chat(&workspace.me.team_id, &channel, thread);
            chat.name = name;
            return Ok(Some(chat));
        }
        match conversations::open_dm(api, &workspace, &channel).await {
            Ok(dm) => Ok(Some(chats::chat(&workspace.me.team_id, &dm.id, thread))),
            Err(ApiError::Refused(refused))
                if matches!(refused.code.as_str(), "user_not_found" | "users_not_found") =>
            {
                Ok(None)
            }
            Err(error) => Err(call_error(error)),
        }
    }
}

impl Slack {
    fn link(&self) -> Result<&Link, ConnectError> {
        self.link.as_ref().map_err(Clone::clone)
    }

    fn account(&self) -> Result<&Account, CallError> {
        self.link().map(|link| &*link.account).map_err(|error| CallError::new("unavailable", error.to_string()))
    }

    fn destination(&self, chat: &Chat) -> Result<Destination<'_>, CallError> {
        self.account()?.destination(&chat.id).map_err(|why| CallError::new("invalid", why))
    }

    /// Returns the destination of a delivery.
    fn send_destination(&self, chat: &Chat) -> Result<Destination<'_>, SendOutcome> {
        let link = self.link().map_err(|error| SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()))?;
        let destination = link.account.destination(&chat.id);
        let destination = destination.map_err(|why| SendOutcome::refused(RefusalKind::Invalid, why))?;
        match &chat.thread {
            Some(thread) if !is_ts(thread) => {
                Err(SendOutcome::refused(RefusalKind::Invalid, format!("{thread:?} is not a Slack thread")))
            }
            _ => Ok(destination),
        }
    }
}

export_adapter!(Slack: Edit + Fetch + Typing + React + HandoffThread + ResolveTarget);

#[cfg(test)]
mod tests {
    use hermes_adapter_sdk::testing::MockHost;

    use super::*;

    hermes_adapter_sdk::certify!(Slack);

    #[test]
    fn what_is_listened_on_is_one_port_and_some_paths() {
        let config = json!({ "bot_token": "xoxb-1", "app_token": "xapp-1" });
        let host = MockHost::start::<Slack>(config).expect("it starts");
        let manifest: serde_json::Value = serde_json::from_str(host.manifest()).expect("it is JSON");
        let listens = manifest["listens"].as_array().expect("it is a list");
        let listens: Vec<&str> = listens.iter().filter_map(serde_json::Value::as_str).collect();
        let (paths, ports): (Vec<&str>, Vec<&str>) = listens.iter().partition(|entry| entry.starts_with('/'));
        assert_eq!((ports, paths.len()), (vec![config::default_listen().as_str()], 3));
    }

    #[test]
    fn a_configuration_that_cannot_be_meant_is_refused_with_the_key_to_mend() {
        let good = json!({ "bot_token": "xoxb-1, xoxb-2", "app_token": "xapp-1" });
        assert_eq!(MockHost::check_config::<Slack>(&good), Ok(()));
        let over_http = json!({ "bot_token": "xoxb-1", "signing_secret": "s", "listen": "127.0.0.1:0" });
        assert_eq!(MockHost::check_config::<Slack>(&over_http), Ok(()));
        for (key, value) in [
            ("bot_token", json!("xoxp-1")),
            ("bot_token", json!(" ,")),
            ("bot_token", json!(vec!["xoxb-1"; 51].join(","))),
            ("app_token", json!("xoxb-1")),
            ("app_token", json!(null)),
            ("signing_secret", json!("both")),
            ("connections", json!(11)),
            ("ping_s", json!(0)),
            ("listen", json!("8645")),
            ("base_url", json!("slack.com")),
            ("file_url", json!("ftp://a.b")),
            ("gateway_url", json!("slack")),
            ("slash_command", json!("hermes")),
            ("allowed_channels", json!(["C0123", "#ops"])),
        ] {
            let mut bad = good.clone();
            bad[key] = value.clone();
            let error = MockHost::check_config::<Slack>(&bad).expect_err(key);
            assert!(error.contains(key), "{key} = {value}: {error}");
        }
    }
}

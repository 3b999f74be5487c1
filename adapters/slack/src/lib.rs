//! Slack, over Socket Mode or the Events API.
//!
//! * `api`: the Web API, typed, without policy;
//! * `account`: the workspaces, the app's identity in each, and names;
//! * `text`: conversion of Slack's text to readable text;
//! * `content`: the text in blocks and attachments;
//! * `inbound`: conversion of payloads to events;
//! * `receiver`: emits events, then acknowledges the deliveries; `files`: files of messages;
//! * `channel_queues`: queues of deliveries, parallel across channels and sequential within one;
//! * `socket`, `events_api`: the two transports of deliveries;
//! * `outbound`: conversion of parts to calls, and the only classification of errors;
//! * `handoff_threads`: the threads started for the host.

#![forbid(unsafe_code)]

mod account;
mod api;
mod channel_queues;
mod content;
mod events_api;
mod files;
mod handoff_threads;
mod inbound;
mod outbound;
mod reactions;
mod receiver;
mod socket;
mod text;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{FutureExt, select};
use hermes_adapter_net::ClientOptions;
use hermes_adapter_net::client::base_url;
use hermes_adapter_net::fetch::{FetchOptions, Fetcher};
use hermes_adapter_net::ws::ws_url;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::sync::Mutex;
use hermes_adapter_sdk::tokio::time::Instant;
use serde_json::json;

use account::{Account, Space};
use api::{Api, ApiError, Done};
use events_api::EventsApi;
use files::Files;
use handoff_threads::Seeds;
use inbound::{Threads, is_ts};
use receiver::Receiver;
use socket::SocketMode;

/// The reason for not starting a thread again.
const ASKED_BEFORE: &str = "the outcome of an earlier request for this thread is unknown; no second thread is started";
/// The maximum length of a name in the first message of a thread, in characters.
const SEED_CHARS_MAX: usize = 80;
/// Error codes that mean that the whole app cannot show a status.
const NO_STATUS: [&str; 5] =
    ["missing_scope", "not_allowed_token_type", "no_permission", "unknown_method", "method_deprecated"];
/// The maximum number of sockets per app. <https://docs.slack.dev/apis/events-api/using-socket-mode#connections>
const CONNECTIONS_MAX: usize = 10;
/// The maximum number of bot tokens per instance.
const WORKSPACES_MAX: usize = 50;

/// Reads one delivery of the workspace `T1`, in which this app is the user `UME`: the reader as the fuzz ring reaches it.
#[doc(hidden)]
pub fn read_delivery(text: &[u8]) -> Option<Event> {
    let payload: serde_json::Value = hermes_adapter_net::lenient::from_slice(text).ok()?;
    let me = serde_json::json!({ "team_id": "T1", "user_id": "UME", "bot_id": "BME" });
    let me: api::Me = serde_json::from_value(me).ok()?;
    let threads = inbound::Threads { in_channels: true, in_dms: false };
    let reader = inbound::Reader { me: &me, threads, names: &std::collections::BTreeMap::new() };
    match payload["type"].as_str() {
        Some("event_callback") => inbound::event(&payload, reader),
        Some("block_actions") => inbound::pressed(&payload, &me),
        _ => inbound::slash(&payload, reader, 1, |slash| format!("{} {}", slash.command, slash.text)),
    }
}

/// Keys of `[adapter.slack]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The bot token (`xoxb-…`); several, separated by commas, for an app in several workspaces.
    bot_token: String,
    /// The app-level token (`xapp-…`) with `connections:write`, for Socket Mode.
    #[serde(default)]
    app_token: Option<String>,
    /// The signing secret, for the Events API over HTTP instead of Socket Mode.
    #[serde(default)]
    signing_secret: Option<String>,
    /// The address and port of the Events API; Slack must reach it through https.
    #[serde(default = "default_listen")]
    listen: String,
    /// The address before the name of a method.
    #[serde(default = "default_base_url")]
    base_url: String,
    /// The server for sockets instead of the one that Slack names: `wss://host`.
    #[serde(default)]
    gateway_url: Option<String>,
    /// The origin of files in addition to Slack's own servers.
    #[serde(default)]
    file_url: Option<String>,
    /// A PEM file with a certificate to trust in addition to the system's.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// The number of sockets that are open at the same time (1 to 10).
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 10))]
    connections: usize,
    /// The interval of pings on a socket, in seconds (1 to 60); three unanswered pings close it.
    #[serde(default = "default_ping_s")]
    #[schemars(range(min = 1, max = 60))]
    ping_s: u64,
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
    allowed_channels: Vec<String>,
    /// The slash command that contains the host's commands: `/hermes status`.
    #[serde(default = "default_slash_command")]
    slash_command: String,
    /// The status shown while the agent works; empty: none.
    #[serde(default = "default_status_text")]
    status_text: String,
    /// The maximum size of an incoming file, in bytes.
    #[serde(default = "default_media_bytes_max")]
    media_bytes_max: u64,
}

fn default_base_url() -> String {
    "https://slack.com/api".to_owned()
}

fn default_listen() -> String {
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
    fn tokens(&self) -> Vec<String> {
        self.bot_token.split(',').map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned).collect()
    }

    fn threads(&self) -> Threads {
        Threads { in_channels: self.reply_in_thread, in_dms: self.dm_threads }
    }
}

/// The transport of deliveries.
enum Way {
    Sockets(Box<SocketMode>),
    Requests(EventsApi),
}

/// The components of an instance with a valid configuration.
struct Parts {
    account: Arc<Account>,
    receiver: Receiver,
    files: Files,
    way: Way,
}

/// The adapter for one app.
pub struct Slack {
    /// The components, or the reason why the configuration is invalid.
    parts: Result<Parts, ConnectError>,
    host: Host,
    status_text: String,
    /// True after Slack has reported that the app cannot show a status.
    is_without_status: AtomicBool,
    /// A lock that is held while a thread is started and stored.
    opening: Mutex<()>,
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
        check_tokens(config)?;
        if !(1..=CONNECTIONS_MAX).contains(&config.connections) {
            return Err(format!("`connections` is {}; choose 1 to {CONNECTIONS_MAX}", config.connections));
        }
        if !(1..=60).contains(&config.ping_s) {
            return Err(format!("`ping_s` is {}; choose 1 to 60", config.ping_s));
        }
        if !config.slash_command.starts_with('/') || config.slash_command.contains(char::is_whitespace) {
            return Err("`slash_command` is invalid; use a command like \"/hermes\"".to_owned());
        }
        let is_channel = |name: &&String| matches!(Target::read(name), Some(Target::Id { thread: None, .. }));
        if let Some(wrong) = config.allowed_channels.iter().find(|name| !is_channel(name)) {
            return Err(format!(
                "`allowed_channels` contains {wrong:?}, which is not an id; use an id like \"C0123ABCD\""
            ));
        }
        if config.listen.parse::<SocketAddr>().is_err() {
            return Err(format!(
                "`listen` is {:?}; use an address and a port, like \"{}\"",
                config.listen,
                default_listen()
            ));
        }
        for (key, address) in [("base_url", Some(&config.base_url)), ("file_url", config.file_url.as_ref())] {
            if let Some(Err(why)) = address.map(|address| base_url(address)) {
                return Err(format!("`{key}` cannot be used: {why}; use a URL like \"{}\"", default_base_url()));
            }
        }
        match config.gateway_url.as_deref().map(ws_url) {
            Some(Err(why)) => Err(format!("`gateway_url` cannot be used: {why}; use a URL like \"wss://host\"")),
            _ => Ok(()),
        }
    }

    fn check_home_channel(home: &str) -> Result<(), String> {
        match Target::read(home) {
            Some(_) => Ok(()),
            None => Err(format!(
                "`home_channel` is {home:?}, which is not a Slack chat; use the id of a channel or user, like \"C0123ABCD\" (\"C0123ABCD:1700000000.000100\" for a thread, \"T0123/C0123ABCD\" with several workspaces), or \"#name\""
            )),
        }
    }

    fn new(config: Config, host: Host) -> Self {
        let status_text = config.status_text.clone();
        let parts = parts(config, &host);
        Self { parts, host, status_text, is_without_status: AtomicBool::new(false), opening: Mutex::default() }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        let parts = self.parts()?;
        parts.account.introduce(&self.host).await?;
        match &parts.way {
            Way::Sockets(sockets) => sockets.connect().await,
            Way::Requests(requests) => requests.connect().await,
        }
    }

    async fn run(&self) -> Result<(), ConnectError> {
        let parts = self.parts()?;
        let (lanes, work) = parts.receiver.open();
        let link = match &parts.way {
            Way::Sockets(sockets) => sockets.run(&lanes).boxed(),
            Way::Requests(requests) => requests.run(&lanes).boxed(),
        };
        select(work, link).await.factor_first().0
    }

    async fn health(&self) -> Result<(), CallError> {
        self.account()?.prove().await.map_err(call_error)
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        let now_ms = self.host.now_ms();
        let (api, space, channel) = match self.outgoing_place(&message.chat) {
            Ok(place) => place,
            Err(outcome) => return outcome,
        };
        let until = Instant::now() + message.time(outbound::SEND_TIMEOUT);
        let outcome = outbound::send(api, &space, &channel, &message, now_ms, until).await;
        let is_outside = matches!(
            outcome,
            SendOutcome::Refused { kind: RefusalKind::Forbidden | RefusalKind::ChatGone, .. } if message.media.is_empty()
        );
        match self.account().ok().and_then(|account| account.response_url(message.in_reply_to, now_ms)) {
            Some(address) if is_outside => outbound::respond(api, &address, &message, now_ms, until).await,
            _ => outcome,
        }
    }
}

impl Edit for Slack {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        match self.outgoing_place(&message.chat) {
            Ok((api, space, channel)) => {
                outbound::edit(api, &space, &channel, &message.id, &outgoing, self.host.now_ms()).await
            }
            Err(outcome) => outcome,
        }
    }
}

impl Fetch for Slack {
    async fn fetch(&self, file: Attachment, _: Duration) -> Attachment {
        match self.parts() {
            Ok(parts) => parts.files.fetch(&parts.account, &self.host, file).await,
            Err(error) => file.not_fetched(error.to_string()),
        }
    }
}

impl Typing for Slack {
    /// Shows the app's status in a thread; Slack has no status elsewhere.
    /// <https://docs.slack.dev/reference/methods/assistant.threads.setStatus>
    async fn typing(&self, chat: Chat, on: bool) -> Result<(), CallError> {
        let Some(thread) = chat.thread.as_ref().filter(|_| !self.status_text.is_empty()) else { return Ok(()) };
        if self.is_without_status.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (account, space, channel) = self.place(&chat)?;
        let status = if on { self.status_text.as_str() } else { "" };
        let parameters = [("channel_id", json!(channel)), ("thread_ts", json!(thread)), ("status", json!(status))];
        match account.api.call::<Done>(&space.token, "assistant.threads.setStatus", &parameters).await {
            Err(ApiError::Refused(refused)) if NO_STATUS.contains(&refused.code.as_str()) => {
                tracing::info!(%refused, "status display is not supported; disabled");
                self.is_without_status.store(true, Ordering::Relaxed);
                Ok(())
            }
            other => other.map(drop).map_err(call_error),
        }
    }
}

impl HandoffThread for Slack {
    /// Posts the first message of a thread. The returned descriptor equals that of the thread's messages.
    async fn create_handoff_thread(&self, chat: Chat, name: String, key: String) -> Result<Option<Chat>, CallError> {
        let (account, space, channel) = self.place(&chat)?;
        let words: String = name.chars().take(SEED_CHARS_MAX).collect();
        let words = if words.trim().is_empty() { "A conversation".to_owned() } else { words };
        let _one_at_a_time = self.opening.lock().await;
        let ts = self.seed_of(&key, account, &space, &channel, &words).await?;
        let mut opened = inbound::chat(&space.me.team_id, &channel, Some(&ts));
        (opened.name, opened.thread_name) = (chat.name, Some(name));
        Ok(Some(opened))
    }
}

impl ResolveTarget for Slack {
    /// Resolves `C0123`, `D0123` or `G0123`, `U0123` for the direct messages with a user, or `#name`. A prefix
    /// `T0123/` names the workspace, a suffix `:1700000000.000100` a thread.
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        let Some(target) = Target::read(&target) else { return Ok(None) };
        let account = self.account()?;
        if let Target::Named(name) = target {
            let found = account.channel_named(name).await.map_err(call_error)?;
            return Ok(
                found.map(|(space, found)| inbound::chat(&space.me.team_id, &found.id, None).named(format!("#{name}")))
            );
        }
        let Target::Id { id, thread } = target else { return Ok(None) };
        let Ok((space, channel)) = account.place(id) else { return Ok(None) };
        if !channel.starts_with(['U', 'W']) {
            let name = account.channel_name(&space, &channel).await;
            let mut chat = inbound::chat(&space.me.team_id, &channel, thread);
            chat.name = name;
            return Ok(Some(chat));
        }
        match account.dm_with(&space, &channel).await {
            Ok(dm) => Ok(Some(inbound::chat(&space.me.team_id, &dm.id, thread))),
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
    fn parts(&self) -> Result<&Parts, ConnectError> {
        self.parts.as_ref().map_err(Clone::clone)
    }

    fn account(&self) -> Result<&Account, CallError> {
        self.parts().map(|parts| &*parts.account).map_err(|error| CallError::new("unavailable", error.to_string()))
    }

    fn place(&self, chat: &Chat) -> Result<(&Account, Arc<Space>, String), CallError> {
        let account = self.account()?;
        let (space, channel) = account.place(&chat.id).map_err(|why| CallError::new("invalid", why))?;
        Ok((account, space, channel))
    }

    fn outgoing_place(&self, chat: &Chat) -> Result<(&Api, Arc<Space>, String), SendOutcome> {
        let parts =
            self.parts().map_err(|error| SendOutcome::not_sent(None, WaitScope::Instance, error.to_string()))?;
        let place = parts.account.place(&chat.id);
        let (space, channel) = place.map_err(|why| SendOutcome::refused(RefusalKind::Invalid, why))?;
        match &chat.thread {
            Some(thread) if !is_ts(thread) => {
                Err(SendOutcome::refused(RefusalKind::Invalid, format!("{thread:?} is not a Slack thread")))
            }
            _ => Ok((&parts.account.api, space, channel)),
        }
    }

    /// Returns the first message of a key's thread, or posts a new one. A key whose earlier
    /// request was interrupted posts none.
    async fn seed_of(
        &self,
        key: &str,
        account: &Account,
        space: &Space,
        channel: &str,
        words: &str,
    ) -> Result<String, CallError> {
        let kv = self.host.kv();
        let mut seeds = Seeds::read(kv.get(handoff_threads::KEPT_AS).await?.as_deref());
        match seeds.of(key) {
            Some(Some(ts)) => return Ok(ts.to_owned()),
            Some(None) => return Err(CallError::new("unavailable", ASKED_BEFORE)),
            None => seeds.note(key, None),
        }
        kv.set(handoff_threads::KEPT_AS, &seeds.kept()).await?;
        let made = outbound::seed(&account.api, space, channel, words).await;
        match &made {
            Ok(ts) => seeds.note(key, Some(ts)),
            Err(ApiError::Refused(_) | ApiError::NotSent(_) | ApiError::Held(_)) => seeds.forget(key),
            // The message may exist, so the key must not post another one.
            Err(ApiError::Doubtful(_)) => {}
        }
        if let Err(error) = kv.set(handoff_threads::KEPT_AS, &seeds.kept()).await {
            // At worst the same key posts no message.
            tracing::warn!(%error, "outcome of starting a thread cannot be saved");
        }
        made.map_err(call_error)
    }
}

/// A target as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'t> {
    Id { id: &'t str, thread: Option<&'t str> },
    Named(&'t str),
}

impl<'t> Target<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix('#') {
            return Some(Self::Named(name)).filter(|_| !name.is_empty() && !name.contains(char::is_whitespace));
        }
        let (id, thread) = text.split_once(':').map_or((text, None), |(id, thread)| (id, Some(thread)));
        let (team, channel) = inbound::place(id);
        let is_id = |id: &str, kinds: &[char]| {
            id.len() > 1 && id.starts_with(kinds) && id.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        let is_place = is_id(channel, &['C', 'D', 'G', 'U', 'W']) && team.is_none_or(|team| is_id(team, &['T', 'E']));
        (is_place && thread.is_none_or(is_ts)).then_some(Self::Id { id, thread })
    }
}

fn check_tokens(config: &Config) -> Result<(), String> {
    let tokens = config.tokens();
    if tokens.is_empty() || tokens.iter().any(|token| !token.starts_with("xoxb-")) {
        return Err(
            "`bot_token` is not a bot token (xoxb-…); copy it from \"OAuth & Permissions\" of the app".to_owned()
        );
    }
    if tokens.len() > WORKSPACES_MAX {
        return Err(format!("`bot_token` contains {} tokens; the limit is {WORKSPACES_MAX}", tokens.len()));
    }
    match (&config.app_token, &config.signing_secret) {
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

fn parts(config: Config, host: &Host) -> Result<Parts, ConnectError> {
    let wrong = |error: hermes_adapter_net::ClientError| {
        ConnectError::fatal(
            format!("an address cannot be used: {error}"),
            "correct `base_url`, `gateway_url`, `file_url` or `ca_file`",
        )
    };
    let base = base_url(&config.base_url).map_err(wrong)?;
    let proxy = &host.info().proxy;
    let api =
        Api::new(&config.base_url, config.file_url.as_deref(), config.ca_file.as_deref(), proxy).map_err(wrong)?;
    let account = Arc::new(Account::new(api, config.tokens()));
    let mut origins = vec![base.clone()];
    if let Some(files) = &config.file_url {
        origins.push(base_url(files).map_err(wrong)?);
    }
    let mut fetching = FetchOptions::with_origins(origins.clone());
    fetching.ca_file.clone_from(&config.ca_file);
    fetching.proxy.clone_from(proxy);
    fetching.bytes_max = config.media_bytes_max;
    let files = Files::new(Fetcher::new(fetching).map_err(wrong)?, origins, config.media_bytes_max);
    let receiver = Receiver::new(Arc::clone(&account), host.clone(), &config);
    let way = match (config.app_token, config.signing_secret) {
        (Some(token), _) => {
            let mut options = ClientOptions::for_base_url(&base);
            options.plain_http &= config.gateway_url.as_deref().is_none_or(|url| !url.starts_with("wss"));
            options.ca_file.clone_from(&config.ca_file);
            options.proxy.clone_from(proxy);
            let (gateway, ping) = (config.gateway_url.as_deref(), Duration::from_secs(config.ping_s));
            let account = Arc::clone(&account);
            let sockets = SocketMode::new(account, host.clone(), token, gateway, config.connections, ping, &options);
            Way::Sockets(Box::new(sockets.map_err(wrong)?))
        }
        (None, secret) => {
            let address = config.listen.parse().map_err(|_| {
                ConnectError::fatal(
                    format!("`listen` is {:?}, which is not an address", config.listen),
                    "correct `listen`",
                )
            })?;
            Way::Requests(EventsApi::new(Arc::clone(&account), host.clone(), address, secret.unwrap_or_default()))
        }
    };
    Ok(Parts { account, receiver, files, way })
}

fn call_error(error: ApiError) -> CallError {
    let code = match &error {
        ApiError::Refused(_) => "refused",
        ApiError::NotSent(_) | ApiError::Held(_) | ApiError::Doubtful(_) => "unavailable",
    };
    let wait_ms = match &error {
        ApiError::Refused(refused) => refused.retry_after_ms,
        _ => None,
    };
    CallError::new(code, error.to_string()).retry_after_ms(wait_ms)
}

export_adapter!(Slack: Edit + Fetch + Typing + React + HandoffThread + ResolveTarget);

#[cfg(test)]
mod tests {
    use hermes_adapter_sdk::testing::MockHost;

    use super::*;

    hermes_adapter_sdk::certify!(Slack);

    #[test]
    fn a_target_is_an_id_a_thread_or_a_name() {
        let id = |id, thread| Some(Target::Id { id, thread });
        assert_eq!(Target::read("C0123"), id("C0123", None));
        assert_eq!(Target::read(" T01/D0123:1700000000.000100 "), id("T01/D0123", Some("1700000000.000100")));
        assert_eq!(Target::read("U0123"), id("U0123", None));
        assert_eq!(Target::read("#ops"), Some(Target::Named("ops")));
        for other in ["", "#", "ops", "C0123:17", "X0123", "C01 23", "c0123", "C0123/C0124", "#two words", "C", "T01/"]
        {
            assert_eq!(Target::read(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_listened_on_is_one_port_and_some_paths() {
        let config = json!({ "bot_token": "xoxb-1", "app_token": "xapp-1" });
        let host = MockHost::start::<Slack>(config).expect("it starts");
        let manifest: serde_json::Value = serde_json::from_str(host.manifest()).expect("it is JSON");
        let listens = manifest["listens"].as_array().expect("it is a list");
        let told: Vec<&str> = listens.iter().filter_map(serde_json::Value::as_str).collect();
        let (paths, ports): (Vec<&str>, Vec<&str>) = told.iter().partition(|told| told.starts_with('/'));
        assert_eq!((ports, paths.len()), (vec![default_listen().as_str()], 3));
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
            let said = MockHost::check_config::<Slack>(&bad).expect_err(key);
            assert!(said.contains(key), "{key} = {value}: {said}");
        }
    }
}

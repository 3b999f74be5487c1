//! A chat page on loopback, which needs no account on any platform.
//!
//! The adapter is the platform. The adapter serves one page, stores the conversations in the host's
//! key-value store, and has one user, the operator, who holds the link that is printed at
//! start-up.
//!
//! * `entry`, `log`: the entries of each conversation, durable and limited in size;
//! * `turn`, `ring`, `live`: running turns, and the events that a reconnecting page missed;
//! * `session_cache`, `sessions`: the host's view of the conversations: titles, branches,
//!   sessions that continue elsewhere;
//! * `connection`: the shared state of an instance;
//! * `view`: conversations and entries as the page shows them;
//! * `requests`, `emit`, `inbound`: conversion of the page's requests to events;
//! * `conversations`: creation, renaming, deletion and resumption;
//! * `outbound`: conversion of parts and turn events to entries on the page;
//! * `http_auth`, `access`: access control (Host, Origin, token);
//! * `api`, `files`, `event_stream`, `refusal`: the HTTP routes;
//! * `listener`: the port and the token;
//! * `page/`: the page itself, without a framework or a build step.
//!
//! A part counts as delivered after it is committed to the log: a closed page shows it when
//! it is opened again. The log recognizes a repeated key, so a send with an unknown result
//! never shows twice.

#![forbid(unsafe_code)]

mod access;
mod api;
mod connection;
mod conversations;
mod emit;
mod entry;
mod event_stream;
mod files;
mod http_auth;
mod ids;
mod inbound;
mod listener;
mod listeners;
mod live;
mod log;
mod outbound;
mod refusal;
mod requests;
mod ring;
mod session_cache;
mod sessions;
mod turn;
mod uploads;
mod view;

use std::sync::Arc;

use hermes_adapter_sdk::prelude::*;

use crate::connection::Connection;

/// Reads the body of a message, or of the press of a button: the reader as the fuzz ring reaches it.
#[doc(hidden)]
pub fn read_body(is_press: bool, body: &[u8]) -> Option<Event> {
    requests::read(is_press, body)
}

/// Reads the title that a person gives a conversation, in the same way.
#[doc(hidden)]
pub fn read_title(title: &str) -> Option<String> {
    conversations::clean_title(title).ok()
}

/// Keys of `[adapter.webchat]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The address and port of the page; by default 127.0.0.1:8643, or the next free port.
    #[serde(default)]
    listen: Option<String>,
    /// Additional host names under which the page is opened, for a reverse proxy:
    /// `["chat.example.org"]`. Required when `listen` is not on loopback.
    #[serde(default)]
    allowed_hosts: Vec<String>,
    /// The token in the link, at least 16 characters; by default generated once and stored.
    #[serde(default)]
    token: Option<String>,
    /// The largest file that can be uploaded, in bytes.
    #[serde(default = "default_upload_bytes_max")]
    upload_bytes_max: u64,
}

fn default_upload_bytes_max() -> u64 {
    25 * 1024 * 1024
}

/// The adapter: the page and its open connections.
pub struct Webchat {
    connection: Arc<Connection>,
}

impl Adapter for Webchat {
    const MANIFEST: Manifest = manifest! {
        id: "webchat",
        label: "Web chat",
        transport: "http",
        listens: ["127.0.0.1:8643", "127.0.0.1:8645-8664"],
        secrets: ["token"],
        uses: [
            "turns.stop", "turns.status", "commands.list", "models.list", "sessions.list", "sessions.get",
            "sessions.history", "sessions.rename", "sessions.delete", "sessions.search",
        ],
        authorizes_upstream: true,
        supports_async_delivery: true,
        buttons: true,
        media: { in: true, out: true, in_bytes_max: 26214400 },
        text: { limit: 0, unit: scalars, dialect: commonmark },
        stream: native,
        delivery: idempotent,
        liveness: { interval_s: 60 },
        platform_hint: "You are talking on a web page. Markdown is rendered: headings, lists, tables, code with a copy button.",
        home_channel_help: "\"inbox\", which always exists, or the title of an existing conversation",
    };

    type Config = Config;

    fn check(config: &Config) -> Result<(), String> {
        listener::check(config)
    }

    fn new(config: Config, host: Host) -> Self {
        Self { connection: Arc::new(Connection::new(config, host)) }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        listener::open(&self.connection).await
    }

    async fn run(&self) -> Result<(), ConnectError> {
        listener::serve(&self.connection).await
    }

    async fn health(&self) -> Result<(), CallError> {
        listener::prove(&self.connection).await
    }

    async fn disconnect(&self) {
        listener::close(&self.connection);
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        outbound::send(&self.connection, message).await
    }
}

impl Edit for Webchat {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        outbound::edit(&self.connection, message, outgoing).await
    }
}

impl NativeStream for Webchat {
    async fn turn_event(&self, inbox_id: i64, seq: u64, event: TurnEvent) -> Result<(), CallError> {
        outbound::turn_event(&self.connection, inbox_id, seq, event).await
    }
}

impl CommandsMenu for Webchat {
    async fn set_commands(&self, commands: Vec<CommandInfo>) -> Result<(), CallError> {
        // The menu is the public one; the operator at the page may run more commands.
        let theirs = sessions::commands(&self.connection).await;
        self.connection.live.set_commands(theirs.unwrap_or(commands));
        Ok(())
    }
}

impl ResolveTarget for Webchat {
    /// Resolves `inbox`, the id of a conversation, or its title.
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        let wanted = target.trim();
        if wanted.eq_ignore_ascii_case("inbox") {
            return Ok(Some(Chat::dm("inbox").named("Inbox")));
        }
        let conversations = self.connection.log.conversations().await;
        let by_id = conversations.iter().find(|c| c.id == wanted);
        let is_called = |c: &&entry::Conversation| view::title(&self.connection, c).eq_ignore_ascii_case(wanted);
        let found = by_id.or_else(|| conversations.iter().find(is_called));
        Ok(found.map(|line| view::chat(&self.connection, line)))
    }
}

impl ChatInfo for Webchat {
    async fn chat_info(&self, chat: Chat) -> Result<Option<Chat>, CallError> {
        let line = self.connection.log.conversation(&chat.id).await;
        Ok(line.map(|line| view::chat(&self.connection, &line)))
    }

    async fn chat_list(&self) -> Result<Vec<Chat>, CallError> {
        let lines = self.connection.log.conversations().await;
        Ok(lines.iter().map(|line| view::chat(&self.connection, line)).collect())
    }
}

export_adapter!(Webchat: Edit + NativeStream + CommandsMenu + ResolveTarget + ChatInfo);

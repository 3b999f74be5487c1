//! The table of all keys: the allowed keys of `plugins.toml` with type, default and description.
//!
//! The reader, `config show`, `config schema` and `config sample` all use it. A default is written as TOML; an empty
//! one means that the key is absent.

use hermes_core::settings::{BusyMode, Effort};

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A path, relative to the configuration file.
    Path,
    /// `true` or `false`.
    Bool,
    /// A whole number within a range; the suffix of the key is its unit.
    Int {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of strings.
    List,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A list of paths, relative to the configuration file.
    Paths,
    /// A list of `<instance>:<id>`.
    QualifiedIds,
    /// `{ env = "NAME" }`, `{ file = "path" }`, or a literal in a file that only its owner reads.
    Secret,
    /// An address and port to bind, or `""` for no listener.
    Listen,
    /// An `http` or `https` address.
    Url,
    /// The address of a proxy, or a reference to one; `""` for no proxy.
    Proxy,
    /// A table of texts by name.
    Texts,
    /// A chat: text, or `{ chat = "…", thread = "…" }`.
    Chat,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The full path, such as `session.reset.mode`.
    pub path: &'static str,
    /// The type.
    pub kind: Kind,
    /// The default as TOML; empty: absent.
    pub default: &'static str,
    /// The example for the sample, as TOML, if there is no default.
    pub example: &'static str,
    /// The description in one or two sentences.
    pub doc: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default, example: "", doc }
}

const fn unset(path: &'static str, kind: Kind, example: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default: "", example, doc }
}

const DAY_S: i64 = 86_400;

const fn int(min: i64, max: i64) -> Kind {
    Kind::Int { min, max }
}

const RESET_MODES: Kind = Kind::Word(&["none", "idle", "daily", "both"]);

const fn reset_mode(path: &'static str, doc: &'static str) -> Key {
    unset(path, RESET_MODES, "\"idle\"", doc)
}

const fn reset_hour(path: &'static str, doc: &'static str) -> Key {
    unset(path, int(0, 23), "4", doc)
}

const fn reset_idle(path: &'static str, doc: &'static str) -> Key {
    unset(path, int(1, 525_600), "1440", doc)
}

/// The sections and their descriptions, in the order of the sample.
pub const SECTIONS: &[(&str, &str)] = &[
    ("host", "The host process."),
    ("agent", "The agent that answers."),
    ("session", "Conversations and turns. An adapter's section may override any of these under `session`."),
    ("access", "Users and their rights. Access is closed by default: an empty list admits nobody."),
    ("commands", "Chat commands. A command that is off is unknown to all users and appears in no list and no menu."),
    ("delivery", "Deadlines and retries of deliveries."),
    ("limits", "Limits that protect the host."),
];

/// Every key outside of adapter sections.
pub const KEYS: &[Key] = &[
    key("host.plugins_dir", Kind::Path, "\"plugins\"", "The folder of accepted adapter libraries. It need not exist."),
    key(
        "host.isolation",
        Kind::Word(&["auto", "in-process", "process"]),
        "\"auto\"",
        "Where adapters run: auto | in-process | process. auto: libraries next to the binary run inside the host, all others in their own process.",
    ),
    key("host.log", Kind::Text, "\"info\"", "The log level, or a tracing filter such as \"info,hermes_host=debug\"."),
    key("host.log_format", Kind::Word(&["text", "json"]), "\"text\"", "The format of log lines: text | json."),
    key(
        "host.status",
        Kind::Listen,
        "\"127.0.0.1:8640\"",
        "The address of the status page, /metrics, /healthz and /readyz. \"\" turns it off.",
    ),
    key(
        "host.status_public",
        Kind::Bool,
        "false",
        "Allow a `status` address that other machines can reach. The page requires no key.",
    ),
    unset(
        "host.proxy",
        Kind::Proxy,
        "\"http://127.0.0.1:3128\"",
        "The proxy for all outgoing connections: http, https, socks5 or socks5h, with user:password@ if the proxy requires it, or { env = \"NAME\" }. \"\" means no proxy. Unset: HTTPS_PROXY, HTTP_PROXY and ALL_PROXY of the environment. Connections to this machine are always direct.",
    ),
    key(
        "host.no_proxy",
        Kind::List,
        "[]",
        "Names, domains, addresses and networks to connect to without the proxy, in addition to NO_PROXY: \".example.org\", \"10.0.0.0/8\".",
    ),
    key("host.drain_s", int(0, 3600), "30", "Seconds that a planned stop waits for running turns."),
    key(
        "host.pin",
        Kind::Word(&["on", "off"]),
        "\"on\"",
        "Refuse a changed library in plugins_dir until `adapter add` accepts it: on | off.",
    ),
    key(
        "host.confine",
        Kind::Word(&["on", "off"]),
        "\"on\"",
        "Sandbox adapter processes: deny files, ports and system calls that they do not need, if the kernel supports it (Landlock, seccomp): on | off.",
    ),
    key(
        "host.unix_sockets",
        Kind::List,
        "[]",
        "Sandboxed adapters that may open Unix sockets, for a local daemon of their platform. This gives them access to every service of this user that listens on a Unix socket.",
    ),
    key("host.adapter_connect_s", int(1, 600), "60", "Timeout in seconds for an adapter to connect."),
    key("host.adapter_send_s", int(1, 600), "60", "Timeout in seconds for an adapter to send or edit a message."),
    key("host.adapter_call_s", int(1, 600), "10", "Timeout in seconds for any other call to an adapter."),
    key(
        "host.adapter_stop_s",
        int(1, 600),
        "10",
        "Seconds that an adapter may take to stop before it counts as stuck.",
    ),
    key(
        "host.adapter_backoff_ms",
        int(10, 60_000),
        "1000",
        "The first wait in milliseconds before a failed adapter is restarted; it doubles with each attempt.",
    ),
    key(
        "host.adapter_backoff_s_max",
        int(1, 3600),
        "300",
        "The longest wait in seconds before a failed adapter is restarted.",
    ),
    key(
        "agent.runtime",
        Kind::Word(&["echo", "openai"]),
        "\"echo\"",
        "The agent runtime: echo | openai. The default is openai if OPENAI_API_KEY or OPENAI_BASE_URL is set in the environment.",
    ),
    unset(
        "agent.base_url",
        Kind::Url,
        "\"https://api.openai.com/v1\"",
        "The URL of the endpoint without /chat/completions, or OPENAI_BASE_URL.",
    ),
    unset("agent.model", Kind::Text, "\"some-model\"", "The model to use, or OPENAI_MODEL."),
    key(
        "agent.models",
        Kind::List,
        "[]",
        "Other models of the endpoint that users may choose with /model. Admins may choose any model.",
    ),
    unset(
        "agent.api_key",
        Kind::Secret,
        "{ env = \"OPENAI_API_KEY\" }",
        "The API key of the endpoint, or OPENAI_API_KEY.",
    ),
    unset(
        "agent.system_prompt",
        Kind::Text,
        "\"You are helpful and brief.\"",
        "The system prompt of every conversation.",
    ),
    key(
        "agent.personalities",
        Kind::Texts,
        "{}",
        "Personalities of the agent by name: { pirate = \"Talk like a pirate.\" }. /personality chooses one for a conversation.",
    ),
    unset(
        "agent.reasoning",
        Kind::Word(Effort::WORDS),
        "\"medium\"",
        "The reasoning effort of the model: none | minimal | low | medium | high | xhigh. Unset: the model's default. /reasoning changes it for a conversation.",
    ),
    key("agent.show_reasoning", Kind::Bool, "false", "Show the model's reasoning in chats."),
    unset(
        "agent.ca_file",
        Kind::Path,
        "\"ca.pem\"",
        "Certificates to trust in addition to the system's, for a private endpoint.",
    ),
    key("agent.connect_timeout_s", int(1, 600), "10", "Timeout in seconds for the connection to the endpoint."),
    key(
        "agent.first_byte_timeout_s",
        int(1, 3600),
        "120",
        "Timeout in seconds for the first byte of an answer, including retries.",
    ),
    key("agent.idle_timeout_s", int(1, 3600), "60", "Timeout in seconds between two chunks of an answer."),
    key(
        "agent.history_messages_max",
        int(1, 100_000),
        "200",
        "The maximum number of history messages sent to the model.",
    ),
    key(
        "agent.context_window",
        int(0, 100_000_000),
        "0",
        "The context window of the model in tokens. 0: detected from the endpoint.",
    ),
    key(
        "agent.pictures",
        Kind::Bool,
        "true",
        "Send incoming images to the model. An endpoint that rejects images receives only their names.",
    ),
    key(
        "agent.tools",
        Kind::Words(&hermes_agent::tools::WORDS),
        "[\"memory\", \"session_search\", \"todo\"]",
        "The tools of the agent: all | terminal | process | delegate_task | send_message | session_search | memory | todo | task. With terminal, every user can have commands run on this machine; dangerous commands need an admin's approval.",
    ),
    key(
        "agent.iterations_max",
        int(1, 1000),
        "40",
        "The maximum number of tool rounds in one turn before the model has to answer.",
    ),
    key("agent.terminal_timeout_s", int(1, 1200), "180", "Timeout in seconds for a command if the model sets none."),
    unset(
        "agent.cwd",
        Kind::Path,
        "\"work\"",
        "The folder in which commands run. Unset: the folder in which the host was started.",
    ),
    key(
        "agent.env_pass",
        Kind::List,
        "[]",
        "Names of environment variables to pass to commands of the agent: [\"GH_TOKEN\"]. Commands receive no other variable of the host except basic ones such as PATH, HOME and the locale.",
    ),
    key(
        "agent.dangerous",
        Kind::List,
        "[]",
        "Additional commands that need approval: a name and words among its arguments, such as \"npm publish\" or \"kubectl delete|drain\".",
    ),
    key(
        "agent.test_words",
        Kind::Bool,
        "false",
        "Enable the test words of the echo runtime (/slow, /fail). For tests only.",
    ),
    key("session.group_sessions_per_user", Kind::Bool, "true", "Give each user of a group a separate conversation."),
    key("session.thread_sessions_per_user", Kind::Bool, "false", "Give each user of a thread a separate conversation."),
    key(
        "session.reset.mode",
        RESET_MODES,
        "\"none\"",
        "Start a new conversation automatically: none | idle | daily | both.",
    ),
    key("session.reset.at_hour", int(0, 23), "4", "The local hour of the daily reset."),
    key("session.reset.idle_minutes", int(1, 525_600), "1440", "Minutes without a message before an idle reset."),
    key("session.reset.notify", Kind::Bool, "true", "Report a reset in the chat, with its next message."),
    unset(
        "session.reset.zone",
        Kind::Text,
        "\"Europe/Berlin\"",
        "The IANA time zone of `at_hour`. Unset: the time zone of the machine.",
    ),
    reset_mode("session.reset.dm.mode", "The reset mode of direct messages. Unset: the value of reset.mode."),
    reset_hour(
        "session.reset.dm.at_hour",
        "The local hour of the daily reset of direct messages. Unset: the value of reset.at_hour.",
    ),
    reset_idle(
        "session.reset.dm.idle_minutes",
        "Minutes without a message before an idle reset of direct messages. Unset: the value of reset.idle_minutes.",
    ),
    reset_mode("session.reset.group.mode", "The reset mode of groups. Unset: the value of reset.mode."),
    reset_hour(
        "session.reset.group.at_hour",
        "The local hour of the daily reset of groups. Unset: the value of reset.at_hour.",
    ),
    reset_idle(
        "session.reset.group.idle_minutes",
        "Minutes without a message before an idle reset of groups. Unset: the value of reset.idle_minutes.",
    ),
    reset_mode("session.reset.channel.mode", "The reset mode of channels. Unset: the value of reset.mode."),
    reset_hour(
        "session.reset.channel.at_hour",
        "The local hour of the daily reset of channels. Unset: the value of reset.at_hour.",
    ),
    reset_idle(
        "session.reset.channel.idle_minutes",
        "Minutes without a message before an idle reset of channels. Unset: the value of reset.idle_minutes.",
    ),
    reset_mode(
        "session.reset.thread.mode",
        "The reset mode of chats that consist of threads. Unset: the value of reset.mode.",
    ),
    reset_hour(
        "session.reset.thread.at_hour",
        "The local hour of the daily reset of chats that consist of threads. Unset: the value of reset.at_hour.",
    ),
    reset_idle(
        "session.reset.thread.idle_minutes",
        "Minutes without a message before an idle reset of chats that consist of threads. Unset: the value of reset.idle_minutes.",
    ),
    key(
        "session.busy",
        Kind::Word(BusyMode::WORDS),
        "\"interrupt\"",
        "Handling of a message that arrives during a turn: interrupt (stops the turn and is answered next) | queue (waits) | steer (is passed to the running turn, or waits if that is not possible). /busy changes it for a conversation.",
    ),
    key(
        "session.merge_ms",
        int(0, 60_000),
        "350",
        "While a turn runs, join messages of one sender that arrive within this many milliseconds. 0: never.",
    ),
    key("session.receipts", Kind::Bool, "true", "Confirm queued messages. Rejections are always reported."),
    key(
        "session.reactions",
        Kind::Bool,
        "true",
        "React to the user's message to show progress, if the platform supports it: working, done, failed.",
    ),
    key(
        "session.merge_ms_max",
        int(0, 60_000),
        "1000",
        "The longest time in milliseconds for which messages are joined.",
    ),
    key(
        "session.continuation_ms",
        int(0, 10_000),
        "2000",
        "Milliseconds to wait for the continuation of a message close to the platform's length limit, since clients split long messages. 0: never.",
    ),
    key(
        "session.stream",
        Kind::Word(&["auto", "off"]),
        "\"auto\"",
        "Show an answer while it is being written, if the adapter supports it: auto | off.",
    ),
    key(
        "session.outbound_dirs",
        Kind::Paths,
        "[]",
        "Folders from which a reply may send files with a line MEDIA:/path, in addition to the host's media folder.",
    ),
    key(
        "session.media_hosts",
        Kind::List,
        "[]",
        "Hosts from which a reply may fetch files with MEDIA:https://…: names, domains such as \".example.org\", or \"*\" for any. Empty: none, since such a URL can leak data of the conversation.",
    ),
    key("session.inactivity_s", int(1, DAY_S), "1800", "Seconds without activity before a turn is ended."),
    key(
        "session.inactivity_warning_s",
        int(0, DAY_S),
        "900",
        "Seconds without activity of a turn before the chat is warned. 0: never.",
    ),
    key(
        "session.heartbeat_s",
        int(0, DAY_S),
        "180",
        "Interval in seconds of progress reports for a long turn. 0: never.",
    ),
    key(
        "session.approval_timeout_s",
        int(1, DAY_S),
        "300",
        "Timeout in seconds for a question to a user. An approval that expires is denied.",
    ),
    key(
        "session.handoff_timeout_s",
        int(1, DAY_S),
        "300",
        "Timeout in seconds for a handoff from the terminal to a chat. A conversation whose handoff expires stays in the terminal.",
    ),
    key(
        "session.confirm_new",
        Kind::Bool,
        "false",
        "Ask for confirmation before /new ends a conversation that has messages.",
    ),
    key(
        "session.progress",
        Kind::Word(&["off", "new", "all", "verbose", "log"]),
        "\"off\"",
        "Tool calls that a chat shows: off | new (only when the tool changes) | all | verbose (with all arguments) | log (none; they are written to logs/tool_calls.log). /verbose changes it for a conversation.",
    ),
    key(
        "session.footer",
        Kind::Bool,
        "false",
        "End each answer with a line of its model, tokens and time. /footer changes it for a conversation.",
    ),
    key(
        "session.queue_max",
        int(1, 10_000),
        "32",
        "The maximum number of messages that wait while a turn runs. Further messages are rejected.",
    ),
    key(
        "session.resume_attempts_max",
        int(0, 100),
        "3",
        "The maximum number of times that a turn interrupted by a crash is resumed. Then it is closed with a notice.",
    ),
    key("access.allow_all", Kind::Bool, "false", "Admit everyone on instances without an access list."),
    key("access.allowed_users", Kind::QualifiedIds, "[]", "Ids of users: [\"example:123\"]."),
    key(
        "access.operators",
        Kind::QualifiedIds,
        "[]",
        "Ids of the operator on other platforms: [\"example:123\"]. The operator is the user at the terminal.",
    ),
    key(
        "access.admins",
        Kind::QualifiedIds,
        "[]",
        "Ids of admins, who may approve, pair and restart: [\"example:123\"].",
    ),
    key(
        "access.strangers",
        Kind::Word(&["pair", "ignore"]),
        "\"pair\"",
        "Answer to a direct message of an unknown sender: pair (a pairing code) | ignore. Groups and instances with a list of users never answer unknown senders.",
    ),
    key("commands.background", Kind::Bool, "true", "/background: run a turn in the background."),
    key("commands.verbose", Kind::Bool, "true", "/verbose: choose the tool calls that a chat shows."),
    key("commands.debug", Kind::Bool, "true", "/debug: write a report for troubleshooting."),
    key("commands.platform", Kind::Bool, "true", "/platform: turn adapters on and off from a chat."),
    key("commands.restart", Kind::Bool, "true", "/restart: restart the host from a chat."),
    key(
        "delivery.reply_deadline_s",
        int(60, 30 * DAY_S),
        "86400",
        "Seconds until a reply that cannot be delivered is abandoned.",
    ),
    key(
        "delivery.notice_deadline_s",
        int(1, 30 * DAY_S),
        "600",
        "Seconds until a notice or a question that cannot be delivered is abandoned.",
    ),
    key(
        "delivery.backoff_ms",
        int(10, 60_000),
        "1000",
        "The first wait in milliseconds before a retry; it doubles with each attempt, with jitter.",
    ),
    key("delivery.backoff_s_max", int(1, 3600), "300", "The longest wait in seconds before a retry."),
    key(
        "delivery.hold_s",
        int(0, 3600),
        "60",
        "Seconds that a failing message blocks later messages in the same chat.",
    ),
    key(
        "delivery.preview_interval_ms",
        int(10, 60_000),
        "800",
        "The shortest time in milliseconds between two edits of an answer that is being written. A faster answer is sent as a whole.",
    ),
    key("delivery.preview_chars", int(1, 10_000), "24", "The minimum number of new characters for such an edit."),
    key("limits.event_bytes_max", int(1024, 8_388_608), "1048576", "The maximum size of an adapter's event in bytes."),
    key(
        "limits.file_bytes_max",
        int(1024, 4_294_967_296),
        "104857600",
        "The maximum size of a received or sent file in bytes. A platform may have a lower limit. Read at startup.",
    ),
    key(
        "limits.reply_bytes_max",
        int(1024, 67_108_864),
        "1048576",
        "The maximum size of an agent's reply in bytes. A longer reply is cut.",
    ),
    key("limits.turns_max", int(1, 100_000), "256", "The maximum number of concurrent turns. Further turns wait."),
    key("limits.background_max", int(0, 1000), "4", "The maximum number of background turns of one user."),
    key(
        "limits.ingress_queue_max",
        int(1, 1_000_000),
        "1024",
        "The maximum number of events that wait for the dispatcher.",
    ),
    key(
        "limits.host_calls_max",
        int(1, 10_000),
        "64",
        "The maximum number of concurrent calls of one adapter to the host.",
    ),
    key(
        "limits.stranger_events_max",
        int(1, 1_000_000),
        "1000",
        "The maximum number of stored events of unknown senders per instance.",
    ),
    key("limits.retention_days", int(1, 3650), "30", "Days for which settled rows are kept."),
    key(
        "limits.media_retention_s",
        int(60, 365 * DAY_S),
        "86400",
        "Seconds for which media files are kept after their last use.",
    ),
    key("limits.pairing_code_s", int(60, 30 * DAY_S), "3600", "Seconds until a pairing code expires."),
    key(
        "limits.pairing_interval_s",
        int(1, DAY_S),
        "600",
        "Seconds until the same sender can get another pairing code.",
    ),
    key("limits.pairing_open_max", int(1, 1000), "3", "The maximum number of open pairing requests per instance."),
    key(
        "limits.pairing_wrong_max",
        int(1, 1000),
        "5",
        "The number of wrong codes after which their sender is locked out.",
    ),
    key("limits.pairing_lockout_s", int(1, 30 * DAY_S), "3600", "Seconds for which a sender stays locked out."),
    key(
        "limits.user_messages_per_minute",
        int(0, 100_000),
        "0",
        "The maximum number of messages per minute of one user. Further messages are rejected with a notice. 0: no limit.",
    ),
    key(
        "limits.session_messages_per_minute",
        int(0, 100_000),
        "0",
        "The maximum number of messages per minute in one conversation. 0: no limit.",
    ),
    key(
        "limits.instance_messages_per_minute",
        int(0, 1_000_000),
        "0",
        "The maximum number of messages per minute on one instance. 0: no limit.",
    ),
    key(
        "limits.bot_messages_max",
        int(0, 100_000),
        "10",
        "The maximum number of consecutive bot messages that are answered in a chat, so that two bots do not talk forever. A message of a person resets the count.",
    ),
    key(
        "limits.control_clients_max",
        int(1, 1000),
        "16",
        "The maximum number of concurrent clients of the control socket.",
    ),
    key(
        "limits.status_clients_max",
        int(1, 10_000),
        "64",
        "The maximum number of concurrent connections to the status listener.",
    ),
];

/// The host's keys of an adapter section. Every other key in it belongs to the adapter.
pub const ADAPTER_KEYS: &[Key] = &[
    unset("plugin", Kind::Text, "\"another\"", "The adapter id, if the instance has a different name."),
    unset("command", Kind::List, "[\"./my-adapter\"]", "The command of an adapter program, instead of a library."),
    unset("enabled", Kind::Bool, "true", "Start this instance. Overrides `adapter enable` and `adapter disable`."),
    unset(
        "isolation",
        Kind::Word(&["auto", "in-process", "process"]),
        "\"process\"",
        "Where this adapter runs, as in [host]: auto | in-process | process.",
    ),
    unset(
        "proxy",
        Kind::Proxy,
        "\"socks5h://127.0.0.1:1080\"",
        "The proxy of this instance, as in [host]. \"\" means no proxy.",
    ),
    unset("profile", Kind::Word(&["main"]), "\"main\"", "The profile of this instance."),
    unset(
        "home_channel",
        Kind::Chat,
        "\"123456789\"",
        "The chat for notices and handoffs: an id, or { chat = \"…\", thread = \"…\" }. Overrides /sethome.",
    ),
    key(
        "trust_upstream",
        Kind::Bool,
        "false",
        "Trust the senders and roles that the adapter vouches for. Libraries next to the binary are always trusted.",
    ),
    key("access.allow_all", Kind::Bool, "false", "Admit everyone on this instance."),
    key("access.allowed_users", Kind::List, "[]", "Ids of users."),
    key("access.allowed_groups", Kind::List, "[]", "Ids of chats whose members are users in that chat."),
    key(
        "access.allowed_roles",
        Kind::List,
        "[]",
        "Roles whose members are users. Ignored unless the adapter is trusted (see trust_upstream).",
    ),
    key(
        "access.grants",
        Kind::List,
        "[]",
        "Host methods of the adapter's manifest that it may call: [\"sessions.list\"]. Libraries next to the binary may call all of theirs.",
    ),
    key("access.user_commands", Kind::List, "[]", "Additional commands that users may run in direct messages."),
    key("access.group_user_commands", Kind::List, "[]", "Additional commands that users may run in groups."),
    key("access.operators", Kind::List, "[]", "Ids of the operator on this platform."),
    key("access.admins", Kind::List, "[]", "Ids of admins."),
    unset(
        "access.strangers",
        Kind::Word(&["pair", "ignore"]),
        "\"ignore\"",
        "Answer to a direct message of an unknown sender, as in [access]: pair | ignore.",
    ),
];

/// Keys of an adapter section's `session` in addition to those of `[session]`.
pub const ADAPTER_SESSION_KEYS: &[Key] = &[
    unset(
        "session.require_mention",
        Kind::Bool,
        "true",
        "Answer only group messages that address the agent. Unset: the adapter's default.",
    ),
    key("session.free_chats", Kind::List, "[]", "Ids of chats in which the agent answers every message."),
    key("session.mention_patterns", Kind::List, "[]", "Words that address the agent."),
    key(
        "session.observe",
        Kind::Bool,
        "false",
        "Keep the newest group messages that do not address the agent as context for its next turn in that group. Only messages of authorized users are kept. /new deletes them.",
    ),
];

/// Session keys that are also allowed directly in an adapter section.
pub const ADAPTER_SHORT_KEYS: &[&str] = &["busy", "stream", "require_mention"];

/// Keys of the host that an adapter's schema may define, too. The adapter then also gets the value.
pub const SHARED: &[&str] = &["proxy"];

/// Former names of keys that still work: `(retired, current)`.
pub const RETIRED: &[(&str, &str)] =
    &[("session.busy_input_mode", "session.busy"), ("access.unauthorized_dm_behavior", "access.strangers")];

/// Variables that set keys outside of adapter sections: `(variable, key)`.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", "agent.api_key"),
    ("OPENAI_BASE_URL", "agent.base_url"),
    ("OPENAI_MODEL", "agent.model"),
    ("GATEWAY_ALLOW_ALL_USERS", "access.allow_all"),
];

/// Returns the key with this path.
pub fn find<'a>(keys: impl IntoIterator<Item = &'a Key>, path: &str) -> Option<&'a Key> {
    keys.into_iter().find(|key| key.path == path)
}

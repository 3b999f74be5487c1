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

const fn reset_hour(path: &'static str) -> Key {
    unset(path, int(0, 23), "4", "As above.")
}

const fn reset_idle(path: &'static str) -> Key {
    unset(path, int(1, 525_600), "1440", "As above.")
}

/// The sections and their descriptions, in the order of the sample.
pub const SECTIONS: &[(&str, &str)] = &[
    ("host", "The process itself."),
    ("agent", "Who answers."),
    ("session", "Conversations and turns. An adapter's section may override any of these under `session`."),
    ("access", "Who may speak. Closed by default: an empty list means nobody."),
    ("commands", "Which commands exist. One that is off is unknown to everybody, and in no list and no menu."),
    ("delivery", "How hard the host tries to deliver what is owed."),
    ("limits", "Bounds that protect the host."),
];

/// Every key outside of adapter sections.
pub const KEYS: &[Key] = &[
    key("host.plugins_dir", Kind::Path, "\"plugins\"", "Where accepted adapter libraries lie. It need not exist."),
    key(
        "host.isolation",
        Kind::Word(&["auto", "in-process", "process"]),
        "\"auto\"",
        "Where adapters run: auto | in-process | process. Auto: libraries beside the binary inside the host, all others in a process of their own.",
    ),
    key("host.log", Kind::Text, "\"info\"", "A level, or a tracing filter such as \"info,hermes_host=debug\"."),
    key("host.log_format", Kind::Word(&["text", "json"]), "\"text\"", "How log lines are written: text | json."),
    key("host.status", Kind::Listen, "\"127.0.0.1:8640\"", "Status page, /metrics, /healthz and /readyz. \"\" is off."),
    key(
        "host.status_public",
        Kind::Bool,
        "false",
        "Whether `status` may be an address that other machines reach. The page asks for no key.",
    ),
    unset(
        "host.proxy",
        Kind::Proxy,
        "\"http://127.0.0.1:3128\"",
        "The proxy for all outgoing connections: http, https, socks5 or socks5h, with user:password@ where it needs them, or { env = \"NAME\" }. \"\" is none. Unset: HTTPS_PROXY, HTTP_PROXY and ALL_PROXY of the environment. This machine is always connected directly.",
    ),
    key(
        "host.no_proxy",
        Kind::List,
        "[]",
        "Names, domains, addresses and networks that are connected directly, besides those of NO_PROXY: \".example.org\", \"10.0.0.0/8\".",
    ),
    key("host.drain_s", int(0, 3600), "30", "How long a planned stop waits for running turns."),
    key(
        "host.pin",
        Kind::Word(&["on", "off"]),
        "\"on\"",
        "Whether changed bytes of a library in plugins_dir are refused until `adapter add`: on | off.",
    ),
    key(
        "host.confine",
        Kind::Word(&["on", "off"]),
        "\"on\"",
        "Whether an adapter in a process of its own gives up files, ports and system calls that it does not need, where the kernel can (Landlock, seccomp): on | off.",
    ),
    key(
        "host.unix_sockets",
        Kind::List,
        "[]",
        "Adapters that may open Unix sockets although they are confined, for a local daemon of their platform. Every service of this user that listens on such a socket is then open to them.",
    ),
    key("host.adapter_connect_s", int(1, 600), "60", "How long an adapter may take to connect."),
    key("host.adapter_send_s", int(1, 600), "60", "How long an adapter may take to send or edit a message."),
    key("host.adapter_call_s", int(1, 600), "10", "How long any other call of an adapter may take."),
    key("host.adapter_stop_s", int(1, 600), "10", "How long an adapter may take to end before it counts as stuck."),
    key(
        "host.adapter_backoff_ms",
        int(10, 60_000),
        "1000",
        "The first wait before a failed adapter is started again; it doubles.",
    ),
    key("host.adapter_backoff_s_max", int(1, 3600), "300", "The longest such wait."),
    key(
        "agent.runtime",
        Kind::Word(&["echo", "openai"]),
        "\"echo\"",
        "Who answers: echo | openai. With OPENAI_API_KEY or OPENAI_BASE_URL in the environment the default is openai.",
    ),
    unset(
        "agent.base_url",
        Kind::Url,
        "\"https://api.openai.com/v1\"",
        "What stands before /chat/completions, or OPENAI_BASE_URL.",
    ),
    unset("agent.model", Kind::Text, "\"some-model\"", "The model to ask for, or OPENAI_MODEL."),
    key(
        "agent.models",
        Kind::List,
        "[]",
        "Other models of the endpoint that people may choose with /model. Admins may name any.",
    ),
    unset("agent.api_key", Kind::Secret, "{ env = \"OPENAI_API_KEY\" }", "The endpoint's key, or OPENAI_API_KEY."),
    unset(
        "agent.system_prompt",
        Kind::Text,
        "\"You are helpful and brief.\"",
        "What the model is told before every conversation.",
    ),
    key(
        "agent.personalities",
        Kind::Texts,
        "{}",
        "Whom the agent can be, by name: { pirate = \"Talk like a pirate.\" }. /personality chooses one for a conversation.",
    ),
    unset(
        "agent.reasoning",
        Kind::Word(Effort::WORDS),
        "\"medium\"",
        "How much the model thinks: none | minimal | low | medium | high | xhigh. Unset: as the model does. /reasoning chooses it for a conversation.",
    ),
    key("agent.show_reasoning", Kind::Bool, "false", "Whether chats see what the model thought."),
    unset(
        "agent.ca_file",
        Kind::Path,
        "\"ca.pem\"",
        "Certificates to trust besides the system's, for an endpoint of your own.",
    ),
    key("agent.connect_timeout_s", int(1, 600), "10", "How long until the connection to the endpoint stands."),
    key("agent.first_byte_timeout_s", int(1, 3600), "120", "How long until the answer begins, retries included."),
    key("agent.idle_timeout_s", int(1, 3600), "60", "How long between two pieces of an answer."),
    key("agent.history_messages_max", int(1, 100_000), "200", "The most messages of history that a model gets."),
    key(
        "agent.context_window",
        int(0, 100_000_000),
        "0",
        "The tokens that the model reads at most. 0: learnt from the endpoint.",
    ),
    key(
        "agent.pictures",
        Kind::Bool,
        "true",
        "Whether pictures that come in are shown to the model; an endpoint that refuses them gets their names only.",
    ),
    key(
        "agent.tools",
        Kind::Words(&hermes_agent::tools::WORDS),
        "[\"memory\", \"session_search\", \"todo\"]",
        "What the agent may use: all | terminal | process | delegate_task | send_message | session_search | memory | todo | task. With terminal whoever may speak to it can have commands run on this machine; dangerous ones are put to an admin first.",
    ),
    key(
        "agent.iterations_max",
        int(1, 1000),
        "40",
        "How often the model may use tools in one turn before it has to answer.",
    ),
    key("agent.terminal_timeout_s", int(1, 1200), "180", "How long a command may take when the model names no time."),
    unset("agent.cwd", Kind::Path, "\"work\"", "The folder in which commands run. Unset: where the host was started."),
    key(
        "agent.env_pass",
        Kind::List,
        "[]",
        "Environment variables that commands of the agent get, by name: [\"GH_TOKEN\"]. Commands get no other variable of the host except PATH, HOME, the locale and the like.",
    ),
    key(
        "agent.dangerous",
        Kind::List,
        "[]",
        "Commands that need approval besides the usual ones: a name and words among its arguments, such as \"npm publish\" or \"kubectl delete|drain\".",
    ),
    key(
        "agent.test_words",
        Kind::Bool,
        "false",
        "Whether the echo runtime understands its test words (/slow, /fail). For tests.",
    ),
    key(
        "session.group_sessions_per_user",
        Kind::Bool,
        "true",
        "Whether each person in a group has a conversation of their own.",
    ),
    key("session.thread_sessions_per_user", Kind::Bool, "false", "Whether that also holds inside a thread."),
    key(
        "session.reset.mode",
        RESET_MODES,
        "\"none\"",
        "When a conversation begins anew by itself: none | idle | daily | both.",
    ),
    key("session.reset.at_hour", int(0, 23), "4", "The local hour of the daily reset."),
    key("session.reset.idle_minutes", int(1, 525_600), "1440", "The silence after which an idle reset happens."),
    key("session.reset.notify", Kind::Bool, "true", "Whether the chat is told of a reset, with its next message."),
    unset(
        "session.reset.zone",
        Kind::Text,
        "\"Europe/Berlin\"",
        "The zone of that hour, by its IANA name; without it the machine's own.",
    ),
    reset_mode("session.reset.dm.mode", "The same rules for direct messages only; what is not said here is as above."),
    reset_hour("session.reset.dm.at_hour"),
    reset_idle("session.reset.dm.idle_minutes"),
    reset_mode("session.reset.group.mode", "For groups only."),
    reset_hour("session.reset.group.at_hour"),
    reset_idle("session.reset.group.idle_minutes"),
    reset_mode("session.reset.channel.mode", "For channels only."),
    reset_hour("session.reset.channel.at_hour"),
    reset_idle("session.reset.channel.idle_minutes"),
    reset_mode("session.reset.thread.mode", "For chats that are threads only."),
    reset_hour("session.reset.thread.at_hour"),
    reset_idle("session.reset.thread.idle_minutes"),
    key(
        "session.busy",
        Kind::Word(BusyMode::WORDS),
        "\"interrupt\"",
        "What happens to a message while a turn runs: interrupt (it ends that turn and is answered next) | queue (it waits) | steer (it reaches that turn, or waits where it cannot). /busy chooses for one conversation.",
    ),
    key(
        "session.merge_ms",
        int(0, 60_000),
        "350",
        "How long after one text the next one of the same sender belongs to it, while a turn runs. 0: never.",
    ),
    key(
        "session.receipts",
        Kind::Bool,
        "true",
        "Whether somebody whose message waits is told so. A refusal always is.",
    ),
    key(
        "session.reactions",
        Kind::Bool,
        "true",
        "Whether the message that is answered shows by a reaction how that goes, where its platform can: being worked on, done, failed.",
    ),
    key("session.merge_ms_max", int(0, 60_000), "1000", "How long one message may grow that way."),
    key(
        "session.continuation_ms",
        int(0, 10_000),
        "2000",
        "How long a text close to its platform's limit waits for its continuation, since clients cut long ones. 0: never.",
    ),
    key(
        "session.stream",
        Kind::Word(&["auto", "off"]),
        "\"auto\"",
        "Whether growing answers are shown where the adapter can: auto | off.",
    ),
    key(
        "session.outbound_dirs",
        Kind::Paths,
        "[]",
        "Folders besides the host's media folder from which a reply may send files; it names one by a line MEDIA:/path.",
    ),
    key(
        "session.media_hosts",
        Kind::List,
        "[]",
        "Hosts from which files that an answer names by MEDIA:https://… are fetched: names, domains such as \".example.org\", or \"*\" for any. Empty: none, since such an address can carry what the agent knows to somebody else.",
    ),
    key("session.inactivity_s", int(1, DAY_S), "1800", "How long a turn may be silent before it is ended."),
    key(
        "session.inactivity_warning_s",
        int(0, DAY_S),
        "900",
        "How long a turn may be silent before the chat is warned. 0: never.",
    ),
    key("session.heartbeat_s", int(0, DAY_S), "180", "How often the chat hears what a long turn is doing. 0: never."),
    key(
        "session.approval_timeout_s",
        int(1, DAY_S),
        "300",
        "How long a question to a person waits; an approval that nobody gives in time is refused.",
    ),
    key(
        "session.handoff_timeout_s",
        int(1, DAY_S),
        "300",
        "How long a conversation may be on its way from the terminal to a chat; then it stays where it was.",
    ),
    key("session.confirm_new", Kind::Bool, "false", "Whether /new asks first where something was said."),
    key(
        "session.progress",
        Kind::Word(&["off", "new", "all", "verbose", "log"]),
        "\"off\"",
        "What a chat sees of tools that are used: off | new (when it is another one) | all | verbose (with all they are used with) | log (nothing; they go to logs/tool_calls.log). /verbose chooses it for one conversation.",
    ),
    key("session.footer", Kind::Bool, "false", "Whether an answer ends with its model, tokens and time. Or /footer."),
    key("session.queue_max", int(1, 10_000), "32", "How many messages wait while a turn runs; more are refused."),
    key(
        "session.resume_attempts_max",
        int(0, 100),
        "3",
        "How often a turn that a crash cut off is resumed before it is closed with a notice.",
    ),
    key(
        "access.allow_all",
        Kind::Bool,
        "false",
        "Whether everybody may speak on instances that have no list of any kind.",
    ),
    key("access.allowed_users", Kind::QualifiedIds, "[]", "Who may speak: [\"example:123\"]."),
    key("access.operators", Kind::QualifiedIds, "[]", "The same person as at the terminal: [\"example:123\"]."),
    key("access.admins", Kind::QualifiedIds, "[]", "Who may approve, pair and restart: [\"example:123\"]."),
    key(
        "access.strangers",
        Kind::Word(&["pair", "ignore"]),
        "\"pair\"",
        "What a stranger's direct message gets: pair (a code) | ignore. Groups, and instances with a list of who may speak, are always silent.",
    ),
    key("commands.background", Kind::Bool, "true", "/background: turns beside the conversation."),
    key("commands.verbose", Kind::Bool, "true", "/verbose: what a chat sees of tools."),
    key("commands.debug", Kind::Bool, "true", "/debug: a report for whoever looks for a fault."),
    key("commands.platform", Kind::Bool, "true", "/platform: adapters switched from a chat."),
    key("commands.restart", Kind::Bool, "true", "/restart: the host restarted from a chat."),
    key("delivery.reply_deadline_s", int(60, 30 * DAY_S), "86400", "How long a reply is tried."),
    key("delivery.notice_deadline_s", int(1, 30 * DAY_S), "600", "How long a notice or a question is tried."),
    key("delivery.backoff_ms", int(10, 60_000), "1000", "The first wait before a retry; it doubles, with jitter."),
    key("delivery.backoff_s_max", int(1, 3600), "300", "The longest such wait."),
    key("delivery.hold_s", int(0, 3600), "60", "How long a failing part holds up what follows it in its chat."),
    key(
        "delivery.preview_interval_ms",
        int(10, 60_000),
        "800",
        "The shortest time between two edits that show how an answer grows; an answer that comes sooner is sent whole.",
    ),
    key("delivery.preview_chars", int(1, 10_000), "24", "How many new characters are worth such an edit."),
    key("limits.event_bytes_max", int(1024, 8_388_608), "1048576", "The largest event that an adapter may hand in."),
    key(
        "limits.file_bytes_max",
        int(1024, 4_294_967_296),
        "104857600",
        "The largest file that is taken in or sent, in bytes; a platform may have a lower bound of its own. Read at start.",
    ),
    key("limits.reply_bytes_max", int(1024, 67_108_864), "1048576", "The longest reply of an agent; the rest is cut."),
    key("limits.turns_max", int(1, 100_000), "256", "How many turns run side by side; further ones wait."),
    key("limits.background_max", int(0, 1000), "4", "How many turns one person may have in the background."),
    key("limits.ingress_queue_max", int(1, 1_000_000), "1024", "How many events wait for the dispatcher."),
    key("limits.host_calls_max", int(1, 10_000), "64", "How many calls of one adapter into the host run at once."),
    key(
        "limits.stranger_events_max",
        int(1, 1_000_000),
        "1000",
        "How many events of strangers one instance may leave in the database.",
    ),
    key("limits.retention_days", int(1, 3650), "30", "How long settled rows are kept."),
    key("limits.media_retention_s", int(60, 365 * DAY_S), "86400", "How long media is kept after its last use."),
    key("limits.pairing_code_s", int(60, 30 * DAY_S), "3600", "How long a pairing code is good."),
    key("limits.pairing_interval_s", int(1, DAY_S), "600", "How long one person waits for the next code."),
    key("limits.pairing_open_max", int(1, 1000), "3", "How many requests of unknown senders are open per instance."),
    key("limits.pairing_wrong_max", int(1, 1000), "5", "How many wrong codes lock out their sender."),
    key("limits.pairing_lockout_s", int(1, 30 * DAY_S), "3600", "How long a sender stays locked out."),
    key(
        "limits.user_messages_per_minute",
        int(0, 100_000),
        "0",
        "How many messages a minute one person may write; more are refused with a notice. 0: any number.",
    ),
    key("limits.session_messages_per_minute", int(0, 100_000), "0", "The same for one conversation."),
    key("limits.instance_messages_per_minute", int(0, 1_000_000), "0", "The same for everybody on one instance."),
    key(
        "limits.bot_messages_max",
        int(0, 100_000),
        "10",
        "How many messages of bots are answered in a chat while no person speaks there, so that two bots do not talk for ever.",
    ),
    key("limits.control_clients_max", int(1, 1000), "16", "How many clients the control socket serves at once."),
    key("limits.status_clients_max", int(1, 10_000), "64", "How many connections the status listener serves at once."),
];

/// The host's keys of an adapter section. Every other key in it belongs to the adapter.
pub const ADAPTER_KEYS: &[Key] = &[
    unset(
        "plugin",
        Kind::Text,
        "\"another\"",
        "Which adapter it is, when the instance has another name than the adapter.",
    ),
    unset("command", Kind::List, "[\"./my-adapter\"]", "A program to run instead of a library."),
    unset("enabled", Kind::Bool, "true", "Wins over `adapter enable` and `adapter disable`."),
    unset("isolation", Kind::Word(&["auto", "in-process", "process"]), "\"process\"", "As in [host]."),
    unset(
        "proxy",
        Kind::Proxy,
        "\"socks5h://127.0.0.1:1080\"",
        "The proxy of this instance, as in [host]; \"\" is none.",
    ),
    unset("profile", Kind::Word(&["main"]), "\"main\"", "The profile that it speaks for."),
    unset(
        "home_channel",
        Kind::Chat,
        "\"123456789\"",
        "Where the host may write unasked; or { chat = \"…\", thread = \"…\" }. Wins over /sethome.",
    ),
    key(
        "trust_upstream",
        Kind::Bool,
        "false",
        "Whether senders and roles that the adapter vouches for are believed. Libraries beside the binary are.",
    ),
    key("access.allow_all", Kind::Bool, "false", "Whether everybody may speak here."),
    key("access.allowed_users", Kind::List, "[]", "Ids of who may speak here."),
    key("access.allowed_groups", Kind::List, "[]", "Ids of chats whose members may speak there."),
    key("access.allowed_roles", Kind::List, "[]", "Roles that may speak here; believed only under trust."),
    key(
        "access.grants",
        Kind::List,
        "[]",
        "Host methods that the adapter asks for in its manifest and may use: [\"sessions.list\"]. Libraries beside the binary may use theirs.",
    ),
    key("access.user_commands", Kind::List, "[]", "Commands that users may run beyond their tier, in direct messages."),
    key("access.group_user_commands", Kind::List, "[]", "The same in groups."),
    key("access.operators", Kind::List, "[]", "Ids of the operator."),
    key("access.admins", Kind::List, "[]", "Ids of admins."),
    unset("access.strangers", Kind::Word(&["pair", "ignore"]), "\"ignore\"", "As in [access]."),
];

/// Keys of an adapter section's `session` in addition to those of `[session]`.
pub const ADAPTER_SESSION_KEYS: &[Key] = &[
    unset(
        "session.require_mention",
        Kind::Bool,
        "true",
        "Whether a group message counts only when it is addressed. The adapter has a default.",
    ),
    key("session.free_chats", Kind::List, "[]", "Ids of chats in which every message counts."),
    key("session.mention_patterns", Kind::List, "[]", "Words that count as addressing the agent."),
    key(
        "session.observe",
        Kind::Bool,
        "false",
        "Whether the newest messages of a group that are not addressed to the agent are kept, as context for its next turn there. Only messages of people who may speak are kept; /new forgets them.",
    ),
];

/// Session keys that are also allowed directly in an adapter section.
pub const ADAPTER_SHORT_KEYS: &[&str] = &["busy", "stream", "require_mention"];

/// Names that an adapter's schema must not use.
pub const RESERVED: &[&str] = &[
    "plugin",
    "command",
    "enabled",
    "isolation",
    "profile",
    "access",
    "home_channel",
    "trust_upstream",
    "session",
    "busy",
    "stream",
    "require_mention",
];

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

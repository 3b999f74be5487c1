//! The conversion of checked values into typed sections.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hermes_agent::{AgentConfig, RuntimeKind, Timeouts};
use hermes_core::commands::Gates;
use hermes_core::secret::Secret;
use hermes_core::settings::Effort;

use super::keys::{ADAPTER_KEYS, ADAPTER_SESSION_KEYS, KEYS, Key, find};
use super::model::*;
use super::proxies::HostProxy;
use super::read::{Values, relative_to};
use super::resets;
use super::tree::{Node, Value};

/// The hosted endpoint, used if only a key is set.
const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
/// The default model of the hosted endpoint.
const OPENAI_MODEL: &str = "gpt-4.1-mini";

/// Reads the values of one table of keys by path.
pub struct Get<'a> {
    values: &'a Values,
    file: &'a Path,
    adapter: bool,
}

impl<'a> Get<'a> {
    /// Reads the sections outside of adapters. Paths are relative to `file`.
    pub fn host(values: &'a Values, file: &'a Path) -> Self {
        Self { values, file, adapter: false }
    }

    /// Reads the host's keys of an adapter section.
    pub fn adapter(values: &'a Values, file: &'a Path) -> Self {
        Self { values, file, adapter: true }
    }

    fn key(&self, path: &str) -> &'static Key {
        let section = find(ADAPTER_SESSION_KEYS, path).or_else(|| find(KEYS, path));
        let key = if self.adapter { find(ADAPTER_KEYS, path).or(section) } else { section };
        key.expect("every path asked for is in the table; a test reads them all")
    }

    pub(super) fn value(&self, path: &str) -> Option<Value> {
        self.values.value(self.key(path))
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        match self.value(path) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn word(&self, path: &str) -> String {
        self.text(path).unwrap_or_default()
    }

    fn flag(&self, path: &str) -> Option<bool> {
        match self.value(path) {
            Some(Value::Boolean(flag)) => Some(flag),
            _ => None,
        }
    }

    pub(super) fn on(&self, path: &str) -> bool {
        self.flag(path).unwrap_or_default()
    }

    pub(super) fn whole(&self, path: &str) -> u64 {
        match self.value(path) {
            Some(Value::Integer(n)) => u64::try_from(n).unwrap_or_default(),
            _ => 0,
        }
    }

    fn count(&self, path: &str) -> usize {
        usize::try_from(self.whole(path)).unwrap_or(usize::MAX)
    }

    fn count32(&self, path: &str) -> u32 {
        u32::try_from(self.whole(path)).unwrap_or(u32::MAX)
    }

    fn seconds(&self, path: &str) -> Duration {
        Duration::from_secs(self.whole(path))
    }

    fn millis(&self, path: &str) -> Duration {
        Duration::from_millis(self.whole(path))
    }

    pub(super) fn list(&self, path: &str) -> Vec<String> {
        match self.value(path) {
            Some(Value::Array(items)) => items.into_iter().filter_map(string).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a list of ids without surrounding blanks, quotes and mention marks.
    fn ids(&self, path: &str) -> Vec<String> {
        self.list(path).iter().map(|id| bare_id(id).to_owned()).filter(|id| !id.is_empty()).collect()
    }

    fn texts(&self, path: &str) -> BTreeMap<String, String> {
        match self.value(path) {
            Some(Value::Table(table)) => {
                table.into_iter().filter_map(|(name, node)| Some((name, string(node)?))).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    fn qualified(&self, path: &str) -> Vec<QualifiedId> {
        self.list(path)
            .iter()
            .filter_map(|id| bare_id(id).split_once(':'))
            .map(|(instance, id)| QualifiedId { instance: instance.trim().to_owned(), id: bare_id(id).to_owned() })
            .collect()
    }
}

/// Returns an id as the platform sends it. A copied list may contain blanks, quotes or a mention such as `<@123>`.
fn bare_id(written: &str) -> &str {
    let mut id = written.trim();
    while let Some(inner) = ['"', '\'', '`']
        .into_iter()
        .find_map(|quote| id.strip_prefix(quote)?.strip_suffix(quote))
        .or_else(|| id.strip_prefix("<@")?.strip_suffix('>'))
        .or_else(|| id.strip_prefix("<#")?.strip_suffix('>'))
    {
        id = inner.trim_start_matches(['!', '&']).trim();
        // Slack appends the name to the id.
        id = id.split_once('|').map_or(id, |(id, _)| id);
    }
    id
}

fn string(node: Node) -> Option<String> {
    match node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn isolation(word: &str) -> Isolation {
    match word {
        "in-process" => Isolation::InProcess,
        "process" => Isolation::Process,
        _ => Isolation::Auto,
    }
}

fn strangers(word: &str) -> Strangers {
    if word == "ignore" { Strangers::Ignore } else { Strangers::Pair }
}

/// Returns `[host]`.
pub fn host(get: &Get<'_>, proxy: HostProxy) -> HostConfig {
    HostConfig {
        plugins_dir: relative_to(get.file, &get.word("host.plugins_dir")),
        isolation: isolation(&get.word("host.isolation")),
        log: get.word("host.log"),
        log_format: if get.word("host.log_format") == "json" { LogFormat::Json } else { LogFormat::Text },
        status: get.word("host.status").parse().ok(),
        proxy,
        drain: get.seconds("host.drain_s"),
        pin: get.word("host.pin") != "off",
        confine: get.word("host.confine") != "off",
        unix_sockets: get.list("host.unix_sockets"),
        adapter_connect: get.seconds("host.adapter_connect_s"),
        adapter_send: get.seconds("host.adapter_send_s"),
        adapter_call: get.seconds("host.adapter_call_s"),
        adapter_stop: get.seconds("host.adapter_stop_s"),
        adapter_backoff: get.millis("host.adapter_backoff_ms"),
        adapter_backoff_max: get.seconds("host.adapter_backoff_s_max"),
    }
}

/// Returns `[agent]`. An endpoint or key from the environment makes `openai` the default runtime.
pub fn agent(get: &Get<'_>) -> AgentConfig {
    let said = |path| get.values.get(path).is_some();
    let runtime = match get.values.get("agent.runtime") {
        Some(_) => RuntimeKind::from_word(&get.word("agent.runtime")).unwrap_or_default(),
        None if said("agent.api_key") || said("agent.base_url") => RuntimeKind::OpenAi,
        None => RuntimeKind::Echo,
    };
    let base_url = get.text("agent.base_url");
    let hosted = runtime == RuntimeKind::OpenAi && base_url.is_none();
    AgentConfig {
        runtime,
        model: get.text("agent.model").or_else(|| hosted.then(|| OPENAI_MODEL.to_owned())),
        models: get.list("agent.models"),
        base_url: base_url.or_else(|| hosted.then(|| OPENAI_BASE_URL.to_owned())),
        api_key: get.text("agent.api_key").map(Secret::new),
        system_prompt: get.text("agent.system_prompt"),
        personalities: get.texts("agent.personalities"),
        reasoning: get.text("agent.reasoning").and_then(|word| Effort::from_word(&word)),
        show_reasoning: get.on("agent.show_reasoning"),
        ca_file: get.text("agent.ca_file").map(|path| relative_to(get.file, &path)),
        timeouts: Timeouts {
            connect: get.seconds("agent.connect_timeout_s"),
            first_byte: get.seconds("agent.first_byte_timeout_s"),
            idle: get.seconds("agent.idle_timeout_s"),
        },
        history_messages_max: get.count("agent.history_messages_max"),
        context_window: Some(get.count("agent.context_window")).filter(|window| *window > 0),
        pictures: get.on("agent.pictures"),
        test_words: get.on("agent.test_words"),
        introduces: !said("agent.runtime"),
        tools: get.list("agent.tools"),
        iterations_max: get.count32("agent.iterations_max"),
        terminal_timeout: get.seconds("agent.terminal_timeout_s"),
        cwd: get.text("agent.cwd").map(|path| relative_to(get.file, &path)),
        dangerous: get.list("agent.dangerous"),
        ..AgentConfig::default()
    }
}

/// Returns `true` if the agent uses the default endpoint.
pub fn is_hosted(agent: &AgentConfig) -> bool {
    agent.runtime == RuntimeKind::OpenAi && agent.base_url.as_deref() == Some(OPENAI_BASE_URL)
}

/// Returns `[session]`, or that of one adapter.
pub fn session(get: &Get<'_>) -> SessionConfig {
    SessionConfig {
        group_sessions_per_user: get.on("session.group_sessions_per_user"),
        thread_sessions_per_user: get.on("session.thread_sessions_per_user"),
        reset: resets::rules(get),
        busy: BusyMode::from_word(&get.word("session.busy")).unwrap_or(BusyMode::Interrupt),
        receipts: get.on("session.receipts"),
        reactions: get.on("session.reactions"),
        merge: get.millis("session.merge_ms"),
        merge_max: get.millis("session.merge_ms_max"),
        continuation: get.millis("session.continuation_ms"),
        stream: if get.word("session.stream") == "off" { StreamMode::Off } else { StreamMode::Auto },
        outbound_dirs: get.list("session.outbound_dirs").iter().map(|path| relative_to(get.file, path)).collect(),
        media_hosts: get.list("session.media_hosts"),
        inactivity: get.seconds("session.inactivity_s"),
        inactivity_warning: get.seconds("session.inactivity_warning_s"),
        heartbeat: get.seconds("session.heartbeat_s"),
        approval_timeout: get.seconds("session.approval_timeout_s"),
        handoff_timeout: get.seconds("session.handoff_timeout_s"),
        confirm_new: get.on("session.confirm_new"),
        progress: ProgressMode::from_word(&get.word("session.progress")).unwrap_or(ProgressMode::Off),
        footer: get.on("session.footer"),
        queue_max: get.count("session.queue_max"),
        resume_attempts_max: get.count32("session.resume_attempts_max"),
        require_mention: get.flag("session.require_mention"),
        free_chats: get.ids("session.free_chats"),
        mention_patterns: get.list("session.mention_patterns"),
        observe: get.on("session.observe"),
    }
}

/// Returns `[access]`.
pub fn access(get: &Get<'_>) -> AccessConfig {
    AccessConfig {
        allow_all: get.on("access.allow_all"),
        allowed_users: get.qualified("access.allowed_users"),
        operators: get.qualified("access.operators"),
        admins: get.qualified("access.admins"),
        strangers: strangers(&get.word("access.strangers")),
    }
}

/// Returns `[commands]`.
pub fn gates(get: &Get<'_>) -> Gates {
    Gates::read(|key| get.on(key))
}

/// Returns `access` of one adapter.
pub fn instance_access(get: &Get<'_>) -> InstanceAccessConfig {
    InstanceAccessConfig {
        allow_all: get.on("access.allow_all"),
        allowed_users: get.ids("access.allowed_users"),
        allowed_groups: get.ids("access.allowed_groups"),
        allowed_roles: get.ids("access.allowed_roles"),
        grants: get.list("access.grants"),
        user_commands: get.list("access.user_commands"),
        group_user_commands: get.list("access.group_user_commands"),
        operators: get.ids("access.operators"),
        admins: get.ids("access.admins"),
        strangers: get.text("access.strangers").map(|word| strangers(&word)),
    }
}

/// Returns `[delivery]`.
pub fn delivery(get: &Get<'_>) -> DeliveryConfig {
    DeliveryConfig {
        reply_deadline: get.seconds("delivery.reply_deadline_s"),
        notice_deadline: get.seconds("delivery.notice_deadline_s"),
        backoff: get.millis("delivery.backoff_ms"),
        backoff_max: get.seconds("delivery.backoff_s_max"),
        hold: get.seconds("delivery.hold_s"),
        preview_interval: get.millis("delivery.preview_interval_ms"),
        preview_chars: get.count("delivery.preview_chars"),
    }
}

/// Returns `[limits]`.
pub fn limits(get: &Get<'_>) -> LimitsConfig {
    LimitsConfig {
        event_bytes_max: get.count("limits.event_bytes_max"),
        file_bytes_max: get.whole("limits.file_bytes_max"),
        reply_bytes_max: get.count("limits.reply_bytes_max"),
        turns_max: get.count("limits.turns_max"),
        background_max: get.count("limits.background_max"),
        ingress_queue_max: get.count("limits.ingress_queue_max"),
        host_calls_max: get.count("limits.host_calls_max"),
        stranger_events_max: get.count("limits.stranger_events_max"),
        retention: Duration::from_secs(get.whole("limits.retention_days").saturating_mul(86_400)),
        media_retention: get.seconds("limits.media_retention_s"),
        pairing_code: get.seconds("limits.pairing_code_s"),
        pairing_interval: get.seconds("limits.pairing_interval_s"),
        pairing_open_max: get.count("limits.pairing_open_max"),
        pairing_wrong_max: get.count32("limits.pairing_wrong_max"),
        pairing_lockout: get.seconds("limits.pairing_lockout_s"),
        user_messages_per_minute: get.count32("limits.user_messages_per_minute"),
        session_messages_per_minute: get.count32("limits.session_messages_per_minute"),
        instance_messages_per_minute: get.count32("limits.instance_messages_per_minute"),
        bot_messages_max: get.count32("limits.bot_messages_max"),
        control_clients_max: get.count("limits.control_clients_max"),
        status_clients_max: get.count("limits.status_clients_max"),
    }
}

/// Returns the host's keys of one adapter section. `get` contains them, `session` the merged session keys.
pub fn adapter(
    instance: &str,
    get: &Get<'_>,
    session: SessionConfig,
    section: super::section::Section,
) -> AdapterConfig {
    AdapterConfig {
        plugin: get.text("plugin").unwrap_or_else(|| instance.to_owned()),
        command: Some(get.list("command")).filter(|command| !command.is_empty()),
        enabled: get.flag("enabled"),
        isolation: get.text("isolation").map(|word| isolation(&word)),
        proxy: get.text("proxy").map(Secret::new),
        access: instance_access(get),
        home_channel: get.value("home_channel").and_then(home_channel),
        trust_upstream: get.on("trust_upstream"),
        session,
        section,
    }
}

fn home_channel(value: Value) -> Option<HomeChannel> {
    match value {
        Value::String(chat) => Some(HomeChannel { chat, thread: None }),
        Value::Table(mut table) => {
            let mut take = |name: &str| table.remove(name).and_then(string);
            Some(HomeChannel { chat: take("chat")?, thread: take("thread") })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_without_the_marks_around_it() {
        for written in
            ["148", " 148 ", "\"148\"", "'148'", " \" 148 \" ", "<@148>", "<@!148>", "<@&148>", "<@148|ada>", "`148`"]
        {
            assert_eq!(bare_id(written), "148", "{written:?}");
        }
        for id in ["@ann:example.org", "U0123", "a\"b", "-1001234", "*", "<148", "a b"] {
            assert_eq!(bare_id(id), id);
        }
        assert_eq!(bare_id(" \"\" "), "");
    }
}

//! Environment variables of the Python gateway that this host does not read.
//!
//! Such a variable has no effect here, which is a warning. A variable that limits senders, chats or connections must
//! not be ignored: the host refuses to start until the replacing key is set or the variable is unset. A variable that a
//! manifest names is read, regardless of this table.

use std::collections::{BTreeMap, BTreeSet};

use hermes_protocol::Manifest;

use super::model::Config;
use super::problem::{Problems, Source, Warning};
use hermes_core::nearest::nearest;

/// The effect that a variable has in the Python gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Permits or changes a behaviour.
    Changes,
    /// Limits a behaviour, regardless of its value.
    Limits,
    /// Limits a behaviour if it is true.
    LimitsIfTrue,
    /// Limits a behaviour if it is false.
    LimitsIfFalse,
}

use Effect::{Changes, Limits, LimitsIfFalse, LimitsIfTrue};

/// Variables of one adapter: `(adapter, variable, key of its section, effect)`. An empty key: there is no replacement.
const OF_ADAPTERS: &[(&str, &str, &str, Effect)] = &[
    ("telegram", "TELEGRAM_ALLOWED_CHATS", "access.allowed_groups", Limits),
    ("telegram", "TELEGRAM_GROUP_ALLOWED_CHATS", "access.allowed_groups", Limits),
    ("telegram", "TELEGRAM_GROUP_ALLOWED_USERS", "access.allowed_users", Limits),
    ("telegram", "TELEGRAM_ALLOWED_TOPICS", "", Limits),
    ("telegram", "TELEGRAM_IGNORED_THREADS", "", Limits),
    ("telegram", "TELEGRAM_EXCLUSIVE_BOT_MENTIONS", "session.require_mention", LimitsIfTrue),
    ("telegram", "TELEGRAM_PROXY", "proxy", Limits),
    ("telegram", "TELEGRAM_ALLOW_BOTS", "access.allowed_users", Changes),
    ("telegram", "TELEGRAM_FREE_RESPONSE_CHATS", "session.free_chats", Changes),
    ("telegram", "TELEGRAM_FREE_RESPONSE_TOPICS", "session.free_chats", Changes),
    ("telegram", "TELEGRAM_MENTION_PATTERNS", "session.mention_patterns", Changes),
    ("telegram", "TELEGRAM_OBSERVE_UNMENTIONED_GROUP_MESSAGES", "session.observe", Changes),
    ("telegram", "TELEGRAM_REPLY_TO_MODE", "reply_mode", Changes),
    ("telegram", "TELEGRAM_WEBHOOK_PORT", "listen", Changes),
    ("telegram", "TELEGRAM_GUEST_MODE", "", Changes),
    ("telegram", "TELEGRAM_FALLBACK_IPS", "", Changes),
    ("telegram", "TELEGRAM_HOME_CHANNEL_NAME", "", Changes),
    ("discord", "DISCORD_THREAD_REQUIRE_MENTION", "", LimitsIfTrue),
    ("discord", "DISCORD_PROXY", "proxy", Limits),
    ("discord", "DISCORD_ALLOW_BOTS", "access.allowed_users", Changes),
    ("discord", "DISCORD_BOTS_REQUIRE_INLINE_MENTION", "", Changes),
    ("discord", "DISCORD_HIDE_SLASH_COMMANDS", "", Changes),
    ("discord", "DISCORD_COMMAND_SYNC_POLICY", "", Changes),
    ("discord", "DISCORD_ALLOW_ANY_ATTACHMENT", "", Changes),
    ("discord", "DISCORD_MAX_ATTACHMENT_BYTES", "media_bytes_max", Changes),
    ("discord", "DISCORD_ALLOW_MENTION_EVERYONE", "", Changes),
    ("discord", "DISCORD_ALLOW_MENTION_ROLES", "", Changes),
    ("discord", "DISCORD_ALLOW_MENTION_USERS", "", Changes),
    ("discord", "DISCORD_ALLOW_MENTION_REPLIED_USER", "", Changes),
    ("discord", "DISCORD_APPROVAL_MENTIONS", "", Changes),
    ("discord", "DISCORD_HISTORY_BACKFILL", "", Changes),
    ("discord", "DISCORD_HISTORY_BACKFILL_LIMIT", "", Changes),
    ("discord", "DISCORD_MISSED_MESSAGE_BACKFILL", "", Changes),
    ("discord", "DISCORD_MISSED_MESSAGE_BACKFILL_CHANNELS", "", Changes),
    ("discord", "DISCORD_MISSED_MESSAGE_BACKFILL_LIMIT", "", Changes),
    ("discord", "DISCORD_MISSED_MESSAGE_BACKFILL_MAX_DISPATCHES", "", Changes),
    ("discord", "DISCORD_MISSED_MESSAGE_BACKFILL_WINDOW_SECONDS", "", Changes),
    ("discord", "DISCORD_HOME_CHANNEL_NAME", "", Changes),
    ("slack", "SLACK_STRICT_MENTION", "", LimitsIfTrue),
    ("slack", "SLACK_ALLOW_BOTS", "access.allowed_users", Changes),
    ("slack", "SLACK_MENTION_PATTERNS", "session.mention_patterns", Changes),
    ("slack", "SLACK_HOME_CHANNEL_NAME", "", Changes),
    ("api_server", "API_SERVER_ENABLED", "enabled", LimitsIfFalse),
    ("api_server", "API_SERVER_HOST", "listen", Changes),
    ("api_server", "API_SERVER_PORT", "listen", Changes),
    ("api_server", "API_SERVER_CORS_ORIGINS", "cors_origins", Changes),
    ("webhook", "WEBHOOK_ENABLED", "enabled", LimitsIfFalse),
];

/// Variables of the gateway as a whole: `(variable, key, effect)`.
const OF_THE_HOST: &[(&str, &str, Effect)] = &[
    ("GATEWAY_ALLOWED_USERS", "access.allowed_users", Limits),
    ("GATEWAY_MULTIPLEX_PROFILES", "", Changes),
    ("GATEWAY_PROXY_URL", "", Changes),
    ("GATEWAY_PROXY_KEY", "", Changes),
    ("GATEWAY_RELAY_URL", "", Changes),
    ("SESSION_IDLE_MINUTES", "session.reset.idle_minutes", Changes),
    ("SESSION_RESET_HOUR", "session.reset.at_hour", Changes),
    ("MESSAGING_CWD", "agent.cwd", Changes),
    ("TERMINAL_CWD", "agent.cwd", Changes),
    ("HERMES_AUTO_CONTINUE_FRESHNESS", "", Changes),
    ("HERMES_EXEC_ASK", "agent.dangerous", Changes),
    ("HERMES_GATEWAY_BUSY_STEER_ACK_ENABLED", "session.receipts", Changes),
    ("HERMES_MEDIA_DELIVERY_STRICT", "", Changes),
    ("HERMES_MEDIA_TRUST_RECENT_FILES", "", Changes),
    ("HERMES_MEDIA_TRUST_RECENT_SECONDS", "", Changes),
    ("HERMES_REDACT_SECRETS", "", Changes),
    ("HERMES_AGENT_NOTIFY_INTERVAL", "session.heartbeat_s", Changes),
    ("HERMES_AGENT_TIMEOUT", "session.inactivity_s", Changes),
    ("HERMES_AGENT_TIMEOUT_WARNING", "session.inactivity_warning_s", Changes),
    ("HERMES_BACKGROUND_NOTIFICATIONS", "", Changes),
    ("HERMES_EPHEMERAL_SYSTEM_PROMPT", "agent.system_prompt", Changes),
    ("HERMES_GATEWAY_BUSY_INPUT_MODE", "session.busy", Changes),
    ("HERMES_GATEWAY_BUSY_TEXT_MODE", "session.busy", Changes),
    ("HERMES_GATEWAY_BUSY_ACK_ENABLED", "session.receipts", Changes),
    ("HERMES_GATEWAY_PLATFORM_CONNECT_TIMEOUT", "host.adapter_connect_s", Changes),
    ("HERMES_GATEWAY_ADAPTER_DISCONNECT_TIMEOUT", "host.adapter_stop_s", Changes),
    ("HERMES_MAX_ITERATIONS", "agent.iterations_max", Changes),
    ("HERMES_MAX_TOKENS", "", Changes),
    ("HERMES_MEDIA_ALLOW_DIRS", "session.outbound_dirs", Changes),
    ("HERMES_PREFILL_MESSAGES_FILE", "", Changes),
    ("HERMES_RESTART_DRAIN_TIMEOUT", "host.drain_s", Changes),
    ("HERMES_TIMEZONE", "session.reset.zone", Changes),
    ("HERMES_TOOL_PROGRESS_MODE", "session.progress", Changes),
];

/// The variables that start a platform for which this host has no adapter.
const OTHER_PLATFORMS: &[(&str, &str)] = &[
    ("BLUEBUBBLES_SERVER_URL", "BlueBubbles"),
    ("DINGTALK_CLIENT_ID", "DingTalk"),
    ("EMAIL_IMAP_HOST", "e-mail"),
    ("FEISHU_APP_ID", "Feishu"),
    ("HASS_TOKEN", "Home Assistant"),
    ("MATRIX_HOMESERVER", "Matrix"),
    ("MATTERMOST_URL", "Mattermost"),
    ("QQ_APP_ID", "QQ"),
    ("SIGNAL_HTTP_URL", "Signal"),
    ("TWILIO_ACCOUNT_SID", "SMS"),
    ("WECOM_BOT_ID", "WeCom"),
    ("WECOM_CALLBACK_CORP_ID", "WeCom"),
    ("WEIXIN_TOKEN", "Weixin"),
    ("WHATSAPP_CLOUD_ACCESS_TOKEN", "WhatsApp"),
    ("WHATSAPP_ENABLED", "WhatsApp"),
    ("YUANBAO_APP_ID", "Yuanbao"),
];

impl Config {
    /// Returns a problem for each variable that limits a behaviour, and a warning for each other one. A variable whose
    /// replacing key is set is ignored. Call [`Config::resolve`] first.
    pub(super) fn foreign_variables(&self, manifests: &BTreeMap<String, Manifest>) -> (Problems, Vec<Warning>) {
        let is_read =
            |name: &str| manifests.values().flat_map(|manifest| &manifest.env).any(|variable| variable.name == name);
        let set = |name: &str| self.origin.env.get(name).filter(|_| !is_read(name));
        let (mut problems, mut warnings) = (Problems::default(), Vec::new());
        let mut note = |(value, source): (&str, Source), key: String, effect: Effect| {
            let key_words = |verb: &str| if key.is_empty() { String::new() } else { format!("{verb} this key, or ") };
            if limits(effect, value) {
                let sentence = format!(
                    "hermes-host does not read this variable, which sets a limit in the Python gateway{}; {}unset the \
                     variable",
                    if key.is_empty() { ", and has no equivalent key" } else { "" },
                    key_words("set"),
                );
                problems.push(source, key, sentence);
            } else {
                let sentence = format!(
                    "hermes-host does not read this variable of the Python gateway; {}",
                    match key.is_empty() {
                        true => "it has no effect".to_owned(),
                        false => "set this key instead".to_owned(),
                    }
                );
                warnings.push(Warning { source, key, sentence });
            }
        };
        for (plugin, name, key, effect) in OF_ADAPTERS {
            let Some(found) = set(name) else { continue };
            for (instance, adapter) in &self.adapters {
                let is_set = adapter.section.host.get(key).is_some() || adapter.section.own.contains_key(*key);
                if adapter.plugin == *plugin && adapter.enabled != Some(false) && !is_set {
                    let key = if key.is_empty() { String::new() } else { format!("adapter.{instance}.{key}") };
                    note(found.clone(), key, *effect);
                }
            }
        }
        for (name, key, effect) in OF_THE_HOST {
            if let Some(found) = set(name).filter(|_| self.origin.values.get(key).is_none()) {
                note(found, (*key).to_owned(), *effect);
            }
        }
        // The place where commands run is a limit only for an agent that runs commands.
        let runs_commands = self.agent.tools.iter().any(|tool| tool == hermes_agent::tools::ALL || tool == "terminal");
        if let Some(found) = set("TERMINAL_ENV").filter(|(value, _)| runs_commands && *value != "local") {
            problems.push(
                found.1,
                "agent.tools",
                format!(
                    "the Python gateway runs commands in {:?}, but hermes-host runs them on this machine; remove \
                     \"terminal\" from this key, or unset the variable",
                    found.0
                ),
            );
        }
        for (name, platform) in OTHER_PLATFORMS {
            if let Some((_, source)) = set(name) {
                let sentence = format!("hermes-host has no adapter for {platform}, so this variable has no effect");
                warnings.push(Warning { source, key: String::new(), sentence });
            }
        }
        warnings.extend(self.unknown_variables(manifests));
        (problems, warnings)
    }
}

impl Config {
    /// Returns a warning for each variable that begins like those of an adapter in use and that nothing reads: a
    /// misspelt one has no effect.
    fn unknown_variables(&self, manifests: &BTreeMap<String, Manifest>) -> Vec<Warning> {
        let on = self.adapters.values().filter(|adapter| adapter.enabled != Some(false));
        let plugins: BTreeSet<&str> = on.map(|adapter| adapter.plugin.as_str()).collect();
        let used = plugins.into_iter().filter_map(|plugin| manifests.get(plugin));
        let mut warnings = Vec::new();
        for manifest in used.filter(|manifest| !manifest.env.is_empty()) {
            let prefix = format!("{}_", manifest.id.to_uppercase());
            let of_gateway = format!("HERMES_{prefix}");
            for name in self.origin.env.names() {
                let is_known = manifests.values().flat_map(|manifest| &manifest.env).any(|known| known.name == name)
                    || OF_ADAPTERS.iter().any(|(_, known, ..)| *known == name)
                    || self.origin.named.contains(name);
                if is_known || !(name.starts_with(&prefix) || name.starts_with(&of_gateway)) {
                    continue;
                }
                let near = nearest(name, manifest.env.iter().map(|known| known.name.as_str()));
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                let source = self.origin.env.get(name).map_or(Source::Default, |(_, source)| source);
                let sentence = format!("hermes-host does not read this variable, so it has no effect{near}");
                warnings.push(Warning { source, key: String::new(), sentence });
            }
        }
        warnings
    }
}

fn limits(effect: Effect, value: &str) -> bool {
    let word = value.trim().to_ascii_lowercase();
    let is_true = ["true", "1", "yes", "on"].contains(&word.as_str());
    let is_false = ["false", "0", "no", "off"].contains(&word.as_str());
    match effect {
        Changes => false,
        Limits => true,
        LimitsIfTrue => is_true,
        LimitsIfFalse => is_false,
    }
}

//! The current configuration, in the form that the message path needs.

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_core::access::{AccessPolicy, AddressRules};
use hermes_core::commands::Gates;
use hermes_core::delivery::PreviewRule;
use hermes_core::session::KeyPolicy;
use hermes_protocol::Capabilities;

use hermes_config::mask::Masker;
use hermes_config::{Config, SessionConfig};
use hermes_store::Keep;

/// One version of the configuration. A reload replaces all of it.
pub struct Live {
    /// The values.
    pub config: Config,
    /// The rules of access.
    pub access: AccessPolicy,
    /// The enabled commands.
    pub gates: Gates,
    /// The masker of secrets in output.
    pub masker: Masker,
    rules: BTreeMap<String, AddressRules>,
}

impl Live {
    /// Returns the pace at which growing messages are shown.
    pub fn pace(&self) -> PreviewRule {
        let delivery = &self.config.delivery;
        let interval_ms = i64::try_from(delivery.preview_interval.as_millis()).unwrap_or(i64::MAX);
        PreviewRule { interval_ms, chars: delivery.preview_chars }
    }

    /// Creates the derived values of `config`, after the manifests were applied to it.
    pub fn new(config: Config) -> Self {
        let secrets = config.secrets();
        let rules = config
            .adapters
            .iter()
            .map(|(instance, adapter)| (instance.clone(), address_rules(&adapter.session)))
            .collect();
        Self {
            access: config.access_policy(),
            gates: config.gates.clone(),
            masker: Masker::new(secrets.iter().map(|secret| secret.expose().to_owned())),
            rules,
            config,
        }
    }

    /// Returns the retention of the store.
    pub fn keep(&self) -> Keep {
        let limits = &self.config.limits;
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Keep {
            settled_ms: ms(limits.retention),
            stray_events_max: i64::try_from(limits.stranger_events_max).unwrap_or(i64::MAX),
            pairing_ms: ms(limits.pairing_code.max(limits.pairing_interval)),
        }
    }

    /// Returns the rules for conversations on `instance`.
    pub fn session_of(&self, instance: &str) -> &SessionConfig {
        self.config.session_for(instance)
    }

    /// Returns the list of the operator that contains this chat id of `instance`.
    pub fn names_chat(&self, instance: &str, id: &str) -> Option<&'static str> {
        let access = self.config.adapters.get(instance).map(|adapter| &adapter.access);
        if access.is_some_and(|access| access.allowed_groups.iter().any(|group| group == id)) {
            return Some("allowed_groups");
        }
        self.session_of(instance).free_chats.iter().any(|chat| chat == id).then_some("free_chats")
    }

    /// Returns the rules by which senders share a conversation on `instance`.
    pub fn key_policy(&self, instance: &str) -> KeyPolicy {
        let session = self.session_of(instance);
        KeyPolicy {
            group_sessions_per_user: session.group_sessions_per_user,
            thread_sessions_per_user: session.thread_sessions_per_user,
        }
    }

    /// Returns the rules by which a group message on `instance` is addressed to the agent.
    pub fn address_rules(&self, instance: &str, capabilities: Option<&Capabilities>) -> AddressRules {
        let mut rules = self.rules.get(instance).cloned().unwrap_or_else(|| address_rules(self.session_of(instance)));
        if let Some(can) = capabilities {
            rules.default = can.group_default.clone();
        }
        rules
    }
}

fn address_rules(session: &SessionConfig) -> AddressRules {
    AddressRules {
        require_mention: session.require_mention,
        free_chats: session.free_chats.iter().cloned().collect(),
        mention_patterns: session.mention_patterns.clone(),
        ..AddressRules::default()
    }
}

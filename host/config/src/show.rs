//! The display of the effective configuration, and its JSON Schema. Secrets are masked.

use std::collections::BTreeMap;

use hermes_core::secret::{self, MASK};
use hermes_protocol::Manifest;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::keys::{ADAPTER_KEYS, KEYS, Key, Kind, SECTIONS};
use super::model::Config;
use super::problem::Source;
use super::read::{Found, default_of};
use super::secrets::{self, is_secret};
use super::section::host_keys;

/// One effective value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The full key.
    pub key: String,
    /// The value in TOML syntax; a secret is masked.
    pub value: String,
    /// The source of the value.
    pub source: String,
}

impl Config {
    /// Returns every effective value with its source: all keys of the table, and the keys of adapter sections.
    pub fn show(&self, manifests: &BTreeMap<String, Manifest>) -> Vec<Shown> {
        let mut all = vec![Shown {
            key: "home".to_owned(),
            value: toml(&Json::from(self.home.display().to_string())),
            source: self.origin.home.to_string(),
        }];
        all.extend(KEYS.iter().filter_map(|key| self.shown_key(key, self.origin.values.get(key.path))));
        all.extend(self.shown_proxy());
        for (instance, adapter) in &self.adapters {
            let section = &adapter.section;
            for key in host_keys() {
                let Some(found) = section.host.get(key.path) else { continue };
                all.extend(shown(&format!("adapter.{instance}.{}", key.path), key.kind, Some(found), None));
            }
            let manifest = manifests.get(&adapter.plugin);
            for (name, own) in &section.own {
                let looks = |name: &str| manifest.is_none() && looks_secret(name);
                let hidden = looks(name) || manifest.is_some_and(|manifest| is_secret(manifest, name));
                let value = match secrets::shown(&own.value, &own.hidden, &looks) {
                    whole if hidden || whole == MASK => MASK.to_owned(),
                    value => toml(&value),
                };
                all.push(Shown { key: format!("adapter.{instance}.{name}"), value, source: own.source.to_string() });
            }
        }
        let secrets = self.secrets();
        for line in &mut all {
            line.value = secret::mask(&line.value, &secrets);
        }
        all
    }

    /// Returns the values that are read only at the start. For comparison only, because they contain secrets.
    pub fn for_the_start(&self) -> BTreeMap<&'static str, String> {
        let own = KEYS.iter().filter(|key| is_for_the_start(key.path));
        own.map(|key| {
            let value = self.origin.values.value(key).map(|value| value.to_json().to_string()).unwrap_or_default();
            (key.path, value)
        })
        .collect()
    }

    /// Returns the keys whose values differ from those at the start.
    pub fn changed_for_the_next_start(&self, started_with: &BTreeMap<&'static str, String>) -> Vec<String> {
        let now = self.for_the_start();
        now.iter()
            .filter(|(key, value)| started_with.get(*key) != Some(value))
            .map(|(key, _)| (*key).to_owned())
            .collect()
    }

    /// Returns the proxy variables in use, unless a key overrides them.
    fn shown_proxy(&self) -> Option<Shown> {
        if self.origin.values.get("host.proxy").is_some() {
            return None;
        }
        let value = hermes_adapter_net::proxy::describe(&self.host.proxy.settings)?;
        let source = format!("environment: {}", self.host.proxy.from);
        Some(Shown { key: "host.proxy".to_owned(), value: toml(&Json::from(value)), source })
    }

    /// Returns one value. If its default depends on other keys, it is the value in use.
    fn shown_key(&self, key: &Key, found: Option<&Found>) -> Option<Shown> {
        let used = match key.path {
            "agent.runtime" => Some(self.agent.runtime.as_str().to_owned()),
            "agent.base_url" => self.agent.base_url.clone(),
            "agent.model" => self.agent.model.clone(),
            _ => None,
        };
        shown(key.path, key.kind, found, used.map(Json::from).or_else(|| default_of(key).map(|value| value.to_json())))
    }
}

fn shown(key: &str, kind: Kind, found: Option<&Found>, default: Option<Json>) -> Option<Shown> {
    let value = found.map(|found| found.value.to_json()).or(default)?;
    let value = match (kind, &value) {
        (Kind::Secret, _) => MASK.to_owned(),
        (Kind::Proxy, Json::String(text)) => toml(&Json::from(super::proxies::shown(text))),
        _ => toml(&value),
    };
    let source = found.map_or(Source::Default, |found| found.source.clone());
    Some(Shown { key: key.to_owned(), value, source: source.to_string() })
}

/// Returns `true` if a key is read only at the start, because its subject exists as long as the process.
fn is_for_the_start(path: &str) -> bool {
    const LIVE: &[&str] = &[
        "host.drain_s",
        "host.isolation",
        "agent.system_prompt",
        "agent.history_messages_max",
        "agent.personalities",
        "agent.reasoning",
        "agent.show_reasoning",
    ];
    const LIMITS: &[&str] = &[
        "limits.ingress_queue_max",
        "limits.host_calls_max",
        "limits.control_clients_max",
        "limits.status_clients_max",
    ];
    let section = path.starts_with("agent.") || path.starts_with("host.");
    section && !LIVE.contains(&path) || LIMITS.contains(&path)
}

/// Returns `true` if the name of a key of an unknown adapter suggests a secret.
fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["token", "secret", "password", "passphrase", "key", "credential"].iter().any(|word| name.contains(word))
}

/// Formats a value as TOML on one line.
pub fn toml(value: &Json) -> String {
    match value {
        Json::Object(table) => {
            let pairs: Vec<String> = table.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        Json::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        // The escapes of JSON strings are valid in TOML, too.
        other => other.to_string(),
    }
}

/// Returns the JSON Schema of `plugins.toml`, including the adapters' own schemas by plugin id.
pub fn json_schema(schemas: &BTreeMap<String, Json>) -> Json {
    let mut root = Map::new();
    for (section, doc) in SECTIONS {
        let keys = KEYS.iter().filter_map(|key| Some((key.path.strip_prefix(section)?.strip_prefix('.')?, key)));
        let mut schema = table(keys);
        schema["description"] = Json::from(*doc);
        root.insert((*section).to_owned(), schema);
    }
    root.insert("adapter".to_owned(), adapters(schemas));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "plugins.toml",
        "type": "object",
        "properties": root,
        "additionalProperties": false,
    })
}

fn adapters(schemas: &BTreeMap<String, Json>) -> Json {
    let mut host = table(host_keys().into_iter().map(|key| (key.path, key)));
    for name in super::keys::ADAPTER_SHORT_KEYS {
        let full = host["properties"]["session"]["properties"][name].clone();
        host["properties"][name] = full;
    }
    // The adapters' own keys are in the same table as the host's, so the host's part must stay open.
    host["additionalProperties"] = Json::Bool(true);
    let named: Map<String, Json> = schemas
        .iter()
        .map(|(plugin, own)| {
            let mut part = own.clone();
            if let Some(part) = part.as_object_mut() {
                part.remove("$schema");
                part.insert("$id".to_owned(), Json::from(format!("adapter:{plugin}")));
                part.insert("additionalProperties".to_owned(), Json::Bool(true));
                part.remove("required");
            }
            (plugin.clone(), json!({ "allOf": [host.clone(), part] }))
        })
        .collect();
    json!({
        "description": "One section per instance. Session keys contain its name.",
        "type": "object",
        "properties": named,
        "additionalProperties": host,
    })
}

/// Returns the schema of a table whose keys are dotted paths.
fn table<'a>(keys: impl Iterator<Item = (&'a str, &'a Key)>) -> Json {
    let mut properties: BTreeMap<String, Json> = BTreeMap::new();
    let mut below: BTreeMap<String, Vec<(&str, &Key)>> = BTreeMap::new();
    for (path, key) in keys {
        match path.split_once('.') {
            None => {
                properties.insert(path.to_owned(), value(key));
            }
            Some((name, rest)) => below.entry(name.to_owned()).or_default().push((rest, key)),
        }
    }
    properties.extend(below.into_iter().map(|(name, keys)| (name, table(keys.into_iter()))));
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn value(key: &Key) -> Json {
    let mut schema = match key.kind {
        Kind::Text | Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Word(words) => json!({ "enum": words }),
        Kind::List | Kind::Paths => json!({ "type": "array", "items": { "type": "string", "minLength": 1 } }),
        Kind::Words(words) => json!({ "type": "array", "items": { "enum": words } }),
        Kind::QualifiedIds => json!({ "type": "array", "items": { "type": "string", "pattern": "^[^:]+:.+$" } }),
        Kind::Secret | Kind::Proxy => json!({ "oneOf": [
            { "type": "string" },
            { "type": "object", "properties": { "env": { "type": "string" } }, "required": ["env"], "additionalProperties": false },
            { "type": "object", "properties": { "file": { "type": "string" } }, "required": ["file"], "additionalProperties": false },
        ] }),
        Kind::Texts => json!({ "type": "object", "additionalProperties": { "type": "string", "minLength": 1 } }),
        Kind::Listen => json!({ "type": "string" }),
        Kind::Url => json!({ "type": "string", "format": "uri" }),
        Kind::Chat => json!({ "oneOf": [
            { "type": "string", "minLength": 1 },
            { "type": "object", "properties": { "chat": { "type": "string" }, "thread": { "type": "string" } },
              "required": ["chat"], "additionalProperties": false },
        ] }),
    };
    schema["description"] = Json::from(key.doc);
    if let Some(default) = default_of(key) {
        schema["default"] = default.to_json();
    }
    schema
}

/// Returns every key that exists only in adapter sections, for the sample.
pub fn section_keys() -> impl Iterator<Item = &'static Key> {
    ADAPTER_KEYS.iter().chain(super::keys::ADAPTER_SESSION_KEYS)
}

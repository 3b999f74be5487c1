//! The secret values of an adapter's keys, at any depth.
//!
//! A manifest names keys in `secrets`; a schema marks properties with `writeOnly` or `format: password`. Every value at
//! or below such a place is a secret: it is refused in a file that others can read, masked in outgoing text, and never
//! shown.

use std::collections::{BTreeMap, BTreeSet};

use hermes_adapter_net::client::{base_url, is_loopback};
use hermes_core::secret::{MASK, WHOLE_CHARS_MIN};
use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::model::Config;
use super::problem::{Problems, Source, Warning};
use super::section::Own;
use hermes_loader::config_schema;

/// The depth limit: references may be circular.
const DEPTH_MAX: usize = 32;

impl Config {
    /// Returns a warning for each secret that is too short to be masked inside a text. The key of an endpoint on this
    /// machine is often a placeholder.
    pub(super) fn short_secrets(&self) -> Vec<Warning> {
        let is_short = |secret: &str| !secret.is_empty() && secret.chars().count() < WHOLE_CHARS_MIN;
        let warn = |source: Source, key: String| Warning {
            source,
            key,
            sentence: format!(
                "a secret of less than {WHOLE_CHARS_MIN} characters is masked in logs only as a separate word; use a \
                 longer one"
            ),
        };
        let mut warnings = Vec::new();
        let is_elsewhere =
            self.agent.base_url.as_deref().and_then(|url| base_url(url).ok()).is_none_or(|url| !is_loopback(&url));
        if is_elsewhere && self.agent.api_key.as_ref().is_some_and(|key| is_short(key.expose())) {
            let source = self.origin.values.get("agent.api_key").map_or(Source::Default, |found| found.source.clone());
            warnings.push(warn(source, "agent.api_key".to_owned()));
        }
        for (instance, adapter) in self.adapters.iter().filter(|(_, adapter)| adapter.enabled != Some(false)) {
            for (key, own) in adapter.section.own.iter().filter(|(_, own)| own.secrets.iter().any(|one| is_short(one)))
            {
                warnings.push(warn(own.place(""), format!("adapter.{instance}.{key}")));
            }
        }
        warnings
    }

    /// Returns a warning for each secret of the host that the operator passes on to commands.
    pub(super) fn passed_secrets(&self) -> Vec<Warning> {
        let Some(found) = self.origin.values.get("agent.env_pass") else { return Vec::new() };
        let secrets = self.secrets();
        let passed =
            self.agent.environment.iter().filter(|(_, value)| secrets.iter().any(|secret| secret.expose() == *value));
        let warn = |(name, _): (&String, &String)| Warning {
            source: found.source.clone(),
            key: "agent.env_pass".to_owned(),
            sentence: format!(
                "{name} contains a secret of this host, and every command of the agent receives it; \
                               remove it from this list if that is not intended"
            ),
        };
        passed.map(warn).collect()
    }

    /// Finds literal secrets by the known manifests and schemas. Each is hidden from then on, or a problem if others
    /// can read the file.
    pub(super) fn check_literals(
        &mut self,
        manifests: &BTreeMap<String, Manifest>,
        schemas: &BTreeMap<String, Json>,
        problems: &mut Problems,
    ) {
        let file = self.origin.file.display().to_string();
        for (instance, adapter) in &mut self.adapters {
            let Some(manifest) = manifests.get(&adapter.plugin) else { continue };
            let schema = schemas.get(&adapter.plugin).unwrap_or(&Json::Null);
            for (key, own) in &mut adapter.section.own {
                for Literal { path, text } in literals(manifest, schema, key, own) {
                    // The secret is hidden in any case, because messages about other problems might contain it.
                    own.secrets.push(text);
                    own.hidden.insert(path.clone());
                    if self.origin.literal_secrets || own.from_variable {
                        continue;
                    }
                    let dot = if path.is_empty() { "" } else { "." };
                    problems.push(
                        own.place(&path),
                        format!("adapter.{instance}.{key}{dot}{path}"),
                        format!(
                            "a secret is written in a file that other users can read; write {{ env = \"NAME\" }} or \
                             {{ file = \"path\" }}, or run `chmod 600 {file}`"
                        ),
                    );
                }
            }
        }
    }
}

/// A literal secret.
struct Literal {
    /// The path within its key; empty for the key itself.
    path: String,
    text: String,
}

/// Returns every secret of a key that is not a reference.
fn literals(manifest: &Manifest, root: &Json, key: &str, own: &Own) -> Vec<Literal> {
    let mut schemas = Vec::new();
    config_schema::properties(root, root, 0, &mut |name, schema| {
        if name == key {
            schemas.push(schema);
        }
    });
    let mut walk = Walk { manifest, root, found: Vec::new() };
    walk.visit(&schemas, &own.value, &[key], false);
    // A broken reference has its own problem and left an empty text.
    walk.found.retain(|literal| !literal.text.is_empty() && !own.hidden.contains(&literal.path));
    walk.found
}

struct Walk<'a> {
    manifest: &'a Manifest,
    root: &'a Json,
    found: Vec<Literal>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schemas: &[&'a Json], value: &Json, path: &[&str], within: bool) {
        if path.len() > DEPTH_MAX {
            return;
        }
        let secret = within || names(self.manifest, path) || schemas.iter().any(|schema| marked(self.root, schema, 0));
        match value {
            Json::Object(table) => {
                for (name, value) in table {
                    let mut below = Vec::new();
                    for schema in schemas {
                        members(self.root, schema, name, 0, &mut below);
                    }
                    self.visit(&below, value, &[path, &[name]].concat(), secret);
                }
            }
            Json::Array(entries) => {
                let mut below = Vec::new();
                for schema in schemas {
                    items(self.root, schema, 0, &mut below);
                }
                for (n, value) in entries.iter().enumerate() {
                    self.visit(&below, value, &[path, &[n.to_string().as_str()]].concat(), secret);
                }
            }
            Json::String(text) if secret => self.find(path, text.clone()),
            Json::Number(number) if secret => self.find(path, number.to_string()),
            _ => {}
        }
    }

    fn find(&mut self, path: &[&str], text: String) {
        self.found.push(Literal { path: path[1..].join("."), text });
    }
}

/// Returns `true` if the manifest lists a key or a nested key as a secret: `token`, `webhook.secret`. Indexes of list
/// entries are left out.
fn names(manifest: &Manifest, path: &[&str]) -> bool {
    let named: Vec<&str> = path.iter().copied().filter(|part| part.parse::<usize>().is_err()).collect();
    is_secret(manifest, &named.join("."))
}

/// Returns `true` if the manifest lists a key as a secret.
pub fn is_secret(manifest: &Manifest, key: &str) -> bool {
    manifest.secrets.iter().any(|secret| secret == key)
}

/// Returns `true` if a schema marks its value as write-only or as a password.
pub fn marked(root: &Json, schema: &Json, depth: usize) -> bool {
    let own = schema["writeOnly"] == true || schema["format"] == "password";
    own || depth < DEPTH_MAX && parts(root, schema).into_iter().any(|part| marked(root, part, depth + 1))
}

/// Collects the schemas of the member `name` of a table.
fn members<'a>(root: &'a Json, schema: &'a Json, name: &str, depth: usize, found: &mut Vec<&'a Json>) {
    if depth > DEPTH_MAX {
        return;
    }
    let named = schema["properties"].get(name);
    found.extend(named.or_else(|| schema.get("additionalProperties")));
    for part in parts(root, schema) {
        members(root, part, name, depth + 1, found);
    }
}

/// Collects the schemas of the entries of a list.
fn items<'a>(root: &'a Json, schema: &'a Json, depth: usize, found: &mut Vec<&'a Json>) {
    if depth > DEPTH_MAX {
        return;
    }
    found.extend(schema.get("items"));
    found.extend(schema["prefixItems"].as_array().into_iter().flatten());
    for part in parts(root, schema) {
        items(root, part, depth + 1, found);
    }
}

/// Returns the schemas that `schema` consists of: the target of its reference, and its alternatives.
fn parts<'a>(root: &'a Json, schema: &'a Json) -> Vec<&'a Json> {
    let target = schema.as_object().and_then(|object| config_schema::target(root, object));
    let alternatives = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|word| schema[word].as_array()).flatten();
    target.into_iter().chain(alternatives).collect()
}

/// Returns the value of a key for display, with [`MASK`] at each hidden place. `looks` decides by name if no manifest
/// lists the secrets.
pub fn shown(value: &Json, hidden: &BTreeSet<String>, looks: &dyn Fn(&str) -> bool) -> Json {
    shown_at(value, "", hidden, looks)
}

fn shown_at(value: &Json, path: &str, hidden: &BTreeSet<String>, looks: &dyn Fn(&str) -> bool) -> Json {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        _ if hidden.contains(path) => Json::from(MASK),
        Json::Object(table) => Json::Object(
            table
                .iter()
                .map(|(name, value)| {
                    let secret = looks(name) && (value.is_string() || value.is_number());
                    let value = if secret { Json::from(MASK) } else { shown_at(value, &below(name), hidden, looks) };
                    (name.clone(), value)
                })
                .collect(),
        ),
        Json::Array(entries) => Json::Array(
            entries
                .iter()
                .enumerate()
                .map(|(n, value)| shown_at(value, &below(&n.to_string()), hidden, looks))
                .collect(),
        ),
        other => other.clone(),
    }
}

//! Applies the variables and secrets of the manifests.
//!
//! A manifest names variables that set keys (`TELEGRAM_BOT_TOKEN` for `token`); a variable that `enables` creates an
//! instance without a section. A section overrides a variable, and a conflict is a warning.

use std::collections::{BTreeMap, BTreeSet};

use hermes_protocol::{EnvName, Manifest};
use serde_json::Value as Json;

use super::keys::find;
use super::load::adapter;
use super::model::Config;
use super::problem::{Problems, Source, Warning};
use super::read::{Values, from_variable};
use super::secrets::is_secret;
use super::section::{Own, Section, host_keys};
use super::tree::{At, Node, Value};

impl Config {
    /// Adds the variables of the adapters in `manifests` (by plugin id): instances that a variable enables, and keys
    /// that a variable sets.
    ///
    /// # Errors
    ///
    /// Variables that cannot be converted to their key, and literal secrets in a file that others can read.
    pub fn resolve(&mut self, manifests: &BTreeMap<String, Manifest>) -> Result<(), Problems> {
        let mut problems = Problems::default();
        for (plugin, manifest) in manifests {
            let hits = self.hits(manifest);
            let Some(instance) = self.instance_for(plugin, &hits) else { continue };
            let mut section = match self.adapters.get(&instance) {
                Some(adapter) => adapter.section.clone(),
                None => {
                    let source =
                        hits.iter().find(|hit| hit.name.enables).map_or(Source::Default, |hit| hit.source.clone());
                    Section { source, host: Values::default(), own: BTreeMap::new() }
                }
            };
            let shown = format!("adapter.{instance}");
            for hit in hits {
                self.apply(&mut section, hit, manifest, &shown, &mut problems);
            }
            let made = adapter(&instance, section, &self.origin.values, &self.origin.file);
            self.adapters.insert(instance, made);
        }
        self.check_literals(manifests, &BTreeMap::new(), &mut problems);
        problems.or(())
    }

    /// Returns every variable of a manifest that is set, current names before retired ones.
    fn hits(&mut self, manifest: &Manifest) -> Vec<Hit> {
        let mut hits = Vec::new();
        let (current, retired): (Vec<_>, Vec<_>) = manifest.env.iter().partition(|name| name.retired_for.is_empty());
        for name in current.into_iter().chain(retired) {
            let Some((text, source)) = self.origin.env.get(&name.name) else { continue };
            if !name.retired_for.is_empty() {
                self.warnings.push(Warning {
                    source: source.clone(),
                    key: String::new(),
                    sentence: format!("is retired; set {} instead", name.retired_for),
                });
            }
            hits.push(Hit { name: name.clone(), text: text.to_owned(), source });
        }
        hits
    }

    /// Returns the instance for the variables of a plugin: the one of its name, otherwise its only one, otherwise a new
    /// one if a variable enables it.
    fn instance_for(&self, plugin: &str, hits: &[Hit]) -> Option<String> {
        let of_plugin: Vec<&String> =
            self.adapters.iter().filter(|(_, adapter)| adapter.plugin == plugin).map(|(name, _)| name).collect();
        match of_plugin.as_slice() {
            [] if self.adapters.contains_key(plugin) => None,
            [] => hits.iter().any(|hit| hit.name.enables).then(|| plugin.to_owned()),
            [only] => Some((*only).clone()),
            _ => of_plugin.into_iter().find(|name| *name == plugin).cloned(),
        }
    }

    fn apply(&mut self, section: &mut Section, hit: Hit, manifest: &Manifest, shown: &str, problems: &mut Problems) {
        let key = hit.name.key.as_str();
        let said = if let Some(key) = find(host_keys(), key) {
            match from_variable(key.kind, &hit.text) {
                Ok(value) => match section.host.get(key.path) {
                    None => {
                        section.host.set(key, value, hit.source);
                        return;
                    }
                    Some(found) if found.value == value => return,
                    Some(found) => found.source.clone(),
                },
                Err(why) => {
                    problems.push(hit.source, format!("{shown}.{}", key.path), why);
                    return;
                }
            }
        } else if key == "home_channel.thread" {
            home_thread(section, hit);
            return;
        } else {
            match section.own.get(key) {
                None => {
                    let secrets = if is_secret(manifest, key) { vec![hit.text.clone()] } else { Vec::new() };
                    let hidden = secrets.iter().map(|_| String::new()).collect();
                    let own = Own {
                        value: Json::String(hit.text),
                        source: hit.source,
                        secrets,
                        hidden,
                        places: BTreeMap::new(),
                        from_variable: true,
                    };
                    section.own.insert(key.to_owned(), own);
                    return;
                }
                Some(own) if as_text(&own.value) == hit.text.trim() => return,
                Some(own) => own.source.clone(),
            }
        };
        self.warnings.push(Warning {
            source: said,
            key: format!("{shown}.{key}"),
            sentence: format!("overrides the different value of {}", hit.source),
        });
    }

    /// Returns every value that must not appear in outgoing text.
    pub fn secrets(&self) -> Vec<hermes_core::secret::Secret> {
        let own = self.adapters.values().flat_map(|adapter| adapter.section.own.values()).flat_map(|own| &own.secrets);
        let mut all: BTreeSet<String> = own.cloned().collect();
        all.extend(self.proxy_credentials());
        all.extend(self.agent.api_key.iter().map(|key| key.expose().to_owned()));
        all.into_iter().filter(|secret| !secret.is_empty()).map(hermes_core::secret::Secret::new).collect()
    }
}

/// One variable of a manifest that is set.
struct Hit {
    name: EnvName,
    text: String,
    source: Source,
}

/// Formats a scalar as the text of a variable.
fn as_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

/// Adds the thread to a home channel that comes from a variable. A home channel of a section is not changed.
fn home_thread(section: &mut Section, hit: Hit) {
    let key = find(host_keys(), "home_channel").expect("it is in the table");
    let Some(found) = section.host.get(key.path) else { return };
    if let (Value::String(chat), Source::Env(_) | Source::DotEnv(_)) = (&found.value, &found.source) {
        let text = |text: String| Node { at: At::default(), value: Value::String(text) };
        let pair = [("chat".to_owned(), text(chat.clone())), ("thread".to_owned(), text(hit.text))];
        section.host.set(key, Value::Table(BTreeMap::from(pair)), hit.source);
    }
}

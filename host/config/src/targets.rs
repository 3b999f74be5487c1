//! The check of targets in adapter sections. If a schema marks a text as a target (`"format": "target"`), its instance
//! must exist: a delivery to a missing instance waits for a day and is abandoned.

use std::collections::BTreeMap;

use hermes_core::delivery::Target;
use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::model::Config;
use super::plans::own_config;
use super::problem::{Problem, Problems};
use hermes_core::nearest::nearest;
use hermes_loader::config_schema;

/// The depth limit: references may be circular.
const DEPTH_MAX: usize = 16;

impl Config {
    /// Returns a problem for each target whose instance has neither a section nor a library.
    pub(super) fn targets_of_nobody(
        &self,
        manifests: &BTreeMap<String, Manifest>,
        schemas: &BTreeMap<String, Json>,
    ) -> Problems {
        let known = || self.adapters.keys().chain(manifests.keys()).map(String::as_str);
        let mut problems = Problems::default();
        for (instance, adapter) in &self.adapters {
            let Some(root) = schemas.get(&adapter.plugin) else { continue };
            let own = own_config(adapter, Some(root));
            targets(root, root, &own, String::new(), 0, &mut |path, text| {
                let Some(to) = instance_of(text) else { return };
                let near = nearest(to, known());
                // A single word may be one of the adapter's own.
                if known().any(|one| one == to) || (near.is_none() && !text.contains(':')) {
                    return;
                }
                let (key, rest) = path.split_once('.').unwrap_or((path, ""));
                problems.0.push(Problem {
                    source: adapter.section.own.get(key).map_or(adapter.section.source.clone(), |own| own.place(rest)),
                    key: format!("adapter.{instance}.{path}"),
                    sentence: format!(
                        "no instance is named {to:?}, so nothing arrives there; write the name of an \
                                       [adapter] section"
                    ),
                    nearest: near.map(str::to_owned),
                });
            });
        }
        problems
    }
}

/// Returns the instance of a target.
fn instance_of(text: &str) -> Option<&str> {
    match text.parse() {
        Ok(Target::Home { .. } | Target::Name { .. } | Target::Place { .. }) => {
            Some(text.split_once(':').map_or(text, |(instance, _)| instance).trim())
        }
        Ok(Target::Origin | Target::Local) | Err(_) => None,
    }
}

/// Calls `each` with every text of `value` that `schema` marks as a target, and its path. Default values are left out.
fn targets(root: &Json, schema: &Json, value: &Json, path: String, depth: usize, each: &mut impl FnMut(&str, &str)) {
    let Some(object) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else { return };
    if let Some(target) = config_schema::target(root, object) {
        targets(root, target, value, path.clone(), depth + 1, each);
    }
    match value {
        Json::String(text)
            if object.get("format").is_some_and(|format| format == "target")
                && object.get("default") != Some(value) =>
        {
            each(&path, text);
        }
        Json::Object(fields) => {
            let named = object.get("properties").and_then(Json::as_object);
            for (name, value) in fields {
                let of_name = named.and_then(|named| named.get(name));
                if let Some(schema) = of_name.or_else(|| object.get("additionalProperties")) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    targets(root, schema, value, path, depth + 1, each);
                }
            }
        }
        Json::Array(items) => {
            if let Some(schema) = object.get("items") {
                for (n, item) in items.iter().enumerate() {
                    targets(root, schema, item, format!("{path}.{n}"), depth + 1, each);
                }
            }
        }
        _ => {}
    }
}

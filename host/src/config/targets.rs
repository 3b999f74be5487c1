//! Targets in the sections of adapters. Where a schema says of a text that it is one (`"format": "target"`), its
//! instance has to be there: what is owed to no instance waits for a day and is given up.

use std::collections::BTreeMap;

use hermes_core::delivery::Target;
use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::model::Config;
use super::plans::own_config;
use super::problem::{Problem, Problems, nearest};
use super::schema;

/// References may point in circles; nothing sensible is nested deeper.
const DEPTH_MAX: usize = 16;

impl Config {
    /// Targets whose instance there is not, nor a library from which it could come.
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
                // A word alone may be one of the adapter's own.
                if known().any(|one| one == to) || (near.is_none() && !text.contains(':')) {
                    return;
                }
                let (key, rest) = path.split_once('.').unwrap_or((path, ""));
                problems.0.push(Problem {
                    source: adapter.section.own.get(key).map_or(adapter.section.source.clone(), |own| own.place(rest)),
                    key: format!("adapter.{instance}.{path}"),
                    sentence: format!("{to:?} is no instance, so nothing arrives there; write the name of a section"),
                    nearest: near.map(str::to_owned),
                });
            });
        }
        problems
    }
}

/// The instance that a target names.
fn instance_of(text: &str) -> Option<&str> {
    match text.parse() {
        Ok(Target::Home { .. } | Target::Name { .. } | Target::Place { .. }) => {
            Some(text.split_once(':').map_or(text, |(instance, _)| instance).trim())
        }
        Ok(Target::Origin | Target::Local) | Err(_) => None,
    }
}

/// Calls `each` with every text of `value` that `schema` calls a target and that is not what stands there by default,
/// and its path.
fn targets(root: &Json, schema: &Json, value: &Json, path: String, depth: usize, each: &mut impl FnMut(&str, &str)) {
    let Some(object) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else { return };
    if let Some(target) = schema::target(root, object) {
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

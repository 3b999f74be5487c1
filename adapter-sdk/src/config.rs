//! The configuration of an adapter: its requirements, and its strict parser.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::manifest::Manifest;

/// A configuration: parsed strictly from JSON, with a schema that the host shows and
/// checks. Derive it with `#[derive(AdapterConfig)]`, also for nested types.
pub trait AdapterConfig: DeserializeOwned + JsonSchema + Send + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> AdapterConfig for T {}

/// Parses a configuration. The error names the key and shows no secret.
pub(crate) fn read<C: AdapterConfig>(config: serde_json::Value, manifest: &Manifest) -> Result<C, String> {
    let config = if config.is_null() { serde_json::json!({}) } else { config };
    serde_path_to_error::deserialize(config).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." | "" => format!("configuration: {}", error.inner()),
            // The parser's own message would contain the value.
            _ if is_secret::<C>(manifest, &path) => {
                format!("configuration key `{path}`: does not match the schema (the value of a secret is not shown)")
            }
            path => format!("configuration key `{path}`: {}", error.inner()),
        }
    })
}

/// Returns whether the manifest or the schema marks the value at `path` as a secret. Indexes of lists
/// are ignored; a property with a marked name counts at any depth.
fn is_secret<C: AdapterConfig>(manifest: &Manifest, path: &str) -> bool {
    let keys: Vec<&str> =
        path.split('.').filter_map(|part| part.split('[').next()).filter(|key| !key.is_empty()).collect();
    let schema = schemars::schema_for!(C).to_value();
    manifest.is_secret(&keys.join(".")) || keys.iter().any(|key| marks(&schema, key))
}

/// Returns whether a schema marks a property `key` with `writeOnly`, or as a password.
fn marks(schema: &serde_json::Value, key: &str) -> bool {
    let marked = schema["properties"]
        .get(key)
        .is_some_and(|property| property["writeOnly"] == true || property["format"] == "password");
    let mut below =
        schema.as_object().into_iter().flat_map(serde_json::Map::values).chain(schema.as_array().into_iter().flatten());
    marked || below.any(|part| marks(part, key))
}

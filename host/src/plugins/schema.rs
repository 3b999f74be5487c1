//! What an adapter's own config keys may be.
//!
//! The schema is asked of the library in a short-lived child and kept by the hash
//! of the file. The check here finds what an operator gets wrong most: a key that
//! does not exist, a key that is missing, a value of another type. The adapter
//! itself parses the configuration again when it is created.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;

use super::{
    AdapterSettings, LoadError,
    discover::{self, Admitted, Pin},
    files,
    frame::FrameKind,
    process::{self, ChildSpec},
    runner::Report,
};

/// How long a short-lived child may take.
const CHILD: Duration = Duration::from_secs(15);
/// The longest schema that is kept, in bytes.
const SCHEMA_BYTES_MAX: usize = 1024 * 1024;
/// How like a known key an unknown one must be to be taken for it.
const LIKENESS_MIN: f64 = 0.7;

/// Keys of an adapter section that belong to the host, closed for 1.x.
pub const RESERVED_KEYS: [&str; 12] = [
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

/// The JSON Schema of the adapter's own config keys in the library at `path`.
///
/// # Errors
///
/// The library may not be loaded, or does not answer.
pub async fn schema(path: &Path, settings: &AdapterSettings) -> Result<Value, LoadError> {
    schema_of(&admit(path, settings).await?, settings).await
}

/// The schema of a library that was judged already.
pub(super) async fn schema_of(admitted: &Admitted, settings: &AdapterSettings) -> Result<Value, LoadError> {
    let path = admitted.path.as_path();
    let folder = settings.home.join("run").join("schemas");
    let kept = folder.join(format!("{}.json", admitted.sha256));
    if let Some(schema) = fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        return Ok(schema);
    }
    let report = ask("--schema", path, admitted, settings).await?;
    if let Some(refused) = report.refused {
        return Err(refused);
    }
    let bad = |why: String| LoadError::BadManifest { path: path.to_owned(), why };
    if report.schema.len() > SCHEMA_BYTES_MAX {
        return Err(bad(format!("its config schema has more than {SCHEMA_BYTES_MAX} bytes")));
    }
    let schema: Value =
        serde_json::from_str(&report.schema).map_err(|error| bad(format!("its config schema is no JSON: {error}")))?;
    if let Err(error) = files::private_folder(&folder).and_then(|()| fs::write(&kept, &report.schema)) {
        // It is only asked again.
        tracing::debug!(target: "plugins", "the schema of {} is not kept: {error}", path.display());
    }
    Ok(schema)
}

async fn admit(path: &Path, settings: &AdapterSettings) -> Result<Admitted, LoadError> {
    let (path, settings) = (path.to_owned(), settings.clone());
    let place = discover::place_of(&path, &settings.search);
    let judging = tokio::task::spawn_blocking(move || discover::admit_file(&path, place, Pin::Compare, &settings));
    judging.await.expect("judging a file does not panic")
}

/// Asks one question of a library in a child.
pub(super) async fn ask(
    task: &str,
    origin: &Path,
    admitted: &Admitted,
    settings: &AdapterSettings,
) -> Result<Report, LoadError> {
    let failed = |why: String| LoadError::ProcessFailed { instance: origin.display().to_string(), why };
    let mut command = settings.runner.clone();
    command.extend([task.into(), "--framed".into()]);
    command.extend(runner_arguments(origin, &admitted.copy));
    let spec = ChildSpec { command, env: settings.child_env.clone(), stdout: false };
    let child = process::start(&spec).await.map_err(|error| failed(error.to_string()))?;
    let frame = child.ask(CHILD).await.map_err(failed)?;
    if frame.kind != FrameKind::Reply {
        return Err(failed("it answered something else".to_owned()));
    }
    serde_json::from_slice(&frame.payload).map_err(|error| failed(format!("its answer cannot be read: {error}")))
}

/// What every runner is told: who started it, which file is meant, which copy is opened.
pub(super) fn runner_arguments(origin: &Path, copy: &Path) -> Vec<std::ffi::OsString> {
    vec![
        "--parent".into(),
        std::process::id().to_string().into(),
        "--origin".into(),
        origin.as_os_str().to_owned(),
        copy.as_os_str().to_owned(),
    ]
}

/// Compares an adapter's own keys with its schema; every problem is one sentence.
pub fn problems(schema: &Value, config: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let config = match config {
        Value::Object(config) => config,
        Value::Null => &empty,
        _ => return vec!["the section must be a table".to_owned()],
    };
    let open = match schema.get("additionalProperties") {
        None => schema.get("properties").is_none(),
        Some(Value::Bool(open)) => *open,
        Some(_) => true,
    };
    let mut problems = Vec::new();
    for (key, value) in config {
        match known.get(key) {
            Some(property) => {
                if let Some(expected) = mismatch(schema, property, value) {
                    problems.push(format!("{key} must be {expected}, not {}", name_of(value)));
                }
            }
            None if open => {}
            None => problems.push(match nearest(key, known.keys().map(String::as_str)) {
                Some(near) => format!("{key} is no key of this adapter; did you mean {near}?"),
                None => format!("{key} is no key of this adapter"),
            }),
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    problems.extend(required.filter(|key| !config.contains_key(*key)).map(|key| format!("{key} is missing")));
    problems
}

/// The known key that an unknown one most resembles.
fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(key, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The host's keys that a schema uses although they are reserved.
pub(super) fn reserved(schema: &Value) -> Vec<&'static str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    RESERVED_KEYS.into_iter().filter(|key| properties.is_some_and(|known| known.contains_key(*key))).collect()
}

/// What the property wants, if the value is something else. Types only.
fn mismatch(schema: &Value, property: &Value, value: &Value) -> Option<String> {
    let wanted = types(schema, property, 0)?;
    let fits = wanted.iter().any(|wanted| is(value, wanted));
    (!fits).then(|| wanted.iter().map(|word| article(word)).collect::<Vec<_>>().join(" or "))
}

/// The types a property allows; `None`: the schema does not say, or says more than is looked at.
fn types(schema: &Value, property: &Value, depth: usize) -> Option<Vec<String>> {
    if depth > 8 {
        return None;
    }
    if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
        return types(schema, schema.pointer(reference.strip_prefix('#')?)?, depth + 1);
    }
    for any in ["anyOf", "oneOf"] {
        if let Some(cases) = property.get(any).and_then(Value::as_array) {
            let all: Option<Vec<Vec<String>>> = cases.iter().map(|case| types(schema, case, depth + 1)).collect();
            return all.map(|all| all.concat());
        }
    }
    match property.get("type")? {
        Value::String(word) => Some(vec![word.clone()]),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        _ => None,
    }
}

fn is(value: &Value, wanted: &str) -> bool {
    match wanted {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn article(word: &str) -> String {
    match word {
        "integer" => "a whole number".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "a table".to_owned(),
        "null" => "nothing".to_owned(),
        "boolean" => "true or false".to_owned(),
        other => format!("a {other}"),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "token": {"type": "string"},
                "port": {"type": ["integer", "null"]},
                "mode": {"$ref": "#/$defs/Mode"},
                "either": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/Mode"}]},
            },
            "required": ["token"],
            "$defs": {"Mode": {"type": "string", "enum": ["a", "b"]}},
        })
    }

    #[test]
    fn a_section_that_fits_has_no_problem() {
        assert!(problems(&schema(), &json!({"token": "x", "port": 3, "mode": "a", "either": true})).is_empty());
        assert!(problems(&schema(), &json!({"token": "x", "port": null, "either": "b"})).is_empty());
    }

    #[test]
    fn an_unknown_key_is_told_with_its_nearest() {
        let told = problems(&schema(), &json!({"token": "x", "prot": 1, "zzz": 1}));
        assert_eq!(told, ["prot is no key of this adapter; did you mean port?", "zzz is no key of this adapter"]);
    }

    #[test]
    fn wrong_types_and_missing_keys_are_told_all_at_once() {
        let told = problems(&schema(), &json!({"port": "x", "mode": 1, "either": 3}));
        assert_eq!(
            told,
            [
                "either must be true or false or a string, not a number",
                "mode must be a string, not a number",
                "port must be a whole number or nothing, not a string",
                "token is missing",
            ]
        );
    }

    #[test]
    fn an_open_schema_takes_any_key() {
        assert!(problems(&json!({}), &json!({"any": 1})).is_empty());
        assert!(problems(&json!({"properties": {}, "additionalProperties": true}), &json!({"any": 1})).is_empty());
        assert_eq!(problems(&json!({"properties": {}}), &json!({"any": 1})).len(), 1);
    }

    #[test]
    fn a_schema_that_points_at_itself_is_not_followed_for_ever() {
        let endless = json!({"properties": {"a": {"$ref": "#/properties/a"}}});
        assert!(problems(&endless, &json!({"a": 1})).is_empty());
    }

    #[test]
    fn the_hosts_own_keys_are_found_in_a_schema() {
        assert_eq!(reserved(&json!({"properties": {"access": {}, "token": {}}})), ["access"]);
    }
}

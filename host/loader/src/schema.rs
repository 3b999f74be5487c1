//! The schemas of the adapters' own config keys.
//!
//! A short-lived child asks the library for its schema, which is cached by the hash of the file. [`hermes_config`]
//! checks a section against it. The adapter itself parses the configuration again when it is created.

use std::{fs, path::Path};

use hermes_protocol::Manifest;
use serde_json::Value;

use super::{
    AdapterSettings, LoadError,
    discover::{self, Admitted, Pin},
    files,
    frame::{Frame, FrameKind},
    logs::Mask,
    process::{self, ChildSpec},
    runner::Report,
};
use crate::config_schema::{RESERVED, check};
use hermes_core::text::one_line;

/// The longest adapter message about its values that is shown, in characters.
const SENTENCE_CHARS_MAX: usize = 600;
/// The longest schema that is accepted, in bytes.
const SCHEMA_BYTES_MAX: usize = 1024 * 1024;
/// Returns the JSON Schema of the adapter's own config keys in the library at `path`.
///
/// # Errors
///
/// The library may not be loaded, or does not answer.
pub async fn schema(path: &Path, settings: &AdapterSettings) -> Result<Value, LoadError> {
    schema_of(&admit(path, settings).await?, settings).await
}

/// Returns the schema of a library that was admitted. A library whose manifest contradicts its schema is refused.
pub(super) async fn schema_of(admitted: &Admitted, settings: &AdapterSettings) -> Result<Value, LoadError> {
    let schema = asked_or_kept(admitted, settings).await?;
    own_keys(&admitted.path, &schema)?;
    named_keys(&admitted.path, &admitted.manifest, &schema)?;
    Ok(schema)
}

async fn asked_or_kept(admitted: &Admitted, settings: &AdapterSettings) -> Result<Value, LoadError> {
    let path = admitted.path.as_path();
    let folder = settings.home.join("run").join("schemas");
    let kept = folder.join(format!("{}.json", admitted.sha256));
    if let Some(schema) = fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        return Ok(schema);
    }
    let report = ask("--schema", None, path, admitted, settings).await?;
    if let Some(refused) = report.refused {
        return Err(refused);
    }
    let bad = |why: String| LoadError::BadManifest { path: path.to_owned(), why };
    if report.schema.len() > SCHEMA_BYTES_MAX {
        return Err(bad(format!("its config schema is larger than {SCHEMA_BYTES_MAX} bytes")));
    }
    let schema: Value =
        serde_json::from_str(&report.schema).map_err(|error| bad(format!("its config schema is not JSON: {error}")))?;
    if let Err(error) = files::private_folder(&folder).and_then(|()| fs::write(&kept, &report.schema)) {
        // The next call asks the library again.
        tracing::debug!(target: "plugins", "the schema of {} cannot be cached: {error}", path.display());
    }
    Ok(schema)
}

/// The adapter's verdict on the values of one of its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// No error.
    Right,
    /// One sentence about the error, without secrets.
    Wrong(String),
    /// The library is too old for this question: it checks the values when it is created.
    CannotBeAsked,
}

/// Asks the library at `path` to check the values of a section, in a child that creates no instance. `secrets` are
/// masked in the verdict.
///
/// # Errors
///
/// The library may not be loaded, or does not answer.
pub async fn judge(
    path: &Path,
    config: &Value,
    secrets: &[String],
    settings: &AdapterSettings,
) -> Result<Judgement, LoadError> {
    let admitted = admit(path, settings).await?;
    if let Err(error @ LoadError::BadManifest { .. }) = schema_of(&admitted, settings).await {
        return Err(error);
    }
    let question = Frame::call(1, "check_config", config.to_string().into_bytes());
    if !question.fits() {
        let why = "the section is too large for a frame; make it smaller".to_owned();
        return Err(LoadError::ProcessFailed { instance: path.display().to_string(), why });
    }
    let report = ask("--values", Some(question), &admitted.path, &admitted, settings).await?;
    match report {
        Report { refused: Some(refused), .. } => Err(refused),
        Report { judges: false, .. } => Ok(Judgement::CannotBeAsked),
        Report { wrong, .. } if wrong.is_empty() => Ok(Judgement::Right),
        Report { wrong, .. } => Ok(Judgement::Wrong(one_line(&Mask::new(secrets).apply(&wrong), SENTENCE_CHARS_MAX))),
    }
}

async fn admit(path: &Path, settings: &AdapterSettings) -> Result<Admitted, LoadError> {
    let (path, settings) = (path.to_owned(), settings.clone());
    let place = discover::place_of(&path, &settings.search);
    let judging = tokio::task::spawn_blocking(move || discover::admit_file(&path, place, Pin::Accepted, &settings));
    judging.await.expect("judging a file does not panic")
}

/// Asks a library one question in a child.
pub(super) async fn ask(
    task: &str,
    question: Option<Frame>,
    origin: &Path,
    admitted: &Admitted,
    settings: &AdapterSettings,
) -> Result<Report, LoadError> {
    let failed = |why: String| LoadError::ProcessFailed { instance: origin.display().to_string(), why };
    let mut command = settings.runner.clone();
    command.extend([task.into(), "--framed".into()]);
    if settings.confine {
        command.extend(settings.ground().asking(&admitted.copy).arguments());
    }
    command.extend(runner_arguments(origin, &admitted.copy));
    let spec = ChildSpec { command, env: settings.child_env.clone(), folder: None };
    let child = process::start(&spec).await.map_err(|error| failed(error.to_string()))?;
    // From here on a failure counts as the library's.
    let failed = |why: String| LoadError::ProbeFailed { path: origin.to_owned(), why };
    let frame = child.ask(question, settings.probe).await.map_err(failed)?;
    if frame.kind != FrameKind::Reply {
        return Err(failed("the answer has the wrong type".to_owned()));
    }
    serde_json::from_slice(&frame.payload).map_err(|error| failed(format!("the answer cannot be read: {error}")))
}

/// Returns the arguments of every runner: the host's process id, the original file, the copy to open.
pub(super) fn runner_arguments(origin: &Path, copy: &Path) -> Vec<std::ffi::OsString> {
    let mut arguments = parent().to_vec();
    arguments.extend(["--origin".into(), origin.as_os_str().to_owned(), copy.as_os_str().to_owned()]);
    arguments
}

/// Returns the arguments that name the parent process of a runner.
pub(super) fn parent() -> [std::ffi::OsString; 2] {
    ["--parent".into(), std::process::id().to_string().into()]
}

/// Checks an adapter's own keys against the schema. Returns one sentence per problem.
pub(super) fn problems(schema: &Value, config: &Value) -> Vec<String> {
    let nothing = Value::Object(serde_json::Map::new());
    let config = if config.is_null() { &nothing } else { config };
    check(schema, config, RESERVED).iter().map(ToString::to_string).collect()
}

/// Refuses a schema that defines keys of the host.
pub(super) fn own_keys(path: &Path, schema: &Value) -> Result<(), LoadError> {
    let reserved = reserved(schema);
    if reserved.is_empty() {
        return Ok(());
    }
    let why = format!("its config schema uses reserved keys of the host: {}", reserved.join(", "));
    Err(LoadError::BadManifest { path: path.to_owned(), why })
}

/// Refuses a manifest that names keys which are missing in the schema.
pub(super) fn named_keys(path: &Path, manifest: &Manifest, schema: &Value) -> Result<(), LoadError> {
    let astray = astray(manifest, schema);
    if astray.is_empty() {
        return Ok(());
    }
    let keys = astray.join(", ");
    let why = format!(
        "it names keys that its config schema does not have: {keys}; a secret under another key would not be masked"
    );
    Err(LoadError::BadManifest { path: path.to_owned(), why })
}

/// Returns the keys that the manifest names and the schema lacks. A secret under an unnamed key would be shown
/// unmasked.
fn astray(manifest: &Manifest, schema: &Value) -> Vec<String> {
    if ["oneOf", "anyOf", "allOf", "$ref"].iter().any(|word| schema.get(word).is_some()) {
        // Not a plain struct: the set of keys depends on the values.
        return Vec::new();
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| !is_open(schema)) else {
        // The schema does not list its keys.
        return Vec::new();
    };
    let is_missing = |key: &str| {
        let first = key.split('.').next().unwrap_or_default();
        !properties.contains_key(first)
    };
    let secrets = manifest.secrets.iter().map(|key| ("secrets", key));
    // Variables may also belong to keys of the host: reserved keys and nested ones.
    let own = |key: &str| !RESERVED.contains(&key) && !key.contains('.');
    let variables = manifest.env.iter().map(|name| ("env", &name.key)).filter(|(_, key)| own(key));
    let missing = secrets.chain(variables).filter(|(_, key)| is_missing(key));
    missing.map(|(list, key)| format!("`{key}` in `{list}`")).collect()
}

/// Returns `true` if a schema accepts keys that it does not name.
fn is_open(schema: &Value) -> bool {
    schema.get("additionalProperties").is_some_and(|others| *others != Value::Bool(false))
}

/// Returns the reserved keys of the host that a schema defines.
fn reserved(schema: &Value) -> Vec<&'static str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    RESERVED.iter().copied().filter(|key| properties.is_some_and(|known| known.contains_key(*key))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_problem_of_a_section_is_one_sentence() {
        let schema = json!({
            "type": "object",
            "properties": {"token": {"type": "string"}, "port": {"type": ["integer", "null"]}},
            "required": ["token"],
        });
        assert!(problems(&schema, &json!({"token": "x", "port": null})).is_empty());
        assert_eq!(problems(&schema, &Value::Null), ["requires the key `token`"]);
        let told = problems(&schema, &json!({"prot": 1, "port": "x", "token": "x"}));
        assert_eq!(told, ["prot: unknown key; did you mean port?", "port: must be an integer, not a string"]);
    }

    #[test]
    fn a_schema_that_points_at_itself_is_not_followed_for_ever() {
        let endless = json!({"properties": {"a": {"$ref": "#/properties/a"}}});
        assert!(problems(&endless, &json!({"a": 1})).is_empty());
    }

    #[test]
    fn a_secret_that_the_schema_does_not_have_is_found() {
        let manifest: Manifest = serde_json::from_value(json!({
            "schema": 1, "id": "a", "label": "A", "version": "1.0.0", "sdk": "1.0.0", "abi": 1,
            "secrets": ["token", "deep.key", "tokne"],
            "env": [
                {"name": "T", "key": "token"}, {"name": "H", "key": "home_channel"}, {"name": "P", "key": "prot"},
                {"name": "A", "key": "access.allow_all"},
            ],
        }))
        .unwrap();
        let schema = json!({"properties": {"token": {}, "deep": {}, "port": {}}});
        assert_eq!(astray(&manifest, &schema), ["`tokne` in `secrets`", "`prot` in `env`"]);
        assert!(astray(&manifest, &json!({"oneOf": []})).is_empty());
    }

    #[test]
    fn a_library_whose_secret_is_no_key_is_refused_in_one_sentence() {
        let manifest: Manifest = serde_json::from_value(json!({
            "schema": 1, "id": "a", "label": "A", "version": "1.0.0", "sdk": "1.0.0", "abi": 1, "secrets": ["tokn"],
        }))
        .unwrap();
        let path = Path::new("/p/a.so");
        let refused = named_keys(path, &manifest, &json!({"properties": {"token": {}}})).unwrap_err();
        assert_eq!(refused.code(), "bad_manifest");
        assert!(refused.to_string().contains("`tokn` in `secrets`"), "{refused}");
        named_keys(path, &manifest, &json!({"properties": {"tokn": {}}})).unwrap();
        assert_eq!(own_keys(path, &json!({"properties": {"access": {}}})).unwrap_err().code(), "bad_manifest");
    }

    #[test]
    fn the_hosts_own_keys_are_found_in_a_schema() {
        assert_eq!(reserved(&json!({"properties": {"access": {}, "token": {}}})), ["access"]);
    }
}

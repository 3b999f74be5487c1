//! `adapter check FILE`: every step before a library may run, one line each.

use std::path::Path;

use serde::Serialize;

use super::{
    AdapterSettings, LoadError, Place, PluginsLock, discover,
    discover::{Admitted, Pin},
    elf, files, schema,
};

/// One step and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckLine {
    /// The step: `file`, `elf`, `versions`, `pin`, `load`, `schema`, `secrets`, `values`.
    pub name: &'static str,
    /// `true` if the library passed the step.
    pub ok: bool,
    /// The result in one sentence.
    pub sentence: String,
    /// The stable code of a refusal, or `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
}

impl CheckLine {
    fn passed(name: &'static str, sentence: impl Into<String>) -> Self {
        Self { name, ok: true, sentence: sentence.into(), code: None }
    }

    fn refused(name: &'static str, error: &LoadError) -> Self {
        Self { name, ok: false, sentence: error.to_string(), code: Some(error.code()) }
    }
}

/// Checks one file up to the first refusal. Its code runs only in a child process.
pub async fn check(path: &Path, settings: &AdapterSettings) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    if let Err(error) = checked(path, settings, &mut lines).await {
        let name = match error.code() {
            "older_major" | "newer_major" | "newer_minor" | "requires_host" => "versions",
            "dlopen" | "no_root_symbol" | "wrong_header" | "layout_mismatch" | "manifest_differs"
            | "process_failed" | "probe_failed" => "load",
            _ => ["file", "elf", "versions", "pin", "load", "schema"].get(lines.len()).copied().unwrap_or("secrets"),
        };
        lines.push(CheckLine::refused(name, &error));
    }
    lines
}

/// Returns the first refusal that does not depend on the accepted hash, in one sentence.
pub async fn refusal(path: &Path, settings: &AdapterSettings) -> Option<String> {
    let lines = check(path, settings).await;
    lines.into_iter().find(|line| !line.ok && line.name != "pin").map(|line| line.sentence)
}

/// Compares the bytes with the accepted hash. The check continues in any case, so that an operator can check a file
/// before accepting it.
fn pin(path: &Path, place: Place, admitted: &Admitted, settings: &AdapterSettings) -> Result<CheckLine, LoadError> {
    if place == Place::Beside {
        return Ok(CheckLine::passed("pin", "the library is next to the binary and is trusted"));
    }
    let lock = PluginsLock::read(&settings.home)?;
    Ok(match lock.get(&admitted.manifest.id) {
        None => CheckLine::passed(
            "pin",
            "the library is not accepted yet: `adapter add`, or a start with its section, accepts it",
        ),
        Some(accepted) if accepted.sha256 == admitted.sha256 => CheckLine::passed(
            "pin",
            format!("the library was accepted by {} at {}", accepted.accepted_by, accepted.accepted_at),
        ),
        Some(accepted) => CheckLine::refused(
            "pin",
            &LoadError::Changed {
                path: path.to_owned(),
                accepted: accepted.sha256.clone(),
                found: admitted.sha256.clone(),
            },
        ),
    })
}

async fn checked(path: &Path, settings: &AdapterSettings, lines: &mut Vec<CheckLine>) -> Result<(), LoadError> {
    files::judge(path)?;
    lines.push(CheckLine::passed("file", "a regular file that no other user can write"));
    let described = elf::read(path)?;
    let manifest = &described.manifest;
    lines.push(CheckLine::passed(
        "elf",
        format!("adapter \"{}\" ({}), version {}", manifest.id, manifest.label, manifest.version),
    ));
    let versions =
        format!("SDK {} is compatible with the SDK {} of this host", manifest.sdk, hermes_adapter_abi::SDK_VERSION);
    lines.push(CheckLine::passed("versions", described.warning.unwrap_or(versions)));
    let place = discover::place_of(path, &settings.search);
    let (file, judging) = (path.to_owned(), settings.clone());
    let admitted = tokio::task::spawn_blocking(move || discover::admit_file(&file, place, Pin::Ignore, &judging));
    let admitted = admitted.await.expect("judging a file does not panic")?;
    lines.push(pin(path, place, &admitted, settings)?);
    let report = schema::ask("--check", None, path, &admitted, settings).await?;
    if let Some(refused) = report.refused {
        return Err(refused);
    }
    lines.push(CheckLine::passed("load", "the library loads in a child process; its ABI layout and manifest match"));
    let bad = |why: String| LoadError::BadManifest { path: path.to_owned(), why };
    let keys: serde_json::Value =
        serde_json::from_str(&report.schema).map_err(|error| bad(format!("its config schema is not JSON: {error}")))?;
    schema::own_keys(path, &keys)?;
    lines.push(CheckLine::passed("schema", "no config key conflicts with a key of the host"));
    schema::named_keys(path, manifest, &keys)?;
    lines.push(CheckLine::passed("secrets", "all secrets and variables are keys of the configuration"));
    let values = match report.judges {
        true => "`config check` can check the values of its section",
        false => {
            "the values of its section are checked only at its start, because its SDK is too old for `config check`"
        }
    };
    lines.push(CheckLine::passed("values", values));
    Ok(())
}

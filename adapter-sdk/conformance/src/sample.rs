//! `testdata/certify.toml`: the sample configuration that an adapter provides for its certification.

use std::path::{Path, PathBuf};

use hermes_protocol::Manifest;
use serde_json::{Map, Value};

use crate::stage::{StageError, StageProgram};

/// The maximum size of the file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// A sample configuration, and the program that simulates the platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// `[config]`.
    pub config: Value,
    /// `stage`; empty if there is none.
    pub stage: Vec<String>,
    /// The working folder of the stage: the folder of the file.
    pub folder: PathBuf,
    /// `unix_sockets`: the adapter needs Unix sockets, which the sandbox blocks by default.
    pub unix_sockets: bool,
}

impl Sample {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// One sentence for the author of the adapter.
    pub fn read(path: &Path) -> Result<Self, String> {
        let meta = std::fs::metadata(path).map_err(|error| format!("{} cannot be read ({error})", path.display()))?;
        // Opening a named pipe would block.
        if !meta.is_file() {
            return Err(format!("{} is not a regular file; a sample must be one", path.display()));
        }
        let size = meta.len();
        if size > BYTES_MAX {
            return Err(format!("{} has {size} bytes, which is too large for a sample", path.display()));
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read ({error})", path.display()))?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("."))).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut table: Map<String, Value> = toml::from_str(text).map_err(|error| error.to_string())?;
        let config = table.remove("config").unwrap_or_else(|| Value::Object(Map::new()));
        let stage = match table.remove("stage") {
            None => Vec::new(),
            Some(stage) => serde_json::from_value(stage)
                .map_err(|_| "`stage` must be a list of strings: the program and its arguments".to_owned())?,
        };
        let unix_sockets = match table.remove("unix_sockets") {
            None => false,
            Some(needed) => needed.as_bool().ok_or("`unix_sockets` must be true or false")?,
        };
        match table.keys().next() {
            Some(key) => Err(format!("unknown key `{key}`; valid keys are `stage`, `unix_sockets` and `[config]`")),
            None => Ok(Self { config, stage, folder: folder.to_owned(), unix_sockets }),
        }
    }

    /// Starts the stage. Returns the stage and the configuration that connects to it, or `None` if
    /// there is no stage.
    ///
    /// # Errors
    ///
    /// If the stage does not start.
    pub fn staged(&self) -> Result<Option<(StageProgram, Value)>, StageError> {
        if self.stage.is_empty() {
            return Ok(None);
        }
        let (stage, keys) = StageProgram::start(&self.stage, &self.folder)?;
        let mut config = self.config.as_object().cloned().unwrap_or_default();
        config.extend(keys);
        Ok(Some((stage, Value::Object(config))))
    }
}

/// Returns the secret values of a configuration, which must not appear in any output.
pub fn secrets(manifest: &Manifest, config: &Value) -> Vec<String> {
    let value = |key: &String| key.split('.').try_fold(config, |at, part| at.get(part))?.as_str().map(str::to_owned);
    manifest.secrets.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sample_is_a_configuration_and_perhaps_a_stage() {
        let sample = |text: &str| Sample::parse(text, Path::new("/x"));
        let whole = sample("stage = [\"python3\", \"stage.py\"]\n[config]\ntoken = \"t\"").unwrap();
        assert_eq!(
            (whole.config, whole.stage),
            (json!({ "token": "t" }), vec!["python3".to_owned(), "stage.py".to_owned()])
        );
        assert_eq!(
            sample("").unwrap(),
            Sample { config: json!({}), stage: Vec::new(), folder: "/x".into(), unix_sockets: false }
        );
        assert!(sample("stage = \"stage.py\"").unwrap_err().contains("list of strings"));
        assert!(sample("stages = []").unwrap_err().contains("unknown key `stages`"));
        assert!(sample("unix_sockets = true").unwrap().unix_sockets);
        assert!(sample("unix_sockets = 1").unwrap_err().contains("true or false"));
    }

    #[test]
    fn secrets_are_found_where_the_manifest_names_them() {
        let manifest = json!({
            "schema": 1, "id": "x", "label": "X", "version": "1.0.0", "sdk": "1.0.0", "abi": 1, "secrets": ["token", "hook.key", "gone"],
        });
        let manifest: Manifest = serde_json::from_value(manifest).unwrap();
        assert_eq!(secrets(&manifest, &json!({ "token": "a", "hook": { "key": "b" }, "name": "c" })), ["a", "b"]);
    }
}

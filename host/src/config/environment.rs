//! The variables: those of the process, and those of `.env` in the home folder.
//!
//! The process environment is read once, in `main`, and handed in; nothing here
//! asks the system. Values never show in `Debug`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::problem::{Problems, Source, Warning};
use super::tree::At;

/// The largest `.env` file, secret file and configuration file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Variables by name; the process wins over `.env`.
#[derive(Clone, Default)]
pub struct Environment {
    process: BTreeMap<String, String>,
    dot_env: BTreeMap<String, String>,
    /// Whether there is a `.env` that was not read.
    unread: bool,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} + {} variables)", self.process.len(), self.dot_env.len())
    }
}

impl Environment {
    /// The variables of the process and what `home/.env` adds.
    pub fn new(
        process: BTreeMap<String, String>,
        home: &Path,
        problems: &mut Problems,
        warnings: &mut Vec<Warning>,
    ) -> Self {
        let path = home.join(".env");
        let read = read_dot_env(&path, problems);
        let unread = read.is_none();
        let dot_env = read.unwrap_or_default();
        for (name, value) in &dot_env {
            if process.get(name).is_some_and(|other| !other.is_empty() && other != value) {
                warnings.push(Warning {
                    source: Source::DotEnv(name.clone()),
                    key: String::new(),
                    sentence: "the process environment has another value, which wins; remove one of them".to_owned(),
                });
            }
        }
        Self { process, dot_env, unread }
    }

    /// Whether there is a `.env` that was not read, so that nobody knows what it sets.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// The value of a variable and where it came from. An empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<(&str, Source)> {
        if let Some(value) = self.process.get(name).filter(|value| !value.is_empty()) {
            return Some((value, Source::Env(name.to_owned())));
        }
        let value = self.dot_env.get(name).filter(|value| !value.is_empty())?;
        Some((value, Source::DotEnv(name.to_owned())))
    }
}

/// `None`: it is there and is not read; a problem says why.
fn read_dot_env(path: &Path, problems: &mut Problems) -> Option<BTreeMap<String, String>> {
    let source = |at| Source::File { path: path.to_owned(), at };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(BTreeMap::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let home = path.parent().unwrap_or(path).to_owned();
            let sentence = "is no folder, so it cannot be the home; choose another one with --home";
            problems.push(Source::File { path: home, at: None }, "", sentence);
            return None;
        }
        Err(error) => {
            problems.push(source(None), "", format!("cannot be read ({error})"));
            return None;
        }
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
            problems.push(
                source(None),
                "",
                format!(
                    "others may read it (mode {:04o}); run `chmod 600 {}`",
                    meta.permissions().mode() & 0o7777,
                    path.display()
                ),
            );
            return None;
        }
        Ok(_) => {}
    }
    match read_bounded(path) {
        Ok(text) => Some(parse_dot_env(&text, path, problems)),
        Err(why) => {
            problems.push(source(None), "", why);
            None
        }
    }
}

fn parse_dot_env(text: &str, path: &Path, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let pair = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        match pair {
            Some((name, value)) if is_variable_name(name) => {
                variables.insert(name.to_owned(), unquote(value).to_owned());
            }
            _ => problems.push(
                Source::File { path: path.to_owned(), at: Some(At { line: n + 1, column: 1 }) },
                "",
                "is not `NAME=value`",
            ),
        }
    }
    variables
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Takes away quotes, or else a comment after the value.
fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote)
            && let Some(end) = inner.find(quote)
        {
            return &inner[..end];
        }
    }
    value.split_once(" #").map_or(value, |(value, _)| value.trim_end())
}

/// Reads a small text file, or says in a few words why not.
pub fn read_bounded(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read ({error})"))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| format!("cannot be read ({error})"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

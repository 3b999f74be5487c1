//! The environment variables: those of the process, and those of `.env` in the home folder.
//!
//! `main` reads the process environment once and passes it in; this module never asks the system. `Debug` shows no
//! values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::problem::{Problems, Source, Warning};
use super::tree::At;

/// The largest `.env` file, secret file and configuration file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Variables by name. The process environment overrides `.env`.
#[derive(Clone, Default)]
pub struct Environment {
    process: BTreeMap<String, String>,
    dot_env: BTreeMap<String, String>,
    /// `true` if a `.env` exists but was not read.
    unread: bool,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} + {} variables)", self.process.len(), self.dot_env.len())
    }
}

impl Environment {
    /// Combines the variables of the process with those of `home/.env`.
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
                    sentence: "the process environment has a different value and takes precedence; remove one of \
                               them"
                        .to_owned(),
                });
            }
        }
        Self { process, dot_env, unread }
    }

    /// Returns `true` if a `.env` exists but was not read, so its variables are unknown.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// Returns the names of all variables that have a value.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all: BTreeSet<&String> = self.process.keys().chain(self.dot_env.keys()).collect();
        all.into_iter().map(String::as_str).filter(move |name| self.get(name).is_some())
    }

    /// Returns the value of a variable and its source. An empty value counts as unset.
    pub fn get(&self, name: &str) -> Option<(&str, Source)> {
        if let Some(value) = self.process.get(name).filter(|value| !value.is_empty()) {
            return Some((value, Source::Env(name.to_owned())));
        }
        let value = self.dot_env.get(name).filter(|value| !value.is_empty())?;
        Some((value, Source::DotEnv(name.to_owned())))
    }
}

/// Reads a `.env`; a missing file is empty. `None`: the file exists but was not read, and a problem gives the reason.
fn read_dot_env(path: &Path, problems: &mut Problems) -> Option<BTreeMap<String, String>> {
    let source = |at| Source::File { path: path.to_owned(), at };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(BTreeMap::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let home = path.parent().unwrap_or(path).to_owned();
            let sentence = "is not a folder, so it cannot be the home folder; choose another one with --home";
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
                    "other users can read it (mode {:04o}); run `chmod 600 {}`",
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

/// Removes quotes, or otherwise a comment after the value.
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

/// Reads a small text file, or returns the reason in a few words. Editors on Windows put a byte order mark before the
/// text, and some write UTF-16: both are read.
pub fn read_bounded(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read ({error})");
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    decoded(&bytes).ok_or_else(|| "is not UTF-8 text; save it as UTF-8".to_owned())
}

/// Returns the text of a file in UTF-8, or in UTF-16 with a byte order mark.
fn decoded(bytes: &[u8]) -> Option<String> {
    let utf16 = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, left) = rest.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16(&units).ok().filter(|_| left.is_empty())
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(decoded(b"A=1").as_deref(), Some("A=1"));
        assert_eq!(decoded(b"\xef\xbb\xbfA=1\r\n").as_deref(), Some("A=1\r\n"));
        assert_eq!(decoded(b"\xff\xfeA\0=\x001\0").as_deref(), Some("A=1"));
        assert_eq!(decoded(b"\xfe\xff\0A\0=\x001").as_deref(), Some("A=1"));
        for wrong in [&b"\xff"[..], b"\xff\xfeA", b"\xff\xfe\0\xd8", b"\xef\xbb\xbf\xff"] {
            assert_eq!(decoded(wrong), None, "{wrong:?}");
        }
    }
}

//! The check of a parsed file against the table of keys, which collects every problem.
//!
//! After it the values have the type of their key. A missing or invalid value is replaced by the default when it is
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::environment::{Environment, read_bounded};
use super::keys::{Key, Kind, RETIRED, find};
use super::problem::{Problem, Problems, Source, Warning};
use super::tree::{At, Node, Value, parse};
use hermes_core::nearest::nearest;

/// A checked value and its source.
#[derive(Clone, PartialEq)]
pub struct Found {
    /// The value, in the type of the key. A secret is its resolved text.
    pub value: Value,
    /// The source of the value.
    pub source: Source,
}

/// Checked values by the path of their key. Some are secrets, so `Debug` shows none.
#[derive(Clone, Default)]
pub struct Values(BTreeMap<&'static str, Found>);

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Values({})", self.0.keys().copied().collect::<Vec<_>>().join(", "))
    }
}

/// The inputs and findings of reading a file.
pub struct Reader<'a> {
    /// The file that is read.
    pub file: &'a Path,
    /// The variables.
    pub env: &'a Environment,
    /// `true` if the file may contain literal secrets, because only its owner can read it.
    pub literal_secrets: bool,
    /// Files from which secrets were read.
    pub secret_files: Vec<PathBuf>,
    /// Variables that the file names.
    pub named: BTreeSet<String>,
    /// The problems.
    pub problems: Problems,
    /// The warnings.
    pub warnings: Vec<Warning>,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `file` without findings.
    pub fn new(file: &'a Path, env: &'a Environment) -> Self {
        let literal_secrets = std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0);
        Self {
            file,
            env,
            literal_secrets,
            secret_files: Vec::new(),
            named: BTreeSet::new(),
            problems: Problems::default(),
            warnings: Vec::new(),
        }
    }

    /// Returns the source of a value at `at`.
    pub fn at(&self, at: At) -> Source {
        Source::File { path: self.file.to_owned(), at: Some(at) }
    }

    /// Records a problem at `at`.
    pub fn problem(&mut self, at: At, key: &str, sentence: impl Into<String>) {
        let source = self.at(at);
        self.problems.push(source, key, sentence);
    }

    /// Records an unknown key, and the key that was probably meant.
    pub fn unknown(&mut self, at: At, key: &str, nearest: Option<String>) {
        let source = self.at(at);
        self.problems.0.push(Problem { source, key: key.to_owned(), sentence: "unknown key".to_owned(), nearest });
    }

    /// Checks `table`. Its keys are `<path>.<key>` in `keys` and `<shown>.<key>` in messages.
    pub fn table(
        &mut self,
        table: &BTreeMap<String, Node>,
        path: &str,
        shown: &str,
        keys: &[&'static Key],
        values: &mut Values,
    ) {
        for (name, node) in table {
            let full = join(path, name);
            let shown_full = join(shown, name);
            self.entry(node, &full, &shown_full, keys, values, table);
        }
    }

    fn entry(
        &mut self,
        node: &Node,
        path: &str,
        shown: &str,
        keys: &[&'static Key],
        values: &mut Values,
        siblings: &BTreeMap<String, Node>,
    ) {
        if let Some(key) = find(keys.iter().copied(), path) {
            if let Some(value) = self.check(key.kind, node, shown) {
                values.0.insert(key.path, Found { value, source: self.at(node.at) });
            }
            return;
        }
        let prefix = format!("{path}.");
        if keys.iter().any(|key| key.path.starts_with(&prefix)) {
            match &node.value {
                Value::Table(table) => self.table(table, path, shown, keys, values),
                other => self.problem(node.at, shown, format!("must be a table, not {}", other.type_name())),
            }
            return;
        }
        if let Some((_, current)) = RETIRED.iter().find(|(retired, _)| *retired == path) {
            self.retired(node, shown, current, keys, values, siblings);
            return;
        }
        let meant = nearest_key(path, keys).map(|meant| match shown.strip_suffix(path) {
            Some(lead) => format!("{lead}{meant}"),
            None => meant.to_owned(),
        });
        self.unknown(node.at, shown, meant);
    }

    fn retired(
        &mut self,
        node: &Node,
        shown: &str,
        current: &'static str,
        keys: &[&'static Key],
        values: &mut Values,
        siblings: &BTreeMap<String, Node>,
    ) {
        let leaf = current.rsplit('.').next().unwrap_or(current);
        if siblings.contains_key(leaf) {
            self.problem(
                node.at,
                shown,
                format!("is the retired name of `{current}`, which is also set; remove this key"),
            );
            return;
        }
        self.warnings.push(Warning {
            source: self.at(node.at),
            key: shown.to_owned(),
            sentence: format!("is retired; use `{current}` instead"),
        });
        if let Some(key) = find(keys.iter().copied(), current)
            && let Some(value) = self.check(key.kind, node, shown)
        {
            values.0.insert(key.path, Found { value, source: self.at(node.at) });
        }
    }

    /// Returns the value if it has this type, otherwise records a problem.
    fn check(&mut self, kind: Kind, node: &Node, shown: &str) -> Option<Value> {
        match check_kind(kind, &node.value) {
            Ok(()) if kind == Kind::Secret => self.secret(node, shown).map(Value::String),
            Ok(()) if kind == Kind::Proxy => self.proxy(node, shown).map(Value::String),
            Ok(()) => Some(node.value.clone()),
            Err(sentence) => {
                self.problem(node.at, shown, sentence);
                None
            }
        }
    }

    /// Resolves a reference to a secret. A literal is accepted only if nobody else can read the file.
    pub fn secret(&mut self, node: &Node, shown: &str) -> Option<String> {
        match &node.value {
            Value::String(literal) if self.literal_secrets => Some(literal.clone()),
            Value::String(_) => {
                let file = self.file.display();
                self.problem(
                    node.at,
                    shown,
                    format!(
                        "a secret is written in a file that other users can read; write {{ env = \"NAME\" }} or {{ \
                         file = \"path\" }}, or run `chmod 600 {file}`"
                    ),
                );
                None
            }
            other => match reference(other) {
                Some(reference) => self.resolve(reference, node.at, shown),
                None => {
                    self.problem(node.at, shown, SECRET_SHAPE);
                    None
                }
            },
        }
    }

    /// Resolves a proxy. A text without a password is accepted in any file.
    fn proxy(&mut self, node: &Node, shown: &str) -> Option<String> {
        let text = match &node.value {
            Value::String(text) if hermes_adapter_net::proxy::credentials(text).is_empty() => text.clone(),
            _ => self.secret(node, shown)?,
        };
        match super::proxies::check(&text) {
            Ok(()) => Some(text),
            Err(sentence) => {
                self.problem(node.at, shown, sentence);
                None
            }
        }
    }

    /// Resolves the target of a reference.
    pub fn resolve(&mut self, reference: Reference<'_>, at: At, shown: &str) -> Option<String> {
        if let Reference::Env(name) = reference {
            self.named.insert(name.to_owned());
        }
        match reference {
            Reference::Env(name) => match self.env.get(name) {
                Some((value, _)) => Some(value.to_owned()),
                None if self.env.is_unread() => {
                    let words = format!("the variable {name} is not set, and .env in the home folder was not read");
                    self.problem(at, shown, words);
                    None
                }
                None => {
                    self.problem(
                        at,
                        shown,
                        format!("the variable {name} is not set; set it, or add it to .env in the home folder"),
                    );
                    None
                }
            },
            Reference::File(path) => {
                let path = relative_to(self.file, path);
                match read_bounded(&path) {
                    Ok(text) if text.trim().is_empty() => {
                        self.problem(at, shown, format!("{} is empty", path.display()));
                        None
                    }
                    Ok(text) => {
                        if std::fs::metadata(&path).is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0) {
                            self.warnings.push(Warning {
                                source: self.at(at),
                                key: shown.to_owned(),
                                sentence: format!("every user can read {0}; run `chmod 600 {0}`", path.display()),
                            });
                        }
                        Some(text.trim_end_matches(['\r', '\n']).to_owned())
                    }
                    Err(why) => {
                        self.problem(at, shown, format!("{} {why}", path.display()));
                        None
                    }
                }
            }
        }
    }
}

const SECRET_SHAPE: &str = "must be { env = \"NAME\" } or { file = \"path\" }";

/// The place of a secret.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'a> {
    /// A variable.
    Env(&'a str),
    /// A file.
    File(&'a str),
}

/// Reads `{ env = "NAME" }` or `{ file = "path" }`.
pub fn reference(value: &Value) -> Option<Reference<'_>> {
    let Value::Table(table) = value else { return None };
    let (name, node) = table.iter().next().filter(|_| table.len() == 1)?;
    match (name.as_str(), &node.value) {
        ("env", Value::String(variable)) => Some(Reference::Env(variable)),
        ("file", Value::String(path)) => Some(Reference::File(path)),
        _ => None,
    }
}

/// Resolves `path` relative to the folder of `file`.
pub fn relative_to(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}

/// Checks the type and range of `value`. The error is a sentence.
fn check_kind(kind: Kind, value: &Value) -> Result<(), String> {
    let wrong = |wanted: &str| Err(format!("must be {wanted}, not {}", value.type_name()));
    match (kind, value) {
        (Kind::Text | Kind::Path, Value::String(text)) if text.is_empty() => Err("must not be empty".to_owned()),
        (Kind::Text | Kind::Path, Value::String(_)) | (Kind::Bool, Value::Boolean(_)) => Ok(()),
        (Kind::Text | Kind::Path, _) => wrong("a string"),
        (Kind::Bool, _) => wrong("a boolean"),
        (Kind::Int { min, max }, Value::Integer(n)) if (min..=max).contains(n) => Ok(()),
        (Kind::Int { min, max }, Value::Integer(n)) => Err(format!("must be between {min} and {max}, not {n}")),
        (Kind::Int { .. }, _) => wrong("an integer"),
        (Kind::Word(words), Value::String(word)) => check_word(words, word),
        (Kind::Word(_), _) => wrong("a string"),
        (Kind::List | Kind::Paths, Value::Array(items)) => strings(items).map(|_| ()),
        (Kind::Words(words), Value::Array(items)) => {
            strings(items)?.iter().try_for_each(|word| check_word(words, word))
        }
        (Kind::List | Kind::Paths | Kind::Words(_), _) => wrong("a list of strings"),
        (Kind::QualifiedIds, Value::Array(items)) => strings(items)?.iter().try_for_each(|id| check_qualified(id)),
        (Kind::QualifiedIds, _) => wrong("a list of strings"),
        // The shape of a secret is checked when it is resolved.
        (Kind::Secret, Value::String(_) | Value::Table(_)) => Ok(()),
        (Kind::Secret, other) => Err(format!("{SECRET_SHAPE}, not {}", other.type_name())),
        (Kind::Texts, Value::Table(table)) => table.iter().try_for_each(|(name, node)| check_text(name, &node.value)),
        (Kind::Texts, _) => wrong("a table of named strings"),
        (Kind::Listen, Value::String(address)) => check_listen(address),
        (Kind::Listen, _) => wrong("a string such as \"127.0.0.1:8640\""),
        (Kind::Url, Value::String(url)) => check_url(url),
        (Kind::Url, _) => wrong("a string such as \"https://api.example/v1\""),
        // Like that of a secret, its shape is checked when it is resolved.
        (Kind::Proxy, Value::String(_) | Value::Table(_)) => Ok(()),
        (Kind::Proxy, _) => wrong("a string such as \"http://127.0.0.1:3128\""),
        (Kind::Chat, value) => check_chat(value),
    }
}

fn check_word(words: &[&str], word: &str) -> Result<(), String> {
    if words.contains(&word) {
        return Ok(());
    }
    if words.contains(&"echo") && ["acp", "sse"].contains(&word) {
        return Err(format!("\"{word}\" does not exist in this version, only {} do", quoted(words)));
    }
    if words == ["main"] {
        return Err("profiles do not exist in this version, only \"main\" does; remove the key".to_owned());
    }
    let meant =
        nearest(word, words.iter().copied()).map_or_else(String::new, |word| format!("; did you mean \"{word}\"?"));
    Err(format!("must be {}, not \"{word}\"{meant}", quoted(words)))
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
}

fn strings(items: &[Node]) -> Result<Vec<&str>, String> {
    items
        .iter()
        .enumerate()
        .map(|(n, node)| match &node.value {
            Value::String(text) if !text.trim().is_empty() => Ok(text.as_str()),
            Value::String(_) => Err(format!("entry {} is empty", n + 1)),
            Value::Integer(i) => Err(format!("entry {} must be a string; write \"{i}\"", n + 1)),
            other => Err(format!("entry {} must be a string, not {}", n + 1, other.type_name())),
        })
        .collect()
}

fn check_qualified(id: &str) -> Result<(), String> {
    match id.split_once(':') {
        Some((instance, user)) if is_instance_name(instance) && !user.is_empty() => Ok(()),
        _ => Err(format!(
            "\"{id}\" has no instance; write \"<instance>:{id}\", or move it to the `access` of the adapter"
        )),
    }
}

fn check_text(name: &str, value: &Value) -> Result<(), String> {
    // Users type the name after a command.
    let is_word = name.len() <= 64 && !name.is_empty() && !name.contains(char::is_whitespace) && !name.starts_with('-');
    match value {
        _ if !is_word => Err(format!("{name:?} is not a valid name; write one word of at most 64 bytes")),
        Value::String(text) if !text.trim().is_empty() => Ok(()),
        Value::String(_) => Err(format!("{name:?} is empty")),
        other => Err(format!("{name:?} must be a string, not {}", other.type_name())),
    }
}

fn check_listen(address: &str) -> Result<(), String> {
    if address.is_empty() || address.parse::<SocketAddr>().is_ok() {
        return Ok(());
    }
    Err(format!("must be an address and a port such as \"127.0.0.1:8640\", or \"\" for off, not \"{address}\""))
}

fn check_url(url: &str) -> Result<(), String> {
    // The same check as in the client. A user name or a password in the address would be shown.
    match hermes_adapter_net::client::base_url(url) {
        Ok(_) if !url.contains(char::is_whitespace) => Ok(()),
        Ok(_) => Err("must not contain white space; write a URL such as \"https://api.example/v1\"".to_owned()),
        Err(why) => Err(format!("cannot be used ({why}); write one such as \"https://api.example/v1\"")),
    }
}

fn check_chat(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(()),
        Value::String(_) => Err("must not be empty".to_owned()),
        Value::Integer(n) => Err(format!("must be a string; write \"{n}\"")),
        Value::Table(table) => {
            for (name, node) in table {
                match (name.as_str(), &node.value) {
                    ("chat" | "thread", Value::String(text)) if !text.is_empty() => {}
                    ("chat" | "thread", _) => return Err(format!("`{name}` must be a non-empty string")),
                    _ => return Err(format!("has no key `{name}`, only `chat` and `thread`")),
                }
            }
            if table.contains_key("chat") { Ok(()) } else { Err("needs `chat`".to_owned()) }
        }
        other => Err(format!("must be a string or {{ chat = \"…\", thread = \"…\" }}, not {}", other.type_name())),
    }
}

/// Returns `true` for a valid instance name, which is used in session keys, paths and targets.
pub fn is_instance_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Returns the key that was probably meant: a similar sibling, or the same name elsewhere.
fn nearest_key(path: &str, keys: &[&'static Key]) -> Option<String> {
    let (parent, leaf) = path.rsplit_once('.').unwrap_or(("", path));
    let prefix = if parent.is_empty() { String::new() } else { format!("{parent}.") };
    let siblings: BTreeSet<&str> = keys
        .iter()
        .filter_map(|key| key.path.strip_prefix(prefix.as_str()))
        .filter_map(|rest| rest.split('.').next())
        .collect();
    if let Some(sibling) = nearest(leaf, siblings) {
        return Some(format!("{prefix}{sibling}"));
    }
    keys.iter().map(|key| key.path).find(|other| other.rsplit('.').next() == Some(leaf)).map(str::to_owned)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Values {
    /// Returns the written value of `path`.
    pub fn get(&self, path: &str) -> Option<&Found> {
        self.0.get(path)
    }

    /// Sets a value from another source than the file.
    pub fn set(&mut self, key: &'static Key, value: Value, source: Source) {
        self.0.insert(key.path, Found { value, source });
    }

    /// Returns these values overridden by `over`.
    pub fn overridden(&self, over: &Self) -> Self {
        let mut all = self.clone();
        all.0.extend(over.0.iter().map(|(path, found)| (*path, found.clone())));
        all
    }

    /// Removes a value.
    pub fn forget(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Returns the value of `key`, or its default; `None` if it has no default.
    pub fn value(&self, key: &Key) -> Option<Value> {
        self.get(key.path).map(|found| found.value.clone()).or_else(|| default_of(key))
    }
}

/// Returns the default of a key as a value.
pub fn default_of(key: &Key) -> Option<Value> {
    if key.default.is_empty() {
        return None;
    }
    let (mut table, _) = parse(&format!("x = {}", key.default));
    table.remove("x").map(|node| node.value)
}

/// Converts the text of a variable to this type. The error is a sentence.
pub fn from_variable(kind: Kind, text: &str) -> Result<Value, String> {
    let value = match kind {
        Kind::Bool => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Value::Boolean(true),
            "false" | "0" | "no" | "off" => Value::Boolean(false),
            _ => return Err("must be true or false".to_owned()),
        },
        Kind::Int { .. } => Value::Integer(text.trim().parse().map_err(|_| "must be an integer".to_owned())?),
        Kind::List | Kind::Paths | Kind::Words(_) | Kind::QualifiedIds => Value::Array(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Node { at: At::default(), value: Value::String(item.to_owned()) })
                .collect(),
        ),
        _ => Value::String(text.trim().to_owned()),
    };
    check_kind(kind, &value)?;
    Ok(value)
}

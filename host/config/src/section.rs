//! One `[adapter.<instance>]` section: the host's keys, and the adapter's own.
//!
//! The host knows the types of its own keys, but those of the adapter only from the adapter's schema. Therefore an own
//! key is kept with the place of every value in it until [`super::plans`] can check it. References to secrets are
//! resolved here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value as Json;

use super::keys::{ADAPTER_KEYS, ADAPTER_SESSION_KEYS, ADAPTER_SHORT_KEYS, KEYS, Key, SHARED};
use super::problem::Source;
use super::read::{Reader, Values, is_instance_name, reference};
use super::resets;
use super::tree::{At, Node, Value};
use hermes_loader::config_schema::RESERVED;

/// The written content of a section, with places.
#[derive(Clone, Debug)]
pub struct Section {
    /// The source of the section.
    pub source: Source,
    /// The host's keys.
    pub host: Values,
    /// The adapter's keys.
    pub own: BTreeMap<String, Own>,
}

/// One of the adapter's own keys. Its `Debug` shows no value.
#[derive(Clone)]
pub struct Own {
    /// The value with resolved references.
    pub value: Json,
    /// The source of the value.
    pub source: Source,
    /// Resolved secrets inside of the value.
    pub secrets: Vec<String>,
    /// The paths of secrets within this key, as in `places`.
    pub hidden: BTreeSet<String>,
    /// The place of each nested value, by its path within this key (`routes.0.path`).
    pub places: BTreeMap<String, At>,
    /// `true` if it is text from a variable, to be converted to the type of the schema.
    pub from_variable: bool,
}

impl Own {
    /// Returns the source of the value at `path` within this key.
    pub fn place(&self, path: &str) -> Source {
        match (&self.source, self.places.get(path)) {
            (Source::File { path, .. }, Some(at)) => Source::File { path: path.clone(), at: Some(*at) },
            (source, _) => source.clone(),
        }
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({})", self.source)
    }
}

/// Returns every key of an adapter section that the host owns.
pub fn host_keys() -> Vec<&'static Key> {
    ADAPTER_KEYS
        .iter()
        .chain(KEYS.iter().filter(|key| key.path.starts_with("session.")))
        .chain(ADAPTER_SESSION_KEYS)
        .collect()
}

/// The scope of the host's own key-value pairs. An instance with this name would share it.
const HOST: &str = "host";

/// Reads all sections below `adapter`.
pub fn read_all(reader: &mut Reader<'_>, node: &Node) -> BTreeMap<String, Section> {
    let Value::Table(sections) = &node.value else {
        reader.problem(
            node.at,
            "adapter",
            format!("must be tables such as [adapter.example], not {}", node.value.type_name()),
        );
        return BTreeMap::new();
    };
    let mut all = BTreeMap::new();
    for (instance, node) in sections {
        let shown = format!("adapter.{instance}");
        if !is_instance_name(instance) {
            let sentence = "an instance name consists of letters, digits, `_` and `-`, begins with a letter and has at most 64 \
                 characters";
            reader.problem(node.at, &shown, sentence);
            continue;
        }
        if instance == hermes_loader::terminal::INSTANCE {
            reader.problem(node.at, &shown, "this name is reserved for the terminals of the host; choose another one");
            continue;
        }
        if instance == HOST {
            reader.problem(node.at, &shown, "this name is reserved for the host; choose another one");
            continue;
        }
        match &node.value {
            Value::Table(table) => {
                all.insert(instance.clone(), read(reader, table, node.at, &shown));
            }
            other => reader.problem(node.at, &shown, format!("must be a table, not {}", other.type_name())),
        }
    }
    all
}

fn read(reader: &mut Reader<'_>, table: &BTreeMap<String, Node>, at: At, shown: &str) -> Section {
    let mut host_table = BTreeMap::new();
    let mut short = Vec::new();
    let mut own = BTreeMap::new();
    for (name, node) in table {
        if ADAPTER_SHORT_KEYS.contains(&name.as_str()) {
            short.push((name, node));
        } else if RESERVED.contains(&name.as_str()) || SHARED.contains(&name.as_str()) {
            host_table.insert(name.clone(), node.clone());
        } else {
            own.insert(name.clone(), read_own(reader, node, &format!("{shown}.{name}")));
        }
    }
    let keys = host_keys();
    let mut host = Values::default();
    reader.table(&host_table, "", shown, &keys, &mut host);
    for (name, node) in short {
        let path = format!("session.{name}");
        if host.get(&path).is_some() {
            reader.problem(node.at, &format!("{shown}.{name}"), format!("is set twice; remove it or `{shown}.{path}`"));
            continue;
        }
        // The short form equals a table with one key below `session`.
        let mut values = Values::default();
        reader.table(&BTreeMap::from([(name.clone(), node.clone())]), "session", shown, &keys, &mut values);
        host = host.overridden(&values);
    }
    resets::check(reader, &host, &format!("{shown}.session."));
    Section { source: reader.at(at), host, own }
}

fn read_own(reader: &mut Reader<'_>, node: &Node, shown: &str) -> Own {
    let mut own = Own {
        value: Json::Null,
        source: reader.at(node.at),
        secrets: Vec::new(),
        hidden: BTreeSet::new(),
        places: BTreeMap::new(),
        from_variable: false,
    };
    own.value = resolve(reader, node, shown, "", &mut own);
    own
}

/// Converts a value to JSON and replaces every `{ env = … }` and `{ file = … }` by its target.
fn resolve(reader: &mut Reader<'_>, node: &Node, shown: &str, path: &str, own: &mut Own) -> Json {
    own.places.insert(path.to_owned(), node.at);
    if let Some(reference) = reference(&node.value) {
        return match reader.resolve(reference, node.at, shown) {
            Some(secret) => {
                own.secrets.push(secret.clone());
                own.hidden.insert(path.to_owned());
                Json::String(secret)
            }
            // The problem is recorded; an empty text keeps the type right for later checks.
            None => Json::String(String::new()),
        };
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match &node.value {
        Value::Array(items) => Json::Array(
            items
                .iter()
                .enumerate()
                .map(|(n, item)| resolve(reader, item, &format!("{shown}[{n}]"), &below(&n.to_string()), own))
                .collect(),
        ),
        Value::Table(table) => Json::Object(
            table
                .iter()
                .map(|(name, item)| {
                    (name.clone(), resolve(reader, item, &format!("{shown}.{name}"), &below(name), own))
                })
                .collect(),
        ),
        other => other.to_json(),
    }
}

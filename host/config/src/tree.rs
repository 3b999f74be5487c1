//! A TOML document with the place of every key and value.
//!
//! `toml` reports places in bytes; this module converts them to line and column. A problem that is found late (by an
//! adapter's schema, or a missing variable) then has the same kind of place as an early one.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A place in a file, both counted from 1. Columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The place of its key, or of the value if it has no key.
    pub at: At,
    /// The value.
    pub value: Value,
}

/// A value of TOML.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(String),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or a time, as written.
    Datetime(String),
    /// A list.
    Array(Vec<Node>),
    /// A table, in alphabetical order.
    Table(BTreeMap<String, Node>),
}

/// An error of the parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The place.
    pub at: At,
    /// The message.
    pub message: String,
}

/// Parses a document as far as possible.
pub fn parse(text: &str) -> (BTreeMap<String, Node>, Vec<SyntaxError>) {
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<SyntaxError> = errors
        .iter()
        .map(|error| SyntaxError {
            at: lines.at(text, error.span().map_or(0, |span| span.start)),
            message: message(error, text),
        })
        .collect();
    let tree = read_table(table.get_ref(), text, &lines, &mut problems);
    (tree, problems)
}

/// Returns the error on one line. A duplicate key is named, because the table may be long.
fn message(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    let at = error.span().and_then(|span| text.get(span)).map(str::trim);
    match at.filter(|key| message == "duplicate key" && !key.is_empty() && !key.contains('\n')) {
        Some(key) => format!("the key {key} is defined twice; remove one of the definitions"),
        None => message,
    }
}

fn read_table(
    table: &DeTable<'_>,
    text: &str,
    lines: &Lines,
    problems: &mut Vec<SyntaxError>,
) -> BTreeMap<String, Node> {
    let mut tree = BTreeMap::new();
    for (key, value) in table.iter() {
        let at = lines.at(text, key.span().start);
        let value = read_value(value, at, text, lines, problems);
        tree.insert(key.get_ref().to_string(), Node { at, value });
    }
    tree
}

fn read_value(
    value: &Spanned<DeValue<'_>>,
    at: At,
    text: &str,
    lines: &Lines,
    problems: &mut Vec<SyntaxError>,
) -> Value {
    match value.get_ref() {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
            Ok(i) => Value::Integer(i),
            Err(_) => {
                problems.push(SyntaxError { at, message: format!("{} does not fit in 64 bits", i.as_str()) });
                Value::Integer(0)
            }
        },
        DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(b) => Value::Boolean(*b),
        DeValue::Datetime(d) => Value::Datetime(d.to_string()),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| {
                    let at = lines.at(text, item.span().start);
                    Node { at, value: read_value(item, at, text, lines, problems) }
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(read_table(table, text, lines, problems)),
    }
}

impl Value {
    /// Returns the name of the type for people, with its article.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a decimal number",
            Self::Boolean(_) => "a boolean",
            Self::Datetime(_) => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// Converts the value to JSON, without places.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::String(s) | Self::Datetime(s) => Json::String(s.clone()),
            Self::Integer(i) => Json::from(*i),
            Self::Float(x) => serde_json::Number::from_f64(*x).map_or(Json::Null, Json::Number),
            Self::Boolean(b) => Json::Bool(*b),
            Self::Array(items) => Json::Array(items.iter().map(|node| node.value.to_json()).collect()),
            Self::Table(table) => {
                Json::Object(table.iter().map(|(key, node)| (key.clone(), node.value.to_json())).collect())
            }
        }
    }
}

/// The byte offset of each line.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect())
    }

    fn at(&self, text: &str, byte: usize) -> At {
        let line = self.0.partition_point(|start| *start <= byte).max(1);
        let start = self.0[line - 1];
        let column = text.get(start..byte.min(text.len())).map_or(0, |before| before.chars().count()) + 1;
        At { line, column }
    }
}

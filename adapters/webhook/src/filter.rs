//! What has to hold of a payload. Conditions are read once; one that cannot be read is refused, never passed over.

use regex_automata::meta;
use serde_json::Value;

use crate::payload::Call;

/// How deep conditions stand in each other.
const DEPTH_MAX: usize = 16;

/// How much of a compiled pattern fits into memory, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A condition.
pub enum Filter {
    /// All of them hold.
    All(Vec<Filter>),
    /// One of them holds.
    Any(Vec<Filter>),
    /// It does not hold.
    Not(Box<Filter>),
    /// Something holds of a value.
    Field(String, Test),
}

/// What may hold of a value.
pub enum Test {
    /// It is there, or is not.
    Exists(bool),
    /// It is this.
    Equals(Value),
    /// It is something else, of another type, or not there.
    NotEquals(Value),
    /// It is a list or a table with this in it, or a text with these words.
    Contains(Value),
    /// It is one of these.
    In(Vec<Value>),
    /// Its text fits a pattern somewhere.
    Regex(Box<meta::Regex>),
}

impl Filter {
    /// Reads a condition, or a list of which all have to hold.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what to write.
    pub fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(all) => Ok(Self::All(list(all, 0)?)),
            one => condition(one, 0),
        }
    }

    /// Whether it holds of a call.
    pub fn holds(&self, call: &Call<'_>) -> bool {
        match self {
            Self::All(all) => all.iter().all(|one| one.holds(call)),
            Self::Any(any) => any.iter().any(|one| one.holds(call)),
            Self::Not(one) => !one.holds(call),
            Self::Field(field, test) => test.holds(call.field(field).as_ref()),
        }
    }
}

impl Test {
    fn holds(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Exists(wanted), value) => value.is_some() == *wanted,
            (Self::NotEquals(other), value) => !value.is_some_and(|value| same(value, other)),
            (_, None) => false,
            (Self::Equals(other), Some(value)) => same(value, other),
            (Self::In(others), Some(value)) => others.iter().any(|other| same(value, other)),
            (Self::Contains(part), Some(value)) => contains(value, part),
            (Self::Regex(pattern), Some(value)) => pattern.is_match(&*text(value)),
        }
    }
}

fn contains(value: &Value, part: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| same(item, part)),
        Value::Object(table) => part.as_str().is_some_and(|key| table.contains_key(key)),
        value => text(value).contains(&*text(part)),
    }
}

/// Whether two values say the same; numbers by what they count, however they are written.
fn same(one: &Value, other: &Value) -> bool {
    one == other
        || match (one, other) {
            (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
                one.as_f64() == other.as_f64()
            }
            _ => false,
        }
}

/// A value as text.
fn text(value: &Value) -> std::borrow::Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        value => value.to_string().into(),
    }
}

fn list(items: &[Value], depth: usize) -> Result<Vec<Filter>, String> {
    items.iter().map(|item| condition(item, depth + 1)).collect()
}

fn condition(value: &Value, depth: usize) -> Result<Filter, String> {
    const SHAPE: &str =
        "write { field = \"payload.action\", equals = \"opened\" }, or all, any or not around such conditions";
    if depth > DEPTH_MAX {
        return Err(format!("that stand more than {DEPTH_MAX} deep in each other"));
    }
    let Value::Object(table) = value else {
        return Err(format!("with something that is no condition ({value}); {SHAPE}"));
    };
    let of = |key: &str| table.get(key);
    let items = |key: &str| match of(key) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(format!("where `{key}` is no list")),
    };
    if let (1, Some(key)) = (table.len(), table.keys().next()) {
        match key.as_str() {
            "all" => return Ok(Filter::All(list(items("all")?, depth)?)),
            "any" => return Ok(Filter::Any(list(items("any")?, depth)?)),
            "not" => return Ok(Filter::Not(Box::new(condition(&table["not"], depth + 1)?))),
            _ => {}
        }
    }
    let Some(field) = of("field").and_then(Value::as_str).map(str::trim).filter(|field| !field.is_empty()) else {
        return Err(format!("with a condition that names no field ({value}); {SHAPE}"));
    };
    let mut tests = table.iter().filter(|(key, _)| *key != "field");
    let (Some((key, wanted)), None) = (tests.next(), tests.next()) else {
        return Err(format!("where the condition of {field:?} says not exactly one thing; {SHAPE}"));
    };
    let test = match (key.as_str(), wanted) {
        ("exists", Value::Bool(wanted)) => Test::Exists(*wanted),
        ("missing", Value::Bool(wanted)) => Test::Exists(!wanted),
        ("equals", wanted) => Test::Equals(wanted.clone()),
        ("not_equals", wanted) => Test::NotEquals(wanted.clone()),
        ("contains", wanted) => Test::Contains(wanted.clone()),
        ("in", Value::Array(wanted)) => Test::In(wanted.clone()),
        ("regex", Value::String(pattern)) => Test::Regex(Box::new(pattern_of(field, pattern)?)),
        _ => {
            return Err(format!(
                "where {field:?} has `{key}` = {wanted}; write exists, missing, equals, not_equals, contains, in (a list) or regex (a text)"
            ));
        }
    };
    Ok(Filter::Field(field.to_owned(), test))
}

/// A pattern that takes time in proportion to the text, whatever the text is.
fn pattern_of(field: &str, pattern: &str) -> Result<meta::Regex, String> {
    let bounds = meta::Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX));
    let built = meta::Builder::new().configure(bounds).build(pattern);
    built.map_err(|error| format!("where the regex of {field:?} cannot be used ({error})"))
}

#[cfg(test)]
mod tests;

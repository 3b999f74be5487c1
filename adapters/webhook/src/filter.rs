//! Conditions on a payload. Each is parsed once; an invalid one is an error and is never ignored.

use regex_automata::meta;
use serde_json::Value;

use crate::payload::Call;

/// The maximum nesting depth of conditions.
const DEPTH_MAX: usize = 16;

/// The maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A condition.
pub(crate) enum Filter {
    /// All conditions hold.
    All(Vec<Filter>),
    /// At least one condition holds.
    Any(Vec<Filter>),
    /// The condition does not hold.
    Not(Box<Filter>),
    /// A test of a field's value holds.
    Field(String, Test),
}

/// A test of a value.
pub(crate) enum Test {
    /// The value exists (`true`) or is missing (`false`).
    Exists(bool),
    /// The value equals this one.
    Equals(Value),
    /// The value is different, of another type, or missing.
    NotEquals(Value),
    /// The value is a list that contains this one, an object with this key, or a string that contains this text.
    Contains(Value),
    /// The value is one of these.
    In(Vec<Value>),
    /// A part of the value's text matches the pattern.
    Regex(Box<meta::Regex>),
}

impl Filter {
    /// Parses a condition, or a list of conditions that must all hold.
    ///
    /// # Errors
    ///
    /// The fault, and the correct form.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(all) => Ok(Self::All(list(all, 0)?)),
            one => condition(one, 0),
        }
    }

    /// Returns whether the condition holds for a call.
    pub(crate) fn holds(&self, call: &Call<'_>) -> bool {
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

/// Returns whether two values are equal. Numbers are compared by value, independent of their notation.
fn same(one: &Value, other: &Value) -> bool {
    one == other
        || match (one, other) {
            (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
                one.as_f64() == other.as_f64()
            }
            _ => false,
        }
}

/// Returns a value as text.
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
        "use { field = \"payload.action\", equals = \"opened\" }, or all, any or not around such conditions";
    if depth > DEPTH_MAX {
        return Err(format!("the conditions are nested more than {DEPTH_MAX} levels deep"));
    }
    let Value::Object(table) = value else {
        return Err(format!("{value} is not a condition; {SHAPE}"));
    };
    let of = |key: &str| table.get(key);
    let items = |key: &str| match of(key) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(format!("`{key}` must be a list")),
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
        return Err(format!("the condition {value} has no field; {SHAPE}"));
    };
    let mut tests = table.iter().filter(|(key, _)| *key != "field");
    let (Some((key, wanted)), None) = (tests.next(), tests.next()) else {
        return Err(format!("the condition of {field:?} must have exactly one test; {SHAPE}"));
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
                "the condition of {field:?} has `{key}` = {wanted}; use exists, missing, equals, not_equals, contains, in (a list) or regex (a string)"
            ));
        }
    };
    Ok(Filter::Field(field.to_owned(), test))
}

/// Compiles a pattern whose matching time is linear in the text.
fn pattern_of(field: &str, pattern: &str) -> Result<meta::Regex, String> {
    let bounds = meta::Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX));
    let built = meta::Builder::new().configure(bounds).build(pattern);
    built.map_err(|error| format!("the regex of {field:?} is invalid ({error})"))
}

#[cfg(test)]
mod tests;

//! The check of a model's arguments against the schema of the tool.
//!
//! Supports the subset of JSON Schema that the tools use: objects with `properties` and `required`, `string`,
//! `integer`, `number`, `boolean`, `array` with `items`, `enum`, `minimum`, `maximum`, `maxLength`, `maxItems`.
//! Unknown properties are rejected, so that a model learns about invented arguments.

use hermes_core::nearest::nearest;
use serde_json::{Map, Value};

use crate::openai::wire::json;

/// Parses and checks arguments. A null value counts as missing.
///
/// # Errors
///
/// Names the argument and the fault.
pub fn read(arguments: &str, schema: &Value) -> Result<Value, String> {
    let mut value = json::object(arguments)?;
    without_nulls(&mut value);
    check(&value, schema, "")?;
    Ok(value)
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

fn check(value: &Value, schema: &Value, path: &str) -> Result<(), String> {
    let kind = schema["type"].as_str().unwrap_or_default();
    let fits = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        return Err(format!("{} must be {}, not {}", called(path), article(kind), word(value)));
    }
    if let Some(options) = schema["enum"].as_array().filter(|options| !options.contains(value)) {
        let options: Vec<String> = options.iter().map(Value::to_string).collect();
        return Err(format!("{} must be one of {}, not {value}", called(path), options.join(", ")));
    }
    if let Some(number) = value.as_f64() {
        let (min, max) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            let bound = |bound: Option<f64>, word: &str| bound.map(|bound| format!("at {word} {bound}"));
            let bounds: Vec<String> = [bound(min, "least"), bound(max, "most")].into_iter().flatten().collect();
            return Err(format!("{} must be {}, not {number}", called(path), bounds.join(" and ")));
        }
    }
    let max = |key: &str| schema[key].as_u64().and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    match value {
        Value::String(text) if text.chars().count() > max("maxLength") => {
            Err(format!("{} is longer than {} characters", called(path), max("maxLength")))
        }
        Value::Array(items) if items.len() > max("maxItems") => {
            Err(format!("{} has more than {} entries", called(path), max("maxItems")))
        }
        Value::Array(items) => {
            let indexed = items.iter().enumerate();
            indexed.into_iter().try_for_each(|(n, item)| check(item, &schema["items"], &format!("{path}[{n}]")))
        }
        Value::Object(fields) if schema["properties"].is_object() => object(fields, schema, path),
        _ => Ok(()),
    }
}

fn object(fields: &Map<String, Value>, schema: &Value, path: &str) -> Result<(), String> {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{:?} is missing", below(name)));
        }
    }
    for (name, value) in fields {
        match properties.get(name) {
            Some(property) => check(value, property, &below(name))?,
            None => {
                let near = nearest(name, properties.keys().map(String::as_str));
                let near = near.map(|near| format!("; did you mean {near:?}")).unwrap_or_default();
                let all: Vec<&str> = properties.keys().map(String::as_str).collect();
                return Err(format!(
                    "unknown argument {:?}{near}; available arguments: {}",
                    below(name),
                    all.join(", ")
                ));
            }
        }
    }
    Ok(())
}

fn called(path: &str) -> String {
    if path.is_empty() { "the arguments".to_owned() } else { format!("{path:?}") }
}

fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "maxLength": 5},
                "timeout": {"type": "integer", "minimum": 1, "maximum": 9},
                "action": {"enum": ["list", "kill"]},
                "items": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"done": {"type": "boolean"}}}},
            },
            "required": ["command"],
        })
    }

    fn wrong(arguments: &str) -> String {
        read(arguments, &schema()).unwrap_err()
    }

    #[test]
    fn what_fits_is_read_and_null_counts_as_not_given() {
        let read = |arguments: &str| read(arguments, &schema());
        assert_eq!(read(r#"{"command": "ls", "timeout": null}"#), Ok(json!({"command": "ls"})));
        assert_eq!(read(r#""{\"command\": \"ls\"}""#), Ok(json!({"command": "ls"})), "JSON within JSON");
        assert!(read(r#"{"command": "ls", "items": [{"done": true}], "action": "kill", "timeout": 9}"#).is_ok());
        assert_eq!(super::read("", &json!({"type": "object", "properties": {}})), Ok(json!({})));
    }

    #[test]
    fn what_does_not_fit_is_told_so_that_it_can_be_mended() {
        assert!(wrong("{").starts_with("invalid JSON"));
        assert_eq!(wrong("[]"), "expected a JSON object, not an array");
        assert_eq!(wrong("{}"), r#""command" is missing"#);
        assert_eq!(wrong(r#"{"command": 7}"#), r#""command" must be a string, not a number"#);
        assert_eq!(wrong(r#"{"command": "longer"}"#), r#""command" is longer than 5 characters"#);
        assert_eq!(wrong(r#"{"command": "x", "timeout": 1.5}"#), r#""timeout" must be an integer, not a number"#);
        assert_eq!(
            wrong(r#"{"command": "x", "timeout": 10}"#),
            r#""timeout" must be at least 1 and at most 9, not 10"#
        );
        assert_eq!(wrong(r#"{"command": "x", "action": "go"}"#), r#""action" must be one of "list", "kill", not "go""#);
        assert_eq!(wrong(r#"{"command": "x", "items": [{}, {}, {}]}"#), r#""items" has more than 2 entries"#);
        assert_eq!(
            wrong(r#"{"command": "x", "items": [{"done": 1}]}"#),
            r#""items[0].done" must be a boolean, not a number"#
        );
        let made_up = wrong(r#"{"command": "x", "timeot": 1}"#);
        assert!(made_up.contains(r#"unknown argument "timeot"; did you mean "timeout""#), "{made_up}");
    }
}

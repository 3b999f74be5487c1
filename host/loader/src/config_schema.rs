//! The check of an adapter's own keys against its JSON Schema.
//!
//! The check supports the part of JSON Schema that derived schemas use: types, enums, bounds, properties, items,
//! references, alternatives. Patterns are left to the adapter. An object with named properties is closed unless its
//! schema opens it, because an unread key is a mistake.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use hermes_core::nearest::nearest;

/// One violation of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The path of the value, such as `routes.0.path`; empty for the whole.
    pub path: String,
    /// The problem.
    pub sentence: String,
    /// The key that was probably meant.
    pub nearest: Option<String>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.sentence)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest}?"),
            None => Ok(()),
        }
    }
}

/// Names that an adapter's schema must not use.
pub const RESERVED: &[&str] = &[
    "plugin",
    "command",
    "enabled",
    "isolation",
    "profile",
    "access",
    "home_channel",
    "trust_upstream",
    "session",
    "busy",
    "stream",
    "require_mention",
];

/// The depth limit: references may be circular.
const DEPTH_MAX: usize = 32;

/// Returns every violation of `schema` in `value`. `also` are keys of the root that the host owns.
pub fn check(schema: &Json, value: &Json, also: &[&str]) -> Vec<Finding> {
    let mut checker = Checker { root: schema, also, findings: Vec::new() };
    checker.visit(schema, value, "", 0);
    checker.findings
}

/// Converts the text of a variable to the type of `schema`; it stays text if there is none.
pub fn from_text(root: &Json, schema: &Json, text: &str) -> Json {
    let types = types_of(root, schema, 0);
    let asks = |name: &str| types.contains(name);
    let text = text.trim();
    if asks("boolean") {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => return Json::Bool(true),
            "false" | "0" | "no" | "off" => return Json::Bool(false),
            _ => {}
        }
    }
    if asks("integer")
        && let Ok(n) = text.parse::<i64>()
    {
        return Json::from(n);
    }
    if asks("number")
        && let Ok(x) = text.parse::<f64>()
    {
        return Json::from(x);
    }
    if asks("array") && !asks("string") {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        return Json::Array(items.map(Json::from).collect());
    }
    Json::from(text)
}

/// Returns the schema of one property of the root.
pub fn property<'a>(root: &'a Json, name: &str) -> Option<&'a Json> {
    let mut found = None;
    properties(root, root, 0, &mut |key, schema| {
        if key == name {
            found = Some(schema);
        }
    });
    found
}

/// Calls `each` with every property of `schema`, including those of alternatives and references.
pub fn properties<'a>(root: &'a Json, schema: &'a Json, depth: usize, each: &mut impl FnMut(&'a str, &'a Json)) {
    if depth > DEPTH_MAX {
        return;
    }
    let Some(object) = schema.as_object() else { return };
    if let Some(target) = target(root, object) {
        properties(root, target, depth + 1, each);
    }
    for (name, schema) in object.get("properties").and_then(Json::as_object).into_iter().flatten() {
        each(name, schema);
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for part in object.get(word).and_then(Json::as_array).into_iter().flatten() {
            properties(root, part, depth + 1, each);
        }
    }
}

/// Returns the names of the types that `schema` allows.
pub fn types_of<'a>(root: &'a Json, schema: &'a Json, depth: usize) -> BTreeSet<&'a str> {
    let mut types = BTreeSet::new();
    let Some(object) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else { return types };
    match object.get("type") {
        Some(Json::String(name)) => {
            types.insert(name.as_str());
        }
        Some(Json::Array(names)) => types.extend(names.iter().filter_map(Json::as_str)),
        _ => {}
    }
    if let Some(target) = target(root, object) {
        types.extend(types_of(root, target, depth + 1));
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        for part in object.get(word).and_then(Json::as_array).into_iter().flatten() {
            types.extend(types_of(root, part, depth + 1));
        }
    }
    types
}

/// Returns the first word that `schema` allows, if it lists words.
pub fn first_word<'a>(root: &'a Json, schema: &'a Json, depth: usize) -> Option<&'a Json> {
    let object = schema.as_object().filter(|_| depth <= DEPTH_MAX)?;
    let own = object.get("const").or_else(|| object.get("enum").and_then(Json::as_array)?.first());
    own.or_else(|| first_word(root, target(root, object)?, depth + 1)).or_else(|| {
        let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|word| object.get(*word).and_then(Json::as_array));
        parts.flatten().find_map(|part| first_word(root, part, depth + 1))
    })
}

/// Returns the target of `$ref` if it is in the same document.
pub fn target<'a>(root: &'a Json, schema: &Map<String, Json>) -> Option<&'a Json> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

/// Returns the message about a missing required key.
pub fn needs(name: &str) -> String {
    format!("requires the key `{name}`")
}

struct Checker<'a> {
    root: &'a Json,
    also: &'a [&'a str],
    findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    fn visit(&mut self, schema: &'a Json, value: &Json, path: &str, depth: usize) {
        if let Some(object) = value.as_object() {
            self.unknown_keys(schema, object, path);
        }
        self.judge(schema, value, path, depth);
    }

    fn judge(&mut self, schema: &'a Json, value: &Json, path: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let Some(schema) = schema.as_object() else {
            if schema == &Json::Bool(false) {
                self.find(path, "is not allowed");
            }
            return;
        };
        if let Some(target) = target(self.root, schema) {
            self.judge(target, value, path, depth + 1);
        }
        for part in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            self.judge(part, value, path, depth + 1);
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(parts) = schema.get(word).and_then(Json::as_array) {
                self.alternatives(parts, value, path, depth);
            }
        }
        if self.wrong_type(schema, value, path) {
            return;
        }
        self.words(schema, value, path);
        match value {
            Json::Object(object) => self.object(schema, object, path, depth),
            Json::Array(items) => self.array(schema, items, path, depth),
            Json::String(text) => {
                self.bounds(schema, text.chars().count() as f64, ("minLength", "maxLength"), "characters", path)
            }
            Json::Number(number) => {
                self.bounds(schema, number.as_f64().unwrap_or_default(), ("minimum", "maximum"), "", path);
            }
            _ => {}
        }
    }

    fn wrong_type(&mut self, schema: &Map<String, Json>, value: &Json, path: &str) -> bool {
        let wanted: Vec<&str> = match schema.get("type") {
            Some(Json::String(name)) => vec![name],
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ => return false,
        };
        if wanted.iter().any(|name| is_a(value, name)) {
            return false;
        }
        let wanted: Vec<&str> = wanted.into_iter().filter(|name| *name != "null").map(type_name).collect();
        self.find(path, &format!("must be {}, not {}", wanted.join(" or "), value_type_name(value)));
        true
    }

    fn words(&mut self, schema: &Map<String, Json>, value: &Json, path: &str) {
        let allowed: Vec<&Json> = match (schema.get("enum"), schema.get("const")) {
            (Some(Json::Array(words)), _) => words.iter().collect(),
            (_, Some(word)) => vec![word],
            _ => return,
        };
        if allowed.contains(&value) {
            return;
        }
        let words: Vec<String> = allowed.iter().filter(|word| !word.is_null()).map(|word| word.to_string()).collect();
        self.find(path, &format!("must be {}", words.join(" or ")));
    }

    /// Adds the findings of the best alternative if none matches.
    fn alternatives(&mut self, parts: &'a [Json], value: &Json, path: &str, depth: usize) {
        // A documented enum is a list of constants: its words are reported together.
        let words: Option<Vec<&Json>> = parts.iter().map(|part| part.get("const")).collect();
        if let Some(words) = words.filter(|words| words.len() > 1 && !words.contains(&value)) {
            let words: Vec<String> = words.iter().filter(|word| !word.is_null()).map(|word| word.to_string()).collect();
            return self.find(path, &format!("must be {}", words.join(" or ")));
        }
        let mut best: Option<Vec<Finding>> = None;
        for part in parts {
            let mut attempt = Checker { root: self.root, also: self.also, findings: Vec::new() };
            attempt.judge(part, value, path, depth + 1);
            if attempt.findings.is_empty() {
                return;
            }
            let is_null = types_of(self.root, part, 0).contains("null");
            if !is_null && best.as_ref().is_none_or(|best| attempt.findings.len() < best.len()) {
                best = Some(attempt.findings);
            }
        }
        self.findings.extend(best.unwrap_or_default());
    }

    fn unknown_keys(&mut self, schema: &'a Json, object: &Map<String, Json>, path: &str) {
        let mut known = BTreeSet::new();
        properties(self.root, schema, 0, &mut |name, _| {
            known.insert(name);
        });
        if known.is_empty() || self.is_open(schema, 0) {
            return;
        }
        for name in object.keys().filter(|name| !known.contains(name.as_str())) {
            let candidates = known.iter().copied().chain(self.also.iter().copied().filter(|_| path.is_empty()));
            let nearest = nearest(name, candidates).map(str::to_owned);
            self.findings.push(Finding { path: join(path, name), sentence: "unknown key".to_owned(), nearest });
        }
    }

    fn is_open(&self, schema: &Json, depth: usize) -> bool {
        let Some(object) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else { return false };
        let open = |word| object.get(word).is_some_and(|rest| rest != &Json::Bool(false));
        open("additionalProperties")
            || open("patternProperties")
            || target(self.root, object).is_some_and(|target| self.is_open(target, depth + 1))
            || ["allOf", "anyOf", "oneOf"].iter().any(|word| {
                let parts = object.get(*word).and_then(Json::as_array);
                parts.into_iter().flatten().any(|part| self.is_open(part, depth + 1))
            })
    }

    fn object(&mut self, schema: &'a Map<String, Json>, object: &Map<String, Json>, path: &str, depth: usize) {
        let named = schema.get("properties").and_then(Json::as_object);
        let rest = schema.get("additionalProperties").filter(|rest| rest.is_object());
        for (name, value) in object {
            let schema = named.and_then(|named| named.get(name)).or(rest);
            if let Some(schema) = schema {
                self.visit(schema, value, &join(path, name), depth + 1);
            }
        }
        for name in schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str) {
            if !object.contains_key(name) {
                self.find(path, &needs(name));
            }
        }
    }

    fn array(&mut self, schema: &'a Map<String, Json>, items: &[Json], path: &str, depth: usize) {
        self.bounds(schema, items.len() as f64, ("minItems", "maxItems"), "entries", path);
        if let Some(schema) = schema.get("items") {
            for (n, item) in items.iter().enumerate() {
                self.visit(schema, item, &join(path, &n.to_string()), depth + 1);
            }
        }
    }

    fn bounds(&mut self, schema: &Map<String, Json>, value: f64, keys: (&str, &str), what: &str, path: &str) {
        let limit = |key| schema.get(key).and_then(Json::as_f64);
        let what = if what.is_empty() { String::new() } else { format!(" {what}") };
        if let Some(min) = limit(keys.0).filter(|min| value < *min) {
            self.find(path, &format!("must be at least {min}{what}, not {value}"));
        }
        if let Some(max) = limit(keys.1).filter(|max| value > *max) {
            self.find(path, &format!("must be at most {max}{what}, not {value}"));
        }
    }

    fn find(&mut self, path: &str, sentence: &str) {
        self.findings.push(Finding { path: path.to_owned(), sentence: sentence.to_owned(), nearest: None });
    }
}

fn is_a(value: &Json, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_i64().is_some() || value.as_u64().is_some(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn type_name(name: &str) -> &str {
    match name {
        "string" => "a string",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "array" => "a list",
        "object" => "a table",
        other => other,
    }
}

fn value_type_name(value: &Json) -> &'static str {
    match value {
        Json::String(_) => "a string",
        Json::Bool(_) => "a boolean",
        Json::Number(n) if n.is_f64() => "a decimal number",
        Json::Number(_) => "an integer",
        Json::Array(_) => "a list",
        Json::Object(_) => "a table",
        Json::Null => "nothing",
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

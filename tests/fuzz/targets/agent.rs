//! Text of a model: the arguments of tools.

use hermes_agent::AgentConfig;
use hermes_agent::tools::{ALL, NAMES, Ports, Toolbox};
use serde_json::Value;

use crate::ring::{Target, texts};

const WORDS: &[&str] = &[
    "\"command\":\"ls\"",
    "\"action\":\"list\"",
    "\"timeout\":",
    "\"query\":\"",
    "\"limit\":",
    "\"todos\":[{\"id\":\"1\",\"content\":\"a\",\"status\":\"pending\"}]",
    "\"target\":\"telegram\"",
    "\"message\":\"hi\"",
    "\"session_id\":\"",
    "\"goal\":\"a\"",
    "\"text\":\"a\"",
    "null",
    "1.5",
    "-1",
    "true",
    "{}",
    "[]",
    "[[[[[[[[",
    "{\"a\":",
    "\\\"",
    "\\ud800",
];

/// Arguments of every tool: what a tool gets fits its schema, and reading it again changes nothing.
pub fn arguments() -> Target {
    let seeds = texts(&[
        r#"{"command":"ls -l","timeout":5,"background":false}"#,
        r#"{"action":"poll","session_id":"p1"}"#,
        r#"{"query":"hello","limit":3}"#,
        r#"{"target":"telegram:7","message":"hi"}"#,
        r#"{"todos":[{"id":"1","content":"a","status":"pending"}],"merge":true}"#,
        r#"{"action":"add","target":"memory","content":"a"}"#,
        r#""{\"command\": \"ls\"}""#,
        r#"{"action":"create","goal":"a","tasks":[{"goal":"b"}]}"#,
        "",
    ]);
    Target::opened("arguments", seeds, WORDS, || {
        let config = AgentConfig { tools: vec![ALL.to_owned()], ..AgentConfig::default() };
        let tools = Toolbox::new(&config, Ports::default());
        Box::new(move |bytes| {
            let text = String::from_utf8_lossy(bytes);
            for tool in NAMES {
                let (schema, read) = tools.read_arguments(tool, &text).expect("every tool is on");
                match read {
                    Ok(arguments) => {
                        fits(&arguments, &schema);
                        let again = tools.read_arguments(tool, &arguments.to_string()).expect("every tool is on").1;
                        assert_eq!(again.as_ref(), Ok(&arguments), "arguments change each time");
                    }
                    Err(why) => assert!(why.contains(tool) && why.len() > tool.len() + 10, "a refusal without words"),
                }
            }
        })
    })
}

/// Checks a value against its schema, in another way than the host does.
fn fits(value: &Value, schema: &Value) {
    let is_of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => true,
    };
    assert!(is_of_type, "a value of another type");
    if let Some(options) = schema["enum"].as_array() {
        assert!(options.contains(value), "a word that is none of its list");
    }
    if let Some(number) = value.as_f64() {
        assert!(schema["minimum"].as_f64().is_none_or(|min| number >= min), "below its least");
        assert!(schema["maximum"].as_f64().is_none_or(|max| number <= max), "above its most");
    }
    if let Some(text) = value.as_str() {
        let max = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
        assert!(text.chars().count() as u64 <= max, "a text beyond its bound");
    }
    if let Some(items) = value.as_array() {
        assert!(items.len() as u64 <= schema["maxItems"].as_u64().unwrap_or(u64::MAX), "a list beyond its bound");
        items.iter().for_each(|item| fits(item, &schema["items"]));
    }
    if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(fields.contains_key(name), "a required argument is missing");
        }
        for (name, value) in fields {
            assert!(!value.is_null(), "a null counts as given");
            fits(value, known.get(name).expect("every argument has a name that is known"));
        }
    }
}

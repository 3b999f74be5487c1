//! Compatibility of payloads: every later schema of 1.x accepts everything that an earlier one does.
//!
//! `adapter-sdk/protocol/tests/golden.rs` reads the corpus of payloads, and `adapter-sdk/abi/tests/layout.rs`
//! measures the layout of the vtables.

use std::fs;

use serde_json::{Value, json};

use crate::sources;

/// Records the places in which `new` removes a part of `old` or adds a requirement.
fn breaks(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, was) in old {
                let path = format!("{path}/{key}");
                match new.get(key) {
                    // Descriptions may change at any time.
                    _ if ["description", "title"].contains(&key.as_str()) && was.is_string() => {}
                    Some(is) if key == "required" && was != is => {
                        found.push(format!("{path}: other fields are required"))
                    }
                    Some(is) => breaks(was, is, &path, found),
                    None => found.push(format!("{path} is gone")),
                }
            }
            // A new constraint on an existing type narrows it, unless it only adds values.
            let narrows = |key: &&String| {
                ["required", "enum", "const", "pattern", "maxLength", "maximum", "minimum", "additionalProperties"]
                    .contains(&key.as_str())
            };
            for key in new.keys().filter(|key| !old.contains_key(*key)).filter(narrows) {
                found.push(format!("{path}/{key} is new and narrows"));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for was in old {
                let kept = new.iter().any(|is| {
                    let mut found = Vec::new();
                    breaks(was, is, path, &mut found);
                    found.is_empty()
                });
                if !kept {
                    found.push(format!("{path}: one of the choices is gone: {was}"));
                }
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(format!("{path} was {old}, is {new}")),
    }
}

fn broken(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    breaks(old, new, "", &mut found);
    found
}

/// Kept schemas, oldest first.
const KEPT: [&str; 2] = ["1.0", "1.1"];

fn kept(version: &str) -> Value {
    let path = sources::root().join(format!("adapter-sdk/protocol/golden/{version}/schema.json"));
    let text = fs::read_to_string(path).expect("the schema of each version is kept");
    serde_json::from_str(&text).expect("a schema is JSON")
}

fn golden() -> Value {
    kept("1.0")
}

#[test]
fn every_payload_says_what_it_said_in_each_version() {
    let arguments = ["run", "-p", "hermes-protocol", "--features", "schema", "--example", "schema"];
    let output = sources::cargo(&sources::root(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let today: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(today["payloads"].as_object().unwrap().len() > 20);
    for version in KEPT {
        assert_eq!(broken(&kept(version), &today), Vec::<String>::new(), "{version}");
    }
    let newest = KEPT[KEPT.len() - 1];
    assert_eq!(broken(&today, &kept(newest)), Vec::<String>::new(), "an addition belongs into the schema of {newest}");
}

/// Returns the incompatibilities of the schema of 1.0 after `change`, which represents a later version.
fn after(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut later = golden();
    change(&mut later);
    broken(&golden(), &later)
}

#[test]
fn what_is_appended_breaks_nothing() {
    let found = after(|schema| {
        schema["$defs"]["Event"]["properties"]["tomorrow"] = json!({ "type": ["string", "null"] });
        schema["$defs"]["SendOutcome"]["oneOf"].as_array_mut().unwrap().push(json!({ "type": "object" }));
        schema["payloads"]["Tomorrow"] = json!({ "$ref": "#/$defs/Tomorrow" });
        schema["$defs"]["Tomorrow"] = json!({ "type": "object", "required": ["new"] });
        schema["$defs"]["Event"]["description"] = json!("Put better.");
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn what_is_taken_away_retyped_or_demanded_is_found() {
    assert_eq!(after(|schema| drop(schema["payloads"].as_object_mut().unwrap().remove("Event"))).len(), 1);
    assert_eq!(
        after(|schema| drop(schema["$defs"]["Chat"]["properties"].as_object_mut().unwrap().remove("id"))).len(),
        1
    );
    assert_eq!(after(|schema| schema["$defs"]["Event"]["properties"]["at_ms"]["type"] = json!("string")).len(), 1);
    assert_eq!(
        after(|schema| schema["$defs"]["Event"]["required"].as_array_mut().unwrap().push(json!("raw"))).len(),
        1
    );
    assert_eq!(
        after(|schema| drop(schema["$defs"]["SendOutcome"]["oneOf"].as_array_mut().unwrap().remove(0))).len(),
        1
    );
    assert_eq!(after(|schema| schema["$defs"]["Event"]["additionalProperties"] = json!(false)).len(), 1);
}

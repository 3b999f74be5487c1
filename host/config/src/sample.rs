//! `config sample`: a complete file with every key, its default and its description.
//!
//! Keys with a default are written with it. Keys without one, and most adapter sections, are comments that work when
//! their `# ` is removed. The sample itself causes no problem and no warning, which a test checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::keys::{KEYS, Key, SECTIONS};
use super::load::FILE_NAME;
use super::secrets::{self, is_secret};
use super::show::{section_keys, toml};
use hermes_loader::config_schema;

/// The width of a comment, in characters.
const WIDTH: usize = 100;

/// Returns the documented sample, with a section for each adapter that was found.
pub fn sample(manifests: &BTreeMap<String, Manifest>, schemas: &BTreeMap<String, Json>) -> String {
    let mut out = String::new();
    comment(&mut out, "", "All settings of hermes-host with their defaults. A file needs only the values that differ.");
    comment(
        &mut out,
        "",
        "Secrets are references: { env = \"NAME\" } or { file = \"path\" }. Paths are relative to this file.",
    );
    for (section, doc) in SECTIONS {
        out.push('\n');
        comment(&mut out, "", doc);
        line(&mut out, "", format!("[{section}]"));
        let prefix = format!("{section}.");
        for key in KEYS {
            if let Some(name) = key.path.strip_prefix(&prefix) {
                entry(&mut out, name, key, "");
            }
        }
    }
    out.push('\n');
    comment(
        &mut out,
        "",
        "One section per adapter instance. The name is part of every session key and must not change later. The keys \
         of the first example belong to the host; all other keys belong to the adapter.",
    );
    line(&mut out, "# ", "[adapter.example]".to_owned());
    for key in section_keys() {
        entry(&mut out, key.path, key, "# ");
    }
    for manifest in manifests.values() {
        adapter(&mut out, manifest, schemas.get(&manifest.id));
    }
    out
}

/// Returns the shell command that writes a first configuration file.
pub fn write_sample(home: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    let file = format!("{}/{}", home.trim_end_matches('/'), FILE_NAME);
    let word = if file.chars().all(is_plain) { file } else { format!("'{}'", file.replace('\'', "'\\''")) };
    format!("hermes-host config sample > {word}")
}

fn entry(out: &mut String, name: &str, key: &Key, lead: &str) {
    comment(out, lead, key.doc);
    // The default of the runtime depends on the environment.
    if key.path == "agent.runtime" {
        line(out, "# ", format!("{name} = {}", key.default));
    } else if key.default.is_empty() {
        // An example must not become a setting by accident, so it is always a comment.
        let lead = if lead.is_empty() { "# " } else { lead };
        line(out, lead, format!("{name} = {}", key.example));
    } else {
        line(out, lead, format!("{name} = {}", key.default));
    }
}

fn adapter(out: &mut String, manifest: &Manifest, schema: Option<&Json>) {
    out.push('\n');
    let transport = if manifest.transport.is_empty() { String::new() } else { format!(", {}", manifest.transport) };
    comment(out, "", &format!("{} ({} {}{transport})", manifest.label, manifest.id, manifest.version));
    if !manifest.home_channel_help.is_empty() {
        comment(out, "", &format!("home_channel: {}", manifest.home_channel_help));
    }
    for name in manifest.env.iter().filter(|name| name.retired_for.is_empty()) {
        let enables = if name.enables { " and starts the adapter without a section" } else { "" };
        comment(out, "", &format!("The variable {} sets `{}`{enables}.", name.name, name.key));
    }
    // The sample starts the same adapters as a host without a file.
    let lead = if super::load::built_in().contains_key(&manifest.id) { "" } else { "# " };
    line(out, lead, format!("[adapter.{}]", manifest.id));
    let Some(root) = schema else { return };
    let required: BTreeSet<&str> =
        root.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
    let mut properties = Vec::new();
    config_schema::properties(root, root, 0, &mut |name, property| properties.push((name, property)));
    for (name, property) in properties {
        let needed = if required.contains(name) { "Required. " } else { "" };
        let doc = property.get("description").and_then(Json::as_str).unwrap_or_default();
        comment(out, "# ", &format!("{needed}{doc}"));
        line(out, "# ", format!("{name} = {}", own_example(manifest, root, name, property)));
    }
}

/// Returns an example for a key of an adapter: its default, or a value of its type.
fn own_example(manifest: &Manifest, root: &Json, name: &str, property: &Json) -> String {
    if is_secret(manifest, name) || secrets::marked(root, property, 0) {
        let variable = manifest.env.iter().find(|env| env.key == name && env.retired_for.is_empty());
        let variable =
            variable.map_or_else(|| format!("{}_{name}", manifest.id).to_uppercase(), |env| env.name.clone());
        return format!("{{ env = \"{variable}\" }}");
    }
    if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
        return toml(default);
    }
    if let Some(example) = property.get("examples").and_then(Json::as_array).and_then(|examples| examples.first()) {
        return toml(example);
    }
    if let Some(word) = config_schema::first_word(root, property, 0) {
        return toml(word);
    }
    let types = config_schema::types_of(root, property, 0);
    let least = property.get("minimum").and_then(Json::as_i64).unwrap_or(0);
    match () {
        () if types.contains("string") => "\"…\"".to_owned(),
        () if types.contains("integer") || types.contains("number") => least.to_string(),
        () if types.contains("boolean") => "false".to_owned(),
        () if types.contains("array") => "[]".to_owned(),
        () => "{}".to_owned(),
    }
}

fn line(out: &mut String, lead: &str, text: String) {
    // Writing into a `String` cannot fail.
    let _ = writeln!(out, "{lead}{text}");
}

/// Writes a comment of one or more lines. `lead` is written before its `#`.
fn comment(out: &mut String, lead: &str, text: &str) {
    let mut row = String::new();
    for word in text.split_whitespace() {
        if !row.is_empty() && row.chars().count() + word.chars().count() >= WIDTH {
            line(out, lead, format!("# {row}"));
            row.clear();
        }
        if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(word);
    }
    if !row.is_empty() {
        line(out, lead, format!("# {row}"));
    }
}

//! The adapters of this repository, as described by their manifests.

use std::{fs, path::Path, process::Command};

use hermes_tests::artefacts;
use serde_json::Value;

const HEAD: &str = "| adapter | transport | longest message | an answer grows by | deliveries | in groups | threads for handoffs | files | buttons | secrets |\n\
                    |---|---|---|---|---|---|---|---|---|---|\n";

#[test]
fn the_table_of_the_adapters_is_what_their_manifests_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("adapters").join("README.md");
    let page = fs::read_to_string(page).expect("adapters/README.md exists");
    let rows: String = artefacts().adapters().iter().map(|id| row(&manifest(id))).collect();
    let table = format!("{HEAD}{rows}");
    assert!(page.contains(&format!("\n\n{table}\n")), "adapters/README.md has to have the table\n\n{table}");
}

/// Returns the output of `adapter inspect` for a built library.
fn manifest(id: &str) -> Value {
    let library = artefacts().adapter(id);
    let inspected = Command::new(artefacts().host()).args(["adapter", "inspect", "--json"]).arg(library).output();
    let inspected = inspected.expect("the binary was built");
    assert!(inspected.status.success(), "{id}: {}", String::from_utf8_lossy(&inspected.stderr));
    serde_json::from_slice(&inspected.stdout).expect("it prints JSON")
}

fn row(manifest: &Value) -> String {
    let (id, can) = (text(&manifest["id"]), &manifest["capabilities"]);
    let secrets: Vec<String> =
        manifest["secrets"].as_array().into_iter().flatten().map(|key| format!("`{}`", text(key))).collect();
    let columns = [
        format!("[{id}]({id}/README.md)"),
        text(&manifest["transport"]).replace('-', " "),
        longest(&can["text"]),
        grows(text(&can["stream"])).to_owned(),
        deliveries(can),
        if can["group_default"] == "all" { "everything" } else { "what is addressed to it" }.to_owned(),
        yes(&can["create_handoff_thread"]).to_owned(),
        files(&can["media"]).to_owned(),
        yes(&can["buttons"]).to_owned(),
        if secrets.is_empty() { "–".to_owned() } else { secrets.join(", ") },
    ];
    format!("| {} |\n", columns.join(" | "))
}

fn longest(limit: &Value) -> String {
    let unit = match text(&limit["unit"]) {
        "utf16" => "UTF-16",
        unit => unit,
    };
    match limit["limit"].as_u64() {
        None | Some(0) => "–".to_owned(),
        Some(units) => format!("{units} {unit}"),
    }
}

fn grows(stream: &str) -> &str {
    match stream {
        "edit" => "edits",
        "native" => "the turn's own events",
        _ => "–",
    }
}

fn deliveries(can: &Value) -> String {
    let class = text(&can["delivery"]).replace('_', " ");
    if can["supports_async_delivery"] == false { format!("{class}, while a request is open") } else { class }
}

fn files(media: &Value) -> &'static str {
    match (media["in"] == true, media["out"] == true) {
        (true, true) => "in and out",
        (true, false) => "in",
        (false, true) => "out",
        (false, false) => "–",
    }
}

fn yes(is: &Value) -> &'static str {
    if *is == true { "yes" } else { "–" }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

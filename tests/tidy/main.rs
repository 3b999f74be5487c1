//! Rules of the repository that the compiler does not check.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Permitted internal imports of each package, and the external crates that it must not use.
/// `host/docs/architecture.md` describes them in words.
const MAY_IMPORT: &[(&str, &[&str], &[&str])] = &[
    ("hermes-adapter-abi", &[], &["serde", "serde_json", "tokio"]),
    ("hermes-protocol", &[], &["tokio", "reqwest", "rusqlite", "abi_stable"]),
    ("hermes-markup", &[], &["tokio", "reqwest", "rusqlite", "abi_stable"]),
    ("hermes-sdk-macros", &[], &["tokio"]),
    ("hermes-conformance", &["hermes-protocol"], &["tokio", "abi_stable"]),
    ("hermes-adapter-net", &["hermes-protocol"], &["abi_stable", "rusqlite"]),
    (
        "hermes-adapter-sdk",
        &["hermes-adapter-abi", "hermes-conformance", "hermes-markup", "hermes-protocol", "hermes-sdk-macros"],
        &["rusqlite", "reqwest"],
    ),
    ("hermes-core", &["hermes-protocol"], &["tokio", "rusqlite", "abi_stable", "getrandom", "rand", "reqwest"]),
    ("hermes-system", &["hermes-core"], &["rusqlite", "abi_stable", "clap", "tokio"]),
    ("hermes-store", &["hermes-core", "hermes-protocol"], &["abi_stable", "clap", "reqwest", "toml"]),
    (
        "hermes-loader",
        &[
            "hermes-adapter-abi",
            "hermes-adapter-net",
            "hermes-conformance",
            "hermes-core",
            "hermes-protocol",
            "hermes-system",
        ],
        &["rusqlite", "clap", "reqwest"],
    ),
    (
        "hermes-config",
        &["hermes-adapter-net", "hermes-agent", "hermes-core", "hermes-loader", "hermes-protocol"],
        &["rusqlite", "abi_stable", "clap"],
    ),
    (
        "hermes-agent",
        &["hermes-adapter-net", "hermes-core", "hermes-protocol", "hermes-system"],
        &["rusqlite", "abi_stable", "clap"],
    ),
    (
        "hermes-host",
        &[
            "hermes-adapter-abi",
            "hermes-adapter-net",
            "hermes-agent",
            "hermes-config",
            "hermes-conformance",
            "hermes-core",
            "hermes-loader",
            "hermes-markup",
            "hermes-protocol",
            "hermes-store",
            "hermes-system",
        ],
        &["abi_stable", "rusqlite"],
    ),
    // The crate of `adapter new`. Like all external adapters, it uses only the SDK.
    ("adapter-template", &["hermes-adapter-sdk"], &["abi_stable", "rusqlite", "reqwest"]),
    ("hermes-adapter-*", &["hermes-adapter-net", "hermes-adapter-sdk"], &["abi_stable", "rusqlite"]),
];

/// Folders in which `unsafe` is permitted.
const UNSAFE_ROOMS: &[&str] =
    &["host/loader/src/ffi", "adapter-sdk/src/export", "adapter-sdk/abi", "tests/museum", "tests/fixtures"];

#[test]
fn every_package_imports_only_what_its_row_allows() {
    let metadata = cargo_metadata();
    let mut faults = Vec::new();
    for package in array(&metadata["packages"]) {
        let name = text(&package["name"]);
        let manifest = text(&package["manifest_path"]);
        let is_adapter = manifest.starts_with(&format!("{}/adapters/", root().display()));
        let row =
            MAY_IMPORT.iter().find(|(row, ..)| if is_adapter { *row == "hermes-adapter-*" } else { *row == name });
        let Some((_, ours, never)) = row else {
            if !manifest.contains("/tests/") {
                faults.push(format!("{name} has no row in the dependency table"));
            }
            continue;
        };
        for dependency in array(&package["dependencies"]) {
            let dependency_name = text(&dependency["name"]);
            if dependency["kind"] == "dev" {
                continue;
            }
            if dependency_name.starts_with("hermes-") && !ours.contains(&dependency_name) {
                faults.push(format!("{name} imports {dependency_name}"));
            }
            if never.contains(&dependency_name) {
                faults.push(format!("{name} must never know {dependency_name}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_package_names_the_oldest_compiler_of_its_group() {
    let metadata = cargo_metadata();
    let oldest = |name: &str| {
        let packages = array(&metadata["packages"]).iter();
        let package = packages.clone().find(|package| package["name"] == name).expect("a package of this workspace");
        text(&package["rust_version"]).to_owned()
    };
    let (sdk, host) = (oldest("hermes-adapter-sdk"), oldest("hermes-host"));
    let mut faults = Vec::new();
    for package in array(&metadata["packages"]) {
        let folder = text(&package["manifest_path"]).trim_start_matches(root().to_str().expect("a path")).to_owned();
        let is_adapter = ["/adapter-sdk/", "/adapters/", "/tests/fixtures/", "/tests/museum/"];
        let expected = if is_adapter.iter().any(|group| folder.starts_with(group)) { &sdk } else { &host };
        if package["rust_version"] != expected.as_str() {
            faults.push(format!("{folder}: rust-version must be {expected}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (page, named) in [
        ("adapter-sdk/README.md", format!("Adapters need Rust {sdk} or newer")),
        ("adapter-sdk/GUIDE.md", format!("You need Rust {sdk} or newer")),
        ("tests/museum/run", format!("minimum={sdk}\n")),
        (".github/CONTRIBUTING.md", format!("Rust {host} or newer")),
    ] {
        let source = fs::read_to_string(root().join(page)).expect("the page exists");
        assert!(source.contains(&named), "{page} does not name `{named}`");
    }
}

#[test]
fn one_tls_stack_is_linked() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock exists");
    let names: BTreeSet<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("name = ")).map(|name| name.trim_matches('"')).collect();
    assert!(names.contains("rustls"), "the lock file was not understood");
    for stranger in ["aws-lc-rs", "aws-lc-sys", "openssl-sys", "native-tls"] {
        assert!(!names.contains(stranger), "{stranger} is in the lock file; TLS is rustls with ring");
    }
}

#[test]
fn unsafe_stands_only_in_its_rooms() {
    let mut faults = Vec::new();
    for (path, source) in rust_sources() {
        if UNSAFE_ROOMS.iter().any(|room| path.starts_with(room)) {
            continue;
        }
        for (number, line) in source.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|word| code.contains(word))
                && !code.contains('"')
            {
                faults.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "unsafe outside its rooms:\n{}", faults.join("\n"));
}

#[test]
fn the_host_and_the_sdk_contain_no_adapters_name() {
    let names: Vec<String> = fs::read_dir(root().join("adapters"))
        .expect("adapters/ exists")
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        // `echo` is also the name of a runtime.
        .filter(|name| name != "echo")
        .chain(["discord", "slack", "matrix", "whatsapp"].map(str::to_owned))
        .collect();
    /// The variables of the Python gateway, whose names contain those of platforms.
    const OF_ANOTHER_GATEWAY: &str = "host/config/src/foreign.rs";
    let mut faults = Vec::new();
    for (path, source) in rust_sources().into_iter().filter(|(path, _)| path != OF_ANOTHER_GATEWAY) {
        if !(path.starts_with("host/") || path.starts_with("adapter-sdk/src")) {
            continue;
        }
        if path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let production = source.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in production.lines().enumerate() {
            // A text dialect is a protocol word that any adapter may declare.
            let code = line.split("//").next().unwrap_or_default().to_lowercase();
            let code = code.replace("dialect::telegram", "").replace("dialect::discord", "");
            if let Some(name) = names.iter().find(|name| names_it(&code, name)) {
                faults.push(format!("{path}:{}: {name}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "an adapter is known by name:\n{}", faults.join("\n"));
}

/// Returns true if `code` contains `name` as a word.
fn names_it(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        !joins(before) && !joins(after)
    })
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    let words = ["todo!(", "unimplemented!(", "#[ignore", "dbg!("];
    let mut faults = Vec::new();
    for (path, source) in rust_sources() {
        if path == "tests/tidy/main.rs" {
            continue;
        }
        for (number, line) in source.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                faults.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_test_waits_by_the_clock() {
    let mut faults = Vec::new();
    for (path, source) in rust_sources() {
        let in_tests = path.ends_with("tests.rs") || path.contains("/tests/");
        if !in_tests || path.starts_with("tests/fixtures") || path == "tests/tidy/main.rs" {
            continue;
        }
        for (number, line) in source.lines().enumerate() {
            // A poll inside a loop with a deadline has a comment on its line, and so has an adapter that must
            // block its thread, where the sleep itself is under test.
            let says_why = ["// poll", "// misbehaves"].iter().any(|why| line.contains(why));
            if line.contains("thread::sleep(") && !says_why {
                faults.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "wait for the state instead:\n{}", faults.join("\n"));
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let mut numbers: Vec<u32> = fs::read_dir(root().join("host/store/migrations"))
        .expect("host/store/migrations exists")
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".sql"))
        .map(|name| name[..4].parse().unwrap_or_else(|_| panic!("{name} does not begin with four digits")))
        .collect();
    numbers.sort_unstable();
    let expected: Vec<u32> = (1..).take(numbers.len()).collect();
    assert!(!numbers.is_empty(), "there is no migration");
    assert_eq!(numbers, expected);
}

#[test]
fn every_abi_function_carries_its_tag() {
    let source = fs::read_to_string(root().join("adapter-sdk/abi/src/lib.rs")).expect("the abi crate exists");
    let lines: Vec<&str> = source.lines().collect();
    let mut functions = 0;
    for (number, line) in lines.iter().enumerate() {
        if !line.contains(": extern \"C\" fn") {
            continue;
        }
        functions += 1;
        let comment: Vec<&str> = lines[..number]
            .iter()
            .rev()
            .take_while(|l| l.trim().starts_with("///") || l.trim().starts_with("#["))
            .copied()
            .collect();
        assert!(
            comment.iter().any(|l| l.contains("`[") && l.contains("]`")),
            "line {}: no thread and state tag: {line}",
            number + 1
        );
    }
    assert!(functions >= 12, "only {functions} functions found");
}

#[test]
fn the_top_of_the_repository_is_as_drawn() {
    let allowed: BTreeSet<&str> =
        ["Cargo.toml", "Cargo.lock", "plugins.toml", "README.md", "host", "adapter-sdk", "adapters", "tests"].into();
    let tracked = run("git", &["ls-files"]);
    let top: BTreeSet<&str> = tracked
        .lines()
        .map(|path| path.split('/').next().unwrap_or(path))
        .filter(|name| !name.starts_with('.'))
        .collect();
    let strange: Vec<_> = top.difference(&allowed).collect();
    assert!(strange.is_empty(), "not in the plan of the rooms: {strange:?}");
}

#[test]
fn the_tree_names_no_machine_of_its_makers() {
    /// The shell policy and its commands name fictitious home folders.
    const OF_THE_POLICY: [&str; 2] = ["host/agent/src/shell_policy/", "host/src/surface/cli/tool.rs"];
    let mut faults = Vec::new();
    let all = run("git", &["ls-files"]);
    for path in all.lines().filter(|path| !OF_THE_POLICY.iter().any(|folder| path.starts_with(folder))) {
        let Ok(source) = fs::read_to_string(root().join(path)) else { continue };
        for (number, line) in source.lines().enumerate() {
            if ["/wo|rk/", "/ro|ot/", "/ho|me/"].iter().any(|folder| line.contains(&folder.replace('|', ""))) {
                faults.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "a path of one machine:\n{}", faults.join("\n"));
}

#[test]
fn the_readme_commands_are_the_ones_that_are_run() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md exists");
    let ci = fs::read_to_string(root().join(".ci/run")).expect(".ci/run exists");
    for command in ["cargo build --release --workspace", "cargo test --workspace"] {
        assert!(readme.contains(command), "the README does not name `{command}`");
        assert!(ci.contains(command), ".ci/run does not run `{command}`");
    }
}

#[test]
fn every_setting_is_used_where_the_host_works() {
    let model = fs::read_to_string(root().join("host/config/src/model.rs")).expect("the model of the configuration");
    let mut settings = Vec::new();
    let mut within = "";
    for line in model.lines() {
        match line.strip_prefix("pub struct ") {
            Some(name) => within = name.trim_end_matches(" {"),
            None if line.starts_with('}') => within = "",
            None => {}
        }
        if let Some(field) = line.strip_prefix("    pub ").and_then(|field| field.split_once(':')) {
            // These two have only one permitted value, which is the behaviour of the host.
            if within.ends_with("Config") && !["busy", "profile"].contains(&field.0) {
                settings.push(field.0.to_owned());
            }
        }
    }
    assert!(settings.len() > 40, "the model was not understood: {settings:?}");
    let sources = rust_sources();
    // The configuration modules only fill in the fields; their plans for adapters and for access use them.
    let works = |path: &str| {
        let uses = ["host/config/src/plans.rs", "host/config/src/prepare.rs"];
        path.starts_with("host/")
            && !path.contains("/tests")
            && (!path.starts_with("host/config/") || uses.contains(&path))
    };
    let code: Vec<&str> = sources.iter().filter(|(path, _)| works(path)).map(|(_, source)| source.as_str()).collect();
    settings.retain(|field| !code.iter().any(|source| reads_field(source, field)));
    assert!(settings.is_empty(), "settings without an effect: {settings:?}");
}

/// Returns true if `source` accesses `.field` other than as a method call.
fn reads_field(source: &str, field: &str) -> bool {
    source.match_indices(&format!(".{field}")).any(|(at, found)| {
        let after = source[at + found.len()..].chars().next();
        after.is_none_or(|c| c != '(' && c != '_' && !c.is_ascii_alphanumeric())
    })
}

/// First words of a doc block without a concrete subject.
const NO_SUBJECT: &[&str] = &[
    "What",
    "Who",
    "Whom",
    "Whose",
    "Whoever",
    "Whatever",
    "How",
    "However",
    "Where",
    "Wherever",
    "Why",
    "When",
    "Whenever",
    "Which",
    "Whichever",
    "Whether",
    "That",
    "Those",
    "They",
    "It",
];

#[test]
fn every_doc_block_begins_with_a_noun_or_a_verb() {
    let mut faults = Vec::new();
    for (path, source) in rust_sources() {
        let mut in_block = false;
        for (number, line) in source.lines().enumerate() {
            let line = line.trim_start();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let (Some(text), false) = (doc, in_block) {
                let first = text.trim_start().split([' ', ',', '\'']).next().unwrap_or_default();
                if NO_SUBJECT.contains(&first) && !text.trim_end().ends_with('?') {
                    faults.push(format!("{path}:{}:{text}", number + 1));
                }
            }
            // An empty line begins a new paragraph.
            in_block = doc.is_some_and(|text| !text.trim().is_empty());
        }
    }
    assert!(faults.is_empty(), "a doc block without a subject:\n{}", faults.join("\n"));
}

#[test]
fn every_test_that_a_decision_names_exists() {
    let mut defined: BTreeSet<String> = BTreeSet::new();
    for path in run("git", &["ls-files", "*.rs", "*.py"]).lines() {
        let Ok(source) = fs::read_to_string(root().join(path)) else { continue };
        for line in source.lines() {
            let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ");
            if let Some(rest) = line.strip_prefix("fn ").or_else(|| line.strip_prefix("def ")) {
                defined.insert(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
            }
        }
    }
    let mut missing = Vec::new();
    let pages = run("git", &["ls-files", "host/docs/decisions/*.md"]);
    for path in pages.lines() {
        let Ok(page) = fs::read_to_string(root().join(path)) else { continue };
        let sentence = |name: &&str| {
            let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            is_name && name.matches('_').count() >= 4
        };
        let named = page.split('`').skip(1).step_by(2).filter(sentence);
        missing.extend(named.filter(|name| !defined.contains(*name)).map(|name| format!("{path}: {name}")));
    }
    assert!(pages.lines().count() > 40, "the decisions were not found");
    assert!(missing.is_empty(), "a decision names a test that does not exist:\n{}", missing.join("\n"));
}

#[test]
fn the_architecture_page_is_short() {
    let page = fs::read_to_string(root().join("host/docs/architecture.md")).expect("the page exists");
    assert!(page.lines().count() <= 150, "host/docs/architecture.md has more than 150 lines");
}

#[test]
fn every_adapter_has_a_page_and_a_row() {
    let table = fs::read_to_string(root().join("adapters/README.md")).expect("adapters/README.md exists");
    for entry in fs::read_dir(root().join("adapters")).expect("adapters/ exists").filter_map(Result::ok) {
        if !entry.path().join("Cargo.toml").exists() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(entry.path().join("README.md").exists(), "adapters/{name} has no README.md");
        assert!(table.contains(&format!("| [{name}]({name}/README.md)")), "adapters/README.md has no row for {name}");
        let library = fs::read_to_string(entry.path().join("src/lib.rs")).unwrap_or_default();
        assert!(library.contains("#![forbid(unsafe_code)]"), "adapters/{name} does not forbid unsafe code");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

fn rust_sources() -> BTreeMap<String, String> {
    let sources: BTreeMap<String, String> = run("git", &["ls-files", "*.rs"])
        .lines()
        .filter_map(|path| Some((path.to_owned(), fs::read_to_string(root().join(path)).ok()?)))
        .collect();
    assert!(sources.len() > 20, "git lists only {} sources", sources.len());
    sources
}

fn cargo_metadata() -> Value {
    serde_json::from_str(&run(env!("CARGO"), &["metadata", "--no-deps", "--format-version", "1", "--offline"]))
        .expect("cargo prints JSON")
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().expect("the program starts");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

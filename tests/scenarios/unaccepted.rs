//! A library in the plugins folder that was not accepted: its file is read, and no command runs its code.

use std::{fs, path::Path, process::Command};

use hermes_tests::{World, artefacts};
use serde_json::Value;

const GOOD: &str = "[adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n\n";
/// Configuration without a sandbox, so that the mark reveals any execution.
const HEAD: &str =
    "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\nconfine = \"off\"\n\n[agent]\nruntime = \"echo\"\n\n";

/// Builds a library with the manifest of the hostile adapter, named `intruder`, whose constructor creates the
/// mark file. Its `auto_enable` variable exists in every process.
fn intrude(world: &World, mark: &Path) {
    let hostile = artefacts().fixture("hostile").display().to_string();
    let mut manifest: Value =
        serde_json::from_str(&world.told(&["adapter", "inspect", &hostile, "--json"])).expect("a manifest is JSON");
    manifest["id"] = "intruder".into();
    manifest["env"] = serde_json::json!([{ "name": "PATH", "key": "token", "enables": true }]);
    let bytes: Vec<String> = manifest.to_string().bytes().map(|byte| byte.to_string()).collect();
    let text = format!(
        "#include <stdio.h>\n\
         __attribute__((section(\".hermes.adapter\"), used)) const unsigned char SECTION[] = {{{}}};\n\
         __attribute__((constructor)) static void first(void) {{ fclose(fopen(\"{}\", \"w\")); }}\n",
        bytes.join(","),
        mark.display()
    );
    let source = world.home().join("intruder.c");
    fs::write(&source, text).expect("the folder is ours");
    let library = world.plugins().join("intruder.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output();
    let built = built.expect("the linker of every Rust build is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::remove_file(source).expect("the folder is ours");
}

#[test]
fn no_command_runs_a_library_that_nobody_has_accepted() {
    let mut world = World::with("");
    world.configure(&format!("{HEAD}{GOOD}"));
    let mark = world.home().join("mark");
    intrude(&world, &mark);
    let library = world.plugins().join("intruder.so").display().to_string();
    let commands: [&[&str]; 7] = [
        &["config", "sample"],
        &["config", "schema"],
        &["config", "show"],
        &["config", "check"],
        &["adapter", "list"],
        &["adapter", "inspect", &library],
        &["status"],
    ];
    let run_all = |world: &World| {
        for command in commands {
            let output = world.cli(command);
            assert!(!mark.exists(), "{command:?} ran it: {}", String::from_utf8_lossy(&output.stdout));
        }
    };
    run_all(&world);
    let sample = world.told(&["config", "sample"]);
    assert!(sample.contains("[adapter.intruder]"), "it is read: {sample}");
    world.start();
    world.wait_state("scripted", "online");
    run_all(&world);
    world.told(&["reload"]);
    run_all(&world);
    assert_eq!(world.adapter("intruder").expect("it is listed")["state"], "available", "no variable starts it");

    // A section alone does not permit a check to run it.
    world.configure(&format!("{HEAD}{GOOD}[adapter.intruder]\n"));
    run_all(&world);
    let checked = world.cli(&["config", "check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("is not accepted") && said.contains("`hermes-host adapter add"), "{said}");
    assert_eq!(world.stop(), Some(0));

    // A command that names the file explicitly runs it.
    world.cli(&["adapter", "check", &library]);
    assert!(mark.exists(), "the mark shows what runs");
}

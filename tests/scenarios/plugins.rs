//! Bad plugins: each has a precise error, and the other adapters are not affected.

use std::{fs, os::unix::fs::PermissionsExt};

use hermes_tests::{Isolation, World, artefacts, until};
use serde_json::json;

const GOOD: &str = "[adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n\n";
const HEAD: &str = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n";

/// Returns a world with the good adapter and a bad one.
fn beside_a_good_one(section: &str, add: impl FnOnce(&World)) -> World {
    let mut world = World::with(GOOD);
    world.configure(&format!("{HEAD}{GOOD}{section}"));
    add(&world);
    world.start();
    world
}

/// Asserts that the bad adapter fails with these words and the good one answers.
fn fails_with(mut world: World, name: &str, words: &[&str]) {
    let adapter = world.wait_state(name, "failed");
    let reason = adapter["reason"].as_str().unwrap_or_default().to_owned();
    for word in words {
        assert!(reason.contains(word), "{word:?} is not in {reason:?}");
    }
    let listed = world.told(&["adapter", "list"]);
    assert!(listed.contains("failed"), "{listed}");
    let chat = world.scripted.chat("7");
    chat.says("does the good one answer");
    chat.hears(1);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_file_that_is_no_library_is_named() {
    let world = beside_a_good_one("[adapter.bad]\n", |world| {
        fs::write(world.plugins().join("bad.so"), "this is text").unwrap();
    });
    // The file does not reveal its id, so the section finds no plugin, and the listing names the file.
    let listed = world.told(&["adapter", "list"]);
    assert!(listed.contains("bad.so"), "{listed}");
    fails_with(world, "bad", &["bad"]);
}

#[test]
fn a_configured_adapter_without_a_file_is_an_error_and_a_file_without_a_section_is_not() {
    let world = beside_a_good_one("[adapter.nowhere]\n", |world| {
        world.install(&artefacts().fixture("hostile"), "hostile.so");
    });
    let listed = world.told(&["adapter", "list"]);
    assert!(listed.contains("hostile") && listed.contains("available"), "{listed}");
    fails_with(world, "nowhere", &["nowhere"]);
}

#[test]
fn a_world_writable_file_is_refused_with_the_command_that_mends_it() {
    let world = beside_a_good_one("[adapter.hostile]\nmode = \"ok\"\n", |world| {
        let path = world.install(&artefacts().fixture("hostile"), "hostile.so");
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    });
    fails_with(world, "hostile", &["chmod"]);
}

#[test]
fn changed_bytes_are_refused_until_they_are_added() {
    let mut world = beside_a_good_one("[adapter.hostile]\nmode = \"ok\"\n", |world| {
        world.install(&artefacts().fixture("hostile"), "hostile.so");
    });
    world.wait_state("hostile", "online");
    world.stop();
    let path = world.plugins().join("hostile.so");
    let mut bytes = fs::read(&path).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    world.start();
    let adapter = world.wait_state("hostile", "failed");
    assert!(adapter["reason"].as_str().unwrap_or_default().contains("adapter add"), "{adapter}");
    world.told(&["adapter", "add", path.to_str().unwrap()]);
    world.told(&["adapter", "reload", "hostile"]);
    world.wait_state("hostile", "online");
    world.stop();
}

#[test]
fn two_files_of_one_id_both_stay_out() {
    let world = beside_a_good_one("[adapter.hostile]\nmode = \"ok\"\n", |world| {
        world.install(&artefacts().fixture("hostile"), "one.so");
        let other = world.install(&artefacts().fixture("hostile"), "two.so");
        let mut bytes = fs::read(&other).unwrap();
        bytes.push(0);
        fs::write(&other, bytes).unwrap();
    });
    fails_with(world, "hostile", &["one.so", "two.so"]);
}

#[test]
fn a_configuration_that_the_schema_refuses_is_named() {
    let world = beside_a_good_one("[adapter.hostile]\nmode = 7\n", |world| {
        world.install(&artefacts().fixture("hostile"), "hostile.so");
    });
    fails_with(world, "hostile", &["mode"]);
}

#[test]
fn creating_that_panics_or_never_returns_leaves_the_others_alone() {
    Isolation::both(|isolation| {
        for mode in ["panic_in_create", "hang_in_create"] {
            let section = format!("[adapter.hostile]\nmode = {mode:?}\nisolation = {:?}\n", isolation.word());
            let mut world = beside_a_good_one(&section, |world| {
                world.install(&artefacts().fixture("hostile"), "hostile.so");
            });
            let adapter = until(&format!("{mode} is noticed"), 30, || {
                world
                    .adapter("hostile")
                    .filter(|adapter| adapter["reason"].as_str().is_some_and(|reason| !reason.is_empty()))
            });
            assert_ne!(adapter["state"], "online", "{mode}, {isolation:?}: {adapter}");
            let chat = world.scripted.chat("7");
            chat.says("does the good one answer");
            chat.hears(1);
            world.stop();
        }
    });
}

#[test]
fn a_panic_in_send_poisons_the_instance_which_is_rebuilt() {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["7"]);
        world.start();
        let lives = world.scripted.lives();
        world.scripted.tell(json!({ "do": "panic_in", "method": "send" }));
        let chat = world.scripted.chat("7");
        chat.says("question");
        world.scripted.wait_life(lives + 1);
        until("the answer arrives", 60, || {
            chat.received().iter().filter(|text| text.contains("question")).nth(1).map(|_| ())
        });
        world.stop();
    });
}

#[test]
fn an_adapter_that_ends_its_process_is_started_again() {
    for mode in ["abort_in_send", "exit_in_send"] {
        let section = format!("[adapter.hostile]\nmode = {mode:?}\nisolation = \"process\"\nhome_channel = \"1\"\n");
        let mut world = beside_a_good_one(&section, |world| {
            world.install(&artefacts().fixture("hostile"), "hostile.so");
        });
        world.wait_state("hostile", "online");
        world.told(&["send", "hostile:1", "die"]);
        until("the death is noticed", 30, || {
            world
                .adapter("hostile")
                .filter(|adapter| adapter["reason"].as_str().is_some_and(|reason| !reason.is_empty()))
        });
        let chat = world.scripted.chat("7");
        chat.says("does the good one answer");
        chat.hears(1);
        world.wait_state("hostile", "online");
        world.stop();
    }
}

#[test]
fn check_and_inspect_tell_what_a_file_is_without_a_host() {
    let world = World::with(GOOD);
    let library = artefacts().adapter("echo");
    let inspected = world.told(&["adapter", "inspect", library.to_str().unwrap(), "--json"]);
    let manifest: serde_json::Value = serde_json::from_str(&inspected).expect("the manifest is JSON");
    assert_eq!(manifest["id"], "echo");
    world.told(&["adapter", "check", library.to_str().unwrap()]);
    let text = world.home().join("text.so");
    fs::write(&text, "text").unwrap();
    let refused = world.cli(&["adapter", "check", text.to_str().unwrap()]);
    assert_ne!(refused.status.code(), Some(0));
    assert!(!refused.stderr.is_empty() || !refused.stdout.is_empty());
}

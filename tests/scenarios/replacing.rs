//! The lifetime of a library from its addition to its removal, and its replacement by another one.

use std::fs;

use hermes_tests::{Isolation, World, artefacts, until};

const GOOD: &str = "[adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n\n";
const HEAD: &str = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n";

/// Returns the error of a command that must fail.
fn refused(world: &World, arguments: &[&str]) -> String {
    let output = world.cli(arguments);
    assert!(!output.status.success(), "{arguments:?} worked");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_library_is_added_named_changed_added_again_and_removed() {
    let mut world = World::with(GOOD);
    world.start();
    let built = artefacts().fixture("hostile");
    let added = world.told(&["adapter", "add", built.to_str().unwrap()]);
    assert!(added.contains("hostile 1.0.0 is accepted") && added.contains("add [adapter.hostile]"), "{added}");
    let lock = || fs::read_to_string(world.home().join("plugins.lock")).expect("what is accepted is written down");
    let first = lock();
    assert!(first.contains("id = \"hostile\"") && first.contains("accepted_by = \"adapter add\""), "{first}");

    world.configure(&format!("{HEAD}{GOOD}[adapter.hostile]\nmode = \"ok\"\n"));
    world.told(&["reload"]);
    let running = world.wait_state("hostile", "online");
    assert_eq!(running["isolation"], "process");
    assert!(running["confined"].as_str().is_some_and(|words| words.contains("landlock")), "{running}");

    let file = world.plugins().join("hostile.so");
    let path = file.to_str().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes.push(0);
    fs::write(&file, bytes).unwrap();
    let changed = refused(&world, &["adapter", "reload", "hostile"]);
    assert!(changed.contains(&format!("run `hermes-host adapter add {path}`")), "{changed}");
    assert!(changed.contains("the running copy keeps running"), "{changed}");
    world.wait_state("hostile", "online");

    let again = world.told(&["adapter", "add", path]);
    assert!(again.contains("`hermes-host adapter reload hostile` starts it"), "{again}");
    assert_ne!(lock(), first);
    let reloaded = world.told(&["adapter", "reload", "hostile"]);
    assert!(reloaded.contains("hostile is running from the current file"), "{reloaded}");
    world.wait_state("hostile", "online");

    world.configure(&format!("{HEAD}{GOOD}"));
    world.told(&["reload"]);
    let removed = world.told(&["adapter", "remove", "hostile"]);
    assert!(removed.contains("hostile was removed") && !file.exists(), "{removed}");
    assert!(!lock().contains("hostile"));
    let nothing = refused(&world, &["adapter", "remove", "hostile"]);
    assert!(nothing.contains("has the id \"hostile\""), "{nothing}");
    let unknown = refused(&world, &["adapter", "reload", "hostile"]);
    assert!(unknown.contains("there is no instance \"hostile\""), "{unknown}");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_new_one_takes_the_place_of_the_old_one_without_a_gap() {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["7"]);
        world.start();
        let chat = world.scripted.chat("7");
        chat.says("before");
        chat.hears(1);
        let since = world.adapter("scripted").expect("it runs")["since"].clone();
        world.told(&["adapter", "reload", "scripted"]);
        world.scripted.wait_life(2);
        let disconnected =
            |seen: &[serde_json::Value]| seen.iter().any(|said| said["saw"] == "disconnect").then_some(());
        world.scripted.wait("the old one says goodbye", 30, disconnected);
        let now = world.wait_state("scripted", "online");
        assert_eq!(now["since"], since, "it was online all the time");
        chat.says("after");
        let heard = chat.hears(2);
        assert!(heard[1].contains("after"), "{heard:?}");
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn a_section_that_does_not_work_leaves_the_one_before_it_in_force() {
    let mut world = World::with(GOOD);
    let head = HEAD.replace("status = \"\"\n", "status = \"\"\nadapter_connect_s = 1\n");
    world.configure(&format!("{head}{GOOD}"));
    world.start();
    world.wait_state("scripted", "online");
    world.configure(&format!("{head}{}", GOOD.replace("SOCKET", "/nowhere/platform.sock")));
    // The reload may report the failure or a timeout; the status shows the failure in the end.
    world.cli(&["reload"]);
    let told = until("what did not work is told", 60, || {
        let adapter = world.adapter("scripted")?;
        adapter["reason"].as_str().filter(|reason| reason.starts_with("not replaced")).map(str::to_owned)
    });
    assert!(told.contains("the changed section did not come online"), "{told}");
    let chat = world.scripted.chat("7");
    chat.says("does it still answer");
    chat.hears(1);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_reload_tells_what_does_not_run_and_tries_it_again_the_next_time() {
    let mut world = World::with(GOOD);
    world.start();
    world.wait_state("scripted", "online");
    let with_another = format!("{HEAD}{GOOD}[adapter.late]\nplugin = \"hostile\"\nmode = \"ok\"\n");
    world.configure(&with_another);
    let missing = refused(&world, &["reload"]);
    assert!(missing.contains("reloaded with problems:\n  late: ") && missing.contains("\"hostile\""), "{missing}");
    world.wait_state("late", "failed");
    world.told(&["adapter", "add", artefacts().fixture("hostile").to_str().unwrap()]);
    // The section is unchanged; the fault was outside of it. The adapter need not be online within the wait of
    // the reload.
    world.cli(&["reload"]);
    world.wait_state("late", "online");

    let warned = |world: &World| world.status()["warnings"].to_string().contains("outdated configuration: the reload");
    assert!(!warned(&world));
    world.configure("[host]\nstauts = 1\n");
    assert_eq!(world.cli(&["reload"]).status.code(), Some(78));
    assert!(warned(&world), "whoever comes later hears that the file is not what runs");
    world.configure(&with_another);
    world.told(&["reload"]);
    assert!(!warned(&world));
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn the_check_refuses_a_library_that_the_host_would_not_start_and_warns_of_a_file_that_is_none() {
    let world = World::with(&format!("{GOOD}[adapter.mine]\nplugin = \"hostile\"\n"));
    let one = world.install(&artefacts().fixture("hostile"), "one.so");
    fs::write(world.plugins().join("letter.so"), "no library").unwrap();
    world.told(&["adapter", "add", one.to_str().unwrap()]);
    let checked = world.cli(&["config", "check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert!(said.contains("warning: ") && said.contains("letter.so"), "{said}");

    let two = world.install(&artefacts().fixture("hostile"), "two.so");
    let mut bytes = fs::read(&two).unwrap();
    bytes.push(0);
    fs::write(&two, bytes).unwrap();
    let refused = refused(&world, &["config", "check"]);
    assert!(refused.contains("adapter.mine: its library is rejected: "), "{refused}");
    assert!(refused.contains("one.so") && refused.contains("two.so"), "{refused}");
    let error = refused.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(!error.contains("adapter add"), "that mends nothing here: {refused}");
}

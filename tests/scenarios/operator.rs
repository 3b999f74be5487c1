//! The host, from the point of view of its operator.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hermes_tests::{Isolation, Scripted, World, artefacts, until};
use serde_json::{Value, json};

#[test]
fn status_names_the_host_its_adapters_and_its_queues() {
    let mut world = World::new(Isolation::Process, &["7"]);
    world.start();
    let adapter = world.wait_state("scripted", "online");
    assert_eq!((adapter["plugin"].as_str(), adapter["isolation"].as_str()), (Some("scripted"), Some("process")));
    let status = world.status();
    assert_eq!(status["host"]["pid"], world.pid());
    for queue in ["inbox", "turns", "outbox", "handoffs", "dead"] {
        assert!(status["queues"][queue].is_number(), "{queue} in {status}");
    }
    world.stop();
    assert_eq!(world.cli(&["status"]).status.code(), Some(69), "nobody answers");
}

#[test]
fn a_second_host_on_the_same_home_is_refused() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    let second = world.cli(&["run"]);
    assert_ne!(second.status.code(), Some(0));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&world.pid().to_string()), "it says who holds the home: {said}");
    assert!(world.runs());
    world.stop();
}

#[test]
fn send_goes_through_the_outbox_and_a_wrong_target_is_named() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    world.told(&["send", "scripted:7", "from the operator"]);
    assert!(world.scripted.chat("7").hears(1)[0].contains("from the operator"));
    let wrong = world.cli(&["send", "scriptd:7", "x"]);
    assert_ne!(wrong.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("scripted"), "the nearest name is offered");
    world.stop();
}

#[test]
fn sessions_are_listed_shown_searched_ended_and_deleted() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    let chat = world.scripted.chat("7");
    chat.says("the word is xylophone");
    chat.hears(1);
    let listed: Value = serde_json::from_str(&world.told(&["session", "list", "--all", "--json"])).expect("JSON");
    let id = listed[0]["id"].as_str().expect("a session has an id").to_owned();
    assert!(world.told(&["session", "show", &id]).contains("xylophone"));
    assert!(world.told(&["session", "search", "xylophone"]).contains(&id));
    assert!(world.told(&["session", "search", "xyloph\"* OR ("]).len() < 10_000, "any text can be searched for");
    world.told(&["session", "end", &id]);
    chat.says("a new one");
    chat.hears(2);
    let listed: Value = serde_json::from_str(&world.told(&["session", "list", "--all", "--json"])).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    world.told(&["session", "delete", "--yes", &id]);
    assert!(!world.told(&["session", "list", "--all", "--json"]).contains(&id));
    // The same output without a running host.
    world.stop();
    let listed: Value = serde_json::from_str(&world.told(&["session", "list", "--all", "--json"])).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn what_is_dead_can_be_sent_again_or_dropped() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.scripted.answers(json!({ "type": "unknown", "detail": "cut" }), 2);
    let chat = world.scripted.chat("7");
    chat.says("question");
    chat.hears(2);
    let dead = until("it is given up", 20, || {
        let listed: Value = serde_json::from_str(&world.told(&["outbox", "list", "--json"])).expect("JSON");
        listed.as_array()?.iter().find(|one| one["state"] == "abandoned").cloned()
    });
    let id = dead["id"].to_string();
    assert!(world.told(&["outbox", "show", &id]).contains("question"));
    world.told(&["outbox", "retry", &id]);
    chat.hears(3);
    until("it is settled", 20, || (world.status()["queues"]["dead"] == 0).then_some(()));
    world.stop();
}

#[test]
fn what_waits_for_an_instance_that_another_one_paused_goes_out_in_order_when_it_is_resumed() {
    let mut world = World::with("");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = Scripted::listen(folder.path().join("other.sock"));
    let section = |instance: &str, socket: &str| {
        format!(
            "[adapter.{instance}]\nplugin = \"scripted\"\nisolation = \"process\"\nsocket = \"{socket}\"\n\
             access = {{ allowed_users = [\"7\"] }}\n\n"
        )
    };
    let head = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n";
    let other_socket = other.path().display().to_string();
    world.configure(&format!("{head}{}{}", section("one", "SOCKET"), section("two", &other_socket)));
    world.start();
    world.wait_state("one", "online");
    world.wait_state("two", "online");
    // A chat is known once a message arrived from it.
    let there = other.chat("7");
    there.says("hello");
    there.hears(1);
    let chat = world.scripted.chat("7");
    chat.says("/platform pause two");
    assert!(chat.hears(1)[0].contains("stays off until you resume it"), "{:?}", chat.received());
    until("it is off", 20, || world.adapter("two").filter(|adapter| adapter["state"] != "online"));
    for text in ["first", "second", "third"] {
        world.told(&["send", "two:7", text]);
    }
    let listed = world.told(&["outbox", "list"]);
    assert_eq!(listed.matches("two:7").count(), 3, "{listed}");
    chat.says("still here");
    assert!(chat.hears(2)[1].contains("still here"), "the other instance goes on");
    assert_eq!(other.sent().len(), 1, "{:?}", other.sent());
    chat.says("/platform resume two");
    world.wait_state("two", "online");
    assert_eq!(there.hears(4)[1..], ["first", "second", "third"]);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn an_adapter_is_switched_off_and_on_without_the_others_noticing() {
    let mut world = World::new(Isolation::Process, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    world.told(&["adapter", "disable", "scripted"]);
    until("it is off", 20, || world.adapter("scripted").filter(|adapter| adapter["state"] != "online"));
    let lives = world.scripted.lives();
    world.told(&["adapter", "enable", "scripted"]);
    world.scripted.wait_life(lives + 1);
    world.wait_state("scripted", "online");
    let chat = world.scripted.chat("7");
    chat.says("back");
    chat.hears(1);
    world.stop();
}

#[test]
fn a_planned_stop_lets_the_running_turn_end_and_exits_with_zero() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    let chat = world.scripted.chat("7");
    for number in 0..10 {
        chat.says(&format!("message {number}."));
    }
    world.scripted.wait("all are taken", 20, |seen| {
        (seen.iter().filter(|said| said["emitted"].is_object()).count() >= 10).then_some(())
    });
    assert_eq!(world.stop(), Some(0));
    world.start();
    let answers = until("all are answered", 20, || {
        let answers: Vec<_> = chat.received().into_iter().filter(|text| !text.starts_with("Queued (")).collect();
        (answers.len() >= 10).then_some(answers)
    });
    let told: Vec<_> = (0..10)
        .map(|number| answers.iter().filter(|answer| answer.contains(&format!("message {number}."))).count())
        .collect();
    assert_eq!(told, [1; 10], "each once, before or after the restart: {answers:?}");
    world.stop();
}

#[test]
fn a_restart_under_a_service_manager_has_its_own_exit_code() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.environment("INVOCATION_ID", "of-a-unit");
    world.start();
    world.wait_state("scripted", "online");
    world.told(&["restart"]);
    assert_eq!(world.ended(), Some(75));
}

#[test]
fn a_host_that_no_service_manager_runs_starts_itself_again() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    let (pid, epoch) = (world.pid(), world.status()["host"]["epoch"].clone());
    for life in 1..=2 {
        let lives = world.scripted.lives();
        assert_eq!(world.told(&["restart"]), "The host is restarting.\n");
        world.scripted.wait_life(lives + 1);
        let status = until(&format!("life {life} answers"), 40, || {
            let told = world.told_if_up(&["status", "--json"])?;
            let status: Value = serde_json::from_str(&told).expect("the status is JSON");
            (status["host"]["state"] == "online").then_some(status)
        });
        assert_eq!(status["host"]["pid"], pid, "whoever watches the process still does");
        assert!(status["host"]["epoch"].as_i64() >= epoch.as_i64().map(|epoch| epoch + life), "{status}");
    }
    let chat = world.scripted.chat("7");
    chat.says("still there?");
    chat.hears(1);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_host_that_would_not_start_again_is_not_restarted() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    world.configure("[host]\nstauts = \"\"\n");
    let refused = world.cli(&["restart"]);
    assert_eq!(refused.status.code(), Some(78));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the host would not start again") && said.contains("host.stauts: unknown key"), "{said}");
    let chat = world.scripted.chat("7");
    chat.says("still there?");
    chat.hears(1);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_program_that_cannot_run_does_not_replace_the_host() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    let (folder, real) = (tempfile::tempdir().expect("a temporary folder"), artefacts().host());
    let program = folder.path().join("hermes-host");
    let put = |bytes: &[u8], mode: u32| {
        // The running program keeps its file; another file takes its name.
        let new = folder.path().join("new");
        fs::write(&new, bytes).expect("the folder is ours");
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).expect("the file is ours");
        fs::rename(&new, &program).expect("the folder is ours");
    };
    let good = fs::read(&real).expect("the host was built");
    put(&good, 0o755);
    world.use_host(&program);
    world.start();
    world.wait_state("scripted", "online");
    let pid = world.pid();
    // Commands use the program that works.
    world.use_host(&real);
    let broken: [(&[u8], u32, &str); 6] = [
        (b"not a program", 0o755, "cannot be executed"),
        (&good[..good.len() / 3], 0o755, ""),
        (&good, 0o644, "cannot be executed"),
        (b"#!/bin/sh\nexit 0\n", 0o755, "it is not the program hermes-host"),
        (b"#!/bin/sh\nkill -9 $$\n", 0o755, "its startup check ended with signal: 9"),
        (b"#!/bin/sh\necho broken >&2; exit 1\n", 0o755, "exit status: 1 (broken)"),
    ];
    for (bytes, mode, why) in broken {
        put(bytes, mode);
        let refused = world.cli(&["restart"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("the host would not start again"), "{why}: {said}");
        assert!(said.contains(why), "{why}: {said}");
    }
    fs::remove_file(&program).expect("it is there");
    assert!(!world.cli(&["restart"]).status.success(), "there is none");
    assert!(world.runs() && world.status()["host"]["pid"] == pid);
    // An older release cannot check itself.
    let older = format!(
        "#!/bin/sh\ncase \"$*\" in *--version) echo hermes-host 0.9; exit 0;; *would-start) exit 2;; esac\nexec {} \"$@\"\n",
        real.display()
    );
    put(older.as_bytes(), 0o755);
    let lives = world.scripted.lives();
    world.told(&["restart"]);
    world.scripted.wait_life(lives + 1);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn only_run_uses_the_file_of_the_working_folder() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    let checkout = tempfile::tempdir().expect("a temporary folder");
    fs::write(checkout.path().join("plugins.toml"), "[agent]\nruntime = \"none of this\"\n").expect("it is ours");
    let ask = |world: &World, arguments: &[&str]| {
        let output = world.bare(arguments).current_dir(checkout.path()).output().expect("the command starts");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, said) = ask(&world, &["config", "check"]);
    assert!(code == Some(0) && said.contains("./plugins.toml was not read"), "{said}");
    for arguments in [&["config", "check", "--config", "."][..], &["run"]] {
        let (code, said) = ask(&world, arguments);
        assert!(code == Some(78) && said.contains("none of this"), "{arguments:?}: {said}");
    }
    // Commands use the file of the running host.
    world.start();
    world.wait_state("scripted", "online");
    let (code, said) = ask(&world, &["config", "check"]);
    let file = world.status()["host"]["config"].as_str().expect("it has one").to_owned();
    assert!(code == Some(0) && said.contains(&format!("{file}: no problems")), "{file}: {said}");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_configuration_that_cannot_be_read_does_not_start_and_names_every_problem() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.configure("[host]\nstauts = \"\"\n\n[agent]\nruntime = 3\n");
    world.launch();
    assert_eq!(world.ended(), Some(78));
    let log = world.log();
    assert!(log.contains("stauts") && log.contains("status") && log.contains("runtime"), "{log}");
    let checked = world.cli(&["config", "check"]);
    assert_eq!(checked.status.code(), Some(78));
}

#[test]
fn the_check_tells_what_the_host_and_what_adapters_find_in_one_answer() {
    let world = World::new(Isolation::InProcess, &["7"]);
    // Only an accepted library is asked about its values.
    world.told(&["adapter", "add", &world.plugins().join("scripted.so").display().to_string()]);
    world.configure(
        "[host]\nplugins_dir = \"plugins\"\nstauts = \"\"\n\n[agent]\nruntime = \"openai\"\nbase_url = \"api.example\"\n\
         cwd = \"/no/such/folder\"\n\n\
         [adapter.scripted]\nsocket = \"here\"\nhome_channel = \"nowhere\"\n\
         access = { allowed_users = [\"@ann\"] }\n\n\
         [adapter.other]\nplugin = \"scripted\"\nsokcet = \"here\"\nsocket = \"there\"\n",
    );
    let checked = world.cli(&["config", "check"]);
    assert_eq!(checked.status.code(), Some(78));
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    for part in [
        "host.stauts: unknown key; did you mean `host.status`?",
        "agent.base_url: cannot be used",
        "adapter.scripted: `socket` is \"here\"; write the whole path, from / on; and `home_channel` is \"nowhere\"",
        "adapter.scripted.access.allowed_users: \"@ann\" is a name",
        "adapter.other.sokcet: unknown key; did you mean `adapter.other.socket`?",
        "adapter.other: `socket` is \"there\"; write the whole path",
        "agent.cwd: the folder /no/such/folder does not exist; create it, or set another one",
        "the configuration has 7 problems",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}

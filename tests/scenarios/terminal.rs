//! The terminal in scripts: the built binary, with and without a running host.

use std::process::Output;
use std::thread;

use hermes_tests::{Isolation, World, until};
use serde_json::Value;

const TEST_WORDS: &str = "[host]\nstatus = \"\"\n\n[agent]\nruntime = \"echo\"\ntest_words = true\n";

/// Returns a home whose agent accepts test words, without adapters and without a host.
fn alone() -> World {
    let world = World::new(Isolation::InProcess, &["7"]);
    world.configure(TEST_WORDS);
    world
}

fn out(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn sessions(world: &World) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&world.told(&["session", "list", "--all", "--json"])).expect("JSON");
    listed.as_array().cloned().expect("a list")
}

#[test]
fn a_script_gets_the_answer_and_nothing_else_with_and_without_a_host() {
    let mut world = alone();
    let asked = |world: &World| out(&world.cli(&["chat", "-m", "what is **up**?"]));
    assert_eq!(asked(&world), (Some(0), "what is **up**?\n".to_owned(), String::new()), "without a host");
    world.launch();
    world.status();
    assert_eq!(asked(&world), (Some(0), "what is **up**?\n".to_owned(), String::new()), "with one");
    assert_eq!(sessions(&world).len(), 2, "each has a session of its own");
    assert_eq!(world.told(&["outbox", "list", "--json"]).trim(), "[]", "every answer was taken");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_turn_that_fails_is_an_error_of_the_script() {
    let world = alone();
    let (code, said, error) = out(&world.cli(&["chat", "-m", "/fail half an answer"]));
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert!(error.starts_with("error: ") && error.contains("failed"), "{error}");
    let (code, said, error) = out(&world.cli(&["chat", "-m", "  "]));
    assert_eq!((code, said.as_str()), (Some(2), ""));
    assert!(error.contains("the message is empty"), "{error}");
}

#[test]
fn what_is_no_answer_is_no_answer_of_the_script_either() {
    let world = alone();
    for (said, why) in [
        ("/empty", "finished without an answer"),
        ("/bogus", "There is no command /bogus"),
        ("/quit", "This command works only in an interactive terminal"),
    ] {
        let (code, answer, error) = out(&world.cli(&["chat", "-m", said]));
        assert_eq!((code, answer.as_str()), (Some(1), ""), "{said}: {error}");
        assert!(error.contains(why), "{said}: {error}");
    }
}

#[test]
fn a_drain_is_undone_and_says_what_it_is_meanwhile() {
    let mut world = alone();
    world.launch();
    world.status();
    let (code, _, error) = out(&world.cli(&["drain", "--undo"]));
    assert!(code == Some(1) && error.contains("not draining"), "{error}");
    assert!(world.told(&["drain"]).contains("`hermes-host drain --undo` to accept events again"));
    assert!(world.told(&["reload"]).contains("draining"), "who reloads is told");
    let (code, answer, error) = out(&world.cli(&["chat", "-m", "hello"]));
    assert_eq!((code, answer.as_str()), (Some(1), ""));
    assert!(error.contains("the host is draining"), "{error}");
    assert!(world.told(&["drain", "--undo"]).contains("accepts events again"));
    assert_eq!(world.told(&["chat", "-m", "hello"]), "hello\n");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn what_a_script_says_has_its_time() {
    let mut world = alone();
    world.launch();
    world.status();
    world.told(&["chat", "-m", "the first"]);
    let id = sessions(&world)[0]["id"].as_str().expect("an id").to_owned();
    world.told(&["chat", "--resume", &id, "-m", "the second"]);
    let no_chat = || world.told(&["session", "show", &id, "--json"]);
    let shown: Value = serde_json::from_str(&no_chat()).expect("JSON");
    let said = shown["messages"].as_array().expect("messages");
    assert!(said.iter().all(|message| message["at_ms"].as_i64() > Some(0)), "each has its time: {shown}");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn one_conversation_goes_on_through_many_scripts() {
    let world = alone();
    world.told(&["chat", "-m", "the first"]);
    let id = sessions(&world)[0]["id"].as_str().expect("an id").to_owned();
    for n in 2..=5 {
        assert_eq!(world.told(&["chat", "--resume", &id, "-m", &format!("turn {n}")]), format!("turn {n}\n"));
    }
    assert!(world.told(&["chat", "--resume", &id, "-m", "/title of the road"]).contains("of the road"));
    assert_eq!(world.told(&["chat", "--resume", "of the road", "-m", "by title"]), "by title\n");
    let shown = world.told(&["session", "show", &id]);
    assert!(shown.contains("the first") && shown.contains("turn 5"), "{shown}");
    assert_eq!(sessions(&world).len(), 1);
    let (code, _, error) = out(&world.cli(&["chat", "--resume", "nothing like it", "-m", "x"]));
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("no session is named") && error.contains("session list"), "{error}");
}

#[test]
fn a_session_of_somebody_else_is_not_the_terminals() {
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.configure(&format!(
        "{TEST_WORDS}\n[adapter.scripted]\nsocket = \"SOCKET\"\naccess = {{ allowed_users = [\"7\"], admins = [\"1\"] }}\n"
    ));
    world.start();
    let chat = world.scripted.chat("7");
    chat.says("mine");
    chat.hears(1);
    let id = sessions(&world)[0]["id"].as_str().expect("an id").to_owned();
    let (code, _, error) = out(&world.cli(&["chat", "--resume", &id, "-m", "x"]));
    assert_eq!(code, Some(1));
    assert!(error.contains("belongs to scripted:7"), "{error}");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_host_takes_over_from_a_terminal_that_runs_one_once_its_turn_is_done() {
    let world = alone();
    let host = || {
        let status = world.told_if_up(&["status", "--json"])?;
        serde_json::from_str::<Value>(&status).expect("JSON")["host"]["pid"].as_u64()
    };
    thread::scope(|scope| {
        let terminal = scope.spawn(|| world.cli(&["chat", "-m", "/slow 300 one two three four five six seven eight"]));
        let first = until("the terminal runs a host", 40, host);
        let (code, _, error) = out(&world.cli(&["session", "list"]));
        assert_eq!(code, Some(0), "who reads asks it as any host: {error}");
        let run = scope.spawn(|| world.cli(&["run"]));
        let (code, answer, error) = out(&terminal.join().expect("it ends"));
        assert_eq!((code, answer.as_str()), (Some(0), "one two three four five six seven eight\n"), "{error}");
        until("another host runs", 40, || host().filter(|pid| *pid != first));
        let (code, _, error) = out(&world.cli(&["run"]));
        assert_eq!(code, Some(1), "a host hands over to nobody");
        assert!(error.contains("another host"), "{error}");
        world.told(&["stop"]);
        assert_eq!(run.join().expect("it ends").status.code(), Some(0));
    });
    assert_eq!(sessions(&world).len(), 1);
}

//! Processes that outlive a turn and a run of the host.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use hermes_agent::tools::group;
use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::runtime::Runtime;

use crate::terminal::nothing_sleeps;
use crate::{Bench, SECRET, Told, context};

/// Command that runs until a file exists, then prints a text and ends.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.02; done; echo over; exit 5";

fn life() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn started(bench: &Bench, more: Value) -> String {
    let mut arguments = json!({"command": UNTIL_GO, "background": true});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let started = bench.terminal(&context("7", true), arguments).await;
    started["process"].as_str().unwrap().to_owned()
}

/// Runs a host in which a command was started, and ends that host while the command still runs.
fn killed_while_it_runs(more: &Value) -> (tempfile::TempDir, Told, String) {
    let first = life();
    let bench = Bench::new();
    let id = first.block_on(started(&bench, more.clone()));
    let Bench { home, notified, .. } = bench;
    first.shutdown_background();
    (home, notified, id)
}

fn exists(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5)); // poll: another process creates it
    }
}

#[test]
fn what_runs_since_an_earlier_life_is_known_again_and_its_end_is_told_once() {
    let (home, notified, id) = killed_while_it_runs(&json!({"notify_on_complete": true}));
    life().block_on(async {
        let bench = Bench::again(home, notified);
        assert_eq!(bench.processes.adopt().await, BTreeSet::from([id.clone()]));
        let listed = bench.process(&context("7", true), json!({"action": "list"})).await;
        assert_eq!(
            (&listed["processes"][0]["process"], &listed["processes"][0]["state"]),
            (&json!(id), &json!("running"))
        );
        std::fs::write(bench.home.path().join("go"), "").unwrap();
        let news = bench.notified.last().await;
        assert!(news.last && news.text.contains("exit code 5") && news.text.ends_with("over\n"), "{news:?}");
        let polled = bench.process(&context("7", true), json!({"action": "poll", "process": id})).await;
        assert_eq!((&polled["exit_code"], &polled["output"]), (&json!(5), &json!("over\n")));
        assert!(bench.processes.adopt().await.is_empty(), "it has no subscriber any more");
        assert_eq!(bench.notified.news.lock().unwrap().len(), 1);
    });
}

#[test]
fn what_ended_between_two_lives_is_told_by_the_second_and_by_no_third() {
    let (home, notified, id) = killed_while_it_runs(&json!({"notify_on_complete": true, "watch_patterns": ["ov"]}));
    std::fs::write(home.path().join("go"), "").unwrap();
    exists(&home.path().join(format!("home/processes/{id}.exit")));
    let home = life().block_on(async {
        let bench = Bench::again(home, notified.clone());
        bench.processes.adopt().await;
        let news = bench.notified.last().await;
        assert!(news.text.contains("printed:\nover") && news.text.contains("exit code 5"), "{news:?}");
        bench.home
    });
    life().block_on(async {
        let bench = Bench::again(home, notified);
        assert!(bench.processes.adopt().await.is_empty());
        let waited = bench.process(&context("7", true), json!({"action": "wait", "process": id})).await;
        assert_eq!(waited["exit_code"], 5, "it is still known");
        assert_eq!(bench.notified.news.lock().unwrap().len(), 1);
    });
}

#[test]
fn what_runs_since_an_earlier_life_can_be_killed() {
    let (home, notified, id) = killed_while_it_runs(&json!({"notify_on_complete": true}));
    life().block_on(async {
        let bench = Bench::again(home, notified);
        bench.processes.adopt().await;
        let killed = bench.process(&context("7", true), json!({"action": "kill", "process": id})).await;
        assert!(killed["how"].as_str().unwrap().contains("SIGKILL"), "{killed}");
        assert!(nothing_sleeps(&bench).await);
        assert!(bench.notified.news.lock().unwrap().is_empty(), "whoever killed it knows");
    });
}

#[test]
fn a_number_that_is_another_process_by_now_is_not_taken_for_it_and_nobody_knows_how_it_ended() {
    let (home, notified) = (tempfile::tempdir().unwrap(), Told::default());
    let folder = home.path().join("home/processes");
    std::fs::create_dir_all(&folder).unwrap();
    let record = json!({
        "id": "p1", "pid": std::process::id(), "mark": "of nobody", "key": "", "session": "s-7",
        "command": "serve", "notify": true, "patterns": [],
    });
    std::fs::write(folder.join("p1.json"), record.to_string()).unwrap();
    notified.subscription.lock().unwrap().push(("p1".to_owned(), context("7", true)));
    life().block_on(async {
        let bench = Bench::again(home, notified);
        bench.processes.adopt().await;
        let news = bench.notified.last().await;
        assert!(news.text.contains("an unknown exit code"), "{news:?}");
        let polled = bench.process(&context("7", true), json!({"action": "poll", "process": "p1"})).await;
        assert_eq!((&polled["state"], &polled["exit_code"]), (&json!("ended"), &json!(null)));
    });
}

#[tokio::test]
async fn whoever_waits_for_the_end_is_not_woken_for_it() {
    let bench = Bench::new();
    let id = started(&bench, json!({"notify_on_complete": true})).await;
    let (context, arguments) = (context("7", true), json!({"action": "wait", "process": id}));
    let goes = async {
        // The wait starts before the file exists.
        tokio::task::yield_now().await;
        std::fs::write(bench.home.path().join("go"), "").unwrap();
    };
    let (waited, ()) = tokio::join!(bench.process(&context, arguments), goes);
    assert_eq!(waited["exit_code"], 5, "{waited}");
    while bench.notified.forgotten.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(bench.notified.news.lock().unwrap().is_empty());
}

#[tokio::test]
async fn of_long_output_the_end_is_kept_and_what_is_gone_is_said() {
    let bench = Bench::new();
    let context = context("7", true);
    let started = bench.terminal(&context, json!({"command": "seq 1 400000", "background": true})).await;
    let id = started["process"].clone();
    let mut waited = bench.process(&context, json!({"action": "wait", "process": id})).await;
    assert!(waited["output"].as_str().unwrap().contains("earlier bytes were dropped"), "{waited}");
    while waited["output"].as_str().unwrap().ends_with("poll again …]") {
        waited = bench.process(&context, json!({"action": "poll", "process": id})).await;
        assert!(!waited["output"].as_str().unwrap().contains("were dropped"), "{waited}");
    }
    assert!(waited["output"].as_str().unwrap().ends_with("\n399999\n400000\n"), "{waited}");
    let files = std::fs::read_dir(bench.home.path().join("home/processes")).unwrap().flatten();
    let kept: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(kept <= (1 << 20) + 10_000, "{kept}");
}

#[tokio::test]
async fn of_what_is_printed_line_by_line_nothing_goes_missing_where_a_piece_is_full() {
    let bench = Bench::new();
    let context = context("7", true);
    // The pause after each line makes each line a separate write and read.
    let lines = "printf %0262100d 0; for i in $(seq 1 120); do echo \" line $i.\"; sleep 0.005; done";
    let arguments = json!({
        "command": lines, "background": true, "notify_on_complete": true, "watch_patterns": ["line 100."],
    });
    let started = bench.terminal(&context, arguments).await;
    let news = bench.notified.with("exit code").await;
    assert!(news.text.contains("printed:\n line 100.\n"), "{news:?}");
    assert!(news.text.contains("line 1.\n") && news.text.ends_with(" line 120.\n"), "{news:?}");
    let poll = json!({"action": "poll", "process": started["process"]});
    let mut printed = String::new();
    loop {
        let polled = bench.process(&context, poll.clone()).await;
        let output = polled["output"].as_str().unwrap();
        assert!(!output.contains("were dropped"), "{output}");
        printed.push_str(output);
        if !output.ends_with("poll again …]") {
            break;
        }
    }
    for line in 1..=120 {
        assert!(printed.contains(&format!(" line {line}.\n")), "{line} is missing");
    }
}

#[tokio::test]
async fn what_a_command_leaves_running_is_running_still_prints_and_can_be_killed() {
    let bench = Bench::new();
    let context = context("7", true);
    let arguments = json!({
        "command": "(until [ -e go ]; do sleep 0.02; done; echo late; sleep 600) & echo up; exit 3",
        "background": true, "notify_on_complete": true, "watch_patterns": ["late"],
    });
    let started = bench.terminal(&context, arguments).await;
    let news = bench.notified.last().await;
    assert!(
        !news.last && news.text.contains("exit code 3, but a process that it started is still running"),
        "{news:?}"
    );
    std::fs::write(bench.home.path().join("go"), "").unwrap();
    let late = bench.notified.with("printed:\nlate").await;
    assert!(!late.last && !late.text.contains("exit code"), "{late:?}");
    let waited = bench.process(&context, json!({"action": "wait", "process": started["process"]})).await;
    assert_eq!((&waited["state"], &waited["exit_code"]), (&json!("running"), &json!(3)), "{waited}");
    let killed = bench.process(&context, json!({"action": "kill", "process": started["process"]})).await;
    assert_eq!((&killed["state"], &killed["exit_code"]), (&json!("ended"), &json!(3)), "{killed}");
    assert!(nothing_sleeps(&bench).await);
    assert_eq!(bench.notified.news.lock().unwrap().len(), 2, "whoever killed it knows");
}

#[tokio::test]
async fn what_is_left_of_a_group_whose_leader_was_ended_from_outside_can_be_killed() {
    let bench = Bench::new();
    let context = context("7", true);
    let started = bench.terminal(&context, json!({"command": "sleep 600", "background": true})).await;
    let leader = bench.processes.of(&context)[0].pid;
    let killed = std::process::Command::new("kill").args(["-KILL", &leader.to_string()]).status().unwrap();
    assert!(killed.success());
    let waited = bench.process(&context, json!({"action": "wait", "process": started["process"]})).await;
    assert_eq!(waited["state"], "ended", "{waited}");
    bench.process(&context, json!({"action": "kill", "process": started["process"]})).await;
    assert!(nothing_sleeps(&bench).await);
}

#[tokio::test]
async fn a_command_that_is_killed_prints_nothing_of_the_shell_that_ran_it() {
    let bench = Bench::new();
    let context = context("7", true);
    let command = "echo up; echo odd >&2; echo $$ >pid; echo >there; exec sleep 600";
    let started = bench.terminal(&context, json!({"command": command, "background": true})).await;
    assert!(started["process"].is_string(), "{started}");
    exists(&bench.home.path().join("there"));
    // The outer shell would report the kill.
    let pid = std::fs::read_to_string(bench.home.path().join("pid")).unwrap();
    assert!(std::process::Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap().success());
    let waited = bench.process(&context, json!({"action": "wait", "process": started["process"]})).await;
    assert_eq!((&waited["exit_code"], &waited["output"]), (&json!(137), &json!("up\nodd\n")), "{waited}");
}

#[tokio::test]
async fn a_secret_across_the_cut_of_a_command_keeps_no_part_of_it() {
    let bench = Bench::new();
    let context = context("7", true);
    // The first 300 bytes are shown.
    let command = format!(": {}{SECRET} {}", "x".repeat(290), "y".repeat(100));
    let arguments = json!({"command": command, "background": true, "notify_on_complete": true});
    bench.terminal(&context, arguments).await;
    let news = bench.notified.last().await;
    assert!(!news.text.contains(&SECRET[..4]), "{news:?}");
    let listed = bench.process(&context, json!({"action": "list"})).await.to_string();
    assert!(listed.contains("xxx") && !listed.contains(&SECRET[..4]), "{listed}");
}

#[tokio::test]
async fn a_command_that_is_waited_for_ends_when_nobody_holds_its_lifeline() {
    let bench = Bench::new();
    let program = Path::new("/bin/sh");
    let mark = group::mark(hermes_core::ids::TurnId(1));
    let mut shell = tokio::process::Command::new(program);
    shell.env("HERMES_TOOL_PROCESS", &mark).current_dir(bench.home.path());
    let code = "echo up; sleep 600 & setsid -f sleep 600; wait";
    let held = group::start(shell, program, code, &mark).unwrap();
    let group::ForegroundCommand { mut child, mut printed, lifeline } = held;
    let mut up = [0; 3];
    printed.read_exact(&mut up).await.unwrap();
    assert_eq!(&up, b"up\n");
    drop(lifeline);
    assert!(!child.wait().await.unwrap().success());
    assert!(nothing_sleeps(&bench).await);
}

#[tokio::test]
async fn two_that_ask_once_under_one_key_do_not_see_each_others_processes() {
    let bench = Bench::new();
    let once = |session: &str| TurnContext {
        session_id: Some(SessionId(session.to_owned())),
        session_key: "agent:main:terminal:dm:once-1".to_owned(),
        async_delivery: false,
        ..TurnContext::default()
    };
    let started = bench.terminal(&once("a"), json!({"command": "sleep 600", "background": true})).await;
    assert_eq!(bench.process(&once("b"), json!({"action": "list"})).await, json!({"processes": []}));
    let killed = json!({"action": "kill", "process": started["process"]});
    assert!(bench.process(&once("b"), killed.clone()).await["error"].is_string());
    assert_eq!(bench.process(&once("a"), killed).await["state"], "ended");
}

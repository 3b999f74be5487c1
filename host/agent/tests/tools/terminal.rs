//! Commands in the foreground and background, their approval and their end.

use std::time::Duration;

use hermes_agent::EventSink;
use hermes_agent::questions::{Answer, ApprovalRequest, TurnQuestion, Verdict};
use hermes_agent::tools::RESULT_BYTES_MAX;
use hermes_agent::tools::Tool;
use serde_json::json;
use tokio::time::timeout;

use crate::{Bench, call_asked, context, side};

#[tokio::test]
async fn a_command_says_its_exit_code_and_everything_it_printed_in_order() {
    let bench = Bench::new();
    let ran =
        bench.terminal(&context("7", true), json!({"command": "echo out; echo err >&2; echo more; exit 3"})).await;
    assert_eq!(ran, json!({"exit_code": 3, "output": "out\nerr\nmore\n"}));
    let plain = bench.terminal(&context("7", true), json!({"command": r"printf '\033[31mred\033[0m\n'"})).await;
    assert_eq!(plain["output"], "red\n");
    std::fs::create_dir(bench.home.path().join("sub")).unwrap();
    let moved = bench.terminal(&context("7", true), json!({"command": "pwd", "cwd": "sub"})).await;
    assert!(moved["output"].as_str().unwrap().ends_with("/sub\n"), "{moved}");
    let nowhere = bench.terminal(&context("7", true), json!({"command": "pwd", "cwd": "nowhere"})).await;
    assert!(nowhere["error"].as_str().unwrap().contains("does not exist"), "{nowhere}");
}

#[tokio::test]
async fn endless_output_is_bounded_and_what_is_left_out_is_said() {
    let bench = Bench::new();
    let ran = bench.terminal(&context("7", true), json!({"command": "echo first; seq 1 200000; echo last"})).await;
    let output = ran["output"].as_str().unwrap();
    assert!(output.len() < RESULT_BYTES_MAX && output.starts_with("first\n") && output.ends_with("last\n"));
    assert!(output.contains("bytes omitted"));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let bench = Bench::new();
    let code = "echo begun; sleep 600 & (setsid sleep 600 &) ; sleep 600";
    let ran = bench.terminal(&context("7", true), json!({"command": code, "timeout": 1})).await;
    assert_eq!((&ran["timed_out"], &ran["output"]), (&json!(true), &json!("begun\n")));
    assert!(nothing_sleeps(&bench).await, "children and those that left the group are ended, too");
}

#[tokio::test]
async fn a_turn_that_is_dropped_takes_its_processes_with_it() {
    let bench = Bench::new();
    let context = context("7", true);
    let (sink, _) = EventSink::channel();
    let side = side(sink);
    let command = "touch begun; sleep 600 & setsid -f sleep 600; wait";
    let call = bench.terminal.call(&context, json!({"command": command}), &side);
    let begun = async {
        while !bench.home.path().join("begun").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = call => panic!("it waits"),
        () = begun => {}
    }
    assert!(nothing_sleeps(&bench).await);
}

#[tokio::test]
async fn what_a_command_leaves_behind_does_not_live_on_unasked() {
    let bench = Bench::new();
    let ran =
        bench.terminal(&context("7", true), json!({"command": "nohup sleep 600 >/dev/null 2>&1 & echo gone"})).await;
    assert_eq!(ran["output"], "gone\n");
    assert!(nothing_sleeps(&bench).await);
}

/// Returns true if all processes in the folder of this test end within a limited time.
pub async fn nothing_sleeps(bench: &Bench) -> bool {
    let folder = bench.home.path().to_owned();
    let lives = move || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok()).any(|cwd| cwd == folder)
    };
    let gone = async {
        while lives() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), gone).await.is_ok()
}

#[tokio::test]
async fn a_dangerous_command_runs_only_once_somebody_approved_it() {
    let bench = Bench::new();
    let file = bench.home.path().join("precious");
    std::fs::write(&file, "x").unwrap();
    let arguments = json!({"command": "rm precious", "why": "it is in the way"});
    let context = context("7", true);
    let denied = Answer::Denied { why: Some("not that one".to_owned()) };
    let (result, asked) = call_asked(&bench.terminal, &context, arguments.clone(), denied).await;
    assert!(result["error"].as_str().unwrap().contains("not that one"), "{result}");
    assert!(
        result["error"].as_str().unwrap().contains("deletes files"),
        "the model learns what it was about: {result}"
    );
    let Some(TurnQuestion::Approval(ApprovalRequest { kind, action, why, danger })) = asked else {
        panic!("{asked:?}")
    };
    assert_eq!((kind.as_str(), action.as_str(), why.as_str()), ("shell: rm", "rm precious", "it is in the way"));
    assert!(danger.unwrap().contains("deletes files"));
    for gone in [Answer::Unanswered, Answer::Gone] {
        let (result, _) = call_asked(&bench.terminal, &context, arguments.clone(), gone).await;
        assert!(result["error"].as_str().unwrap().starts_with("not run"), "{result}");
    }
    assert!(file.exists());
    let approved = Answer::Approved(Verdict::Once);
    let (result, _) = call_asked(&bench.terminal, &context, arguments, approved.clone()).await;
    assert_eq!(result["exit_code"], 0);
    assert!(!file.exists());
    let (_, asked) = call_asked(&bench.terminal, &context, json!({"command": "ls"}), approved).await;
    assert_eq!(asked, None, "nobody is asked about everyday work");
}

#[tokio::test]
async fn whoever_approves_sees_the_folder_and_the_hosts_own_is_asked_for() {
    let bench = Bench::new();
    let context = context("7", true);
    let folder = bench.home.path().join("there");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(bench.home.path().join("home/sessions")).unwrap();
    std::os::unix::fs::symlink(bench.home.path().join("home"), bench.home.path().join("link")).unwrap();
    for (command, cwd, says) in [
        ("rm x", folder.to_str().unwrap(), folder.to_str().unwrap()),
        ("ls", "home/sessions", "home/sessions"),
        ("ls", "link", "the host's own folder"),
    ] {
        let arguments = json!({"command": command, "cwd": cwd});
        let (_, asked) = call_asked(&bench.terminal, &context, arguments, Answer::Denied { why: None }).await;
        let Some(TurnQuestion::Approval(ApprovalRequest { danger, .. })) = asked else {
            panic!("{command} in {cwd} is not asked for")
        };
        assert!(danger.as_ref().unwrap().contains(says), "{danger:?}");
    }
    let arguments = json!({"command": "ls", "cwd": "there"});
    let (_, asked) = call_asked(&bench.terminal, &context, arguments, Answer::Denied { why: None }).await;
    assert_eq!(asked, None);
}

#[tokio::test]
async fn a_process_in_the_background_is_polled_written_to_waited_for_and_killed() {
    let bench = Bench::new();
    let context = context("7", true);
    let code = "echo ready; while read line; do echo \"got $line\"; done";
    let started = bench.terminal(&context, json!({"command": code, "background": true})).await;
    let id = started["process"].as_str().unwrap().to_owned();
    let mut seen = String::new();
    let mut wait_for = async |words: &str| {
        while !seen.contains(words) {
            let polled = bench.process(&context, json!({"action": "poll", "process": id})).await;
            assert_eq!(polled["state"], "running", "{polled}");
            seen.push_str(polled["output"].as_str().unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    wait_for("ready").await;
    let written = bench.process(&context, json!({"action": "write", "process": id, "text": "hello\n"})).await;
    assert_eq!(written, json!({"written": 6}));
    wait_for("got hello").await;
    let listed = bench.process(&context, json!({"action": "list"})).await;
    assert_eq!(listed["processes"].as_array().unwrap().len(), 1);
    let killed = bench.process(&context, json!({"action": "kill", "process": id})).await;
    assert_eq!((&killed["state"], &killed["exit_code"]), (&json!("ended"), &json!(null)), "{killed}");
    assert!(killed["how"].as_str().unwrap().contains("SIGKILL"), "{killed}");
    assert!(nothing_sleeps(&bench).await);
    let late = bench.process(&context, json!({"action": "write", "process": id, "text": "x"})).await;
    assert!(late["error"].as_str().unwrap().contains("has ended"), "{late}");

    let short = bench.terminal(&context, json!({"command": "echo bye; exit 4", "background": true})).await;
    let waited = bench.process(&context, json!({"action": "wait", "process": short["process"], "timeout": 60})).await;
    assert_eq!(
        (&waited["state"], &waited["exit_code"], &waited["output"]),
        (&json!("ended"), &json!(4), &json!("bye\n"))
    );
}

#[tokio::test]
async fn nobody_reaches_the_processes_of_another_conversation() {
    let bench = Bench::new();
    let started = bench.terminal(&context("7", true), json!({"command": "sleep 600", "background": true})).await;
    for action in ["poll", "kill", "write", "wait"] {
        let other = bench
            .process(&context("8", true), json!({"action": action, "process": started["process"], "text": "x"}))
            .await;
        assert!(other["error"].as_str().unwrap().contains("no background process"), "{other}");
    }
    assert_eq!(bench.process(&context("8", true), json!({"action": "list"})).await, json!({"processes": []}));
    bench.process(&context("7", true), json!({"action": "kill", "process": started["process"]})).await;
    assert!(nothing_sleeps(&bench).await);
}

#[tokio::test]
async fn what_a_process_reads_is_judged_like_a_command() {
    let bench = Bench::new();
    let context = context("7", true);
    let started = bench.terminal(&context, json!({"command": "cat", "background": true})).await;
    let text = json!({"action": "write", "process": started["process"], "text": "rm -rf x\n"});
    let (result, asked) = call_asked(&bench.process, &context, text, Answer::Denied { why: None }).await;
    assert!(asked.is_some() && result["error"].as_str().unwrap().contains("denied"), "{result}");
    bench.process(&context, json!({"action": "kill", "process": started["process"]})).await;
}

#[tokio::test]
async fn what_is_written_in_pieces_is_judged_as_the_whole_that_a_shell_would_read() {
    let bench = Bench::new();
    let context = context("7", true);
    let started = bench.terminal(&context, json!({"command": "cat", "background": true})).await;
    let write = async |text: &str| {
        let arguments = json!({"action": "write", "process": started["process"], "text": text});
        call_asked(&bench.process, &context, arguments, Answer::Approved(Verdict::Once)).await.1
    };
    let action = |asked: Option<TurnQuestion>| match asked {
        Some(TurnQuestion::Approval(approval)) => approval.action,
        other => panic!("{other:?} asks for no approval"),
    };
    assert_eq!(write("echo one\n").await, None);
    assert_eq!(write("r").await, None, "half a word");
    assert_eq!(action(write("m -rf x\n").await), "rm -rf x\n");
    assert_eq!(write("echo two\n").await, None, "what is finished is not judged again");
    assert_eq!(write("git \\\n").await, None, "a line that goes on");
    assert_eq!(action(write("reset --hard\n").await), "git \\\nreset --hard\n");
    assert_eq!(write("cat <<E\nE\n").await, None);
    assert_eq!(action(write("rm -rf y\n").await), "cat <<E\nE\nrm -rf y\n", "what ends a text is judged with it");
    bench.process(&context, json!({"action": "kill", "process": started["process"]})).await;
}

#[tokio::test]
async fn whatever_is_written_to_a_shell_needs_approval() {
    let bench = Bench::new();
    let context = context("7", true);
    for command in ["bash", "exec sh -s"] {
        let arguments = json!({"command": command, "background": true});
        let approved = Answer::Approved(Verdict::Once);
        let (started, asked) = call_asked(&bench.terminal, &context, arguments, approved).await;
        assert!(asked.is_some(), "{command}");
        let text = json!({"action": "write", "process": started["process"], "text": "ls\n"});
        let (result, asked) = call_asked(&bench.process, &context, text, Answer::Denied { why: None }).await;
        let Some(TurnQuestion::Approval(approval)) = asked else { panic!("{command}: {result}") };
        assert_eq!((approval.kind.as_str(), approval.action.as_str()), ("", "ls\n"), "it lasts for nothing else");
        bench.process(&context, json!({"action": "kill", "process": started["process"]})).await;
    }
}

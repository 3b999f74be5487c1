//! The replacement of a running instance: in parallel if the platform allows two connections, otherwise in sequence;
//! and the rollback.

use std::path::Path;

use hermes_protocol::SendOutcome;
use serde_json::{Value, json};

use super::{lives::SNAKE, support::*};
use crate::{AdapterEvent, AdapterHandle, AdapterPlan, AdapterState, Adapters, IsolationChoice, Outcome, accept};

const BOTH: [IsolationChoice; 2] = [IsolationChoice::InProcess, IsolationChoice::Process];

/// The program of the other tests, which allows two connections and tells its process by the messages it delivers.
/// A text that is a path is delivered, after an event, once that file exists; the file beside it says that it waits.
fn parallel() -> String {
    let held = r#"
    if method == "send" and json.loads(body)["text"].startswith("/"):
        threading.Thread(target=hold, args=(number, json.loads(body)["text"])).start()
        continue
    if method == "connect" and "refuse" in json.loads(hello)["envelope"]["config"]:
        write(2, number, 1, {"type": "fatal", "reason": "no such account", "mend": "name another"})
        continue
    if method == "send":
"#;
    SNAKE
        .replace("import json, struct, sys", "import json, os, struct, sys, threading, time")
        .replace("\"41\"", "str(os.getpid())")
        .replace("\"abi\": 1}", "\"abi\": 1, \"capabilities\": {\"parallel_connections\": True}}")
        .replace("kind, number, method, _ = read()", "kind, number, method, body = read()")
        .replacen("\n    if method == \"send\":\n", held, 1)
        .replace("kind, _, _, hello = read()", HOLD)
}

const HOLD: &str = r#"
def hold(number, path):
    open(path + ".waits", "w").close()
    while not os.path.exists(path): time.sleep(0.01)
    event = {"type": "message", "event_id": "m:1:1", "at_ms": 1, "chat": {"type": "dm", "id": "1"},
             "sender": {"id": "1"}, "text": "late"}
    rest = struct.pack("<BQiH", 1, 7, 0, 4) + b"emit" + json.dumps(event).encode()
    sys.stdout.buffer.write(struct.pack("<I", len(rest)) + rest)
    write(2, number, 0, {"type": "delivered", "receipt": {"message_ids": [str(os.getpid())], "at_ms": 0}})
kind, _, _, hello = read()
if "die" in json.loads(hello)["envelope"]["config"]: sys.exit("the token s3cret-token is revoked")
"#;

fn program(config: Value) -> AdapterPlan {
    let mut any = plan(IsolationChoice::Auto, "ok");
    any.plugin = "snake".to_owned();
    any.config = config;
    any.command = Some(vec!["python3".to_owned(), "-c".to_owned(), parallel()]);
    any
}

async fn delivered(one: &AdapterHandle, text: &str) -> String {
    match one.send(&message(text)).await {
        SendOutcome::Delivered { receipt } => receipt.message_ids[0].clone(),
        other => panic!("{text}: {other:?}"),
    }
}

async fn until_exists(path: &Path) {
    let there = async {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, there).await.expect("the file does not come");
}

/// Waits until `is` accepts the reason of the online instance in `status`.
async fn until_told(adapters: &Adapters, is: impl Fn(&str) -> bool) -> String {
    let told = async {
        loop {
            let status = adapters.statuses().remove(0);
            match status.reason.filter(|reason| status.state == "online" && is(reason)) {
                Some(reason) => return reason,
                None => tokio::task::yield_now().await,
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.unwrap_or_else(|_| panic!("it is not told: {:?}", adapters.statuses()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_one_takes_the_place_of_the_old_one_which_finishes_what_it_sends() {
    let home = Home::empty();
    let release = home.path().join("media/one/release");
    let mut host = Host::start(home.settings(), vec![program(json!({}))]);
    let one = host.one();
    host.event(|event| matches!(event, AdapterEvent::Ready { .. }).then_some(())).await;
    let old = delivered(&one, "x").await;
    let held = tokio::spawn({
        let (one, text) = (one.clone(), release.display().to_string());
        async move { delivered(&one, &text).await }
    });
    until_exists(&release.with_extension("waits")).await;

    assert_eq!(host.adapters.replace("one").unwrap().outcome(PATIENCE).await, Outcome::Online);
    assert!(one.is_online());
    // The new incarnation is set up like the first one, including its menu of commands.
    host.event(|event| matches!(event, AdapterEvent::Ready { .. }).then_some(())).await;
    let new = delivered(&one, "x").await;
    assert_ne!(new, old, "it is another process");
    assert!(!held.is_finished());
    assert!(host.services.calls.lock().unwrap().is_empty());
    std::fs::write(&release, "").unwrap();
    assert_eq!(held.await.unwrap(), old, "what was begun is finished where it was begun");
    let emitted = async {
        while host.services.calls.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, emitted).await.expect("what the old one emits is taken until it is gone");
    while let Ok(event) = host.events.try_recv() {
        let AdapterEvent::State { state, .. } = event else { continue };
        assert!(state.is_online(), "there was a gap: {state:?}");
    }
    assert_eq!(host.adapters.statuses()[0].restarts, 0);
    host.adapters.shutdown(PATIENCE).await;
    assert_eq!(one.state(), AdapterState::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_one_that_does_not_come_online_beside_the_old_one_is_given_up() {
    let home = Home::empty();
    let host = Host::start(home.settings(), vec![program(json!({}))]);
    let one = host.one();
    online(&one).await;
    let old = delivered(&one, "x").await;
    host.adapters.apply(vec![program(json!({"refuse": true}))]);
    let told = until_told(&host.adapters, |reason| reason.starts_with("not replaced")).await;
    assert!(
        told.contains(
            "the changed section did not come online (no such account), so the previous version keeps running"
        ),
        "{told}"
    );
    assert!(told.ends_with("correct [adapter.one] and run `hermes-host reload`"), "{told}");
    assert_eq!(delivered(&one, "x").await, old);
    assert_eq!(host.adapters.statuses()[0].code, Some("not_healthy"));

    host.adapters.apply(vec![program(json!({"other": true}))]);
    let replaced = async { while delivered(&one, "x").await == old {} };
    tokio::time::timeout(PATIENCE, replaced).await.expect("the next one is tried");
    assert_eq!(host.adapters.statuses()[0].code, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_last_output_of_a_replacement_is_not_shown() {
    let home = Home::empty();
    let host = Host::start(home.settings(), vec![program(json!({}))]);
    online(&host.one()).await;
    host.adapters.apply(vec![program(json!({"die": true}))]);
    let told = until_told(&host.adapters, |reason| reason.starts_with("not replaced")).await;
    assert!(told.contains("the token *** is revoked"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_that_does_not_come_online_gives_way_to_the_old_one() {
    for (isolation, mode, why) in BOTH.into_iter().flat_map(|isolation| {
        [
            (isolation, "connect_fatal", "the token is revoked"),
            (isolation, "connect_retry", "the platform is down"),
            (isolation, "panic_in_create", "panicked during creation"),
        ]
    }) {
        let home = Home::hostile();
        let mut settings = home.settings();
        settings.create = std::time::Duration::from_secs(5);
        settings.connect = std::time::Duration::from_secs(1);
        settings.backoff_max = std::time::Duration::from_secs(20);
        settings.backoff_first = std::time::Duration::from_secs(20);
        let host = Host::start(settings.clone(), vec![plan(isolation, "ok")]);
        let one = host.one();
        online(&one).await;
        let mut bytes = std::fs::read(home.library()).unwrap();
        bytes.push(0);
        std::fs::write(home.library(), bytes).unwrap();
        accept(&home.library(), "operator", &settings).unwrap();
        host.adapters.apply(vec![plan(isolation, mode)]);
        let told = until_told(&host.adapters, |reason| reason.starts_with("not replaced: the new file")).await;
        assert!(told.contains(why) && told.contains("so the previous version was started again"), "{mode}: {told}");
        assert_eq!(delivered(&one, "x").await, "0", "{mode}: what ran before runs again");

        host.adapters.apply(vec![plan(isolation, "connect_second")]);
        until(&one, "another start", |state| !state.is_online()).await;
        assert_eq!(host.adapters.statuses()[0].code, None, "what was said of the one before does not count");
    }
}

//! The access that an adapter in a process of its own has lost. The kernel of the tests has Landlock and seccomp, or
//! the test reports that it does not: a machine without them cannot show anything.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use hermes_protocol::SendOutcome;
use serde_json::json;

use super::support::*;
use crate::{AdapterHandle, AdapterState, IsolationChoice};

async fn attempt(one: &AdapterHandle, deed: &str) -> Result<(), String> {
    match one.send(&message(&format!("break {deed}"))).await {
        SendOutcome::Delivered { .. } => Ok(()),
        SendOutcome::Refused { detail, .. } => Err(detail),
        other => panic!("{deed}: {other:?}"),
    }
}

async fn refused(one: &AdapterHandle, deed: &str) {
    let went = attempt(one, deed).await;
    let told = went.as_ref().err().map(String::as_str).unwrap_or_default();
    assert!(
        ["Permission denied", "Operation not permitted"].iter().any(|word| told.contains(word)),
        "{deed}: {went:?}"
    );
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_in_a_process_of_its_own_reads_writes_and_reaches_nothing_of_the_hosts() {
    let home = Home::hostile();
    let elsewhere = tempfile::tempdir().unwrap();
    let secrets = ["state.db", ".env", "plugins.toml", "media/other/in/picture"];
    fs::create_dir_all(home.path().join("media/other/in")).unwrap();
    for name in secrets {
        fs::write(home.path().join(name), "secret").unwrap();
    }
    let (open, closed) = (free_port(), free_port());
    let mut isolated = plan(IsolationChoice::Process, "ok");
    isolated.config["token"] = json!(format!("127.0.0.1:{open}"));
    let host = Host::start(home.settings(), vec![isolated]);
    let one = host.one();
    online(&one).await;
    let confined = host.adapters.statuses()[0].confined.clone().expect("its process said what it gave up");
    assert!(confined.contains("landlock v") && confined.ends_with(", seccomp"), "this kernel lacks it: {confined}");

    for name in secrets.into_iter().chain(["plugins.lock"]) {
        let deed = format!("read {}", home.path().join(name).display());
        refused(&one, &deed).await;
    }
    let (pid, outside) = (std::process::id(), elsewhere.path().display());
    let written = home.path().join("written");
    for deed in [
        format!("list {}", home.path().display()),
        format!("write {}", written.display()),
        format!("write {outside}/x"),
        format!("list {outside}"),
        format!("read /proc/{pid}/environ"),
        format!("seize {pid}"),
        "unshare".to_owned(),
    ] {
        refused(&one, &deed).await;
    }
    assert!(!written.exists());
    if confined.contains("ports") {
        let deed = format!("bind {closed}");
        refused(&one, &deed).await;
    }
    if confined.contains("signals") {
        let deed = format!("kill {pid}");
        refused(&one, &deed).await;
    }

    let media = home.path().join("media/one/in");
    fs::create_dir_all(&media).unwrap();
    let own = media.join("picture").display().to_string();
    for deed in [
        format!("write {own}"),
        format!("read {own}"),
        format!("bind {open}"),
        "read /etc/hosts".to_owned(),
        "list /usr/lib".to_owned(),
        "run /bin/true".to_owned(),
        "thread".to_owned(),
    ] {
        let went = attempt(&one, &deed).await;
        assert_eq!(went, Ok(()), "{deed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_switches_it_off_is_told_nothing_of_it() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.confine = false;
    fs::write(home.path().join(".env"), "secret").unwrap();
    let host = Host::start(settings, vec![plan(IsolationChoice::Process, "ok")]);
    online(&host.one()).await;
    assert_eq!(host.adapters.statuses()[0].confined, None);
    // The same attempt succeeds without the sandbox, so the test above shows the effect of the sandbox.
    let deed = format!("read {}", home.path().join(".env").display());
    assert_eq!(attempt(&host.one(), &deed).await, Ok(()));
}

/// Writes an adapter in Python that imports a module beside it and lists in its label the named files that it could
/// read.
fn program(folder: &Path, files: &[&Path]) {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    fs::write(folder.join("beside.py"), format!("FILES = {}\n", json!(names))).unwrap();
    fs::write(folder.join("chat.py"), PROGRAM).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_the_home_reads_its_own_code_and_nothing_of_the_hosts() {
    let home = Home::empty();
    let secrets = [
        "state.db",
        "state.db-wal",
        "state.db.v3",
        ".env",
        "my-config.toml",
        "plugins.lock",
        "logs/host.log",
        "processes/p1/out",
        "memory/notes.md",
        "media/other/in/picture",
        "data/other/file",
        "a_file_of_tomorrow",
    ]
    .map(|name| home.path().join(name));
    for path in &secrets {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let open = home.path().join("beside.py");
    program(home.path(), &secrets.iter().chain([&open]).map(PathBuf::as_path).collect::<Vec<_>>());
    let mut any = plan(IsolationChoice::Auto, "ok");
    any.plugin = "snake".to_owned();
    any.config = json!({});
    any.command = Some(vec!["python3".to_owned(), "./chat.py".to_owned()]);
    any.folder = Some(home.path().to_owned());
    let mut settings = home.settings();
    settings.private = vec![home.path().join("my-config.toml")];
    let host = Host::start(settings, vec![any]);
    let one = host.one();
    until(&one, "online", AdapterState::is_online).await;
    assert_eq!(one.manifest().label, format!("read {}", open.display()));
    let confined = one.confined().expect("what is in force is told for a program, too");
    assert!(confined.contains("landlock v") && !confined.contains("ports"), "{confined}");
}

const PROGRAM: &str = r#"
import json, struct, sys
from beside import FILES
def read():
    head = sys.stdin.buffer.read(4)
    if len(head) < 4: sys.exit(0)
    rest = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
    kind, number, status, length = struct.unpack("<BQiH", rest[:15])
    return kind, number, rest[15:15 + length].decode(), rest[15 + length:]
def write(kind, number, status, body):
    rest = struct.pack("<BQiH", kind, number, status, 0) + json.dumps(body).encode()
    sys.stdout.buffer.write(struct.pack("<I", len(rest)) + rest)
    sys.stdout.buffer.flush()
def readable(path):
    try: open(path).close()
    except OSError: return False
    return True
kind, _, _, hello = read()
label = "read " + " ".join(path for path in FILES if readable(path))
write(5, 0, 0, {"protocol": 1, "manifest": {
    "schema": 1, "id": "snake", "label": label, "version": "1.0.0", "sdk": "1.0.0", "abi": 1}})
while True:
    kind, number, method, _ = read()
    if kind == 1 and method != "run": write(2, number, 0, {})
"#;

//! Libraries whose constructors misbehave, and libraries that nobody has accepted.
//!
//! Each is a library in C around the hostile adapter: its constructor runs first, and the rest works normally.

use std::{fmt::Write as _, fs, path::Path, process::Command, time::Duration};

use serde_json::json;

use super::support::*;
use crate::{AdapterState, IsolationChoice, Judgement, accept, discover, elf, schema};

const HEADERS: &str = "#include <pthread.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    static void *thread(void *p) { for (;;) usleep(1000); return p; }\n";

/// Builds the hostile adapter with this constructor.
fn build(to: &Path, constructor: &str) {
    let hostile = hostile_library();
    let manifest = elf::read(&hostile).unwrap().manifest_json;
    let bytes = manifest.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "{byte},").unwrap();
        text
    });
    let source = to.with_extension("c");
    let text = format!(
        "{HEADERS}__attribute__((section(\".hermes.adapter\"), used)) const unsigned char SECTION[] = {{{bytes}}};\n\
         __attribute__((constructor)) static void first(void) {{ {constructor} }}\n"
    );
    fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).arg(to).arg(&source).arg(&hostile);
    // The adapter's library is linked by name, so the loader needs its folder.
    cc.arg(format!("-Wl,-rpath,{}", hostile.parent().unwrap().display()));
    let built = cc.output().expect("the linker of every Rust build is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::remove_file(source).unwrap();
}

/// A home with this library, whose children may read the library of the adapter.
fn home_of(constructor: &str) -> (Home, crate::AdapterSettings) {
    let home = Home::empty();
    build(&home.library(), constructor);
    let mut settings = home.settings();
    settings.confine = false;
    (home, settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constructor_that_does_nothing_is_loaded() {
    for isolation in [IsolationChoice::InProcess, IsolationChoice::Process] {
        let (_home, settings) = home_of("");
        let host = Host::start(settings, vec![plan(isolation, "ok")]);
        online(&host.one()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constructor_that_misbehaves_is_met_by_a_child_and_never_by_the_host() {
    for (constructor, word) in [
        ("abort();", "signal 6"),
        ("*(volatile int *)8 = 1;", "signal 11"),
        ("_exit(0);", "exited with code 0"),
        ("exit(7);", "exited with code 7"),
        ("for (;;);", "no answer within"),
        ("for (int i = 0; i < 1024; i++) close(i);", ""),
        ("for (int i = 3; i < 1024; i++) close(i);", "descriptors"),
        ("pthread_t t; for (int i = 0; i < 50; i++) pthread_create(&t, 0, thread, 0);", "starts threads"),
        ("for (int i = 0; i < 5; i++) if (!fork()) { sleep(300); _exit(0); }", "starts processes"),
        ("signal(SIGTERM, SIG_IGN);", "ignores signals"),
        ("chdir(\"/\"); raise(SIGKILL);", "signal 9"),
    ] {
        for isolation in [IsolationChoice::InProcess, IsolationChoice::Process] {
            let (_home, mut settings) = home_of(constructor);
            if constructor == "for (;;);" {
                settings.probe = Duration::from_millis(300);
            }
            let host = Host::start(settings, vec![plan(isolation, "ok")]);
            until(&host.one(), "failed", |state| matches!(state, AdapterState::Failed { .. })).await;
            let status = host.adapters.statuses().remove(0);
            let reason = status.reason.unwrap_or_default();
            assert_eq!(status.code, Some("probe_failed"), "{constructor}: {reason}");
            assert!(
                reason.contains(word) && reason.contains("`hermes-host adapter reload`"),
                "{constructor}: {reason}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_a_library_that_nobody_has_accepted() {
    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("mark");
    let (home, settings) = home_of(&format!("fclose(fopen(\"{}\", \"w\"));", mark.display()));
    let found = discover(&settings.search);
    assert_eq!(found[0].manifest.as_ref().unwrap().id, "hostile", "it is read, not loaded");
    assert_eq!(schema(&home.library(), &settings).await.unwrap_err().code(), "not_accepted");
    let judged = crate::judge(&home.library(), &json!({}), &[], &settings).await;
    assert_eq!(judged.unwrap_err().code(), "not_accepted");
    let host = Host::start(settings.clone(), Vec::new());
    host.adapters.look_again().await;
    assert_eq!(host.adapters.statuses()[0].state, "available");
    host.adapters.shutdown(PATIENCE).await;
    assert!(!mark.exists());

    accept(&home.library(), "operator", &settings).unwrap();
    let judged = crate::judge(&home.library(), &json!({}), &[], &settings).await.unwrap();
    assert_eq!(judged, Judgement::Right);
    assert!(mark.exists(), "the mark shows what runs");
}

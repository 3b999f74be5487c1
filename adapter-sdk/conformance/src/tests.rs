//! Checks that the contract cases can fail.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::*;

/// A subject that gives the same answer to every call and has made its own calls before the first case.
struct Yes {
    manifest: &'static str,
    status: Option<i32>,
    said: Vec<HostCall>,
}

impl Subject for Yes {
    fn manifest(&self) -> Vec<u8> {
        self.manifest.as_bytes().to_vec()
    }

    async fn call(&mut self, _: &str, _: &[u8], _: Duration) -> Answer {
        Answer { status: self.status, payload: b"{}".to_vec() }
    }

    async fn next_host_call(&mut self, _: Duration) -> Option<HostCall> {
        self.said.pop()
    }

    async fn shutdown(&mut self, _: Duration) -> Answer {
        Answer { status: self.status, payload: Vec::new() }
    }
}

/// Runs the cases to their end in one poll; this subject never waits.
fn outcomes_of(mut subject: Yes) -> Vec<Outcome> {
    let mut future = pin!(run(&mut subject));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcomes) => outcomes,
        Poll::Pending => panic!("this subject never waits"),
    }
}

fn failed(subject: Yes) -> Vec<&'static str> {
    outcomes_of(subject).iter().filter(|outcome| outcome.failed()).map(|outcome| outcome.case.id).collect()
}

const GOOD: &str = r#"{"schema":1,"id":"x","label":"X","version":"1.0.0","sdk":"1.0.0","abi":1}"#;

#[test]
fn an_adapter_that_says_yes_to_everything_fails() {
    let emitted = HostCall { method: "emit".to_owned(), payload: b"{}".to_vec() };
    let failed = failed(Yes { manifest: GOOD, status: Some(0), said: vec![emitted] });
    assert_eq!(
        failed,
        [
            "unknown-method-is-unsupported",
            "declared-methods-exist",
            "unreadable-payload-is-an-error",
            "wrong-shape-is-an-error",
            "survives-bad-calls",
            "silent-before-connect",
            "ended-means-ended",
        ]
    );
}

#[test]
fn an_adapter_that_never_answers_fails_every_call() {
    let failed = failed(Yes { manifest: GOOD, status: None, said: Vec::new() });
    assert_eq!(failed.len(), CASES.len() - 3, "all but the two of the manifest and the silent one: {failed:?}");
    assert!(failed.contains(&"cancelled-call-is-answered") && failed.contains(&"shutdown-in-time"));
}

#[test]
fn a_manifest_is_read_closely() {
    for (manifest, case) in [
        ("not JSON", "manifest-parses"),
        (&*GOOD.replace("\"x\"", "\"X-1\""), "manifest-parses"),
        (&*GOOD.replace("\"label\":\"X\"", "\"label\":\"\""), "manifest-parses"),
        (&*GOOD.replace("\"abi\":1", "\"abi\":2"), "manifest-versions"),
        (&*GOOD.replace("\"version\":\"1.0.0\"", "\"version\":\"1.0\""), "manifest-versions"),
    ] {
        let manifest: &'static str = String::from(manifest).leak();
        let failed = failed(Yes { manifest, status: Some(0), said: Vec::new() });
        assert!(failed.contains(&case), "{manifest}: {failed:?}");
    }
}

#[test]
fn ids_are_kebab_case_and_differ() {
    let all: Vec<Case> = CASES.iter().chain(STAGED_CASES).copied().collect();
    for (at, case) in all.iter().enumerate() {
        assert!(case.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", case.id);
        assert!(all[..at].iter().all(|earlier| earlier.id != case.id), "{}", case.id);
    }
}

#[test]
fn an_outcome_reads_as_a_line() {
    let outcomes = outcomes_of(Yes { manifest: GOOD, status: Some(3), said: Vec::new() });
    let lines: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    assert!(lines[0].starts_with("passed   manifest-parses: the manifest is"), "{}", lines[0]);
    assert!(lines[2].ends_with("; seen: status 3 (BUSY) with {}"), "{}", lines[2]);
}

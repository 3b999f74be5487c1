//! The contract cases. A released id keeps its meaning.

use std::time::Duration;

use hermes_protocol::{CallError, Capabilities, Manifest, StreamKind, host_method, method};

use crate::{Answer, Case, Subject, Verdict};

/// The maximum duration of a call that needs no platform.
const QUICK: Duration = Duration::from_secs(5);

const OK: i32 = 0;
const ERR: i32 = 1;
const UNSUPPORTED: i32 = 2;
const DROPPED: i32 = 5;

/// All contract cases, in the order in which they run.
pub const CASES: &[Case] = &[
    Case { id: "manifest-parses", sentence: "the manifest is the JSON of a Manifest, with a well-formed id" },
    Case { id: "manifest-versions", sentence: "the manifest names schema 1, ABI 1 and full semver versions" },
    Case { id: "unknown-method-is-unsupported", sentence: "an unknown method is answered UNSUPPORTED" },
    Case {
        id: "declared-methods-exist",
        sentence: "the method of every declared capability parses its payload, and no other capability has a method",
    },
    Case { id: "unreadable-payload-is-an-error", sentence: "a payload that is not JSON is answered ERR `invalid`" },
    Case { id: "wrong-shape-is-an-error", sentence: "JSON with a wrong structure is answered ERR `invalid`" },
    Case { id: "cancelled-call-is-answered", sentence: "a call that is cancelled at once is still answered" },
    Case { id: "survives-bad-calls", sentence: "the instance still answers after the calls above" },
    Case { id: "silent-before-connect", sentence: "nothing is emitted before `connect`" },
    Case { id: "shutdown-in-time", sentence: "shutdown is answered OK within its deadline" },
    Case { id: "ended-means-ended", sentence: "a call after shutdown is answered DROPPED" },
];

pub(crate) async fn run<S: Subject>(case: Case, subject: &mut S) -> Verdict {
    let seen = match case.id {
        "manifest-parses" => manifest_parses(subject),
        "manifest-versions" => manifest_versions(subject),
        "unknown-method-is-unsupported" => {
            let answer = subject.call("conformance.no_such_method", b"{}", QUICK).await;
            expect_status(&answer, UNSUPPORTED)
        }
        "declared-methods-exist" => declared_methods_exist(subject).await,
        "unreadable-payload-is-an-error" => {
            let answer = subject.call(method::SEND, b"this is not JSON", QUICK).await;
            expect_invalid(&answer)
        }
        "wrong-shape-is-an-error" => {
            let answer = subject.call(method::SEND, br#"{"chat": 7}"#, QUICK).await;
            expect_invalid(&answer)
        }
        "cancelled-call-is-answered" => {
            let answer = subject.call(method::HEALTH, b"{}", Duration::ZERO).await;
            match answer.status {
                Some(OK | ERR | DROPPED) => Ok(()),
                _ => Err(describe(&answer)),
            }
        }
        "survives-bad-calls" => {
            let answer = subject.call("conformance.no_such_method", b"{}", QUICK).await;
            expect_status(&answer, UNSUPPORTED)
        }
        "silent-before-connect" => silent_before_connect(subject).await,
        "shutdown-in-time" => {
            let answer = subject.shutdown(QUICK).await;
            expect_status(&answer, OK)
        }
        "ended-means-ended" => {
            let answer = subject.call(method::HEALTH, b"{}", QUICK).await;
            expect_status(&answer, DROPPED)
        }
        other => return Verdict::Skipped(format!("unknown case `{other}`")),
    };
    match seen {
        Ok(()) => Verdict::Passed,
        Err(seen) => Verdict::Failed(seen),
    }
}

type CheckResult = Result<(), String>;

fn manifest<S: Subject>(subject: &S) -> Result<Manifest, String> {
    serde_json::from_slice(&subject.manifest()).map_err(|error| format!("the manifest cannot be parsed: {error}"))
}

fn manifest_parses<S: Subject>(subject: &S) -> CheckResult {
    let manifest = manifest(subject)?;
    let id = &manifest.id;
    let fits = id.len() <= 32
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !fits {
        return Err(format!("the id `{id}`, which does not match `[a-z][a-z0-9_]*` or exceeds 32 characters"));
    }
    if manifest.label.is_empty() { Err("an empty label".to_owned()) } else { Ok(()) }
}

fn manifest_versions<S: Subject>(subject: &S) -> CheckResult {
    let manifest = manifest(subject)?;
    if manifest.schema != 1 || manifest.abi != 1 {
        return Err(format!("schema {} and ABI {}", manifest.schema, manifest.abi));
    }
    for version in [&manifest.version, &manifest.sdk] {
        let core = version.split(['-', '+']).next().unwrap_or_default();
        let numbers: Vec<_> = core.split('.').map(str::parse::<u64>).collect();
        if numbers.len() != 3 || numbers.iter().any(Result::is_err) {
            return Err(format!("the version `{version}`"));
        }
    }
    Ok(())
}

/// Returns each capability's method, and whether `capabilities` declares it.
fn methods(capabilities: &Capabilities) -> [(&'static str, bool); 14] {
    [
        (method::EDIT, capabilities.edit),
        (method::DELETE, capabilities.delete),
        (method::TYPING, capabilities.typing),
        (method::REACT, capabilities.reactions),
        (method::CREATE_HANDOFF_THREAD, capabilities.create_handoff_thread),
        (method::RENAME_THREAD, capabilities.rename_thread),
        (method::RENDER, capabilities.render),
        (method::SET_COMMANDS, capabilities.commands_menu),
        (method::RESOLVE_TARGET, capabilities.resolve_target),
        (method::CHAT_INFO, capabilities.chat_info),
        (method::DRAFT, capabilities.drafts),
        (method::TURN_EVENT, capabilities.stream == StreamKind::Native),
        (method::FETCH, capabilities.fetch),
        (method::LOOKUP, capabilities.lookup),
    ]
}

async fn declared_methods_exist<S: Subject>(subject: &mut S) -> CheckResult {
    let manifest = manifest(subject)?;
    for (method, declared) in methods(&manifest.capabilities) {
        // An invalid payload, so that the method does nothing.
        let answer = subject.call(method, b"[", QUICK).await;
        let expected = if declared { ERR } else { UNSUPPORTED };
        expect_status(&answer, expected).map_err(|seen| format!("for `{method}` {seen}"))?;
    }
    Ok(())
}

async fn silent_before_connect<S: Subject>(subject: &mut S) -> CheckResult {
    // Reads the calls received so far. The limit turns a flood of calls into a failure.
    for _ in 0..64 {
        match subject.next_host_call(Duration::ZERO).await {
            None => return Ok(()),
            Some(call) if call.method == host_method::EMIT => {
                return Err(format!("emitted {}", String::from_utf8_lossy(&call.payload)));
            }
            Some(_) => {}
        }
    }
    Err("more than 64 calls to the host".to_owned())
}

fn expect_status(answer: &Answer, expected: i32) -> CheckResult {
    if answer.status == Some(expected) { Ok(()) } else { Err(describe(answer)) }
}

fn expect_invalid(answer: &Answer) -> CheckResult {
    expect_status(answer, ERR)?;
    match serde_json::from_slice::<CallError>(&answer.payload) {
        Ok(error) if error.code == "invalid" => Ok(()),
        _ => Err(describe(answer)),
    }
}

use crate::words::answer as describe;

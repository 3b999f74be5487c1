//! The conformance cases, run on an adapter in the test's process.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use hermes_conformance::{Answer, Certified, HostCall, LOG, Outcome, RUN_ENDED, Sample, Subject};
use hermes_protocol::{Manifest, method};
use serde_json::{Value, json};

use super::{MockHost, Pending};
use crate::dispatch::Exported;

/// The time in which a cancelled call must end.
const GRACE: Duration = Duration::from_secs(5);

/// The duration of one wait for a call before the log is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the contract cases of the conformance list on `A`.
///
/// # Panics
///
/// If the instance cannot be created, the manifest names configuration keys that `A` does not
/// have, or a case fails.
pub fn conformance<A: Exported>(config: Value) {
    let host = MockHost::start::<A>(config).unwrap_or_else(|sentence| {
        panic!(
            "{sentence}; pass a configuration with the required keys to `conformance!(TheAdapter, {{ \"key\": … }})`"
        )
    });
    let manifest: Manifest = serde_json::from_str(host.manifest()).expect("`manifest!` writes a manifest");
    let astray = keys_astray(&manifest, &MockHost::config_schema::<A>());
    assert!(astray.is_empty(), "`manifest!` names keys that are not in the configuration: {}", astray.join(", "));
    let outcomes = block_on(hermes_conformance::run(&mut MockSubject::new(host, false)));
    nothing_failed(&outcomes);
}

/// Runs all cases on `A` with the contents of `certify.toml`: the contract cases, and those that connect to the stage.
/// Returns all outcomes.
///
/// # Panics
///
/// As [`conformance`]; also if there is no stage, or it does not start.
pub fn certify<A: Exported>(file: &Path) -> Vec<Outcome> {
    let sample = Sample::read(file).unwrap_or_else(|why| panic!("{why}"));
    conformance::<A>(sample.config.clone());
    let staged = sample.staged().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (mut stage, config) = staged.unwrap_or_else(|| panic!("{} does not set `stage`", file.display()));
    let media = Folder::new(A::MANIFEST.id());
    let host = MockHost::setup("test").media_dir(&media.0).start::<A>(config.clone());
    let host = host.unwrap_or_else(|sentence| panic!("{sentence}"));
    let manifest: Manifest = serde_json::from_str(host.manifest()).expect("`manifest!` writes a manifest");
    let secrets = hermes_conformance::secrets(&manifest, &config);
    let mut subject = MockSubject::new(host, true);
    subject.media_dir = Some(media.0.clone());
    let outcomes = block_on(hermes_conformance::run_staged(&mut subject, &mut stage, &secrets));
    nothing_failed(&outcomes);
    assert_eq!(Certified::of(&outcomes), Certified::Whole);
    outcomes
}

/// A folder for the adapter's incoming files, which is deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(id: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hermes-certify-{id}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failed deletion is not a failure of the adapter.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn nothing_failed(outcomes: &[Outcome]) {
    let failed: Vec<String> = outcomes.iter().filter(|outcome| outcome.failed()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {} cases failed\n{}", failed.len(), outcomes.len(), failed.join("\n"));
}

/// Returns the keys that the manifest names as the adapter's own and that its configuration does
/// not have. The host would show a secret under another key in plain text.
fn keys_astray(manifest: &Manifest, schema: &Value) -> Vec<String> {
    if ["oneOf", "anyOf", "allOf", "$ref"].iter().any(|word| schema.get(word).is_some()) {
        // The schema is not a plain struct: its keys depend on the values.
        return Vec::new();
    }
    let secrets = manifest.secrets.iter().map(|key| ("secrets", key));
    // The host's own keys may have variables, too: `home_channel`, and keys with a dot.
    let own = |key: &str| key != "home_channel" && !key.contains('.');
    let variables = manifest.env.iter().map(|name| ("env", &name.key)).filter(|(_, key)| own(key));
    // Of a nested key only the first part is checked.
    let first = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
    let astray = secrets.chain(variables).filter(|(_, key)| schema["properties"].get(first(key)).is_none());
    astray.map(|(list, key)| format!("`{key}` in `{list}`")).collect()
}

struct MockSubject {
    host: MockHost,
    /// The number of reported log records; `None` if log records are not reported.
    logs: Option<usize>,
    /// Log records to report.
    waiting: VecDeque<HostCall>,
    run: Option<Pending>,
    media_dir: Option<PathBuf>,
}

impl MockSubject {
    fn new(host: MockHost, tells_logs: bool) -> Self {
        Self { host, logs: tells_logs.then_some(0), waiting: VecDeque::new(), run: None, media_dir: None }
    }

    /// Returns the next unreported log record, or the end of `run`.
    fn aside(&mut self) -> Option<HostCall> {
        if let (true, Some(told)) = (self.waiting.is_empty(), self.logs) {
            let logs = self.host.logs();
            self.waiting.extend(logs[told..].iter().map(|line| {
                let payload = json!({ "level": line.level, "target": line.target, "fields": line.fields });
                HostCall { method: LOG.to_owned(), payload: payload.to_string().into_bytes() }
            }));
            self.logs = Some(logs.len());
        }
        if let Some(call) = self.waiting.pop_front() {
            return Some(call);
        }
        let answer = self.run.as_ref()?.wait_for(Duration::ZERO)?;
        self.run = None;
        Some(HostCall { method: RUN_ENDED.to_owned(), payload: answer.payload })
    }
}

impl Subject for MockSubject {
    fn manifest(&self) -> Vec<u8> {
        self.host.manifest().as_bytes().to_vec()
    }

    fn media_dir(&self) -> Option<PathBuf> {
        self.media_dir.clone()
    }

    async fn call(&mut self, method: &str, payload: &[u8], deadline: Duration) -> Answer {
        let pending = self.host.call_bytes(method, payload);
        let answer = ended(&pending, deadline);
        if method == method::CONNECT && answer.status == Some(super::status::OK) {
            self.run = Some(self.host.run());
        }
        answer
    }

    async fn next_host_call(&mut self, deadline: Duration) -> Option<HostCall> {
        let mut left = deadline;
        loop {
            // Calls come before log records: an event is reported before the end of its link.
            let call = self.host.take_call(left.min(LOOK));
            if let Some(call) = call {
                return Some(HostCall { method: call.method, payload: call.payload.to_string().into_bytes() });
            }
            if let Some(call) = self.aside() {
                return Some(call);
            }
            if left.is_zero() {
                return None;
            }
            left = left.saturating_sub(LOOK);
        }
    }

    async fn shutdown(&mut self, deadline: Duration) -> Answer {
        ended(&self.host.shutdown(deadline), deadline)
    }
}

fn ended(pending: &Pending, deadline: Duration) -> Answer {
    let in_time = pending.wait_for(deadline);
    let answer = in_time.or_else(|| {
        pending.cancel();
        pending.wait_for(GRACE)
    });
    answer.map_or_else(Answer::never, |answer| Answer::new(answer.status, answer.payload))
}

/// Runs a future to its end on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[derive(AdapterConfig)]
    #[expect(dead_code, reason = "only its keys count")]
    struct Config {
        token: String,
    }

    macro_rules! adapter {
        ($name:ident, $($manifest:tt)*) => {
            struct $name;

            impl Adapter for $name {
                const MANIFEST: crate::Manifest = manifest! { id: "keys", label: "Keys", $($manifest)* };
                type Config = Config;

                fn new(_: Config, _: Host) -> Self {
                    Self
                }

                async fn connect(&self) -> Result<(), ConnectError> {
                    Ok(())
                }

                async fn send(&self, _: Outgoing) -> SendOutcome {
                    SendOutcome::unknown("")
                }
            }

            crate::test_adapter!($name);
        };
    }

    adapter!(Tidy, secrets: ["token"], env: [{ name: "T", key: "token" }, { name: "H", key: "home_channel" }, { name: "A", key: "access.allow_all" }]);
    adapter!(Astray, secrets: ["tokne"], env: [{ name: "T", key: "toekn" }]);

    #[test]
    fn keys_of_the_configuration_and_of_the_host_may_be_named() {
        conformance::<Tidy>(serde_json::json!({ "token": "x" }));
    }

    #[test]
    #[should_panic(expected = "not in the configuration: `tokne` in `secrets`, `toekn` in `env`")]
    fn a_secret_that_is_no_key_does_not_pass() {
        conformance::<Astray>(serde_json::json!({ "token": "x" }));
    }

    #[test]
    #[should_panic(expected = "missing field `token`; pass a configuration with the required keys to `conformance!")]
    fn a_missing_sample_configuration_is_asked_for() {
        conformance::<Tidy>(serde_json::json!({}));
    }
}

//! The conformance list on an adapter in the test's process.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use hermes_conformance::{Answer, HostCall, Subject};
use hermes_protocol::Manifest;
use serde_json::Value;

use super::{MockHost, Pending};
use crate::dispatch::Exported;

/// What a cancelled call has to end in.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the conformance list on `A`.
///
/// # Panics
///
/// When the instance cannot be made, when the manifest names configuration keys that `A` does not
/// have, or with every failed case.
pub fn conformance<A: Exported>(config: Value) {
    let host = MockHost::start::<A>(config).unwrap_or_else(|sentence| {
        panic!("{sentence}; a configuration with required keys goes into `conformance!(TheAdapter, {{ \"key\": … }})`")
    });
    let manifest: Manifest = serde_json::from_str(host.manifest()).expect("`manifest!` writes a manifest");
    let astray = keys_astray(&manifest, &MockHost::config_schema::<A>());
    assert!(astray.is_empty(), "`manifest!` names keys that the configuration does not have: {}", astray.join(", "));
    let mut subject = MockSubject(host);
    let outcomes = block_on(hermes_conformance::run(&mut subject));
    let failed: Vec<String> = outcomes.iter().filter(|outcome| outcome.failed()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {} cases failed\n{}", failed.len(), outcomes.len(), failed.join("\n"));
}

/// Keys that the manifest names as the adapter's own and that its configuration does not have. The
/// host would show a secret under another key as it is.
fn keys_astray(manifest: &Manifest, schema: &Value) -> Vec<String> {
    if ["oneOf", "anyOf", "allOf", "$ref"].iter().any(|word| schema.get(word).is_some()) {
        // No plain struct: which keys there are depends on the values.
        return Vec::new();
    }
    let secrets = manifest.secrets.iter().map(|key| ("secrets", key));
    // Keys of the host may have variables too: `home_channel`, and what has a dot.
    let own = |key: &str| key != "home_channel" && !key.contains('.');
    let variables = manifest.env.iter().map(|name| ("env", &name.key)).filter(|(_, key)| own(key));
    // Of a place that stands deeper, the first key is looked for.
    let first = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
    let astray = secrets.chain(variables).filter(|(_, key)| schema["properties"].get(first(key)).is_none());
    astray.map(|(list, key)| format!("`{key}` in `{list}`")).collect()
}

struct MockSubject(MockHost);

impl Subject for MockSubject {
    fn manifest(&self) -> Vec<u8> {
        self.0.manifest().as_bytes().to_vec()
    }

    async fn call(&mut self, method: &str, payload: &[u8], deadline: Duration) -> Answer {
        let pending = self.0.call_bytes(method, payload);
        ended(&pending, deadline)
    }

    async fn next_host_call(&mut self, deadline: Duration) -> Option<HostCall> {
        let call = self.0.take_call(deadline)?;
        Some(HostCall { method: call.method, payload: call.payload.to_string().into_bytes() })
    }

    async fn shutdown(&mut self, deadline: Duration) -> Answer {
        ended(&self.0.shutdown(deadline), deadline)
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

/// Waits for a future on this thread.
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
    #[should_panic(expected = "does not have: `tokne` in `secrets`, `toekn` in `env`")]
    fn a_secret_that_is_no_key_does_not_pass() {
        conformance::<Astray>(serde_json::json!({ "token": "x" }));
    }

    #[test]
    #[should_panic(expected = "missing field `token`; a configuration with required keys goes into `conformance!")]
    fn a_missing_sample_configuration_is_asked_for() {
        conformance::<Tidy>(serde_json::json!({}));
    }
}

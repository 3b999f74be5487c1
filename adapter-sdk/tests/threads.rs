//! Tests of several threads, and of crates that log with `log`.

use std::sync::{Arc, Barrier};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::serde_json::json;
use hermes_adapter_sdk::testing::MockHost;

use crate::adapters::text;

#[derive(AdapterConfig)]
struct NoKeys {}

/// An adapter whose two sends block their threads until both have started.
struct Pair(Arc<Barrier>);

impl Adapter for Pair {
    const MANIFEST: Manifest = manifest! { id: "pair", label: "Pair" };
    const WORKER_THREADS: usize = 2;
    type Config = NoKeys;

    fn new(_: NoKeys, _: Host) -> Self {
        Self(Arc::new(Barrier::new(2)))
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        log::warn!(target: "pair::net", "slow {}", "link");
        log::debug!("detail");
        log::trace!("what went over the wire");
        Ok(())
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        self.0.wait();
        tracing::info!("met");
        log::info!("met as well");
        SendOutcome::delivered(message.text, 0)
    }
}

hermes_adapter_sdk::test_adapter!(Pair);

#[test]
fn an_adapter_that_asks_for_threads_has_calls_side_by_side_and_keeps_its_log() {
    let host = MockHost::setup("one").start::<Pair>(json!({})).expect("it starts");
    let other = MockHost::setup("two").start::<Pair>(json!({})).expect("it starts");
    std::thread::scope(|scope| {
        let sends = ["a", "b"].map(|word| scope.spawn(|| host.send(&text(word))));
        for send in sends {
            assert!(matches!(send.join().expect("no panic"), SendOutcome::Delivered { .. }));
        }
    });
    let count = |host: &MockHost, said: &str| host.logs().iter().filter(|line| line.message() == said).count();
    assert_eq!((count(&host, "met"), count(&host, "met as well"), count(&other, "met")), (2, 2, 0));
}

#[test]
fn what_a_crate_says_with_log_reaches_the_host_of_its_instance_at_its_level() {
    let one = MockHost::setup("one").max_level(3).start::<Pair>(json!({})).expect("it starts");
    let two = MockHost::setup("two").start::<Pair>(json!({})).expect("it starts");
    one.connect().expect("it connects");
    let line = one.wait_log("slow link");
    assert_eq!((line.level, line.target.as_str()), (2, "pair::net"));
    assert!(one.logs().iter().all(|line| line.message() != "detail"));
    assert!(two.logs().iter().all(|line| line.message() != "slow link"));
    two.connect().expect("it connects");
    assert_eq!(two.wait_log("detail").level, 4);
    // Both records were written before the call was answered.
    assert!(two.logs().iter().all(|line| line.level < 5), "a crate's traces hold what went over the wire");
}

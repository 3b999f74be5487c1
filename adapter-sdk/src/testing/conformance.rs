//! The conformance list on an adapter in the test's process.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use hermes_conformance::{Answer, HostCall, Subject};
use serde_json::Value;

use super::{MockHost, Pending};
use crate::dispatch::Exported;

/// What a cancelled call has to end in.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the conformance list on `A`.
///
/// # Panics
///
/// When the instance cannot be made, or with every failed case.
pub fn conformance<A: Exported>(config: Value) {
    let mut subject = MockSubject(MockHost::start::<A>(config).expect("the instance is made"));
    let outcomes = block_on(hermes_conformance::run(&mut subject));
    let failed: Vec<String> = outcomes.iter().filter(|outcome| outcome.failed()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {} cases failed\n{}", failed.len(), outcomes.len(), failed.join("\n"));
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

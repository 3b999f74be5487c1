//! A stopped turn ends at once, in every state.

use std::time::Duration;

use hermes_agent::{EventSink, TurnOutcome};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::endpoint::{Endpoint, Reply, Step, delta};
use crate::{request, runtime};

/// Starts a turn, stops it once the endpoint has the request and `text` was sent, and returns its text.
async fn stopped(reply: Reply, text: &str) -> String {
    let endpoint = Endpoint::new([reply]).await;
    let runtime = runtime(&endpoint);
    let (sink, mut reader) = EventSink::channel();
    let cancel = CancellationToken::new();
    let turn = runtime.run(request("hello"), sink, cancel.clone());
    let stop = async {
        while endpoint.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        if !text.is_empty() {
            reader.recv().await.unwrap();
        }
        cancel.cancel();
        Instant::now()
    };
    let (outcome, stopped_at) = timeout(Duration::from_secs(10), async { tokio::join!(turn, stop) }).await.unwrap();
    assert!(stopped_at.elapsed() < Duration::from_secs(1));
    let TurnOutcome::Interrupted { text } = outcome else { panic!("{outcome:?}") };
    text
}

#[tokio::test]
async fn while_it_waits_for_an_answer() {
    assert_eq!(stopped(Reply { status: 0, steps: vec![Step::Hang], ..Reply::default() }, "").await, "");
    assert_eq!(stopped(Reply::stream(&[]).then(Step::Hang), "").await, "");
}

#[tokio::test]
async fn in_the_middle_of_an_answer_with_what_was_said() {
    let reply = Reply::stream(&[delta("half of it")]).then(Step::Hang);
    assert_eq!(stopped(reply, "half of it").await, "half of it");
}

#[tokio::test]
async fn while_it_waits_to_ask_again() {
    let busy = Reply::new(503, "text/plain", "busy").header("retry-after", "15");
    assert_eq!(stopped(busy, "").await, "");
}

#[tokio::test]
async fn while_the_body_of_an_error_does_not_come() {
    let stuck = Reply::new(500, "text/plain", "half an err").then(Step::Hang);
    assert_eq!(stopped(stuck, "").await, "");
}

#[tokio::test]
async fn while_nobody_reads_what_it_says() {
    let pieces = vec![delta("x"); EventSink::EVENTS_MAX + 10];
    let said = stopped(Reply::stream(&pieces).then(Step::Hang), "x").await;
    assert!(said.len() <= EventSink::EVENTS_MAX + 2, "{}", said.len());
}

#[tokio::test]
async fn before_it_begins() {
    let endpoint = Endpoint::new([Reply::good("never")]).await;
    let (sink, _reader) = EventSink::channel();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = runtime(&endpoint).run(request("hello"), sink, cancel).await;
    assert!(matches!(&outcome, TurnOutcome::Interrupted { text } if text.is_empty()), "{outcome:?}");
    assert!(endpoint.seen().is_empty());
}

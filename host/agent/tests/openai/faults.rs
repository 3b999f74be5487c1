//! Failures of an endpoint.

use std::time::Duration;

use hermes_agent::build;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::endpoint::{Endpoint, Reply, Step, delta, done, event, finish, nobody};
use crate::{KEY, answered, config, failed, impatient, runtime};

async fn failure_of(reply: Reply) -> hermes_agent::Failure {
    let endpoint = Endpoint::new([reply]).await;
    let failure = failed(&*runtime(&endpoint)).await;
    assert_eq!(endpoint.seen().len(), 1, "asked once: {failure:?}");
    failure
}

fn error(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
}

#[tokio::test]
async fn a_refused_key_is_told_without_the_key() {
    let words = format!("Incorrect API key provided: {KEY}");
    let failure = failure_of(Reply::json(401, error("invalid_api_key", &words))).await;
    assert!(failure.sentence.contains("API key") && failure.sentence.contains("[agent]"), "{failure:?}");
    assert!(!failure.retryable);
}

#[tokio::test]
async fn an_endpoint_that_quotes_the_key_elsewhere_does_not_bring_it_into_the_log() {
    let failure = failure_of(Reply::json(400, error("bad", &format!("Bearer {KEY} is odd")))).await;
    assert!(failure.detail.contains("Bearer [hidden] is odd"), "{failure:?}");
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    let failure = failure_of(Reply::json(404, error("model_not_found", "no such model"))).await;
    assert!(failure.sentence.contains("\"test-model\""), "{failure:?}");
}

#[tokio::test]
async fn a_conversation_too_long_says_how_to_go_on() {
    let failure = failure_of(Reply::json(400, error("context_length_exceeded", "too many tokens"))).await;
    assert!(failure.sentence.contains("/new"), "{failure:?}");
}

#[tokio::test]
async fn a_filter_is_called_a_filter_before_and_in_the_answer() {
    let failure = failure_of(Reply::json(400, error("content_filter", "x"))).await;
    assert!(failure.sentence.contains("filter"), "{failure:?}");
    let failure = failure_of(Reply::stream(&[delta("half"), finish("content_filter"), done()])).await;
    assert!(failure.sentence.contains("filter"), "{failure:?}");
    assert_eq!(failure.partial, "half");
}

#[tokio::test]
async fn a_used_up_quota_is_not_asked_again() {
    let failure = failure_of(Reply::json(429, error("insufficient_quota", "You exceeded your quota"))).await;
    assert!(failure.sentence.contains("quota") && !failure.retryable, "{failure:?}");
}

#[tokio::test]
async fn a_tool_call_is_a_failure_since_no_tools_were_offered() {
    let call = json!({"index": 0, "id": "c", "function": {"name": "rm", "arguments": "{}"}});
    let call = event(&json!({"choices": [{"delta": {"tool_calls": [call]}}]}));
    let failure = failure_of(Reply::stream(&[call, finish("tool_calls"), done()])).await;
    assert!(failure.sentence.contains("tool"), "{failure:?}");
}

#[tokio::test]
async fn an_answer_without_text_is_told() {
    for reply in [
        Reply::stream(&[finish("stop"), done()]),
        Reply::stream(&[done()]),
        Reply::stream(&[delta(" \n"), finish("stop"), done()]),
        Reply::new(200, "text/event-stream", ""),
    ] {
        let endpoint = Endpoint::new(vec![reply.clone(); 3]).await;
        let (outcome, _) = crate::turn(&*runtime(&endpoint)).await;
        let hermes_agent::TurnOutcome::Failed(failure) = outcome else { panic!("{reply:?}: {outcome:?}") };
        assert!(failure.sentence.contains("without any text"), "{failure:?}");
    }
    let thought = event(&json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}));
    let failure = failure_of(Reply::stream(&[thought, finish("length"), done()])).await;
    assert!(failure.sentence.contains("length limit"), "{failure:?}");
}

#[tokio::test]
async fn what_is_no_chat_completion_is_told() {
    for reply in [
        Reply::new(200, "text/html", "<!doctype html><title>Sign in</title>"),
        Reply::new(200, "text/event-stream", "data: {\"choices\": [\n\n"),
        Reply::new(200, "application/json", "{\"choices\": ["),
        Reply::json(200, json!({"hello": "world"})),
        Reply::new(200, "text/event-stream", "data: hello\n\n"),
        Reply::new(200, "text/plain", "  \n "),
    ] {
        let failure = failure_of(reply).await;
        assert!(failure.sentence.contains("base_url"), "{failure:?}");
    }
    let failure = failure_of(Reply::new(302, "text/html", "").header("location", "/elsewhere")).await;
    assert!(failure.sentence.contains("302"), "{failure:?}");
}

#[tokio::test]
async fn what_is_too_large_is_told_and_not_read_to_its_end() {
    let line = vec![b'x'; 64 * 1024];
    let stream = Reply::new(200, "text/event-stream", "data: ").then(Step::Endless(line.clone()));
    let failure = failure_of(stream).await;
    assert!(failure.sentence.contains("too large"), "{failure:?}");
    let json = Reply::new(200, "application/json", "{\"a\": \"").then(Step::Endless(line));
    let failure = failure_of(json).await;
    assert!(failure.sentence.contains("too large"), "{failure:?}");
}

#[tokio::test]
async fn an_endless_answer_is_ended_and_kept() {
    let piece = delta(&"x".repeat(50_000)).into_bytes();
    let endpoint = Endpoint::new([Reply::stream(&[]).then(Step::Endless(piece))]).await;
    assert_eq!(answered(&*runtime(&endpoint)).await.len(), 1024 * 1024);
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_keeps_what_was_said_and_is_not_asked_again() {
    for end in [Step::Cut, Step::Bytes(Vec::new())] {
        let failure = failure_of(Reply::stream(&[delta("half of ")]).then(end)).await;
        assert_eq!(failure.partial, "half of ");
        assert!(failure.sentence.contains("was lost"), "{failure:?}");
        assert!(failure.retryable);
    }
    let failure = failure_of(Reply::stream(&[delta("half"), event(&error("server_error", "GPU lost"))])).await;
    assert_eq!(failure.partial, "half");
    assert!(failure.detail.contains("GPU lost"), "{failure:?}");
}

#[tokio::test]
async fn silence_in_the_middle_keeps_what_was_said() {
    let comments = Step::Drip(b": still here\n\n".to_vec(), Duration::from_millis(20));
    let empties = Step::Drip(delta("").into_bytes(), Duration::from_millis(20));
    for silence in [Step::Hang, comments, empties] {
        let endpoint = Endpoint::new([Reply::stream(&[delta("half")]).then(silence)]).await;
        let failure = failed(&*impatient(&endpoint)).await;
        assert_eq!((failure.code, failure.partial.as_str()), ("runtime_timeout", "half"), "{failure:?}");
    }
}

#[tokio::test]
async fn silence_from_the_beginning_is_told() {
    let no_head = Reply { status: 0, steps: vec![Step::Hang], ..Reply::default() };
    let no_body = Reply::stream(&[]).then(Step::Hang);
    let comments = Reply::stream(&[]).then(Step::Drip(b": queued\n\n".to_vec(), Duration::from_millis(20)));
    for reply in [no_head, no_body, comments] {
        let endpoint = Endpoint::new([reply]).await;
        let failure = failed(&*impatient(&endpoint)).await;
        assert_eq!((failure.code, failure.partial.as_str()), ("runtime_timeout", ""), "{failure:?}");
        assert!(failure.sentence.contains("did not start"), "{failure:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_told_without_its_address() {
    let base_url = nobody().await;
    let failure = failed(&*build(&config(&base_url)).unwrap()).await;
    assert!(failure.sentence.contains("cannot be reached") && failure.retryable, "{failure:?}");
    assert!(failure.detail.contains("request 4"), "tried again: {failure:?}");
}

#[tokio::test]
async fn passing_trouble_before_the_first_word_is_asked_again() {
    let busy = Reply::json(429, error("rate_limit_exceeded", "slow down")).header("retry-after", "0");
    let first_cut = Reply::stream(&[": hi\n\n".to_owned()]).then(Step::Cut);
    let error_first = Reply::stream(&[event(&error("overloaded", "busy"))]);
    for reply in [busy, Reply::new(503, "text/plain", "starting"), first_cut, error_first] {
        let endpoint = Endpoint::new([reply.clone(), reply, Reply::good("there")]).await;
        assert_eq!(answered(&*runtime(&endpoint)).await, "there");
        assert_eq!(endpoint.seen().len(), 3);
    }
}

#[tokio::test]
async fn trouble_that_stays_is_told_after_three_more_requests() {
    let endpoint = Endpoint::new(vec![Reply::new(500, "text/html", "<h1>oops</h1>"); 9]).await;
    let failure = failed(&*runtime(&endpoint)).await;
    assert!(failure.sentence.contains("status 500") && failure.retryable, "{failure:?}");
    assert_eq!(endpoint.seen().len(), 4);
}

#[tokio::test]
async fn a_wait_longer_than_our_patience_is_told_at_once() {
    let before = Instant::now();
    let failure = failure_of(Reply::json(429, error("rate_limit", "x")).header("retry-after", "3600")).await;
    assert!(failure.sentence.contains("60 minutes"), "{failure:?}");
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_wait_that_the_endpoint_asks_for_is_kept() {
    let busy = Reply::json(503, json!({"error": {"message": "loading", "retry_after_ms": 400}}));
    let endpoint = Endpoint::new([busy, Reply::good("there")]).await;
    let before = Instant::now();
    assert_eq!(answered(&*runtime(&endpoint)).await, "there");
    assert!(before.elapsed() >= Duration::from_millis(400));
}

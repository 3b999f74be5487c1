use hermes_adapter_sdk::prelude::*;
use tokio::time::advance;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);

fn turn(has_key: bool) -> OpenRequest {
    let turn = OpenRequest::new("r:1".to_owned(), Chat::dm("c"), has_key, TIMEOUT);
    turn.change(|state| state.readers = 1);
    turn.confirm(Some(7), false);
    turn
}

fn chunk(text: &str) -> TurnEvent {
    TurnEvent::Chunk { text: text.to_owned() }
}

fn done(reason: &str) -> TurnEvent {
    TurnEvent::Done { finish_reason: reason.to_owned(), usage: Usage::tokens(1, 2) }
}

fn text_of(verdict: NextAction) -> String {
    match verdict {
        NextAction::End(End::Answered { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

fn text_so_far(turn: &OpenRequest) -> String {
    let state = turn.lock();
    let texts = state.items.iter().map(|item| match item {
        StreamItem::Text(text) => text.as_str(),
        StreamItem::Event(_) => "",
    });
    texts.collect()
}

#[tokio::test(start_paused = true)]
async fn a_reply_ends_a_request_at_once_when_there_is_no_stream() {
    let turn = turn(false);
    assert_eq!(turn.evaluate(Instant::now()), NextAction::Wait(Instant::now() + TIMEOUT));
    turn.part(1, 1, "hello");
    assert_eq!(text_of(turn.evaluate(Instant::now())), "hello");
}

#[tokio::test(start_paused = true)]
async fn a_reply_waits_a_moment_for_the_end_of_its_stream_which_knows_the_usage() {
    let turn = turn(false);
    turn.stream(1, chunk("hello"));
    turn.part(1, 1, "hello");
    assert_eq!(turn.evaluate(Instant::now()), NextAction::Wait(Instant::now() + DONE_GRACE));
    turn.stream(2, done("length"));
    let NextAction::End(End::Answered { finish_reason, usage, .. }) = turn.evaluate(Instant::now()) else {
        panic!("ended")
    };
    assert_eq!((finish_reason.as_str(), usage.output_tokens), ("length", 2));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_ends_does_not_hold_the_reply() {
    let turn = turn(false);
    turn.stream(1, chunk("hello"));
    turn.part(1, 1, "hello");
    advance(DONE_GRACE).await;
    assert_eq!(text_of(turn.evaluate(Instant::now())), "hello");
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_waits_for_its_reply_and_stands_for_it_in_the_end() {
    let turn = turn(false);
    turn.stream(1, chunk("hello"));
    turn.stream(2, done("stop"));
    assert_eq!(turn.evaluate(Instant::now()), NextAction::Wait(Instant::now() + REPLY_GRACE));
    advance(REPLY_GRACE).await;
    assert_eq!(text_of(turn.evaluate(Instant::now())), "hello");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_turn_keeps_what_it_said_and_a_silent_one_says_nothing() {
    for (reason, expected) in [("stopped", "half"), ("silent", "")] {
        let turn = turn(false);
        turn.stream(1, chunk("half"));
        turn.stream(2, done(reason));
        assert_eq!(text_of(turn.evaluate(Instant::now())), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_with_its_own_code_and_takes_the_owed_sentence_along() {
    let turn = turn(false);
    turn.stream(1, TurnEvent::Error { code: "runtime_failed".into(), message: "No.".into(), retryable: true });
    assert_eq!(turn.evaluate(Instant::now()), NextAction::Wait(Instant::now() + ERROR_GRACE));
    turn.part(1, 1, "No.");
    let NextAction::End(end @ End::Failed { status: 502, .. }) = turn.evaluate(Instant::now()) else {
        panic!("failed")
    };
    assert!(end.delivers_reply());
}

#[tokio::test(start_paused = true)]
async fn a_requester_that_goes_stops_the_agent_unless_it_left_a_key() {
    for has_key in [false, true] {
        let turn = turn(has_key);
        turn.change(|state| state.readers = 0);
        let stops = matches!(turn.evaluate(Instant::now()), NextAction::Stop(End::Failed { status: 499, .. }));
        assert_eq!(stops, !has_key);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_at_its_deadline() {
    let turn = turn(true);
    advance(TIMEOUT).await;
    assert!(matches!(turn.evaluate(Instant::now()), NextAction::Stop(End::Failed { status: 504, .. })));
}

#[test]
fn parts_are_joined_in_order_whatever_their_arrival() {
    let turn = turn(false);
    turn.part(2, 2, "two");
    turn.part(2, 2, "two");
    turn.part(1, 2, "one");
    assert_eq!(text_of(turn.evaluate(Instant::now())), "one\n\ntwo");
}

#[test]
fn a_stream_is_completed_from_the_reply() {
    type Case<'a> = (&'a [(u64, &'a str)], bool, &'a str, &'a str);
    let cases: [Case<'_>; 6] = [
        (&[(1, "hel")], false, "hello", "hello"),
        (&[], false, "hello", "hello"),
        (&[(1, "*a*")], true, "_a_", "*a*"),
        (&[(1, "one "), (3, "three")], false, "one two three", "one two three"),
        (&[(1, "*one* "), (3, "three")], false, "_one_ two three", "*one* \n\n_one_ two three"),
        (&[(1, "one"), (1, "one"), (2, " two")], true, "one two", "one two"),
    ];
    for (chunks, is_done, reply, expected) in cases {
        let turn = turn(false);
        for (seq, text) in chunks {
            turn.stream(*seq, chunk(text));
        }
        if is_done {
            let last = turn.lock().seq + 1;
            turn.stream(last, done("stop"));
        }
        turn.end(End::Answered {
            text: reply.to_owned(),
            finish_reason: "stop".to_owned(),
            usage: Usage::default(),
            model: String::new(),
        });
        assert_eq!(text_so_far(&turn), expected, "{chunks:?} then {reply:?}");
    }
}

#[test]
fn what_waits_for_a_reader_is_bounded() {
    let turn = turn(false);
    for seq in 1..5000 {
        turn.stream(seq, chunk(&"x".repeat(2000)));
        turn.notice("still there", false);
    }
    let state = turn.lock();
    assert!(state.streamed.len() <= STREAM_BYTES_MAX);
    assert!(state.items.len() <= 2 * NOTES_MAX + 1);
}

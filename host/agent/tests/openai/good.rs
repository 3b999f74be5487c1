//! Successful requests in all their forms.

use std::time::Duration;

use hermes_agent::{AgentConfig, BuildError, Message, RuntimeKind, TurnOutcome, build};
use hermes_core::secret::Secret;
use serde_json::json;

use crate::endpoint::{Endpoint, Reply, Step, delta, done, event, finish};
use crate::{KEY, answered, config, impatient, request, runtime, turn};

#[tokio::test]
async fn an_answer_is_streamed_and_returned_with_what_it_cost() {
    let usage = event(&json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 2}}));
    let role = event(&json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}));
    let endpoint =
        Endpoint::new([Reply::stream(&[role, delta("Good "), delta("day."), finish("stop"), usage, done()])]).await;
    let (outcome, chunks) = turn(&*runtime(&endpoint)).await;
    assert_eq!(chunks, ["Good ", "day."]);
    let TurnOutcome::Finished { text, messages, usage, finish_reason, model, state } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(text, "Good day.");
    assert_eq!(messages, [Message::assistant("Good day.")]);
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.api_calls), (11, 2, 1));
    assert_eq!((finish_reason.as_str(), model.as_str(), state), ("stop", "test-model-1", None));

    let seen = endpoint.seen().remove(0);
    assert_eq!(seen.authorization, Some(format!("Bearer {KEY}")));
    let expected = json!({
        "model": "test-model",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_model_that_the_session_asks_for_wins() {
    let endpoint = Endpoint::new([Reply::good("hi")]).await;
    let mut request = request("hello");
    request.model = Some("other".to_owned());
    let (sink, _reader) = hermes_agent::EventSink::channel();
    let outcome = runtime(&endpoint).run(request, sink, Default::default()).await;
    assert!(matches!(outcome, TurnOutcome::Finished { .. }), "nobody reading is no reason to stop: {outcome:?}");
    assert_eq!(endpoint.seen()[0].body["model"], "other");
}

#[tokio::test]
async fn characters_cut_in_two_stay_whole() {
    let text = "Grüße 👩‍👩‍👧 終";
    let stream = [delta(text), finish("stop"), done()].concat();
    let bytes = stream.bytes().map(|byte| Step::Bytes(vec![byte])).collect();
    let endpoint = Endpoint::new([Reply { steps: bytes, ..Reply::good("") }]).await;
    assert_eq!(answered(&*runtime(&endpoint)).await, text);
}

#[tokio::test]
async fn an_answer_may_be_slow_as_long_as_it_moves() {
    let mut reply = Reply::stream(&[]);
    for word in ["one ", "two ", "three ", "four ", "five"] {
        reply = reply.then(Step::Bytes(delta(word).into())).then(Step::Wait(Duration::from_millis(90)));
    }
    let endpoint = Endpoint::new([reply.then(Step::Bytes(finish("stop").into()))]).await;
    assert_eq!(answered(&*impatient(&endpoint)).await, "one two three four five");
}

#[tokio::test]
async fn a_finished_answer_needs_no_done_and_survives_what_comes_after() {
    let text = || vec![delta("whole"), finish("stop")];
    let replies = [
        Reply::stream(&text()),
        Reply::stream(&text()).then(Step::Cut),
        Reply::stream(&text()).then(Step::Hang),
        Reply::stream(&[text().concat().trim_end().to_owned()]),
    ];
    let endpoint = Endpoint::new(replies.clone()).await;
    let runtime = impatient(&endpoint);
    for reply in replies {
        assert_eq!(answered(&*runtime).await, "whole", "{reply:?}");
    }
    let more = Endpoint::new([Reply::stream(&[text().concat(), delta(" and more")])]).await;
    assert_eq!(answered(&*impatient(&more)).await, "whole and more");
}

#[tokio::test]
async fn one_json_object_instead_of_a_stream_is_an_answer_too() {
    let completion = json!({
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    });
    let pretty = serde_json::to_string_pretty(&completion).unwrap();
    let endpoint = Endpoint::new([
        Reply::json(200, completion),
        Reply::new(200, "text/event-stream", format!("\n{pretty}")),
        Reply::json(200, json!({"choices": [{"message": {"content": "whole"}}]})),
    ])
    .await;
    let runtime = runtime(&endpoint);
    for _ in 0..3 {
        assert_eq!(answered(&*runtime).await, "whole");
    }
}

#[tokio::test]
async fn a_stream_under_a_wrong_content_type_is_read_all_the_same() {
    for content_type in ["text/plain", "application/json", "application/octet-stream"] {
        let stream = [": hi\n\n".to_owned(), delta("fine"), finish("stop")].concat();
        let endpoint = Endpoint::new([Reply::new(200, content_type, stream)]).await;
        assert_eq!(answered(&*runtime(&endpoint)).await, "fine");
    }
}

#[tokio::test]
async fn reasoning_is_kept_apart() {
    let thought = |key: &str| event(&json!({"choices": [{"delta": {key: "hm"}}]}));
    let endpoint = Endpoint::new([
        Reply::stream(&[thought("reasoning_content"), thought("reasoning"), delta("yes"), finish("stop")]),
        Reply::stream(&[delta("<think>hmhm"), delta("</think>yes"), finish("stop")]),
    ])
    .await;
    let runtime = runtime(&endpoint);
    for _ in 0..2 {
        let (outcome, chunks) = turn(&*runtime).await;
        let TurnOutcome::Finished { text, messages, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!((text.as_str(), chunks.concat().as_str()), ("yes", "yes"));
        assert_eq!(messages[0].reasoning.as_deref(), Some("hmhm"));
    }
}

#[tokio::test]
async fn an_answer_that_ran_out_of_room_says_so() {
    let endpoint = Endpoint::new([Reply::stream(&[delta("half of"), finish("length"), done()])]).await;
    let (outcome, _) = turn(&*runtime(&endpoint)).await;
    assert!(
        matches!(&outcome, TurnOutcome::Finished { finish_reason, .. } if finish_reason == "length"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn an_endpoint_that_refuses_stream_options_is_asked_without_them_from_then_on() {
    let refusal = json!({"error": {"message": "Unrecognized request argument: stream_options"}});
    let endpoint = Endpoint::new([Reply::json(400, refusal), Reply::good("a"), Reply::good("b")]).await;
    let runtime = runtime(&endpoint);
    assert_eq!(answered(&*runtime).await, "a");
    assert_eq!(answered(&*runtime).await, "b");
    let with_options: Vec<bool> =
        endpoint.seen().iter().map(|seen| seen.body.get("stream_options").is_some()).collect();
    assert_eq!(with_options, [true, false, false]);
}

#[tokio::test]
async fn an_endpoint_without_a_key_gets_none() {
    let endpoint = Endpoint::new([Reply::good("hi")]).await;
    let config = AgentConfig { api_key: None, ..config(&endpoint.base_url) };
    assert_eq!(answered(&*build(&config).unwrap()).await, "hi");
    assert_eq!(endpoint.seen()[0].authorization, None);
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_the_key_to_mend() {
    let openai = AgentConfig { runtime: RuntimeKind::OpenAi, ..AgentConfig::default() };
    let missing = |config: &AgentConfig| match build(config).err() {
        Some(BuildError::Missing { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&openai), "api_key");
    let keyed = AgentConfig { api_key: Some(Secret::new("sk-1\n")), ..openai.clone() };
    assert_eq!(build(&keyed).unwrap().models(), [hermes_agent::openai::DEFAULT_MODEL]);
    assert_eq!(missing(&AgentConfig { base_url: Some("http://127.0.0.1:1/v1".to_owned()), ..openai.clone() }), "model");
    let broken = AgentConfig { api_key: Some(Secret::new("sk\n1")), ..openai.clone() };
    assert!(matches!(build(&broken).err(), Some(BuildError::ApiKey)));
    let no_address = AgentConfig { base_url: Some("api.example".to_owned()), ..keyed };
    assert!(matches!(build(&no_address).err(), Some(BuildError::BaseUrl { .. })));
}

#[tokio::test]
async fn a_turn_is_steered_between_two_requests_and_asks_with_all_that_was_said() {
    let busy = Reply::new(503, "text/plain", "busy").header("retry-after", "0");
    let endpoint = Endpoint::new([busy, Reply::good("both")]).await;
    let runtime = runtime(&endpoint);
    assert!(runtime.steers());
    let (sink, _reader, mut line) = hermes_agent::EventSink::with_line();
    line.set_waiting(true);
    let steer = async {
        for words in ["and this", "and that"] {
            line.steering_request().await.send(vec![Message::user(words)]).unwrap();
        }
    };
    let (outcome, ()) = tokio::join!(runtime.run(request("hello"), sink, Default::default()), steer);
    assert!(matches!(outcome, TurnOutcome::Finished { .. }), "{outcome:?}");
    let said = |n: usize| -> Vec<String> {
        let messages = endpoint.seen()[n].body["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (said(0), said(1)),
        (
            vec!["hello".into(), "and this".into()],
            vec!["hello".to_owned(), "and this".to_owned(), "and that".to_owned()]
        )
    );
}

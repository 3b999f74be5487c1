//! Requests that are repeated in another form after an empty answer, a refused history or a wrong address.

use std::sync::Arc;

use hermes_agent::openai::OpenAi;
use hermes_agent::tools::{Ports, Toolbox};
use hermes_agent::{AgentRuntime, EventSink, Message, Role, TurnOutcome, TurnRequest, build};
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reply, delta, done, event, finish};
use crate::{answered, config, failed, request, runtime, turn};

fn refusal(message: &str) -> Reply {
    Reply::json(400, json!({"error": {"message": message, "type": "invalid_request_error"}}))
}

fn thought(text: &str) -> String {
    event(&json!({"choices": [{"delta": {"reasoning_content": text}}]}))
}

fn with_history(history: Vec<Message>) -> TurnRequest {
    TurnRequest {
        system: "Be brief.".to_owned(),
        history: history.into_iter().map(Arc::new).collect(),
        ..request("now")
    }
}

/// Returns a history with a call whose arguments were cut off.
fn poisoned() -> Vec<Message> {
    let mut asked = Message::assistant("");
    asked.tool_calls = vec![json!({"id": "a", "type": "function", "function": {"name": "todo", "arguments": "{\"x"}})];
    let mut result = Message::new(Role::Tool, "wrong");
    result.tool_call_id = Some("a".to_owned());
    vec![Message::user("one"), asked, result, Message::assistant("two"), Message::user("three")]
}

async fn run(runtime: &dyn AgentRuntime, request: TurnRequest) -> (TurnOutcome, usize) {
    let (sink, mut reader, line) = EventSink::with_line();
    let listen = async { while reader.recv().await.is_some() {} };
    let (outcome, ()) = tokio::join!(runtime.run(request, sink, Default::default()), listen);
    (outcome, line.left_out())
}

fn text_of(outcome: &TurnOutcome) -> &str {
    match outcome {
        TurnOutcome::Finished { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

fn messages(endpoint: &Endpoint, n: usize) -> Vec<Value> {
    endpoint.seen()[n].body["messages"].as_array().unwrap().clone()
}

fn with_tools(endpoint: &Endpoint) -> OpenAi {
    let mut config = config(&endpoint.base_url);
    config.tools = vec!["todo".to_owned()];
    OpenAi::new(&config, Toolbox::new(&config, Ports::default())).unwrap()
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again_twice() {
    for empty in [
        Reply::stream(&[delta(""), finish("stop"), done()]),
        Reply::stream(&[delta("\n \n"), finish("stop"), done()]),
        Reply::stream(&[done()]),
        Reply::stream(&[finish("length"), done()]),
        Reply::stream(&[delta("<think>hm</think>"), finish("stop"), done()]),
    ] {
        let endpoint = Endpoint::new([empty.clone(), empty, Reply::good("fine")]).await;
        assert_eq!(answered(&*runtime(&endpoint)).await, "fine");
    }
    let empty = Reply::stream(&[finish("stop"), done()]);
    let endpoint = Endpoint::new(vec![empty; 9]).await;
    let failure = failed(&*runtime(&endpoint)).await;
    assert_eq!((failure.kind, endpoint.seen().len()), ("empty", 3));
}

#[tokio::test]
async fn an_empty_answer_after_a_tool_is_asked_for_again() {
    let call = json!({"index": 0, "id": "a", "type": "function", "function": {"name": "todo", "arguments": "{}"}});
    let calls = event(&json!({"choices": [{"delta": {"tool_calls": [call]}}]}));
    let asks = Reply::stream(&[calls, finish("tool_calls"), done()]);
    let endpoint = Endpoint::new([asks, Reply::stream(&[finish("stop"), done()]), Reply::good("fine")]).await;
    let (outcome, _) = run(&with_tools(&endpoint), request("go")).await;
    assert_eq!((text_of(&outcome), endpoint.seen().len()), ("fine", 3));
}

#[tokio::test]
async fn an_answer_that_is_only_reasoning_is_shown_when_asking_again_does_not_help() {
    let only = Reply::stream(&[thought("The answer is 391."), finish("stop"), done()]);
    let endpoint = Endpoint::new(vec![only; 9]).await;
    let text = answered(&*runtime(&endpoint)).await;
    assert!(text.contains("only its reasoning") && text.ends_with("The answer is 391."), "{text}");
    assert_eq!(endpoint.seen().len(), 2);
}

#[tokio::test]
async fn a_model_without_a_system_role_is_asked_without_one_from_then_on() {
    for words in ["System role not supported", "Developer instruction is not enabled for this model"] {
        let endpoint = Endpoint::new([refusal(words), Reply::good("a"), Reply::good("b")]).await;
        let runtime = runtime(&endpoint);
        for _ in 0..2 {
            run(&*runtime, with_history(vec![])).await;
        }
        assert_eq!(messages(&endpoint, 0)[0]["role"], "system");
        for n in [1, 2] {
            assert_eq!(messages(&endpoint, n), [json!({"role": "user", "content": "Be brief.\n\nnow"})]);
        }
    }
}

#[tokio::test]
async fn a_refused_history_is_sent_in_another_form_and_not_for_ever() {
    let words = "roles must alternate user/assistant";
    let endpoint = Endpoint::new([refusal(words), Reply::good("fine")]).await;
    let (outcome, _) = run(&with_tools(&endpoint), with_history(poisoned())).await;
    assert_eq!(text_of(&outcome), "fine");
    assert_eq!(messages(&endpoint, 0)[2]["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(messages(&endpoint, 1).last().unwrap()["content"], "three\n\nnow");

    let endpoint = Endpoint::new(vec![refusal("invalid request"); 20]).await;
    let (outcome, _) = run(&with_tools(&endpoint), with_history(poisoned())).await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    let seen = endpoint.seen().len();
    assert_eq!(seen, 4, "as it is, with turns, as text, without history");
    assert_eq!(messages(&endpoint, seen - 1).len(), 2);
}

#[tokio::test]
async fn a_template_that_fails_on_the_server_is_a_refused_history_too() {
    let broken = Reply::json(500, json!({"error": {"message": "Jinja Exception: roles must alternate"}}));
    let endpoint = Endpoint::new([broken, Reply::good("fine")]).await;
    let (outcome, _) = run(&*runtime(&endpoint), with_history(vec![Message::user("one")])).await;
    assert_eq!((text_of(&outcome), endpoint.seen().len()), ("fine", 2));
}

#[tokio::test]
async fn a_history_beyond_the_window_is_sent_without_its_oldest_messages_from_then_on() {
    let words = "maximum context length is 1000 tokens. However, your messages resulted in 2000 tokens.";
    let too_long = json!({"error": {"message": words, "code": "context_length_exceeded"}});
    let endpoint = Endpoint::new([Reply::json(400, too_long), Reply::good("a"), Reply::good("b")]).await;
    let runtime = runtime(&endpoint);
    let history =
        || (0..10).flat_map(|n| [Message::user("x".repeat(700)), Message::assistant(n.to_string())]).collect();
    let (outcome, left_out) = run(&*runtime, with_history(history())).await;
    assert_eq!(text_of(&outcome), "a");
    assert!((10..=18).contains(&left_out), "{left_out}");
    assert!(messages(&endpoint, 1)[0]["content"].as_str().unwrap().contains("are omitted"));
    let (outcome, again) = run(&*runtime, with_history(history())).await;
    assert_eq!((text_of(&outcome), again, endpoint.seen().len()), ("b", left_out, 3));
    let (_, none) = run(&*runtime, with_history(vec![])).await;
    assert_eq!(none, 0);
}

#[tokio::test]
async fn a_configured_window_is_kept_before_anything_is_refused() {
    let endpoint = Endpoint::new([Reply::good("a")]).await;
    let mut config = config(&endpoint.base_url);
    config.context_window = Some(2_000);
    let history = vec![Message::user("x".repeat(20_000)), Message::assistant("y".repeat(9_000)), Message::user("z")];
    let (outcome, _) = run(&*build(&config).unwrap(), with_history(history)).await;
    assert_eq!(text_of(&outcome), "a");
    assert!(endpoint.seen()[0].body.to_string().len() < 8_000);
}

#[tokio::test]
async fn one_message_beyond_the_window_is_refused_and_costs_only_itself() {
    let too_long = || Reply::json(400, json!({"error": {"message": "maximum context length is 1000 tokens"}}));
    let endpoint = Endpoint::new([too_long(), Reply::good("fine")]).await;
    let runtime = runtime(&endpoint);
    let long = Message::user("x".repeat(9_000));
    let (outcome, _) = run(&*runtime, TurnRequest { input: vec![long.clone()], ..request("") }).await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.kind == hermes_agent::CONTEXT_TOO_LONG && failure.sentence.contains("too long"), "{failure:?}");
    let (outcome, _) = run(&*runtime, with_history(vec![long, Message::assistant("(no answer)")])).await;
    assert_eq!((text_of(&outcome), endpoint.seen().len()), ("fine", 2));
}

#[tokio::test]
async fn an_address_without_its_version_or_with_the_whole_path_works() {
    let endpoint = Endpoint::new(vec![Reply::good("fine"); 4]).await;
    let host = endpoint.base_url.trim_end_matches("/v1").to_owned();
    for base in [host.clone(), format!("{host}/"), format!("{host}/v1/"), format!("{host}/v1/chat/completions")] {
        assert_eq!(answered(&*build(&config(&base)).unwrap()).await, "fine", "{base}");
    }
    let failure = failed(&*build(&config(&format!("{host}/api"))).unwrap()).await;
    assert!(failure.sentence.contains("/api/chat/completions") && failure.sentence.contains("base_url"), "{failure:?}");
    assert!(failure.detail.contains(&format!("POST {host}/api/chat/completions")), "{failure:?}");
    assert_eq!(failure.kind, "address_not_found");
}

#[tokio::test]
async fn a_model_that_reasons_without_an_opening_tag_shows_nothing_of_it_from_then_on() {
    let reply = || Reply::stream(&[delta("hm, 17"), delta("\n</think>\n\n"), delta("391"), finish("stop"), done()]);
    let endpoint = Endpoint::new([reply(), reply(), Reply::good("at once")]).await;
    let runtime = runtime(&endpoint);
    let (outcome, _) = turn(&*runtime).await;
    assert_eq!(text_of(&outcome), "391");
    assert_eq!(answered(&*runtime).await, "391");
    assert_eq!(answered(&*runtime).await, "at once");
}

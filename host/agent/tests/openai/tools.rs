//! The tool loop against a scripted endpoint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_agent::openai::OpenAi;
use hermes_agent::tools::{CallScope, Ledger, Ports, StartedCall, Tool, ToolResult, ToolSpec, Toolbox};
use hermes_agent::{AgentRuntime, EventSink, Message, Role, TurnOutcome, TurnRequest};
use hermes_core::context::TurnContext;
use hermes_core::ids::TurnId;
use hermes_protocol::TurnEvent;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use crate::endpoint::{Endpoint, Reply, Step, delta, done, event, finish};
use crate::{config, request};

/// A log of all events, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Ledger for Log {
    fn started(&self, turn: TurnId, calls: Vec<StartedCall>) -> BoxFuture<'_, Result<(), String>> {
        for call in calls {
            self.say(format!("started {turn}.{} {} step {} {:?}", call.n, call.call.name, call.step, call.said));
        }
        Box::pin(async { Ok(()) })
    }

    fn ended(&self, turn: TurnId, n: u32, result: String) -> BoxFuture<'_, Result<(), String>> {
        self.say(format!("ended {turn}.{n} {result}"));
        Box::pin(async { Ok(()) })
    }
}

/// A tool that logs its argument. If `parallel`, each call waits for a second one.
struct Say {
    parallel: bool,
    log: Log,
    together: Barrier,
}

impl Tool for Say {
    fn spec(&self) -> ToolSpec {
        let properties = json!({"words": {"type": "string"}, "hang": {"type": "boolean"}});
        ToolSpec {
            name: if self.parallel { "say_together" } else { "say" },
            description: "says".to_owned(),
            schema: json!({"type": "object", "properties": properties, "required": ["words"]}),
            parallel: self.parallel,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        arguments["words"].as_str().unwrap_or_default().to_owned()
    }

    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, _: &'c CallScope) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move {
            if arguments["hang"] == true {
                return std::future::pending().await;
            }
            if self.parallel {
                self.together.wait().await;
            }
            let words = arguments["words"].as_str().unwrap_or_default();
            self.log.say(format!("called {words}"));
            ToolResult::done(format!("said {words} to {}", context.user_id))
        })
    }
}

fn runtime(endpoint: &Endpoint, log: &Log, iterations_max: u32) -> OpenAi {
    let say = |parallel| Arc::new(Say { parallel, log: log.clone(), together: Barrier::new(2) }) as Arc<dyn Tool>;
    let ports = Ports { ledger: Arc::new(log.clone()), ..Ports::default() };
    let mut config = config(&endpoint.base_url);
    config.iterations_max = iterations_max;
    OpenAi::new(&config, Toolbox::of([say(false), say(true)], ports)).unwrap()
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn calls(calls: &[Value]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(n, call)| {
            let mut call = call.clone();
            call["index"] = json!(n);
            call
        })
        .collect();
    event(&json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}))
}

fn asks(said: &str, wanted: &[Value]) -> Reply {
    let usage = event(&json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}}));
    Reply::stream(&[delta(said), calls(wanted), finish("tool_calls"), usage, done()])
}

fn from(user: &str) -> TurnRequest {
    let mut request = request("hello");
    request.context.user_id = user.to_owned();
    request
}

async fn run(runtime: &OpenAi, request: TurnRequest) -> (TurnOutcome, String, Vec<String>) {
    let (sink, mut reader) = EventSink::channel();
    let hear = async {
        let (mut text, mut tools) = (String::new(), Vec::new());
        while let Some(event) = reader.recv().await {
            match event {
                TurnEvent::Chunk { text: chunk } => text.push_str(&chunk),
                TurnEvent::Progress { tool: Some(tool), text, .. } => tools.push(format!("{tool}: {text}")),
                _ => {}
            }
        }
        (text, tools)
    };
    let (outcome, (text, tools)) = tokio::join!(runtime.run(request, sink, CancellationToken::new()), hear);
    (outcome, text, tools)
}

/// Returns the messages of a request without the system message: role, content, number of calls.
fn asked(endpoint: &Endpoint, n: usize) -> Vec<(String, String, usize)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = endpoint.seen()[n].body["messages"].as_array().unwrap().clone();
    let calls = |message: &Value| message["tool_calls"].as_array().map_or(0, Vec::len);
    messages.iter().map(|m| (text(&m["role"]), text(&m["content"]), calls(m))).collect()
}

fn contents(messages: &[Message]) -> Vec<(Role, &str)> {
    messages.iter().map(|message| (message.role, message.content.as_str())).collect()
}

#[tokio::test]
async fn a_model_calls_a_tool_and_answers_with_its_result() {
    let endpoint = Endpoint::new([
        asks("Let me see.", &[call("a", "say", r#"{"words": "one"}"#), call("b", "say", r#"{"words": "two"}"#)]),
        Reply::good("Done."),
    ])
    .await;
    let log = Log::default();
    let (outcome, text, tools) = run(&runtime(&endpoint, &log, 40), from("7")).await;
    let TurnOutcome::Finished { text: answer, messages, usage, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(text, "Let me see.\n\nDone.");
    assert_eq!(answer, text, "what was streamed is the answer");
    assert_eq!(tools, ["say: one", "say: two"]);
    let expected = [
        (Role::Assistant, "Let me see."),
        (Role::Tool, "said one to 7"),
        (Role::Tool, "said two to 7"),
        (Role::Assistant, "Done."),
    ];
    assert_eq!(contents(&messages), expected);
    assert_eq!((messages[0].tool_calls.len(), messages[2].tool_call_id.as_deref()), (2, Some("b")));
    assert_eq!((usage.tool_calls, usage.api_calls, usage.input_tokens), (2, 2, 10));
    // Each call is recorded before it starts, its result afterwards, and only then the next call.
    let written = [
        r#"started 1.0 say step 0 "Let me see.""#,
        "called one",
        "ended 1.0 said one to 7",
        r#"started 1.1 say step 0 "Let me see.""#,
        "called two",
        "ended 1.1 said two to 7",
    ];
    assert_eq!(log.lines(), written);
    let offered = &endpoint.seen()[0].body["tools"];
    assert_eq!(offered[0]["function"]["name"], "say");
    let second: Vec<_> = asked(&endpoint, 1).into_iter().map(|(role, _, calls)| (role, calls)).collect();
    assert_eq!(second, [("user", 0), ("assistant", 2), ("tool", 0), ("tool", 0)].map(|(r, n)| (r.to_owned(), n)));
}

#[tokio::test]
async fn calls_run_side_by_side_where_all_of_them_may() {
    let both = [call("a", "say_together", r#"{"words": "one"}"#), call("b", "say_together", r#"{"words": "two"}"#)];
    let endpoint = Endpoint::new([asks("", &both), Reply::good("Done.")]).await;
    let log = Log::default();
    // Each call waits for the other, so sequential execution would never end.
    let (outcome, ..) = run(&runtime(&endpoint, &log, 40), from("7")).await;
    let TurnOutcome::Finished { messages, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(contents(&messages)[1..3], [(Role::Tool, "said one to 7"), (Role::Tool, "said two to 7")]);
    assert!(log.lines()[..2].iter().all(|line| line.starts_with("started")), "{:?}", log.lines());
}

#[tokio::test]
async fn what_a_model_got_wrong_is_told_so_that_it_can_mend_it() {
    let wrong = [
        call("a", "sai", r#"{"words": "x"}"#),
        call("b", "say", "{words"),
        call("c", "say", "{}"),
        call("d", "say", r#"{"words": 7}"#),
        call("e", "say", r#"{"words": "x", "wrds": "y"}"#),
    ];
    let endpoint = Endpoint::new([asks("", &wrong), Reply::good("Sorry.")]).await;
    let log = Log::default();
    let (outcome, ..) = run(&runtime(&endpoint, &log, 40), from("7")).await;
    assert!(matches!(outcome, TurnOutcome::Finished { .. }), "{outcome:?}");
    let notified: Vec<String> =
        asked(&endpoint, 1).into_iter().filter(|(role, ..)| role == "tool").map(|m| m.1).collect();
    let says = ["did you mean", "invalid JSON", "missing", "must be a string", "unknown argument"];
    for (notified, says) in notified.iter().zip(says) {
        assert!(notified.contains(says), "{notified} says {says:?}");
    }
    assert_eq!(notified.len(), 5);
    assert!(!log.lines().iter().any(|line| line.starts_with("called")));
}

#[tokio::test]
async fn a_model_that_calls_on_and_on_is_asked_for_an_answer_at_last() {
    let again = || asks("", &[call("a", "say", r#"{"words": "x"}"#)]);
    let endpoint = Endpoint::new([again(), again(), Reply::good("Enough.")]).await;
    let (outcome, ..) = run(&runtime(&endpoint, &Log::default(), 2), from("7")).await;
    assert!(matches!(&outcome, TurnOutcome::Finished { text, .. } if text == "Enough."), "{outcome:?}");
    let choices: Vec<_> = endpoint.seen().iter().map(|seen| seen.body["tool_choice"].clone()).collect();
    assert_eq!(choices, [Value::Null, Value::Null, json!("none")]);

    let endpoint = Endpoint::new([again(), again(), again()]).await;
    let (outcome, ..) = run(&runtime(&endpoint, &Log::default(), 2), from("7")).await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.sentence.contains("the limit of tool calls"), "{failure:?}");
    assert_eq!(endpoint.seen().len(), 3);
}

#[tokio::test]
async fn an_endpoint_that_refuses_tools_is_asked_without_them_from_then_on() {
    let refusal = json!({"error": {"message": "tiny does not support tools"}});
    let endpoint = Endpoint::new([Reply::json(400, refusal), Reply::good("a"), Reply::good("b")]).await;
    let runtime = runtime(&endpoint, &Log::default(), 40);
    for expected in ["a", "b"] {
        let (outcome, text, _) = run(&runtime, from("7")).await;
        assert!(matches!(outcome, TurnOutcome::Finished { .. }), "{outcome:?}");
        assert_eq!(text, expected);
    }
    let offered: Vec<bool> = endpoint.seen().iter().map(|seen| seen.body["tools"].is_array()).collect();
    assert_eq!(offered, [true, false, false]);
}

#[tokio::test]
async fn an_error_about_one_tool_takes_the_tools_from_nobody() {
    let refusal = json!({"error": {"message": "messages.3: tool call id is not supported here"}});
    let endpoint = Endpoint::new([Reply::json(400, refusal), Reply::good("b")]).await;
    let runtime = runtime(&endpoint, &Log::default(), 40);
    let (outcome, ..) = run(&runtime, from("7")).await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    let (outcome, ..) = run(&runtime, from("8")).await;
    assert!(matches!(outcome, TurnOutcome::Finished { .. }), "{outcome:?}");
    assert!(endpoint.seen().iter().all(|seen| seen.body["tools"].is_array()));
}

#[tokio::test]
async fn a_stopped_turn_leaves_its_tool_at_once_and_keeps_what_was_said() {
    let hangs = call("a", "say", r#"{"words": "x", "hang": true}"#);
    let endpoint = Endpoint::new([asks("Wait.", &[hangs])]).await;
    let log = Log::default();
    let runtime = runtime(&endpoint, &log, 40);
    let (sink, mut reader) = EventSink::channel();
    let cancel = CancellationToken::new();
    let stop = async {
        while !matches!(reader.recv().await, Some(TurnEvent::Progress { tool: Some(_), .. })) {}
        cancel.cancel();
    };
    let turn = tokio::time::timeout(Duration::from_secs(10), runtime.run(from("7"), sink, cancel.clone()));
    let (outcome, ()) = tokio::join!(turn, stop);
    assert!(matches!(outcome.unwrap(), TurnOutcome::Interrupted { text } if text == "Wait."));
    assert_eq!(log.lines(), [r#"started 1.0 say step 0 "Wait.""#], "nobody knows what became of it");
}

#[tokio::test]
async fn a_turn_is_steered_between_two_steps() {
    let endpoint = Endpoint::new([asks("", &[call("a", "say", r#"{"words": "x"}"#)]), Reply::good("Both.")]).await;
    let runtime = runtime(&endpoint, &Log::default(), 40);
    let (sink, _reader, mut line) = EventSink::with_line();
    let steer = async {
        while endpoint.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        line.set_waiting(true);
        line.steering_request().await.send(vec![Message::user("and this")]).unwrap();
    };
    let both = async { tokio::join!(runtime.run(from("7"), sink, CancellationToken::new()), steer) };
    let (outcome, ()) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert!(matches!(outcome, TurnOutcome::Finished { .. }), "{outcome:?}");
    let roles: Vec<String> = asked(&endpoint, 1).into_iter().map(|(role, ..)| role).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
}

#[tokio::test]
async fn a_turn_that_was_cut_off_goes_on_behind_what_it_did() {
    let endpoint = Endpoint::new([asks("", &[call("b", "say", r#"{"words": "two"}"#)]), Reply::good("Done.")]).await;
    let log = Log::default();
    let mut request = from("7");
    let mut before = Message::assistant("First.");
    before.tool_calls = vec![call("a", "say", r#"{"words": "one"}"#)];
    let mut result = Message::new(Role::Tool, "interrupted, outcome unknown");
    result.tool_call_id = Some("a".to_owned());
    request.steps = vec![before.clone(), result.clone()];
    let (outcome, ..) = run(&runtime(&endpoint, &log, 40), request).await;
    let TurnOutcome::Finished { messages, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(messages[..2], [before, result], "the transcript has all of it");
    assert_eq!(messages.len(), 5);
    assert_eq!(asked(&endpoint, 0)[2].1, "interrupted, outcome unknown");
    assert_eq!(log.lines()[0], r#"started 1.1 say step 1 """#, "the numbers go on");
}

#[tokio::test]
async fn whole_calls_in_one_json_object_are_taken_too() {
    let whole = json!({"choices": [{"message": {"content": null, "tool_calls": [call("a", "say", r#"{"words": "x"}"#)]}, "finish_reason": "tool_calls"}]});
    let endpoint = Endpoint::new([Reply::json(200, whole), Reply::good("Done.")]).await;
    let (outcome, text, tools) = run(&runtime(&endpoint, &Log::default(), 40), from("7")).await;
    assert!(matches!(outcome, TurnOutcome::Finished { .. }), "{outcome:?}");
    assert_eq!((text.as_str(), tools), ("Done.", vec!["say: x".to_owned()]));
}

#[tokio::test]
async fn an_answer_that_breaks_off_within_a_call_fails_and_nothing_runs() {
    let endpoint =
        Endpoint::new([Reply::stream(&[delta("Now"), calls(&[call("a", "say", r#"{"words": "#)])]).then(Step::Cut)])
            .await;
    let log = Log::default();
    let (outcome, ..) = run(&runtime(&endpoint, &log, 40), from("7")).await;
    assert!(matches!(&outcome, TurnOutcome::Failed(failure) if failure.partial == "Now"), "{outcome:?}");
    assert!(log.lines().is_empty());
}

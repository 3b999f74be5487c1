//! All cases of the decision whether results can be delivered after a turn.

use std::sync::Arc;

use hermes_agent::EventSink;
use hermes_agent::tools::delegate::{BACKGROUND_PER_OWNER_MAX, DelegateTool, HELPERS_MAX};
use hermes_agent::tools::{CallScope, Ports, Tool};
use hermes_core::context::{Binding, TurnContext};
use hermes_protocol::Capabilities;
use serde_json::{Value, json};

use crate::{Bench, Listed, NeverDone, Repeats, UntilStopped, context, side};

fn bound(async_delivery: bool) -> Binding {
    Binding::Bound(Box::new(context("7", async_delivery)))
}

#[test]
fn never_bound_counts_as_supported() {
    assert!(Binding::Unbound.async_delivery());
}

#[test]
fn bound_to_a_delivering_interface_is_supported_and_its_platform_stays_readable() {
    assert!(bound(true).async_delivery());
    assert_eq!(bound(true).variable("HERMES_SESSION_PLATFORM", |_| None).as_deref(), Some("chat"));
}

#[test]
fn bound_to_a_stateless_interface_is_unsupported_and_its_platform_stays_readable() {
    assert!(!bound(false).async_delivery());
    assert_eq!(bound(false).variable("HERMES_SESSION_PLATFORM", |_| None).as_deref(), Some("chat"));
}

#[test]
fn cleared_falls_back_to_supported() {
    assert!(Binding::Cleared.async_delivery(), "it is not mistaken for an interface that opted out");
}

#[test]
fn an_adapter_that_says_nothing_of_it_delivers_later_and_one_may_opt_out() {
    let says_nothing: Capabilities = serde_json::from_value(json!({})).unwrap();
    assert!(says_nothing.supports_async_delivery);
    let opts_out: Capabilities = serde_json::from_value(json!({"supports_async_delivery": false})).unwrap();
    assert!(!opts_out.supports_async_delivery);
}

async fn in_background(bench: &Bench, context: &TurnContext, more: Value) -> Value {
    let mut arguments = json!({"command": "echo DONE", "background": true});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.terminal(context, arguments).await
}

#[tokio::test]
async fn without_support_no_watch_is_registered_and_the_note_says_to_poll() {
    let bench = Bench::new();
    for more in [json!({"notify_on_complete": true}), json!({"watch_patterns": ["DONE"]})] {
        let started = in_background(&bench, &context("7", false), more).await;
        assert_eq!(started["notify_on_complete"], false, "{started}");
        assert!(started["notify_unsupported"].as_str().unwrap().contains("poll"), "{started}");
        assert!(started["watch_patterns"].is_null() || started["watch_patterns"] == json!([]), "{started}");
        let waited = json!({"action": "wait", "process": started["process"]});
        assert_eq!(bench.process(&context("7", false), waited).await["state"], "ended");
    }
    assert!(bench.notified.subscription.lock().unwrap().is_empty());
    assert!(bench.notified.news.lock().unwrap().is_empty());
}

#[tokio::test]
async fn with_support_a_watch_is_registered_for_the_interface_that_asked() {
    let bench = Bench::new();
    let started = in_background(&bench, &context("7", true), json!({"notify_on_complete": true})).await;
    assert_eq!(started["notify_on_complete"], true, "{started}");
    assert!(started["notify_unsupported"].is_null(), "{started}");
    let subscription = bench.notified.subscription.lock().unwrap().clone();
    let [(id, of)] = &subscription[..] else { panic!("{subscription:?}") };
    assert_eq!((json!(id), of.platform.as_str()), (started["process"].clone(), "chat"));
    let news = bench.notified.last().await;
    assert!(news.last && news.text.contains("exit code 0") && news.text.contains("DONE"), "{news:?}");
}

#[tokio::test]
async fn the_same_session_is_not_blocked_by_an_earlier_stateless_interface() {
    let bench = Bench::new();
    let first = in_background(&bench, &context("7", false), json!({"notify_on_complete": true})).await;
    let second = in_background(&bench, &context("7", true), json!({"notify_on_complete": true})).await;
    assert_eq!((&first["notify_on_complete"], &second["notify_on_complete"]), (&json!(false), &json!(true)));
    assert_eq!(bench.notified.subscription.lock().unwrap().len(), 1);
    bench.notified.last().await;
}

#[tokio::test]
async fn a_hit_of_a_pattern_is_told_with_its_line() {
    let bench = Bench::new();
    let arguments =
        json!({"command": "echo one; echo two ready; echo three", "background": true, "watch_patterns": ["ready"]});
    bench.terminal(&context("7", true), arguments).await;
    let news = bench.notified.last().await;
    assert!(news.text.ends_with("printed:\ntwo ready"), "{news:?}");
}

async fn handed_on(bench: &Bench, async_delivery: bool, background: bool) -> Value {
    let (sink, _) = EventSink::channel();
    let mut side = side(sink);
    side.delegate = Some(Arc::new(Repeats));
    let arguments = json!({"goal": "count", "background": background});
    let result = bench.delegate.call(&context("7", async_delivery), arguments, &side).await;
    serde_json::from_str(&result.text).unwrap()
}

#[tokio::test]
async fn a_task_in_the_background_is_done_at_once_without_support_and_says_so() {
    let bench = Bench::new();
    let at_once = handed_on(&bench, false, true).await;
    assert_eq!(at_once["result"], "count for 7");
    assert!(at_once["note"].as_str().unwrap().contains("ran in the foreground"), "{at_once}");
    assert!(bench.notified.subscription.lock().unwrap().is_empty());
    assert_eq!(
        handed_on(&bench, false, false).await,
        json!({"result": "count for 7"}),
        "in the foreground nothing is to be said"
    );
}

#[tokio::test]
async fn a_task_in_the_background_is_told_later_with_support() {
    let bench = Bench::new();
    let later = handed_on(&bench, true, true).await;
    assert!(later["result"].is_null() && later["task"].is_string(), "{later}");
    let news = bench.notified.last().await;
    assert!(news.last && news.text.contains("count for 7"), "{news:?}");
}

#[tokio::test]
async fn a_helper_that_is_ended_ends_those_that_it_has_and_only_its_own_end_is_told() {
    let bench = Bench::new();
    let listed = Listed::default();
    let ports =
        Ports { wakeups: Arc::new(bench.notified.clone()), tasks: Arc::new(listed.clone()), ..Ports::default() };
    let tool = DelegateTool::new(ports);
    let (sink, _events) = EventSink::channel();
    let mut side = side(sink);
    side.delegate = Some(Arc::new(UntilStopped));
    let later = json!({"goal": "x", "background": true});
    let first = call_of(&tool, later.clone(), &side).await;
    assert_eq!(first["task"], "t0", "one id for whoever ends it and whoever hears of it: {first}");
    let inner = CallScope { depth: 1, stop: listed.stop_of(0), ..side.clone() };
    call_of(&tool, later.clone(), &inner).await;
    let beside = call_of(&tool, later, &side).await;
    assert_eq!(beside["task"], "t2");
    listed.stop_of(0).cancel();
    assert!(listed.stop_of(1).is_cancelled() && !listed.stop_of(2).is_cancelled());
    listed.has_ended("t0").await;
    listed.has_ended("t1").await;
    assert!(bench.notified.news.lock().unwrap().is_empty(), "whoever ended the first has told it");
    bench.notified.is_forgotten("t1").await;
    let ended = listed.ended.lock().unwrap().clone();
    let part = ended.iter().find(|(task, _)| task == "t1").unwrap().1.clone();
    assert_eq!(part, Err("the sub-agent that delegated the task was stopped".to_owned()));
}

async fn call_of(tool: &DelegateTool, arguments: Value, side: &CallScope) -> Value {
    let result = tool.call(&context("7", true), arguments, side).await;
    serde_json::from_str(&result.text).unwrap()
}

#[tokio::test]
async fn nobody_takes_all_the_room_for_what_is_handed_on_in_the_background() {
    let bench = Bench::new();
    let (sink, _events) = EventSink::channel();
    let mut side = side(sink);
    side.delegate = Some(Arc::new(NeverDone));
    let later = json!({"goal": "x", "background": true});
    for _ in 0..BACKGROUND_PER_OWNER_MAX {
        let result = bench.delegate.call(&context("7", true), later.clone(), &side).await;
        assert!(!result.failed, "{result:?}");
    }
    let result = bench.delegate.call(&context("7", true), later.clone(), &side).await;
    assert!(result.failed && result.text.contains("of this user"), "{result:?}");
    let others = bench.delegate.call(&context("8", true), later, &side).await;
    assert!(!others.failed, "{others:?}");
}

#[tokio::test]
async fn one_turn_hands_on_only_so_many_tasks_however_deep_they_stand() {
    let bench = Bench::new();
    let (sink, _events) = EventSink::channel();
    let mut side = side(sink);
    side.delegate = Some(Arc::new(Repeats));
    let inner = CallScope { depth: 1, ..side.clone() };
    for n in 0..HELPERS_MAX {
        let side = if n % 2 == 0 { &side } else { &inner };
        let result = bench.delegate.call(&context("7", false), json!({"goal": "x"}), side).await;
        assert!(!result.failed, "{result:?}");
    }
    for side in [&side, &inner] {
        let result = bench.delegate.call(&context("7", false), json!({"goal": "x"}), side).await;
        assert!(result.failed && result.text.contains("do the rest yourself"), "{result:?}");
    }
}

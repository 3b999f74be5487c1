//! Tests of the host's sessions on the page.

use std::sync::{Arc, Mutex};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::Setup;
use serde_json::{Value, json};

use crate::served::{Served, answer, keeping};

/// The sessions of a host, which a test can change.
type Told = Arc<Mutex<Vec<Value>>>;

fn session(id: &str, title: &str, chats: &[&str]) -> Value {
    let chats: Vec<Chat> = chats.iter().map(|id| Chat::dm(*id)).collect();
    let title = (!title.is_empty()).then_some(title);
    json!({ "id": id, "title": title, "source": "terminal", "messages": 2, "active_ms": 5, "chats": chats })
}

fn telling(setup: Setup, told: &Told) -> Setup {
    let (list, get) = (Arc::clone(told), Arc::clone(told));
    let history = json!([
        { "id": 1, "role": "user", "content": "what is new?", "at_ms": 1 },
        { "id": 2, "role": "assistant", "content": "", "at_ms": 2 },
        { "id": 3, "role": "tool", "content": "{}", "at_ms": 3 },
        { "id": 4, "role": "assistant", "content": "**Nothing.**", "at_ms": 4 },
    ]);
    setup
        .answer("sessions.list", move |asked| {
            let most = usize::try_from(asked["limit"].as_u64().expect("a limit")).expect("a small one");
            Ok(list.lock().expect("the list").iter().take(most).cloned().collect())
        })
        .answer("sessions.get", move |asked| {
            let list = get.lock().expect("the list");
            let found = list.iter().find(|session| session["id"] == asked["session_id"]);
            found.cloned().ok_or_else(|| CallError::new("not_found", "this sender has no such session"))
        })
        .answer("sessions.history", move |_| Ok(history.clone()))
        .answer("sessions.rename", |asked| {
            Ok(json!({ "title": format!("{} #2", asked["title"].as_str().unwrap_or_default()) }))
        })
        .answer("turns.stop", |_| Ok(json!({ "stopped": true })))
}

fn page(told: &Told) -> Served {
    Served::with(json!({}), |setup| telling(setup, told).answer("sessions.delete", |_| Ok(json!({}))))
}

fn says(told: &Told, sessions: Vec<Value>) {
    *told.lock().expect("the list") = sessions;
}

#[test]
fn a_title_that_the_host_gives_is_shown_at_once_and_everywhere() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    page.say(&id, "w1", "hello there");
    let mut stream = page.stream(None);
    says(&told, vec![session("s1", "Greetings", &[&id])]);
    page.deliver(&answer(&id, "k1", 0, "hello"));
    let seen = stream.until(|event| event["conversation"]["title"] == "Greetings");
    assert_eq!(seen.last().map(|event| &event["conversation"]["session"]), Some(&json!("s1")));
    assert_eq!(page.get("/api/state").json()["conversations"][0]["title"], "Greetings");
    let found: Option<Chat> = page.host.call("resolve_target", &json!({ "target": "greetings" })).wait().ok();
    assert_eq!(found.map(|chat| (chat.id, chat.name)), Some((id, Some("Greetings".to_owned()))));
}

#[test]
fn a_conversation_that_left_its_session_is_not_called_like_it_and_the_other_one_is_listed() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    page.say(&id, "w1", "hello there");
    says(&told, vec![session("s1", "Greetings", &[&id])]);
    assert_eq!(page.get("/api/state").json()["sessions"], json!([]));
    // As after /new: the chat has no session until its next message.
    says(&told, vec![session("s1", "Greetings", &[])]);
    let state = page.get("/api/state").json();
    assert_eq!(state["conversations"][0]["title"], "");
    assert_eq!(state["sessions"][0]["title"], "Greetings");
    page.say(&id, "w2", "another subject");
    assert_eq!(page.get("/api/state").json()["conversations"][0]["title"], "another subject");
}

/// Returns more sessions than a list holds, with `last` after them.
fn crowd(last: Value) -> Vec<Value> {
    let others = (0..200).map(|n| session(&format!("o{n}"), &format!("Other {n}"), &[]));
    others.chain([last]).collect()
}

#[test]
fn a_conversation_whose_session_is_beyond_a_full_list_keeps_it_until_the_host_says_otherwise() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    page.say(&id, "w1", "hello there");
    says(&told, vec![session("s1", "Greetings", &[&id])]);
    assert_eq!(page.get("/api/state").json()["conversations"][0]["session"], "s1");
    says(&told, crowd(session("s1", "Greetings", &[&id])));
    let line = page.get("/api/state").json()["conversations"][0].clone();
    assert_eq!((&line["title"], &line["session"]), (&json!("Greetings"), &json!("s1")));
    says(&told, crowd(session("s1", "Greetings", &[])));
    let line = page.get("/api/state").json()["conversations"][0].clone();
    assert_eq!((&line["title"], &line["session"]), (&json!(""), &Value::Null), "it left it after all");
}

#[test]
fn a_conversation_whose_session_is_beyond_a_full_list_is_deleted_with_it() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    page.say(&id, "w1", "hello there");
    says(&told, vec![session("s1", "Greetings", &[&id])]);
    page.get("/api/state");
    says(&told, crowd(session("s1", "Greetings", &[&id])));
    assert_eq!(page.send_json("DELETE", &format!("/api/conversations/{id}"), &json!({})).status, 200);
    assert_eq!(page.host.next_host_call("sessions.delete")["session_id"], "s1");
}

#[test]
fn a_session_of_which_a_full_list_and_the_host_say_nothing_stays_where_it_was() {
    let told = Told::default();
    let page = Served::with(json!({}), |setup| {
        telling(setup, &told).answer("sessions.get", |_| Err(CallError::new("unavailable", "too much to do")))
    });
    let id = page.conversation();
    page.say(&id, "w1", "hello there");
    says(&told, vec![session("s1", "Greetings", &[&id])]);
    page.get("/api/state");
    says(&told, crowd(session("s1", "Greetings", &[&id])));
    let line = page.get("/api/state").json()["conversations"][0].clone();
    assert_eq!((&line["title"], &line["session"]), (&json!("Greetings"), &json!("s1")));
}

#[test]
fn what_was_compressed_or_never_used_is_not_listed() {
    let told = Told::default();
    let page = page(&told);
    let (mut former, mut empty) = (session("s1", "Before", &[]), session("s2", "Empty", &[]));
    former["end_reason"] = json!("compression");
    empty["messages"] = json!(0);
    says(&told, vec![former, empty, session("s3", "After", &[])]);
    let listed = page.get("/api/state").json()["sessions"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["title"], "After");
}

#[test]
fn a_session_from_elsewhere_is_read_and_goes_on_here_with_the_next_message() {
    let told = Told::default();
    let page = page(&told);
    says(&told, vec![session("s9", "From the terminal", &[])]);
    let read = page.get("/api/sessions/s9").json();
    let texts: Vec<_> = read["entries"].as_array().unwrap().iter().map(|entry| entry["text"].clone()).collect();
    assert_eq!(texts, ["what is new?", "**Nothing.**"]);

    let opened = std::thread::scope(|scope| {
        let opening = scope.spawn(|| page.post("/api/sessions/s9/conversation", &json!({})));
        let command = page.host.next_event();
        assert_eq!((command.text.as_str(), command.addressed.command), ("/resume s9", true));
        says(&told, vec![session("s9", "From the terminal", &[&command.chat.id])]);
        page.deliver(&answer(&command.chat.id, "k1", 1, "You are in it again."));
        opening.join().expect("it answers")
    });
    let id = opened.json()["id"].as_str().map(str::to_owned).unwrap_or_else(|| panic!("{}", opened.body));
    assert_eq!(opened.json()["title"], "From the terminal");
    let entries = page.get(&format!("/api/conversations/{id}")).json()["entries"].clone();
    let texts: Vec<_> = entries.as_array().unwrap().iter().map(|entry| entry["text"].clone()).collect();
    assert_eq!(texts, ["what is new?", "**Nothing.**", "You are in it again."]);
    assert_eq!(page.get("/api/state").json()["sessions"], json!([]));
    let again = page.post("/api/sessions/s9/conversation", &json!({}));
    assert_eq!(again.json()["id"], id.as_str(), "it goes on here already");
}

#[test]
fn a_session_that_is_asked_for_twice_at_once_goes_on_in_one_conversation() {
    let told = Told::default();
    let page = page(&told);
    says(&told, vec![session("s9", "From the terminal", &[])]);
    let ids = std::thread::scope(|scope| {
        let click = || page.post("/api/sessions/s9/conversation", &json!({})).json()["id"].clone();
        let clicks = [scope.spawn(click), scope.spawn(click)];
        let command = page.host.next_event();
        says(&told, vec![session("s9", "From the terminal", &[&command.chat.id])]);
        page.deliver(&answer(&command.chat.id, "k1", 1, "You are in it again."));
        clicks.map(|click| click.join().expect("it answers"))
    });
    assert!(ids[0].is_string() && ids[0] == ids[1], "{ids:?}");
    assert_eq!(page.get("/api/state").json()["conversations"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_session_that_cannot_go_on_here_leaves_no_conversation_and_says_why() {
    let told = Told::default();
    let page = page(&told);
    says(&told, vec![session("s9", "Busy", &[])]);
    let refused = std::thread::scope(|scope| {
        let opening = scope.spawn(|| page.post("/api/sessions/s9/conversation", &json!({})));
        let command = page.host.next_event();
        page.deliver(&answer(&command.chat.id, "k1", 1, "It is answering a message elsewhere."));
        opening.join().expect("it answers")
    });
    assert_eq!((refused.status, refused.json()["error"].as_str()), (409, Some("It is answering a message elsewhere.")));
    assert_eq!(page.get("/api/state").json()["conversations"], json!([]));
    assert_eq!(page.post("/api/sessions/s8/conversation", &json!({})).status, 404);
}

#[test]
fn a_conversation_is_called_as_the_host_keeps_the_name_of_its_session() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    page.say(&id, "w1", "hello");
    says(&told, vec![session("s1", "", &[&id])]);
    let renamed = page.send_json("PATCH", &format!("/api/conversations/{id}"), &json!({ "title": "  My\n plan " }));
    let asked = page.host.next_host_call("sessions.rename");
    assert_eq!((asked["session_id"].as_str(), asked["title"].as_str()), (Some("s1"), Some("My plan")));
    assert_eq!(renamed.json()["title"], "My plan #2");
    let empty = page.send_json("PATCH", &format!("/api/conversations/{id}"), &json!({ "title": " " }));
    assert_eq!(empty.status, 400);
}

#[test]
fn a_conversation_is_deleted_with_its_session_and_what_runs_in_it() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    let (first, second) = (page.say(&id, "w1", "hello"), page.say(&id, "w2", "more"));
    says(&told, vec![session("s1", "", &[&id])]);
    assert_eq!(page.send_json("DELETE", &format!("/api/conversations/{id}"), &json!({})).status, 200);
    let stopped: Vec<Value> =
        [(); 2].iter().map(|()| page.host.next_host_call("turns.stop")["inbox_id"].clone()).collect();
    assert_eq!(stopped, [second, first], "what waits first, or it would begin");
    assert_eq!(page.host.next_host_call("sessions.delete")["session_id"], "s1");
    assert_eq!(page.get(&format!("/api/conversations/{id}")).status, 404);
    assert_eq!(page.host.kv(&format!("log/{id}/0")), None);
    let late = page.host.send(&answer(&id, "k1", first, "half of it\n\n(interrupted)"));
    assert!(matches!(&late, SendOutcome::Refused { kind: RefusalKind::ChatGone, .. }), "{late:?}");
    assert_eq!(page.get("/api/state").json()["conversations"], json!([]), "what was on its way brings nothing back");
}

#[test]
fn answers_that_come_in_while_a_conversation_is_deleted_do_not_bring_it_back() {
    let told = Told::default();
    let page = page(&told);
    let id = page.conversation();
    std::thread::scope(|scope| {
        let coming =
            scope.spawn(|| (0..40).map(|n| page.host.send(&answer(&id, &format!("k{n}"), 0, "late"))).collect());
        assert_eq!(page.send_json("DELETE", &format!("/api/conversations/{id}"), &json!({})).status, 200);
        let outcomes: Vec<SendOutcome> = coming.join().expect("it answers");
        let gone = |outcome: &SendOutcome| matches!(outcome, SendOutcome::Refused { kind: RefusalKind::ChatGone, .. });
        let rest = outcomes.iter().skip_while(|outcome| matches!(outcome, SendOutcome::Delivered { .. }));
        assert!(rest.into_iter().all(gone), "{outcomes:?}");
    });
    assert_eq!(page.get("/api/state").json()["conversations"], json!([]));
    assert!(matches!(page.host.send(&answer(&id, "last", 0, "late")), SendOutcome::Refused { .. }));
}

#[test]
fn a_session_that_does_not_end_keeps_its_conversation() {
    let told = Told::default();
    let page = Served::with(json!({}), |setup| {
        telling(setup, &told).answer("sessions.delete", |_| Err(CallError::new("refused", "a turn of it is running")))
    });
    let id = page.conversation();
    page.say(&id, "w1", "hello");
    says(&told, vec![session("s1", "", &[&id])]);
    assert_eq!(page.send_json("DELETE", &format!("/api/conversations/{id}"), &json!({})).status, 409);
    assert_eq!(page.get(&format!("/api/conversations/{id}")).status, 200);
}

#[test]
fn a_search_leads_to_the_conversation_or_to_the_session() {
    let told = Told::default();
    let page = Served::with(json!({}), |setup| {
        telling(setup, &told).answer("sessions.search", |asked| {
            assert_eq!(asked["query"], "rome");
            let hit = |id: &str| json!({ "session": id, "title": "T", "at_ms": 1, "snippet": "in >>>Rome<<<", "role": "user", "message": 1 });
            Ok(json!([hit("s1"), hit("s2")]))
        })
    });
    let id = page.conversation();
    says(&told, vec![session("s1", "T", &[&id]), session("s2", "T #2", &[])]);
    page.get("/api/state");
    let hits = page.get("/api/search?q=rome").json();
    assert_eq!((&hits[0]["conversation"], &hits[1]["conversation"]), (&json!(id), &Value::Null));
    assert_eq!((&hits[1]["session"], &hits[1]["snippet"]), (&json!("s2"), &json!("in >>>Rome<<<")));
}

#[test]
fn where_the_host_tells_nothing_the_page_has_its_own_list() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    page.say(&id, "w1", "hello");
    assert_eq!(page.get("/api/state").json()["conversations"][0]["title"], "hello");
    let renamed = page.send_json("PATCH", &format!("/api/conversations/{id}"), &json!({ "title": "Mine" }));
    assert_eq!((renamed.status, renamed.json()["title"].as_str()), (200, Some("Mine")));
    assert_eq!(page.send_json("DELETE", &format!("/api/conversations/{id}"), &json!({})).status, 200);
    assert_eq!(page.get("/api/state").json()["conversations"], json!([]));
}

#[test]
fn a_command_that_becomes_a_waiting_message_is_shown_as_one() {
    let page = Served::with(json!({}), |setup| {
        setup.answer("turns.status", |asked| {
            // The first event is a command, the second waits for its turn.
            Ok(json!({ "state": if asked["inbox_id"] == 1 { "over" } else { "queued" } }))
        })
    });
    let id = page.conversation();
    let mut stream = page.stream(None);
    page.say(&id, "w1", "/status");
    let waiting = page.say(&id, "w2", "/queue later");
    let seen = stream.until(|event| event["turn"]["inbox_id"] == waiting);
    assert_eq!(seen.last().map(|event| &event["turn"]["state"]), Some(&json!("waiting")));
    page.deliver(&answer(&id, "k1", waiting, "later"));
    assert_eq!(page.get(&format!("/api/conversations/{id}")).json()["turns"], json!([]));
    assert!(seen.iter().all(|event| event["turn"]["inbox_id"] != 1), "an order has no turn");
}

#[test]
fn an_answer_that_was_cut_short_is_marked_also_after_a_restart() {
    let kept = Arc::default();
    let first = Served::with(json!({}), |setup| keeping(setup, &kept));
    let id = first.conversation();
    first.deliver(&answer(&id, "k1", 0, "half of it\n\n(interrupted)"));
    first.deliver(&answer(&id, "k2", 0, "all of it"));
    drop(first);
    let second = Served::with(json!({}), |setup| keeping(setup, &kept));
    let entries = second.get(&format!("/api/conversations/{id}")).json()["entries"].clone();
    assert_eq!((&entries[0]["interrupted"], &entries[1]["interrupted"]), (&json!(true), &json!(false)));
}

#[test]
fn an_answer_stays_below_its_own_question_whatever_was_said_meanwhile() {
    let kept = Arc::default();
    let page = Served::with(json!({}), |setup| keeping(setup, &kept));
    let id = page.conversation();
    let texts = |page: &Served| -> Vec<String> {
        let read = page.get(&format!("/api/conversations/{id}")).json();
        let entries = read["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
    };
    let (one, two) = (page.say(&id, "w1", "one"), page.say(&id, "w2", "two"));
    let long = "long ".repeat(8_000);
    page.deliver(&answer(&id, "k1", one, &long));
    page.deliver(&answer(&id, "k2", one, "half of it\n\n(interrupted)"));
    assert_eq!(texts(&page), ["one", &long, "half of it\n\n(interrupted)", "two"]);
    page.deliver(&answer(&id, "k3", two, "the answer to two"));
    page.deliver(&answer(&id, "k4", one, "a result that comes late"));
    page.say(&id, "w3", "three");
    page.deliver(&answer(&id, "k5", 0, "unasked"));
    let expected = [
        "one",
        &long,
        "half of it\n\n(interrupted)",
        "two",
        "the answer to two",
        "a result that comes late",
        "three",
        "unasked",
    ];
    assert_eq!(texts(&page), expected);
}

#[test]
fn the_operators_commands_are_offered_with_the_words_that_may_follow() {
    let asked = |asked: &Value| {
        assert_eq!(asked["sender"]["roles"], json!(["operator"]));
        let model = CommandInfo::new("model", "Choose the model", "[name]").with_values(["reset"]);
        Ok(json!([model, CommandInfo::new("restart", "Restart the host", "")]))
    };
    let page = Served::with(json!({}), |setup| {
        setup.answer("commands.list", asked).answer("models.list", |_| Ok(json!([{ "id": "small" }])))
    });
    let commands = page.get("/api/state").json()["commands"].clone();
    assert_eq!(commands[0]["values"], json!(["small", "reset"]));
    let mut stream = page.stream(None);
    let menu = json!({ "commands": [CommandInfo::new("new", "start afresh", "")] });
    page.host.call("set_commands", &menu).wait();
    page.deliver(&answer("inbox", "k1", 0, "a landmark"));
    let seen = stream.until(|event| event["entry"]["text"] == "a landmark");
    assert!(seen.iter().all(|event| event["type"] != "commands"), "an unchanged menu is no news");
    assert_eq!(page.get("/api/state").json()["commands"][1]["name"], "restart");
}

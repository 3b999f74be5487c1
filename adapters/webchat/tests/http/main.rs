//! Tests of the page's server over HTTP, as a browser uses it, with a host in this process.

mod served;
mod sessions;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::method;
use hermes_adapter_sdk::testing::MockHost;
use hermes_adapter_webchat::Webchat;
use serde_json::{Value, json};

use crate::served::{Served, answer, keeping, kind};

hermes_adapter_sdk::conformance!(Webchat, { "listen": "127.0.0.1:0" });

#[test]
fn the_link_opens_the_page_and_leaves_a_cookie() {
    let page = Served::start(json!({}));
    let opened = page.plain("GET", &format!("/?token={}", page.token), &[]);
    assert_eq!((opened.status, opened.header("location")), (303, Some("/")));
    let cookie = opened.header("set-cookie").expect("a cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(&page.token),
        "{cookie}"
    );
    assert!(opened.header("content-security-policy").is_some_and(|csp| csp.contains("default-src 'none'")));
    let from_a_site = page.plain("GET", &format!("/?token={}", page.token), &[("Sec-Fetch-Site", "cross-site")]);
    assert_eq!((from_a_site.status, from_a_site.header("location")), (200, None));
    assert!(from_a_site.header("set-cookie").is_some());
    let with_token = format!("{}={}", page.cookie_name, page.token);
    assert_eq!(page.plain("GET", "/api/state", &[("Cookie", &with_token)]).status, 401, "the token is no cookie");
    assert_eq!(page.get("/").status, 200);
    assert_eq!(page.get("/app.js").status, 200);
}

#[test]
fn nobody_comes_in_without_the_token() {
    let page = Served::start(json!({}));
    for path in ["/", "/?token=", "/?token=0123456789abcdef0123456789abcdef", "/api/state", "/api/stream"] {
        let refused = page.plain("GET", path, &[]);
        assert_eq!(refused.status, 401, "{path}");
        assert_eq!(refused.header("set-cookie"), None);
        assert!(!refused.body.contains(&page.token));
    }
    let wrong = format!("{}={}", page.cookie_name, "x".repeat(page.token.len()));
    assert_eq!(page.plain("GET", "/api/state", &[("Cookie", &wrong)]).status, 401);
}

#[test]
fn hundreds_of_idle_connections_keep_no_page_out() {
    let page = Served::start(json!({}));
    let mut stream = page.stream(None);
    let mut idle = Vec::new();
    for n in 0..300 {
        let mut stranger = page.connect();
        let head =
            format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n{}", page.address, if n % 2 == 0 { "\r\n" } else { "" });
        // A connection that was evicted already may refuse the write.
        let _ = std::io::Write::write_all(&mut stranger, head.as_bytes());
        idle.push(stranger);
    }
    assert_eq!(page.get("/api/state").status, 200);
    assert!(page.plain("GET", "/healthz", &[]).body.starts_with("ok "));
    let id = page.conversation();
    page.say(&id, "w1", "still here");
    stream.until(|event| event.to_string().contains("still here"));
}

#[test]
fn a_rebound_name_gets_nothing() {
    let page = Served::start(json!({}));
    for host in ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"] {
        let refused = page.raw("GET", &format!("/?token={}", page.token), host, &[("Cookie", &page.cookie())], b"");
        assert_eq!(refused.status, 403, "{host}");
    }
    let localhost = format!("localhost:{}", page.port());
    assert_eq!(page.raw("GET", "/api/state", &localhost, &[("Cookie", &page.cookie())], b"").status, 200);
}

#[test]
fn another_site_gets_nothing() {
    let page = Served::start(json!({}));
    let cookie = page.cookie();
    for (method, headers) in [
        ("GET", vec![("Origin", "https://evil.example")]),
        ("GET", vec![("Sec-Fetch-Site", "cross-site")]),
        ("GET", vec![("Origin", "null")]),
        ("POST", vec![("Origin", "http://127.0.0.1:1")]),
        ("POST", vec![]),
    ] {
        let path = if method == "GET" { "/api/state" } else { "/api/conversations" };
        let headers: Vec<(&str, &str)> = headers.into_iter().chain([("Cookie", cookie.as_str())]).collect();
        assert_eq!(page.plain(method, path, &headers).status, 403, "{headers:?}");
    }
}

#[test]
fn a_message_becomes_one_event_of_the_operator() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    let said = json!({ "id": "w1", "text": "hello there" });
    let entry = page.post(&format!("/api/conversations/{id}/messages"), &said);
    assert_eq!((entry.status, entry.json()["text"].as_str()), (200, Some("hello there")));
    let again = page.post(&format!("/api/conversations/{id}/messages"), &said);
    assert_eq!(again.json()["inbox_id"], entry.json()["inbox_id"]);

    let event = page.host.next_event();
    assert_eq!(event.event_id, format!("m:{id}:w1"));
    assert_eq!((event.chat.kind.as_str(), event.chat.id.as_str()), ("dm", id.as_str()));
    assert_eq!(event.sender.id, "operator");
    assert_eq!(event.sender.roles, ["operator"]);
    let read = page.get(&format!("/api/conversations/{id}")).json();
    assert_eq!(read["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(read["conversation"]["title"], "hello there");
    assert_eq!(page.get("/api/state").json()["conversations"][0]["title"], "hello there");
}

#[test]
fn what_the_host_did_not_take_is_not_shown_as_said() {
    let page = Served::with(json!({}), |setup| {
        setup.answer("emit", |_| Err(CallError::new("unavailable", "the disk is full")))
    });
    let id = page.conversation();
    let refused = page.post(&format!("/api/conversations/{id}/messages"), &json!({ "id": "w1", "text": "hello" }));
    assert_eq!(refused.status, 502);
    assert!(refused.body.contains("the disk is full"));
    assert_eq!(page.get(&format!("/api/conversations/{id}")).json()["entries"], json!([]));
}

#[test]
fn messages_have_bounds() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    let path = format!("/api/conversations/{id}/messages");
    for said in [
        json!({ "id": "w1", "text": "   " }),
        json!({ "id": "", "text": "x" }),
        json!({ "id": "a/b", "text": "x" }),
        json!({ "id": "w1", "text": "x".repeat(300 * 1024) }),
        json!({ "id": "w1", "text": "x", "files": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] }),
    ] {
        assert_eq!(page.post(&path, &said).status, 400);
    }
    assert_eq!(page.post(&path, &json!({ "id": "w1", "text": "x", "files": ["nothing"] })).status, 404);
    assert_eq!(page.post("/api/conversations/c_unknown/messages", &json!({ "id": "w1", "text": "x" })).status, 404);
    assert!(page.host.emitted().is_empty());
}

#[test]
fn an_answer_streams_and_its_final_text_takes_its_place() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    let mut stream = page.stream(None);
    let inbox_id = page.say(&id, "w1", "hello");
    page.turn(inbox_id, 0, json!({ "type": "metadata", "session_id": "s1", "turn_id": 1 }));
    page.turn(inbox_id, 1, json!({ "type": "chunk", "text": "Hel" }));
    page.turn(inbox_id, 2, json!({ "type": "chunk", "text": "lo" }));
    let turns = page.get(&format!("/api/conversations/{id}")).json()["turns"].clone();
    assert_eq!((turns[0]["text"].as_str(), turns[0]["state"].as_str()), (Some("Hello"), Some("running")));
    page.turn(inbox_id, 3, json!({ "type": "done", "finish_reason": "stop" }));
    let outcome = page.host.send(&answer(&id, "k1", inbox_id, "Hello."));
    assert!(matches!(&outcome, SendOutcome::Delivered { receipt } if receipt.message_ids == ["d-k1"]), "{outcome:?}");

    let kinds: Vec<String> = stream.until(|event| event["entry"]["text"] == "Hello.").iter().map(kind).collect();
    let expected = ["entry", "turn", "turn", "chunk", "chunk", "turn_end", "entry"];
    assert_eq!(
        kinds.iter().filter(|kind| *kind != "conversation").collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    let read = page.get(&format!("/api/conversations/{id}")).json();
    assert_eq!(read["turns"], json!([]));
    assert_eq!(read["entries"][1]["text"], "Hello.");
}

#[test]
fn a_message_is_escaped_html_beside_its_text() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    let mut stream = page.stream(None);
    let inbox_id = page.say(&id, "w1", "**mine** <b>");
    page.turn(inbox_id, 0, json!({ "type": "metadata", "session_id": "s1", "turn_id": 1 }));
    page.turn(inbox_id, 1, json!({ "type": "chunk", "text": "x <script> 😀 **a" }));
    page.turn(inbox_id, 2, json!({ "type": "chunk", "text": "**" }));
    let chunks = stream.until(|event| event["type"] == "chunk" && event["text"] == "**");
    let chunks: Vec<&Value> = chunks.iter().filter(|event| event["type"] == "chunk").collect();
    assert_eq!((&chunks[0]["html_at"], &chunks[0]["html"]), (&json!(0), &json!("<p>x &lt;script&gt; 😀 **a</p>")));
    assert_eq!((&chunks[1]["html_at"], &chunks[1]["html"]), (&json!(23), &json!("<strong>a</strong></p>")));
    let turn = page.get(&format!("/api/conversations/{id}")).json()["turns"][0].clone();
    assert_eq!(
        (&turn["text"], &turn["html"]),
        (&json!("x <script> 😀 **a**"), &json!("<p>x &lt;script&gt; 😀 <strong>a</strong></p>"))
    );

    let mut plain = answer(&id, "k2", 0, "*plain*");
    plain.format = Format::Plain;
    page.deliver(&answer(&id, "k1", inbox_id, "[a](javascript:b) <i>\n\n(interrupted)"));
    page.deliver(&plain);
    let entries = page.get(&format!("/api/conversations/{id}")).json()["entries"].clone();
    assert_eq!((&entries[0]["text"], &entries[0]["html"]), (&json!("**mine** <b>"), &Value::Null));
    assert_eq!(entries[1]["text"], "[a](javascript:b) <i>\n\n(interrupted)");
    assert_eq!(
        (&entries[1]["html"], &entries[1]["interrupted"]),
        (&json!("<p>a (javascript:b) &lt;i&gt;</p>"), &json!(true))
    );
    assert_eq!((&entries[2]["text"], &entries[2]["html"]), (&json!("*plain*"), &Value::Null));
}

#[test]
fn a_stored_message_of_an_earlier_version_is_html() {
    let index = json!({ "conversations": [{ "id": "c_old", "title": "Old", "created_ms": 1, "updated_ms": 1 }] });
    let log = json!({ "entries": [{ "id": "a", "from": "agent", "text": "*old*", "at_ms": 1, "markdown": true }] });
    let stored = [("index", index), ("log/c_old/0", log)].map(|(key, value)| (key.to_owned(), value.to_string()));
    let kept = Arc::new(Mutex::new(BTreeMap::from(stored)));
    let page = Served::with(json!({}), |setup| keeping(setup, &kept));
    let entry = page.get("/api/conversations/c_old").json()["entries"][0].clone();
    assert_eq!((&entry["text"], &entry["html"]), (&json!("*old*"), &json!("<p><em>old</em></p>")));
}

#[test]
fn the_same_key_is_shown_once() {
    let page = Served::start(json!({}));
    let first = page.host.send(&answer("inbox", "k1", 0, "once"));
    let second = page.host.send(&answer("inbox", "k1", 0, "once"));
    assert_eq!(first, second);
    assert_eq!(page.get("/api/conversations/inbox").json()["entries"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_page_that_reconnects_loses_nothing_and_doubles_nothing() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    let mut stream = page.stream(None);
    page.deliver(&answer(&id, "k1", 0, "one"));
    stream.until(|event| event["entry"]["text"] == "one");
    let last = stream.last_id.clone();
    drop(stream);
    page.deliver(&answer(&id, "k2", 0, "two"));
    page.deliver(&answer(&id, "k3", 0, "three"));

    let mut again = page.stream(Some(&last));
    let seen = again.until(|event| event["entry"]["text"] == "three");
    let texts: Vec<&str> = seen.iter().filter_map(|event| event["entry"]["text"].as_str()).collect();
    assert_eq!(texts, ["two", "three"]);

    for foreign in ["0123.7", "nonsense", &last.replace('.', "9.")] {
        assert_eq!(page.stream(Some(foreign)).next()["type"], "reset", "{foreign}");
    }
}

#[test]
fn stop_stops_the_turn_of_its_conversation() {
    let page = Served::with(json!({}), |setup| setup.answer("turns.stop", |_| Ok(json!({ "stopped": true }))));
    let (one, two) = (page.conversation(), page.conversation());
    page.say(&one, "w1", "first");
    let inbox_id = page.say(&two, "w2", "second");
    let stopped = page.post(&format!("/api/conversations/{two}/stop"), &json!({}));
    assert_eq!(stopped.json()["stopped"], true);
    assert_eq!(page.host.next_host_call("turns.stop")["inbox_id"], inbox_id);
}

#[test]
fn stop_is_the_command_where_the_method_is_not_granted() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    page.say(&id, "w1", "go on for long");
    assert_eq!(page.post(&format!("/api/conversations/{id}/stop"), &json!({})).status, 200);
    let commands: Vec<Event> = page.host.emitted().into_iter().filter(|event| event.addressed.command).collect();
    assert_eq!(commands.iter().map(|event| event.text.as_str()).collect::<Vec<_>>(), ["/stop"]);
}

#[test]
fn a_file_goes_with_its_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = Served::with(json!({}), |setup| setup.media_dir(folder.path()));
    let id = page.conversation();
    let cookie = page.cookie();
    let headers = [("Cookie", cookie.as_str()), ("Origin", page.origin.as_str()), ("Content-Type", "image/png")];
    let path = format!("/api/conversations/{id}/files?name=..%2F..%2Fa%20b.png");
    let kept = page.raw("POST", &path, &page.address, &headers, b"not really a picture");
    assert_eq!(kept.status, 200, "{}", kept.body);
    assert_eq!(kept.json()["name"], "a b.png");
    let media = kept.json()["id"].as_str().map(str::to_owned).expect("an id");
    let said = json!({ "id": "w1", "text": "", "files": [media] });
    let entry = page.post(&format!("/api/conversations/{id}/messages"), &said).json();
    let event = page.host.next_event();
    assert_eq!((event.attachments[0].media.as_deref(), event.attachments[0].size), (Some(media.as_str()), 20));

    let file = page.get(entry["files"][0]["url"].as_str().expect("an address"));
    assert_eq!((file.status, file.body.as_str()), (200, "not really a picture"));
    assert!(file.header("content-security-policy").is_some_and(|csp| csp.contains("sandbox")));
    assert_eq!(page.get(&format!("/files/{id}/other")).status, 404);
}

#[test]
fn an_upload_that_is_too_large_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = Served::with(json!({ "upload_bytes_max": 1000 }), |setup| setup.media_dir(folder.path()));
    let id = page.conversation();
    let cookie = page.cookie();
    let headers = [("Cookie", cookie.as_str()), ("Origin", page.origin.as_str())];
    let path = format!("/api/conversations/{id}/files?name=a");
    assert_eq!(page.raw("POST", &path, &page.address, &headers, &[b'x'; 1001]).status, 413);
    let chunked = [("Cookie", cookie.as_str()), ("Origin", page.origin.as_str()), ("Transfer-Encoding", "chunked")];
    let body = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1001, "x".repeat(1001));
    assert_eq!(page.raw("POST", &path, &page.address, &chunked, body.as_bytes()).status, 413);
    assert_eq!(page.raw("POST", &path, &page.address, &headers, &[b'x'; 1000]).status, 200);
}

#[test]
fn a_pressed_button_becomes_a_choice_and_the_host_takes_the_buttons_away() {
    let page = Served::start(json!({}));
    let mut ask = answer("inbox", "k1", 0, "Run it?");
    ask.purpose = Purpose::Ask;
    ask.choices = Some(Choices::new("ask1", vec![ChoiceOption::new("yes", "Yes"), ChoiceOption::new("no", "No")], 0));
    assert!(matches!(page.host.send(&ask), SendOutcome::Delivered { .. }));
    let pressed = json!({ "entry": "d-k1", "ask": "ask1", "option": "yes" });
    assert_eq!(page.post("/api/conversations/inbox/choices", &pressed).status, 200);
    let event = page.host.next_event();
    assert_eq!((event.kind.as_str(), event.sender.id.as_str()), ("choice", "operator"));
    assert_eq!(event.choice.map(|choice| (choice.ask, choice.option)), Some(("ask1".to_owned(), "yes".to_owned())));
    assert_eq!(page.get("/api/conversations/inbox").json()["entries"][0]["chosen"], "yes");

    let edit = json!({ "message": SentMessage::new(Chat::dm("inbox"), "d-k1"), "outgoing": answer("inbox", "k2", 0, "Run it? Yes") });
    let outcome: SendOutcome = page.host.call(method::EDIT, &edit).wait().ok();
    assert!(matches!(outcome, SendOutcome::Delivered { .. }));
    let entry = page.get("/api/conversations/inbox").json()["entries"][0].clone();
    assert_eq!((entry["text"].as_str(), &entry["choices"]), (Some("Run it? Yes"), &Value::Null));
}

#[test]
fn conversations_and_the_link_survive_a_restart() {
    let kept: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let long = "a long answer 😀 ".repeat(8_000);
    let first = Served::with(json!({}), |setup| keeping(setup, &kept));
    let id = first.conversation();
    first.say(&id, "w1", "hello");
    for n in 0..60 {
        first.deliver(&answer(&id, &format!("k{n}"), 0, &format!("answer {n} {}", "x".repeat(2_000))));
    }
    first.deliver(&answer(&id, "long", 0, &long));
    let token = first.token.clone();
    drop(first);

    let second = Served::with(json!({}), |setup| keeping(setup, &kept));
    assert_eq!(second.token, token);
    let mut entries: Vec<Value> = Vec::new();
    let mut before = String::new();
    loop {
        let read = second.get(&format!("/api/conversations/{id}{before}")).json();
        entries.splice(0..0, read["entries"].as_array().expect("entries").iter().cloned());
        let Some(page) = read["before"].as_u64() else { break };
        before = format!("?before={page}");
    }
    assert_eq!(entries.len(), 62);
    assert_eq!(entries[0]["text"], "hello");
    assert!(entries[60]["text"].as_str().is_some_and(|text| text.starts_with("answer 59 ")));
    assert_eq!(entries[61]["text"].as_str(), Some(long.as_str()));
    assert!(kept.lock().expect("the map").values().all(|value| value.len() < 64 * 1024));
}

#[test]
fn a_port_that_cannot_be_had_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let host = MockHost::start::<Webchat>(json!({ "listen": address })).expect("it starts");
    let error = host.connect().expect_err("the port is taken");
    assert!(
        matches!(&error, ConnectError::Retry { reason, .. } if reason.contains("`listen`") && reason.contains(&address)),
        "{error:?}"
    );

    for config in [json!({ "listen": "8643" }), json!({ "listen": "0.0.0.0:0" }), json!({ "token": "short" })] {
        let key = config.as_object().and_then(|keys| keys.keys().next()).expect("a key");
        let sentence = MockHost::check_config::<Webchat>(&config).expect_err("it cannot be meant");
        assert!(sentence.contains(&format!("`{key}`")) && sentence.contains("; "), "{sentence}");
        assert!(MockHost::start::<Webchat>(config.clone()).is_err(), "{config}");
    }
}

#[test]
fn a_page_that_others_can_reach_needs_the_names_under_which_it_is_opened() {
    let judge = |config| MockHost::check_config::<Webchat>(&config);
    let sentence = judge(json!({ "listen": "0.0.0.0:8643" })).expect_err("nobody could open it");
    assert!(sentence.contains("`allowed_hosts`") && sentence.contains("127.0.0.1"), "{sentence}");
    assert_eq!(judge(json!({ "listen": "0.0.0.0:8643", "allowed_hosts": ["chat.example.org"] })), Ok(()));
    assert_eq!(judge(json!({ "listen": "[::1]:8643" })), Ok(()));
    let sentence = judge(json!({ "allowed_hosts": ["https://chat.example.org/"] })).expect_err("no browser sends that");
    assert!(sentence.contains("use only the host name"), "{sentence}");
}

#[test]
fn health_is_a_real_fetch() {
    let page = Served::start(json!({}));
    let healthy = page.host.call(method::HEALTH, &json!({})).wait();
    assert_eq!(healthy.status, hermes_adapter_sdk::testing::status::OK);
    page.host.call(method::DISCONNECT, &json!({})).wait();
    let sick = page.host.call(method::HEALTH, &json!({})).wait();
    assert_eq!(sick.status, hermes_adapter_sdk::testing::status::ERR);
}

#[test]
fn targets_are_found_by_id_and_title() {
    let page = Served::start(json!({}));
    let id = page.conversation();
    page.say(&id, "w1", "Shopping list");
    for target in [id.as_str(), "shopping LIST"] {
        let found: Option<Chat> = page.host.call(method::RESOLVE_TARGET, &json!({ "target": target })).wait().ok();
        assert_eq!(found.map(|chat| chat.id), Some(id.clone()), "{target}");
    }
    let unknown: Option<Chat> = page.host.call(method::RESOLVE_TARGET, &json!({ "target": "other" })).wait().ok();
    assert_eq!(unknown, None);
}

//! Tests of successful requests.

use super::*;

#[test]
fn a_question_becomes_an_event_and_its_reply_the_answer() {
    let world = World::new();
    let asking = world.ask(&[], hello());
    let event = world.host.next_event();
    assert_eq!((event.text.as_str(), event.sender.id.as_str(), &event.kind), ("hello", "api", &EventKind::Message));
    assert!(event.chat.id.starts_with("request:"), "{event:?}");
    assert!(is_delivered(&world.reply(1, "good *day*")));
    let answer = asking.join().unwrap();
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "m");
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(body["created"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    assert_eq!(body["choices"][0]["message"]["content"], "good *day*");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer.headers["cache-control"], "no-store");
}

#[test]
fn what_an_answer_cost_comes_from_its_stream() {
    let world = World::new();
    let asking = world.ask(&[], hello());
    world.host.next_event();
    assert!(world.stream(1, 1, metadata()));
    assert!(world.stream(1, 2, done()));
    assert!(is_delivered(&world.reply(1, "hi")));
    let body = asking.join().unwrap().json();
    assert_eq!(body["usage"], json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}));
    assert_eq!(body["model"], "test-model");
}

#[test]
fn a_stream_is_chunks_then_usage_then_done() {
    let world = World::new();
    let asking = world.ask(&[], streamed());
    world.host.next_event();
    for (seq, event) in (1..).zip([metadata(), chunk("Grüße "), chunk("👩‍👩‍👧"), done()]) {
        assert!(world.stream(1, seq, event));
    }
    assert!(is_delivered(&world.reply(1, "Grüße 👩‍👩‍👧")));
    let answer = asking.join().unwrap();
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "text/event-stream"));
    let mut data = answer.data();
    assert_eq!(data.pop().unwrap(), "[DONE]");
    let chunks: Vec<Value> = data.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
    }
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Grüße 👩‍👩‍👧");
    let [.., finish, usage] = &chunks[..] else { panic!("{chunks:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(7)));
}

#[test]
fn a_stream_shows_a_piece_as_soon_as_it_is_there() {
    let world = World::new();
    let mut connection = world.address.open("POST", "/v1/chat/completions", &[], &streamed().to_string());
    world.host.next_event();
    world.stream(1, 1, chunk("first"));
    connection.wait_for("first");
    world.stream(1, 2, chunk("second"));
    connection.wait_for("second");
    world.stream(1, 3, done());
    let send = world.host.call(method::SEND, &reply(1, "firstsecond"));
    connection.wait_for("[DONE]");
    assert!(is_delivered(&send.wait().ok()));
}

#[test]
fn the_five_events_end_with_one_that_is_last() {
    let world = World::new();
    let asking = world.post("/api/chat/stream", &[], json!({"message": "hello", "session_id": "trip"}));
    let event = world.host.next_event();
    assert_eq!(event.chat.id, "session:trip");
    let progress = TurnEvent::Progress { stage: "tool".to_owned(), text: "looking".to_owned(), tool: None };
    for (seq, turn_event) in (1..).zip([metadata(), progress, chunk("hi"), done()]) {
        world.stream(1, seq, turn_event);
        if seq == 1 {
            let told = world.host.send(&Outgoing::text(event.chat.clone(), "still at work"));
            assert!(is_delivered(&told));
        }
    }
    world.deliver(1, "hi");
    let answer = asking.join().unwrap();
    assert_eq!(answer.headers["x-hermes-session-id"], "trip");
    assert_eq!(answer.names(), ["metadata", "progress", "progress", "chunk", "done"]);
    let events: Vec<TurnEvent> = answer.data().iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(events[0], metadata());
    assert!(
        matches!(&events[1], TurnEvent::Progress { stage, text, .. } if stage == "notice" && text == "still at work")
    );
    assert_eq!((&events[3], &events[4]), (&chunk("hi"), &done()));
}

#[test]
fn a_command_is_answered_without_a_turn_and_metadata_comes_all_the_same() {
    let world = World::new();
    let asking = world.post("/api/chat/stream", &[], json!({"messages": [{"role": "user", "content": "/status"}]}));
    assert_eq!(world.host.next_event().text, "/status");
    world.deliver(1, "all is well");
    let answer = asking.join().unwrap();
    assert_eq!(answer.names(), ["metadata", "chunk", "done"]);
    assert!(answer.body.contains("all is well"));
}

#[test]
fn a_conversation_goes_on_under_its_name() {
    let world = World::new();
    let body = json!({"messages": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]});
    let asking = world.ask(&[("x-hermes-session-id", "trip")], body.clone());
    let named = world.host.next_event();
    assert_eq!((named.chat.id.as_str(), named.text.as_str()), ("session:trip", "three"));
    world.deliver(1, "four");
    assert_eq!(asking.join().unwrap().headers["x-hermes-session-id"], "trip");
    let asking = world.ask(&[], body);
    assert_eq!(world.host.next_event().text, "[conversation so far]\nuser: one\nassistant: two\n\n[message]\nthree");
    world.deliver(2, "four");
    asking.join().unwrap();
}

#[test]
fn a_reply_that_is_faster_than_its_event_finds_its_request() {
    let (emitting, emitted) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let setup = MockHost::setup("api_server").answer("emit", move |_| {
        emitting.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        Ok(json!({"inbox_id": 41}))
    });
    let world = World::with(setup, json!({}));
    let asking = world.ask(&[], hello());
    emitted.recv().unwrap();
    let send = world.host.call(method::SEND, &reply(41, "quick"));
    go.send(()).unwrap();
    assert!(is_delivered(&send.wait().ok()));
    assert_eq!(asking.join().unwrap().json()["choices"][0]["message"]["content"], "quick");
}

#[test]
fn models_are_the_agent_and_what_the_host_lists() {
    let setup = MockHost::setup("api_server").answer("models.list", |_| Ok(json!([{"id": "gpt-x"}])));
    let world = World::with(setup, json!({"model_name": "butler"}));
    let body = world.address.get("/v1/models", &[]).json();
    let ids: Vec<&str> = body["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((body["object"].as_str(), ids), (Some("list"), vec!["butler", "gpt-x"]));
    assert_eq!(world.address.get("/v1/models/gpt-x", &[]).json()["object"], "model");
    assert_eq!(world.address.get("/v1/models/other", &[]).error_code(), "model_not_found");
}

#[test]
fn a_send_repeated_by_the_host_is_delivered_once() {
    let world = World::new();
    let asking = world.ask(&[], hello());
    world.host.next_event();
    assert!(is_delivered(&world.reply(1, "hi")));
    asking.join().unwrap();
    assert!(is_delivered(&world.reply(1, "hi")), "the platform deduplicates the key");
}

#[test]
fn the_files_of_a_request_are_attachments_of_its_event() {
    let folder = std::env::temp_dir().join(format!("api-server-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let world = World::with(MockHost::setup("api_server").media_dir(&folder), json!({}));
    let file = json!({"filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"});
    let parts = json!([
        {"type": "text", "text": "what is in it?"},
        {"type": "file", "file": file},
        {"type": "input_file", "filename": "b.pdf", "file_data": "JVBERi0="},
    ]);
    let asking = world.ask(&[], json!({"messages": [{"role": "user", "content": parts}]}));
    let event = world.host.next_event();
    assert_eq!(event.text, "what is in it?");
    let seen: Vec<_> = event.attachments.iter().map(|file| (&*file.name, &*file.mime, file.size)).collect();
    assert_eq!(seen, [("a.csv", "text/csv", 3), ("b.pdf", "application/octet-stream", 5)]);
    let contents: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| String::from_utf8(std::fs::read(entry.unwrap().path()).unwrap()).unwrap())
        .collect();
    assert!(contents.len() == 2 && contents.iter().any(|content| content == "a,b"), "{contents:?}");
    world.deliver(1, "two letters");
    assert_eq!(asking.join().unwrap().status, 200);
    for (key, value) in [("file_id", "file-1"), ("file_url", "https://example.org/a.pdf")] {
        let parts = json!([{"type": "input_file", key: value}]);
        let refused = world.ask(&[], json!({"messages": [{"role": "user", "content": parts}]})).join().unwrap();
        let error = refused.json()["error"].clone();
        assert_eq!((refused.status, &error["param"]), (400, &json!("messages")));
        assert!(error["message"].as_str().unwrap().starts_with(&format!("{key} is not supported")), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

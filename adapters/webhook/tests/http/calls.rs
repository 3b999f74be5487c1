//! The results of calls.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_call_is_an_event_and_is_answered_once_the_host_has_it() {
    let world = World::new(json!({ "prompt": "{text} ({event_type})", "deliver": "telegram:-100:17" }));
    let answer = world.call("call-1", r#"{"text": "/new build failed", "type": "build"}"#);
    assert_eq!((answer.status, answer.word().as_str()), (202, "accepted"));
    assert_eq!(answer.json()["delivery_id"], "call-1");
    let event = world.host.next_event();
    assert!(event.event_id.starts_with("d:ci:"), "{}", event.event_id);
    assert_eq!(event.text, "/new build failed (build)");
    assert_eq!((event.chat.id.as_str(), event.sender.id.as_str()), ("ci:call-1", "ci"));
    assert_eq!(event.deliver, Some(Deliver::answer_to("telegram:-100:17").ending()));
    assert!(!event.sender.is_bot && event.sender.roles.is_empty());
}

#[test]
fn a_host_that_does_not_take_it_is_no_success() {
    let busy = |_: &Value| Err(CallError::new("busy", "later"));
    let world = World::with(MockHost::setup("webhook").answer("emit", busy), json!({ "routes": { "ci": {} } }));
    let answer = world.call("1", "{}");
    assert!(answer.status == 503 && answer.head.contains("retry-after: 5"), "{answer:?}");
    assert_eq!(world.host.kv("marks:ci"), None, "what was not taken is not remembered");
}

#[test]
fn what_is_not_signed_comes_no_further_and_learns_nothing() {
    let world = World::new(json!({}));
    let wrong = client::v1("another-secret-1", "{}");
    for headers in [&[][..], &[("x-webhook-signature", &*wrong)], &[("x-gitlab-token", "0123456789abcdeg")]] {
        let answer = post(&world.address, "/webhooks/ci", headers, "{}");
        assert_eq!((answer.status, &answer.json()["error"]), (401, &json!("the signature is missing or wrong")));
    }
    for (path, status) in [("/webhooks/other", 401), ("/webhooks/", 404), ("/", 404), ("/health", 405)] {
        assert_eq!(post(&world.address, path, &[], "{}").status, status, "{path}");
    }
    assert_eq!(client::raw(&world.address, "GET /health HTTP/1.0\r\n\r\n").json()["status"], "ok");
    assert!(world.host.emitted().is_empty());
    let logged = world.host.wait_log("call rejected");
    assert!(!format!("{logged:?}").contains(SECRET));
}

#[test]
fn who_cannot_sign_does_not_learn_which_routes_there_are() {
    let routes = json!({ "routes": { "ci": {}, "off": { "enabled": false } } });
    let world = World::with(MockHost::setup("webhook"), routes);
    let answers = ["ci", "off", "none"].map(|name| {
        let answer = post(&world.address, &format!("/webhooks/{name}"), &[], "{}");
        (answer.status, answer.json())
    });
    assert!(answers.iter().all(|answer| answer.0 == 401 && answer == &answers[0]), "{answers:?}");
    assert!(format!("{:?}", world.host.wait_log("unknown route")).contains("none"));
    let signature = client::v1(SECRET, "{}");
    let signed = post(&world.address, "/webhooks/off", &[("x-webhook-signature", &*signature)], "{}");
    assert_eq!(signed.status, 403, "who can sign is told");
}

#[test]
fn bodies_that_are_being_read_have_a_bound_together() {
    let world = World::new(json!({ "body_bytes_max": 16 * 1024 * 1024 }));
    let slow: Vec<_> = (0..4).map(|_| client::begun(&world.address, "/webhooks/ci", 16 * 1024 * 1024)).collect();
    // An unsigned call is refused with 401 if there is room. The time at which the four
    // bodies are read or dropped varies.
    let comes = |wanted: u16| (0..5_000).any(|_| post(&world.address, "/webhooks/ci", &[], "{}").status == wanted);
    assert!(comes(503));
    drop(slow);
    assert!(comes(401));
}

#[test]
fn a_call_whose_end_nobody_knows_goes_to_the_host_under_its_first_id_whatever_comes_with_it() {
    // The event was committed, but the end of the process lost the response.
    let cut = |_: &Value| Err(CallError::new("unavailable", "cut"));
    let first = World::with(MockHost::setup("webhook").answer("emit", cut), json!({ "routes": { "ci": {} } }));
    assert_eq!(first.call("1", "{}").status, 503);
    let committed = first.host.next_event().event_id;
    let kept = first.host.kv("unsure:ci").unwrap();
    let get = move |call: &Value| Ok(json!({ "value": (call["key"] == "unsure:ci").then_some(&kept) }));
    let second = World::with(MockHost::setup("webhook").answer("kv.get", get), json!({ "routes": { "ci": {} } }));
    assert_eq!(second.call("2", "{}").status, 202);
    assert_eq!(second.host.next_event().event_id, committed, "the host judges it, whose ids are its own");
    assert_eq!(second.call("3", "{}").word(), "duplicate");
    assert_eq!(second.call("4", r#"{"other": 1}"#).status, 202);
    assert_ne!(second.host.next_event().event_id, committed);
}

#[test]
fn what_is_kept_of_a_route_that_is_gone_goes_when_it_counts_no_more() {
    let lasting = World::new(json!({}));
    assert_eq!(lasting.call("1", "{}").status, 202);
    let marks = lasting.host.kv("marks:ci").unwrap();
    assert_eq!(lasting.host.kv("remembered").as_deref(), Some(r#"["ci"]"#));
    let get = move |call: &Value| {
        Ok(json!({ "value": match call["key"].as_str().unwrap_or_default() {
            "remembered" => Some(r#"["a_lasting_one","ci","over"]"#),
            "marks:a_lasting_one" | "marks:ci" => Some(marks.as_str()),
            _ => None,
        } }))
    };
    let world = World::with(MockHost::setup("webhook").answer("kv.get", get), json!({ "routes": { "ci": {} } }));
    assert_eq!(world.host.next_host_call("kv.delete")["key"], "marks:over");
    assert_eq!(world.host.next_host_call("kv.delete")["key"], "unsure:over");
    assert_eq!(world.host.next_host_call("kv.set")["value"], r#"["a_lasting_one","ci"]"#);
}

#[test]
fn the_same_call_is_a_success_twice_and_an_event_once() {
    let world = World::new(json!({}));
    assert_eq!(world.call("1", "{}").status, 202);
    let again = world.call("1", "{}");
    assert_eq!((again.status, again.word().as_str()), (200, "duplicate"));
    // An attacker who recorded a call may change its unsigned id.
    let replayed = world.call("2", "{}");
    assert_eq!((replayed.status, replayed.word().as_str()), (200, "duplicate"));
    // The id is not signed: other content under the same id is another call.
    assert_eq!(world.call("1", r#"{"a": 1}"#).status, 202);
    assert_eq!(world.host.emitted().len(), 2);
}

#[test]
fn a_call_whose_sender_hangs_up_is_taken_and_remembered() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let slow = move |_: &Value| {
        // Ends with the test at the latest, which drops the sender.
        let _ = held.lock().unwrap().recv();
        Ok(json!({ "inbox_id": 1 }))
    };
    let world = World::with(MockHost::setup("webhook").answer("emit", slow), json!({ "routes": { "ci": {} } }));
    let signature = client::v1(SECRET, "{}");
    client::hang_up(&world.address, "/webhooks/ci", &[("x-webhook-signature", &*signature)], "{}");
    world.host.next_event();
    release.send(()).unwrap();
    while world.host.next_host_call("kv.set")["key"] != "marks:ci" {}
    assert_eq!(world.call("another-id", "{}").word(), "duplicate");
    assert_eq!(world.host.emitted().len(), 1);
}

#[test]
fn a_call_that_the_host_can_never_take_is_not_asked_for_again() {
    let large = |_: &Value| Err(CallError::new("too_large", "an event has at most 65536 bytes"));
    let world = World::with(MockHost::setup("webhook").answer("emit", large), json!({ "routes": { "ci": {} } }));
    assert_eq!(world.call("1", "{}").status, 422);
}

#[test]
fn what_was_signed_is_known_after_a_restart() {
    let first = World::new(json!({}));
    assert_eq!(first.call("1", "{}").status, 202);
    let kept = first.host.kv("marks:ci").unwrap();
    let setup = MockHost::setup("webhook").answer("kv.get", move |_| Ok(json!({ "value": kept })));
    let second = World::with(setup, json!({ "routes": { "ci": {} } }));
    assert_eq!(second.call("2", "{}").word(), "duplicate");
    assert!(second.host.emitted().is_empty());
}

#[test]
fn who_cannot_know_what_was_there_before_takes_nothing() {
    let broken = |_: &Value| Err(CallError::new("unavailable", "no disk"));
    let world = World::with(MockHost::setup("webhook").answer("kv.get", broken), json!({ "routes": { "ci": {} } }));
    assert_eq!(world.call("1", "{}").status, 503);
    assert!(world.host.emitted().is_empty());
}

#[test]
fn too_much_is_refused_with_the_time_and_repetitions_do_not_count() {
    let world = World::new(json!({ "rate_per_minute": 2, "body_bytes_max": 1024 }));
    for (id, body, status) in [("1", "1", 202), ("1", "1", 200), ("2", "2", 202), ("2", "2", 200), ("3", "3", 429)] {
        assert_eq!(world.call(id, body).status, status, "{id}");
    }
    assert!(world.call("4", "4").head.contains("retry-after: "));
    let large = format!("\"{}\"", "x".repeat(1024));
    assert_eq!(world.call("5", &large).status, 413);
    let chunked = format!(
        "POST /webhooks/ci HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    assert_eq!(client::raw(&world.address, &chunked).status, 413);
    assert_eq!(world.host.emitted().len(), 2);
}

#[test]
fn what_a_route_does_not_want_is_ignored_and_not_remembered() {
    let filters = json!({ "field": "action", "equals": "opened" });
    let world = World::new(json!({ "events": ["pull_request"], "filters": filters }));
    let of = |event: &str, body: &str| world.signed(event, body, &[("x-github-event", event)]);
    assert_eq!(of("push", r#"{"action": "opened"}"#).json()["reason"], "event");
    assert_eq!(of("pull_request", r#"{"action": "closed"}"#).json()["reason"], "filter");
    assert_eq!(of("pull_request", r#"{"action": "opened"}"#).status, 202);
    let signature = format!("sha256={}", client::v1(SECRET, "{}"));
    let ping = [("x-github-event", "ping"), ("x-hub-signature-256", &*signature)];
    assert_eq!(post(&world.address, "/webhooks/ci", &ping, "{}").word(), "pong");
    let broken = world.call("x", "{");
    assert_eq!(broken.status, 400);
    assert_eq!(world.host.emitted().len(), 1);
}

#[test]
fn a_call_whose_text_says_nothing_is_ignored_and_said_to_be() {
    let world = World::new(json!({ "prompt": " {text} " }));
    assert_eq!(world.call("1", r#"{"text": "\n"}"#).json()["reason"], "empty");
    assert_eq!(world.call("2", r#"{"text": "words"}"#).status, 202);
    assert_eq!(world.host.next_event().text, " words ");
}

#[test]
fn a_route_that_is_added_while_it_runs_is_served_and_what_is_wrong_with_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let world = World::with(MockHost::setup("webhook"), json!({ "routes_dir": folder.path() }));
    assert_eq!(world.call("1", "{}").status, 401);
    std::fs::write(folder.path().join("ci.json"), r#"{"ci": {"prompt": "added"}, "odd": {"secret": "short"}}"#)
        .unwrap();
    assert_eq!(world.call("1", "{}").status, 202);
    assert_eq!(world.host.next_event().text, "added");
    let said = world.host.next_host_call("link");
    assert_eq!(said["state"], "degraded");
    assert!(said["reason"].as_str().unwrap().contains("route `odd` has a secret with fewer"), "{said}");
}

#[test]
fn a_folder_that_is_not_there_is_fatal_with_its_mend() {
    let config = json!({ "listen": "127.0.0.1:0", "secret": SECRET, "routes_dir": "/nowhere/at/all" });
    let host = MockHost::start::<Webhook>(config).unwrap();
    let ConnectError::Fatal { reason, mend } = host.connect().unwrap_err() else { panic!("it is fatal") };
    assert!(reason.contains("/nowhere/at/all") && mend.contains("mkdir"), "{reason}; {mend}");
}

#[test]
fn what_stays_here_goes_to_the_log() {
    let world = World::new(json!({}));
    let mut answer = Outgoing::text(Chat::dm("ci:call-1"), "all is well");
    answer.purpose = Purpose::Reply;
    assert!(matches!(world.host.send(&answer), SendOutcome::Delivered { .. }));
    let logged = world.host.wait_log("the answer");
    assert_eq!((&logged.fields["route"], &logged.fields["id"]), (&json!("ci"), &json!("call-1")));
    assert_eq!(logged.fields["text"], "all is well");
}

#[test]
fn without_a_secret_there_is_no_instance() {
    let bare = json!({ "listen": "127.0.0.1:0", "routes": { "ci": {} } });
    let said = MockHost::start::<Webhook>(bare).err().unwrap();
    assert!(said.contains("route `ci` has no secret"), "{said}");
}

#[test]
fn two_calls_of_the_same_bytes_at_once_are_one_event() {
    let world = World::new(json!({}));
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn({
                    let world = &world;
                    move || world.call(&n.to_string(), "{}")
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 1);
    assert_eq!(world.host.emitted().len(), 1);
    assert!(world.host.destroy(Duration::from_secs(5)));
}

#[test]
fn hundreds_of_idle_connections_keep_no_signed_call_out() {
    let world = World::new(json!({}));
    let mut idle = Vec::new();
    for n in 0..300 {
        let end = if n % 3 == 0 { "" } else { "\r\n" };
        idle.push(client::idle(&world.address, &format!("GET /health HTTP/1.1\r\nhost: x\r\n{end}")));
    }
    assert_eq!(world.call("one", r#"{"text": "hello"}"#).status, 202);
}

#[test]
fn a_body_over_the_limit_is_answered_and_not_cut_off() {
    let world = World::new(json!({ "body_bytes_max": 1024 }));
    for bytes in [1025, 100_000, 5_000_000] {
        assert_eq!(world.call("big", &"x".repeat(bytes)).status, 413, "{bytes}");
    }
    assert!(world.host.emitted().is_empty());
}

#[test]
fn a_form_with_a_broken_payload_is_refused_and_starts_nothing() {
    let world = World::new(json!({ "prompt": "Review: {pull_request.title}" }));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(world.signed("broken", "payload=%7Bbroken", &form).status, 400);
    assert_eq!(
        world.signed("good", "payload=%7B%22pull_request%22%3A%7B%22title%22%3A%22x%22%7D%7D", &form).status,
        202
    );
    assert_eq!(world.host.next_event().text, "Review: x");
}

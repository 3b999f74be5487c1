use hermes_adapter_sdk::testing::MockHost;
use serde_json::{Value, json};

use super::*;
use crate::Telegram;

/// Starts a server that answers each call with the result of `answer` for its method, until the test ends.
fn server(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut asked, mut piece) = (String::new(), [0; 4096]);
            let is_whole = |asked: &str| {
                let (head, body) = asked.split_once("\r\n\r\n")?;
                let length = head.to_lowercase().split_once("content-length: ")?.1.lines().next()?.parse().ok()?;
                Some(body.len() >= length)
            };
            while is_whole(&asked) != Some(true) {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => asked.push_str(&String::from_utf8_lossy(&piece[..read])),
                }
            }
            let path = asked.split(' ').nth(1).unwrap_or_default();
            let (status, body) = answer(path.rsplit('/').next().unwrap_or_default());
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    base
}

fn bot(name: &str) -> Value {
    json!({ "ok": true, "result": { "id": 42, "is_bot": true, "first_name": "Hermes", "username": name } })
}

#[test]
fn a_bot_that_was_renamed_is_meant_by_its_new_name_from_the_next_link_on() {
    let links = std::sync::atomic::AtomicUsize::new(0);
    let mention = json!({ "update_id": 1, "message": {
        "message_id": 1, "date": 1, "text": "@new_bot hi", "chat": { "id": -5, "type": "group" },
        "from": { "id": 7, "first_name": "Ada" }, "entities": [{ "type": "mention", "offset": 0, "length": 8 }],
    } });
    let base = server(move |method| match method {
        "getMe" if links.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => (200, bot("old_bot")),
        "getMe" => (200, bot("new_bot")),
        "getUpdates" => (200, json!({ "ok": true, "result": [mention] })),
        _ => (200, json!({ "ok": true, "result": true })),
    });
    let host = MockHost::start::<Telegram>(json!({ "token": "42:A", "base_url": base })).expect("it starts");
    host.connect().expect("the first link");
    host.connect().expect("the second link");
    let _run = host.run();
    assert!(host.next_event().addressed.mention);
}

#[test]
fn a_no_without_a_reason_is_nobodys_final_word() {
    for (status, body) in [(200, json!({ "ok": false })), (400, json!({ "ok": false, "error_code": 400 }))] {
        let base = server(move |_| (status, body.clone()));
        let host = MockHost::start::<Telegram>(json!({ "token": "42:A", "base_url": base })).expect("it starts");
        let outcome = host.send(&Outgoing::text(Chat::dm("7"), "hello"));
        assert!(matches!(&outcome, SendOutcome::Unknown { .. }), "{outcome:?}");
    }
}

#[test]
fn who_meets_another_poller_again_and_again_says_so_and_ends_nobodys_webhook() {
    let (called, calls) = std::sync::mpsc::channel();
    let base = server(move |method| {
        let _ = called.send(method.to_owned());
        match method {
            "getMe" => (200, bot("hermes_bot")),
            "getUpdates" => (
                409,
                json!({ "ok": false, "error_code": 409, "description": "Conflict: terminated by other getUpdates request" }),
            ),
            _ => (200, json!({ "ok": true, "result": true })),
        }
    });
    let host = MockHost::start::<Telegram>(json!({ "token": "42:A", "base_url": base })).expect("it starts");
    for _ in 0..crate::conflicts::REPORT_AFTER {
        host.connect().expect("the link opens");
        let ended = host.run().wait();
        assert!(ended.text().contains("another process receives"), "{ended:?}");
    }
    host.connect().expect("the link opens");
    let _run = host.run();
    let said = host.next_host_call("link");
    assert_eq!(said["state"], "degraded");
    assert!(said["reason"].as_str().is_some_and(|words| words.contains("another process")), "{said}");
    assert_eq!(
        calls.try_iter().filter(|method| method == "deleteWebhook").count(),
        1,
        "only before the first conflict"
    );
}

fn message(update: i64, chat: i64) -> Value {
    json!({ "update_id": update, "message": {
        "message_id": update, "date": 1, "text": "hi", "chat": { "id": chat, "type": "private" },
        "from": { "id": chat, "first_name": "Ada" },
    } })
}

#[test]
fn chats_of_one_batch_wait_for_one_acknowledgement_and_each_chat_keeps_its_order() {
    let batch = [message(1, 5), message(2, 6), message(3, 5), message(4, 7)];
    let base = server(move |method| match method {
        "getMe" => (200, bot("hermes_bot")),
        "getUpdates" => (200, json!({ "ok": true, "result": batch })),
        _ => (200, json!({ "ok": true, "result": true })),
    });
    let config = json!({ "token": "42:A", "base_url": base });
    let host = MockHost::setup("telegram").hold("emit").start::<Telegram>(config).expect("it starts");
    host.connect().expect("the link opens");
    let _run = host.run();
    let mut chats: Vec<String> = (0..3).map(|_| host.next_event().chat.id).collect();
    chats.sort();
    assert_eq!(chats, ["5", "6", "7"]);
    assert_eq!(host.emitted().len(), 3, "the second of a chat waits for the first");
    assert_eq!(host.kv("offset"), None);
}

#[test]
fn an_event_that_the_host_has_no_room_for_is_repeated_on_the_same_link() {
    let base = server(move |method| match method {
        "getMe" => (200, bot("hermes_bot")),
        "getUpdates" => (200, json!({ "ok": true, "result": [message(1, 5)] })),
        _ => (200, json!({ "ok": true, "result": true })),
    });
    let config = json!({ "token": "42:A", "base_url": base });
    let setup = MockHost::setup("telegram").answer("emit", |_| Err(CallError::new("busy", "no room")));
    let host = setup.start::<Telegram>(config).expect("it starts");
    host.connect().expect("the link opens");
    let _run = host.run();
    let ids: Vec<String> = (0..2).map(|_| host.next_event().event_id).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(host.host_calls().iter().filter(|call| call.method == "kv.get").count(), 1, "one link");
}

#[test]
fn a_server_that_is_away_is_named_with_its_key_and_not_with_the_token() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let config = json!({ "token": "1:SECRET", "base_url": format!("http://{closed}/path") });
    let host = MockHost::start::<Telegram>(config).expect("it starts");
    let Err(ConnectError::Retry { reason, .. }) = host.connect() else { panic!("it may come back") };
    assert!(reason.starts_with(&format!("{closed} (`base_url`) cannot be reached: ")), "{reason}");
    assert!(!reason.contains("SECRET") && !reason.contains("/path"), "{reason}");
}

#[test]
fn values_that_cannot_be_meant_are_refused_when_the_configuration_is_read_and_not_bent() {
    for seconds in [0, 51, u64::MAX] {
        let sentence = MockHost::check_config::<Telegram>(&json!({ "token": "1:A", "poll_timeout_s": seconds }));
        assert_eq!(sentence, Err(format!("`poll_timeout_s` is {seconds}; choose 1 to 50")));
    }
    let sentence = MockHost::check_config::<Telegram>(&json!({ "token": "1:A", "reply_mode": "sometimes" }));
    assert!(sentence.is_err_and(|sentence| sentence.contains("`reply_mode`") && sentence.contains("`first`")));
    let sentence = MockHost::check_config::<Telegram>(&json!({ "token": "SECRET" }));
    assert!(sentence.is_err_and(|sentence| sentence.contains("BotFather") && !sentence.contains("SECRET")));
    for (key, address) in [("base_url", "api.telegram.org"), ("base_url", "ftp://a.b"), ("file_url", "https://")] {
        let sentence = MockHost::check_config::<Telegram>(&json!({ "token": "1:A", key: address })).unwrap_err();
        assert!(sentence.starts_with(&format!("`{key}` cannot be used: ")) && sentence.contains("; use"), "{sentence}");
    }
    for mode in ["first", "all", "off"] {
        assert_eq!(MockHost::check_config::<Telegram>(&json!({ "token": "1:A", "reply_mode": mode })), Ok(()));
    }
}

#[test]
fn a_home_channel_that_can_be_no_chat_is_refused_before_anybody_writes_there() {
    let judge = |home: &str| MockHost::check_config::<Telegram>(&json!({ "token": "1:A", "home_channel": home }));
    for home in ["123456", "-1001234", "-1001234:17", "@news", "@The family"] {
        assert_eq!(judge(home), Ok(()), "{home}");
    }
    for home in ["general", "news:17", "-100:topic", "@"] {
        let sentence = judge(home).unwrap_err();
        assert!(sentence.starts_with("`home_channel` is ") && sentence.contains("; use its number"), "{sentence}");
    }
    let both = MockHost::check_config::<Telegram>(&json!({ "token": "x", "home_channel": "general" })).unwrap_err();
    assert!(both.contains("BotFather") && both.contains("`home_channel`"), "{both}");
}

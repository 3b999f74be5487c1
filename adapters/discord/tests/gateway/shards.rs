//! Tests of several shards: their start, and their independence.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, status};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::stage::*;

fn two() -> Value {
    json!({ "shards": 2, "session_start_limit": { "remaining": 1000, "reset_after": 0, "max_concurrency": 16 } })
}

fn shard(first: &Value) -> Option<u64> {
    first["d"]["shard"][0].as_u64()
}

#[test]
fn a_bot_is_up_with_the_first_shards_and_the_others_follow_when_they_may() {
    let asked = AtomicU32::new(0);
    let (tell, told) = mpsc::channel();
    let host = bot_of(
        MockHost::setup("test"),
        move || {
            let mut limit = two();
            // One session is left at first.
            let remaining = if asked.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 1000 };
            limit["session_start_limit"]["remaining"] = json!(remaining);
            limit["session_start_limit"]["reset_after"] = json!(1000);
            limit
        },
        |_| channel(),
        move |_, first, peer| {
            ready(peer, "");
            let _ = tell.send(shard(&first));
            tell_from(peer, shard(&first));
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("one shard is up");
    let _run = host.run();
    let mut texts = [host.next_event().text, host.next_event().text];
    texts.sort();
    assert_eq!(texts, ["from 0", "from 1"]);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Some(0), Some(1)]);
}

fn tell_from(peer: &mut Peer, shard: Option<u64>) {
    tell(peer, 2 + shard.unwrap_or_default(), &format!("from {}", shard.unwrap_or_default()), None);
}

#[test]
fn a_shard_that_loses_its_connection_comes_back_while_the_others_go_on() {
    let host = bot_of(
        MockHost::setup("test"),
        two,
        |_| channel(),
        move |_, first, peer| {
            match (first["op"].as_u64(), shard(&first)) {
                (Some(2), Some(0)) => {
                    ready(peer, "");
                    return close(peer, 4000);
                }
                (Some(6), _) => {
                    say(peer, &json!({ "op": 0, "s": 2, "t": "RESUMED", "d": {} }));
                    tell(peer, 3, "back", None);
                }
                _ => ready(peer, ""),
            }
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let run = host.run();
    assert_eq!(host.next_event().text, "back");
    assert!(!run.is_answered(), "the link was never lost");
}

#[test]
fn what_was_told_in_a_session_that_is_over_is_taken_in_though_another_shard_ends_the_link() {
    let (ended, is_over) = mpsc::channel();
    let is_over = Mutex::new(is_over);
    let (told, go) = mpsc::channel();
    let go = Mutex::new(go);
    let host = bot_of(
        MockHost::setup("test"),
        two,
        move |line| match line {
            // The first message is processed until the other shard has ended all shards.
            "GET guilds/1/roles" => {
                let _ = is_over.lock().expect("nobody panicked").recv();
                (200, json!([]))
            }
            _ => channel(),
        },
        move |_, first, peer| {
            ready(peer, "");
            if shard(&first) == Some(0) {
                tell(peer, 2, "one", Some("9"));
                tell(peer, 3, "two", None);
                let _ = peer.close(Some(CloseFrame { code: 4009.into(), reason: "".into() }));
                while peer.read().is_ok() {}
                let _ = told.send(());
            } else {
                let _ = go.lock().expect("nobody panicked").recv();
                close(peer, 4014);
                let _ = ended.send(());
            }
        },
    );
    host.connect().expect("it comes up");
    let answer = host.run().wait();
    assert_ne!(answer.status, status::OK, "a person has to do something");
    assert!(matches!(answer.json(), ConnectError::Fatal { .. }));
    let texts: Vec<String> = host.emitted().into_iter().map(|event| event.text).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[test]
fn when_other_shards_are_wanted_all_of_them_begin_anew() {
    let host = bot_of(
        MockHost::setup("test"),
        two,
        |_| channel(),
        move |_, first, peer| {
            ready(peer, "");
            if shard(&first) == Some(0) {
                close(peer, 4011);
            }
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let answer = host.run().wait();
    assert!(matches!(answer.json(), ConnectError::Retry { .. }), "{answer:?}");
}

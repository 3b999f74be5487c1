//! Tests of conversations that move to Discord.

use std::sync::mpsc;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, status};
use serde_json::{Value, json};

use crate::stage::*;

/// Kinds of channels without threads: voice, category, stage, directory, and an unknown one.
/// <https://docs.discord.com/developers/resources/channel#channel-object-channel-types>
const WITHOUT_THREADS: [u8; 5] = [2, 4, 13, 14, 99];

fn opened(host: &MockHost, chat: Chat, key: &str) -> Option<Chat> {
    let answer = host.call("create_handoff_thread", &json!({ "chat": chat, "name": "boats", "key": key })).wait();
    assert_eq!(answer.status, status::OK, "{answer:?}");
    answer.json()
}

#[test]
fn in_what_has_no_threads_none_is_asked_for_and_the_home_chat_is_used() {
    let (asked, requests) = mpsc::channel();
    let host = bot(
        move |line| {
            let _ = asked.send(line.to_owned());
            let id: usize = line.trim_start_matches("GET channels/").parse().expect("only the channel is looked at");
            (200, json!({ "id": id.to_string(), "type": WITHOUT_THREADS[id - 10], "guild_id": "1", "name": "x" }))
        },
        quiet,
    );
    host.connect().expect("it comes up");
    for (n, kind) in WITHOUT_THREADS.iter().enumerate() {
        let home = Chat::new(ChatType::Group, (10 + n).to_string());
        assert_eq!(opened(&host, home, "k"), None, "kind {kind}");
    }
    assert_eq!(requests.try_iter().count(), WITHOUT_THREADS.len());
    for chat in [Chat::dm("10"), Chat::new(ChatType::Thread, "10").in_thread("10")] {
        assert_eq!(opened(&host, chat, "k"), None, "nor in direct messages and in a thread");
    }
    assert_eq!(requests.try_iter().count(), 0, "which is known without asking");
}

#[test]
fn a_thread_stays_for_a_day_and_where_a_bare_one_is_refused_it_hangs_on_a_seed_that_is_made_once() {
    for seeded in [false, true] {
        let (asked, requests) = mpsc::channel();
        let host = bot_asked(move |line, body| {
            let _ = asked.send((line.to_owned(), body));
            match line {
                CHANNEL => channel(),
                "POST channels/10/threads" if seeded => {
                    (403, json!({ "code": 50013, "message": "Missing Permissions" }))
                }
                "POST channels/10/messages" => (200, json!({ "id": "500" })),
                "POST channels/10/threads" | "POST channels/10/messages/500/threads" => {
                    (201, json!({ "id": "500", "type": 11, "parent_id": "10", "guild_id": "1", "name": "boats" }))
                }
                line => panic!("nobody asks for {line}"),
            }
        });
        host.connect().expect("it comes up");
        let home = Chat::new(ChatType::Group, "10");
        let thread = opened(&host, home.clone(), "handoff-key-0123456789abcdef").expect("there is one");
        let mut expected = Chat::new(ChatType::Thread, "500").in_thread("500");
        (expected.parent, expected.thread_name) = (Some("10".to_owned()), Some("boats".to_owned()));
        assert_eq!(thread, expected);
        assert_eq!(
            opened(&host, home, "handoff-key-0123456789abcdef"),
            Some(thread),
            "the same key opens no second one"
        );
        let asked: Vec<(String, Value)> = requests.try_iter().filter(|(line, _)| line != CHANNEL).collect();
        let (_, last) = asked.last().expect("it was opened");
        assert_eq!((&last["name"], &last["auto_archive_duration"]), (&json!("boats"), &json!(1440)));
        let seeds: Vec<&Value> =
            asked.iter().filter(|(line, _)| line.ends_with("/messages")).map(|(_, body)| body).collect();
        assert_eq!(seeds.len(), usize::from(seeded));
        for seed in seeds {
            assert_eq!(seed["enforce_nonce"], true);
            assert!(seed["nonce"].as_str().is_some_and(|nonce| nonce.len() <= 25), "{seed}");
            assert_eq!(seed["allowed_mentions"]["parse"], json!([]), "it calls nobody");
        }
    }
}

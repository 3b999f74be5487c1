//! Tests of the roles of people who write in private.

use std::sync::mpsc;

use serde_json::{Value, json};

use crate::stage::*;

/// Sends a direct message of a person.
fn write(peer: &mut Peer, seq: u64, who: &str) {
    let message = json!({
        "id": (1000 + seq).to_string(), "channel_id": "20", "type": 0, "content": "hello",
        "author": { "id": who, "username": "ada" },
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": message }));
}

/// Sends a command in a private chat.
fn command_in_private(peer: &mut Peer, seq: u64, who: &str) {
    let interaction = json!({
        "id": "900", "type": 2, "token": "T", "data": { "name": "help" },
        "channel": { "id": "20", "type": 1 }, "user": { "id": who, "username": "ada" },
    });
    say(peer, &json!({ "op": 0, "s": seq, "t": "INTERACTION_CREATE", "d": interaction }));
}

#[test]
fn the_roles_of_the_configured_servers_count_in_private() {
    let (asked, requests) = mpsc::channel();
    let host = bot_configured(
        json!({ "role_guilds": ["1", "2", "3"] }),
        move |line| {
            let _ = asked.send(line.to_owned());
            match line {
                "GET guilds/1/members/7" => (200, json!({ "user": { "id": "7" }, "roles": ["5", "*", "admin"] })),
                "GET guilds/2/members/7" => (200, json!({ "roles": ["6"] })),
                "GET guilds/3/members/7" => (404, json!({ "code": 10007, "message": "Unknown Member" })),
                "POST interactions/900/T/callback" => (204, Value::Null),
                line => panic!("nobody asks for {line}"),
            }
        },
        |_, _, peer| {
            ready(peer, "");
            write(peer, 2, "7");
            command_in_private(peer, 3, "7");
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let (message, command) = (host.next_event(), host.next_event());
    assert_eq!(message.sender.roles, ["5", "6"], "a value that is no id grants nothing");
    assert_eq!(command.sender.roles, ["5", "6"], "a command too");
    let members: Vec<String> = requests.try_iter().filter(|line| line.contains("/members/")).collect();
    assert_eq!(members, ["GET guilds/1/members/7", "GET guilds/2/members/7", "GET guilds/3/members/7"], "asked once");
}

#[test]
fn an_error_of_a_server_grants_no_role_and_holds_no_message_up() {
    let host = bot_configured(
        json!({ "role_guilds": ["1", "2"] }),
        |line| match line {
            "GET guilds/1/members/7" => (200, json!({ "roles": ["5"] })),
            "GET guilds/2/members/7" => (500, json!({})),
            line => panic!("nobody asks for {line}"),
        },
        |_, _, peer| {
            ready(peer, "");
            write(peer, 2, "7");
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    let message = host.next_event();
    assert_eq!((message.text.as_str(), message.sender.roles.len()), ("hello", 0));
}

#[test]
fn no_server_is_asked_about_a_sender_unless_it_is_configured() {
    let host = bot(
        |line| panic!("nobody asks for {line}"),
        |_, _, peer| {
            ready(peer, "");
            write(peer, 2, "7");
            while peer.read().is_ok() {}
        },
    );
    host.connect().expect("it comes up");
    let _run = host.run();
    assert!(host.next_event().sender.roles.is_empty());
}

//! Access control, from the point of view of unknown senders and of the operator at the terminal.

use std::fs;

use hermes_tests::{Chat, Isolation, World, until};
use serde_json::Value;

/// Returns a world with an admin and no allow list.
fn world(isolation: Isolation) -> World {
    let mut world = World::with(&format!(
        "[adapter.scripted]\nisolation = \"{}\"\nsocket = \"SOCKET\"\naccess = {{ admins = [\"1\"] }}\n",
        isolation.word()
    ));
    world.start();
    world
}

/// Returns the code in the next answer to an unknown sender.
fn offered(chat: &Chat) -> String {
    let before = chat.received().len();
    chat.says("hello");
    let offer = chat.hears(before + 1).remove(before);
    let (_, code) = offer.split_once("pairing approve scripted ").unwrap_or_else(|| panic!("an offer: {offer}"));
    code.split('`').next().expect("a split has a first piece").to_owned()
}

fn listed(world: &World) -> (Vec<String>, Vec<String>) {
    let listed: Value = serde_json::from_str(&world.told(&["pairing", "list", "--json"])).expect("JSON");
    let users = |list: &Value| {
        let list = list.as_array().expect("a list").iter();
        list.map(|one| one["user"].as_str().expect("a user").to_owned()).collect()
    };
    (users(&listed["requests"]), users(&listed["grants"]))
}

fn approve(world: &World, code: &str) -> bool {
    world.cli(&["pairing", "approve", "scripted", code]).status.success()
}

#[test]
fn strangers_are_listed_approved_revoked_and_cleared_at_the_terminal() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        let (friend, other) = (world.scripted.chat("99"), world.scripted.chat("98"));
        let (code, others) = (offered(&friend), offered(&other));
        assert_eq!(listed(&world), (vec!["99".to_owned(), "98".to_owned()], Vec::new()));
        assert!(approve(&world, &code));
        assert!(!approve(&world, &code), "it works once");
        assert_eq!(listed(&world), (vec!["98".to_owned()], vec!["99".to_owned()]));
        world.told(&["pairing", "clear", "scripted"]);
        assert!(!approve(&world, &others), "what is cleared is not open");
        let heard = friend.hears(3);
        assert!(heard[1].contains("You have access now") && heard[2].contains("hello"), "{heard:?}");
        friend.says("let in");
        assert!(friend.hears(4)[3].contains("let in"));
        // Work that is not settled when the host is killed would be repeated.
        until("everything is settled", 20, || (world.status()["queues"]["outbox"] == 0).then_some(()));
        world.kill();
        world.start();
        friend.says("still in");
        let heard = friend.hears(5);
        assert!(heard[4].contains("still in"), "a grant outlives the host: {heard:?}");
        world.told(&["pairing", "revoke", "scripted", "99"]);
        assert_eq!(listed(&world), (Vec::new(), Vec::new()));
        assert_ne!(offered(&friend), code, "a stranger again");
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn five_wrong_codes_at_the_terminal_lock_pairing_also_for_the_next_host_until_it_is_cleared() {
    let mut world = world(Isolation::Process);
    let chat = world.scripted.chat("99");
    let code = offered(&chat);
    for _ in 0..5 {
        assert!(!approve(&world, "AAAAAAAA"));
    }
    world.kill();
    world.start();
    let refused = until("the host answers", 20, || {
        let output = world.cli(&["pairing", "approve", "scripted", &code]);
        (output.status.code() != Some(69)).then_some(output)
    });
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("too many wrong codes"), "{refused:?}");
    let refused = world.cli(&["pairing", "clear", "scriptd"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("did you mean \"scripted\"?"), "{refused:?}");
    world.told(&["pairing", "clear", "scripted"]);
    assert!(approve(&world, &offered(&chat)), "cleared, a new code is offered and works");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn an_open_code_stands_in_no_file_and_not_in_the_log() {
    let mut world = world(Isolation::Process);
    let chat = world.scripted.chat("99");
    let code = offered(&chat);
    let look = |when: &str| {
        let mut folders = vec![world.home()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("the home is ours").map(|entry| entry.expect("an entry").path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else if let Ok(bytes) = fs::read(&entry) {
                    assert!(!holds(&bytes, &code), "{when}: {}", entry.display());
                }
            }
        }
        assert!(!world.log().contains(&code), "{when}: the log");
    };
    look("told");
    let shown = world.told(&["outbox", "list", "--all", "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let text = world.told(&["outbox", "show", &shown[0]["id"].to_string(), "--json"]);
    assert!(text.contains("pairing approve scripted") && !text.contains(&code), "{text}");
    world.kill();
    world.start();
    assert!(until("the host answers", 20, || approve(&world, &code).then_some(true)), "told before the end, it works");
    assert_eq!(world.stop(), Some(0));
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

#[test]
fn an_admin_in_a_chat_lets_in_by_code_both_ways() {
    Isolation::both(|isolation| {
        let mut world = World::new(isolation, &["1"]);
        world.start();
        let admin = world.scripted.chat("1");
        admin.says("/pair");
        let answer = admin.hears(1).remove(0);
        let code = answer.split('`').nth(1).expect("the code stands in ticks").to_owned();
        let friend = world.scripted.chat("99");
        friend.says(&code);
        assert!(friend.hears(1)[0].contains("Welcome"), "although a list keeps others silent");
        friend.says("let in");
        assert!(friend.hears(2)[1].contains("let in"));
        assert_eq!(world.stop(), Some(0));
    });
}

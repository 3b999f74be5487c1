//! Group messages that are not addressed to the agent.

use hermes_protocol::{Addressed, Chat, ChatType, Event, Sender};

use super::world::{Setting, World};
use hermes_store::{Change, CommandTx, Observed};

const SECTION: &str = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\"] }\n";

fn group() -> Chat {
    Chat::new(ChatType::Group, "g")
}

fn world(more: &str) -> World {
    World::with(Setting { section: format!("{SECTION}{more}"), ..Setting::default() })
}

/// Sends a group message, to the agent or to others.
fn says(world: &World, id: &str, who: &str, text: &str, to_the_agent: bool) {
    let sender = Sender::new(who).named(if who == "7" { "Ada" } else { "Bob" });
    let addressed = Addressed::new(to_the_agent, false, to_the_agent && text.starts_with('/'));
    world.block_on(world.give(&Event::message(id, group(), sender, text).addressed(addressed))).unwrap();
}

fn answers(world: &World) -> Vec<String> {
    world.settled();
    world.platform.sent().into_iter().map(|sent| sent.text).collect()
}

fn kept(world: &World) -> Vec<Observed> {
    world.block_on(world.host().observing.caught_up());
    world.block_on(world.host().store.observed("fake", &group())).unwrap()
}

#[test]
fn the_next_turn_of_a_group_sees_once_what_was_said_there_to_others() {
    let world = world("session = { observe = true }");
    says(&world, "m:1", "7", "dinner at 8?", false);
    says(&world, "m:2", "8", "yes\nplease", false);
    says(&world, "m:3", "99", "a stranger's words", false);
    says(&world, "m:4", "7", "when?", true);
    assert_eq!(
        answers(&world),
        ["[messages in this group that were not addressed to you]\nAda: dinner at 8?\nBob: yes please\n\
          [end of these messages]\n\nwhen?"]
    );
    says(&world, "m:5", "7", "and where?", true);
    assert_eq!(answers(&world)[1], "and where?");
    assert!(kept(&world).is_empty());
}

#[test]
fn nothing_is_kept_of_a_group_unless_the_operator_wants_it() {
    let world = world("");
    says(&world, "m:1", "7", "to others", false);
    says(&world, "m:2", "7", "when?", true);
    assert_eq!(answers(&world), ["when?"]);
    assert!(kept(&world).is_empty());
}

#[test]
fn new_forgets_what_was_said_to_others_before() {
    let world = world("session = { observe = true }");
    says(&world, "m:1", "7", "before", false);
    says(&world, "m:2", "7", "/new", true);
    says(&world, "m:3", "8", "after", false);
    says(&world, "m:4", "7", "when?", true);
    let heard = answers(&world).pop().unwrap();
    assert!(heard.contains("Bob: after") && heard.ends_with("when?") && !heard.contains("before"), "{heard}");
}

#[test]
fn a_crash_loses_nothing_of_what_was_said_to_others() {
    let mut world = world("session = { observe = true }");
    says(&world, "m:1", "7", "before the crash", false);
    world.until("the message is kept", || (kept(&world).len() == 1).then_some(()));
    world.crash();
    world.start();
    says(&world, "m:2", "7", "when?", true);
    assert!(answers(&world)[0].contains("Ada: before the crash"));
}

#[test]
fn what_is_kept_of_a_group_is_bounded_in_messages_and_bytes() {
    let world = world("session = { observe = true }");
    let keep = |inbox: i64, text: &str| {
        let line = Observed { inbox, at_ms: 1, name: "Ada".to_owned(), text: text.to_owned() };
        let changes = vec![Change::Observe { instance: "fake".to_owned(), chat: group(), line }];
        world
            .block_on(world.host().store.command(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: 1 }))
            .unwrap();
    };
    (1..=60).for_each(|inbox| keep(inbox, "short"));
    keep(60, "heard twice");
    let lines = kept(&world);
    assert_eq!((lines.len(), lines[0].inbox, lines[49].text.as_str()), (50, 11, "short"));
    (61..=80).for_each(|inbox| keep(inbox, &"x".repeat(2_000)));
    let lines = kept(&world);
    let bytes: usize = lines.iter().map(|line| line.name.len() + line.text.len()).sum();
    assert!(bytes <= 16 * 1024 && lines.last().unwrap().inbox == 80, "{bytes} bytes in {} messages", lines.len());
}

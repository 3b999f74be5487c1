//! The access rules, one by one: admission and rights.

use hermes_protocol::{Addressed, Chat, ChatType, Event, Sender};
use serde_json::json;

use super::world::{Setting, World};

/// Creates a world with these lines in the adapter's section, and these in `[access]`.
fn world(section: &str, access: &str) -> World {
    World::with(Setting {
        section: section.to_owned(),
        more: format!("[access]\n{access}"),
        // The platform's statements about its senders count only if the operator trusts it.
        capabilities: json!({ "authorizes_upstream": section.contains("upstream = true") && access.is_empty() }),
        ..Setting::default()
    })
}

/// Returns a sender whom the platform knows by two ids.
fn second_id(id: &str) -> Sender {
    let mut sender = Sender::new("5");
    sender.alt_id = Some(id.to_owned());
    sender
}

/// Returns whether the agent answers a message of `sender` in `chat`.
fn is_heard(world: &World, chat: Chat, sender: Sender) -> bool {
    let event = Event::message("m:1", chat, sender, "the question").addressed(Addressed::new(true, false, false));
    world.block_on(world.give(&event)).unwrap();
    world.settled();
    world.platform.sent().iter().any(|sent| sent.text.contains("the question"))
}

#[test]
fn each_rule_lets_in_whom_it_names_and_nobody_else() {
    let dm = || Chat::dm("5");
    let group = || Chat::new(ChatType::Group, "g");
    let five = || Sender::new("5");
    let one = "access = { allowed_users = [\"1\"] }";
    let trusted = "trust_upstream = true";
    let roles = "trust_upstream = true\naccess = { allowed_roles = [\"r\"] }";
    let untrusted = "access = { allowed_roles = [\"r\"] }";
    for (what, section, access, chat, sender, heard) in [
        ("nothing names anybody", "", "", dm(), five(), false),
        ("a trusted upstream", trusted, "", dm(), five(), true),
        ("trust in an adapter that proves nothing", trusted, "strangers = \"ignore\"", dm(), five(), false),
        ("all of the instance", "access = { allow_all = true }", "", dm(), five(), true),
        (
            "all of the instance beside a list",
            "access = { allow_all = true, admins = [\"1\"] }",
            "",
            dm(),
            five(),
            true,
        ),
        ("a list with the sender", "access = { allowed_users = [\"5\"] }", "", dm(), five(), true),
        ("a list without the sender", one, "", dm(), five(), false),
        ("a second stable id", "access = { allowed_users = [\"u\"] }", "", dm(), second_id("u"), true),
        ("a display name", "access = { allowed_users = [\"Ada\"] }", "", dm(), five().named("Ada"), false),
        ("a listed group", "access = { allowed_groups = [\"g\"] }", "", group(), five(), true),
        ("a listed group is no direct message", "access = { allowed_groups = [\"5\"] }", "", dm(), five(), false),
        ("the global list", "", "allowed_users = [\"fake:5\"]", dm(), five(), true),
        ("the global list for another instance", "", "allowed_users = [\"other:5\"]", dm(), five(), false),
        ("the global list beside one of the instance", one, "allowed_users = [\"fake:5\"]", dm(), five(), true),
        ("a trusted role", roles, "strangers = \"ignore\"", dm(), five().with_role("r"), true),
        ("another role", roles, "strangers = \"ignore\"", dm(), five().with_role("q"), false),
        ("a role without trust", untrusted, "", dm(), five().with_role("r"), false),
        ("everybody, where no list exists", "", "allow_all = true", dm(), five(), true),
        ("everybody, where one of the instance exists", one, "allow_all = true", dm(), five(), false),
        (
            "everybody, where one of groups exists",
            "access = { allowed_groups = [\"g\"] }",
            "allow_all = true",
            dm(),
            five(),
            false,
        ),
        (
            "everybody, where one of staff exists",
            "access = { admins = [\"1\"] }",
            "allow_all = true",
            dm(),
            five(),
            false,
        ),
        ("everybody, where a global one exists", "", "allow_all = true\noperators = [\"fake:1\"]", dm(), five(), false),
        (
            "everybody, where one for another instance exists",
            "",
            "allow_all = true\nadmins = [\"other:1\"]",
            dm(),
            five(),
            true,
        ),
        ("everybody is not nobody in particular", "", "allow_all = true", dm(), Sender::default(), false),
    ] {
        assert_eq!(is_heard(&world(section, access), chat, sender), heard, "{what}");
    }
}

#[test]
fn whoami_tells_everybody_what_they_are_and_only_staff_lets_others_in() {
    let section = "access = { allowed_users = [\"7\"], admins = [\"8\"], operators = [\"9\"] }".to_owned();
    let world = World::with(Setting { section, ..Setting::default() });
    for (who, tier, may) in [("7", "user", false), ("8", "admin", true), ("9", "operator", true)] {
        let chat = world.chat(who);
        chat.says("/whoami");
        let told = chat.hears(1).remove(0);
        assert!(told.contains(&format!("Your id: `{who}`")) && told.contains(&format!("You are: {tier}")), "{told}");
        assert_eq!(told.contains("/pair"), may, "{told}");
        chat.says("/pair");
        let answer = chat.hears(2).remove(1);
        assert_eq!(answer.contains("gets access"), may, "{answer}");
        assert_eq!(answer.contains("/pair is only for admins"), !may, "{answer}");
    }
}

#[test]
fn whoever_came_by_another_way_than_a_list_is_a_user() {
    for (section, access) in
        [("access = { allow_all = true }", ""), ("access = { allowed_users = [\"*\"] }", ""), ("", "allow_all = true")]
    {
        let world = world(section, access);
        world.chat("5").says("/whoami");
        let told = world.chat("5").hears(1).remove(0);
        assert!(told.contains("You are: user"), "{section} {access}: {told}");
    }
    let alone = world("access = { allowed_users = [\"5\"] }", "");
    alone.chat("5").says("/whoami");
    let told = alone.chat("5").hears(1).remove(0);
    assert!(told.contains("You are: operator"), "who wrote down only themselves: {told}");
}

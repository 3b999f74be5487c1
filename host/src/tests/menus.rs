//! Command menus, the prefix of a platform, and the reports to an adapter about the conversations of its senders.

use hermes_protocol::{Chat, CommandInfo};
use serde_json::{Value, json};

use super::world::{Setting, World};
use crate::engine::config_snapshot::Live;
use crate::engine::messages::{Control, HostEvent};
use hermes_config::{Sources, load};

fn with_capabilities(capabilities: Value) -> World {
    let section = "access = { allowed_users = [\"8\"], admins = [\"7\"] }".to_owned();
    World::with(Setting { capabilities, section, ..Setting::default() })
}

fn world() -> World {
    with_capabilities(json!({ "commands_menu": true }))
}

/// Reports a link to the host, and waits until the host has processed that.
fn online(world: &World) {
    world.is_ready();
    world.chat("8").says("/version");
    world.settled();
}

fn names(menu: &Value) -> Vec<String> {
    let commands: Vec<CommandInfo> = serde_json::from_value(menu.clone()).unwrap();
    commands.into_iter().map(|command| command.name).collect()
}

#[test]
fn an_adapter_that_is_online_is_given_the_menu_once() {
    let world = world();
    online(&world);
    let given = world.until("the menu", || world.platform.asked("set_commands").pop());
    let names = names(&given["commands"]);
    assert!(names.iter().any(|name| name == "new") && !names.iter().any(|name| name == "restart"), "{names:?}");
    let busy = given["commands"].as_array().unwrap().iter().find(|one| one["name"] == "busy").unwrap();
    assert_eq!(busy["values"], json!(["interrupt", "queue", "steer", "reset"]));
    online(&world);
    assert_eq!(world.platform.asked("set_commands").len(), 1);
}

#[test]
fn a_platform_without_a_menu_is_given_none() {
    let world = with_capabilities(json!({}));
    online(&world);
    assert!(world.platform.asked("set_commands").is_empty());
}

#[test]
fn the_prefix_of_a_platform_makes_a_command_there_and_words_elsewhere() {
    let there = with_capabilities(json!({ "command_prefix": "!" }));
    let ada = there.chat("8");
    ada.says("!title Rome");
    assert_eq!(ada.hears(1)[0], "This conversation is now called Rome.");
    ada.says("/title");
    assert!(ada.hears(2)[1].starts_with("This conversation is called Rome."), "the slash is a command everywhere");
    ada.says("!?");
    assert_eq!(ada.hears(3)[2], "!?", "what names nothing is no command");

    let elsewhere = with_capabilities(json!({}));
    elsewhere.chat("8").says("!title Rome");
    assert_eq!(elsewhere.chat("8").hears(1), ["!title Rome"]);
}

#[test]
fn a_sender_is_told_what_they_may_run_in_a_direct_message() {
    let world = world();
    let of = |who: &str| world.call("commands.list", json!({ "sender": { "id": who } }));
    let (admin, user) = (names(&of("7").unwrap()), names(&of("8").unwrap()));
    for name in ["sessions", "title"] {
        assert!(admin.contains(&name.to_owned()) && user.contains(&name.to_owned()), "{name}");
    }
    assert!(admin.contains(&"restart".to_owned()) && !user.contains(&"restart".to_owned()));
    assert_eq!(of("99").unwrap_err().code, "refused");
    let everybody = names(&world.call("commands.list", json!({})).unwrap());
    assert!(!everybody.contains(&"sessions".to_owned()), "what is private is on no menu of everybody");
}

#[test]
fn a_session_tells_in_which_chats_of_the_instance_it_goes_on() {
    let world = world();
    let sessions = || world.call("sessions.list", json!({ "sender": { "id": "8" } })).unwrap();
    let ada = world.chat("8");
    ada.says("one");
    ada.hears(1);
    world.settled();
    let first = sessions()[0].clone();
    assert_eq!(first["chats"], json!([Chat::dm("8")]));
    ada.says("/branch");
    ada.hears(2);
    let chats = |id: &Value| {
        let of = json!({ "sender": { "id": "8" }, "session_id": id });
        world.call("sessions.get", of).unwrap()["chats"].clone()
    };
    assert_eq!(chats(&first["id"]), json!([]), "the chat went another way");
    let list = sessions();
    let branch = list.as_array().unwrap().iter().find(|one| one["id"] != first["id"]).unwrap();
    assert_eq!(branch["chats"], json!([Chat::dm("8")]));
}

#[test]
fn an_adapter_that_wants_it_has_a_taken_title_numbered() {
    let world = world();
    for chat in ["a", "b"] {
        let made = json!({ "sender": { "id": "8" }, "chat": { "type": "group", "id": chat }, "title": chat });
        world.call("sessions.create", made).unwrap();
    }
    let list = world.call("sessions.list", json!({ "sender": { "id": "8" } })).unwrap();
    let id = list.as_array().unwrap().iter().find(|one| one["title"] == "b").unwrap()["id"].clone();
    let rename = |title: &str, numbered: bool| {
        let asked = json!({ "sender": { "id": "8" }, "session_id": id, "title": title, "numbered": numbered });
        world.call("sessions.rename", asked)
    };
    assert_eq!(rename("a", false).unwrap_err().code, "refused");
    assert_eq!(rename("a", true).unwrap(), json!({ "title": "a #2" }));
    assert_eq!(rename("A #2", true).unwrap(), json!({ "title": "A #2" }), "its own name is not in its way");
    assert_eq!(rename(" c ", true).unwrap(), json!({ "title": "c" }));
}

/// Changes the `[commands]` section and reloads the file.
fn reloads(world: &World, commands: &str) {
    let file = world.home().join("plugins.toml");
    let text = format!(
        "[agent]\nruntime = \"echo\"\n\n[commands]\n{commands}\n\n[adapter.fake]\naccess = {{ allowed_users = [\"8\"] }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let home = world.home().to_owned();
    let sources =
        Sources { config: Some(file), home: Some(home.clone()), env: Default::default(), cwd: home, here: false };
    world.host().set_live(Live::new(load(sources).unwrap()));
    world.block_on(world.host().tell(HostEvent::control(Control::Reloaded)));
}

#[test]
fn a_menu_that_the_configuration_changed_is_given_again_and_an_unchanged_one_is_not() {
    let world = world();
    online(&world);
    let menus = || world.platform.asked("set_commands");
    world.until("the menu", || (menus().len() == 1).then_some(()));
    reloads(&world, "background = true");
    reloads(&world, "background = false");
    world.until("the changed menu", || (menus().len() == 2).then_some(()));
    let with = |menu: &Value| names(&menu["commands"]).contains(&"background".to_owned());
    assert_eq!(menus().iter().map(with).collect::<Vec<_>>(), [true, false]);
    let theirs = world.call("commands.list", json!({ "sender": { "id": "8" } })).unwrap();
    assert!(!names(&theirs).contains(&"background".to_owned()));
    reloads(&world, "background = false");
    online(&world);
    assert_eq!(menus().len(), 2, "it has this one");
}

#[test]
fn an_instance_that_was_made_anew_is_given_its_menu_again() {
    let world = world();
    online(&world);
    let menus = || world.platform.asked("set_commands");
    world.until("the menu", || (menus().len() == 1).then_some(()));
    world.host().adapter("fake").unwrap().is_made_anew();
    online(&world);
    world.until("the menu again", || (menus().len() == 2).then_some(()));
    online(&world);
    assert_eq!(menus().len(), 2, "it has this one");
}

#[test]
fn a_menu_that_was_not_taken_is_given_when_the_configuration_is_next_read() {
    let world = world();
    world.set_online(false);
    world.is_ready();
    world.settled();
    world.set_online(true);
    let given = || {
        // The refusal may become known only after the first reload.
        reloads(&world, "background = true");
        world.platform.asked("set_commands").pop()
    };
    assert!(!names(&world.until("the menu", given)["commands"]).is_empty());
}

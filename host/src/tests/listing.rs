//! The commands, and their lists.

use hermes_protocol::Chat;
use serde_json::json;

use super::world::{Setting, World};
use crate::engine::config_snapshot::Live;
use hermes_config::{Sources, load};

/// 7 is an admin, 8 a user.
const SECTION: &str = "access = { allowed_users = [\"8\"], admins = [\"7\"] }";

fn world_with(section: &str, capabilities: serde_json::Value) -> World {
    World::with(Setting { section: section.to_owned(), capabilities, ..Setting::default() })
}

/// Changes the configuration file and reloads it.
fn reloads(world: &World, text: &str) {
    let file = world.home().join("plugins.toml");
    std::fs::write(&file, text).unwrap();
    let home = world.home().to_owned();
    let sources =
        Sources { config: Some(file), home: Some(home.clone()), env: Default::default(), cwd: home, here: false };
    world.host().set_live(Live::new(load(sources).unwrap()));
}

/// Returns the commands of a list, in order.
fn listed(text: &str) -> Vec<&str> {
    let name = |line: &str| line.strip_prefix("- /").map(|rest| rest.split([':', ' ']).next().unwrap().len());
    text.lines().filter_map(|line| Some(&line[3..3 + name(line)?])).collect()
}

#[test]
fn the_list_of_commands_has_pages_that_fit_the_platform_and_says_which_is_the_last() {
    let limit = 420;
    let text = json!({ "text": { "limit": limit, "unit": "bytes", "dialect": "plain" } });
    let world = world_with(SECTION, text);
    let ada = world.chat("8");
    ada.says("/commands");
    let first = ada.hears(1).swap_remove(0);
    let last_line = first.lines().last().unwrap();
    let pages: usize = last_line
        .strip_prefix("Page 1 of ")
        .and_then(|rest| rest.split_once('.'))
        .map(|(pages, _)| pages.parse().unwrap())
        .unwrap_or_else(|| panic!("{first}"));
    assert!(pages > 2 && last_line.ends_with("/commands 2 shows the next."), "{last_line}");
    for page in 2..=pages {
        ada.says(&format!("/commands {page}"));
        ada.hears(page);
    }
    let heard = ada.hears(pages);
    assert!(heard.iter().all(|page| page.len() <= limit), "{heard:?}");
    assert!(heard[pages - 1].ends_with(&format!("Page {pages} of {pages} (last page).")), "{heard:?}");
    let all: Vec<&str> = heard.iter().flat_map(|page| listed(page)).collect();
    assert_eq!(all[..3], ["start", "help", "commands"]);
    let theirs = |row: &&hermes_core::commands::Command| {
        row.tier == hermes_core::access::Tier::User && row.scope.includes(hermes_core::commands::Place::Dm)
    };
    let expected = hermes_core::commands::REGISTRY.iter().filter(theirs);
    assert_eq!(all, expected.map(|row| row.name).collect::<Vec<_>>(), "each once");
    ada.says(&format!("/commands {}", pages + 1));
    ada.says("/commands two");
    let heard = ada.hears(pages + 2);
    assert_eq!(heard[pages], format!("There is no page {}; the last one is /commands {pages}.", pages + 1));
    assert_eq!(heard[pages + 1], "Use /commands or /commands PAGE.");
}

#[test]
fn a_list_that_fits_has_no_pages() {
    let world = World::new();
    let ada = world.chat("7");
    ada.says("/commands");
    ada.says("/commands 2");
    let heard = ada.hears(2);
    assert!(!heard[0].contains("Page 1"), "{}", heard[0]);
    assert_eq!(heard[1], "There is only one page: `/commands`.");
}

#[test]
fn a_command_that_the_config_closes_is_unknown_everywhere_until_a_reload_opens_it() {
    let closed = format!("{SECTION}\n[commands]\nbackground = false\nrestart = false");
    let world = world_with(&closed, json!({ "text": { "limit": 65536, "unit": "scalars", "dialect": "plain" } }));
    let admin = world.chat("7");
    let menu = || world.call("commands.list", json!({})).unwrap().to_string();
    for (n, text) in ["/bg look it up", "/restart", "/help restart", "/help", "/whoami"].into_iter().enumerate() {
        admin.says(text);
        admin.hears(n + 1);
    }
    let heard = admin.heard();
    assert!(heard[0].starts_with("There is no command /bg."), "{}", heard[0]);
    assert!(heard[1].starts_with("There is no command /restart."), "{}", heard[1]);
    assert!(heard[2].starts_with("There is no command /restart."), "{}", heard[2]);
    for text in &heard[3..] {
        assert!(!text.contains("/restart") && !text.contains("/background") && text.contains("/platform"), "{text}");
    }
    assert!(!menu().contains("\"background\""), "{}", menu());

    reloads(&world, &format!("[agent]\nruntime = \"echo\"\n[adapter.fake]\n{SECTION}\n"));
    admin.says("/help restart");
    assert!(admin.hears(6)[5].starts_with("- /restart: "), "{:?}", admin.heard());
    assert!(menu().contains("\"background\""), "{}", menu());
    admin.says("/bg look it up");
    let heard = admin.hears(8);
    assert!(heard[6..].iter().any(|text| text.contains("look it up")), "{heard:?}");
}

#[test]
fn a_command_begins_with_the_adapters_own_prefix_only_where_it_has_one() {
    let text = json!({ "limit": 4096, "unit": "scalars", "dialect": "plain" });
    let world = world_with(SECTION, json!({ "text": text, "command_prefix": "!" }));
    let ada = world.chat("8");
    for (n, text) in ["!version", "!vers", "! version", "!!", "/version"].into_iter().enumerate() {
        ada.says(text);
        ada.hears(n + 1);
    }
    let heard = ada.heard();
    for n in [0, 1, 4] {
        assert!(heard[n].starts_with("hermes-host "), "{heard:?}");
    }
    assert_eq!(heard[2..4], ["! version", "!!"]);
    let group = world.talk(Chat::dm("8"), "8");
    group.says("!verison");
    assert!(group.hears(6)[5].contains("Did you mean /version?"), "{:?}", group.heard());

    let world = world_with(SECTION, json!({ "text": text }));
    world.chat("8").says("!version");
    assert_eq!(world.chat("8").hears(1), ["!version"]);
}

//! The rules for automatic resets, by instance and by chat type.

use hermes_protocol::ChatType;

use super::*;

#[test]
fn a_type_of_chat_has_its_own_rule_and_an_adapter_has_its_own_rules() {
    let mut world = World::new();
    world.file(
        r#"
        [session]
        reset = { mode = "daily", at_hour = 5, group = { mode = "idle", idle_minutes = 30 } }

        [adapter.plain]
        plugin = "telegram"

        [adapter.quiet]
        plugin = "telegram"
        session = { reset = { mode = "none", thread = { mode = "both" } } }
        "#,
    );
    let config = world.load().unwrap();
    let rule = |instance: &str, kind: ChatType| {
        let rule = config.session_for(instance).reset.of(&kind).clone();
        (rule.mode, rule.at_hour, rule.idle.as_secs() / 60)
    };
    assert_eq!(rule("plain", ChatType::Dm), (ResetMode::Daily, 5, 1440));
    assert_eq!(rule("plain", ChatType::Group), (ResetMode::Idle, 5, 30));
    assert_eq!(rule("quiet", ChatType::Dm).0, ResetMode::None);
    assert_eq!(
        rule("quiet", ChatType::Group),
        (ResetMode::None, 5, 30),
        "a plain rule is for all chats of its adapter"
    );
    assert_eq!(rule("quiet", ChatType::Thread).0, ResetMode::Both);
}

#[test]
fn a_zone_that_nobody_knows_is_refused_where_it_stands() {
    for (file, key) in [
        ("[session]\nreset = { zone = \"Europe/Atlantis\" }\n", "session.reset.zone"),
        ("[adapter.x]\nsession = { reset = { zone = \"Europe/Atlantis\" } }\n", "adapter.x.session.reset.zone"),
    ] {
        let mut world = World::new();
        world.file(file);
        let problems = world.load().unwrap_err().to_string();
        assert!(problems.contains(key) && problems.contains("is not a known time zone"), "{problems}");
    }
}

//! The effects of manifests and schemas.

use super::*;

/// Returns a manifest with these fields, by its id.
pub fn one(fields: Json) -> BTreeMap<String, Manifest> {
    let mut all = json!({ "schema": 1, "label": "Chat", "version": "1.0.0", "sdk": "1.0.0", "abi": 1 });
    for (key, value) in fields.as_object().unwrap() {
        all[key] = value.clone();
    }
    let manifest: Manifest = serde_json::from_value(all).unwrap();
    BTreeMap::from([(manifest.id.clone(), manifest)])
}

pub fn telegram() -> BTreeMap<String, Manifest> {
    one(json!({
        "id": "telegram",
        "label": "Telegram",
        "transport": "long-poll",
        "secrets": ["token"],
        "uses": ["sessions.list"],
        "home_channel_help": "Write /whoami to the bot.",
        "env": [
            { "name": "TELEGRAM_BOT_TOKEN", "key": "token", "enables": true },
            { "name": "TELEGRAM_TOKEN", "key": "token", "enables": true, "retired_for": "TELEGRAM_BOT_TOKEN" },
            { "name": "TELEGRAM_POLL_S", "key": "poll_s" },
            { "name": "TELEGRAM_ALLOWED_USERS", "key": "access.allowed_users" },
            { "name": "TELEGRAM_ALLOW_ALL_USERS", "key": "access.allow_all" },
            { "name": "TELEGRAM_HOME_CHANNEL", "key": "home_channel" },
            { "name": "TELEGRAM_HOME_CHANNEL_THREAD_ID", "key": "home_channel.thread" },
            { "name": "TELEGRAM_REQUIRE_MENTION", "key": "session.require_mention" },
        ],
    }))
}

pub fn telegram_schema() -> Json {
    json!({
        "type": "object",
        "required": ["token"],
        "properties": {
            "token": { "type": "string", "minLength": 3, "description": "What BotFather gave." },
            "base_url": { "type": "string", "default": "https://api.telegram.org" },
            "poll_s": { "type": "integer", "minimum": 1, "maximum": 60, "default": 30 },
            "mode": { "anyOf": [{ "$ref": "#/$defs/Mode" }, { "type": "null" }], "default": null },
            "topics": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
            "silent": { "type": ["boolean", "null"] },
        },
        "$defs": { "Mode": { "type": "string", "enum": ["poll", "webhook"] } },
    })
}

fn schemas() -> BTreeMap<String, Json> {
    BTreeMap::from([("telegram".to_owned(), telegram_schema())])
}

#[test]
fn a_variable_alone_starts_and_configures_an_adapter() {
    let mut world = World::new();
    world.file("");
    world
        .env("TELEGRAM_BOT_TOKEN", "1:abc")
        .env("TELEGRAM_ALLOWED_USERS", "1, 2,,3")
        .env("TELEGRAM_HOME_CHANNEL", "-100")
        .env("TELEGRAM_HOME_CHANNEL_THREAD_ID", "17")
        .env("TELEGRAM_REQUIRE_MENTION", "yes")
        .env("TELEGRAM_POLL_S", "7");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    let adapter = &config.adapters["telegram"];
    assert_eq!(adapter.access.allowed_users, ["1", "2", "3"]);
    assert_eq!(adapter.home_channel, Some(HomeChannel { chat: "-100".into(), thread: Some("17".into()) }));
    assert_eq!(adapter.session.require_mention, Some(true));
    let plans = config.plans(&telegram(), &schemas()).unwrap();
    assert_eq!(plans[0].config, json!({ "token": "1:abc", "poll_s": 7 }));
    assert_eq!(plans[0].secrets, ["1:abc"]);
    assert!(config.access_policy().instances["telegram"].allowed_users.contains("2"));
    let shown = config.show(&telegram());
    let users = shown.iter().find(|shown| shown.key == "adapter.telegram.access.allowed_users").unwrap();
    assert_eq!(
        (users.value.as_str(), users.source.as_str()),
        (r#"["1", "2", "3"]"#, "environment TELEGRAM_ALLOWED_USERS")
    );
}

#[test]
fn a_target_of_an_instance_that_there_is_not_is_named_with_its_place() {
    let mut world = World::new();
    world.file(
        r#"
        [adapter.hooks]
        command = ["./hooks"]
        to = "hoks"
        [adapter.hooks.routes.a]
        deliver = "telegramm:-100"
        [adapter.hooks.routes.b]
        deliver = "telegram:-100"
        [adapter.hooks.routes.c]
        deliver = "hooks"
        [adapter.hooks.routes.d]
        deliver = "log"
        [adapter.hooks.routes.e]
        deliver = "nowhere:7"
        more = "nowhere:7"
        "#,
    );
    let target = json!({ "type": "string", "format": "target", "default": "log" });
    let schema = json!({
        "properties": {
            "to": target.clone(),
            "routes": { "type": "object", "additionalProperties": { "$ref": "#/$defs/Route" } },
        },
        "$defs": { "Route": { "properties": { "deliver": target, "more": { "type": "string" } } } },
    });
    let schemas = BTreeMap::from([("hooks".to_owned(), schema)]);
    assert_eq!(
        world.relative(world.load().unwrap().targets_of_nobody(&telegram(), &schemas)),
        "plugins.toml:6:9: adapter.hooks.routes.a.deliver: no instance is named \"telegramm\", so nothing arrives \
         there; write the name of an [adapter] section; did you mean `telegram`?\n\
         plugins.toml:14:9: adapter.hooks.routes.e.deliver: no instance is named \"nowhere\", so nothing arrives \
         there; write the name of an [adapter] section\n\
         plugins.toml:4:9: adapter.hooks.to: no instance is named \"hoks\", so nothing arrives there; write the name \
         of an [adapter] section; did you mean `hooks`?"
    );
}

#[test]
fn without_an_enabling_variable_no_adapter_appears() {
    let mut world = World::new();
    world.env("TELEGRAM_ALLOWED_USERS", "1").file("");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    assert!(config.adapters.is_empty());
}

#[test]
fn a_section_wins_over_its_variables_and_says_so() {
    let mut world = World::new();
    world.env("TELEGRAM_BOT_TOKEN", "1:env").env("MINE", "1:mine").env("TELEGRAM_ALLOW_ALL_USERS", "true");
    world.file("[adapter.telegram]\ntoken = { env = \"MINE\" }\nenabled = false\naccess = { allow_all = false }\n");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    let plans = config.plans(&telegram(), &schemas()).unwrap();
    assert_eq!((plans[0].config["token"].as_str(), plans[0].enabled), (Some("1:mine"), false));
    assert!(!config.adapters["telegram"].access.allow_all);
    let said: Vec<String> = config
        .warnings
        .iter()
        .map(|warning| warning.to_string().replace(&world.dir().display().to_string(), ""))
        .collect();
    assert_eq!(
        said,
        [
            "/plugins.toml:2:1: adapter.telegram.token: overrides the different value of environment \
             TELEGRAM_BOT_TOKEN",
            "/plugins.toml:4:12: adapter.telegram.access.allow_all: overrides the different value of environment \
             TELEGRAM_ALLOW_ALL_USERS",
        ]
    );
}

#[test]
fn a_retired_variable_warns_and_works_unless_the_current_one_is_there() {
    let mut world = World::new();
    world.env("TELEGRAM_TOKEN", "1:old").file("");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    assert_eq!(config.plans(&telegram(), &schemas()).unwrap()[0].config["token"], "1:old");
    assert_eq!(
        config.warnings[0].to_string(),
        "environment TELEGRAM_TOKEN: is retired; set TELEGRAM_BOT_TOKEN \
                                                instead"
    );
    world.env("TELEGRAM_BOT_TOKEN", "1:new");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    assert_eq!(config.plans(&telegram(), &schemas()).unwrap()[0].config["token"], "1:new");
}

#[test]
fn variables_are_about_the_only_instance_or_the_one_of_the_plugins_name() {
    let mut world = World::new();
    world.env("TELEGRAM_BOT_TOKEN", "1:env").env("OTHER", "1:other");
    world.file("[adapter.home]\nplugin = \"telegram\"\n");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    assert_eq!(config.adapters.keys().collect::<Vec<_>>(), ["home"]);
    assert_eq!(config.plans(&telegram(), &schemas()).unwrap()[0].config["token"], "1:env");

    world.file("[adapter.a]\nplugin = \"telegram\"\ntoken = { env = \"OTHER\" }\n[adapter.b]\nplugin = \"telegram\"\ntoken = { env = \"OTHER\" }\n");
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    assert_eq!(config.adapters.len(), 2);
}

#[test]
fn a_variable_that_cannot_be_its_key_is_named() {
    let mut world = World::new();
    world.env("TELEGRAM_BOT_TOKEN", "1:abc").env("TELEGRAM_REQUIRE_MENTION", "sometimes");
    let mut config = world.load().unwrap();
    assert_eq!(
        config.resolve(&telegram()).unwrap_err().to_string(),
        "environment TELEGRAM_REQUIRE_MENTION: adapter.telegram.session.require_mention: must be true or false"
    );
}

#[test]
fn an_adapters_own_keys_are_checked_against_its_schema() {
    let cases = [
        (
            "tokn = \"1:abc\"",
            "plugins.toml:1:10: adapter.telegram: requires the key `token`; add it to the section, or set \
             TELEGRAM_BOT_TOKEN\n\
             plugins.toml:2:1: adapter.telegram.tokn: unknown key; did you mean `adapter.telegram.token`?",
        ),
        (
            "token = { env = \"T\" }\nacess = {}",
            "plugins.toml:3:1: adapter.telegram.acess: unknown key; did you mean `adapter.telegram.access`?",
        ),
        (
            "token = { env = \"T\" }\npoll_s = \"7\"",
            "plugins.toml:3:1: adapter.telegram.poll_s: must be an integer, not a string",
        ),
        ("token = { env = \"T\" }\npoll_s = 0", "plugins.toml:3:1: adapter.telegram.poll_s: must be at least 1, not 0"),
        (
            "token = { env = \"T\" }\nmode = \"push\"",
            "plugins.toml:3:1: adapter.telegram.mode: must be \"poll\" or \"webhook\"",
        ),
        (
            "token = { env = \"T\" }\nsilent = 1",
            "plugins.toml:3:1: adapter.telegram.silent: must be a boolean, not an integer",
        ),
        (
            "token = { env = \"T\" }\ntopics = [{ name = \"a\" }, { nam = \"b\" }]",
            "plugins.toml:3:29: adapter.telegram.topics.1.nam: unknown key; did you mean `adapter.telegram.topics.1.name`?",
        ),
        ("token = { env = \"T\" }\nbase_url = 2024-01-01", ""),
        ("token = { env = \"S\" }", "plugins.toml:2:1: adapter.telegram.token: must be at least 3 characters, not 1"),
    ];
    for (text, expected) in cases {
        let mut world = World::new();
        world.env("T", "1:abc").env("S", "x");
        world.file(&format!("[adapter.telegram]\n{text}\n"));
        let mut config = world.load().unwrap();
        config.resolve(&telegram()).unwrap();
        let said = config.plans(&telegram(), &schemas()).err().map(|problems| world.relative(problems));
        assert_eq!(said.unwrap_or_default(), expected, "{text}");
    }
}

#[test]
fn only_methods_that_the_manifest_asks_for_can_be_granted() {
    let mut world = World::new();
    world.env("T", "1:abc");
    world.file(
        "[adapter.telegram]\ntoken = { env = \"T\" }\naccess = { grants = [\"sessions.list\", \"turns.stop\"] }\n",
    );
    let mut config = world.load().unwrap();
    config.resolve(&telegram()).unwrap();
    let plans = config.plans(&telegram(), &schemas()).unwrap();
    assert_eq!(plans[0].granted.iter().collect::<Vec<_>>(), ["sessions.list"]);
}

#[test]
fn a_schema_that_points_at_itself_is_judged_in_finite_time() {
    let schema = json!({
        "$ref": "#/$defs/Tree",
        "$defs": { "Tree": { "type": "object", "properties": { "left": { "$ref": "#/$defs/Tree" } }, "allOf": [{ "$ref": "#/$defs/Tree" }] } },
    });
    let mut world = World::new();
    world.file("[adapter.telegram]\nleft = { left = { right = 1 } }\n");
    let config = world.load().unwrap();
    let problems = config.plans(&BTreeMap::new(), &BTreeMap::from([("telegram".to_owned(), schema)])).unwrap_err();
    assert!(problems.to_string().contains("left.left.right: unknown key"), "{problems}");
}

#[test]
fn keys_that_only_a_start_reads_are_named_when_they_change() {
    let mut world = World::new();
    world.file("[agent]\nruntime = \"openai\"\nsystem_prompt = \"be kind\"\n");
    world.env("OPENAI_API_KEY", "sk-of-yesterday");
    let started_with = world.load().unwrap().for_the_start();
    assert!(world.load().unwrap().changed_for_the_next_start(&started_with).is_empty());
    world.env("OPENAI_API_KEY", "sk-of-today");
    world.file("[host]\nlog = \"debug\"\ndrain_s = 3\n[agent]\nruntime = \"openai\"\nsystem_prompt = \"be brief\"\n");
    let later = world.load().unwrap().changed_for_the_next_start(&started_with);
    assert_eq!(later, ["agent.api_key", "host.log"]);
}

#[test]
fn a_reference_that_leads_nowhere_is_no_secret_that_was_written_out() {
    let mut world = World::new();
    world.file("[adapter.telegram]\ntoken = { env = \"NOWHERE\" }\n");
    let (mut config, problems) = read(world.sources.clone()).unwrap();
    assert_eq!(problems.0.len(), 1, "{problems}");
    config.resolve(&telegram()).unwrap();
}

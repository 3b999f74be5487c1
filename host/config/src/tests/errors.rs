//! Wrong files and their exact messages.

use super::*;

#[test]
fn each_mistake_has_its_sentence() {
    let cases = [
        ("[hots]", "plugins.toml:1:2: hots: unknown section; did you mean `host`?"),
        ("[zzz]", "plugins.toml:1:2: zzz: unknown section"),
        ("host = 1", "plugins.toml:1:1: host: must be a table [host], not an integer"),
        ("adapter = 1", "plugins.toml:1:1: adapter: must be tables such as [adapter.example], not an integer"),
        ("[host]\nlgo = \"info\"", "plugins.toml:2:1: host.lgo: unknown key; did you mean `host.log`?"),
        ("[host]\n  busy = \"queue\"", "plugins.toml:2:3: host.busy: unknown key; did you mean `session.busy`?"),
        (
            "[host]\nlog = \"info\"\nlog = \"warn\"",
            "plugins.toml:3:1: the key log is defined twice; remove one of the definitions",
        ),
        ("[host]\nlog = 3", "plugins.toml:2:1: host.log: must be a string, not an integer"),
        (
            "[host]\nlog = \"info,a=loud\"",
            "plugins.toml:2:1: host.log: \"info,a=loud\" is neither a log level nor a filter; write \"info\" or \
             \"info,hermes_host=debug\"",
        ),
        ("[host]\nlog = \"inof\"", "plugins.toml:2:1: host.log: \"inof\" is not a log level; write \"info\""),
        (
            "[host]\nstatus = \"0.0.0.0:8640\"",
            "plugins.toml:2:1: host.status: other machines can reach 0.0.0.0:8640, and the page shows adapters, paths \
             and errors without a key; write \"127.0.0.1:8640\", or allow it with `status_public = true`",
        ),
        ("[host]\nlog = \"\"", "plugins.toml:2:1: host.log: must not be empty"),
        ("[host]\ndrain_s = \"30\"", "plugins.toml:2:1: host.drain_s: must be an integer, not a string"),
        ("[host]\ndrain_s = 1.5", "plugins.toml:2:1: host.drain_s: must be an integer, not a decimal number"),
        ("[host]\ndrain_s = -1", "plugins.toml:2:1: host.drain_s: must be between 0 and 3600, not -1"),
        (
            "[host]\nisolation = \"proces\"",
            "plugins.toml:2:1: host.isolation: must be \"auto\" or \"in-process\" or \"process\", not \"proces\"; did you mean \"process\"?",
        ),
        (
            "[host]\nstatus = \"8640\"",
            "plugins.toml:2:1: host.status: must be an address and a port such as \"127.0.0.1:8640\", or \"\" for off, not \"8640\"",
        ),
        (
            "[agent]\nruntime = \"acp\"",
            "plugins.toml:2:1: agent.runtime: \"acp\" does not exist in this version, only \"echo\" or \"openai\" do",
        ),
        (
            "[agent]\nbase_url = \"api.example/v1\"",
            "plugins.toml:2:1: agent.base_url: cannot be used (it is not a valid URL: relative URL without a base); \
             write one such as \"https://api.example/v1\"",
        ),
        (
            "[agent]\nbase_url = \"ftp://api.example/v1\"",
            "plugins.toml:2:1: agent.base_url: cannot be used (it does not begin with http:// or https://); \
             write one such as \"https://api.example/v1\"",
        ),
        (
            "[commands]\nbakground = false",
            "plugins.toml:2:1: commands.bakground: unknown key; did you mean `commands.background`?",
        ),
        (
            "[agent]\napi_key = { env = \"NOWHERE\" }",
            "plugins.toml:2:1: agent.api_key: the variable NOWHERE is not set; set it, or add it to .env in the home \
             folder",
        ),
        (
            "[agent]\napi_key = { file = \"gone\" }",
            "plugins.toml:2:1: agent.api_key: gone cannot be read (No such file or directory (os error 2))",
        ),
        (
            "[agent]\napi_key = { envy = \"X\" }",
            "plugins.toml:2:1: agent.api_key: must be { env = \"NAME\" } or { file = \"path\" }",
        ),
        (
            "[agent]\napi_key = 7",
            "plugins.toml:2:1: agent.api_key: must be { env = \"NAME\" } or { file = \"path\" }, not an integer",
        ),
        (
            "[agent]\napi_key = \"sk-123456\"",
            "plugins.toml:2:1: agent.api_key: a secret is written in a file that other users can read; write { env = \
             \"NAME\" } or { file = \"path\" }, or run `chmod 600 plugins.toml`",
        ),
        (
            "[adapter.host]\nplugin = \"echo\"",
            "plugins.toml:1:10: adapter.host: this name is reserved for the host; choose another one",
        ),
        ("[session]\nreset = \"idle\"", "plugins.toml:2:1: session.reset: must be a table, not a string"),
        (
            "[session]\nreset = { mod = \"idle\" }",
            "plugins.toml:2:11: session.reset.mod: unknown key; did you mean `session.reset.mode`?",
        ),
        ("[session.reset]\nat_hour = 24", "plugins.toml:2:1: session.reset.at_hour: must be between 0 and 23, not 24"),
        (
            "[session]\nbusy = \"interupt\"",
            "plugins.toml:2:1: session.busy: must be \"interrupt\" or \"queue\" or \"steer\", not \"interupt\"; did you mean \"interrupt\"?",
        ),
        ("[session]\nmerge_ms = 100000", "plugins.toml:2:1: session.merge_ms: must be between 0 and 60000, not 100000"),
        ("[session]\nrequire_mention = true", "plugins.toml:2:1: session.require_mention: unknown key"),
        (
            "[session]\ninactivity_s = 60",
            "plugins.toml:2:1: session.inactivity_warning_s: must not be longer than session.inactivity_s",
        ),
        (
            "[session]\nbusy = \"queue\"\nbusy_input_mode = \"queue\"",
            "plugins.toml:3:1: session.busy_input_mode: is the retired name of `session.busy`, which is also set; \
             remove this key",
        ),
        (
            "[access]\nallowed_users = [\"123\"]",
            "plugins.toml:2:1: access.allowed_users: \"123\" has no instance; write \"<instance>:123\", or move it to \
             the `access` of the adapter",
        ),
        (
            "[access]\nallowed_users = [123]",
            "plugins.toml:2:1: access.allowed_users: entry 1 must be a string; write \"123\"",
        ),
        (
            "[access]\nallowed_users = \"telegram:1\"",
            "plugins.toml:2:1: access.allowed_users: must be a list of strings, not a string",
        ),
        ("[access]\nallow_all = \"yes\"", "plugins.toml:2:1: access.allow_all: must be a boolean, not a string"),
        (
            "[adapter.\"a b\"]",
            "plugins.toml:1:10: adapter.a b: an instance name consists of letters, digits, `_` and `-`, begins with a \
             letter and has at most 64 characters",
        ),
        ("[adapter]\nchat = 1", "plugins.toml:2:1: adapter.chat: must be a table, not an integer"),
        (
            "[adapter.chat]\nprofile = \"work\"",
            "plugins.toml:2:1: adapter.chat.profile: profiles do not exist in this version, only \"main\" does; remove the key",
        ),
        (
            "[adapter.chat]\nbusy = \"off\"",
            "plugins.toml:2:1: adapter.chat.busy: must be \"interrupt\" or \"queue\" or \"steer\", not \"off\"",
        ),
        (
            "[adapter.chat]\nrequire_mention = true\nsession = { require_mention = false }",
            "plugins.toml:2:1: adapter.chat.require_mention: is set twice; remove it or \
             `adapter.chat.session.require_mention`",
        ),
        (
            "[adapter.chat]\naccess = { alowed_users = [] }",
            "plugins.toml:2:12: adapter.chat.access.alowed_users: unknown key; did you mean `adapter.chat.access.allowed_users`?",
        ),
        (
            "[adapter.chat]\nhome_channel = 5",
            "plugins.toml:2:1: adapter.chat.home_channel: must be a string; write \"5\"",
        ),
        (
            "[adapter.chat]\nhome_channel = { thread = \"1\" }",
            "plugins.toml:2:1: adapter.chat.home_channel: needs `chat`",
        ),
        ("[adapter.chat]\nsession = { log = \"x\" }", "plugins.toml:2:13: adapter.chat.session.log: unknown key"),
        (
            "[adapter.chat]\ntoken = { env = \"NOWHERE\" }",
            "plugins.toml:2:1: adapter.chat.token: the variable NOWHERE is not set; set it, or add it to .env in the \
             home folder",
        ),
        ("[host]\ndrain_s = 99999999999999999999", "plugins.toml:2:1: 99999999999999999999 does not fit in 64 bits"),
    ];
    for (text, expected) in cases {
        let mut world = World::new();
        world.file(text);
        match world.load() {
            Ok(_) => panic!("{text} is accepted"),
            Err(problems) => assert_eq!(world.relative(problems), expected, "{text}"),
        }
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let mut world = World::new();
    world.file("[session]\nbusy = \"off\"\n\n[host]\nlgo = 1\ndrain_s = true\n[adapter.x]\nenabled = 1\n");
    assert_eq!(
        world.relative(world.load().unwrap_err()),
        "plugins.toml:2:1: session.busy: must be \"interrupt\" or \"queue\" or \"steer\", not \"off\"\n\
         plugins.toml:5:1: host.lgo: unknown key; did you mean `host.log`?\n\
         plugins.toml:6:1: host.drain_s: must be an integer, not a boolean\n\
         plugins.toml:8:1: adapter.x.enabled: must be a boolean, not an integer"
    );
}

#[test]
fn a_file_that_is_not_toml_is_told_with_its_place_and_the_rest_is_still_read() {
    let mut world = World::new();
    world.file("[host]\nlog = \nlgo = 1\n");
    let problems = world.load().unwrap_err();
    let places: Vec<String> =
        problems.0.iter().map(|problem| world.relative(Problems(vec![problem.clone()]))).collect();
    assert!(places[0].starts_with("plugins.toml:2:"), "{places:?}");
    assert!(places.iter().any(|place| place.contains("host.lgo: unknown key")), "{places:?}");
}

#[test]
fn columns_count_characters() {
    let mut world = World::new();
    world.file("[access]\nallowed_users = [\"m:ä\"] # ö\n[session]\nreset = { notify = true, ünknown = 1 }");
    let said = world.relative(world.load().unwrap_err());
    assert!(said.starts_with("plugins.toml:4:"), "{said}");
}

#[test]
fn variables_that_others_may_read_are_refused() {
    let world = World::new();
    world.dot_env("OPENAI_API_KEY=sk-12345", 0o640);
    let path = world.home().join(".env");
    assert_eq!(
        world.load().unwrap_err().to_string(),
        format!("{0}: other users can read it (mode 0640); run `chmod 600 {0}`", path.display())
    );
}

#[test]
fn a_variable_of_a_file_that_is_not_read_is_not_said_to_be_missing_from_it() {
    let mut world = World::new();
    world.dot_env("NOWHERE=sk-12345", 0o640);
    world.file("[agent]\napi_key = { env = \"NOWHERE\" }\n");
    let said = world.load().unwrap_err().to_string();
    assert!(said.contains("the variable NOWHERE is not set, and .env in the home folder was not read"), "{said}");
    assert!(said.contains("other users can read it (mode 0640)") && !said.contains("add it to .env"), "{said}");
}

#[test]
fn a_home_that_is_a_file_is_called_so() {
    let mut world = World::new();
    let home = world.dir().join("file");
    std::fs::write(&home, "").unwrap();
    world.sources.home = Some(home.clone());
    let said = world.load().unwrap_err().to_string();
    assert_eq!(
        said,
        format!("{}: is not a folder, so it cannot be the home folder; choose another one with --home", home.display())
    );
}

#[test]
fn a_file_that_everybody_may_change_is_refused() {
    let mut world = World::new();
    world.file("[host]\n");
    world.mode(0o666);
    assert_eq!(
        world.relative(world.load().unwrap_err()),
        "plugins.toml: every user can write to it; run `chmod o-w plugins.toml`"
    );
}

#[test]
fn a_line_that_is_no_variable_has_its_place() {
    let world = World::new();
    world.dot_env("A=1\nnonsense\n9B=1\n", 0o600);
    assert_eq!(
        world.relative(world.load().unwrap_err()),
        "user/.hermes-host/.env:2:1: is not `NAME=value`\nuser/.hermes-host/.env:3:1: is not `NAME=value`"
    );
}

#[test]
fn a_variable_that_cannot_be_its_key_is_told() {
    let mut world = World::new();
    world.env("GATEWAY_ALLOW_ALL_USERS", "perhaps").env("OPENAI_BASE_URL", "nowhere");
    let said = world.load().unwrap_err().to_string();
    assert!(said.contains("environment GATEWAY_ALLOW_ALL_USERS: access.allow_all: must be true or false"), "{said}");
    assert!(
        said.contains("environment OPENAI_BASE_URL: agent.base_url: cannot be used (it is not a valid URL"),
        "{said}"
    );
}

#[test]
fn without_any_home_the_mend_is_named() {
    let mut world = World::new();
    world.sources.env.clear();
    assert_eq!(
        world.load().unwrap_err().to_string(),
        "environment HOME: the home folder is unknown; set HERMES_HOST_HOME or pass --home"
    );
}

#[test]
fn behind_a_heading_that_cannot_be_read_nothing_else_is_guessed() {
    let mut world = World::new();
    world.file("[host\nstatus = \"\"\n[session]\nbusy = \"wait\"\n");
    assert_eq!(
        world.relative(world.load().unwrap_err()),
        "plugins.toml:1:6: unclosed table, expected `]`\nplugins.toml:4:1: session.busy: must be \"interrupt\" or \"queue\" or \"steer\", not \"wait\""
    );
}

#[test]
fn no_sentence_about_a_wrong_value_shows_a_secret() {
    let mut world = World::new();
    world.env("CHAT_TOKEN", "tok-adaptersecret");
    world.file("[host]\nstatus = \"tok-adaptersecret\"\n[adapter.chat]\ntoken = { env = \"CHAT_TOKEN\" }\n");
    let said = world.relative(world.load().unwrap_err());
    assert!(said.contains("host.status: must be an address") && said.ends_with("not \"[hidden]\""), "{said}");
}

#[tokio::test]
async fn a_value_that_never_has_an_effect_is_refused_by_the_check_and_runs_all_the_same() {
    let mut world = World::new();
    world.file(
        r#"
        [access]
        allowed_users = ["chat:@ann", "chat:@ann:example.org", "terminal:1", "chat:17"]
        [agent]
        cwd = "/no/such/folder"
        [adapter.chat]
        command = ["./chat"]
        access = { admins = ["@bob"], user_commands = ["debug", "/platfrom"], group_user_commands = ["bg"] }
        "#,
    );
    let (prepared, refused) = world.load().unwrap().examine(None).await;
    assert_eq!(refused, Problems::default());
    let name = "is a name, which can pass to another account, and only permanent ids match; \
                write the id of the account, as shown by the platform or /whoami";
    let no_command = "is not a command; write names as `/commands` lists them, without the slash";
    assert_eq!(
        world.relative(prepared.wrong()),
        [
            format!("plugins.toml:3:9: access.allowed_users: \"@ann\" {name}"),
            "plugins.toml:5:9: agent.cwd: the folder /no/such/folder does not exist; create it, or set another \
             one".to_owned(),
            format!("plugins.toml:8:20: adapter.chat.access.admins: \"@bob\" {name}"),
            format!("plugins.toml:8:39: adapter.chat.access.user_commands: \"/platfrom\" {no_command}; did you mean `platform`?"),
            format!("plugins.toml:8:79: adapter.chat.access.group_user_commands: \"bg\" {no_command}; did you mean `background`?"),
        ]
        .join("\n")
    );
    assert!(prepared.config.prepare(None).await.is_ok());
}

#[test]
fn a_status_address_that_others_reach_needs_a_permission() {
    for (address, permitted, is_good) in [
        ("0.0.0.0:1", false, false),
        ("[::]:1", false, false),
        ("192.168.1.4:1", false, false),
        ("0.0.0.0:1", true, true),
        ("127.0.0.9:1", false, true),
        ("[::1]:1", false, true),
        ("[::ffff:127.0.0.1]:1", false, true),
        ("", false, true),
    ] {
        let mut world = World::new();
        world.file(&format!("[host]\nstatus = {address:?}\nstatus_public = {permitted}"));
        assert_eq!(world.load().is_ok(), is_good, "{address} {permitted}");
    }
}

#[tokio::test]
async fn the_address_of_a_request_is_no_base_url() {
    for (written, base) in [
        ("http://127.0.0.1:1/v1/chat/completions", Some("http://127.0.0.1:1/v1")),
        ("http://127.0.0.1:1/v1/chat/completions/", Some("http://127.0.0.1:1/v1")),
        ("http://127.0.0.1:1/v1/responses", Some("http://127.0.0.1:1/v1")),
        ("http://127.0.0.1:1/v1/models", Some("http://127.0.0.1:1/v1")),
        ("http://127.0.0.1:1/v1", None),
        ("http://127.0.0.1:1", None),
        ("http://127.0.0.1:1/completions-proxy/v1", None),
    ] {
        let mut world = World::new();
        world.file(&format!("[agent]\nruntime = \"openai\"\nmodel = \"m\"\nbase_url = {written:?}"));
        let (prepared, refused) = world.load().unwrap().examine(None).await;
        assert_eq!(refused, Problems::default());
        let expected = base.map_or(String::new(), |base| {
            format!(
                "plugins.toml:4:1: agent.base_url: {written:?} is the URL of a request, not a base URL; write \
                     {base:?}"
            )
        });
        assert_eq!(world.relative(prepared.wrong()), expected);
    }
}

#[tokio::test]
async fn two_variables_that_are_not_set_are_no_common_token() {
    let mut world = World::new();
    let section = |name: &str| {
        format!("[adapter.{name}]\ncommand = [\"./chat\"]\nplugin = \"chat\"\ntoken = {{ env = \"NOWHERE_{name}\" }}\n")
    };
    world.file(&(section("one") + &section("two")));
    let (config, problems) = read(world.sources.clone()).unwrap();
    let (prepared, _) = config.examine(None).await;
    assert_eq!(prepared.wrong(), Problems::default());
    let said = problems.to_string();
    assert!(said.contains("NOWHERE_one is not set") && said.contains("NOWHERE_two is not set"), "{said}");
}

#[test]
fn two_listeners_on_one_port_are_named_with_the_line_that_can_be_changed() {
    let server = manifests::one(json!({ "id": "server", "transport": "http" }));
    let schema = json!({ "properties": { "listen": { "type": "string", "default": "127.0.0.1:8642" } } });
    let schemas = BTreeMap::from([("server".to_owned(), schema)]);
    let told = |text: &str| {
        let mut world = World::new();
        world.file(text);
        world.relative(world.load().unwrap().ports_twice(&server, &schemas))
    };
    assert_eq!(
        told("[host]\nstatus = \"127.0.0.1:8642\"\n[adapter.server]\n"),
        "plugins.toml:2:1: host.status: listens on 127.0.0.1:8642, but adapter.server.listen already listens on \
         127.0.0.1:8642; choose another port"
    );
    assert_eq!(
        told(
            "[adapter.a]\nplugin = \"x\"\nlisten = \"localhost:9000\"\n[adapter.b]\nplugin = \"y\"\nport = 9000\nlisten = \"0.0.0.0:1\"\n"
        ),
        "plugins.toml:6:1: adapter.b.port: listens on 0.0.0.0:9000, but adapter.a.listen already listens on \
         127.0.0.1:9000; choose another port"
    );
    assert_eq!(
        told("[adapter.server]\n[adapter.second]\nplugin = \"server\"\n"),
        "plugins.toml:1:10: adapter.server.listen: listens on 127.0.0.1:8642, but adapter.second.listen already \
         listens on 127.0.0.1:8642; choose another port"
    );
    assert_eq!(
        told("[host]\nstatus = \"\"\n[adapter.server]\n[adapter.b]\nlisten = \"127.0.0.1:8642\"\nenabled = false\n"),
        ""
    );
    assert_eq!(told("[adapter.a]\nlisten = \"127.0.0.1:0\"\n[adapter.b]\nlisten = \"127.0.0.1:0\"\n"), "");
}

#[tokio::test]
async fn a_secret_that_is_too_short_to_be_masked_is_warned_about() {
    let warned = |url: &'static str, key: &'static str, token: &'static str| async move {
        let mut world = World::new();
        world.env("KEY", key).env("CHAT_TOKEN", token);
        world.file(&format!(
            "[agent]\nruntime = \"openai\"\nmodel = \"m\"\nbase_url = {url:?}\napi_key = {{ env = \"KEY\" }}\n\
             [adapter.chat]\ncommand = [\"./chat\"]\ntoken = {{ env = \"CHAT_TOKEN\" }}\n"
        ));
        let prepared = world.load().unwrap().prepare(None).await.ok().unwrap();
        let short =
            prepared.config.warnings.into_iter().filter(|warning| warning.sentence.contains("a secret of less"));
        short.map(|warning| warning.key).collect::<Vec<_>>()
    };
    assert_eq!(warned("https://api.example/v1", "none", "info").await, ["agent.api_key", "adapter.chat.token"]);
    assert_eq!(warned("http://127.0.0.1:1/v1", "none", "long-enough").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_instance_that_there_is_not_and_one_token_in_two_sections_are_named_with_their_line() {
    let mut world = World::new();
    world.env("CHAT_TOKEN", "tok-adaptersecret");
    world.file(
        r#"
        [access]
        allowed_users = ["chta:17", "chat:17"]
        [adapter.chat]
        command = ["./chat"]
        plugin = "chat"
        token = { env = "CHAT_TOKEN" }
        [adapter.more]
        command = ["./chat"]
        plugin = "chat"
        token = { env = "CHAT_TOKEN" }
        [adapter.other]
        command = ["./other"]
        token = { env = "CHAT_TOKEN" }
        [adapter.rests]
        command = ["./chat"]
        plugin = "chat"
        enabled = false
        token = { env = "CHAT_TOKEN" }
        "#,
    );
    let (prepared, refused) = world.load().unwrap().examine(None).await;
    assert_eq!(refused, Problems::default());
    assert_eq!(
        world.relative(prepared.wrong()),
        "plugins.toml:3:9: access.allowed_users: no instance is named \"chta\", so this id admits nobody; write the \
         name of an [adapter] section; did you mean `chat`?\n\
         plugins.toml:11:9: adapter.more.token: is the same as adapter.chat.token, and a platform serves only one \
         instance per credential; use another credential, or remove one of the sections"
    );
    assert!(prepared.config.prepare(None).await.is_ok());
}

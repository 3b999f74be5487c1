//! The messages about a wrong configuration, and the values of a right one.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use hermes_agent::RuntimeKind;
use hermes_protocol::Manifest;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::keys::{ADAPTER_KEYS, ADAPTER_SESSION_KEYS, ENVIRONMENT, KEYS, Kind, RETIRED, SECTIONS, SHARED};
use super::*;
use hermes_loader::config_schema::RESERVED;

mod errors;
mod manifests;
mod resets;
mod secrets;

#[test]
fn without_a_file_everything_has_its_default() {
    let world = World::new();
    let config = world.load().unwrap();
    assert_eq!(config.file, None);
    assert_eq!(config.home, world.home());
    assert_eq!(config.host.plugins_dir, world.home().join("plugins"));
    assert_eq!(config.host.status, Some("127.0.0.1:8640".parse().unwrap()));
    assert_eq!(config.agent.runtime, RuntimeKind::Echo);
    assert_eq!(config.session.queue_max, 32);
    assert_eq!(config.session.inactivity, Duration::from_secs(1800));
    assert_eq!(config.session.require_mention, None);
    assert_eq!(config.delivery.backoff_max, Duration::from_secs(300));
    assert_eq!(config.limits.retention, Duration::from_secs(30 * 86_400));
    assert_eq!(config.adapters.keys().collect::<Vec<_>>(), ["api_server", "webchat"], "the built-in sections");
    assert!(config.agent.introduces && config.warnings.is_empty());
}

#[tokio::test]
async fn a_built_in_section_counts_only_with_its_library_next_to_the_binary() {
    let mut world = World::new();
    let (prepared, refused) = world.load().unwrap().examine(None).await;
    assert_eq!((prepared.plans.len(), refused), (0, Problems::default()));
    world.file("[adapter.webchat]");
    let (prepared, _) = world.load().unwrap().examine(None).await;
    assert_eq!(prepared.plans.len(), 1, "a section of a file stays, and its missing library is a problem");
}

#[test]
fn commands_get_the_named_variables_and_no_others() {
    let mut world = World::new();
    world.env("GH_TOKEN", "ghp_0123456789").env("OTHER_TOKEN", "t").env("OPENAI_API_KEY", "sk-0123456789");
    world.dot_env("FROM_FILE=yes", 0o600);
    world.file("[agent]\nenv_pass = [\"GH_TOKEN\", \"FROM_FILE\", \"UNSET\"]\n");
    let config = world.load().unwrap();
    let environment = &config.agent.environment;
    assert_eq!((environment["GH_TOKEN"].as_str(), environment["FROM_FILE"].as_str()), ("ghp_0123456789", "yes"));
    assert!(!environment.keys().any(|name| ["OTHER_TOKEN", "OPENAI_API_KEY", "UNSET"].contains(&name.as_str())));
    let said: Vec<&str> = config.warnings.iter().map(|warning| warning.sentence.as_str()).collect();
    assert_eq!(said, ["the variable UNSET is not set, so commands do not receive it"]);
    assert!(config.passed_secrets().is_empty());
    world.file("[agent]\nenv_pass = [\"OPENAI_API_KEY\"]\n");
    let config = world.load().unwrap();
    assert_eq!(config.agent.environment["OPENAI_API_KEY"], "sk-0123456789");
    assert!(config.passed_secrets()[0].sentence.starts_with("OPENAI_API_KEY contains a secret of this host"));
    for name in ["HERMES_SESSION_KEY", "HERMES_CONTROL_TOKEN", "GH_*", "A=B"] {
        world.file(&format!("[agent]\nenv_pass = [{name:?}]\n"));
        let said = world.relative(world.load().unwrap_err());
        assert!(
            said.starts_with(&format!("plugins.toml:2:1: agent.env_pass: {name:?} cannot be passed to commands")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_variable_of_the_python_gateway_that_limits_something_is_refused_until_its_key_is_set() {
    let judged = async |section: &str, variables: &[(&str, &str)]| {
        let mut world = World::new();
        variables.iter().for_each(|(name, value)| _ = world.env(name, value));
        world.file(section);
        let mut config = world.load().unwrap();
        config.resolve(&manifests::telegram()).unwrap();
        let (limits, warnings) = config.foreign_variables(&manifests::telegram());
        (limits.to_string(), warnings.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let section = "[adapter.telegram]\n";
    let chats = [("TELEGRAM_ALLOWED_CHATS", "-100")];
    let (limits, warnings) = judged(section, &chats).await;
    assert_eq!(
        limits,
        "environment TELEGRAM_ALLOWED_CHATS: adapter.telegram.access.allowed_groups: hermes-host does not read this \
         variable, which sets a limit in the Python gateway; set this key, or unset the variable"
    );
    assert!(warnings.is_empty());
    let nothing = (String::new(), Vec::new());
    let with_key = format!("{section}access = {{ allowed_groups = [\"-100\"] }}\n");
    assert_eq!(judged(&with_key, &chats).await, nothing, "the key replaces it");
    assert_eq!(judged("", &chats).await, nothing, "there is no Telegram to limit");
    assert_eq!(judged(&format!("{section}enabled = false\n"), &chats).await, nothing);
    let (limits, _) = judged(section, &[("TELEGRAM_IGNORED_THREADS", "1")]).await;
    assert!(
        limits.ends_with(
            "sets a limit in the Python gateway, and has no equivalent key; unset the \
                              variable"
        ),
        "{limits}"
    );
    let exclusive = |value| [("TELEGRAM_EXCLUSIVE_BOT_MENTIONS", value)];
    assert!(judged(section, &exclusive("true")).await.0.contains("session.require_mention"));
    assert_eq!(judged(section, &exclusive("false")).await.0, "");
    assert_eq!(
        judged("", &[("GATEWAY_ALLOWED_USERS", "1,2")]).await.0,
        "environment GATEWAY_ALLOWED_USERS: access.allowed_users: hermes-host does not read this variable, which sets \
         a limit in the Python gateway; set this key, or unset the variable"
    );
    assert!(judged("[agent]\ntools = [\"terminal\"]", &[("TERMINAL_ENV", "docker")]).await.0.contains("agent.tools"));
    assert_eq!(judged("", &[("TERMINAL_ENV", "docker")]).await, nothing);
    let (limits, warnings) = judged(section, &[("TELEGRAM_ALOWED_USERS", "1"), ("HERMES_TELEGRAM_X", "1")]).await;
    assert_eq!(limits, "");
    assert_eq!(
        warnings,
        [
            "environment HERMES_TELEGRAM_X: hermes-host does not read this variable, so it has no effect",
            "environment TELEGRAM_ALOWED_USERS: hermes-host does not read this variable, so it has no effect; did you \
             mean TELEGRAM_ALLOWED_USERS?",
        ]
    );
    let other = "[adapter.telegram]\ntoken = { env = \"TELEGRAM_MINE\" }\n";
    assert_eq!(judged(other, &[("TELEGRAM_MINE", "1:long-enough")]).await, nothing, "the file names it");
    let changes =
        [("TELEGRAM_MENTION_PATTERNS", "hermes"), ("MATRIX_HOMESERVER", "https://m"), ("HERMES_TIMEZONE", "UTC")];
    let (limits, warnings) = judged(section, &changes).await;
    assert_eq!(limits, "");
    assert_eq!(
        warnings,
        [
            "environment TELEGRAM_MENTION_PATTERNS: adapter.telegram.session.mention_patterns: hermes-host does not read \
             this variable of the Python gateway; set this key instead",
            "environment HERMES_TIMEZONE: session.reset.zone: hermes-host does not read this variable of the Python \
             gateway; set this key instead",
            "environment MATRIX_HOMESERVER: hermes-host has no adapter for Matrix, so this variable has no effect",
        ]
    );
}

#[test]
fn the_documented_example_is_read_as_it_says() {
    let mut world = World::new();
    world.env("OPENAI_API_KEY", "sk-verysecret").env("TELEGRAM_BOT_TOKEN", "1:token");
    world.file(
        r#"
        [host]
        plugins_dir = "plugins"
        isolation   = "process"
        log         = "info,hermes_host=debug"
        status      = ""

        [agent]
        runtime  = "openai"
        base_url = "https://api.example/v1"
        model    = "some-model"
        api_key  = { env = "OPENAI_API_KEY" }

        [session]
        group_sessions_per_user = false
        reset = { mode = "both", at_hour = 5, idle_minutes = 10, notify = false }
        outbound_dirs = ["out"]

        [access]
        allowed_users = ["telegram:123", "matrix:@a:b"]
        strangers = "ignore"

        [adapter.work]
        plugin       = "telegram"
        token        = { env = "TELEGRAM_BOT_TOKEN" }
        home_channel = { chat = "-100", thread = "17" }
        access       = { allowed_users = ["5"], strangers = "pair" }
        require_mention = true
        session = { queue_max = 3, free_chats = ["-7"] }
        isolation = "in-process"
        "#,
    );
    let config = world.load().unwrap();
    assert_eq!(config.host.plugins_dir, world.dir().join("plugins"));
    assert_eq!(config.host.isolation, Isolation::Process);
    assert_eq!(config.host.status, None);
    assert_eq!(config.agent.runtime, RuntimeKind::OpenAi);
    assert_eq!(config.agent.api_key.as_ref().unwrap().expose(), "sk-verysecret");
    assert_eq!(config.session.reset.dm.mode, ResetMode::Both);
    assert_eq!(config.session.reset.dm.idle, Duration::from_secs(600));
    assert_eq!(config.session.outbound_dirs, [world.dir().join("out")]);
    assert_eq!(config.access.allowed_users[1], QualifiedId { instance: "matrix".into(), id: "@a:b".into() });
    let work = &config.adapters["work"];
    assert_eq!((work.plugin.as_str(), work.isolation), ("telegram", Some(Isolation::InProcess)));
    assert_eq!(work.home_channel, Some(HomeChannel { chat: "-100".into(), thread: Some("17".into()) }));
    assert_eq!(work.access.strangers, Some(Strangers::Pair));
    let session = config.session_for("work");
    assert_eq!((session.queue_max, session.require_mention), (3, Some(true)));
    assert!(!session.group_sessions_per_user, "what the section does not say comes from [session]");
    assert_eq!(config.session_for("elsewhere").queue_max, 32);

    let policy = config.access_policy();
    assert!(policy.allowed_users.contains("telegram:123"));
    assert!(policy.instances["work"].allowed_users.contains("5"));
    let plans = config.plans(&BTreeMap::new(), &BTreeMap::new()).unwrap();
    assert_eq!(plans[0].config, json!({ "token": "1:token" }));
    assert_eq!(plans[0].secrets, ["1:token"]);
}

#[test]
fn the_file_is_looked_for_in_the_documented_order() {
    let mut world = World::new();
    let log_of = |world: &World| world.load().unwrap().host.log;
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::write(world.home().join("plugins.toml"), "[host]\nlog = \"warn\"").unwrap();
    assert_eq!(log_of(&world), "warn");
    world.file("[host]\nlog = \"error\"");
    assert_eq!(log_of(&world), "error");
    std::fs::write(world.dir().join("other.toml"), "[host]\nlog = \"debug\"").unwrap();
    world.env("HERMES_HOST_CONFIG", "other.toml");
    assert_eq!(log_of(&world), "debug");
    std::fs::write(world.dir().join("asked.toml"), "[host]\nlog = \"trace\"").unwrap();
    world.sources.config = Some("asked.toml".into());
    assert_eq!(log_of(&world), "trace");
    world.sources.config = Some("gone.toml".into());
    let expected = format!("command line: {} is not a file", world.dir().join("gone.toml").display());
    assert_eq!(world.load().unwrap_err().to_string(), expected);
}

#[test]
fn an_endpoint_in_the_environment_chooses_its_runtime_unless_the_section_does() {
    let mut world = World::new();
    world.env("OPENAI_API_KEY", "sk-1234");
    let config = world.load().unwrap();
    assert_eq!(config.agent.runtime, RuntimeKind::OpenAi);
    assert_eq!(config.agent.base_url.as_deref(), Some("https://api.openai.com/v1"));
    assert!(config.agent.model.is_some() && config.warnings.is_empty());
    world.file("[agent]\nruntime = \"openai\"");
    world.sources.env.remove("OPENAI_API_KEY");
    let warnings = world.load().unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].to_string().contains("agent.api_key: is not set"), "{}", warnings[0]);
    world.file("");
    world.env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1").env("OPENAI_MODEL", "tiny").env("OPENAI_API_KEY", "sk-1234");
    let config = world.load().unwrap();
    assert_eq!(config.agent.base_url.as_deref(), Some("http://127.0.0.1:1/v1"));
    assert_eq!(config.agent.model.as_deref(), Some("tiny"));
    world.file("[agent]\nruntime = \"echo\"");
    assert_eq!(world.load().unwrap().agent.runtime, RuntimeKind::Echo);
}

#[test]
fn a_section_wins_over_the_process_and_the_process_over_the_file_of_variables() {
    let mut world = World::new();
    world.dot_env("OPENAI_MODEL=\"from dot env\" # why\nexport OPENAI_BASE_URL=http://dot.env\n\n# note\n", 0o600);
    let config = world.load().unwrap();
    assert_eq!(config.agent.model.as_deref(), Some("from dot env"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);

    world.env("OPENAI_MODEL", "from process");
    let config = world.load().unwrap();
    assert_eq!(config.agent.model.as_deref(), Some("from process"));
    assert_eq!(
        config.warnings[0].to_string(),
        ".env OPENAI_MODEL: the process environment has a different value and takes precedence; remove one of them"
    );

    world.file("[agent]\nmodel = \"from file\"");
    let config = world.load().unwrap();
    assert_eq!(config.agent.model.as_deref(), Some("from file"));
    let file = world.dir().join("plugins.toml");
    assert_eq!(
        config.warnings[1].to_string(),
        format!("{}:2:1: agent.model: overrides the different value of environment OPENAI_MODEL", file.display())
    );
    let source = |key: &str| config.show(&BTreeMap::new()).into_iter().find(|shown| shown.key == key).unwrap().source;
    assert_eq!(source("agent.model"), format!("{}:2:1", file.display()));
    assert_eq!(source("agent.base_url"), ".env OPENAI_BASE_URL");
    assert_eq!(source("host.log"), "default");
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let mut world = World::new();
    world.env("OPENAI_API_KEY", "").env("HERMES_HOST_HOME", "");
    assert_eq!(world.load().unwrap().agent.runtime, RuntimeKind::Echo);
}

#[test]
fn a_retired_key_warns_and_still_works() {
    let mut world = World::new();
    world.file("[access]\nunauthorized_dm_behavior = \"ignore\"\n[session]\nbusy_input_mode = \"queue\"");
    let config = world.load().unwrap();
    assert_eq!(config.access.strangers, Strangers::Ignore);
    let said: Vec<String> = config.warnings.iter().map(|warning| warning.sentence.clone()).collect();
    assert_eq!(said, ["is retired; use `access.strangers` instead", "is retired; use `session.busy` instead"]);
}

#[test]
fn several_users_on_one_list_are_asked_for_an_operator() {
    let warned = |section: &str| {
        let mut world = World::new();
        world.file(section);
        let warnings = world.load().unwrap().missing_operators();
        warnings.into_iter().map(|warning| (warning.key, warning.sentence)).collect::<Vec<_>>()
    };
    let found = warned("[adapter.chat]\naccess = { allowed_users = [\"1\", \" 2 \", \"<@2>\"] }");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "adapter.chat.access");
    assert!(found[0].1.starts_with("`allowed_users` has 2 ids") && found[0].1.contains("operators = [\"ID\"]"));
    for quiet in [
        "[adapter.chat]\naccess = { allowed_users = [\"1\"] }",
        "[adapter.chat]\naccess = { allowed_users = [\"1\", \"2\"], operators = [\"1\"] }",
        "[access]\nadmins = [\"chat:1\"]\n[adapter.chat]\naccess = { allowed_users = [\"1\", \"2\"] }",
        "[adapter.chat]\nenabled = false\naccess = { allowed_users = [\"1\", \"2\"] }",
    ] {
        assert_eq!(warned(quiet), [], "{quiet}");
    }
}

#[test]
fn secrets_show_nowhere() {
    let mut world = World::new();
    let secrets = ["sk-agentsecret", "tok-adaptersecret", "file-secret-4711", "nested-secret-42"];
    world.env("OPENAI_API_KEY", secrets[0]).env("CHAT_TOKEN", secrets[1]).env("NESTED", secrets[3]);
    std::fs::write(world.dir().join("pass"), format!("{}\n", secrets[2])).unwrap();
    std::fs::set_permissions(world.dir().join("pass"), std::fs::Permissions::from_mode(0o600)).unwrap();
    world.file(
        r#"
        [adapter.chat]
        password = { file = "pass" }
        routes = [{ path = "/x", signing = { env = "NESTED" } }]
        note = "the token is tok-adaptersecret"
        "#,
    );
    let mut config = world.load().unwrap();
    let manifests = manifests::one(json!({
        "id": "chat",
        "env": [{ "name": "CHAT_TOKEN", "key": "token", "enables": true }],
        "secrets": ["token", "password"],
    }));
    config.resolve(&manifests).unwrap();
    let plans = config.plans(&manifests, &BTreeMap::new()).unwrap();
    assert_eq!(plans[0].config["token"], secrets[1]);
    assert_eq!(plans[0].config["password"], secrets[2]);
    assert_eq!(plans[0].config["routes"][0]["signing"], secrets[3]);
    assert_eq!(plans[0].secrets.len(), 3);
    assert_eq!(config.secrets().len(), 4);

    let shown = config.show(&manifests);
    let printed = format!("{shown:?} {config:?} {:?} {:?}", plans, config.warnings);
    for secret in secrets {
        assert!(!printed.contains(secret), "{secret} shows in {printed}");
    }
    let value = |key: &str| shown.iter().find(|shown| shown.key == key).unwrap().value.clone();
    assert_eq!(value("agent.api_key"), "[hidden]");
    assert_eq!(value("adapter.chat.token"), "[hidden]");
    assert_eq!(value("adapter.chat.note"), "\"the token is [hidden]\"");
}

#[test]
fn a_literal_secret_is_for_a_file_that_only_its_owner_reads() {
    let mut world = World::new();
    world.file("[agent]\napi_key = \"sk-literal\"\n[adapter.chat]\ntoken = \"tok-literal\"");
    world.mode(0o600);
    let mut config = world.load().unwrap();
    assert_eq!(config.agent.api_key.as_ref().unwrap().expose(), "sk-literal");
    let manifests = manifests::one(json!({ "id": "chat", "secrets": ["token"] }));
    config.resolve(&manifests).unwrap();
    assert_eq!(config.secrets().len(), 2);
    assert!(!format!("{:?}", config.show(&manifests)).contains("literal"));

    world.mode(0o644);
    world.file("[adapter.chat]\ntoken = \"tok-literal\"");
    let mut config = world.load().unwrap();
    assert_eq!(
        world.relative(config.resolve(&manifests).unwrap_err()),
        "plugins.toml:2:1: adapter.chat.token: a secret is written in a file that other users can read; write { env = \
         \"NAME\" } or { file = \"path\" }, or run `chmod 600 plugins.toml`"
    );
}

#[test]
fn the_sample_gives_no_message_and_changes_nothing() {
    let mut world = World::new();
    let manifests = manifests::telegram();
    let schemas = BTreeMap::from([("telegram".to_owned(), manifests::telegram_schema())]);
    let sample = sample(&manifests, &schemas);
    world.file(&sample);
    let mut sampled = world.load().unwrap_or_else(|problems| panic!("{problems}\n{sample}"));
    sampled.resolve(&manifests).unwrap();
    sampled.plans(&manifests, &schemas).unwrap();
    assert_eq!(sampled.warnings, []);
    std::fs::remove_file(world.dir().join("plugins.toml")).unwrap();
    let bare = world.load().unwrap();
    assert_eq!(format!("{:?}", sampled.session), format!("{:?}", bare.session));
    assert_eq!(format!("{:?}", sampled.limits), format!("{:?}", bare.limits));
    assert_eq!(format!("{:?}", sampled.agent), format!("{:?}", bare.agent));
    assert_eq!(format!("{:?}", sampled.delivery), format!("{:?}", bare.delivery));
    for key in KEYS {
        let leaf = key.path.split_once('.').unwrap().1;
        assert!(sample.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{leaf} = "))), "{leaf}");
    }
}

#[test]
fn every_comment_of_the_sample_that_is_a_setting_works_when_it_is_one() {
    let mut world = World::new();
    let manifests = manifests::telegram();
    let schemas = BTreeMap::from([("telegram".to_owned(), manifests::telegram_schema())]);
    let uncommented: String = sample(&manifests, &schemas)
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(setting)
                if setting.starts_with('[')
                    || setting.contains(" = ")
                        && !setting.contains("{ env = \"NAME\"")
                        && setting.starts_with(|c: char| c.is_ascii_lowercase()) =>
            {
                format!("{setting}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    world.env("OPENAI_API_KEY", "sk-1234").env("TELEGRAM_BOT_TOKEN", "1:x");
    world.file(&uncommented);
    let mut config = world.load().unwrap_or_else(|problems| panic!("{problems}\n{uncommented}"));
    config.resolve(&manifests).unwrap();
    config.plans(&manifests, &schemas).unwrap();
    assert_eq!(config.adapters.keys().collect::<Vec<_>>(), ["example", "telegram"]);
}

#[test]
fn the_repositorys_own_file_is_right() {
    let mut world = World::new();
    world.file(include_str!("../../../plugins.toml"));
    let config = world.load().unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.agent.runtime, RuntimeKind::Echo);
    assert_eq!(config.adapters.keys().collect::<Vec<_>>(), ["api_server", "webchat"]);
    assert!(config.warnings.is_empty());
}

#[test]
fn the_tables_of_keys_agree_with_each_other() {
    for key in KEYS.iter().chain(ADAPTER_KEYS).chain(ADAPTER_SESSION_KEYS) {
        assert!(key.default.is_empty() != key.example.is_empty(), "{}: a default or an example", key.path);
        assert!(key.doc.ends_with('.') || key.doc.ends_with(']'), "{}: {}", key.path, key.doc);
        if !key.default.is_empty() {
            let default =
                read::default_of(key).unwrap_or_else(|| panic!("{} has a default that is not TOML", key.path));
            let text = show::toml(&default.to_json());
            assert!(tree::parse(&format!("x = {text}")).1.is_empty(), "{}", key.path);
        }
    }
    for key in KEYS {
        assert!(SECTIONS.iter().any(|(section, _)| key.path.starts_with(&format!("{section}."))), "{}", key.path);
    }
    for key in ADAPTER_KEYS.iter().chain(ADAPTER_SESSION_KEYS) {
        assert!([RESERVED, SHARED].concat().contains(&key.path.split('.').next().unwrap()), "{}", key.path);
    }
    let gates: Vec<&str> = hermes_core::commands::gate_keys().collect();
    for gate in &gates {
        assert!(keys::find(KEYS, gate).is_some_and(|key| matches!(key.kind, Kind::Bool)), "{gate} is a switch");
    }
    for key in KEYS.iter().filter(|key| key.path.starts_with("commands.")) {
        assert!(gates.contains(&key.path), "{} opens a command", key.path);
    }
    for (_, key) in ENVIRONMENT.iter().chain(RETIRED) {
        assert!(keys::find(KEYS, key).is_some(), "{key}");
    }
}

#[test]
fn defaults_are_the_limits_of_the_core() {
    use hermes_core::limits;
    let config = World::new().load().unwrap();
    let seconds = Duration::from_secs;
    assert_eq!(config.session.queue_max, limits::QUEUE_EVENTS_MAX);
    assert_eq!(config.session.inactivity, seconds(limits::TURN_INACTIVITY_S));
    assert_eq!(config.session.inactivity_warning, seconds(limits::TURN_INACTIVITY_WARNING_S));
    assert_eq!(config.session.heartbeat, seconds(limits::HEARTBEAT_S));
    assert_eq!(config.session.approval_timeout, seconds(limits::APPROVAL_TIMEOUT_S));
    assert_eq!(config.session.handoff_timeout, seconds(limits::HANDOFF_TIMEOUT_S));
    assert_eq!(config.session.resume_attempts_max, limits::TURN_RESUMES_MAX);
    assert_eq!(config.delivery.reply_deadline, seconds(limits::REPLY_DEADLINE_S));
    assert_eq!(config.delivery.notice_deadline, seconds(limits::NOTICE_DEADLINE_S));
    assert_eq!(config.delivery.backoff, Duration::from_millis(limits::BACKOFF_BASE_MS));
    assert_eq!(config.delivery.backoff_max, Duration::from_millis(limits::BACKOFF_MS_MAX));
    assert_eq!(config.delivery.hold, seconds(limits::LANE_HOLD_S));
    assert_eq!(config.delivery.preview_interval, Duration::from_millis(limits::PREVIEW_INTERVAL_MS));
    assert_eq!(config.delivery.preview_chars, limits::PREVIEW_CHARS);
    assert_eq!(config.host.drain, seconds(limits::DRAIN_S));
    assert_eq!(config.host.adapter_connect, seconds(limits::ADAPTER_CONNECT_S));
    assert_eq!(config.host.adapter_send, seconds(limits::ADAPTER_SEND_S));
    assert_eq!(config.host.adapter_call, seconds(limits::ADAPTER_CALL_S));
    assert_eq!(config.host.adapter_stop, seconds(limits::ADAPTER_STOP_S));
    assert_eq!(config.limits.event_bytes_max, limits::EVENT_BYTES_MAX);
    assert_eq!(config.limits.file_bytes_max, limits::FILE_BYTES_MAX);
    assert_eq!(config.limits.reply_bytes_max, limits::REPLY_BYTES_MAX);
    assert_eq!(config.limits.turns_max, limits::TURNS_MAX);
    assert_eq!(config.limits.ingress_queue_max, limits::INGRESS_QUEUE_MAX);
    assert_eq!(config.limits.host_calls_max, limits::HOST_CALLS_IN_FLIGHT_MAX);
    assert_eq!(config.limits.stranger_events_max, limits::STRANGER_EVENTS_MAX);
    assert_eq!(config.limits.retention, seconds(limits::RETENTION_DAYS * 86_400));
    assert_eq!(config.limits.media_retention, seconds(limits::MEDIA_RETENTION_S));
    assert_eq!(config.limits.pairing_code, seconds(limits::PAIRING_CODE_S));
    assert_eq!(config.limits.pairing_interval, seconds(limits::PAIRING_INTERVAL_S));
    assert_eq!(config.limits.pairing_open_max, limits::PAIRING_OPEN_MAX);
    assert_eq!(config.limits.pairing_wrong_max, limits::PAIRING_WRONG_MAX);
    assert_eq!(config.limits.pairing_lockout, seconds(limits::PAIRING_LOCKOUT_S));
}

#[test]
fn the_json_schema_knows_every_key() {
    let schemas = BTreeMap::from([("telegram".to_owned(), manifests::telegram_schema())]);
    let schema = json_schema(&schemas);
    let default = |path: &str| schema.pointer(path).and_then(|key| key.get("default")).cloned();
    assert_eq!(default("/properties/session/properties/reset/properties/at_hour"), Some(json!(4)));
    assert_eq!(schema["properties"]["host"]["additionalProperties"], json!(false));
    let telegram = &schema["properties"]["adapter"]["properties"]["telegram"]["allOf"];
    assert!(telegram[0]["properties"]["require_mention"].is_object());
    assert!(telegram[1]["properties"]["token"].is_object());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}=\"'a-z0-9._#\n ,-]{0,200}") {
        let mut world = World::new();
        world.file(&text);
        if let Err(problems) = world.load() {
            prop_assert!(!problems.0.is_empty() && !problems.to_string().is_empty());
        }
    }

    #[test]
    fn a_key_with_one_letter_too_many_is_recognised(index in any::<prop::sample::Index>(), letter in "[a-z]") {
        let key = KEYS[index.index(KEYS.len())].path;
        let mut world = World::new();
        let (table, leaf) = key.rsplit_once('.').unwrap();
        // One more letter may spell another key.
        prop_assume!(KEYS.iter().all(|other| other.path != format!("{key}{letter}")));
        world.file(&format!("[{table}]\n{leaf}{letter} = 1"));
        let problems = world.load().unwrap_err();
        prop_assert_eq!(problems.0[0].nearest.as_deref(), Some(key));
    }
}

/// A folder of its own with a home, a file and an environment.
struct World {
    folder: tempfile::TempDir,
    sources: Sources,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            config: None,
            home: None,
            env: BTreeMap::from([("HOME".to_owned(), folder.path().join("user").display().to_string())]),
            cwd: folder.path().to_owned(),
            here: true,
        };
        Self { folder, sources }
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    fn home(&self) -> std::path::PathBuf {
        self.dir().join("user/.hermes-host")
    }

    fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.sources.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn file(&mut self, text: &str) {
        std::fs::write(self.dir().join("plugins.toml"), text).unwrap();
    }

    fn mode(&self, mode: u32) {
        std::fs::set_permissions(self.dir().join("plugins.toml"), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn dot_env(&self, text: &str, mode: u32) {
        std::fs::create_dir_all(self.home()).unwrap();
        std::fs::write(self.home().join(".env"), text).unwrap();
        std::fs::set_permissions(self.home().join(".env"), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self) -> Result<Config, Problems> {
        load(self.sources.clone())
    }

    /// Returns the problems as text, with paths relative to this world.
    fn relative(&self, problems: Problems) -> String {
        problems.to_string().replace(&format!("{}/", self.dir().display()), "")
    }
}

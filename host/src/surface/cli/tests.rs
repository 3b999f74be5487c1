//! The arguments, output and exit codes of the command line. Commands run in the process, against a host of a few
//! lines.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{CommandFactory, Parser};
use tokio::sync::mpsc;

use super::args::{AdapterCommand, Command, OutboxCommand, SessionCommand};
use super::*;
use crate::engine::operator::{ControlReply, ControlRequest, ErrorKind};
use crate::surface::control;
use crate::surface::control::Asked;

#[test]
fn the_grammar_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_printed_for_people_commands_no_terminal() {
    let hostile = "\u{1b}]0;title\u{7}Eve \u{202e}nimda\u{9b}2J\r\n\tnext: ä";
    assert_eq!(ask::plain(hostile), "]0;titleEve nimda2J\n\tnext: ä");
}

#[test]
fn every_documented_command_is_understood() {
    let lines = [
        "run",
        "run --config p.toml --home h --replace",
        "--home h run",
        "status",
        "status --json",
        "stop",
        "restart",
        "drain",
        "reload",
        "send telegram:1:7 hello",
        "send telegram -",
        "adapter list --json",
        "adapter inspect f.so --json",
        "adapter check f.so",
        "adapter new my-chat --path d --sdk https://example.org/h#v1",
        "adapter try f.so --set port=1 --set a=b --sample certify.toml",
        "adapter add f.so",
        "adapter remove telegram",
        "adapter enable telegram",
        "adapter disable telegram",
        "adapter reload telegram",
        "adapter-runner --fd 3 anything",
        "text-runner --parent 3",
        "pairing list --json",
        "pairing approve telegram ABCD2345",
        "pairing revoke telegram 123",
        "pairing clear",
        "pairing clear telegram",
        "config check",
        "config show --json",
        "config schema",
        "config sample",
        "session list --all --limit 10 --json",
        "session show 2026 --limit 5",
        "session export 2026 --format json -o out.json",
        "session search two words",
        "session end 2026",
        "session delete 2026 --yes",
        "handoff 2026 telegram",
        "handoff 2026 telegram --wait 5 --json",
        "handoff offer 2026 --json",
        "handoff list --all --json",
        "handoff show 2026 --json",
        "handoff cancel 2026",
        "task list --all --limit 10 --json",
        "task show tabc --json",
        "task cancel tabc --why no",
        "outbox list --all",
        "outbox show 7 --json",
        "outbox retry 7",
        "outbox drop 7 --why no",
        "tool check ls",
        "tool check - --json",
        "completions bash",
        "completions zsh",
        "completions fish",
    ];
    for line in lines {
        let words = std::iter::once("hermes-host").chain(line.split(' '));
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn wrong_words_end_with_two() {
    for line in [
        "",
        "rnu",
        "status --jsno",
        "outbox show seven",
        "session list --limit 0",
        "completions powershell",
        "send telegram",
    ] {
        let words: Vec<&str> =
            std::iter::once("hermes-host").chain(line.split(' ').filter(|word| !word.is_empty())).collect();
        let error = Cli::try_parse_from(words).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(USAGE), "{line}: {error}");
    }
    assert_eq!(Cli::try_parse_from(["hermes-host", "--help"]).unwrap_err().exit_code(), 0);
    assert_eq!(Cli::try_parse_from(["hermes-host", "--version"]).unwrap_err().exit_code(), 0);
}

#[test]
fn without_a_host_its_commands_end_with_69_and_say_how_to_start_it() {
    let world = World::new();
    for line in [
        "status",
        "stop",
        "send a b",
        "pairing list",
        "adapter enable x",
        "outbox retry 1",
        "session end x",
        "task cancel t",
    ] {
        let failure = world.fails(line);
        assert_eq!(failure.code, NO_HOST, "{line}: {failure}");
        assert!(failure.to_string().ends_with("start it with `hermes-host run`"), "{line}: {failure}");
    }
}

#[test]
fn access_and_adapters_are_changed_without_a_host_under_its_lock() {
    let world = World::new();
    std::fs::create_dir(world.home()).unwrap();
    world.file("[adapter.one]\nplugin = \"linecat\"\n[adapter.off]\nplugin = \"linecat\"\nenabled = false\n");
    let clock = || std::sync::Arc::new(hermes_system::clock::SystemClock);
    let open = || hermes_store::Store::open(&world.home().join("state.db"), clock()).unwrap();
    let now_ms = hermes_core::clock::Clock::now_ms(&hermes_system::clock::SystemClock);
    let mut book = hermes_core::pairing::PairingBook::default();
    let offer = book.offer("one", "7", "Ada", now_ms, [7; 32]);
    let hermes_core::pairing::Offer::New { code, request } = offer else { panic!("{offer:?}") };
    let code = code.expose().to_owned();
    let opened = open();
    let changes = vec![hermes_store::Change::PairingRequest(request)];
    let order = hermes_store::CommandTx { inbox: None, changes, reply: Vec::new(), now_ms };
    block_on(async {
        opened.store.command(order).await.unwrap();
        opened.store.close().await.unwrap();
    })
    .unwrap();

    world.runs("pairing list --json");
    let lock = crate::app::HostLock::take(&world.home()).unwrap();
    let failure = world.fails(&format!("pairing approve one {code}"));
    assert!(failure.to_string().contains("does not accept commands: it is starting or stopping"), "{failure}");
    drop(lock);
    let failure = world.fails(&format!("pairing approve oen {code}"));
    assert!(failure.to_string().contains("did you mean \"one\"?"), "{failure}");
    for _ in 0..4 {
        assert!(world.fails("pairing approve one AAAAAAAA").to_string().contains("more wrong"));
    }
    world.runs(&format!("pairing approve one {code}"));
    for line in ["adapter disable one", "adapter enable one", "adapter disable one", "adapter disable off"] {
        world.runs(line);
    }
    let failure = world.fails("adapter enable off");
    assert!(failure.to_string().contains("has the opposite value"), "{failure}");

    let opened = open();
    let granted: Vec<(&str, &str)> =
        opened.loaded.grants.iter().map(|grant| (grant.user.as_str(), grant.granted_by.as_str())).collect();
    assert_eq!(granted, [("7", "the operator")]);
    assert!(opened.loaded.lockouts.is_empty() && opened.loaded.pairing.is_empty());
    assert_eq!(opened.loaded.disabled_adapters, ["off", "one"]);
    block_on(opened.store.close()).unwrap().unwrap();

    world.runs("pairing revoke one 7");
    world.runs("pairing clear");
    assert_eq!(world.fails("pairing revoke one 7").code, FAILED);
    assert!(held_by_nobody(&world));
}

fn held_by_nobody(world: &World) -> bool {
    crate::app::held_by(&world.home()).is_none()
}

#[test]
fn reading_commands_need_no_host_but_a_state() {
    let world = World::new();
    std::fs::create_dir(world.home()).unwrap();
    let failure = world.fails("session list");
    let expected = format!("{} does not exist; `hermes-host run` creates it", world.home().join("state.db").display());
    assert_eq!((failure.code, failure.to_string()), (FAILED, expected));

    let opened = hermes_store::Store::open(
        &world.home().join("state.db"),
        std::sync::Arc::new(hermes_system::clock::SystemClock),
    )
    .unwrap();
    block_on(opened.store.close()).unwrap().unwrap();
    for line in ["session list --json", "session search hello", "outbox list --all"] {
        world.runs(line);
    }
    let failure = world.fails("session show nothing");
    assert_eq!(
        (failure.code, failure.to_string().as_str()),
        (FAILED, "no session is named \"nothing\"; `hermes-host session list --all` shows the sessions")
    );
    let failure = world.fails("outbox show 7");
    assert_eq!(failure.to_string(), "there is no delivery 7; `hermes-host outbox list --all` shows the deliveries");

    let lock = crate::app::HostLock::take(&world.home()).unwrap();
    let failure = world.fails("session list");
    assert!(failure.to_string().contains("it is starting or stopping; try again"), "{failure}");
    drop(lock);
}

#[test]
fn problems_of_the_configuration_end_with_78_all_at_once() {
    let world = World::new();
    world.file("[host]\nlgo = 1\ndrain_s = \"x\"\n");
    for line in ["config check", "config show", "run", "adapter list"] {
        let failure = world.fails(line);
        assert_eq!(failure.code, CONFIG, "{line}: {failure}");
        let file = world.dir().join("plugins.toml");
        assert_eq!(
            failure.to_string(),
            format!(
                "the configuration has 2 problems\n  {0}:2:1: host.lgo: unknown key; did you mean `host.log`?\n  \
                 {0}:3:1: host.drain_s: must be an integer, not a string",
                file.display()
            ),
            "{line}"
        );
    }
    world.file("[agent]\nruntime = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n");
    let failure = world.fails("config check");
    assert_eq!(failure.code, CONFIG, "{failure}");
    assert!(failure.to_string().contains("model"), "{failure}");
}

#[test]
fn a_section_without_a_library_is_told_beside_what_else_is_wrong() {
    let world = World::new();
    world.file("[host]\nlgo = 1\n[adapter.telegarm]\n");
    let failure = world.fails("config check");
    assert_eq!(failure.code, CONFIG, "{failure}");
    assert!(failure.to_string().contains("host.lgo: unknown key"), "{failure}");
    let said = "plugins.toml:3:10: adapter.telegarm: no readable library has the id \"telegarm\"; `hermes-host \
                adapter list` shows the libraries";
    assert!(failure.to_string().ends_with(said), "{failure}");
}

#[test]
fn a_library_that_may_not_be_loaded_is_told_and_files_are_checked_without_secrets() {
    let world = World::new();
    world.file("[adapter.linecat]\ntoken = { env = \"NO_SUCH_VARIABLE\" }\n");
    world.runs("adapter list");
    let failure = world.fails("adapter check linecat.so");
    assert_eq!(failure.code, FAILED, "{failure}");
    world.file("[adapter.linecat]\n");
    let library = world.home().join("plugins/linecat.so");
    std::fs::create_dir_all(library.parent().unwrap()).unwrap();
    std::fs::write(&library, "no library").unwrap();
    std::fs::set_permissions(&library, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let failure = world.fails("config check");
    assert!(failure.to_string().contains("adapter.linecat: its library is rejected: "), "{failure}");
    assert!(failure.to_string().contains("chmod"), "{failure}");
}

#[test]
fn a_good_configuration_and_the_sample_pass_the_check() {
    let world = World::new();
    world.runs("config check");
    world.file(&hermes_config::sample(&BTreeMap::new(), &BTreeMap::new()));
    for line in ["config check", "config show", "config schema", "config sample"] {
        world.runs(line);
    }
}

#[test]
fn a_broken_configuration_does_not_keep_the_sample_from_being_printed() {
    let world = World::new();
    world.file("[host\n");
    world.runs("config sample");
}

#[test]
fn a_host_without_its_socket_is_not_said_to_be_missing() {
    let world = World::new();
    std::fs::create_dir_all(world.home()).unwrap();
    let lock = crate::app::HostLock::take(&world.home()).unwrap();
    let failure = world.fails("status");
    assert_eq!(failure.code, NO_HOST, "{failure}");
    let told = format!("(process {}) does not accept commands", std::process::id());
    assert!(failure.to_string().contains(&told) && failure.to_string().contains("`kill "), "{failure}");
    drop(lock);
    assert!(world.fails("status").to_string().starts_with("no host is running for"));
}

#[test]
fn what_the_host_refuses_ends_with_its_code() {
    let world = World::new();
    for (kind, code) in [
        (ErrorKind::Refused, FAILED),
        (ErrorKind::NotFound, FAILED),
        (ErrorKind::Invalid, USAGE),
        (ErrorKind::Config, CONFIG),
        (ErrorKind::Busy, FAILED),
    ] {
        let asked = world.with_host(ControlReply::error(kind, "no; do this"), || {
            let failure = world.fails("reload");
            assert_eq!((failure.code, failure.to_string().as_str()), (code, "no; do this"));
        });
        assert_eq!(asked, [ControlRequest::Reload {}]);
    }
}

#[test]
fn words_become_requests() {
    let world = World::new();
    let done = || ControlReply::done("It is done.");
    let cases = [
        ("stop", ControlRequest::Stop {}),
        ("pairing approve chat ABC", ControlRequest::PairingApprove { instance: "chat".into(), code: "ABC".into() }),
        ("pairing clear", ControlRequest::PairingClear { instance: None }),
        ("adapter disable chat", ControlRequest::AdapterDisable { instance: "chat".into() }),
        ("session delete x --yes", ControlRequest::SessionDelete { session: "x".into() }),
        ("outbox drop 3", ControlRequest::OutboxDrop { delivery: 3, why: "dropped by the operator".into() }),
        (
            "send chat:1 -dash",
            ControlRequest::Send { target: "chat:1".into(), text: "-dash".into(), file: None, mirror: false },
        ),
    ];
    for (line, request) in cases {
        assert_eq!(world.with_host(done(), || world.runs(line)), [request], "{line}");
    }
}

#[test]
fn an_answer_that_nobody_asked_for_is_no_crash() {
    let world = World::new();
    world.with_host(ControlReply::Owed { delivery: 1, note: None }, || {
        let failure = world.fails("status");
        assert!(failure.to_string().contains("unexpected answer `owed`"), "{failure}");
    });
}

#[test]
fn deleting_without_anybody_to_ask_needs_yes() {
    let world = World::new();
    let cli = Cli::try_parse_from(["hermes-host", "session", "delete", "x"]).unwrap();
    assert!(matches!(cli.command, Command::Session(SessionCommand::Delete { yes: false, .. })));
    // A test that reaches the confirmation has no terminal as standard input, or a terminal without a user.
    if !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        assert_eq!(world.fails("session delete x").code, USAGE);
    }
}

#[test]
fn completions_know_every_command_that_is_shown_and_what_stands_behind_it() {
    let world = World::new();
    let grammar = Cli::command();
    for shell in ["bash", "zsh", "fish"] {
        world.runs(&format!("completions {shell}"));
        let cli = Cli::try_parse_from(["hermes-host", "completions", shell]).unwrap();
        let Command::Completions { shell: which } = cli.command else { panic!("{shell}") };
        let script = completions(which);
        for command in grammar.get_subcommands().filter(|command| !command.is_hide_set()) {
            let words = std::iter::once(command).chain(command.get_subcommands());
            for word in words.map(clap::Command::get_name) {
                assert!(script.contains(word), "{shell} does not complete {word}");
            }
        }
        assert!(script.contains("json") && script.contains("replace"), "{shell} completes options");
    }
}

#[test]
fn the_status_names_what_waits_and_what_to_do() {
    let status: crate::engine::operator::StatusJson = serde_json::from_value(serde_json::json!({
        "host": { "version": "1.0.0", "pid": 7, "since": 0, "state": "online", "home": "/h", "epoch": 3 },
        "adapters": [
            { "name": "work", "plugin": "telegram", "version": "1.0.0", "isolation": "process", "state": "reconnecting",
              "since": 1_000, "reason": "the link is down", "next_try": 15_000, "held": 2, "guarantee": "at-least-once",
              "announced": [{ "label": "open", "url": "http://127.0.0.1/" }] },
        ],
        "queues": { "inbox": 1, "turns": 0, "outbox": 2, "handoffs": 0, "dead": 1 },
        "sessions": { "open": 1, "running": 0, "total": 9 },
        "agent": { "runtime": "openai", "model": "tiny" },
        "warnings": ["one"],
    }))
    .unwrap();
    assert_eq!(
        status::render(&status, 10_000),
        "hermes-host 1.0.0 is online, up for 10 s, process 7\n\
         home    /h\n\
         config  built-in; `hermes-host config sample > /h/plugins.toml` creates a file to edit\n\
         agent   openai (tiny)\n\n\
         ADAPTER  PLUGIN          STATE         SINCE    HELD  RUNS     GUARANTEE\n\
         work     telegram 1.0.0  reconnecting  9 s ago  2     process  at-least-once\n\n\
         work: the link is down; next attempt in 5 s\n\n\
         work: open  http://127.0.0.1/\n\n\
         waiting  1 event, 0 turns, 2 deliveries, 0 handoffs; sessions 1 open, 9 in all\n\
         abandoned 1 delivery; `hermes-host outbox list` shows them\n\
         warning: one\n"
    );
}

#[test]
fn tables_are_aligned_and_leave_out_what_is_empty_throughout() {
    let mut table = table::Table::new(&["NAME", "EMPTY", "LAST"]);
    table.row(["ä".to_owned(), String::new(), "1".to_owned()]);
    table.row(["longer\nname".to_owned(), String::new(), "\u{1b}[31m2".to_owned()]);
    assert_eq!(table.render("none"), "NAME         LAST\nä            1\nlonger name  [31m2\n");
    assert_eq!(table::Table::new(&["A"]).render("none"), "none\n");
}

#[test]
fn a_file_that_is_no_library_is_told_apart() {
    let world = World::new();
    world.file("");
    let failure = world.fails("adapter inspect plugins.toml");
    assert_eq!(failure.code, FAILED);
    assert!(failure.to_string().contains("plugins.toml"), "{failure}");
    assert_eq!(world.fails("adapter add plugins.toml").code, FAILED);
    assert!(!world.home().join("plugins").exists(), "nothing is copied before it was read");
    assert!(world.fails("adapter remove nothing").to_string().contains("has the id \"nothing\""));
    let failure = world.fails("adapter check plugins.toml");
    assert!(failure.is_silent() && failure.code == FAILED);
}

#[test]
fn help_of_the_hidden_runner_is_not_shown() {
    let help = Cli::command().render_long_help().to_string();
    assert!(!help.contains("adapter-runner") && !help.contains("text-runner"), "{help}");
    assert!(help.contains("outbox"));
    let parsed = Cli::try_parse_from(["hermes-host", "adapter", "list"]).unwrap().command;
    assert!(matches!(parsed, Command::Adapter(AdapterCommand::List { json: false })));
    let parsed = Cli::try_parse_from(["hermes-host", "outbox", "show", "7"]).unwrap().command;
    assert!(matches!(parsed, Command::Outbox(OutboxCommand::Show { delivery: 7, json: false })));
}

/// A folder with a home and an environment of its own.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    fn home(&self) -> PathBuf {
        self.dir().join("home")
    }

    fn file(&self, text: &str) {
        std::fs::write(self.dir().join("plugins.toml"), text).unwrap();
    }

    fn dispatch(&self, line: &str) -> Result<ExitCode, Failure> {
        let cli = Cli::try_parse_from(std::iter::once("hermes-host").chain(line.split(' '))).unwrap();
        let mut env = BTreeMap::from([("HERMES_HOST_HOME".to_owned(), self.home().display().to_string())]);
        let file = self.dir().join("plugins.toml");
        if file.exists() {
            env.insert("HERMES_HOST_CONFIG".to_owned(), file.display().to_string());
        }
        dispatch(cli, &Given { args: Vec::new(), env, cwd: self.dir().to_owned(), program: None })
    }

    fn runs(&self, line: &str) {
        self.dispatch(line).unwrap_or_else(|failure| panic!("{line}: {failure}"));
    }

    fn fails(&self, line: &str) -> Failure {
        match self.dispatch(line) {
            Ok(_) => panic!("{line} does not fail"),
            Err(failure) => failure,
        }
    }

    /// Runs `work` together with a host that answers every request with `reply`. Returns the requests.
    fn with_host(&self, reply: ControlReply, work: impl FnOnce()) -> Vec<ControlRequest> {
        std::fs::create_dir_all(self.home()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (requests, mut inbox) = mpsc::channel::<Asked>(4);
        let listener = {
            let _inside = runtime.enter();
            control::bind(&self.home()).unwrap()
        };
        let server = runtime.spawn(control::serve(
            listener,
            requests,
            None,
            std::sync::Arc::default(),
            4,
            control::Answers::default(),
        ));
        let host = runtime.spawn(async move {
            let mut asked = Vec::new();
            while let Some((request, _, answer)) = inbox.recv().await {
                asked.push(request);
                // A client that went away needs no answer.
                let _ = answer.send(reply.clone());
            }
            asked
        });
        work();
        server.abort();
        let asked = runtime.block_on(host).unwrap();
        control::remove(&self.home());
        asked
    }
}

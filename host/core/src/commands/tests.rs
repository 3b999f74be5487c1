use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn name_of(text: &str) -> (&'static str, String) {
    match parse(text, "!", &Gates::default()) {
        Parsed::Command { spec, args } => (spec.name, args),
        other => panic!("{text:?} is {other:?}"),
    }
}

fn unknown(text: &str) -> (String, Option<&'static str>) {
    match parse(text, "", &Gates::default()) {
        Parsed::Unknown { name, nearest } => (name, nearest),
        other => panic!("{text:?} is {other:?}"),
    }
}

#[test]
fn a_command_is_read_with_its_account_and_arguments() {
    assert_eq!(name_of("/Stop@MyBot now"), ("stop", "now".into()));
    assert_eq!(name_of("  /help\n"), ("help", String::new()));
    assert_eq!(name_of("/new a title\nof two lines "), ("new", "a title\nof two lines".into()));
    assert_eq!(name_of("/reset"), ("new", String::new()));
    assert_eq!(name_of("!status"), ("status", String::new()));
}

#[test]
fn a_command_may_name_an_account() {
    assert!(names_an_account(" /stop@my_bot now") && names_an_account("/nothing@x"));
    for text in ["/stop now @my_bot", "stop@my_bot", "/usr@x/bin", "a /stop@my_bot", ""] {
        assert!(!names_an_account(text), "{text}");
    }
}

#[test]
fn a_dash_that_a_keyboard_made_is_two_hyphens_again() {
    assert_eq!(name_of("/new x —global –all").1, "x --global --all");
    assert_eq!(name_of("/new a—b — c —").1, "a—b — c —");
}

#[test]
fn what_is_no_command_goes_to_the_agent() {
    for text in
        ["/usr/bin/x", "/usr/", "/", "/ help", "//help", "/2", "/etc.conf", "help", "", "/ünder", "!", "a /help"]
    {
        assert_eq!(parse(text, "!", &Gates::default()), Parsed::NotCommand, "{text:?}");
    }
    assert_eq!(parse(&format!("/{}", "x".repeat(33)), "", &Gates::default()), Parsed::NotCommand);
    assert_eq!(
        parse("!help", "", &Gates::default()),
        Parsed::NotCommand,
        "without a prefix of its own only the slash counts"
    );
    assert_eq!(parse("/help@bot/x", "", &Gates::default()), Parsed::NotCommand);
}

#[test]
fn three_letters_that_fit_one_command_are_enough() {
    assert_eq!(name_of("/who").0, "whoami");
    assert_eq!(name_of("/rese").0, "new");
    assert_eq!(name_of("/sto").0, "stop");
    assert_eq!(unknown("/sta"), ("sta".into(), Some("start")), "start and status both fit");
    assert_eq!(unknown("/wh").0, "wh");
}

#[test]
fn an_unknown_command_names_the_nearest() {
    assert_eq!(unknown("/statsu"), ("statsu".into(), Some("status")));
    assert_eq!(unknown("/hlep"), ("hlep".into(), Some("help")));
    assert_eq!(unknown("/restet"), ("restet".into(), Some("new")), "an alias leads to its command");
    assert_eq!(unknown("/xyzzy"), ("xyzzy".into(), None));
}

#[test]
fn the_table_names_each_command_once() {
    let names: Vec<&str> =
        REGISTRY.iter().flat_map(|c| std::iter::once(c.name).chain(c.aliases.iter().copied())).collect();
    let ids: BTreeSet<CommandId> = REGISTRY.iter().map(|command| command.id).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(ids.len(), REGISTRY.len());
    for name in names {
        assert_eq!(name_of(&format!("/{name}")).0, nearest(name, &Gates::default()).unwrap());
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
    }
    for id in [
        CommandId::Start,
        CommandId::Help,
        CommandId::Commands,
        CommandId::New,
        CommandId::Stop,
        CommandId::Status,
        CommandId::Whoami,
        CommandId::Pair,
    ] {
        assert_eq!(Command::of(id).id, id);
    }
}

#[test]
fn help_shows_what_one_may_run_here() {
    let help = |place, may: fn(&Command) -> bool| help_lines(place, &Gates::default(), may).join("\n");
    let for_user = help(Place::Dm, |command| command.tier == Tier::User);
    assert!(for_user.starts_with("- `/start`: Say hello\n- `/help [command]`: "));
    assert!(!for_user.contains("/pair") && !for_user.ends_with('\n'));
    assert!(help(Place::Terminal, |_| true).contains("`/pair [approve CODE | list]`"));
    assert!(!help(Place::Group, |_| true).contains("/pair"), "pairing is nobody else's business");
    assert_eq!(
        help_for(Command::of(CommandId::New)),
        "- `/new [title]`: Start a new conversation; the old one is kept\nAlso `/reset`."
    );
    assert!(help_for(Command::of(CommandId::Pair)).ends_with("For admins."));
}

#[test]
fn pages_hold_every_line_once_and_say_which_is_the_last() {
    let lines: Vec<String> = ["one", "two", "three"].map(str::to_owned).to_vec();
    assert_eq!(pages(&lines, |_| true), ["one\ntwo\nthree"]);
    assert_eq!(
        pages(&lines, |text| text.lines().filter(|line| !line.is_empty()).count() <= 2),
        [
            "one\n\nPage 1 of 3. `/commands 2` shows the next.",
            "two\n\nPage 2 of 3. `/commands 3` shows the next.",
            "three\n\nPage 3 of 3 (last page).",
        ]
    );
    assert_eq!(pages(&lines, |_| false).len(), 3, "what fits nowhere has a page of its own");
    assert_eq!(pages(&[], |_| true), [""]);
}

#[test]
fn the_menu_of_a_platform_shows_what_everybody_may_run() {
    let names: Vec<String> = menu(&Gates::default()).into_iter().map(|info| info.name).collect();
    assert_eq!(names[..5], ["start", "help", "commands", "new", "stop"]);
    let may = |name: &String| REGISTRY.iter().any(|row| row.name == name && row.tier == Tier::User);
    assert!(names.iter().all(may) && !names.contains(&"pair".to_owned()), "{names:?}");
}

#[test]
fn the_reference_names_every_command_once_and_its_cells_hold() {
    let reference = reference();
    assert_eq!(reference.lines().count(), REGISTRY.len() + 2);
    for line in reference.lines() {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 8, "{line}");
    }
    assert!(reference.contains("| `/pair [approve CODE \\| list]` |  | admins | direct messages | yes |  |"));
}

#[test]
fn a_closed_gate_hides_its_command_from_reading_help_menu_and_advice() {
    let gates = Gates::read(|key| key != "commands.verbose" && key != "commands.background");
    let open = Gates::default();
    assert_eq!(parse("/verbose all", "", &gates), Parsed::Unknown { name: "verbose".into(), nearest: None });
    assert!(matches!(parse("/bg x", "", &gates), Parsed::Unknown { .. }), "an alias is closed with its command");
    assert!(matches!(parse("/ver", "", &open), Parsed::Unknown { .. }), "verbose and version both fit");
    assert!(matches!(parse("/ver", "", &gates), Parsed::Command { spec, .. } if spec.name == "version"));
    assert_eq!(nearest("verbos", &gates), Some("version"));
    let lines = help_lines(Place::Dm, &gates, |_| true).join("\n");
    assert!(!lines.contains("/verbose") && lines.contains("/version"));
    let in_menu = |gates: &Gates| menu(gates).iter().any(|info| info.name == "background");
    assert!(in_menu(&open) && !in_menu(&gates));
}

proptest! {
    #[test]
    fn every_text_is_read_without_a_fault(text in "\\PC{0,60}", prefix in "[!.]?") {
        let _ = parse(&text, &prefix, &Gates::default());
    }

    #[test]
    fn only_a_text_that_begins_with_a_slash_or_the_prefix_is_a_command(text in "[/!a-z@\\- —\u{e9}]{0,12}") {
        let is_command = parse(&text, "!", &Gates::default()) != Parsed::NotCommand;
        prop_assert!(!is_command || text.trim().starts_with(['/', '!']));
    }

    #[test]
    fn an_unambiguous_beginning_and_the_whole_name_mean_the_same(index in 0..REGISTRY.len(), cut in 3usize..10) {
        let command = &REGISTRY[index];
        let beginning = &command.name[..cut.min(command.name.len())];
        match parse(&format!("/{beginning}"), "", &Gates::default()) {
            Parsed::Command { spec, .. } => prop_assert_eq!(spec.id, command.id),
            Parsed::Unknown { .. } => {
                let fits = |c: &&Command| {
                    c.name.starts_with(beginning) || c.aliases.iter().any(|alias| alias.starts_with(beginning))
                };
                prop_assert!(REGISTRY.iter().filter(fits).count() > 1);
            }
            Parsed::NotCommand => prop_assert!(false),
        }
    }

    #[test]
    fn arguments_without_dashes_stay_as_they_are(args in "[a-z0-9\\-/@]([a-z0-9 \\-/@]{0,20}[a-z0-9])?") {
        prop_assert_eq!(name_of(&format!("/new {args}")).1, args);
    }
}

#[test]
fn every_word_that_is_offered_stands_in_its_commands_arguments() {
    for command in REGISTRY {
        let words: Vec<&str> = command.args.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        for value in values(command.id) {
            assert!(words.contains(value), "/{} {value} is not in {:?}", command.name, command.args);
        }
    }
}

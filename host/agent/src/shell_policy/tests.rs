use super::*;

fn rules() -> Rules {
    Rules {
        patterns: vec!["npm publish".to_owned(), "cargo bench".to_owned()],
        host_home: "/home/user/.hermes-host".to_owned(),
        readable: "/home/user/.hermes-host/media".to_owned(),
        work: String::new(),
        user_home: Some("/home/user".to_owned()),
    }
}

fn evaluate(command: &str) -> Option<Danger> {
    judge(command, "/home/user/project", "/home/user/project", &rules())
}

/// Returns the commands of a list with one JSON string per line.
fn list(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with('"'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn every_command_of_the_list_of_dangerous_ones_needs_approval() {
    let free: Vec<String> =
        list(include_str!("testdata/ask.txt")).into_iter().filter(|command| evaluate(command).is_none()).collect();
    assert!(free.is_empty(), "{free:#?}");
}

#[test]
fn every_command_of_the_list_of_harmless_ones_runs() {
    let commands = list(include_str!("testdata/free.txt"));
    let asked: Vec<(String, String)> =
        commands.into_iter().filter_map(|command| evaluate(&command).map(|danger| (command, danger.why))).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn an_approval_for_longer_is_named_after_what_is_dangerous() {
    let kind = |command: &str| evaluate(command).unwrap().kind;
    assert_eq!(kind("rm x; git stash drop"), "shell: git stash drop, rm");
    assert_eq!(kind("git push -fu origin x"), "shell: git push -f");
    assert_eq!(kind("npm publish"), "shell: npm publish");
    assert_eq!(kind("cargo bench"), "shell: cargo bench", "the operator's own pattern");
    assert!(evaluate("cargo bench").unwrap().why.contains("the operator requires approval for it"));
    for once in ["$CMD x", "sudo rm x", "unknown-program", "rm x; unknown-program", "bash", "python3 -c x"] {
        assert_eq!(kind(once), "", "{once}: an approval covers only what was seen");
    }
}

#[test]
fn the_question_shows_the_dangerous_part_of_the_command() {
    let why = |command: &str| evaluate(command).unwrap().why;
    let long = format!("echo {} && rm -rf build 'old one'; echo done", "x".repeat(500));
    assert_eq!(why(&long), "`rm -rf build 'old one'`: it deletes files");
    assert!(why("sh -c 'echo a; rm -r b'").starts_with("`rm -r b`: "));
    assert!(why("echo x > /etc/passwd").starts_with("`> /etc/passwd`: it writes outside"));
    assert!(why("rm 'a\n`b'").starts_with("`rm 'a 'b'`: "), "{}", why("rm 'a\n`b'"));
    assert!(why("echo $(ls); rm -rf x").starts_with("`rm -rf x`: it deletes files; "));
    let cut = why(&format!("rm {}", "y".repeat(500)));
    assert!(cut.starts_with(&format!("`rm {}…`: ", "y".repeat(77))), "{cut}");
}

#[test]
fn the_working_folder_of_the_operator_is_not_the_hosts() {
    let below = Rules { host_home: "/data".to_owned(), work: "/data/own".to_owned(), ..rules() };
    let evaluate = |command: &str, cwd: &str| judge(command, cwd, "/data/own", &below);
    assert_eq!(evaluate("echo x > a", "/data/own"), None);
    assert_eq!(evaluate("echo x > a", "/data/own/sub"), None);
    assert!(evaluate("echo x > ../state.db", "/data/own").is_some());
    assert!(evaluate("cat ../state.db", "/data/own").is_some());
    for folder in ["/data", "/data/sessions", "/data/own/../sessions", "/data/owned"] {
        assert!(evaluate("ls", folder).is_some(), "{folder}");
    }
    assert_eq!(judge("cat /home/user/.hermes-host/media/a", "/w", "/w", &Rules { user_home: None, ..rules() }), None);
    assert!(judge("ls > /home/user/.hermes-host/media/a", "/w", "/w", &rules()).is_some());
}

#[test]
fn a_command_in_another_folder_may_only_read() {
    let evaluate = |command: &str, cwd: &str| judge(command, cwd, "/home/user/project", &rules());
    assert_eq!(evaluate("ls", "/var/log"), None);
    assert_eq!(evaluate("make", "/home/user/project/sub"), None);
    for command in ["echo x > hosts", "./run.sh", "touch x", "python3 x.py"] {
        assert!(evaluate(command, "/etc").is_some(), "{command}");
    }
}

#[test]
fn links_that_exist_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("root"), folder.path().join("out"));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("tool"), "#!/bin/sh\n").unwrap();
    for (target, name) in [(out.clone(), "link"), (out.join("tool"), "tool"), (out.join("later"), "later")] {
        std::os::unix::fs::symlink(target, root.join(name)).unwrap();
    }
    let root = root.to_str().unwrap();
    let asks = |command: &str| judge(command, root, root, &rules()).is_some();
    for command in ["echo x > link/a", "echo x > later", "./tool", "cd link && ls", "cp a link", "sh link/tool"] {
        assert!(asks(command), "{command}");
    }
    for command in ["echo x > a", "cat link/tool", "./run.sh", "ls link"] {
        assert!(!asks(command), "{command}");
    }
    std::fs::write(format!("{root}/run.sh"), "").unwrap();
    assert!(!asks("bash run.sh") && !asks("cd . && sh -x run.sh"), "the script is in the folder");
    assert!(asks("bash other.sh") && asks("cd link; bash run.sh"), "a shell looks for it in PATH");
    let own = std::env::current_exe().unwrap();
    std::fs::hard_link(&own, format!("{root}/hh"))
        .or_else(|_| std::fs::copy(&own, format!("{root}/hh")).map(drop))
        .unwrap();
    assert!(asks("./hh pairing approve"), "the program of the host under another name");
}

#[test]
fn no_text_takes_long_or_panics() {
    let many = [
        "a ".repeat(20_000),
        "$(".repeat(5_000),
        "(".repeat(10_000),
        "echo {a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}".to_owned(),
        "cd a && ".repeat(500) + "ls",
        "sh -c ".repeat(300),
        "timeout 5 ".repeat(300) + "ls",
        "ls | ".repeat(2_000) + "cat",
        "cat <<A\nA\n".repeat(50),
        format!("true &<<<&{}", "n.9)))))".repeat(3_500)),
    ];
    for text in many {
        assert!(evaluate(&text).is_some(), "{}", &text[..20]);
    }
}

/// Returns a command with the same meaning, or one without a meaning.
fn disguised(command: &str, how: usize, at: usize) -> String {
    let at = command.char_indices().map(|(at, _)| at).nth(at % command.chars().count()).unwrap_or(0);
    let (begin, end) = command.split_at(at);
    match how {
        0 => format!("{begin}''{end}"),
        1 => format!("{begin}\"\"{end}"),
        2 => format!("{begin}\\{end}"),
        3 => format!("{begin}\\\n{end}"),
        4 => format!("{begin}$''{end}"),
        5 => format!("{begin}${{x}}{end}"),
        6 => format!("{begin}$(:){end}"),
        7 => format!("true; {command}"),
        8 => format!("echo '{command}' | sh"),
        9 => format!("ls && ({command})"),
        10 => format!("{{ {command}; }} > /dev/null"),
        11 => format!("timeout 5 {command}"),
        12 => format!("> out {command}"),
        _ => format!("ls | {command}"),
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    #[test]
    fn no_quoting_makes_a_dangerous_command_free(
        which in 0_usize..8, trick in (0_usize..7, 0_usize..40), around in proptest::collection::vec(7_usize..14, 0..4),
    ) {
        const COMMANDS: [&str; 8] = [
            "rm -rf x", "git push -f", "dd if=a of=b", "sudo ls", "kill 1", "hermes-host stop", "cat .env", "unknown-program",
        ];
        let mut code = disguised(COMMANDS[which], trick.0, trick.1);
        for how in around {
            code = disguised(&code, how, 0);
        }
        proptest::prop_assert!(evaluate(&code).is_some(), "{code}");
    }

    #[test]
    fn no_text_makes_it_panic(code in r#"[a-z $(){}\[\]'"`\\<>|&;#*?~=!\n-]{0,80}"#, odd in proptest::prelude::any::<String>()) {
        let _ = (evaluate(&code), evaluate(&odd));
    }
}

//! Commands that run what stands among their arguments: as a command, as code of a
//! shell, or as code that nobody here can read.

use std::collections::BTreeSet;

use super::carried::MODULES;
use super::shell::{Redirect, Word};
use super::table::{INTERPRETERS, OPAQUE, SHELLS, WRAPPERS, Wrapper};
use super::{Judge, glob};

/// Options of wrappers behind which code of a shell stands.
const CODE_OPTIONS: [&str; 5] = ["-c", "--command", "-S", "--split-string", "--session-command"];

/// Programs that go through whole folders.
const FOLDERS: [&str; 16] =
    ["find", "fd", "fdfind", "rg", "ag", "ack", "tar", "bsdtar", "du", "cp", "rsync", "scp", "zip", "7z", "tree", "ln"];

const ELSEWHERE: &str = "a shell reads its commands from elsewhere";
const OTHER_LANGUAGE: &str = "it runs code that cannot be judged";

impl Judge<'_> {
    pub(super) fn special(&mut self, name: &str, args: &[Word], redirects: &[Redirect], open: bool) {
        if SHELLS.contains(&name) {
            self.shell(args, redirects, open);
        } else if let Some((_, options)) = INTERPRETERS.iter().find(|(pattern, _)| glob(pattern, name)) {
            self.interpreter(name, args, redirects, options);
        } else if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            self.wrapper(wrapper, args, redirects, open);
        } else if OPAQUE.contains(&name) {
            self.unclear.insert(OTHER_LANGUAGE);
        }
        let told = args.strip_prefix([Word::literal("--")].as_slice()).unwrap_or(args);
        match name {
            "eval" => self.joined(told),
            "jobs" | "uv" | "poetry" | "pipenv" | "bundle" | "conda" | "npx" | "mise" | "direnv" | "perf" => {
                self.anywhere(args, redirects, open);
            }
            "trap" => told.iter().take(1).for_each(|word| self.word_as_code(word)),
            "source" | "." => self.script(told.first()),
            "find" | "fd" | "fdfind" => {
                self.find(args);
                self.searched(name, args);
            }
            "function" | "coproc" => self.anywhere(args, redirects, open),
            "for" | "select" => {
                // The body may stand in brackets, too.
                let begins = |word: &Word| !word.quoted && (word.text == "do" || word.text == "{");
                let starts: Vec<usize> = (0..args.len()).filter(|at| begins(&args[*at])).collect();
                starts.into_iter().for_each(|at| self.words(&args[at + 1..], redirects, open));
            }
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(args),
            "git" => self.git(args),
            _ if self.looks_into_folders(name, args) => self.searched(name, args),
            _ if name.starts_with("ld-") || name.starts_with("ld.so") => self.anywhere(args, redirects, open),
            _ => {}
        }
    }

    /// A shell: what it is told counts; one that is told nothing reads from elsewhere.
    fn shell(&mut self, args: &[Word], redirects: &[Redirect], open: bool) {
        let mut at = 0;
        let mut takes_code = false;
        while let Some(word) = args.get(at).filter(|word| !word.known || word.text.starts_with(['-', '+'])) {
            if !word.known {
                self.unclear.insert(ELSEWHERE);
                return;
            }
            let letters = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            match word.text.as_str() {
                "--version" | "--help" => return,
                "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" => at += 1,
                _ => {}
            }
            at += 1;
            if word.text == "--" || word.text == "-" {
                break;
            }
            if letters.is_some_and(|letters| letters.contains('c')) {
                takes_code = true;
            }
            if letters.is_some_and(|letters| letters.len() > 1 && letters.contains(['o', 'O'])) {
                at += 1;
            }
            if letters.is_some_and(|letters| letters.contains('s')) {
                self.unclear.insert(ELSEWHERE);
            }
        }
        if takes_code {
            match args.get(at) {
                Some(code) if !(open && at + 1 >= args.len()) => self.word_as_code(code),
                _ => {
                    self.unclear.insert(ELSEWHERE);
                }
            }
            return;
        }
        let texts: Vec<&Word> = redirects.iter().filter_map(text).collect();
        texts.iter().for_each(|code| self.word_as_code(code));
        match args.get(at) {
            None if !texts.is_empty() => {}
            script => self.script(script),
        }
    }

    /// A file with commands: which one has to be known, and it must be a file.
    fn script(&mut self, word: Option<&Word>) {
        let is_file =
            word.is_some_and(|word| word.known && !word.glob && word.text != "-" && !self.places.is_device(&word.text));
        if !is_file {
            self.unclear.insert(ELSEWHERE);
        }
    }

    fn interpreter(&mut self, name: &str, args: &[Word], redirects: &[Redirect], options: &[&str]) {
        let script = script_of(args);
        let python = name.starts_with("py");
        let mut says_code = false;
        for (at, word) in args[..script.unwrap_or(args.len())].iter().enumerate() {
            let tells = ["--version", "--help", "-V", "-h"].contains(&word.text.as_str());
            if !says_code && tells {
                return;
            }
            if !says_code && python && is_option(word, "-m") {
                // A module has its own arguments; most of them run code.
                let module = args.get(at + 1).filter(|_| word.text == "-m");
                if !module.is_some_and(|module| MODULES.contains(&module.text.as_str())) {
                    self.unclear.insert(OTHER_LANGUAGE);
                }
                return;
            }
            says_code |= !word.known || options.iter().any(|option| is_option(word, option));
        }
        let operand = args.iter().any(|word| !word.text.starts_with('-'));
        if says_code || !operand || redirects.iter().any(|redirect| text(redirect).is_some()) {
            self.unclear.insert(OTHER_LANGUAGE);
        } else {
            self.script(args.iter().find(|word| !word.text.starts_with('-')));
        }
    }

    /// Judges the command behind a wrapper's own arguments. Where an option is not known,
    /// it may or may not have a value, and both readings count.
    fn wrapper(&mut self, wrapper: &Wrapper, args: &[Word], redirects: &[Redirect], open: bool) {
        if wrapper.name == "command" && args.iter().any(|word| matches!(word.text.as_str(), "-v" | "-V")) {
            return;
        }
        let open = open || wrapper.appends;
        for (at, word) in args.iter().enumerate() {
            let behind = word.text.split_once('=').filter(|(option, _)| CODE_OPTIONS.contains(option));
            if let Some((_, code)) = behind {
                self.word_as_code(&Word { text: code.to_owned(), ..word.clone() });
            } else if CODE_OPTIONS.contains(&word.text.as_str()) && !wrapper.valued.contains(&word.text.as_str()) {
                args.get(at + 1).into_iter().for_each(|code| self.word_as_code(code));
            } else if let Some(code) = bundled(wrapper, word) {
                match code.is_empty() {
                    true => args.get(at + 1).into_iter().for_each(|code| self.word_as_code(code)),
                    false => self.word_as_code(&Word { text: code.to_owned(), ..word.clone() }),
                }
            }
            if wrapper.name == "env" && word.text.contains('\\') {
                // It has escapes of its own.
                self.unclear.insert(OTHER_LANGUAGE);
            }
        }
        let replaced = replaced(wrapper, args);
        let starts = starts(wrapper, args);
        for start in &starts {
            let command = filled(&args[*start..], &replaced);
            match wrapper.joins {
                true => self.joined(&command),
                false => self.words(&command, redirects, open),
            }
        }
        let runs_what_comes =
            ["sudo", "su", "doas", "ssh", "unshare", "chroot", "nsenter", "busybox", "script", "fakeroot"];
        if starts.is_empty() && open && wrapper.name != "xargs" {
            self.unclear.insert("the name of a command is only known when it runs");
        }
        if starts.is_empty() && runs_what_comes.contains(&wrapper.name) {
            self.shell(&[], redirects, open);
        }
    }

    /// Words that a shell gets as one text.
    fn joined(&mut self, words: &[Word]) {
        if words.iter().any(|word| !word.known || word.splits || word.glob) {
            self.unclear.insert("a shell runs text that is only known when it runs");
        }
        let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let text = text.join(" ").replace(super::UNKNOWN, "$x");
        if !text.trim().is_empty() {
            self.code(&text);
        }
    }

    /// What may begin at any of these words.
    fn anywhere(&mut self, args: &[Word], redirects: &[Redirect], open: bool) {
        for start in 0..args.len() {
            if args[start].known {
                self.words(&args[start..], redirects, open);
            }
        }
    }

    fn find(&mut self, args: &[Word]) {
        const RUNS: [&str; 8] = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
        for (at, word) in args.iter().enumerate() {
            if word.splits {
                self.unclear.insert("a search may run or delete something, which is only known when it runs");
            }
            if RUNS.contains(&word.text.as_str()) {
                let command: Vec<Word> =
                    args[at + 1..].iter().take_while(|word| word.text != ";" && word.text != "+").cloned().collect();
                self.words(&filled(&command, &["{}".to_owned()]), &[], true);
            }
        }
    }

    fn awk(&mut self, args: &[Word]) {
        let calls = ["system", "|", ">", "getline", "@load", "@include", "-f", "--file"];
        if args.iter().any(|word| !word.known || calls.iter().any(|call| word.text.contains(call))) {
            self.unclear.insert(OTHER_LANGUAGE);
        }
    }

    /// Whether a command goes through whole folders.
    fn looks_into_folders(&self, name: &str, args: &[Word]) -> bool {
        match name {
            "grep" | "egrep" | "fgrep" | "zgrep" => {
                let long = |word: &Word| ["--recursive", "--dereference-recursive"].contains(&word.text.as_str());
                args.iter().any(|word| is_option(word, "-r") || is_option(word, "-R") || long(word))
            }
            "ls" | "chmod" | "chown" => args.iter().any(|word| is_option(word, "-R") || word.text == "--recursive"),
            _ => FOLDERS.contains(&name),
        }
    }

    /// What goes through a folder above the host's comes to what lies in there.
    fn searched(&mut self, name: &str, args: &[Word]) {
        // Before a folder that is not said stands what is looked for.
        let before =
            usize::from(matches!(name, "grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack" | "fd" | "fdfind"));
        let begin = if name == "find" { 0 } else { before };
        let said = match name {
            "find" => args.iter().take_while(|word| !word.text.starts_with(['-', '(', '!'])).count(),
            _ => args.iter().filter(|word| !word.text.starts_with('-')).count(),
        };
        let above = |word: &Word| {
            let value = word.text.split_once('=').map(|(_, value)| value);
            let joined = word.text.strip_prefix('-').and_then(|_| word.text.get(2..));
            let names = [Some(word.text.as_str()), value, joined];
            names.into_iter().flatten().any(|path| !path.is_empty() && self.places.is_above_home(path, word.glob))
        };
        if args.iter().any(above) || said <= begin && self.places.is_above_home(".", false) {
            self.catch("the host's folder", "it goes through a folder that holds the host's");
        }
    }

    /// Commands that git is told to run.
    fn git(&mut self, args: &[Word]) {
        let runs = args.iter().any(|word| matches!(word.text.as_str(), "bisect" | "submodule" | "rebase" | "difftool"));
        for (at, word) in args.iter().enumerate().filter(|_| runs) {
            if matches!(word.text.as_str(), "run" | "foreach" | "--exec" | "-x") {
                self.joined(&args[at + 1..]);
            }
        }
    }
}

/// Where the arguments of an interpreter surely name its program: a path that is not the value of an option.
fn script_of(args: &[Word]) -> Option<usize> {
    const FLAGS: [&str; 12] = ["-u", "-B", "-s", "-E", "-O", "-OO", "-w", "-v", "-q", "-b", "-d", "-S"];
    let is_path = |word: &Word| word.known && !word.text.starts_with('-') && word.text.contains(['.', '/']);
    (0..args.len()).find(|at| {
        let before = at.checked_sub(1).map(|before| args[before].text.as_str()).unwrap_or_default();
        is_path(&args[*at]) && (!before.starts_with('-') || FLAGS.contains(&before))
    })
}

/// The code behind a bundle of short options; empty where it is the next word.
fn bundled<'w>(wrapper: &Wrapper, word: &'w Word) -> Option<&'w str> {
    let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    for (at, letter) in letters.char_indices() {
        if !letter.is_ascii_alphabetic() || wrapper.valued.contains(&format!("-{letter}").as_str()) {
            return None;
        }
        if matches!(letter, 'c' | 'S') {
            return Some(&letters[at + 1..]);
        }
    }
    None
}

/// Text that a command reads from where it stands.
fn text(redirect: &Redirect) -> Option<&Word> {
    match redirect {
        Redirect::Text(word) => Some(word),
        Redirect::Write(_) | Redirect::Read(_) => None,
    }
}

/// Whether a word is this option, alone, with its value, or in a bundle.
fn is_option(word: &Word, option: &str) -> bool {
    let text = word.text.as_str();
    match option.strip_prefix('-').filter(|letters| letters.len() == 1) {
        Some(letter) => text.starts_with('-') && !text.starts_with("--") && text.contains(letter),
        None => text == option || text.starts_with(&format!("{option}=")),
    }
}

/// What a wrapper replaces in the words of its command.
fn replaced(wrapper: &Wrapper, args: &[Word]) -> Vec<String> {
    if !wrapper.appends {
        return Vec::new();
    }
    let mut replaced = vec!["{}".to_owned()];
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        if matches!(text, "-I" | "--replace" | "-i") {
            replaced.extend(args.get(at + 1).map(|value| value.text.clone()));
        }
        replaced.extend(text.strip_prefix("-I").or_else(|| text.strip_prefix("-i")).map(str::to_owned));
        replaced.extend(text.strip_prefix("--replace=").map(str::to_owned));
    }
    replaced
}

/// The words of a command in which something is replaced before it runs.
fn filled(words: &[Word], replaced: &[String]) -> Vec<Word> {
    let fill = |word: &Word| match replaced.iter().find(|what| !what.is_empty() && word.text.contains(what.as_str())) {
        Some(what) => Word { text: word.text.replace(what.as_str(), "\0"), known: false, ..word.clone() },
        None => word.clone(),
    };
    words.iter().map(fill).collect()
}

/// Where the wrapped command may begin.
fn starts(wrapper: &Wrapper, args: &[Word]) -> Vec<usize> {
    let (mut starts, mut seen, mut work) = (Vec::new(), BTreeSet::new(), vec![(0, wrapper.before)]);
    while let Some((at, before)) = work.pop() {
        if !seen.insert((at, before)) {
            continue;
        }
        let Some(word) = args.get(at) else { continue };
        let text = word.text.as_str();
        if text == "--" {
            work.push((at + 1 + before, 0));
        } else if text.starts_with('-') && text.len() > 1 || wrapper.flags.contains(&text) {
            let short = text.get(..2).filter(|short| !short.starts_with("--") && text.len() > 2);
            let known = wrapper.flags.contains(&text) || text.contains('=');
            let joined = short.is_some_and(|short| wrapper.valued.contains(&short));
            match wrapper.valued.contains(&text) {
                true => work.push((at + 2, before)),
                false => {
                    work.push((at + 1, before));
                    if !known && !joined {
                        work.push((at + 2, before));
                    }
                }
            }
        } else if word.assigns && matches!(wrapper.name, "env" | "sudo" | "doas") {
            work.push((at + 1, before));
        } else if before > 0 {
            work.push((at + 1, before - 1));
            // It may be several words, or none.
            if word.splits {
                work.push((at + 1, before));
                starts.push(at);
            }
        } else {
            starts.push(at);
        }
    }
    starts.retain(|start| *start < args.len());
    starts.sort_unstable();
    starts.dedup();
    starts
}

//! The evaluator of a command: compares every program in it with the table and every file with the permitted
//! folders.

use super::parse::{self, Command, Redirect, SimpleCommand};
use super::paths::{self, Folders, PathRules, Reason};
use super::programs::{self, Arg, ProgramSpec, Value};
use super::word::{Variables, Word};
use super::{Danger, Rules, patterns, shown, shown_text, special, wrappers};

/// Simple commands to evaluate, including wrapped ones.
const COMMANDS_MAX: usize = 256;

/// Words of one command.
const WORDS_MAX: usize = 1_024;

/// Nesting levels of commands.
const DEPTH_MAX: usize = 8;

/// Reasons that are shown.
const REASONS_MAX: usize = 4;

/// Prefix of the names under which longer approvals are remembered.
const KIND: &str = "shell: ";

const UNLISTED: Reason = "it is not on the list of harmless commands";
pub(super) const ARGUMENTS: Reason = "its arguments are not on the list of harmless arguments";
const TOO_LONG: Reason = "it is too long to be analyzed";

/// A reason for an approval.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Name of a longer approval; `None` if none is possible.
    label: Option<String>,
    /// Affected part of the command.
    text: String,
    why: String,
    unlisted: bool,
}

/// Source of a command's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Standard input of the whole command.
    Outside,
    /// A file, inline text, or the output of another program.
    Given,
    /// Names of files in the working folder.
    Names,
}

/// The state of an evaluation.
pub(super) struct Evaluator<'r> {
    pub rules: &'r Rules,
    pub paths: PathRules<'r>,
    /// Possible working folders after success of the last command.
    pub done: Folders,
    /// Possible working folders after its failure.
    pub failed: Folders,
    /// All working folders so far.
    pub visited: Folders,
    depth: usize,
    /// Simple commands that may still be evaluated.
    left: usize,
    /// Text of the simple command that is being evaluated.
    pub text: String,
    reasons: Vec<Finding>,
    /// Files that the command writes.
    pub written: Vec<String>,
    /// True if the command adds files with unknown names.
    pub brought: bool,
    /// Names of links that the command creates.
    pub linked: Vec<String>,
    /// True if the command runs on another machine.
    pub remote: bool,
}

impl<'r> Evaluator<'r> {
    pub(super) fn new(cwd: &str, root: &str, rules: &'r Rules) -> Self {
        let folders = vec![cwd.to_owned()];
        Self {
            rules,
            paths: PathRules::new(root, rules),
            done: folders.clone(),
            failed: folders.clone(),
            visited: folders,
            depth: 0,
            left: COMMANDS_MAX,
            text: String::new(),
            reasons: Vec::new(),
            written: Vec::new(),
            brought: false,
            linked: Vec::new(),
            remote: false,
        }
    }

    /// Returns the verdict.
    pub(super) fn into_danger(self) -> Option<Danger> {
        if self.reasons.is_empty() {
            return None;
        }
        let mut labels: Vec<&str> = self.reasons.iter().filter_map(|reason| reason.label.as_deref()).collect();
        labels.sort_unstable();
        labels.dedup();
        let lasts = self.reasons.iter().all(|reason| reason.label.is_some());
        let shown = self.reasons.iter().take(REASONS_MAX).map(|reason| match reason.text.as_str() {
            "" => reason.why.clone(),
            text => format!("`{text}`: {}", reason.why),
        });
        Some(Danger {
            kind: if lasts { format!("{KIND}{}", labels.join(", ")) } else { String::new() },
            why: shown.collect::<Vec<_>>().join("; "),
            unlisted: self.reasons.iter().all(|reason| reason.unlisted),
        })
    }

    /// Checks the initial working folder.
    pub(super) fn check_start(&mut self, cwd: &str) {
        if let Some(why) = self.paths.begins(cwd) {
            self.text = shown_text(cwd);
            self.flag_as("the host's folder", why);
        }
    }

    fn add_finding(&mut self, label: Option<String>, why: &str, unlisted: bool) {
        let reason = Finding { label, text: self.text.clone(), why: why.to_owned(), unlisted };
        if !self.reasons.contains(&reason) && self.reasons.len() < COMMANDS_MAX {
            self.reasons.push(reason);
        }
    }

    /// Requires approval for the current command each time.
    pub(super) fn flag(&mut self, why: &str) {
        self.add_finding(None, why, false);
    }

    /// Requires approval for the current command; a longer approval is possible.
    pub(super) fn flag_as(&mut self, label: &str, why: &str) {
        self.add_finding(Some(label.to_owned()), why, false);
    }

    /// Returns the possible working folders of the next command.
    pub(super) fn folders(&self) -> Folders {
        let mut folders = self.done.clone();
        folders.extend(self.failed.iter().filter(|folder| !self.done.contains(folder)).cloned());
        folders
    }

    pub(super) fn stay_in(&mut self, folders: Folders) {
        self.failed.clone_from(&folders);
        self.done = folders;
    }

    /// Checks shell code.
    pub(super) fn check_code(&mut self, code: &str) {
        if self.depth >= DEPTH_MAX {
            self.flag("it is nested too deeply");
            return;
        }
        let moves = ["cd", "pushd", "popd"].iter().any(|word| code.contains(word));
        let here = self.folders();
        let folder = here.first().filter(|_| !moves && here.len() == 1).cloned();
        let variables = Variables { home: self.paths.user_home(), folder: folder.as_deref() };
        self.depth += 1;
        match parse::parse(code, variables) {
            Ok(command) => self.check_command(&command, Input::Outside),
            Err(why) => {
                self.text = shown_text(code);
                self.check_unparsed(code, why);
            }
        }
        self.depth -= 1;
    }

    /// Requires approval for code that cannot be parsed. A dangerous pattern in it is named anyway.
    fn check_unparsed(&mut self, code: &str, why: &str) {
        let lines = code.split(['\n', ';', '|', '&', '(', ')', '{', '}']);
        let danger = lines.take(COMMANDS_MAX).find_map(|line| {
            let words: Vec<Word> = line.split_whitespace().take(WORDS_MAX).map(Word::plain).collect();
            let (name, args) = words.split_first()?;
            patterns::find(&self.rules.patterns, &name.text, args).map(|hit| (shown(&words), hit.why))
        });
        match danger {
            Some((text, danger)) => {
                self.text = text;
                self.flag(&format!("{danger}; {why}"));
            }
            None => self.flag(why),
        }
    }

    fn check_command(&mut self, command: &Command, input: Input) {
        match command {
            Command::Simple(simple) => self.check_simple(simple, input),
            Command::And(left, right) => {
                self.check_command(left, input);
                let failed = std::mem::take(&mut self.failed);
                self.stay_in(self.done.clone());
                self.check_command(right, input);
                self.failed.extend(failed);
            }
            Command::Or(left, right) => {
                self.check_command(left, input);
                let done = std::mem::take(&mut self.done);
                self.stay_in(self.failed.clone());
                self.check_command(right, input);
                self.done.extend(done);
            }
            Command::Sequence(commands) => {
                for command in commands {
                    let here = self.folders();
                    self.stay_in(here);
                    self.check_command(command, input);
                }
            }
            Command::Pipe(parts) => {
                let here = self.folders();
                let mut input = input;
                for part in parts {
                    self.stay_in(here.clone());
                    self.check_command(part, input);
                    input = if special::prints_names(part) { Input::Names } else { Input::Given };
                }
                self.stay_in(here);
            }
            Command::Subshell(inner) => {
                let here = self.folders();
                self.stay_in(here.clone());
                self.check_command(inner, input);
                self.stay_in(here);
            }
            Command::Redirected(inner, redirects) => {
                let given = self.check_redirects(redirects, false);
                self.check_command(inner, if given { Input::Given } else { input });
                let here = self.folders();
                self.stay_in(here);
            }
        }
    }

    fn check_simple(&mut self, simple: &SimpleCommand, input: Input) {
        for (name, value) in &simple.assigned {
            if !wrappers::is_harmless_variable(name, value) || simple.words.is_empty() {
                self.text = format!("{name}={}", shown(std::slice::from_ref(value)));
                self.flag("it sets a variable that may change what runs");
            }
        }
        let fed = input != Input::Outside || simple.redirects.iter().any(|one| !matches!(one, Redirect::Write { .. }));
        let silent = special::prints_nothing(&simple.words, fed);
        self.text = shown(&simple.words);
        let given = self.check_redirects(&simple.redirects, silent);
        if !simple.words.is_empty() {
            self.check_words(&simple.words, if given { Input::Given } else { input });
        }
    }

    /// Checks redirections. Returns true if one of them provides the standard input.
    fn check_redirects(&mut self, redirects: &[Redirect], silent: bool) -> bool {
        let around = std::mem::take(&mut self.text);
        let mut given = false;
        let here = self.folders();
        for redirect in redirects {
            match redirect {
                Redirect::Write { target, truncates } => {
                    self.text = format!("> {}", shown(std::slice::from_ref(target)));
                    self.check_write(&here, target);
                    if *truncates && silent && !target.text.starts_with("/dev/") {
                        self.flag("it empties a file");
                    }
                }
                Redirect::Read(target) => {
                    given = true;
                    self.text = format!("< {}", shown(std::slice::from_ref(target)));
                    self.check_read(&here, target, false);
                }
                Redirect::Text => given = true,
            }
        }
        self.text = around;
        given
    }

    pub(super) fn check_read(&mut self, folders: &Folders, word: &Word, deep: bool) {
        if let Some(why) = self.paths.read(folders, word, deep) {
            self.flag(why);
        } else if self.is_linked(&word.text) {
            self.flag("it follows a link that the command creates");
        }
    }

    pub(super) fn check_write(&mut self, folders: &Folders, word: &Word) {
        if let Some(why) = self.paths.write(folders, word) {
            self.flag(why);
        } else if self.remote && !word.text.starts_with("/dev/") {
            self.flag("it writes on another machine");
        } else if self.is_linked(&word.text) {
            self.flag("it follows a link that the command creates");
        }
        self.brought |= word.glob;
        self.written.push(word.text.clone());
    }

    pub(super) fn is_linked(&self, path: &str) -> bool {
        path.split('/').any(|part| self.linked.iter().any(|link| link == part))
    }

    /// Checks the words of a command.
    pub(super) fn check_words(&mut self, words: &[Word], input: Input) {
        if self.left == 0 || self.depth >= DEPTH_MAX || words.len() > WORDS_MAX {
            self.flag(TOO_LONG);
            return;
        }
        self.left -= 1;
        self.depth += 1;
        let here = self.folders();
        self.stay_in(here);
        let around = std::mem::replace(&mut self.text, shown(words));
        if let Some((name, args)) = words.split_first() {
            self.check_program(name, args, input);
        }
        self.text = around;
        self.depth -= 1;
    }

    fn check_program(&mut self, word: &Word, args: &[Word], input: Input) {
        if !word.known || word.glob && word.text != "[" || word.text.is_empty() {
            self.flag("the name of the program is known only when it runs");
            return;
        }
        let path = word.text.as_str();
        let name = paths::system_program(path).unwrap_or(path);
        let base = path.rsplit('/').next().unwrap_or_default();
        if base.to_ascii_lowercase().contains("hermes-host") {
            self.flag_as("hermes-host", "it controls the host that runs this agent");
            return;
        }
        if let Some(hit) = patterns::find(&self.rules.patterns, base, args) {
            self.flag_as(&hit.label, &hit.why);
            return;
        }
        if name.contains('/') {
            let here = self.folders();
            let own = special::is_environment_program(name) && self.paths.run(&here, word).is_none();
            return if own && !self.is_written(name) {
                self.check_listed(base, args, input)
            } else {
                self.check_local_program(word)
            };
        }
        let tells = args.len() == 1 && matches!(args[0].text.as_str(), "--version" | "--help");
        if !tells {
            self.check_listed(name, args, input);
        }
    }

    /// Checks a program by its name.
    pub(super) fn check_listed(&mut self, name: &str, args: &[Word], input: Input) {
        if self.check_special(name, args, input) {
            return;
        }
        let texts: Vec<&str> = std::iter::once(name).chain(args.iter().map(|word| word.text.as_str())).collect();
        match programs::find(&texts) {
            Some((spec, count)) if args[..count - 1].iter().all(|word| word.known && !word.glob) => {
                self.check_arguments(&texts[..count].join(" "), spec, &args[count - 1..], input);
            }
            Some(_) => self.flag(ARGUMENTS),
            None => self.add_finding(None, UNLISTED, true),
        }
    }

    /// Compares arguments with an entry of the table.
    pub(super) fn check_arguments(&mut self, name: &str, spec: &ProgramSpec, args: &[Word], input: Input) {
        let written = self.written.clone();
        let Some((options, operands)) = self.options(spec, args) else { return };
        let here = self.folders();
        let deep = special::is_deep(name, &options);
        match spec.operands {
            "same" => self.check_operands(name, &options, &operands, input),
            "none" if !operands.is_empty() => self.flag(ARGUMENTS),
            "name" if !operands.iter().all(is_name) => self.flag(ARGUMENTS),
            "one" if operands.len() > 1 => self.flag(ARGUMENTS),
            "read" | "one" => operands.iter().for_each(|word| self.check_read(&here, word, deep)),
            "pattern" => {
                let given = ["-e", "-f", "--regexp", "--file", "e"];
                let patterns = usize::from(!options.iter().any(|option| given.contains(option)));
                operands.iter().skip(patterns).for_each(|word| self.check_read(&here, word, deep));
                if operands.len() <= patterns && deep {
                    self.check_read(&here, &Word::plain("."), true);
                }
            }
            "write" => {
                operands.iter().for_each(|word| self.check_write(&here, word));
                // These programs change files of the working folder. Only `tee` adds new text.
                let is_written = |word: &Word| written.iter().any(|one| same_file(one, &word.text));
                if name != "tee" && !operands.iter().any(is_written) {
                    self.written = written;
                }
            }
            "copy" => self.check_copies(&here, name, &options, &operands, deep),
            "local" => match operands.first() {
                Some(program) => self.check_script(program),
                None if options.iter().any(|option| special::TELLS.contains(option)) => {}
                None => self.flag("it runs a program that it loads from elsewhere"),
            },
            "inside" => {
                for word in &operands {
                    self.check_inside(&here, word);
                }
                // A file that is built from the working folder counts as a program of it.
                self.written = written;
                self.check_build();
            }
            _ => {}
        }
    }

    /// Splits arguments into options and operands. Returns `None` after recording a reason if an option is not
    /// allowed.
    fn options<'a>(&mut self, spec: &ProgramSpec, args: &'a [Word]) -> Option<(Vec<&'a str>, Vec<Word>)> {
        let (mut options, mut operands) = (Vec::new(), Vec::new());
        let here = self.folders();
        let harmless = spec.any && spec.denied.is_empty() || matches!(spec.operands, "write" | "copy");
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if text == "--" {
                operands.extend(rest.by_ref().cloned());
                break;
            }
            if word.may_be_option() && !harmless {
                self.flag("a file name pattern may expand to an option");
                return None;
            }
            if !text.starts_with('-') || text.len() == 1 {
                operands.push(word.clone());
                continue;
            }
            let next = rest.clone().next();
            let (found, used) = spec.option(text, next.map(|word| word.text.as_str()));
            if !word.known || used && next.is_none_or(|next| !next.known || next.glob) {
                self.flag(ARGUMENTS);
                return None;
            }
            if used {
                rest.next();
            }
            for arg in found {
                match arg {
                    Arg::Option(option) => options.push(option),
                    Arg::Denied => {
                        self.flag(ARGUMENTS);
                        return None;
                    }
                    Arg::File(path, Value::Write) => self.check_write(&here, &Word::plain(path)),
                    Arg::File(path, _) | Arg::Perhaps(path) => self.check_read(&here, &Word::plain(path), false),
                }
            }
            if spec.any {
                options.push(text);
            }
        }
        Some((options, operands))
    }

    fn check_copies(&mut self, here: &Folders, name: &str, options: &[&str], operands: &[Word], deep: bool) {
        let into = options.iter().any(|option| matches!(*option, "t" | "--target-directory"));
        let (sources, target) = match operands.split_last() {
            Some((target, sources)) if !into => (sources, Some(target)),
            _ => (operands, None),
        };
        for source in sources {
            self.check_read(here, source, deep);
            let text = source.text.as_str();
            let program = text.contains("hermes-host") || source.glob && text.contains("her");
            let folder = text.starts_with('/') && (text.contains("/bin") || text.contains("/sbin"));
            if program || folder {
                self.flag("it copies a system program");
            }
            if text == "/dev/null" && name == "cp" {
                self.flag("it empties a file");
            }
        }
        let written = self.written.clone();
        if let Some(target) = target {
            self.check_write(here, target);
        }
        // A copy of a file of the working folder counts as a file of it.
        let own =
            |word: &Word| self.paths.is_inside(here, word) && !written.iter().any(|one| same_file(one, &word.text));
        if sources.iter().all(own) {
            self.written = written;
        } else {
            self.written.extend(sources.iter().map(|source| source.text.clone()));
        }
    }

    /// Requires a file or folder inside of the working folder.
    pub(super) fn check_inside(&mut self, here: &Folders, word: &Word) {
        let text = word.text.as_str();
        if text.contains("://") || text.starts_with(['@', '|']) || !self.paths.is_inside(here, word) {
            self.flag("it uses files outside the working folder");
        } else {
            self.check_read(here, word, false);
        }
    }

    /// Checks a program of the working folder.
    fn check_local_program(&mut self, word: &Word) {
        let here = self.folders();
        if let Some(why) = self.paths.run(&here, word) {
            self.flag(why);
        } else if self.remote {
            self.flag("it runs a program on another machine");
        } else if self.is_linked(&word.text) || self.is_written(&word.text) {
            self.flag("it runs a program that the command itself writes or links");
        }
    }

    /// Checks a script of the working folder that an interpreter runs.
    pub(super) fn check_script(&mut self, word: &Word) {
        match word.text.as_str() {
            "-" => self.flag("it runs a program that it loads from elsewhere"),
            _ => self.check_local_program(word),
        }
    }

    /// Checks a tool that runs files of the working folder.
    pub(super) fn check_build(&mut self) {
        const DATA: [&str; 9] = ["log", "txt", "md", "csv", "out", "html", "tsv", "pdf", "png"];
        let is_data = |path: &String| {
            let (_, ending) = path.rsplit_once('.').unwrap_or(("", ""));
            DATA.contains(&ending) || path.starts_with("/dev/")
        };
        if self.remote {
            self.flag("it runs a program on another machine");
        } else if self.brought || !self.written.iter().all(is_data) || !self.linked.is_empty() {
            self.flag("it runs files that the command itself writes");
        }
    }

    /// Returns true if the command writes the file, or may write it.
    pub(super) fn is_written(&self, path: &str) -> bool {
        self.brought || self.written.iter().any(|written| same_file(written, path))
    }
}

/// Returns true if a written path may be, or contain, another path.
fn same_file(written: &str, path: &str) -> bool {
    let name = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let folder = written.trim_start_matches("./").trim_end_matches('/');
    name(written) == name(path) || !folder.is_empty() && path.trim_start_matches("./").starts_with(folder)
}

/// Returns true if a word is a plain name: no URL, no absolute path, no unusual character.
pub(super) fn is_name(word: &Word) -> bool {
    let text = word.text.as_str();
    let plain = text.chars().all(|c| c.is_alphanumeric() || "_-./,:=+@%^~#{}* ".contains(c));
    word.known && plain && !text.contains("://") && !text.starts_with(['/', '~'])
}

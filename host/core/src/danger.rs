//! Which shell commands need approval.
//!
//! [`judge`] reads the command as a shell would, as far as that decides what runs, and
//! compares every command in it with the [`table`] and the operator's own patterns. What
//! is only known when it runs (a variable as a command's name, text that a shell reads
//! from elsewhere, code of another language) cannot be judged, and counts as dangerous.
//!
//! This is no sandbox: a program that a command starts may do anything that its user
//! may. It keeps an agent from doing the usual damage without somebody having said yes.

mod carried;
mod paths;
mod shell;
mod table;
mod wrapped;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use paths::Places;
use shell::{Known, Redirect, Simple, UNKNOWN, Word, is_reserved};

/// The longest command that is judged, in bytes; a longer one counts as dangerous.
const CODE_BYTES_MAX: usize = 64 << 10;

/// How deep code may stand in code.
const DEPTH_MAX: usize = 40;

/// Commands, wrapped ones included, that are looked at.
const COMMANDS_MAX: usize = 1_024;

/// Words of one command.
const WORDS_MAX: usize = 512;

/// What comparing one word with the [`table`] counts, in steps of [`paths::STEPS_MAX`].
const WORD_STEPS: usize = 256;

const TOO_LONG: &str = "it is too long or too deep to be read";

/// Characters of a dangerous command that are shown before why it is.
const SHOWN_CHARS_MAX: usize = 80;

/// Reasons that are told.
const REASONS_MAX: usize = 4;

/// What stands before the names of what is approved for longer.
const KIND: &str = "shell: ";

/// What is judged against besides the [`table`].
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The operator's own patterns, as in the table.
    pub patterns: Vec<String>,
    /// The folder of the host, absolute.
    pub host_home: String,
    /// A folder below it that may be read, absolute; empty for none.
    pub readable: String,
    /// The folder that the operator gave the work, absolute; empty for none. Below the host's it is not the host's.
    pub work: String,
    /// The home folder of the user, where it is known.
    pub user_home: Option<String>,
}

/// Why a command needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Danger {
    /// What an approval for longer covers, such as `shell: git reset, rm`; empty when it must not last.
    pub kind: String,
    /// What makes it dangerous, in a few words.
    pub why: String,
}

/// Judges what a shell is to run in the folder `cwd`. `None`: nothing dangerous is in it.
pub fn judge(command: &str, cwd: &str, rules: &Rules) -> Option<Danger> {
    let mut judge = Judge::new(command, cwd, rules);
    judge.begins_in(cwd);
    judge.code(command);
    judge.danger()
}

struct Judge<'r> {
    rules: &'r Rules,
    places: Places<'r>,
    /// Where `HOME` and `PWD` lead, unless the command changes them.
    home: Option<&'r str>,
    cwd: Option<&'r str>,
    depth: usize,
    /// Commands that are still looked at.
    left: usize,
    /// The commands as they stand, by what they are approved as.
    found: BTreeMap<String, Found>,
    /// The command that is looked at, as it stands.
    text: String,
    unclear: BTreeSet<&'static str>,
}

impl<'r> Judge<'r> {
    fn new(command: &str, cwd: &'r str, rules: &'r Rules) -> Self {
        // A command that gives these a value of its own is not second-guessed.
        let names = |name: &str| {
            let used = format!("${name}");
            command.replace(&used, "").replace(&format!("${{{name}}}"), "").contains(name)
        };
        let moves = ["cd", "pushd", "popd", "chdir"].iter().any(|word| command.contains(word));
        Self {
            rules,
            places: Places::new(cwd, &rules.work, &rules.host_home, &rules.readable),
            home: rules.user_home.as_deref().filter(|_| !names("HOME")),
            cwd: Some(cwd).filter(|cwd| !cwd.is_empty() && !names("PWD") && !moves),
            depth: 0,
            left: COMMANDS_MAX,
            found: BTreeMap::new(),
            text: String::new(),
            unclear: BTreeSet::new(),
        }
    }

    fn danger(self) -> Option<Danger> {
        let names: Vec<&str> = self.found.keys().map(String::as_str).collect();
        let known = self.found.iter().map(|(name, found)| match found.text.as_str() {
            "" => format!("{name}: {}", found.why),
            text => format!("`{text}`: {}", found.why),
        });
        let unclear = self.unclear.iter().map(|why| (*why).to_owned());
        let reasons: Vec<String> = known.chain(unclear).take(REASONS_MAX).collect();
        (!reasons.is_empty()).then(|| Danger {
            kind: if self.unclear.is_empty() { format!("{KIND}{}", names.join(", ")) } else { String::new() },
            why: reasons.join("; "),
        })
    }

    /// What is looked at is dangerous; `name`: what it is approved as.
    fn catch(&mut self, name: impl Into<String>, why: &str) {
        self.found.insert(name.into(), Found { text: self.text.clone(), why: why.to_owned() });
    }

    /// The folder is judged as if it stood in the command.
    fn begins_in(&mut self, cwd: &str) {
        if !cwd.is_empty() {
            self.text = shown(&[Word::literal(cwd)]);
            self.mentioned(&Word::literal(cwd), false);
        }
    }

    /// Judges code of a shell.
    fn code(&mut self, code: &str) {
        if code.len() > CODE_BYTES_MAX || code.contains(UNKNOWN) {
            self.unclear.insert("it is too long or too odd to be read");
            return;
        }
        if self.depth >= DEPTH_MAX {
            self.unclear.insert("it is nested too deeply");
            return;
        }
        if !self.places.spend(code.len()) {
            self.unclear.insert(TOO_LONG);
            return;
        }
        self.depth += 1;
        match shell::read(code, Known { home: self.home, cwd: self.cwd }) {
            Ok(commands) => commands.iter().for_each(|command| self.command(command)),
            Err(shell::Unclear(why)) => {
                self.unclear.insert(why);
            }
        }
        if code.split_whitespace().collect::<String>().contains("(){") && code.contains(":|:") {
            self.text = shown(&[Word::literal(code)]);
            self.catch("fork bomb", "it starts itself without end");
        }
        self.depth -= 1;
    }

    /// Judges text as code, if all of it is known.
    fn word_as_code(&mut self, word: &Word) {
        match word.known && !word.splits {
            true => self.code(&word.text),
            false => {
                self.unclear.insert("a shell runs text that is only known when it runs");
            }
        }
    }

    fn command(&mut self, command: &Simple) {
        for redirect in &command.redirects {
            match redirect {
                Redirect::Write(target) => {
                    self.text = format!("> {}", shown(std::slice::from_ref(target)));
                    self.written(target);
                    self.mentioned(target, false);
                }
                Redirect::Read(target) => {
                    self.text = format!("< {}", shown(std::slice::from_ref(target)));
                    if self.places.is_network(&target.text) {
                        self.unclear.insert("it reads from the network through the shell");
                    }
                    self.mentioned(target, true);
                }
                Redirect::Text(_) => {}
            }
        }
        self.words(&command.words, &command.redirects, false);
    }

    /// Judges a command; `open`: more words come from elsewhere.
    fn words(&mut self, words: &[Word], redirects: &[Redirect], open: bool) {
        let bytes: usize = words.iter().map(|word| word.text.len()).sum();
        let enough = self.places.spend(bytes + words.len() * WORD_STEPS);
        if self.left == 0 || self.depth >= DEPTH_MAX || words.len() > WORDS_MAX || !enough {
            self.unclear.insert(TOO_LONG);
            return;
        }
        self.left -= 1;
        self.depth += 1;
        // What a command runs is shown as that, and behind it the command again.
        let around = std::mem::replace(&mut self.text, shown(words));
        self.named(words, redirects, open);
        self.text = around;
        self.depth -= 1;
    }

    fn named(&mut self, words: &[Word], redirects: &[Redirect], open: bool) {
        let reads = table::READERS.contains(&first(words));
        for word in words {
            self.mentioned(word, reads);
            self.assigned(word);
        }
        if self.places.is_spent() {
            self.unclear.insert(TOO_LONG);
            return;
        }
        let begin = words.iter().position(|word| !word.assigns && !is_reserved(word));
        let Some(begin) = begin else { return };
        let (name, args) = (&words[begin], &words[begin + 1..]);
        if !name.known || name.glob || name.splits {
            self.unclear.insert("the name of a command is only known when it runs");
            return;
        }
        let mut args = args.to_vec();
        if open {
            args.push(Word::anything());
        }
        let name = name.text.rsplit('/').next().unwrap_or_default();
        self.compare(name, &args);
        self.moves(name, &args);
        self.carried(name, &args, redirects);
        self.special(name, &args, redirects, open);
    }

    /// Compares with every pattern.
    fn compare(&mut self, name: &str, args: &[Word]) {
        let own = self.rules.patterns.iter().map(|pattern| (pattern.as_str(), "the operator wants to be asked"));
        for (pattern, why) in table::COMMANDS.iter().copied().chain(own) {
            match matches(pattern, name, args) {
                Some(Hit { label, sure: true }) => self.catch(label, why),
                Some(Hit { label, sure: false }) => {
                    let (text, why) = (self.text.clone(), format!("depending on what it is given, {why}"));
                    self.found.entry(label).or_insert(Found { text, why });
                }
                None => {}
            }
        }
    }

    /// Follows a command into another folder.
    fn moves(&mut self, name: &str, args: &[Word]) {
        if matches!(name, "cd" | "pushd" | "popd" | "chdir") {
            match args.iter().find(|word| !word.text.starts_with('-')) {
                Some(word) if word.known && !word.glob && name != "popd" => self.places.enter(&word.text),
                None if name == "cd" => match self.home {
                    Some(home) => self.places.enter(home),
                    None => self.places.lose(),
                },
                _ => self.places.lose(),
            }
        }
    }

    /// Something is written to a file.
    fn written(&mut self, target: &Word) {
        if !target.known || target.glob {
            self.unclear.insert("it writes to a file whose name is only known when it runs");
        } else if self.places.is_lost(&target.text) {
            self.unclear.insert("it writes to a folder that is only known when it runs");
        } else if self.places.is_guarded(&target.text, false) {
            self.catch("write to the system", "it writes where the machine or a shell starts");
        } else if self.places.in_home(&target.text, false) {
            self.catch("write to the host", "it writes to the host's own folder");
        }
    }

    /// A word may name the host's folder, or what the system tells of processes.
    fn mentioned(&mut self, word: &Word, reads: bool) {
        if self.places.names_process(&word.text, word.glob) {
            self.catch("processes", "it looks into processes");
        }
        if !self.places.names_home(&word.text, word.glob) {
            return;
        }
        let may_read = reads && word.known && self.places.is_readable(&word.text);
        if !may_read {
            self.catch("the host's folder", "it reads or changes the host's own folder");
        }
    }
}

/// Something dangerous.
struct Found {
    /// The command as it stands.
    text: String,
    why: String,
}

/// A command as it stands, as far as it fits: on one line, and without what would end the code that it is shown as.
fn shown(words: &[Word]) -> String {
    let word = |word: &Word| match word.text.chars().any(char::is_whitespace) || word.text.is_empty() {
        true => format!("'{}'", word.text),
        false => word.text.clone(),
    };
    let text: String = words.iter().map(word).collect::<Vec<_>>().join(" ");
    let mut text = text.chars().map(|c| match c {
        UNKNOWN => '…',
        '`' => '\'',
        c if c.is_control() => ' ',
        c => c,
    });
    let begin: String = text.by_ref().take(SHOWN_CHARS_MAX).collect();
    if text.next().is_some() { format!("{begin}…") } else { begin }
}

/// The name of a command, without its folder; empty where there is none.
fn first(words: &[Word]) -> &str {
    let first = words.iter().find(|word| !word.assigns && !is_reserved(word));
    first.map_or("", |word| word.text.rsplit('/').next().unwrap_or_default())
}

/// What fits a pattern.
struct Hit {
    /// The name under which it is approved: no word in it that does not stand in the command.
    label: String,
    /// Whether it fits whatever the arguments turn out to be.
    sure: bool,
}

/// Compares one pattern.
fn matches(pattern: &str, name: &str, args: &[Word]) -> Option<Hit> {
    let mut words = pattern.split_whitespace();
    let names = words.next()?;
    if !names.split('|').any(|pattern| glob(pattern, name)) {
        return None;
    }
    let mut hit = Hit { label: name.to_owned(), sure: true };
    for alternatives in words {
        let names = |pattern: &&str, sure: bool| {
            args.iter().any(|arg| (arg.known && !arg.splits || !sure) && is_argument(pattern, arg))
        };
        if let Some(word) = alternatives.split('|').find(|pattern| names(pattern, true)) {
            hit.label.push(' ');
            hit.label.push_str(word);
        } else if alternatives.split('|').any(|pattern| names(&pattern, false)) {
            hit.sure = false;
        } else {
            return None;
        }
    }
    Some(hit)
}

/// Whether an argument is, or may be, what a pattern names.
fn is_argument(pattern: &str, arg: &Word) -> bool {
    if arg.splits {
        return true;
    }
    if !arg.known {
        // What is known of it must fit.
        let begin = arg.text.split(UNKNOWN).next().unwrap_or_default();
        return begin.is_empty() || pattern.starts_with(begin) || glob(pattern, begin);
    }
    let text = arg.text.as_str();
    if glob(pattern, text) || glob(pattern, &text.to_ascii_lowercase()) {
        return true;
    }
    if pattern.starts_with("--") {
        // Long options may be cut short, and may carry a value.
        let option = text.split('=').next().unwrap_or_default();
        return option.len() > 3 && pattern.starts_with(option);
    }
    let mut letters = pattern.strip_prefix('-').unwrap_or_default().chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => text.starts_with('-') && !text.starts_with("--") && text.contains(letter),
        _ => false,
    }
}

/// Whether a text fits a pattern in which `*` stands for anything.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

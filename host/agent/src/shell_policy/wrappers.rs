//! Programs that run another one, and shells.

use super::evaluator::{ARGUMENTS, Evaluator, Input};
use super::word::Word;
use super::{patterns, programs, shown};

/// Variables that only affect output, tests and log levels.
const VARIABLES: &str = " RUST_LOG RUST_BACKTRACE NODE_ENV CI DEBUG PORT LANG LC_ALL LC_CTYPE TZ NO_COLOR FORCE_COLOR \
    CLICOLOR PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_BUILD_JOBS GOOS GOARCH \
    CGO_ENABLED COLUMNS LINES TERM FLASK_ENV FLASK_DEBUG RAILS_ENV APP_ENV LOG_LEVEL VERBOSE HOST SKIP COVERAGE \
    DOCKER_BUILDKIT UV_OFFLINE PYTHONHASHSEED RUST_TEST_THREADS PROPTEST_CASES ";

/// A program that runs another one: name, options with a value, other options, and number of operands before
/// the inner program.
pub(super) type Wrapper = (&'static str, &'static [&'static str], &'static [&'static str], usize);

/// All programs that run another one.
pub(super) const WRAPPERS: [Wrapper; 8] = [
    ("nohup", &[], &[], 0),
    ("nice", &["-n", "--adjustment"], &[], 0),
    ("ionice", &["-c", "-n", "--class", "--classdata"], &["-t"], 0),
    (
        "timeout",
        &["-k", "-s", "--kill-after", "--signal"],
        &["-v", "--preserve-status", "--foreground", "--verbose"],
        1,
    ),
    ("time", &["-f", "--format"], &["-p", "-v", "--verbose", "--portability"], 0),
    ("stdbuf", &["-i", "-o", "-e"], &[], 0),
    ("setsid", &[], &["-w", "-f", "--wait", "--fork"], 0),
    ("command", &[], &["-p"], 0),
];

/// Shells.
pub(super) const SHELLS: [&str; 8] = ["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh"];

/// Returns true if a variable may be set for a command.
pub(super) fn is_harmless_variable(name: &str, value: &Word) -> bool {
    let plain = value.text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.,:=/+*".contains(c));
    VARIABLES.split_whitespace().any(|one| one == name) && value.known && plain && !value.text.contains("..")
}

impl Evaluator<'_> {
    pub(super) fn check_environment(&mut self, name: &str, args: &[Word], input: Input) {
        if name == "printenv" {
            const SHOWN: [&str; 9] = ["PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "PWD", "TZ", "VIRTUAL_ENV"];
            if args.is_empty() || !args.iter().all(|word| SHOWN.contains(&word.text.as_str())) {
                self.flag("it prints the environment");
            }
            return;
        }
        let begin = args.iter().position(|word| !word.text.contains('=') || word.text.starts_with('-'));
        let Some(begin) = begin else { return self.flag("it prints the environment") };
        for word in &args[..begin] {
            let (variable, value) = word.text.split_once('=').unwrap_or_default();
            if !word.known || !is_harmless_variable(variable, &Word::plain(value)) {
                self.flag("it sets a variable that may change what runs");
            }
        }
        match args[begin].text.starts_with('-') {
            true => self.flag(ARGUMENTS),
            false => self.check_words(&args[begin..], input),
        }
    }

    pub(super) fn check_wrapper(&mut self, wrapper: &Wrapper, args: &[Word], input: Input) {
        let (_, valued, flags, before) = *wrapper;
        let mut at = 0;
        while let Some(text) = args.get(at).map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
            let joined = valued.iter().any(|option| match option.starts_with("--") {
                true => text.strip_prefix(option).is_some_and(|value| value.starts_with('=')),
                false => text.len() > 2 && text.starts_with(option),
            });
            if text == "--" {
                at += 1;
                break;
            } else if valued.contains(&text) {
                at += 2;
            } else if flags.contains(&text) || joined || text[1..].chars().all(|c| c.is_ascii_digit()) {
                at += 1;
            } else {
                return self.flag(ARGUMENTS);
            }
        }
        let skipped = args.get(at..at + before).unwrap_or_default();
        if !skipped.iter().all(|word| word.known && word.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')) {
            return self.flag(ARGUMENTS);
        }
        match args.get(at + before..).filter(|rest| !rest.is_empty()) {
            Some(inner) => self.check_words(inner, input),
            None => self.flag(ARGUMENTS),
        }
    }

    pub(super) fn check_shell(&mut self, args: &[Word]) {
        const SETTINGS: [&str; 3] = ["pipefail", "errexit", "nounset"];
        let mut code = false;
        let mut rest = args.iter().peekable();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                if letters == "o" && rest.peek().is_some_and(|word| SETTINGS.contains(&word.text.as_str())) {
                    rest.next();
                    continue;
                }
                if !word.known || !letters.chars().all(|c| "euxlcn".contains(c)) {
                    return self.flag("a shell runs commands that cannot be analyzed");
                }
                code |= letters.contains('c');
                continue;
            }
            return match code {
                true if word.known && rest.next().is_none() => self.check_nested(text),
                true => self.flag("a shell runs text that is known only when it runs"),
                false => self.check_shell_script(word),
            };
        }
        self.flag("a shell runs commands that it loads from elsewhere");
    }

    /// Checks a script of a shell, which searches `PATH` if the script is not in its folder.
    fn check_shell_script(&mut self, word: &Word) {
        let here = self.folders();
        if word.known && !word.text.contains('/') && !self.paths.is_there(&here, &word.text) {
            return self.flag("a shell runs a script that is not in its folder");
        }
        self.check_script(word);
    }

    /// Checks code in an argument, which runs in a separate shell.
    pub(super) fn check_nested(&mut self, code: &str) {
        let here = self.folders();
        self.check_code(code);
        self.stay_in(here);
    }

    pub(super) fn check_xargs(&mut self, args: &[Word], input: Input) {
        const VALUED: [&str; 5] = ["-n", "-P", "-L", "-d", "-I"];
        let mut at = 0;
        while let Some(text) = args.get(at).map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
            at += match text {
                "-0" | "-r" | "-t" | "--null" | "--no-run-if-empty" | "-0r" | "-r0" => 1,
                _ if VALUED.contains(&text) => 2,
                _ if text.get(..2).is_some_and(|option| VALUED.contains(&option)) => 1,
                _ => return self.flag(ARGUMENTS),
            };
        }
        self.check_applied(args.get(at..).unwrap_or_default(), input == Input::Names);
    }

    /// Checks a program that gets file names as arguments. `inside` is true if they are files of the working
    /// folder.
    pub(super) fn check_applied(&mut self, words: &[Word], inside: bool) {
        let Some((name, args)) = words.split_first() else { return self.flag(ARGUMENTS) };
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        if let Some(hit) = patterns::find(&self.rules.patterns, &name.text, args) {
            self.text = shown(words);
            return self.flag_as(&hit.label, &hit.why);
        }
        let reads = match programs::find(&texts) {
            Some((spec, 1)) => {
                spec.any && spec.denied.is_empty() && matches!(spec.operands, "read" | "pattern" | "text")
            }
            _ => false,
        };
        if !reads || !inside || !name.known {
            return self.flag("it runs a program with arguments that are known only when it runs");
        }
        let args: Vec<Word> = words.iter().filter(|word| word.text != "{}").cloned().collect();
        self.check_words(&args, Input::Given);
    }
}

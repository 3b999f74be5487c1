//! Arguments that carry code which is not a shell's: values of variables that programs run
//! later, scripts of small languages, settings.

use super::shell::{Redirect, UNKNOWN, Word};
use super::{Judge, glob};

/// Variables whose value something runs, or by which something else is run. A `*` stands for anything.
const VARIABLES: [&str; 43] = [
    "BASH_ENV",
    "ENV",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "BASH_FUNC_*",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "PATH",
    "CDPATH",
    "SHELL",
    "LD_*",
    "DYLD_*",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH*",
    "GIT_PAGER",
    "GIT_CONFIG*",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "PAGER",
    "MANPAGER",
    "LESSOPEN",
    "LESSCLOSE",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "PYTHONSTARTUP",
    "PERL5*",
    "RUBYOPT",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "RSYNC_RSH",
    "TAR_OPTIONS",
];

/// Commands that give variables, named among their arguments, a value.
const GIVERS: [&str; 9] = ["read", "printf", "mapfile", "readarray", "getopts", "for", "select", "let", "declare"];

/// Modules of Python that do what their name says.
pub const MODULES: [&str; 22] = [
    "http.server",
    "venv",
    "pip",
    "pytest",
    "json.tool",
    "unittest",
    "compileall",
    "py_compile",
    "build",
    "ruff",
    "black",
    "mypy",
    "flake8",
    "isort",
    "pylint",
    "coverage",
    "zipfile",
    "tarfile",
    "calendar",
    "pyflakes",
    "uv",
    "site",
];

/// Settings of git that run nothing.
const SETTINGS: [&str; 10] = [
    "user.name=*",
    "user.email=*",
    "color.*",
    "core.quotepath=*",
    "init.defaultbranch=*",
    "advice.*",
    "commit.gpgsign=*",
    "log.*",
    "push.default=*",
    "http.*version=*",
];

/// Commands that write to the files they are given.
const WRITERS: [&str; 16] = [
    "tee", "curl", "wget", "ln", "touch", "mkdir", "tar", "bsdtar", "unzip", "patch", "sponge", "cpio", "gzip", "7z",
    "dd", "rsync",
];

impl Judge<'_> {
    /// What is dangerous about arguments, whatever the command's own danger is.
    pub(super) fn carried(&mut self, name: &str, args: &[Word], redirects: &[Redirect]) {
        // In the index of a list these run where something is calculated.
        let calculated = |word: &Word| ["[$(", "[`", "[<("].iter().any(|begin| word.text.contains(begin));
        if args.iter().any(calculated) || name == "let" && args.iter().any(|word| word.text.contains(['`', '$'])) {
            self.unclear.insert("a calculation may run a command");
        }
        let named = |word: &Word| VARIABLES.iter().any(|variable| glob(variable, &word.text));
        if GIVERS.contains(&name) && args.iter().any(named) {
            self.carries("a variable");
        }
        let writes = WRITERS.contains(&name) || name == "sed" && args.iter().any(in_place);
        if writes && args.iter().any(|word| self.is_guarded_argument(word)) {
            self.catch("write to the system", "it may write where the machine or a shell starts");
        }
        match name {
            "sed" | "gsed" => self.sed(args),
            "sqlite3" => self.sqlite(args, redirects),
            "kill" if !args.iter().all(|word| word.known && is_own_process(&word.text)) => {
                self.catch("kill", "it ends processes");
            }
            "crontab" if args.len() != 1 || args[0].text != "-l" => {
                self.catch("crontab", "it changes scheduled work");
            }
            "git" => self.git_settings(args),
            // Without a dash it is a letter that shows environments.
            "ps" if args.iter().any(|word| !word.known || !word.text.starts_with('-') && word.text.contains('e')) => {
                self.catch("processes", "it looks into processes");
            }
            _ => {}
        }
    }

    /// A value that something runs later.
    pub(super) fn assigned(&mut self, word: &Word) {
        let Some((name, value)) = word.text.split_once('=') else { return };
        let name = name.trim_end_matches('+');
        // Empty, it only keeps what is read together.
        let nothing = name == "IFS" && value.is_empty();
        if !nothing && VARIABLES.iter().any(|variable| glob(variable, name)) {
            self.carries("a variable");
        }
    }

    fn carries(&mut self, what: &str) {
        self.catch(what, "it decides what other commands run");
    }

    fn is_guarded_argument(&self, word: &Word) -> bool {
        let value = word.text.split_once('=').map(|(_, value)| value);
        let joined = word.text.strip_prefix('-').and_then(|_| word.text.get(2..));
        let mut paths = [Some(word.text.as_str()), value, joined].into_iter().flatten();
        !word.text.contains("://") && paths.any(|path| self.places.is_guarded(path, word.glob))
    }

    fn git_settings(&mut self, args: &[Word]) {
        for (at, word) in args.iter().enumerate() {
            // Behind the name of what git does, the same letter means something else.
            if !word.text.starts_with('-') && (at == 0 || !matches!(args[at - 1].text.as_str(), "-c" | "-C")) {
                return;
            }
            let is_harmless = |setting: &Word| {
                let text = setting.text.to_ascii_lowercase();
                setting.known && SETTINGS.iter().any(|known| glob(known, &text))
            };
            let sets = word.text == "-c" && !args.get(at + 1).is_some_and(is_harmless);
            if sets || word.text.starts_with("--config-env") || word.text.starts_with("--exec-path=") {
                self.carries("git -c");
            }
        }
    }

    fn sqlite(&mut self, args: &[Word], redirects: &[Redirect]) {
        const CALLS: [&str; 6] = ["|", "load_extension", "writefile", "edit(", "-init", "fts3_tokenizer"];
        const DOTS: [&str; 7] = [".tables", ".schema", ".headers", ".mode", ".indexes", ".databases", ".dump"];
        let runs = |word: &Word| {
            let text = word.text.trim_start();
            let dot = text.starts_with('.') && !text.contains('/') && !DOTS.iter().any(|dot| text.starts_with(dot));
            !word.known || dot || text.contains("\n.") || CALLS.iter().any(|call| text.contains(call))
        };
        let told = args.iter().filter(|word| !word.text.starts_with('-')).count();
        if told < 2 || !redirects.iter().all(|redirect| matches!(redirect, Redirect::Write(_))) || args.iter().any(runs)
        {
            self.unclear.insert("it runs code that cannot be judged");
        }
    }

    fn sed(&mut self, args: &[Word]) {
        let (mut scripts, mut said) = (Vec::new(), false);
        for (at, word) in args.iter().enumerate() {
            let text = word.text.as_str();
            let before = at.checked_sub(1).map(|before| args[before].text.as_str()).unwrap_or_default();
            if before.starts_with('-') && !before.starts_with("--") && before.ends_with('e') || before == "--expression"
            {
                scripts.push(text);
                said = true;
            } else if let Some(script) = text.strip_prefix("-e").or_else(|| text.strip_prefix("--expression=")) {
                scripts.extend(Some(script).filter(|script| !script.is_empty()));
                said = true;
            } else if text.starts_with("-f") || text.starts_with("--file") {
                said = true;
            }
        }
        if !said {
            scripts.extend(args.iter().map(|word| word.text.as_str()).find(|text| !text.starts_with('-')));
        }
        if scripts.iter().any(|script| script.contains(UNKNOWN) || !edits_only(script)) {
            self.unclear.insert("a script of sed may run or write something");
        }
    }
}

fn in_place(word: &Word) -> bool {
    word.text.starts_with("--in-place")
        || word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('i')
}

/// Whether this is a job of the same shell, or a question about signals.
fn is_own_process(text: &str) -> bool {
    text.starts_with('%') || matches!(text, "-l" | "-L" | "-0" | "--list")
}

/// Whether a script of sed neither runs a command nor writes to another file. What is not understood does.
fn edits_only(script: &str) -> bool {
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '$' | '~' | '+' | '0'..='9' | 'I' | 'M' => {}
            '/' if !skipped(&mut rest, '/') => return false,
            '/' => {}
            '\\' => match rest.next() {
                Some(end) if skipped(&mut rest, end) => {}
                _ => return false,
            },
            's' | 'y' => {
                let Some(end) = rest.next() else { return false };
                if !skipped(&mut rest, end) || !skipped(&mut rest, end) {
                    return false;
                }
                while let Some(flag) = rest.next_if(|flag| !matches!(flag, ';' | '}' | '\n')) {
                    if !matches!(flag, 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | ' ' | '0'..='9') {
                        return false;
                    }
                }
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | '=' | 'q' | 'Q' | 'l' | 'z' | 'F' => {}
            ':' | 'b' | 't' | 'T' => while rest.next_if(|c| !matches!(c, ';' | '}' | '\n')).is_some() {},
            // Their text goes to the end of the line, or of the script; what stands in further lines is not told apart.
            'a' | 'i' | 'c' => return !rest.any(|c| c == '\n'),
            _ => return false,
        }
    }
    true
}

/// Goes behind the next `end` that is not escaped.
fn skipped(rest: &mut impl Iterator<Item = char>, end: char) -> bool {
    while let Some(c) = rest.next() {
        if c == end {
            return true;
        }
        if c == '\\' {
            rest.next();
        }
    }
    false
}

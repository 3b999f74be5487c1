//! Programs whose arguments the table cannot describe: shell built-ins, programs that run another one, and
//! programs that work on files.

use super::evaluator::{ARGUMENTS, Input, Judge, is_name};
use super::parse::Command;
use super::word::Word;
use super::{patterns, programs, scripts, shown};

/// Options with which an interpreter needs no script.
pub const TELLS: [&str; 7] = ["--test", "--version", "v", "-v", "-V", "version", "-version"];

/// Variables that only affect output, tests and log levels.
const VARIABLES: &str = " RUST_LOG RUST_BACKTRACE NODE_ENV CI DEBUG PORT LANG LC_ALL LC_CTYPE TZ NO_COLOR FORCE_COLOR \
    CLICOLOR PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_BUILD_JOBS GOOS GOARCH \
    CGO_ENABLED COLUMNS LINES TERM FLASK_ENV FLASK_DEBUG RAILS_ENV APP_ENV LOG_LEVEL VERBOSE HOST SKIP COVERAGE \
    DOCKER_BUILDKIT UV_OFFLINE PYTHONHASHSEED RUST_TEST_THREADS PROPTEST_CASES ";

/// A program that runs another one: name, options with a value, other options, and number of operands before
/// the inner program.
type Wrapper = (&'static str, &'static [&'static str], &'static [&'static str], usize);

const WRAPPERS: [Wrapper; 8] = [
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
const SHELLS: [&str; 8] = ["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh"];

/// Returns true if a variable may be set for a command.
pub fn is_harmless_variable(name: &str, value: &Word) -> bool {
    let plain = value.text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.,:=/+*".contains(c));
    VARIABLES.split_whitespace().any(|one| one == name) && value.known && plain && !value.text.contains("..")
}

/// Returns true if a command prints names of files in the working folder.
pub fn prints_names(command: &Command) -> bool {
    let Command::Simple(simple) = command else { return false };
    let words: Vec<&str> = simple.words.iter().map(|word| word.text.as_str()).collect();
    let inside = words.iter().all(|word| !word.starts_with(['/', '~']) && !word.contains(".."));
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let lists = match words.first().copied().unwrap_or_default() {
        "find" | "fd" | "fdfind" => !has(&["-printf", "-exec"]),
        "ls" => true,
        "git" => words.get(1) == Some(&"ls-files") || has(&["--name-only"]),
        "rg" | "grep" => has(&["-l", "--files-with-matches", "--files", "-rl", "-rln", "-rlE", "-lr", "-Rl"]),
        _ => false,
    };
    lists && inside && simple.redirects.is_empty()
}

/// Returns true if a command has no output, so that a redirection only empties its file. `fed` is true if the
/// command has an input.
pub fn prints_nothing(words: &[Word], fed: bool) -> bool {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    match texts[..] {
        [] | [":" | "true" | "false", ..] | ["cat", "/dev/null"] | ["printf", ""] => true,
        ["echo", "-n"] | ["echo", "-n", ""] | ["exec", ..] => true,
        ["cat"] => !fed,
        _ => false,
    }
}

/// Returns true if a path names an interpreter of a virtual environment in the working folder.
pub fn is_environment_program(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    folder.ends_with("bin") && (is_python(name) || name.starts_with("pip"))
}

/// Returns true if a name is that of Python.
pub fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Returns true if a program reads folders with all their contents.
pub fn is_deep(name: &str, options: &[&str]) -> bool {
    let recursive = |option: &&str| {
        let long = option.starts_with("--");
        option.contains("recursive") || option.contains("archive") || !long && option.contains(['r', 'R', 'a'])
    };
    match name {
        "rg" | "ag" | "zip" => true,
        "grep" | "egrep" | "fgrep" | "cp" => options.iter().any(recursive),
        _ => false,
    }
}

impl Judge<'_> {
    /// Judges programs with special argument rules. Returns false if the table covers the program.
    pub fn special(&mut self, name: &str, args: &[Word], input: Input) -> bool {
        match name {
            "cd" | "pushd" | "popd" | "chdir" => self.moves(name, args),
            "." | "source" => self.sources(args),
            "env" | "printenv" => self.environment(name, args, input),
            "xargs" => self.xargs(args, input),
            "find" => self.find(args),
            "test" | "[" => self.test(args),
            "tar" | "bsdtar" => self.tar(args),
            "chmod" => self.chmod(args),
            "sed" | "gsed" => self.sed(args),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(args),
            "git" => self.git(args, input),
            "curl" => self.curl(args),
            "wget" => self.wget(args),
            "ssh" => self.ssh(args),
            "sqlite3" | "psql" | "mysql" | "mariadb" | "redis-cli" => self.database(name, args),
            "aws" | "gcloud" | "az" => self.cloud(name, args),
            "make" | "gmake" => self.make(args),
            "cmake" => self.cmake(args),
            "pip" | "pip3" => self.pip(args),
            "uv" => self.uv(args, input),
            "npx" => self.npx(args, input),
            "cargo" => self.cargo(args, input),
            "command" if args.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) => return false,
            name if SHELLS.contains(&name) => self.shell(args),
            name if is_python(name) => self.python(args, input),
            name => match WRAPPERS.iter().find(|wrapper| wrapper.0 == name) {
                Some(wrapper) => self.wrapper(wrapper, args, input),
                None => return false,
            },
        }
        true
    }

    /// Judges the operands of table programs with individual rules.
    pub fn operands_of(&mut self, name: &str, options: &[&str], operands: &[Word], input: Input) {
        let here = self.here();
        let text = |at: usize| operands.get(at).map(|word| word.text.as_str()).unwrap_or_default();
        let harmless = match name {
            "date" => operands.iter().all(|word| word.text.starts_with('+')),
            // Letters without a dash can print the environment of processes.
            "ps" => operands.iter().all(|word| !word.text.contains(['e', 'E']) && word.text.len() < 8),
            "ip" => {
                matches!(text(0), "a" | "addr" | "address" | "r" | "route" | "link" | "l" | "neigh" | "rule")
                    && operands.iter().all(is_name)
                    && matches!(text(1), "" | "show" | "list" | "ls" | "get")
            }
            "service" => operands.len() == 2 && text(1) == "status" || text(0) == "--status-all",
            "jq" | "yq" => {
                operands.iter().skip(1).for_each(|word| self.read(&here, word, false));
                operands.first().map_or(name == "jq", |filter| scripts::jq_reads(&filter.text))
            }
            // A plus sign starts an editor command.
            "less" => {
                operands.iter().for_each(|word| self.read(&here, word, false));
                !operands.iter().any(|word| word.text.starts_with('+'))
            }
            "ln" => return self.ln(options, operands),
            _ if name.starts_with("git ") => return self.git_operands(name, options, operands),
            _ if name.starts_with("kubectl ") || name.starts_with("oc ") => {
                operands.iter().all(|word| is_name(word) && !word.text.to_ascii_lowercase().contains("secret"))
            }
            _ => return self.built(name, operands, input),
        };
        if !harmless {
            self.ask(ARGUMENTS);
        }
    }

    fn moves(&mut self, name: &str, args: &[Word]) {
        let before = self.here();
        let is_flag = |word: &&Word| matches!(word.text.as_str(), "-P" | "-L" | "--");
        let operands: Vec<&Word> = args.iter().filter(|word| !is_flag(word)).collect();
        let entered = match operands[..] {
            [] if name == "popd" => Ok(self.visited.clone()),
            [word] if word.text == "-" && self.visited.len() > 1 => Ok(self.visited.clone()),
            [word] if !word.text.starts_with(['-', '+']) && !word.text.is_empty() => self.places.enter(&before, word),
            _ => Err("it leaves the working folder"),
        };
        match entered {
            Ok(_) if operands.first().is_some_and(|word| self.is_linked(&word.text)) => {
                self.ask("it follows a link that the command creates");
            }
            Ok(folders) => {
                self.visited.extend(folders.iter().cloned());
                self.visited.sort_unstable();
                self.visited.dedup();
                self.done = folders;
                self.failed = before;
            }
            Err(why) => self.ask(why),
        }
    }

    /// Permits only the activation script of a Python environment.
    fn sources(&mut self, args: &[Word]) {
        match args {
            [script] if script.text.ends_with("bin/activate") && script.text.contains('/') => self.script(script),
            _ => self.ask("it runs a script in this shell"),
        }
    }

    fn environment(&mut self, name: &str, args: &[Word], input: Input) {
        if name == "printenv" {
            const SHOWN: [&str; 9] = ["PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "PWD", "TZ", "VIRTUAL_ENV"];
            if args.is_empty() || !args.iter().all(|word| SHOWN.contains(&word.text.as_str())) {
                self.ask("it prints the environment");
            }
            return;
        }
        let begin = args.iter().position(|word| !word.text.contains('=') || word.text.starts_with('-'));
        let Some(begin) = begin else { return self.ask("it prints the environment") };
        for word in &args[..begin] {
            let (variable, value) = word.text.split_once('=').unwrap_or_default();
            if !word.known || !is_harmless_variable(variable, &Word::plain(value)) {
                self.ask("it sets a variable that may change what runs");
            }
        }
        match args[begin].text.starts_with('-') {
            true => self.ask(ARGUMENTS),
            false => self.words(&args[begin..], input),
        }
    }

    fn wrapper(&mut self, wrapper: &Wrapper, args: &[Word], input: Input) {
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
                return self.ask(ARGUMENTS);
            }
        }
        let skipped = args.get(at..at + before).unwrap_or_default();
        if !skipped.iter().all(|word| word.known && word.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')) {
            return self.ask(ARGUMENTS);
        }
        match args.get(at + before..).filter(|rest| !rest.is_empty()) {
            Some(inner) => self.words(inner, input),
            None => self.ask(ARGUMENTS),
        }
    }

    fn shell(&mut self, args: &[Word]) {
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
                    return self.ask("a shell runs commands that cannot be analyzed");
                }
                code |= letters.contains('c');
                continue;
            }
            return match code {
                true if word.known && rest.next().is_none() => self.nested(text),
                true => self.ask("a shell runs text that is known only when it runs"),
                false => self.shell_script(word),
            };
        }
        self.ask("a shell runs commands that it loads from elsewhere");
    }

    /// Judges a script of a shell, which searches `PATH` if the script is not in its folder.
    fn shell_script(&mut self, word: &Word) {
        let here = self.here();
        if word.known && !word.text.contains('/') && !self.places.is_there(&here, &word.text) {
            return self.ask("a shell runs a script that is not in its folder");
        }
        self.script(word);
    }

    /// Judges code in an argument, which runs in a separate shell.
    pub fn nested(&mut self, code: &str) {
        let here = self.here();
        self.code(code);
        self.stay(here);
    }

    fn xargs(&mut self, args: &[Word], input: Input) {
        const VALUED: [&str; 5] = ["-n", "-P", "-L", "-d", "-I"];
        let mut at = 0;
        while let Some(text) = args.get(at).map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
            at += match text {
                "-0" | "-r" | "-t" | "--null" | "--no-run-if-empty" | "-0r" | "-r0" => 1,
                _ if VALUED.contains(&text) => 2,
                _ if text.get(..2).is_some_and(|option| VALUED.contains(&option)) => 1,
                _ => return self.ask(ARGUMENTS),
            };
        }
        self.applied(args.get(at..).unwrap_or_default(), input == Input::Names);
    }

    /// Judges a program that gets file names as arguments. `inside` is true if they are files of the working
    /// folder.
    fn applied(&mut self, words: &[Word], inside: bool) {
        let Some((name, args)) = words.split_first() else { return self.ask(ARGUMENTS) };
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        if let Some(hit) = patterns::find(&self.rules.patterns, &name.text, args) {
            self.text = shown(words);
            return self.named(&hit.label, &hit.why);
        }
        let reads = match programs::find(&texts) {
            Some((spec, 1)) => {
                spec.any && spec.denied.is_empty() && matches!(spec.operands, "read" | "pattern" | "text")
            }
            _ => false,
        };
        if !reads || !inside || !name.known {
            return self.ask("it runs a program with arguments that are known only when it runs");
        }
        let args: Vec<Word> = words.iter().filter(|word| word.text != "{}").cloned().collect();
        self.words(&args, Input::Given);
    }

    fn find(&mut self, args: &[Word]) {
        const VALUED: &str = " -name -iname -path -ipath -wholename -type -size -mtime -mmin -atime -amin -ctime -cmin \
            -maxdepth -mindepth -perm -user -group -regex -iregex -regextype -lname -inum -links -fstype -xtype -newer \
            -anewer -cnewer -newermt -samefile -printf -uid -gid -newerct ";
        const PLAIN: &str = " -not ! -o -or -a -and ( ) -print -print0 -prune -empty -ls -xdev -mount -follow -L -P -H -quit \
            -true -false -executable -readable -writable -depth -daystart -noleaf ";
        let lists = |list: &str, text: &str| list.split_whitespace().any(|one| one == text);
        let here = self.here();
        let is_test =
            |word: &Word| word.text.starts_with(['-', '(', '!']) && !matches!(word.text.as_str(), "-L" | "-P" | "-H");
        let (roots, tests) = args.split_at(args.iter().position(is_test).unwrap_or(args.len()));
        if args.iter().any(|word| !word.known) || roots.iter().any(Word::may_be_option) {
            return self.ask(ARGUMENTS);
        }
        roots.iter().for_each(|word| self.read(&here, word, false));
        let mut at = 0;
        while let Some(word) = tests.get(at) {
            let text = word.text.as_str();
            // The shell expands an unquoted pattern to names, and a name may be a test.
            if word.glob && !word.quoted && word.may_be_option() {
                return self.ask("a file name pattern may expand to an option");
            }
            if lists(VALUED, text) {
                at += 2;
            } else if lists(PLAIN, text) {
                at += 1;
            } else if matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
                let ends = |word: &&Word| word.text != ";" && word.text != "+";
                let inner: Vec<Word> = tests[at + 1..].iter().take_while(ends).cloned().collect();
                let inside = roots.iter().all(|word| self.places.is_inside(&here, word));
                let around = std::mem::replace(&mut self.text, shown(&inner));
                self.applied(&inner, inside);
                self.text = around;
                at += inner.len() + 2;
            } else {
                return self.ask(ARGUMENTS);
            }
        }
    }

    fn test(&mut self, args: &[Word]) {
        const SIGNS: &str =
            " -e -f -d -s -r -w -x -h -L -n -z -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o -b -c -p -S -t ";
        let is_sign = |text: &str| SIGNS.split_whitespace().any(|sign| sign == text);
        let odd = args.iter().any(|word| word.text.starts_with('-') && !is_sign(&word.text));
        if odd || args.iter().any(Word::may_be_option) {
            self.ask(ARGUMENTS);
        }
    }

    fn tar(&mut self, args: &[Word]) {
        let here = self.here();
        let (mut letters, mut operands, mut archive) = (String::new(), Vec::new(), None);
        let mut rest = args.iter();
        let mut first = true;
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known || word.may_be_option() {
                return self.ask("a file name pattern may expand to an option");
            }
            let bundle = match text.strip_prefix('-') {
                Some(letters) if !letters.starts_with('-') && !letters.is_empty() => Some(letters),
                None if first => Some(text),
                _ => None,
            };
            first = false;
            if let Some(bundle) = bundle {
                for (at, letter) in bundle.char_indices() {
                    letters.push(letter);
                    if !matches!(letter, 'f' | 'C') {
                        continue;
                    }
                    let joined = text.starts_with('-') && at + 1 < bundle.len();
                    let value = if joined { Some(Word::plain(&bundle[at + 1..])) } else { rest.next().cloned() };
                    match value {
                        Some(value) if letter == 'f' => archive = Some(value),
                        Some(value) => self.write(&here, &value),
                        None => return self.ask(ARGUMENTS),
                    }
                    if joined {
                        break;
                    }
                }
                continue;
            }
            match text {
                "--list" => letters.push('t'),
                "--extract" => letters.push('x'),
                "--create" => letters.push('c'),
                "--gzip" | "--xz" | "--zstd" | "--bzip2" | "--verbose" | "--" => {}
                _ if text.starts_with("--exclude=") || text.starts_with("--strip-components=") => {}
                _ if text.starts_with("--") => return self.ask(ARGUMENTS),
                _ => operands.push(word),
            }
        }
        if !letters.chars().all(|c| "cxtzjJvfCkOap".contains(c)) {
            return self.ask(ARGUMENTS);
        }
        if archive.as_ref().is_some_and(|archive| archive.text.contains(':')) {
            return self.ask("it opens an archive on another machine");
        }
        match (archive.filter(|archive| archive.text != "-"), letters.contains('c')) {
            (Some(archive), true) => self.write(&here, &archive),
            (Some(archive), false) => {
                self.brought |= self.is_written(&archive.text);
                self.read(&here, &archive, false);
            }
            (None, creates) => self.brought |= !creates,
        }
        if letters.contains('c') {
            operands.iter().for_each(|word| self.read(&here, word, true));
        } else if self.remote && letters.contains('x') {
            self.ask("it writes on another machine");
        }
    }

    fn chmod(&mut self, args: &[Word]) {
        let here = self.here();
        let Some((mode, files)) = args.split_first().filter(|(_, files)| !files.is_empty()) else {
            return self.ask(ARGUMENTS);
        };
        let octal = mode.text.trim_start_matches('0');
        let is_octal = octal.len() == 3 && octal.chars().all(|c| ('0'..='7').contains(&c));
        let numbers = is_octal && octal.ends_with(['0', '1', '4', '5']) && !octal[1..2].contains(['2', '3']);
        let symbols = mode.text.split(',').all(|part| {
            let (who, what) = part.split_at(part.find(['+', '-', '=']).unwrap_or(part.len()));
            let rights = what.get(1..).unwrap_or_default();
            let opens = what.starts_with(['+', '=']) && rights.contains('w') && who.contains(['o', 'a', 'g']);
            let plain = who.chars().all(|c| "ugoa".contains(c)) && rights.chars().all(|c| "rwxX".contains(c));
            !what.is_empty() && plain && !opens
        });
        if !mode.known || mode.text.starts_with('-') || !(numbers || symbols) {
            return self.ask("it opens files to other users");
        }
        let written = self.written.clone();
        files.iter().for_each(|word| self.write(&here, word));
        // Only the permissions of the files change, not their contents.
        self.written = written;
    }

    fn ln(&mut self, options: &[&str], operands: &[Word]) {
        let here = self.here();
        let symbolic = options.iter().any(|option| matches!(*option, "s" | "--symbolic"));
        let (target, sources) = match operands {
            [source] => (source, std::slice::from_ref(source)),
            [sources @ .., target] => (target, sources),
            [] => return self.ask(ARGUMENTS),
        };
        let name = |word: &Word| word.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let mut linked = Vec::new();
        for source in sources {
            self.read(&here, source, false);
            let text = source.text.as_str();
            // A link to another entry of the working folder is permitted, unlike one to a program or to a
            // system file.
            let far = !symbolic || text.starts_with(['/', '~']) || source.glob || !source.known;
            if text.contains("hermes-host") || far && !self.places.is_inside(&here, source) {
                self.ask("it links to a file outside the working folder");
            }
            linked.push(name(source));
        }
        self.write(&here, target);
        if !matches!(target.text.as_str(), "." | "./") {
            linked.push(name(target));
        }
        self.linked.extend(linked);
    }

    fn sed(&mut self, args: &[Word]) {
        const FLAGS: &str = " -n -E -r -s -u -z --quiet --silent --regexp-extended -nE -En -nr ";
        let here = self.here();
        let (mut scripts, mut files, mut in_place) = (Vec::new(), Vec::new(), false);
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known {
                return self.ask("a sed program is known only when it runs");
            }
            let is_suffix = |text: &str| {
                text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '~' | '_') || "bakorig".contains(c))
            };
            match text {
                _ if FLAGS.split_whitespace().any(|flag| flag == text) => {}
                "-i" | "--in-place" | "-Ei" | "-ri" | "-ni" => in_place = true,
                "-e" | "--expression" | "-ne" | "-Ee" | "-nEe" => {
                    let Some(script) = rest.next() else { return self.ask(ARGUMENTS) };
                    scripts.push(script);
                }
                _ if text.starts_with("-i.") && is_suffix(&text[2..]) => in_place = true,
                _ if text.starts_with('-') && text.len() > 1 => return self.ask(ARGUMENTS),
                _ if word.may_be_option() && !word.quoted => {
                    return self.ask("a file name pattern may expand to an option");
                }
                _ => files.push(word),
            }
        }
        if scripts.is_empty() {
            if files.is_empty() {
                return self.ask(ARGUMENTS);
            }
            scripts.push(files.remove(0));
        }
        let edits =
            |script: &&Word| script.known && (!script.glob || script.quoted) && scripts::sed_edits(&script.text);
        if !scripts.iter().all(edits) {
            self.ask("a sed program may run commands or write files");
        }
        let written = self.written.clone();
        for file in files {
            match in_place {
                true => self.write(&here, file),
                false => self.read(&here, file, false),
            }
        }
        // An edited script could do anything, but it was already a file of the working folder.
        self.written = written;
    }

    fn awk(&mut self, args: &[Word]) {
        let here = self.here();
        let mut at = 0;
        while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-') && word.text.len() > 1) {
            if !word.known {
                return self.ask(ARGUMENTS);
            }
            at += match word.text.as_str() {
                "-F" | "-v" => 2,
                "--" => 1,
                text if text.starts_with("-F") || text.starts_with("-v") => 1,
                _ => return self.ask(ARGUMENTS),
            };
            if args[at - 1].text == "--" {
                break;
            }
        }
        let Some((program, files)) = args.get(at..).and_then(<[Word]>::split_first) else { return self.ask(ARGUMENTS) };
        if !program.known || program.glob && !program.quoted || !scripts::awk_prints(&program.text) {
            return self.ask("an awk program may run commands or write files");
        }
        files.iter().for_each(|word| self.read(&here, word, false));
    }

    /// Judges the output file of a transfer.
    pub fn fetched(&mut self, path: &Word) {
        let here = self.here();
        self.write(&here, path);
        if path.known && !path.text.starts_with("/dev/") && self.places.exists(&here, &path.text) {
            self.ask("it overwrites a file");
        }
    }
}

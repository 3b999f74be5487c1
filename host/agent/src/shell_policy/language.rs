//! Check of interpreters, package managers and build tools. They may run files of the working folder only.

use super::evaluator::{ARGUMENTS, Evaluator, Input, is_name};
use super::programs;
use super::word::Word;

/// Python modules that work on the working folder.
const MODULES: &str = " unittest compileall build py_compile doctest mkdocs sphinx site ";

/// Python modules that are also programs of the table.
const PROGRAMS: &str = " pytest black ruff mypy flake8 isort pylint pyflakes tox nox coverage ";

/// Programs of npm packages that work on the working folder.
const NODE_TOOLS: &str =
    " tsc eslint prettier jest vitest mocha vite next webpack rollup playwright cypress tsx ts-node ";

/// Names of build steps that reach beyond the working folder.
const FAR: &str = " install uninstall deploy publish release destroy drop wipe purge prod production upload ";

/// Commands of Django's `manage.py` that delete data or open a shell.
const FLUSHES: &str = " flush reset_db sqlflush dbshell shell shell_plus ";

const ELSEWHERE: &str = "it runs a program that it loads from elsewhere";
const CODE: &str = "it runs code in another language";
const INSTALLS: &str = "it installs packages for the whole system, or from an unusual place";
const REACHES: &str = "this build step may reach beyond the working folder";

fn lists(list: &str, text: &str) -> bool {
    list.split_whitespace().any(|one| one == text)
}

/// Returns true if a build step reaches beyond the working folder.
fn is_far(step: &str) -> bool {
    step.split([':', '-', '_', '.', '/']).any(|part| lists(FAR, &part.to_ascii_lowercase()))
}

/// Returns true if a word names a package of a registry.
fn is_package(word: &Word) -> bool {
    let text = word.text.as_str();
    let plain = text.chars().all(|c| c.is_alphanumeric() || "_-./@^~=<>!,[]*+".contains(c));
    let scoped = text.starts_with('@') || !text.contains('/');
    word.known && plain && scoped && !text.starts_with(['/', '~', '-', '.']) && !text.contains("..")
}

/// Returns the path before the extras of a requirement, such as `.[dev]`.
fn without_extras(text: &str) -> Word {
    Word::plain(text.split('[').next().unwrap_or_default())
}

impl Evaluator<'_> {
    pub(super) fn check_python(&mut self, args: &[Word], input: Input) {
        let mut at = 0;
        while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
            match word.text.as_str() {
                "-V" | "--version" | "-VV" | "--help" | "-h" => return,
                "-u" | "-B" | "-O" | "-OO" | "-I" | "-s" | "-E" | "-q" | "-v" | "-b" => at += 1,
                "-W" | "-X" => at += 2,
                "-m" => return self.check_module(args.get(at + 1..).unwrap_or_default(), input),
                "-" => return self.flag(ELSEWHERE),
                _ => return self.flag(CODE),
            }
        }
        let Some(script) = args.get(at) else { return self.flag(ELSEWHERE) };
        let step = args.get(at + 1).map(|word| word.text.as_str()).unwrap_or_default();
        if script.text.ends_with("manage.py") && lists(FLUSHES, step) {
            return self.flag("it deletes data, or opens a shell");
        }
        if script.text.ends_with("setup.py") && lists(" install upload register develop ", step) {
            return self.flag(INSTALLS);
        }
        self.check_script(script);
    }

    fn check_module(&mut self, args: &[Word], input: Input) {
        let Some((module, rest)) = args.split_first() else { return self.flag(CODE) };
        let here = self.folders();
        match module.text.as_str() {
            "pip" => self.check_pip(rest),
            "venv" | "virtualenv" => {
                // The environment is new and contains only programs of the system.
                let written = self.written.clone();
                for word in rest {
                    match word.text.as_str() {
                        "--clear" => return self.flag("it deletes files"),
                        text if text.starts_with("--") => {}
                        _ => self.check_write(&here, word),
                    }
                }
                self.written = written;
            }
            "json.tool" => match rest {
                [] => {}
                [file] => self.check_read(&here, file, false),
                _ => self.flag(ARGUMENTS),
            },
            "http.server" if rest.iter().all(|word| word.text.chars().all(|c| c.is_ascii_digit())) => {}
            name if lists(PROGRAMS, name) && module.known => self.check_listed(name, rest, input),
            name if lists(MODULES, name) && module.known => {
                for word in rest.iter().filter(|word| !word.text.starts_with('-')) {
                    self.check_inside(&here, word);
                }
                self.check_build();
            }
            _ => self.flag("it runs a Python module that is not on the list of harmless modules"),
        }
    }

    pub(super) fn check_pip(&mut self, args: &[Word]) {
        const FLAGS: &str = " -U --upgrade -q --quiet --no-cache-dir --no-deps --pre -qq -v --disable-pip-version-check \
            --no-input --prefer-binary ";
        const FILES: &str = " -r --requirement -c --constraint -e --editable ";
        let here = self.folders();
        let Some((command, rest)) = args.split_first() else { return };
        match command.text.as_str() {
            "list" | "show" | "freeze" | "check" | "index" | "--version" | "-V" | "help" | "debug" => {}
            "install" | "download" | "wheel" => {
                let mut rest = rest.iter();
                while let Some(word) = rest.next() {
                    let text = word.text.as_str();
                    if lists(FILES, text) {
                        match rest.next().filter(|file| file.known) {
                            Some(file) => self.check_inside(&here, &without_extras(&file.text)),
                            None => return self.flag(ARGUMENTS),
                        }
                    } else if word.known && (text.starts_with('.') || text.starts_with("./")) {
                        self.check_inside(&here, &without_extras(text));
                    } else if !lists(FLAGS, text) && !is_package(word) {
                        return self.flag(INSTALLS);
                    }
                }
                self.check_build();
            }
            _ => self.flag("it changes Python packages"),
        }
    }

    pub(super) fn check_uv(&mut self, args: &[Word], input: Input) {
        const FLAGS: &str = " --dev --all-extras --frozen --locked --quiet -q --upgrade ";
        let here = self.folders();
        let Some((command, rest)) = args.split_first() else { return };
        let first = rest.first().map(|word| word.text.as_str()).unwrap_or_default();
        match command.text.as_str() {
            "run" if first.ends_with(".py") => self.check_script(&rest[0]),
            "run" if !first.is_empty() && !first.starts_with('-') => self.check_words(rest, input),
            "pip" if lists(" install list show freeze check ", first) => self.check_pip(rest),
            "venv" => {
                let folders = rest.iter().filter(|word| !word.text.starts_with('-'));
                folders.for_each(|word| self.check_write(&here, word));
            }
            "sync" | "lock" | "tree" | "version" | "--version" | "build" | "init"
                if rest.iter().all(|word| lists(FLAGS, &word.text)) =>
            {
                self.check_build();
            }
            "add" | "remove" if rest.iter().all(|word| is_package(word) || word.text == "--dev") => {}
            _ => self.flag(ARGUMENTS),
        }
    }

    pub(super) fn check_npx(&mut self, args: &[Word], input: Input) {
        let is_flag = |word: &Word| lists(" --no-install --no --yes -y ", &word.text);
        let args = if args.first().is_some_and(is_flag) { &args[1..] } else { args };
        match args.split_first() {
            Some((tool, rest)) if lists(NODE_TOOLS, &tool.text) && tool.known => {
                self.check_listed(&tool.text, rest, input)
            }
            _ => self.flag("it runs a package that may come from elsewhere"),
        }
    }

    /// Checks a cargo command, which may begin with a toolchain. The table lists the rest.
    pub(super) fn check_cargo(&mut self, args: &[Word], input: Input) {
        let is_toolchain = |word: &Word| word.text.starts_with('+') && is_name(word);
        let args = if args.first().is_some_and(is_toolchain) { &args[1..] } else { args };
        let texts: Vec<&str> = std::iter::once("cargo").chain(args.iter().map(|word| word.text.as_str())).collect();
        let Some((spec, count)) = programs::find(&texts).filter(|(_, count)| *count > 1) else {
            return match args {
                [] => {}
                _ => self.flag("this cargo command is not on the list of harmless commands"),
            };
        };
        let own = &args[count - 1..];
        // Arguments after two dashes are for the built program or the compiler.
        let end = own.iter().position(|word| word.text == "--").unwrap_or(own.len());
        let behind = &own[end..];
        let is_lint = |word: &Word| word.text.starts_with('-') || is_name(word);
        let allowed = match texts[1] {
            "run" | "r" if own.iter().any(|word| word.text.contains("hermes-host")) => {
                return self.flag_as("hermes-host", "it controls the host that runs this agent");
            }
            "run" | "r" | "test" | "t" | "bench" | "nextest" => true,
            "clippy" | "fmt" | "add" => {
                behind.iter().all(is_lint) && !behind.iter().any(|word| word.text.contains("linker"))
            }
            _ => behind.is_empty(),
        };
        match allowed {
            true => self.check_arguments(&texts[..count].join(" "), spec, &own[..end], input),
            false => self.flag(ARGUMENTS),
        }
    }

    pub(super) fn check_make(&mut self, args: &[Word]) {
        const FLAGS: &str =
            " -k -n -s -B -i -w --dry-run --silent --always-make --keep-going --version --no-print-directory -q ";
        const VARIABLES: &str = " SHELL MAKEFLAGS MAKE .SHELLFLAGS GNUMAKEFLAGS MAKEFILES ";
        let here = self.folders();
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        let mut rest = args.iter().peekable();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known || word.glob {
                return self.flag(ARGUMENTS);
            }
            let jobs = text.strip_prefix("-j").or_else(|| text.strip_prefix("--jobs="));
            if lists(FLAGS, text) || jobs.is_some_and(digits) {
                rest.next_if(|next| text == "-j" && digits(&next.text));
            } else if lists(" -C -f --directory --file ", text) {
                let Some(file) = rest.next() else { return self.flag(ARGUMENTS) };
                self.check_inside(&here, file);
                if self.is_written(&file.text) {
                    return self.flag("it runs files that the command itself writes");
                }
            } else if text.starts_with('-') {
                return self.flag(ARGUMENTS);
            } else {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                let plain =
                    |text: &str, signs: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c));
                let inside = !value.starts_with(['/', '~']) && !text.contains("..");
                if !plain(name, "_-./:+")
                    || !plain(value, "_-./,+:")
                    || !inside
                    || lists(VARIABLES, name)
                    || is_far(name)
                {
                    return self.flag(REACHES);
                }
            }
        }
        self.check_build();
    }

    pub(super) fn check_cmake(&mut self, args: &[Word]) {
        const VALUED: &str = " -S -B --build --preset -G -j --config --parallel --target -t ";
        const SETS: [&str; 3] = ["-DCMAKE_BUILD_TYPE=", "-DCMAKE_EXPORT_COMPILE_COMMANDS=", "-DBUILD_"];
        let here = self.folders();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if lists(VALUED, text) {
                let Some(value) = rest.next() else { continue };
                if is_far(&value.text) && lists(" --target -t ", text) {
                    return self.flag(REACHES);
                }
                if lists(" -S -B --build ", text) {
                    self.check_inside(&here, value);
                }
            } else if !text.starts_with('-') {
                self.check_inside(&here, word);
            } else if !SETS.iter().any(|set| text.starts_with(set)) && !lists(" --version -LA -L ", text) {
                return self.flag(ARGUMENTS);
            }
        }
        self.check_build();
    }

    /// Checks the operands of build tools in the table.
    pub(super) fn check_build_operands(&mut self, name: &str, operands: &[Word], input: Input) {
        const PACKAGES: &str = " install i add ci uninstall update remove upgrade ";
        let (tool, command) = name.split_once(' ').unwrap_or((name, ""));
        let plain = |word: &Word| is_name(word) || word.quoted && word.known && !word.text.contains("://");
        let far = operands.iter().any(|word| is_far(&word.text));
        let node = lists(" npm yarn pnpm bun ", tool);
        match (tool, command) {
            ("yarn" | "pnpm", "exec") => self.check_npx(operands, input),
            _ if node && lists(PACKAGES, command) && !operands.iter().all(is_package) => self.flag(INSTALLS),
            _ if node
                && !lists(PACKAGES, command)
                && operands.first().is_some_and(|word| !is_name(word) || is_far(&word.text)) =>
            {
                self.flag(REACHES);
            }
            _ if node => self.check_build(),
            ("poetry" | "pipenv" | "hatch" | "pdm", "run") => match operands {
                [] => self.flag(ARGUMENTS),
                _ => self.check_words(operands, input),
            },
            ("bundle", "exec")
                if operands.first().is_none_or(|word| !lists(" rspec rake rails rubocop jekyll ", &word.text)) =>
            {
                self.flag(ARGUMENTS);
            }
            ("bundle" | "rake", _) if far || operands.iter().any(|word| word.text.contains("db:")) => {
                self.flag("it changes a database");
            }
            ("coverage", "run") => match operands.first() {
                Some(script) => self.check_script(script),
                None => self.flag(ARGUMENTS),
            },
            ("go", "install") if !operands.iter().all(|word| word.text.starts_with("./")) => self.flag(INSTALLS),
            ("mvn" | "mvnw" | "gradle" | "gradlew" | "poetry", _)
                if far || operands.iter().any(|word| word.text.contains(':') && tool == "mvn") =>
            {
                self.flag(REACHES);
            }
            _ if operands.iter().all(plain) && !operands.iter().any(|word| word.text.starts_with("../")) => {
                self.check_build()
            }
            _ => self.flag(ARGUMENTS),
        }
    }
}

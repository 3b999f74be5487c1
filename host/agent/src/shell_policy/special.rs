//! Programs whose arguments the table cannot describe, and the shell built-ins among them.

use super::evaluator::{ARGUMENTS, Input, Judge, is_name};
use super::parse::Command;
use super::scripts;
use super::word::Word;
use super::wrappers::{SHELLS, WRAPPERS};

/// Options with which an interpreter needs no script.
pub const TELLS: [&str; 7] = ["--test", "--version", "v", "-v", "-V", "version", "-version"];

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
}

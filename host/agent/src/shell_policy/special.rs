//! Programs whose arguments the table cannot describe, and the shell built-ins among them.

use super::evaluator::{ARGUMENTS, Evaluator, Input, is_name};
use super::parse::Command;
use super::scripts;
use super::word::Word;
use super::wrappers::{SHELLS, WRAPPERS};

/// Options with which an interpreter needs no script.
pub(super) const TELLS: [&str; 7] = ["--test", "--version", "v", "-v", "-V", "version", "-version"];

/// Returns true if a command prints names of files in the working folder.
pub(super) fn prints_names(command: &Command) -> bool {
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
pub(super) fn prints_nothing(words: &[Word], fed: bool) -> bool {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    match texts[..] {
        [] | [":" | "true" | "false", ..] | ["cat", "/dev/null"] | ["printf", ""] => true,
        ["echo", "-n"] | ["echo", "-n", ""] | ["exec", ..] => true,
        ["cat"] => !fed,
        _ => false,
    }
}

/// Returns true if a path names an interpreter of a virtual environment in the working folder.
pub(super) fn is_environment_program(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    folder.ends_with("bin") && (is_python(name) || name.starts_with("pip"))
}

/// Returns true if a name is that of Python.
pub(super) fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Returns true if a program reads folders with all their contents.
pub(super) fn is_deep(name: &str, options: &[&str]) -> bool {
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

impl Evaluator<'_> {
    /// Checks programs with special argument rules. Returns false if the table covers the program.
    pub(super) fn check_special(&mut self, name: &str, args: &[Word], input: Input) -> bool {
        match name {
            "cd" | "pushd" | "popd" | "chdir" => self.check_cd(name, args),
            "." | "source" => self.check_source(args),
            "env" | "printenv" => self.check_environment(name, args, input),
            "xargs" => self.check_xargs(args, input),
            "find" => self.check_find(args),
            "test" | "[" => self.check_test(args),
            "tar" | "bsdtar" => self.check_tar(args),
            "chmod" => self.check_chmod(args),
            "sed" | "gsed" => self.check_sed(args),
            "awk" | "gawk" | "mawk" | "nawk" => self.check_awk(args),
            "git" => self.check_git(args, input),
            "curl" => self.check_curl(args),
            "wget" => self.check_wget(args),
            "ssh" => self.check_ssh(args),
            "sqlite3" | "psql" | "mysql" | "mariadb" | "redis-cli" => self.check_database(name, args),
            "aws" | "gcloud" | "az" => self.check_cloud(name, args),
            "make" | "gmake" => self.check_make(args),
            "cmake" => self.check_cmake(args),
            "pip" | "pip3" => self.check_pip(args),
            "uv" => self.check_uv(args, input),
            "npx" => self.check_npx(args, input),
            "cargo" => self.check_cargo(args, input),
            "command" if args.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) => return false,
            name if SHELLS.contains(&name) => self.check_shell(args),
            name if is_python(name) => self.check_python(args, input),
            name => match WRAPPERS.iter().find(|wrapper| wrapper.0 == name) {
                Some(wrapper) => self.check_wrapper(wrapper, args, input),
                None => return false,
            },
        }
        true
    }

    /// Checks the operands of table programs with individual rules.
    pub(super) fn check_operands(&mut self, name: &str, options: &[&str], operands: &[Word], input: Input) {
        let here = self.folders();
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
                operands.iter().skip(1).for_each(|word| self.check_read(&here, word, false));
                operands.first().map_or(name == "jq", |filter| scripts::jq_reads(&filter.text))
            }
            // A plus sign starts an editor command.
            "less" => {
                operands.iter().for_each(|word| self.check_read(&here, word, false));
                !operands.iter().any(|word| word.text.starts_with('+'))
            }
            "ln" => return self.check_ln(options, operands),
            _ if name.starts_with("git ") => return self.check_git_operands(name, options, operands),
            _ if name.starts_with("kubectl ") || name.starts_with("oc ") => {
                operands.iter().all(|word| is_name(word) && !word.text.to_ascii_lowercase().contains("secret"))
            }
            _ => return self.check_build_operands(name, operands, input),
        };
        if !harmless {
            self.flag(ARGUMENTS);
        }
    }

    fn check_cd(&mut self, name: &str, args: &[Word]) {
        let before = self.folders();
        let is_flag = |word: &&Word| matches!(word.text.as_str(), "-P" | "-L" | "--");
        let operands: Vec<&Word> = args.iter().filter(|word| !is_flag(word)).collect();
        let entered = match operands[..] {
            [] if name == "popd" => Ok(self.visited.clone()),
            [word] if word.text == "-" && self.visited.len() > 1 => Ok(self.visited.clone()),
            [word] if !word.text.starts_with(['-', '+']) && !word.text.is_empty() => self.paths.enter(&before, word),
            _ => Err("it leaves the working folder"),
        };
        match entered {
            Ok(_) if operands.first().is_some_and(|word| self.is_linked(&word.text)) => {
                self.flag("it follows a link that the command creates");
            }
            Ok(folders) => {
                self.visited.extend(folders.iter().cloned());
                self.visited.sort_unstable();
                self.visited.dedup();
                self.done = folders;
                self.failed = before;
            }
            Err(why) => self.flag(why),
        }
    }

    /// Permits only the activation script of a Python environment.
    fn check_source(&mut self, args: &[Word]) {
        match args {
            [script] if script.text.ends_with("bin/activate") && script.text.contains('/') => self.check_script(script),
            _ => self.flag("it runs a script in this shell"),
        }
    }
}

//! Check of Git commands by their global options and operands.

use super::evaluator::{ARGUMENTS, Evaluator, Input, is_name};
use super::programs;
use super::word::Word;

/// Settings that only affect names, colours and defaults.
const SETTINGS: [&str; 16] = [
    "user.name",
    "user.email",
    "init.defaultbranch",
    "pull.rebase",
    "pull.ff",
    "color.ui",
    "core.autocrlf",
    "push.default",
    "push.autosetupremote",
    "core.quotepath",
    "advice.detachedhead",
    "rebase.autostash",
    "fetch.prune",
    "core.eol",
    "diff.algorithm",
    "log.date",
];

/// Branches shared with others.
const SHARED: [&str; 8] = ["main", "master", "trunk", "production", "prod", "release", "develop", "stable"];

const DISCARDS: &str = "it discards changes";
const SHARES: &str = "it changes a branch that others use";

impl Evaluator<'_> {
    pub(super) fn check_git(&mut self, args: &[Word], input: Input) {
        let here = self.folders();
        let mut at = 0;
        while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
            let next = args.get(at + 1);
            match word.text.as_str() {
                "--no-pager" | "-P" | "--no-optional-locks" => at += 1,
                "-C" => {
                    let Some(folder) = next else { return self.flag(ARGUMENTS) };
                    if !self.paths.is_inside(&here, folder) {
                        return self.flag("it works outside the working folder");
                    }
                    self.check_read(&here, folder, false);
                    at += 2;
                }
                "-c" if next.is_some_and(is_setting) => at += 2,
                "--version" | "--help" => return,
                _ => return self.flag("it passes git settings that may run commands"),
            }
        }
        let rest = args.get(at..).unwrap_or_default();
        let Some(command) = rest.first() else { return };
        let texts: Vec<&str> = std::iter::once("git").chain(rest.iter().map(|word| word.text.as_str())).collect();
        match programs::find(&texts) {
            Some((spec, count)) if count > 1 && command.known && !command.glob => {
                self.check_arguments(&texts[..count].join(" "), spec, &rest[count - 1..], input);
            }
            _ => self.flag("this git command is not on the list of harmless commands"),
        }
    }

    pub(super) fn check_git_operands(&mut self, name: &str, options: &[&str], operands: &[Word]) {
        let has = |wanted: &[&str]| options.iter().any(|option| wanted.contains(option));
        // Two colons select a remote helper, which is a program.
        let names = operands.iter().all(|word| is_name(word) && !word.text.contains("::"));
        let here = self.folders();
        match (name, operands) {
            ("git push", _) => self.check_git_push(operands),
            ("git checkout", _) => self.check_git_checkout(has(&["b", "--orphan"]), operands),
            ("git restore", _) if has(&["S", "--staged"]) => {
                operands.iter().for_each(|word| self.check_read(&here, word, false));
            }
            ("git restore", _) => self.flag_as("git restore", DISCARDS),
            ("git clean", _) if has(&["n", "--dry-run"]) => {}
            ("git config", _) => self.check_git_config(options, operands),
            ("git clone", [source, rest @ ..]) if is_repository(source) && rest.len() < 2 => {
                rest.iter().for_each(|word| self.check_write(&here, word));
                self.brought = true;
            }
            ("git remote add", [remote, source]) if is_name(remote) && is_repository(source) => {}
            ("git fetch" | "git pull" | "git ls-remote", _) if names => {}
            ("git fetch" | "git pull" | "git ls-remote", [source, rest @ ..])
                if is_repository(source) && rest.iter().all(is_name) => {}
            ("git worktree add", [folder, rest @ ..]) if rest.iter().all(is_name) => self.check_write(&here, folder),
            _ => self.flag(ARGUMENTS),
        }
    }

    fn check_git_push(&mut self, operands: &[Word]) {
        let is_shared = |branch: &str| {
            let last = branch.trim_start_matches("refs/heads/");
            let below = |shared: &str| last.strip_prefix(shared).is_some_and(|rest| rest.starts_with(['/', '-']));
            SHARED.iter().any(|shared| last == *shared || below(shared))
        };
        let here = self.folders();
        let on_shared = self.paths.branch(&here).as_deref().is_some_and(is_shared);
        let (remote, branches) = match operands.split_first() {
            Some((remote, branches)) => (remote.text.clone(), branches),
            None => (String::new(), operands),
        };
        if !remote.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
            return self.flag("it pushes to an address");
        }
        for word in branches {
            let text = word.text.as_str();
            if !is_name(word) || text.starts_with(['+', ':']) || text.contains('*') {
                return self.flag("it rewrites a published history");
            }
            let target = text.rsplit(':').next().unwrap_or_default();
            if is_shared(target) || text == "HEAD" && on_shared {
                return self.flag_as("git push", SHARES);
            }
        }
        if branches.is_empty() && on_shared {
            self.flag_as("git push", SHARES);
        }
    }

    fn check_git_checkout(&mut self, creates: bool, operands: &[Word]) {
        let here = self.folders();
        let is_file = |text: &str| {
            let name = text.rsplit('/').next().unwrap_or_default();
            let (_, ending) = name.rsplit_once('.').unwrap_or_default();
            let looks = !ending.is_empty() && !ending.chars().all(|c| c.is_ascii_digit());
            looks || text.starts_with("./") || text.ends_with('/') || text == "." || self.paths.exists(&here, text)
        };
        match operands {
            [branch] if is_name(branch) && !branch.glob && (creates || !is_file(&branch.text)) => {}
            [branch, from] if creates && is_name(branch) && is_name(from) => {}
            _ => self.flag_as("git checkout", DISCARDS),
        }
    }

    fn check_git_config(&mut self, options: &[&str], operands: &[Word]) {
        let reads = options.iter().any(|option| option.starts_with("--get") || matches!(*option, "l" | "--list"));
        let key = operands.first().map(|word| word.text.to_ascii_lowercase()).unwrap_or_default();
        match operands {
            [] if reads => {}
            [key] if is_name(key) => {}
            [_, _] if reads => {}
            [_, value] if SETTINGS.contains(&key.as_str()) && value.known && !value.text.starts_with('!') => {}
            _ => self.flag("it changes git settings that may run commands"),
        }
    }
}

/// Returns true if a setting for a single command is harmless.
fn is_setting(word: &Word) -> bool {
    let (key, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
    word.known && SETTINGS.contains(&key.to_ascii_lowercase().as_str()) && !value.starts_with('!')
}

/// Returns true if a repository has an ordinary URL.
fn is_repository(word: &Word) -> bool {
    let text = word.text.as_str();
    let plain = text.chars().all(|c| c.is_alphanumeric() || "_-./:@~+".contains(c));
    let address = ["https://", "http://", "ssh://", "git://"].iter().any(|scheme| text.starts_with(scheme));
    let short = text.starts_with("git@") && text.contains(':') && !text.contains("::");
    word.known && !word.glob && plain && (address || short) && !text.contains("/-")
}

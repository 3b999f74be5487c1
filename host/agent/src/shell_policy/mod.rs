//! The shell policy: the commands that run without approval.
//!
//! A command runs without approval if it consists of plain words, joined by pipes, `&&`, `||`, `;` or `&`, if its
//! redirections stay in the working folder, and if `programs.txt` lists every program in it with these arguments.
//! Every other command needs approval: a named danger, an unlisted program, and text that bash expands or evaluates.
//!
//! The policy is no sandbox. A program of the working folder runs without approval and may do anything that its user
//! may do.

mod git;
mod judge;
mod language;
mod named;
mod parse;
mod paths;
mod programs;
mod remote;
mod special;
mod texts;
mod word;

#[cfg(test)]
mod tests;

use judge::Judge;
use word::{UNKNOWN, Word};

/// Characters of a dangerous command that are shown before the reason.
const SHOWN_CHARS_MAX: usize = 80;

/// The settings of a policy.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The operator's own patterns, written as in `named.rs`.
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

/// The reason for which a command needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Danger {
    /// The name of an approval for longer, such as `shell: git reset, rm`; empty when it must not last.
    pub kind: String,
    /// The dangerous part of the command and the reason, in a few words.
    pub why: String,
    /// Whether the only reason is that programs are not listed.
    pub unlisted: bool,
}

/// Judges a command that runs in the folder `cwd`; `root`: the working folder of the turn. `None`: it needs no approval.
pub fn judge(command: &str, cwd: &str, root: &str, rules: &Rules) -> Option<Danger> {
    let mut judge = Judge::new(cwd, root, rules);
    judge.begins(cwd);
    judge.code(command);
    judge.danger()
}

/// A command as it stands, as far as it fits: on one line, and without a character that ends the code it is shown as.
fn shown(words: &[Word]) -> String {
    let word = |word: &Word| match word.text.chars().any(char::is_whitespace) || word.text.is_empty() {
        true => format!("'{}'", word.text),
        false => word.text.clone(),
    };
    shown_text(&words.iter().map(word).collect::<Vec<_>>().join(" "))
}

fn shown_text(text: &str) -> String {
    let mut text = text.trim().chars().map(|c| match c {
        UNKNOWN => '…',
        '`' => '\'',
        c if word::is_odd(c) || c.is_control() => ' ',
        c => c,
    });
    let begin: String = text.by_ref().take(SHOWN_CHARS_MAX).collect();
    if text.next().is_some() { format!("{begin}…") } else { begin }
}

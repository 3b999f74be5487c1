//! The shell policy: decides which commands run without approval.
//!
//! A command runs without approval if it consists of plain words, joined by pipes, `&&`, `||`, `;` or `&`, if
//! its redirections stay in the working folder, and if `programs.txt` lists every program in it with these
//! arguments. All other commands need approval: those with a dangerous pattern, with an unlisted program, or
//! with text that bash expands or evaluates.
//!
//! The policy is not a sandbox. A program of the working folder runs without approval and has all rights of its
//! user.

mod evaluator;
mod files;
mod git;
mod language;
mod parse;
mod paths;
mod patterns;
mod programs;
mod remote;
mod scripts;
mod special;
mod word;
mod wrappers;

#[cfg(test)]
mod tests;

use evaluator::Evaluator;
use word::{UNKNOWN, Word};

/// Characters of a dangerous command shown before the reason.
const SHOWN_CHARS_MAX: usize = 80;

/// The settings of a policy.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Patterns of the operator, in the syntax of `patterns.rs`.
    pub patterns: Vec<String>,
    /// Folder of the host, absolute.
    pub host_home: String,
    /// Readable folder inside of the host's folder, absolute; empty for none.
    pub readable: String,
    /// Working folder set by the operator, absolute; empty for none. Inside of the host's folder it does not
    /// count as part of it.
    pub work: String,
    /// Home folder of the user, if known.
    pub user_home: Option<String>,
}

/// The reason for which a command needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Danger {
    /// Name of a longer approval, such as `shell: git reset, rm`; empty if the approval must not last.
    pub kind: String,
    /// Dangerous part of the command and the reason, in a few words.
    pub why: String,
    /// True if the only reason is that programs are not listed.
    pub unlisted: bool,
}

/// Checks a command that runs in the folder `cwd`. `root` is the working folder of the turn. Returns `None` if
/// the command needs no approval.
pub fn judge(command: &str, cwd: &str, root: &str, rules: &Rules) -> Option<Danger> {
    let mut evaluator = Evaluator::new(cwd, root, rules);
    evaluator.check_start(cwd);
    evaluator.check_code(command);
    evaluator.into_danger()
}

/// Formats a command for display: on one line, truncated, and without characters that would end the code span.
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

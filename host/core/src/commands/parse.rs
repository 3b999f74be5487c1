//! Reads a text as a command.

use super::{Command, Gates, REGISTRY};
use crate::limits::{COMMAND_NAME_BYTES_MAX, COMMAND_PREFIX_CHARS_MIN};

/// How near a name must be to be offered, from 0 (nothing alike) to 1.
const NEARNESS_MIN: f64 = 0.5;

/// What a text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Words for the agent. A path (`/usr/bin/x`) is no command.
    NotCommand,
    /// A command.
    Command {
        /// Its row.
        spec: &'static Command,
        /// What stands behind it, trimmed.
        args: String,
    },
    /// It looks like a command, and there is none of that name.
    Unknown {
        /// The name as it was typed, in lower case.
        name: String,
        /// The command that may have been meant.
        nearest: Option<&'static str>,
    },
}

/// Reads a text as a command. `prefix` is what may stand before a name besides
/// `/`; empty: nothing else. What `gates` closes is unknown.
///
/// A name may be followed by `@account` and may be shortened to three letters or
/// more where that fits one command only. A dash that a keyboard made of `--` is
/// made `--` again.
pub fn parse(text: &str, prefix: &str, gates: &Gates) -> Parsed {
    let Some((name, args)) = split(text.trim(), prefix) else {
        return Parsed::NotCommand;
    };
    let name = name.to_ascii_lowercase();
    match resolve(&name, gates) {
        Some(spec) => Parsed::Command { spec, args: repair_dashes(args) },
        None => {
            let nearest = nearest(&name, gates);
            Parsed::Unknown { name, nearest }
        }
    }
}

/// Returns the open command whose name or alias is most like a word.
pub fn nearest(name: &str, gates: &Gates) -> Option<&'static str> {
    let mut best: Option<(f64, &'static str)> = None;
    for (candidate, command) in names(gates) {
        let likeness = strsim::normalized_damerau_levenshtein(name, candidate);
        if likeness >= NEARNESS_MIN && best.is_none_or(|(so_far, _)| likeness > so_far) {
            best = Some((likeness, command.name));
        }
    }
    best.map(|(_, name)| name)
}

/// Whether a text is a slash command with the name of an account behind it, `/stop@this_bot`.
pub fn names_an_account(text: &str) -> bool {
    let text = text.trim();
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    word.contains('@') && split(text, "").is_some()
}

/// Splits a text into the name of a command and what follows; `None` when it is no command.
fn split<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let rest = text.strip_prefix('/').or_else(|| text.strip_prefix(prefix).filter(|_| !prefix.is_empty()))?;
    let (word, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name = word.split_once('@').map_or(word, |(name, _account)| name);
    let is_name = name.len() <= COMMAND_NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && !word.contains('/');
    is_name.then(|| (name, args.trim()))
}

/// Finds a command by name, alias or a unique beginning; `_` and `-` are the same.
fn resolve(name: &str, gates: &Gates) -> Option<&'static Command> {
    let name = name.replace('_', "-");
    if let Some((_, command)) = names(gates).find(|(known, _)| *known == name) {
        return Some(command);
    }
    if name.len() < COMMAND_PREFIX_CHARS_MIN {
        return None;
    }
    let mut fitting = names(gates).filter(|(known, _)| known.starts_with(&name)).map(|(_, command)| command);
    let first = fitting.next()?;
    fitting.all(|other| other.id == first.id).then_some(first)
}

/// Every name and alias of the open commands, in the order of the table.
fn names(gates: &Gates) -> impl Iterator<Item = (&'static str, &'static Command)> {
    REGISTRY.iter().filter(|command| gates.is_open(command)).flat_map(|command| {
        std::iter::once(command.name).chain(command.aliases.iter().copied()).map(move |name| (name, command))
    })
}

/// Makes `—global` (or `–global`) `--global` again, at the beginning of words only.
fn repair_dashes(args: &str) -> String {
    let mut repaired = String::with_capacity(args.len() + 2);
    let mut at_word_start = true;
    let mut rest = args.chars().peekable();
    while let Some(c) = rest.next() {
        let is_dash = matches!(c, '\u{2013}' | '\u{2014}');
        if is_dash && at_word_start && rest.peek().is_some_and(char::is_ascii_alphabetic) {
            repaired.push_str("--");
        } else {
            repaired.push(c);
        }
        at_word_start = c.is_whitespace();
    }
    repaired
}

//! Parser for slash commands.

use super::{Command, Gates, REGISTRY};
use crate::limits::{COMMAND_NAME_BYTES_MAX, COMMAND_PREFIX_CHARS_MIN};

/// Lowest similarity of a suggested name, from 0 (nothing alike) to 1 (equal).
const NEARNESS_MIN: f64 = 0.5;

/// Result of parsing a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Text for the agent. A path (`/usr/bin/x`) is not a command.
    NotCommand,
    /// A command.
    Command {
        /// Row of the command.
        spec: &'static Command,
        /// Arguments, trimmed.
        args: String,
    },
    /// The text has the form of a command, but no command has this name.
    Unknown {
        /// Name as typed, in lower case.
        name: String,
        /// Most similar command.
        nearest: Option<&'static str>,
    },
}

/// Parses a text as a command. `prefix` is accepted before a name in addition to `/`, unless it is empty. A
/// command behind a closed gate is unknown.
///
/// A name may be followed by `@account` and may be shortened to three letters or more if only one command
/// matches. A dash into which a keyboard turned `--` is restored.
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

/// Returns the enabled command whose name or alias is most similar to a word.
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

/// Returns true for a slash command followed by an account name, such as `/stop@this_bot`.
pub fn names_an_account(text: &str) -> bool {
    let text = text.trim();
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    word.contains('@') && split(text, "").is_some()
}

/// Splits a text into the name of a command and its arguments; returns `None` if it is not a command.
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

/// Finds a command by name, alias or unique prefix; `_` and `-` are equivalent.
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

/// Returns every name and alias of the enabled commands, in the order of the table.
fn names(gates: &Gates) -> impl Iterator<Item = (&'static str, &'static Command)> {
    REGISTRY.iter().filter(|command| gates.is_open(command)).flat_map(|command| {
        std::iter::once(command.name).chain(command.aliases.iter().copied()).map(move |name| (name, command))
    })
}

/// Restores `--global` from `—global` or `–global`, only at the start of a word.
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

//! Plain words of the shell: text, quotes, escapes, file patterns, lists in braces, and a few variables.
//!
//! The lexer accepts only what every version of bash reads in the same way. Everything else is refused.

/// Stands for text that is known only when the command runs.
pub const UNKNOWN: char = '\u{fffd}';

/// Stands for a here-document; its number follows.
pub const HEREDOC: char = '\u{e000}';

/// Words that one list in braces may become.
const BRACES_MAX: usize = 64;

/// Variables with a value that is harmless to print.
const PRINTABLE: [&str; 14] = [
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TERM",
    "HOSTNAME",
    "UID",
    "EUID",
    "SECONDS",
    "RANDOM",
    "LINENO",
    "BASH_VERSION",
    "OSTYPE",
];

/// A word after quotes are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The text.
    pub text: String,
    /// Whether it is a pattern of file names.
    pub glob: bool,
    /// Whether the text is complete; else it contains [`UNKNOWN`].
    pub known: bool,
    /// Whether a part of it is quoted.
    pub quoted: bool,
}

impl Word {
    /// A word without patterns and variables.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), glob: false, known: true, quoted: false }
    }

    /// Whether it begins with a pattern, so that it may become an option.
    pub fn may_be_option(&self) -> bool {
        !self.known && self.text.starts_with(UNKNOWN) || self.glob && self.text.starts_with(['*', '?', '['])
    }
}

/// Values of variables that the lexer replaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'v> {
    /// The value of `HOME` and `~`.
    pub home: &'v str,
    /// The value of `PWD`, unless the command changes it.
    pub folder: Option<&'v str>,
}

/// Returns the words that blanks separate, or `None` where one is not plain.
pub fn split(text: &str, values: Values<'_>) -> Option<Vec<Word>> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start_matches([' ', '\t']));
    while !rest.is_empty() {
        let end = raw_end(rest)?;
        for raw in braces(&rest[..end])? {
            words.push(lex(&raw, values)?);
        }
        rest = rest[end..].trim_start_matches([' ', '\t']);
    }
    Some(words)
}

/// Returns the words that one word as it is written becomes: several where it has a list in braces.
pub fn one(raw: &str, values: Values<'_>) -> Option<Vec<Word>> {
    if raw.is_empty() || raw_end(raw)? != raw.len() {
        return None;
    }
    braces(raw)?.iter().map(|raw| lex(raw, values)).collect()
}

/// Returns the end of the first word.
fn raw_end(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' => return Some(at),
            '\\' => {
                chars.next().filter(|(_, c)| c.is_ascii_graphic() || *c == ' ')?;
            }
            '\'' => {
                chars.find(|(_, c)| *c == '\'')?;
            }
            '"' => loop {
                match chars.next()?.1 {
                    '"' => break,
                    '\\' => {
                        chars.next().filter(|(_, c)| *c != '\n')?;
                    }
                    _ => {}
                }
            },
            _ => {}
        }
    }
    Some(text.len())
}

/// Expands the lists in braces of one word.
fn braces(raw: &str) -> Option<Vec<String>> {
    let outside = outside_of_quotes(raw)?;
    if !outside.replace("{}", "").contains(['{', '}']) {
        return Some(vec![raw.to_owned()]);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./,-{}*+@=%:~^".contains(c);
    let ranges = outside.split('{').skip(1).any(|rest| rest.split('}').next().unwrap_or_default().contains(".."));
    if raw.chars().all(plain) && !raw.contains(',') && !ranges {
        // Braces without a list are text, as in `stash@{0}`.
        return Some(vec![raw.to_owned()]);
    }
    if !raw.chars().all(plain) || raw.contains("{}") {
        return None;
    }
    let (mut ready, mut open) = (Vec::new(), vec![raw.to_owned()]);
    while let Some(word) = open.pop() {
        let Some(end) = word.find('}') else {
            if word.contains('{') {
                return None;
            }
            ready.push(word);
            continue;
        };
        let begin = word[..end].find('{')?;
        if word[begin + 1..end].contains('{') || !word[begin..end].contains(',') {
            return None;
        }
        for part in word[begin + 1..end].split(',').rev() {
            open.push(format!("{}{part}{}", &word[..begin], &word[end + 1..]));
        }
        if open.len() + ready.len() > BRACES_MAX {
            return None;
        }
    }
    // An empty word disappears.
    Some(ready.into_iter().filter(|word| !word.is_empty()).collect())
}

/// Returns what is not quoted.
fn outside_of_quotes(raw: &str) -> Option<String> {
    let (mut outside, mut chars) = (String::new(), raw.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next()?;
            }
            '\'' => {
                chars.find(|c| *c == '\'')?;
            }
            '"' => loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => {
                        chars.next()?;
                    }
                    _ => {}
                }
            },
            c => outside.push(c),
        }
    }
    Some(outside)
}

/// Reads one word.
fn lex(raw: &str, values: Values<'_>) -> Option<Word> {
    let mut word = Word { known: true, ..Word::default() };
    let mut rest = raw;
    if raw == "~" || raw.starts_with("~/") {
        word.text.push_str(values.home);
        rest = &raw[1..];
    } else if raw.starts_with('~') {
        // The home of another user.
        word.text.push_str("/home/~");
    }
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let escaped = after.chars().next().filter(|c| c.is_ascii_graphic() || *c == ' ')?;
                word.text.push(escaped);
                word.quoted = true;
                rest = &after[1..];
            }
            '\'' => {
                let end = after.find('\'')?;
                word.text.push_str(printable(&after[..end])?);
                word.quoted = true;
                rest = &after[end + 1..];
            }
            '"' => rest = string(after, &mut word, values)?,
            '$' => rest = variable(after, &mut word, values)?,
            '*' | '?' | '[' | ']' => {
                word.glob |= c != ']';
                word.text.push(c);
                rest = after;
            }
            '#' if word.text.is_empty() && !word.quoted => return None,
            c if c.is_alphanumeric() || "_-./,:=+@%^~#!{}".contains(c) || c == HEREDOC => {
                word.text.push(c);
                rest = after;
            }
            _ => return None,
        }
    }
    Some(word)
}

/// Reads a string in double quotes behind its first one, and returns what follows.
fn string<'t>(mut rest: &'t str, word: &mut Word, values: Values<'_>) -> Option<&'t str> {
    word.quoted = true;
    loop {
        let c = rest.chars().next()?;
        let after = &rest[c.len_utf8()..];
        match c {
            '"' => return Some(after),
            '\\' => {
                let escaped = after.chars().next()?;
                match escaped {
                    '"' | '\\' | '$' | '`' => word.text.push(escaped),
                    '\n' => return None,
                    c => {
                        word.text.push('\\');
                        word.text.push_str(printable(c.encode_utf8(&mut [0; 4]))?);
                    }
                }
                rest = &after[escaped.len_utf8()..];
            }
            '`' => return None,
            // Before anything else than a name it is text.
            '$' if after.starts_with(['"', ' ', '/', ',', '.', ')', '|']) => {
                word.text.push('$');
                rest = after;
            }
            '$' => rest = variable(after, word, values)?,
            c => {
                word.text.push_str(printable(c.encode_utf8(&mut [0; 4]))?);
                rest = after;
            }
        }
    }
}

/// Reads a variable behind its `$`, and returns what follows.
fn variable<'t>(rest: &'t str, word: &mut Word, values: Values<'_>) -> Option<&'t str> {
    if let Some(after) = rest.strip_prefix(['?', '$']) {
        word.text.push('0');
        return Some(after);
    }
    let braced = rest.strip_prefix('{');
    let text = braced.unwrap_or(rest);
    let name = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    let after = &text[name.len()..];
    let after = if braced.is_some() { after.strip_prefix('}')? } else { after };
    match (name, values.folder) {
        ("HOME", _) => word.text.push_str(plain_value(values.home)?),
        ("PWD", Some(folder)) => word.text.push_str(plain_value(folder)?),
        (name, _) if PRINTABLE.contains(&name) => {
            word.text.push(UNKNOWN);
            word.known = false;
        }
        _ => return None,
    }
    // A subscript or an operator would follow the name.
    (braced.is_some() || !after.starts_with('[')).then_some(after)
}

/// Returns a value that stays one word without quotes.
fn plain_value(value: &str) -> Option<&str> {
    value.chars().all(|c| c.is_alphanumeric() || "_-./@+".contains(c)).then_some(value)
}

/// Returns text without control characters.
fn printable(text: &str) -> Option<&str> {
    (!text.chars().any(is_odd)).then_some(text)
}

/// Whether a character is not shown as it is: a control character, or one that changes the order of others.
pub fn is_odd(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || c == UNKNOWN
        || matches!(
            c,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e000}'..='\u{f8ff}'
        )
}

//! The lexer for plain shell words: text, quotes, escapes, file patterns, brace lists, and a few variables.
//!
//! The lexer accepts only text that every version of bash reads in the same way, and refuses all other text.

/// Placeholder for text that is known only at run time.
pub(super) const UNKNOWN: char = '\u{fffd}';

/// Placeholder for a here-document, followed by its number.
pub(super) const HEREDOC: char = '\u{e000}';

/// Words into which one brace list may expand.
const BRACES_MAX: usize = 64;

/// Variables with a harmless value.
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

/// A word after quote removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Text of the word.
    pub text: String,
    /// True if the word is a pattern of file names.
    pub glob: bool,
    /// True if the text is complete; otherwise it contains [`UNKNOWN`].
    pub known: bool,
    /// True if a part of the word is quoted.
    pub quoted: bool,
}

impl Word {
    /// Creates a word without patterns and variables.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), glob: false, known: true, quoted: false }
    }

    /// Returns true if the word begins with a pattern or an unknown text, so that it may become an option.
    pub(super) fn may_be_option(&self) -> bool {
        !self.known && self.text.starts_with(UNKNOWN) || self.glob && self.text.starts_with(['*', '?', '['])
    }
}

/// The values of variables that the lexer replaces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Variables<'v> {
    /// Value of `HOME` and `~`.
    pub home: &'v str,
    /// Value of `PWD`, unless the command changes it.
    pub folder: Option<&'v str>,
}

/// Splits a text at whitespace. Returns `None` if a word is not plain.
pub(super) fn split(text: &str, values: Variables<'_>) -> Option<Vec<Word>> {
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

/// Parses one word of the source. A brace list expands to several words.
pub(super) fn one(raw: &str, values: Variables<'_>) -> Option<Vec<Word>> {
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

/// Expands the brace lists of one word.
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

/// Returns the unquoted parts of a word.
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

/// Parses one word.
fn lex(raw: &str, values: Variables<'_>) -> Option<Word> {
    let mut word = Word { known: true, ..Word::default() };
    let mut rest = raw;
    if raw == "~" || raw.starts_with("~/") {
        word.text.push_str(values.home);
        rest = &raw[1..];
    } else if raw.starts_with('~') {
        // The home folder of another user.
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

/// Parses a string after its opening double quote and returns the rest.
fn string<'t>(mut rest: &'t str, word: &mut Word, values: Variables<'_>) -> Option<&'t str> {
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
            // A dollar sign without a name is text.
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

/// Parses a variable after its `$` and returns the rest.
fn variable<'t>(rest: &'t str, word: &mut Word, values: Variables<'_>) -> Option<&'t str> {
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

/// Returns the value if it stays one word without quotes.
fn plain_value(value: &str) -> Option<&str> {
    value.chars().all(|c| c.is_alphanumeric() || "_-./@+".contains(c)).then_some(value)
}

/// Returns the text if it contains no control characters.
fn printable(text: &str) -> Option<&str> {
    (!text.chars().any(is_odd)).then_some(text)
}

/// Returns true if a character is not displayed as it is: a control character, or one that changes the order of
/// others.
pub(super) fn is_odd(c: char) -> bool {
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

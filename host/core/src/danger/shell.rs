//! Reads shell code as far as its danger depends on it: which commands stand in it,
//! with which words, and where their output goes.
//!
//! Everything that may run is listed flat, also what stands in substitutions, groups,
//! loops and functions: whether it really runs is not asked. What cannot be read is
//! [`Unclear`], never skipped.

use std::collections::VecDeque;

/// Stands in the text of a word for what is only known when it runs.
pub const UNKNOWN: char = '\0';

const BROKEN: &str = "a line is broken where code can be read in two ways";

/// How deep substitutions may stand in each other.
const DEPTH_MAX: usize = 16;

/// The code cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclear(pub &'static str);

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// What it says, without its quotes; [`UNKNOWN`] where that is only known when it runs.
    pub text: String,
    /// Whether all of it is known.
    pub known: bool,
    /// Whether it may become several words.
    pub splits: bool,
    /// Whether it names files by a pattern.
    pub glob: bool,
    /// Whether some of it was quoted.
    pub quoted: bool,
    /// Whether it gives a variable its value.
    pub assigns: bool,
}

/// Where something goes to or comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// Into this file.
    Write(Word),
    /// From this file.
    Read(Word),
    /// From this text.
    Text(Word),
}

/// A command with its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// Its words, the name among them.
    pub words: Vec<Word>,
    /// Its redirections.
    pub redirects: Vec<Redirect>,
}

/// What is known of the surroundings in which the code runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'k> {
    /// The value of `HOME`.
    pub home: Option<&'k str>,
    /// The value of `PWD`.
    pub cwd: Option<&'k str>,
}

impl Word {
    /// A word that says this.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), known: true, ..Self::default() }
    }

    /// Words of which nothing is known.
    pub fn anything() -> Self {
        Self { text: UNKNOWN.to_string(), splits: true, ..Self::default() }
    }

    fn unknown(&mut self, in_quotes: bool) {
        self.text.push(UNKNOWN);
        self.known = false;
        self.splits |= !in_quotes;
    }
}

/// Reads code.
///
/// # Errors
///
/// When it cannot be understood; it must count as dangerous then.
pub fn read(code: &str, known: Known<'_>) -> Result<Vec<Simple>, Unclear> {
    let mut out = Vec::new();
    within(code, known, 0, &mut out)?;
    Ok(out)
}

fn within(code: &str, known: Known<'_>, depth: usize, out: &mut Vec<Simple>) -> Result<(), Unclear> {
    if depth > DEPTH_MAX {
        return Err(Unclear("it is nested too deeply"));
    }
    let chars: Vec<char> = code.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0, known, depth, out, heredocs: VecDeque::new() };
    lexer.script(None)
}

struct Lexer<'t> {
    chars: &'t [char],
    at: usize,
    known: Known<'t>,
    depth: usize,
    out: &'t mut Vec<Simple>,
    /// Texts that begin with the next line: where each belongs, and its end.
    heredocs: VecDeque<Heredoc>,
}

struct Heredoc {
    /// The command, by its place in the list, and the redirection.
    of: Option<(usize, usize)>,
    end: String,
    tabs: bool,
    literal: bool,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn take(&mut self, text: &str) -> bool {
        let is_it = text.chars().enumerate().all(|(ahead, c)| self.peek_at(ahead) == Some(c));
        if is_it {
            self.at += text.chars().count();
        }
        is_it
    }

    /// Reads commands up to `end`, or to the end of the text.
    fn script(&mut self, end: Option<char>) -> Result<(), Unclear> {
        let mut command = Simple::default();
        let (mut groups, mut cases) = (0usize, 0usize);
        loop {
            self.blanks();
            let Some(c) = self.peek() else {
                self.finish(&mut command);
                self.bodies()?;
                return if end.is_none() && groups == 0 { Ok(()) } else { Err(Unclear("a bracket is not closed")) };
            };
            if matches!(c, '<' | '>' | '(') && self.goes_on(1) {
                return Err(Unclear(BROKEN));
            }
            match c {
                '\n' => {
                    self.at += 1;
                    self.finish(&mut command);
                    self.bodies()?;
                }
                '#' => self.comment(),
                '&' if self.take("&>>") || self.take("&>") => {
                    let target = self.target()?;
                    command.redirects.push(Redirect::Write(target));
                }
                ';' | '&' | '|' => {
                    self.at += 1;
                    self.finish(&mut command);
                }
                '(' if self.peek_at(1) == Some('(') && calculates(&command) => {
                    self.at += 2;
                    self.arithmetic()?;
                }
                '(' => {
                    self.at += 1;
                    self.finish(&mut command);
                    groups += 1;
                }
                ')' => {
                    self.at += 1;
                    self.finish(&mut command);
                    match (groups, cases) {
                        (1.., _) => groups -= 1,
                        (0, 1..) => {}
                        (0, 0) if end == Some(')') => return Ok(()),
                        (0, 0) => return Err(Unclear("a bracket is closed that was not opened")),
                    }
                }
                '<' | '>' if self.peek_at(1) != Some('(') => self.redirect(&mut command)?,
                _ => {
                    let word = self.word()?;
                    let is_fd = word.known && !word.quoted && word.text.bytes().all(|c| c.is_ascii_digit());
                    if is_fd && matches!(self.peek(), Some('<' | '>')) {
                        continue;
                    }
                    if !word.quoted && command.words.iter().all(is_reserved) {
                        match word.text.as_str() {
                            "case" => cases += 1,
                            "esac" => cases = cases.saturating_sub(1),
                            _ => {}
                        }
                    }
                    command.words.push(word);
                }
            }
        }
    }

    /// Whether the line goes on in the next one here, so that two pieces of code become one.
    fn goes_on(&self, ahead: usize) -> bool {
        self.peek_at(ahead) == Some('\\') && self.peek_at(ahead + 1) == Some('\n')
    }

    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.peek_at(1) == Some('\n') => self.at += 2,
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn finish(&mut self, command: &mut Simple) {
        let command = std::mem::take(command);
        let place = self.out.len();
        for heredoc in self.heredocs.iter_mut().filter(|heredoc| heredoc.of.is_some_and(|(of, _)| of == usize::MAX)) {
            heredoc.of = heredoc.of.map(|(_, redirect)| (place, redirect));
        }
        if !command.words.is_empty() || !command.redirects.is_empty() {
            self.out.push(command);
        }
    }

    fn redirect(&mut self, command: &mut Simple) -> Result<(), Unclear> {
        if self.take("<<<") {
            let text = self.target()?;
            command.redirects.push(Redirect::Text(text));
        } else if self.take("<<") {
            let tabs = self.take("-");
            self.blanks();
            let begin = self.at;
            let end = self.word()?;
            if self.at == begin || !end.known {
                return Err(Unclear("a text in place has no readable end"));
            }
            command.redirects.push(Redirect::Text(Word::literal("")));
            let of = Some((usize::MAX, command.redirects.len() - 1));
            self.heredocs.push_back(Heredoc { of, end: end.text, tabs, literal: end.quoted });
        } else if self.take("<&") || self.take(">&") {
            let target = self.target()?;
            let is_fd = target.known && target.text.bytes().all(|c| c.is_ascii_digit() || c == b'-');
            if !is_fd {
                command.redirects.push(Redirect::Write(target));
            }
        } else if self.take("<>") || self.take(">>") || self.take(">|") || self.take(">") {
            let target = self.target()?;
            command.redirects.push(Redirect::Write(target));
        } else {
            self.at += 1;
            let target = self.target()?;
            command.redirects.push(Redirect::Read(target));
        }
        Ok(())
    }

    fn target(&mut self) -> Result<Word, Unclear> {
        self.blanks();
        let begin = self.at;
        let word = self.word()?;
        if self.at == begin { Err(Unclear("a redirection leads nowhere")) } else { Ok(word) }
    }

    /// Reads the texts that begin here.
    fn bodies(&mut self) -> Result<(), Unclear> {
        while let Some(heredoc) = self.heredocs.pop_front() {
            let mut body = String::new();
            loop {
                if self.at >= self.chars.len() {
                    return Err(Unclear("a text in place does not end"));
                }
                let mut line = self.line();
                while !heredoc.literal && is_odd(line.chars().rev().take_while(|c| *c == '\\').count()) {
                    if heredoc.tabs || self.at >= self.chars.len() {
                        return Err(Unclear(BROKEN));
                    }
                    line.pop();
                    line.push_str(&self.line());
                }
                let line = if heredoc.tabs { line.trim_start_matches('\t') } else { &line };
                if line == heredoc.end {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            let word = if heredoc.literal { Word::literal(body) } else { self.expanded(&body)? };
            if let Some((command, redirect)) = heredoc.of
                && let Some(Redirect::Text(text)) =
                    self.out.get_mut(command).and_then(|command| command.redirects.get_mut(redirect))
            {
                *text = word;
            }
        }
        Ok(())
    }

    /// Takes the rest of the line.
    fn line(&mut self) -> String {
        let line: String = self.chars[self.at..].iter().take_while(|c| **c != '\n').collect();
        self.at = (self.at + line.chars().count() + 1).min(self.chars.len());
        line
    }

    /// What stands in a text is replaced as within double quotes.
    fn expanded(&mut self, text: &str) -> Result<Word, Unclear> {
        if self.depth >= DEPTH_MAX {
            return Err(Unclear("it is nested too deeply"));
        }
        let chars: Vec<char> = text.chars().collect();
        let mut inner = Lexer {
            chars: &chars,
            at: 0,
            known: self.known,
            depth: self.depth + 1,
            out: &mut *self.out,
            heredocs: VecDeque::new(),
        };
        let mut word = Word { known: true, ..Word::default() };
        inner.quoted(&mut word, None)?;
        Ok(word)
    }

    fn word(&mut self) -> Result<Word, Unclear> {
        let mut word = Word { known: true, ..Word::default() };
        let (mut brace, mut parts, mut square) = (false, false, 0usize);
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | ')' | '(' => break,
                '&' | '|' if square == 0 => break,
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    self.at += 2;
                    self.nested()?;
                    word.unknown(true);
                }
                // In the index of a list these calculate.
                '<' | '>' | '&' | '|' if square > 0 => return Err(Unclear("an index is not read")),
                '<' | '>' => break,
                '\\' if self.goes_on(0) => self.at += 2,
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some(c) => word.text.push(c),
                        None => word.text.push('\\'),
                    }
                    self.at += 1;
                    word.quoted = true;
                }
                '\'' => {
                    self.at += 1;
                    self.single(&mut word)?;
                }
                '"' => {
                    self.at += 1;
                    word.quoted = true;
                    self.quoted(&mut word, Some('"'))?;
                }
                '$' => self.dollar(&mut word, false)?,
                '`' => {
                    self.backtick(false)?;
                    word.unknown(false);
                }
                '~' if word.text.is_empty() && !word.quoted => self.tilde(&mut word),
                _ => {
                    self.at += 1;
                    match c {
                        '*' | '?' => word.glob = true,
                        '[' => square += 1,
                        ']' if square > 0 => {
                            word.glob = true;
                            square -= 1;
                        }
                        '{' => brace = true,
                        ',' | '.' if brace => parts = true,
                        '}' if brace && parts => {
                            word.known = false;
                            word.splits = true;
                        }
                        '=' if !word.quoted && is_name(word.text.trim_end_matches('+')) => word.assigns = true,
                        _ => {}
                    }
                    word.text.push(c);
                }
            }
        }
        // Its closing bracket may stand within quotes.
        word.glob |= square > 0 && (word.quoted || !word.known);
        Ok(word)
    }

    fn single(&mut self, word: &mut Word) -> Result<(), Unclear> {
        word.quoted = true;
        loop {
            match self.peek() {
                None => return Err(Unclear("a quote is not closed")),
                Some('\'') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(c) => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// Reads up to `end`, replacing what a shell replaces within double quotes.
    fn quoted(&mut self, word: &mut Word, end: Option<char>) -> Result<(), Unclear> {
        loop {
            match self.peek() {
                None if end.is_none() => return Ok(()),
                None => return Err(Unclear("a quote is not closed")),
                found if found == end => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some(c @ ('$' | '`' | '"' | '\\')) => {
                            word.text.push(c);
                            self.at += 1;
                        }
                        _ => word.text.push('\\'),
                    }
                }
                Some('$') => self.dollar(word, true)?,
                Some('`') => {
                    self.backtick(true)?;
                    word.unknown(true);
                }
                Some(c) => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Unclear> {
        self.at += 1;
        if self.goes_on(0) || self.peek() == Some('(') && self.goes_on(1) {
            return Err(Unclear(BROKEN));
        }
        match self.peek() {
            Some('(') if self.peek_at(1) == Some('(') => {
                self.at += 2;
                self.arithmetic()?;
                word.unknown(true);
            }
            Some('[') => {
                self.at += 1;
                self.square()?;
                word.unknown(true);
            }
            Some('(') => {
                self.at += 1;
                self.nested()?;
                word.unknown(in_quotes);
            }
            Some('{') => {
                self.at += 1;
                let inner = self.braced()?;
                match self.value(&inner) {
                    Some(value) => word.text.push_str(&value),
                    None => {
                        if inner.contains("<(") || inner.contains(">(") {
                            return Err(Unclear("what stands in a variable's brackets is not read"));
                        }
                        // What it may say instead may be a path.
                        let mut instead = self.expanded(&inner)?;
                        instead.text.insert(0, UNKNOWN);
                        instead.known = false;
                        self.out.push(Simple { words: Vec::new(), redirects: vec![Redirect::Read(instead)] });
                        word.unknown(in_quotes && !inner.contains('@'));
                    }
                }
            }
            Some('\'') if !in_quotes => {
                self.at += 1;
                self.escaped(word)?;
            }
            Some('"') if !in_quotes => {
                self.at += 1;
                word.quoted = true;
                self.quoted(word, Some('"'))?;
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name: String =
                    self.chars[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
                self.at += name.len();
                if self.goes_on(0) {
                    return Err(Unclear(BROKEN));
                }
                match self.value(&name) {
                    Some(value) => word.text.push_str(&value),
                    None => word.unknown(in_quotes),
                }
            }
            // Always a number, and never nothing.
            Some('#' | '?' | '$') => {
                self.at += 1;
                word.text.push('0');
            }
            Some(c) if c.is_ascii_digit() || "@*!-".contains(c) => {
                self.at += 1;
                word.unknown(in_quotes && c != '@');
            }
            _ => word.text.push('$'),
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<String> {
        let value = match name {
            "HOME" => self.known.home,
            "PWD" => self.known.cwd,
            _ => None,
        };
        value.map(str::to_owned)
    }

    fn tilde(&mut self, word: &mut Word) {
        self.at += 1;
        let alone = !self.goes_on(0)
            && self.peek().is_none_or(|c| matches!(c, '/' | ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | ':'));
        match self.known.home.filter(|_| alone) {
            Some(home) => word.text.push_str(home),
            None => word.unknown(true),
        }
    }

    /// `$'…'`: with escapes in it, it is not read.
    fn escaped(&mut self, word: &mut Word) -> Result<(), Unclear> {
        word.quoted = true;
        loop {
            match self.peek() {
                None => return Err(Unclear("a quote is not closed")),
                Some('\'') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 2;
                    word.unknown(true);
                }
                Some(c) => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// Code of its own up to the closing bracket.
    fn nested(&mut self) -> Result<(), Unclear> {
        if self.depth >= DEPTH_MAX {
            return Err(Unclear("it is nested too deeply"));
        }
        let mut inner = Lexer {
            chars: self.chars,
            at: self.at,
            known: self.known,
            depth: self.depth + 1,
            out: &mut *self.out,
            heredocs: VecDeque::new(),
        };
        inner.script(Some(')'))?;
        self.at = inner.at;
        Ok(())
    }

    fn backtick(&mut self, in_quotes: bool) -> Result<(), Unclear> {
        self.at += 1;
        let mut code = String::new();
        loop {
            match self.peek() {
                None => return Err(Unclear("a quote is not closed")),
                Some('`') => break,
                Some('\\') if in_quotes && self.peek_at(1) == Some('"') => {
                    return Err(Unclear("quotes within backticks are not read"));
                }
                Some('\\') if matches!(self.peek_at(1), Some('`' | '\\' | '$')) => {
                    code.extend(self.peek_at(1));
                    self.at += 2;
                }
                Some(c) => {
                    code.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        within(&code, self.known, self.depth + 1, self.out)
    }

    /// What stands in `${…}`: it ends at the first `}` that no quote holds. What a shell could read differently is
    /// not read.
    fn braced(&mut self) -> Result<String, Unclear> {
        let mut inner = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '}' if inner.contains("@P") => return Err(Unclear("a value is run as a prompt")),
                '}' => return Ok(inner),
                '{' | '\'' | '"' | '`' => return Err(Unclear("what stands in a variable's brackets is not read")),
                '\\' if self.peek() == Some('\n') => return Err(Unclear(BROKEN)),
                '\\' => {
                    inner.push(c);
                    inner.extend(self.peek());
                    self.at += 1;
                }
                _ => inner.push(c),
            }
        }
        Err(Unclear("a bracket is not closed"))
    }

    /// A calculation runs nothing but what stands in substitutions. Where its brackets do not fit, a shell
    /// takes it for commands.
    fn arithmetic(&mut self) -> Result<(), Unclear> {
        let (mut inner, mut open) = (String::new(), 0usize);
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' if self.peek() == Some(')') => {
                    self.at += 1;
                    return self.expanded(&inner).map(|_| ());
                }
                ')' => return Err(Unclear("its brackets do not fit")),
                _ => {}
            }
            inner.push(c);
        }
        Err(Unclear("a bracket is not closed"))
    }

    /// The same as `$[…]`.
    fn square(&mut self) -> Result<(), Unclear> {
        let (mut inner, mut open) = (String::new(), 1usize);
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '[' => open += 1,
                ']' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return self.expanded(&inner).map(|_| ());
            }
            inner.push(c);
        }
        Err(Unclear("a bracket is not closed"))
    }
}

fn is_odd(count: usize) -> bool {
    !count.is_multiple_of(2)
}

/// Whether two brackets begin a calculation here.
fn calculates(command: &Simple) -> bool {
    command.words.iter().all(|word| is_reserved(word) || (!word.quoted && word.text == "for"))
}

/// Whether a command may follow this word as if it began there.
pub fn is_reserved(word: &Word) -> bool {
    const WORDS: [&str; 13] =
        ["if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}", "esac"];
    word.known && !word.quoted && WORDS.contains(&word.text.as_str())
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

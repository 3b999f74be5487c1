//! The structure of a command: a tree of simple commands, parsed with the grammar of tree-sitter.
//!
//! Only node kinds that are listed here are accepted, with nothing but whitespace between them. [`super::word`]
//! parses the words a second time; both parsers must agree.

use std::ops::{ControlFlow, Range};

use tree_sitter::{Node as Syntax, ParseOptions, ParseState, Parser};

use super::word::{self, HEREDOC, Variables, Word, is_odd};

/// Longest command that is evaluated, in bytes.
const CODE_BYTES_MAX: usize = 32 << 10;

/// Nesting levels of commands.
const DEPTH_MAX: usize = 24;

/// Here-documents of one command.
const HEREDOCS_MAX: usize = 8;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// A program with its arguments.
    Simple(SimpleCommand),
    /// Two commands; the second runs if the first succeeds.
    And(Box<Command>, Box<Command>),
    /// Two commands; the second runs if the first fails.
    Or(Box<Command>, Box<Command>),
    /// Commands that run one after the other.
    Sequence(Vec<Command>),
    /// Commands that each read the output of the previous one.
    Pipe(Vec<Command>),
    /// Commands in a subshell.
    Subshell(Box<Command>),
    /// A command with redirections.
    Redirected(Box<Command>, Vec<Redirect>),
}

/// A program with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// Variables set for the program.
    pub assigned: Vec<(String, Word)>,
    /// Name and arguments of the program.
    pub words: Vec<Word>,
    /// Redirections of the program.
    pub redirects: Vec<Redirect>,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Reads a file.
    Read(Word),
    /// Writes a file. `truncates` is true if the file is emptied first.
    Write { target: Word, truncates: bool },
    /// Reads inline text.
    Text,
}

/// The reason for which a command cannot be parsed.
pub(super) type ParseError = &'static str;

const NOT_PLAIN: ParseError = "it does not consist of plain words";
const NOT_READ: ParseError = "it cannot be parsed reliably";
const NESTED: ParseError = "it is nested too deeply";

/// Parses a command.
pub(super) fn parse(code: &str, variables: Variables<'_>) -> Result<Command, ParseError> {
    if code.len() > CODE_BYTES_MAX {
        return Err("it is too long to be analyzed");
    }
    if code.chars().any(is_odd) {
        return Err("it contains control characters");
    }
    // A trailing line continuation without a next line is removed.
    let (code, documents) = heredocs(code.strip_suffix(" \\\n").unwrap_or(code))?;
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|_| NOT_READ)?;
    // The repair of a broken command takes quadratic time, and its result would be refused.
    let mut ends_at_error = |state: &ParseState| match state.has_error() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut ends_at_error);
    let mut rest = |at: usize, _| code.as_bytes().get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut rest, None, Some(options)).ok_or(NOT_READ)?;
    let root = tree.root_node();
    if root.has_error() || root.kind() != "program" {
        return Err(NOT_READ);
    }
    Reader { code: &code, variables, documents }.sequence(root, 0..code.len(), 0)
}

/// Removes the here-documents of a command and returns their number. Each is replaced by a file with a name
/// that no command can contain.
fn heredocs(code: &str) -> Result<(String, usize), ParseError> {
    let (mut code, mut count) = (code.to_owned(), 0);
    while let Some(at) = heredoc(&code)? {
        if count == HEREDOCS_MAX {
            return Err(NOT_READ);
        }
        let name = code[at + 2..].trim_start_matches([' ', '\t']);
        let (quoted, length, delimiter) = delimiter(name).ok_or(NOT_PLAIN)?;
        let end = code.len() - name.len() + length;
        if !code[end..].starts_with([' ', '\t', '\n', ';', '|', '>', '&', ')']) {
            return Err(NOT_PLAIN);
        }
        let line = code[end..].find('\n').ok_or(NOT_READ)? + end;
        if code[end..line].contains(['\'', '"', '\\', '`', '$', '#']) {
            return Err(NOT_PLAIN);
        }
        let mut body_end = line + 1;
        loop {
            let text = code.get(body_end..).filter(|rest| !rest.is_empty()).ok_or(NOT_READ)?;
            let this = text.split('\n').next().unwrap_or_default();
            if this == delimiter {
                break;
            }
            body_end += this.len() + 1;
        }
        let body = &code[line + 1..body_end];
        if !quoted && body.contains(['$', '`', '\\']) {
            return Err(NOT_PLAIN);
        }
        let after = body_end + delimiter.len();
        code = format!("{}<{HEREDOC}{count}{}{}", &code[..at], &code[end..line], &code[after..]);
        count += 1;
    }
    Ok((code, count))
}

/// Returns the position of the first here-document.
fn heredoc(code: &str) -> Result<Option<usize>, ParseError> {
    if !code.contains("<<") {
        return Ok(None);
    }
    let (mut at, bytes) = (0, code.as_bytes());
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\'' => at += code[at + 1..].find('\'').ok_or(NOT_READ)? + 1,
            b'"' => {
                let end = code[at + 1..].find('"').ok_or(NOT_READ)?;
                if code[at + 1..at + 1 + end].contains(['\\', '`', '$']) {
                    return Err(NOT_PLAIN);
                }
                at += end + 1;
            }
            b'`' | b'$' | b'#' => return Err(NOT_PLAIN),
            b'(' if bytes.get(at + 1) == Some(&b'(') => return Err(NOT_PLAIN),
            b'<' if code[at..].starts_with("<<<") => at += 2,
            b'<' if code[at..].starts_with("<<") => return Ok(Some(at)),
            _ => {}
        }
        at += 1;
    }
    Ok(None)
}

/// Parses a delimiter. Returns whether it is quoted, its length in the source, and its text.
fn delimiter(text: &str) -> Option<(bool, usize, String)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let inner = &text[quote.map_or(0, char::len_utf8)..];
    let name: String = inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let length = name.len() + 2 * usize::from(quote.is_some());
    let closed = quote.is_none_or(|quote| inner[name.len()..].starts_with(quote));
    (!name.is_empty() && closed).then_some((quote.is_some(), length, name))
}

struct Reader<'c> {
    code: &'c str,
    variables: Variables<'c>,
    /// Number of here-documents of the command.
    documents: usize,
}

impl Reader<'_> {
    fn text(&self, node: Syntax<'_>) -> &str {
        &self.code[node.byte_range()]
    }

    /// Returns the children of a node without comments. Fails if anything but whitespace separates them.
    fn children<'t>(&self, node: Syntax<'t>, range: Range<usize>) -> Result<Vec<Syntax<'t>>, ParseError> {
        let mut cursor = node.walk();
        let mut end = range.start;
        let mut children = Vec::new();
        for child in node.children(&mut cursor) {
            self.blank(end, child.start_byte())?;
            end = child.end_byte();
            match child.kind() {
                "comment" => self.comment(child)?,
                _ => children.push(child),
            }
        }
        self.blank(end, range.end)?;
        Ok(children)
    }

    /// Accepts a comment that begins after whitespace or at a line start and ends with its line.
    fn comment(&self, node: Syntax<'_>) -> Result<(), ParseError> {
        let begins = self.code[..node.start_byte()].chars().next_back();
        let ends = self.code[node.end_byte()..].chars().next();
        let whole = begins.is_none_or(|c| c.is_ascii_whitespace()) && ends.is_none_or(|c| c == '\n');
        if whole && !self.text(node).contains('\n') { Ok(()) } else { Err(NOT_READ) }
    }

    fn blank(&self, from: usize, to: usize) -> Result<(), ParseError> {
        let gap = self.code.get(from..to).ok_or(NOT_READ)?;
        // A line continuation counts as whitespace if whitespace precedes it.
        let plain = gap.replace(" \\\n", "  ");
        if plain.chars().all(|c| matches!(c, ' ' | '\t' | '\n')) { Ok(()) } else { Err(NOT_PLAIN) }
    }

    /// Parses consecutive commands.
    fn sequence(&self, node: Syntax<'_>, range: Range<usize>, depth: usize) -> Result<Command, ParseError> {
        if depth > DEPTH_MAX {
            return Err(NESTED);
        }
        let (mut commands, mut ended) = (Vec::new(), true);
        for child in self.children(node, range)? {
            match (child.kind(), commands.last_mut()) {
                ("(" | ")" | "{" | "}", _) => {}
                (";" | "\n", _) => ended = true,
                ("&", Some(last)) if !ended => {
                    *last = Command::Subshell(Box::new(std::mem::replace(last, Command::Sequence(Vec::new()))));
                    ended = true;
                }
                _ => {
                    commands.push(self.command(child, depth + 1)?);
                    ended = false;
                }
            }
        }
        Ok(Command::Sequence(commands))
    }

    fn command(&self, node: Syntax<'_>, depth: usize) -> Result<Command, ParseError> {
        if depth > DEPTH_MAX {
            return Err(NESTED);
        }
        match node.kind() {
            "command" => self.simple(node).map(Command::Simple),
            "test_command" => {
                let words = word::split(self.text(node), self.variables).ok_or(NOT_PLAIN)?;
                match words.first().is_some_and(|word| word.text == "[") {
                    true => Ok(Command::Simple(SimpleCommand { words, ..SimpleCommand::default() })),
                    false => Err(NOT_PLAIN),
                }
            }
            "list" => {
                let children = self.children(node, node.byte_range())?;
                let [left, sign, right] = children[..] else { return Err(NOT_READ) };
                let sides = (Box::new(self.command(left, depth + 1)?), Box::new(self.command(right, depth + 1)?));
                match sign.kind() {
                    "&&" => Ok(Command::And(sides.0, sides.1)),
                    "||" => Ok(Command::Or(sides.0, sides.1)),
                    _ => Err(NOT_READ),
                }
            }
            "pipeline" => {
                let mut parts = Vec::new();
                for child in self.children(node, node.byte_range())? {
                    if !matches!(child.kind(), "|" | "|&") {
                        parts.push(self.command(child, depth + 1)?);
                    }
                }
                Ok(Command::Pipe(parts))
            }
            "negated_command" => {
                let children = self.children(node, node.byte_range())?;
                let [sign, inner] = children[..] else { return Err(NOT_READ) };
                if sign.kind() != "!" {
                    return Err(NOT_READ);
                }
                // Negation swaps success and failure, so the folders of both are merged.
                Ok(Command::Redirected(Box::new(self.command(inner, depth + 1)?), Vec::new()))
            }
            "subshell" => Ok(Command::Subshell(Box::new(self.sequence(node, node.byte_range(), depth + 1)?))),
            "compound_statement" if self.text(node).starts_with('{') => {
                self.sequence(node, node.byte_range(), depth + 1)
            }
            "redirected_statement" => self.redirected(node, depth),
            "variable_assignment" | "variable_assignments" | "declaration_command" => Err("it sets variables"),
            "function_definition" => Err("it defines a function"),
            _ => Err(NOT_PLAIN),
        }
    }

    fn redirected(&self, node: Syntax<'_>, depth: usize) -> Result<Command, ParseError> {
        let (mut body, mut redirects, mut words) = (None, Vec::new(), Vec::new());
        let mut end = node.start_byte();
        for child in self.children(node, node.byte_range())? {
            match child.kind() {
                "file_redirect" | "herestring_redirect" => {
                    self.redirect(child, end, &mut redirects, &mut words)?;
                }
                _ if body.is_none() && redirects.is_empty() => body = Some(self.command(child, depth + 1)?),
                _ => return Err(NOT_READ),
            }
            end = child.end_byte();
        }
        match body {
            None => Ok(Command::Simple(SimpleCommand { words, redirects, ..SimpleCommand::default() })),
            Some(body) => attached(body, redirects, words),
        }
    }

    fn simple(&self, node: Syntax<'_>) -> Result<SimpleCommand, ParseError> {
        let mut simple = SimpleCommand::default();
        let mut end = node.start_byte();
        for child in self.children(node, node.byte_range())? {
            let begins = child.start_byte();
            match child.kind() {
                "file_redirect" | "herestring_redirect" => {
                    self.redirect(child, end, &mut simple.redirects, &mut simple.words)?;
                }
                _ if begins == end && begins != node.start_byte() => return Err(NOT_READ),
                "variable_assignment" => {
                    if !simple.words.is_empty() {
                        return Err(NOT_READ);
                    }
                    let (name, value) = self.text(child).split_once('=').ok_or(NOT_READ)?;
                    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                        return Err(NOT_PLAIN);
                    }
                    let value = if value.is_empty() { vec![Word::plain("")] } else { self.words(value)? };
                    let [value] = &value[..] else { return Err(NOT_PLAIN) };
                    simple.assigned.push((name.to_owned(), value.clone()));
                }
                _ => simple.words.extend(self.words(self.text(child))?),
            }
            end = child.end_byte();
        }
        Ok(simple)
    }

    fn words(&self, raw: &str) -> Result<Vec<Word>, ParseError> {
        let words = word::one(raw, self.variables).ok_or(NOT_PLAIN)?;
        // The name of a here-document is only valid as a file.
        if words.iter().any(|word| word.text.contains(HEREDOC)) { Err(NOT_READ) } else { Ok(words) }
    }

    /// Parses one redirection. The grammar assigns words after the file to the redirection; the shell assigns
    /// them to the command.
    fn redirect(
        &self,
        node: Syntax<'_>,
        before: usize,
        redirects: &mut Vec<Redirect>,
        words: &mut Vec<Word>,
    ) -> Result<(), ParseError> {
        let (mut sign, mut target, mut end) = ("", None, node.start_byte());
        for child in self.children(node, node.byte_range())? {
            let raw = self.text(child);
            match child.kind() {
                "file_descriptor" => {
                    let number = raw.len() < 3 && raw.chars().all(|c| c.is_ascii_digit());
                    if !number || before == child.start_byte() && before > 0 {
                        return Err(NOT_PLAIN);
                    }
                }
                "<" | ">" | ">>" | "&>" | "&>>" | ">|" | "<&" | ">&" | "<&-" | ">&-" | "<<<" if sign.is_empty() => {
                    sign = child.kind();
                }
                _ if sign.is_empty() => return Err(NOT_READ),
                _ if target.is_none() => target = Some(word::one(raw, self.variables).ok_or(NOT_PLAIN)?),
                _ if end == child.start_byte() => return Err(NOT_READ),
                _ => words.extend(self.words(raw)?),
            }
            end = child.end_byte();
        }
        if matches!(sign, "<&-" | ">&-") && target.is_none() {
            return Ok(());
        }
        let target = target.unwrap_or_default();
        let [target] = &target[..] else { return Err(NOT_PLAIN) };
        if target.glob || !target.known || target.text.is_empty() && sign != "<<<" {
            return Err(NOT_PLAIN);
        }
        let number = !target.quoted && target.text.chars().all(|c| c.is_ascii_digit());
        redirects.push(match sign {
            "<&" | ">&" if number || target.text == "-" => return Ok(()),
            "<&" => return Err(NOT_PLAIN),
            "<<<" => Redirect::Text,
            "<" => match target.text.strip_prefix(HEREDOC).map(str::parse::<usize>) {
                Some(Ok(number)) if number < self.documents => Redirect::Text,
                Some(_) => return Err(NOT_READ),
                None => Redirect::Read(target.clone()),
            },
            _ if target.text.contains(HEREDOC) => return Err(NOT_READ),
            ">>" | "&>>" => Redirect::Write { target: target.clone(), truncates: false },
            _ => Redirect::Write { target: target.clone(), truncates: true },
        });
        Ok(())
    }
}

/// Moves redirections and the words after them to the last program of a command. The grammar assigns them to
/// the whole command.
fn attached(command: Command, redirects: Vec<Redirect>, words: Vec<Word>) -> Result<Command, ParseError> {
    Ok(match command {
        Command::Simple(mut simple) => {
            simple.redirects.extend(redirects);
            simple.words.extend(words);
            Command::Simple(simple)
        }
        Command::And(left, right) => Command::And(left, Box::new(attached(*right, redirects, words)?)),
        Command::Or(left, right) => Command::Or(left, Box::new(attached(*right, redirects, words)?)),
        Command::Pipe(mut parts) => {
            let last = parts.pop().ok_or(NOT_READ)?;
            parts.push(attached(last, redirects, words)?);
            Command::Pipe(parts)
        }
        // A command negated by `!` has no redirections of its own.
        Command::Redirected(inner, own) if own.is_empty() => {
            Command::Redirected(Box::new(attached(*inner, redirects, words)?), own)
        }
        _ if !words.is_empty() => return Err(NOT_READ),
        other => Command::Redirected(Box::new(other), redirects),
    })
}

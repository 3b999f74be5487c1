//! Writing nodes in a dialect, one grapheme at a time.
//!
//! [`Writer`] keeps what is open, writes tags only once something visible stands in
//! them, and holds white space back until something follows, so that no part ends in
//! it. It counts as it writes; the cut asks it after each step how long the part
//! would be if it ended there.

use unicode_segmentation::UnicodeSegmentation;

use crate::measure::{Unit, measure};
use crate::tree::{Frame, Node};

/// What a dialect has to say about the text at hand.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Whether it stands in code.
    pub code: Option<CodeKind>,
    /// Where in its line it stands.
    pub line: LinePosition,
    /// Whether it stands in a table written by the dialect.
    pub table: bool,
    /// Whether it is the text of a link that shows its own address.
    pub address: bool,
    /// The character before it in this part.
    pub previous: Option<char>,
    /// What follows it in the same run of text.
    pub rest: &'a str,
}

/// Kinds of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// Within a line.
    Inline,
    /// A block.
    Block,
}

/// Where in a line something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePosition {
    /// At its beginning.
    Start,
    /// After nothing but digits.
    AfterDigits,
    /// Further on.
    Middle,
}

/// What stands before the lines of a quote or an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indent {
    /// Before the first line.
    pub first: String,
    /// Before each later line.
    pub rest: String,
}

/// A dialect: how text and frames are written. Everything else is the same for all.
pub trait Renderer: Send + Sync {
    /// Writes one character of text so that the platform shows it as it is.
    fn escape(&self, grapheme: &str, place: Place<'_>, out: &mut String);

    /// Returns what opens `frame`; empty where the dialect has nothing for it.
    /// `previous` is the character before it in this part.
    fn open(&self, frame: &Frame, previous: Option<char>) -> String;

    /// Returns what closes `frame` after it was opened with `opened`.
    fn close(&self, frame: &Frame, opened: &str) -> String;

    /// Whether the inner frame is marked within the outer one; otherwise only its words are written.
    fn nests(&self, _outer: &Frame, _inner: &Frame) -> bool {
        true
    }

    /// Returns how `outside` is written beside a mark that begins with `mark` and has `inside` on
    /// its other side, where the mark would not be read as one beside `outside` as it is.
    fn apart(&self, outside: char, mark: char, inside: char) -> Option<String> {
        let _ = (outside, mark, inside);
        None
    }

    /// Returns the same for a character that follows a closing mark. The default is [`Renderer::apart`].
    fn apart_after(&self, outside: char, mark: char, inside: char) -> Option<String> {
        self.apart(outside, mark, inside)
    }

    /// Returns what stands before the lines of `frame`, for quotes and items.
    fn indent(&self, frame: &Frame) -> Option<Indent> {
        let _ = frame;
        None
    }

    /// Whether an item that goes on in a later part is written without its indent,
    /// because an indent that follows no marker would mean something else.
    fn flattens_items(&self) -> bool {
        false
    }

    /// Whether tables are written with pipes; otherwise they are aligned in a code block.
    fn tables(&self) -> bool {
        false
    }

    /// Returns how a line break that the author asked for is written.
    fn hard_break(&self) -> &'static str {
        "\n"
    }

    /// Returns the line across the text.
    fn rule(&self) -> &'static str {
        "———"
    }
}

/// One open frame.
#[derive(Clone)]
struct Level<'t> {
    frame: &'t Frame,
    indent: Option<Indent>,
    /// What opened it, once that is written.
    opened: Option<String>,
    closer: String,
    closer_len: usize,
    /// Whether the first line's indent is written.
    used: bool,
    /// Whether it was opened in an earlier part.
    resumed: bool,
    /// Whether it has no room for its marks: only its words are written.
    quiet: bool,
}

impl Level<'_> {
    fn is_item(&self) -> bool {
        matches!(self.frame, Frame::Item { .. })
    }
}

/// The mark that closed last: what stands directly behind it can keep it from being read.
#[derive(Clone, Copy)]
struct Closed {
    /// Where it ends.
    at: usize,
    mark: char,
    /// The character before it.
    inside: char,
}

/// A mark that was opened behind a character that is written as it is.
#[derive(Clone, Copy)]
struct Opened {
    /// Where it begins.
    start: usize,
    /// Where it ends.
    end: usize,
    mark: char,
}

/// Writes nodes in a dialect.
#[derive(Clone)]
pub(crate) struct Writer<'t, 'r> {
    renderer: &'r dyn Renderer,
    unit: Unit,
    /// The plain source is written as it comes; only rendered text is trimmed.
    lazy: bool,
    table: bool,
    levels: Vec<Level<'t>>,
    out: String,
    len: usize,
    closers_len: usize,
    pending: String,
    previous: Option<char>,
    closed: Option<Closed>,
    /// The last marks that were opened, each but the first one character behind the one before.
    opened: Vec<Opened>,
    line: LinePosition,
    /// Whether the last visible thing was a block that a suffix must not touch.
    after_block: bool,
    /// Whether anything is seen that is not white space: words, a marker, a rule. Empty code is not.
    visible: bool,
    line_blank: bool,
    scratch: String,
}

impl<'t, 'r> Writer<'t, 'r> {
    pub(crate) fn new(renderer: &'r dyn Renderer, unit: Unit, lazy: bool) -> Self {
        Self {
            renderer,
            unit,
            lazy,
            table: false,
            levels: Vec::new(),
            out: String::new(),
            len: 0,
            closers_len: 0,
            pending: String::new(),
            previous: None,
            closed: None,
            opened: Vec::new(),
            line: LinePosition::Start,
            after_block: false,
            visible: false,
            line_blank: true,
            scratch: String::new(),
        }
    }

    /// A writer for the cell of a table.
    pub(crate) fn cell(renderer: &'r dyn Renderer, unit: Unit, lazy: bool) -> Self {
        Self { table: true, line: LinePosition::Middle, ..Self::new(renderer, unit, lazy) }
    }

    /// Returns the writer of the next part, in which everything that is open here is open again.
    pub(crate) fn resume(&self) -> Self {
        let levels = self.levels.iter().map(|level| Level {
            resumed: level.resumed || level.used || level.opened.is_some(),
            opened: level.quiet.then(String::new),
            closer: String::new(),
            closer_len: 0,
            ..level.clone()
        });
        Self { levels: levels.collect(), table: self.table, ..Self::new(self.renderer, self.unit, self.lazy) }
    }

    /// How long the part would be if it ended here.
    pub(crate) fn total(&self) -> usize {
        self.len + self.closers_len
    }

    /// How much is written, closers and what is held back not counted.
    pub(crate) fn written(&self) -> usize {
        self.len
    }

    pub(crate) fn in_code_block(&self) -> bool {
        self.levels.iter().any(|level| matches!(level.frame, Frame::CodeBlock { .. } | Frame::Table { .. }))
    }

    /// Whether only white space stands on the present line.
    pub(crate) fn line_is_blank(&self) -> bool {
        self.line_blank
    }

    /// Takes what was written so far, for a writer that is not resumed but goes on.
    pub(crate) fn take(&mut self) -> String {
        self.len = 0;
        std::mem::take(&mut self.out)
    }

    /// Closes everything and returns the part, and whether a suffix needs its own block after it.
    pub(crate) fn finish(mut self) -> (String, bool, bool) {
        self.pending.clear();
        while !self.levels.is_empty() {
            self.close_last();
        }
        (self.out, self.after_block, self.visible)
    }

    /// Writes one node; text is written by [`Writer::grapheme`].
    pub(crate) fn node(&mut self, node: &'t Node) {
        match node {
            Node::Open(frame) => self.open(frame, false),
            Node::Quiet(frame) => self.open(frame, self.lazy),
            Node::Close => self.close_last(),
            Node::Line { hard, .. } => self.break_line(*hard),
            Node::Gap { blank } => self.gap(*blank),
            Node::Rule => {
                self.prepare(None);
                self.visible = true;
                let rule = self.renderer.rule();
                self.push(rule);
                self.after_block = true;
            }
            Node::Row { rendered, source } => {
                self.prepare(None);
                self.visible = true;
                self.push(if self.lazy { rendered } else { source });
                self.after_block = true;
            }
            Node::Text(_) | Node::Table(_) => {}
        }
    }

    fn open(&mut self, frame: &'t Frame, quiet: bool) {
        let indent = if quiet { None } else { self.renderer.indent(frame) };
        let opened = quiet.then(String::new);
        let level =
            Level { frame, indent, opened, closer: String::new(), closer_len: 0, used: quiet, resumed: false, quiet };
        self.levels.push(level);
    }

    /// Writes one grapheme of a text; `rest` is what follows it there.
    pub(crate) fn grapheme(&mut self, grapheme: &str, rest: &str) {
        let code = self.code();
        if self.lazy && code.is_none() && grapheme.chars().all(char::is_whitespace) {
            // White space at the start of a line could turn the line into something else.
            if self.line != LinePosition::Start && self.pending.len() < 64 {
                self.pending.push_str(grapheme);
            }
            return;
        }
        let first = grapheme.chars().next();
        self.prepare(first);
        let mut escaped = std::mem::take(&mut self.scratch);
        escaped.clear();
        if let Some((c, apart)) = first.and_then(|c| Some((c, self.behind_mark(c)?))) {
            escaped.push_str(&apart);
            escaped.push_str(&grapheme[c.len_utf8()..]);
        } else {
            let address = self.levels.iter().any(|level| matches!(level.frame, Frame::Link { bare: true, .. }));
            let place = Place { code, line: self.line, table: self.table, address, previous: self.previous, rest };
            self.renderer.escape(grapheme, place, &mut escaped);
        }
        let digits = grapheme.bytes().all(|b| b.is_ascii_digit()) && self.line != LinePosition::Middle;
        self.push(&escaped);
        self.scratch = escaped;
        self.line = if digits { LinePosition::AfterDigits } else { LinePosition::Middle };
        let blank = grapheme.chars().all(char::is_whitespace);
        self.line_blank &= blank;
        self.visible |= !blank;
        self.after_block = code == Some(CodeKind::Block);
    }

    fn code(&self) -> Option<CodeKind> {
        let level = self.levels.last().filter(|level| !level.quiet)?;
        match level.frame {
            Frame::Code { .. } => Some(CodeKind::Inline),
            Frame::CodeBlock { .. } => Some(CodeKind::Block),
            _ => None,
        }
    }

    /// Writes what was held back and opens what is not open yet; `next` is what is written then.
    fn prepare(&mut self, next: Option<char>) {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.push(&pending);
        }
        let at_start = self.line == LinePosition::Start && self.out.chars().next_back().is_none_or(|c| c == '\n');
        for n in 0..self.levels.len() {
            if at_start {
                self.push_indent(n);
            }
            if self.levels[n].opened.is_none() {
                self.open_level(n, next);
            }
        }
    }

    fn push_indent(&mut self, n: usize) {
        let level = &mut self.levels[n];
        let Some(indent) = &level.indent else { return };
        let text = if level.used || level.resumed {
            if level.resumed && level.is_item() && self.renderer.flattens_items() {
                String::new()
            } else {
                indent.rest.clone()
            }
        } else {
            indent.first.clone()
        };
        level.used = true;
        self.visible |= level.is_item() && !text.trim().is_empty();
        self.push(&text);
    }

    fn open_level(&mut self, n: usize, next: Option<char>) {
        let frame = self.levels[n].frame;
        let nests = self.levels[..n].iter().all(|outer| self.renderer.nests(outer.frame, frame));
        let mut opener = if nests { self.renderer.open(frame, self.previous) } else { String::new() };
        match frame {
            Frame::Table { header } if self.lazy && self.levels[n].resumed => {
                opener.push_str(header);
                opener.push('\n');
            }
            _ => {}
        }
        let closer = if nests { self.renderer.close(frame, &opener) } else { String::new() };
        // The closer of a block may come on a line of its own, behind the indent.
        let indent: usize = if closer.starts_with('\n') { self.indent_len(n) } else { 0 };
        let closer_len = measure(&closer, self.unit) + indent;
        self.before_mark(n, &opener, next);
        self.push_lines(&opener, n);
        let level = &mut self.levels[n];
        level.opened = Some(opener);
        level.closer = closer;
        level.closer_len = closer_len;
        self.closers_len += closer_len;
    }

    /// Sees to it that `opener`, which opens level `n`, is read as a mark behind the last character.
    fn before_mark(&mut self, n: usize, opener: &str, next: Option<char>) {
        let later = self.levels[n + 1..].iter().filter(|level| level.opened.is_none());
        let inner = later.map(|level| self.renderer.open(level.frame, None)).find_map(|opener| opener.chars().next());
        let (Some(mark), Some(inside)) = (opener.chars().next(), inner.or(next)) else { return };
        let Some(outside) = self.previous.filter(|outside| self.out.ends_with(*outside)) else { return };
        let at = self.out.len() - outside.len_utf8();
        if self.opened.last().is_none_or(|opened| opened.end != at) {
            self.opened.clear();
        }
        match self.renderer.apart(outside, mark, inside) {
            Some(apart) => self.write_anew(at, outside, apart),
            None => {
                let start = self.out.len();
                self.opened.push(Opened { start, end: start + opener.len(), mark });
            }
        }
    }

    /// Writes the last character, `c` at `at`, as `apart`. A mark directly before it loses a letter with that, so
    /// what stands before that mark may have to be written anew, too.
    fn write_anew(&mut self, at: usize, c: char, apart: String) {
        let mut anew = vec![(at, c, apart)];
        let (mut from, mut first) = (at, c);
        while let Some(opened) = self.opened.pop().filter(|opened| opened.end == from) {
            let Some(outside) = self.out[..opened.start].chars().next_back() else { break };
            let Some(apart) = self.renderer.apart(outside, opened.mark, '&') else { break };
            (from, first) = (opened.start - outside.len_utf8(), outside);
            anew.push((from, outside, apart));
        }
        let end = from + first.len_utf8();
        let start = end - self.out[..end].graphemes(true).next_back().map_or(0, str::len);
        let before = measure(&self.out[start..], self.unit);
        // From the end on, so that the places before stay where they are.
        for (at, c, apart) in anew {
            self.out.replace_range(at..at + c.len_utf8(), &apart);
        }
        self.len = (self.len + measure(&self.out[start..], self.unit)).saturating_sub(before);
        self.previous = self.out.chars().next_back();
    }

    /// Returns how `c` is written where the mark that it follows would not be read before it as it is.
    fn behind_mark(&mut self, c: char) -> Option<String> {
        let closed = self.closed.take().filter(|closed| closed.at == self.out.len())?;
        self.renderer.apart_after(c, closed.mark, closed.inside)
    }

    fn indent_len(&self, upto: usize) -> usize {
        self.levels[..upto].iter().filter_map(|l| l.indent.as_ref()).map(|i| measure(&i.rest, self.unit)).sum()
    }

    /// Pushes text that may hold line breaks, each followed by the indent of the outer levels.
    fn push_lines(&mut self, text: &str, upto: usize) {
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                self.push("\n");
                self.line = LinePosition::Start;
                for level in 0..upto {
                    self.push_indent(level);
                }
            }
            self.push(line);
        }
    }

    fn close_last(&mut self) {
        let Some(level) = self.levels.last() else { return };
        if level.is_item() && !level.used && !level.resumed {
            // An item without text still shows its marker.
            self.prepare(None);
        }
        let upto = self.levels.len().saturating_sub(1);
        let Some(level) = self.levels.last_mut() else { return };
        let was_open = level.opened.take().is_some();
        let closer = std::mem::take(&mut level.closer);
        let is_block = matches!(level.frame, Frame::CodeBlock { .. } | Frame::Table { .. } | Frame::Quote);
        self.closers_len -= level.closer_len;
        level.closer_len = 0;
        if was_open && !closer.is_empty() {
            let inside = self.previous;
            match closer.strip_prefix('\n') {
                Some(rest) if self.out.ends_with('\n') => {
                    for n in 0..upto {
                        self.push_indent(n);
                    }
                    self.push(rest);
                }
                _ => self.push_lines(&closer, upto),
            }
            self.closed =
                inside.zip(closer.chars().next()).map(|(inside, mark)| Closed { at: self.out.len(), mark, inside });
            self.line = LinePosition::Middle;
            self.after_block |= is_block;
        }
        self.levels.pop();
    }

    fn break_line(&mut self, hard: bool) {
        let code = self.code() == Some(CodeKind::Block);
        let text = if hard { self.renderer.hard_break() } else { "\n" };
        if code {
            // An empty first line must not come before the fence.
            self.prepare(None);
        }
        if !self.lazy || code {
            self.push(text);
        } else if !self.out.is_empty() && !self.pending.contains('\n') {
            self.pending.clear();
            self.pending.push_str(text);
        }
        self.line = LinePosition::Start;
        self.line_blank = true;
    }

    fn gap(&mut self, blank: bool) {
        let mut text = String::from("\n");
        if blank {
            let indent: String = self
                .levels
                .iter()
                .filter_map(|level| level.indent.as_ref().filter(|_| matches!(level.frame, Frame::Quote)))
                .map(|indent| indent.rest.as_str())
                .collect();
            text.push_str(indent.trim_end());
            text.push('\n');
        }
        if !self.lazy {
            self.push(&text);
        } else if !self.out.is_empty() {
            self.pending = text;
        }
        self.line = LinePosition::Start;
        self.line_blank = true;
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.len += measure(text, self.unit);
        self.out.push_str(text);
        self.previous = text.chars().next_back();
    }
}

//! The writer of nodes in a dialect, one grapheme at a time.
//!
//! [`Writer`] tracks the open frames, writes an opening tag only when visible text follows,
//! and holds white space back until other text follows, so that no part ends with white
//! space. The writer measures while it writes; after each step the splitter asks for the length
//! that the part would have if it ended there.

use unicode_segmentation::UnicodeSegmentation;

use crate::measure::{Unit, measure};
use crate::tree::{Frame, Node};

/// The context of a character, from which a dialect decides how to escape it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The kind of code around the character; `None` outside of code.
    pub code: Option<CodeKind>,
    /// The position in the line.
    pub line: LinePosition,
    /// True if the character is in a table that the dialect writes.
    pub table: bool,
    /// True if the character is in a link's text that equals the link's address.
    pub address: bool,
    /// The preceding character in this part.
    pub previous: Option<char>,
    /// The rest of the same run of text.
    pub rest: &'a str,
}

/// A kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// Inline code.
    Inline,
    /// A code block.
    Block,
}

/// A position in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePosition {
    /// The start of the line.
    Start,
    /// After digits only.
    AfterDigits,
    /// Any later position.
    Middle,
}

/// The prefix of the lines of a quote or an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indent {
    /// The prefix of the first line.
    pub first: String,
    /// The prefix of each later line.
    pub rest: String,
}

/// A dialect: the syntax of text and frames. All other steps are the same for every dialect.
pub trait Renderer: Send + Sync {
    /// Writes one character of text so that the platform shows it literally.
    fn escape(&self, grapheme: &str, place: Place<'_>, out: &mut String);

    /// Returns the text that opens `frame`; empty if the dialect has no syntax for it.
    /// `previous` is the preceding character in this part.
    fn open(&self, frame: &Frame, previous: Option<char>) -> String;

    /// Returns the text that closes `frame`, which was opened with `opened`.
    fn close(&self, frame: &Frame, opened: &str) -> String;

    /// Returns whether `inner` keeps its marks inside `outer`; otherwise only its words are written.
    fn nests(&self, _outer: &Frame, _inner: &Frame) -> bool {
        true
    }

    /// Returns the replacement for `outside` next to a mark that begins with `mark` and has
    /// `inside` on its other side. `None` if the platform reads the mark with `outside` as
    /// written.
    fn apart(&self, outside: char, mark: char, inside: char) -> Option<String> {
        let _ = (outside, mark, inside);
        None
    }

    /// Does the same for a character after a closing mark. The default is [`Renderer::apart`].
    fn apart_after(&self, outside: char, mark: char, inside: char) -> Option<String> {
        self.apart(outside, mark, inside)
    }

    /// Returns the prefix of the lines of `frame`, for quotes and items.
    fn indent(&self, frame: &Frame) -> Option<Indent> {
        let _ = frame;
        None
    }

    /// Returns whether an item that continues in a later part loses its indent. In some
    /// dialects an indent without a preceding marker has another meaning.
    fn flattens_items(&self) -> bool {
        false
    }

    /// Returns whether the dialect writes tables with pipes; otherwise tables are aligned in a code block.
    fn tables(&self) -> bool {
        false
    }

    /// Returns the text of a line break that the author wrote explicitly.
    fn hard_break(&self) -> &'static str {
        "\n"
    }

    /// Returns the text of a horizontal rule.
    fn rule(&self) -> &'static str {
        "———"
    }
}

/// An open frame.
#[derive(Clone)]
struct Level<'t> {
    frame: &'t Frame,
    indent: Option<Indent>,
    /// The text that opened the frame, once it is written.
    opened: Option<String>,
    closer: String,
    closer_len: usize,
    /// True if the indent of the first line is written.
    used: bool,
    /// True if the frame was opened in an earlier part.
    resumed: bool,
    /// True if the frame has no room for its marks, so that only its words are written.
    quiet: bool,
}

impl Level<'_> {
    fn is_item(&self) -> bool {
        matches!(self.frame, Frame::Item { .. })
    }
}

/// The last closing mark. The character directly after it can keep the platform from reading it.
#[derive(Clone, Copy)]
struct ClosingMark {
    /// The byte offset of its end.
    at: usize,
    mark: char,
    /// The character before the mark.
    inside: char,
}

/// An opening mark after a character that is written literally.
#[derive(Clone, Copy)]
struct OpeningMark {
    /// The byte offset of its start.
    start: usize,
    /// The byte offset of its end.
    end: usize,
    mark: char,
}

/// A writer of nodes in a dialect.
#[derive(Clone)]
pub(crate) struct Writer<'t, 'r> {
    renderer: &'r dyn Renderer,
    unit: Unit,
    /// True to hold white space back until other text follows, for rendered text. False for the plain source.
    lazy: bool,
    table: bool,
    levels: Vec<Level<'t>>,
    out: String,
    len: usize,
    closers_len: usize,
    pending: String,
    previous: Option<char>,
    closed: Option<ClosingMark>,
    /// The last opening marks. Between two of them is exactly one character.
    opened: Vec<OpeningMark>,
    line: LinePosition,
    /// True if the part ends with a block that a suffix must not touch.
    after_block: bool,
    /// True if the part shows more than white space: words, a marker or a rule. Empty code does not count.
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

    /// Creates a writer for a table cell.
    pub(crate) fn cell(renderer: &'r dyn Renderer, unit: Unit, lazy: bool) -> Self {
        Self { table: true, line: LinePosition::Middle, ..Self::new(renderer, unit, lazy) }
    }

    /// Returns the writer of the next part, with the same frames open.
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

    /// Returns the length that the part would have if it ended here.
    pub(crate) fn total(&self) -> usize {
        self.len + self.closers_len
    }

    /// Returns the length written so far, without closing marks and held-back white space.
    pub(crate) fn written(&self) -> usize {
        self.len
    }

    pub(crate) fn in_code_block(&self) -> bool {
        self.levels.iter().any(|level| matches!(level.frame, Frame::CodeBlock { .. } | Frame::Table { .. }))
    }

    /// Returns whether the current line contains only white space.
    pub(crate) fn line_is_blank(&self) -> bool {
        self.line_blank
    }

    /// Takes the text written so far and keeps the state, for a writer that continues instead of being resumed.
    pub(crate) fn take(&mut self) -> String {
        self.len = 0;
        std::mem::take(&mut self.out)
    }

    /// Closes all frames. Returns the part, whether a suffix needs a block of its own after
    /// it, and whether the part shows anything.
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

    /// Writes one grapheme of a text; `rest` is the text after it.
    pub(crate) fn grapheme(&mut self, grapheme: &str, rest: &str) {
        let code = self.code();
        if self.lazy && code.is_none() && grapheme.chars().all(char::is_whitespace) {
            // White space at the start of a line could change the meaning of the line.
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

    /// Writes held-back white space and opens the frames that are not open yet; `next` is
    /// the character that will follow.
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
        // The closing mark of a block may be on a line of its own, after the indent.
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

    /// Makes the platform read `opener`, which opens level `n`, as a mark after the last character.
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
                self.opened.push(OpeningMark { start, end: start + opener.len(), mark });
            }
        }
    }

    /// Replaces the last character, `c` at `at`, by `apart`. A mark directly before it then no longer touches a
    /// letter, so the character before that mark may need replacing, too.
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
        // Backwards, so that the earlier offsets stay valid.
        for (at, c, apart) in anew {
            self.out.replace_range(at..at + c.len_utf8(), &apart);
        }
        self.len = (self.len + measure(&self.out[start..], self.unit)).saturating_sub(before);
        self.previous = self.out.chars().next_back();
    }

    /// Returns the replacement for `c` if `c` would keep the platform from reading the mark before it.
    fn behind_mark(&mut self, c: char) -> Option<String> {
        let closed = self.closed.take().filter(|closed| closed.at == self.out.len())?;
        self.renderer.apart_after(c, closed.mark, closed.inside)
    }

    fn indent_len(&self, upto: usize) -> usize {
        self.levels[..upto].iter().filter_map(|l| l.indent.as_ref()).map(|i| measure(&i.rest, self.unit)).sum()
    }

    /// Writes text with line breaks; after each break follows the indent of the outer levels.
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
            self.closed = inside.zip(closer.chars().next()).map(|(inside, mark)| ClosingMark {
                at: self.out.len(),
                mark,
                inside,
            });
            self.line = LinePosition::Middle;
            self.after_block |= is_block;
        }
        self.levels.pop();
    }

    fn break_line(&mut self, hard: bool) {
        let code = self.code() == Some(CodeKind::Block);
        let text = if hard { self.renderer.hard_break() } else { "\n" };
        if code {
            // The fence comes before an empty first line.
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

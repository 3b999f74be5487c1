//! Parser of house markdown into a [`Tree`].
//!
//! No text that a reader of the raw markdown sees is lost: an address that cannot be a
//! link, an unsupported tag and the words after an opening fence stay as text. Nesting
//! beyond a limit loses its frame but keeps its words.
//!
//! The parser alone decides the plain rendering (indents, markers, tables), independently
//! of any limit, so the `source` texts of every split join to the same text.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::tree::{Align, Frame, Marker, Node, Table, Tree};
use crate::wide::{GUARD, guard_marks};

/// The maximum size of a text that is parsed as markdown, in bytes. A longer text becomes one plain paragraph.
pub const MARKDOWN_BYTES_MAX: usize = 1024 * 1024;

/// The mark around hidden text (spoilers), as on Telegram and Discord.
const HIDES: &str = "||";
/// The maximum number of spans open at the same time.
const SPANS_MAX: usize = 8;
/// The maximum indent of a line by quotes and lists, in characters.
const INDENT_MAX: usize = 8;
/// The maximum depth of nested items that have a marker.
const ITEMS_MAX: usize = 8;
/// The largest number shown as a marker in a nested list. A larger number would leave no room for text.
const MARKER_NUMBER_MAX: u64 = 9_999;
/// The maximum number of consecutive blank lines kept in code, and of consecutive blanks
/// kept in prose. A part of only white space could not be sent.
const BLANK_LINES_MAX: usize = 16;
const BLANKS_MAX: usize = 8;
/// The maximum length of a word that is accepted as a language, in characters.
const LANGUAGE_CHARS_MAX: usize = 32;

/// Parses `markdown`.
pub fn parse(markdown: &str) -> Tree {
    let mut builder = Builder::default();
    if markdown.len() > MARKDOWN_BYTES_MAX {
        builder.text(markdown);
        return Tree { nodes: builder.nodes };
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let guarded = guard_marks(markdown);
    let events: Vec<Event<'_>> = Parser::new_ext(&guarded, options).collect();
    builder.loose = loose_lists(&events);
    for event in &events {
        builder.event(event);
    }
    builder.leave_html(0);
    Tree { nodes: builder.nodes }
}

/// Returns for each list, in document order, whether its items are paragraphs (a loose list).
fn loose_lists(events: &[Event<'_>]) -> Vec<bool> {
    let mut loose = Vec::new();
    let mut open: Vec<Option<usize>> = Vec::new();
    for event in events {
        match event {
            Event::Start(Tag::List(_)) => {
                open.push(Some(loose.len()));
                loose.push(false);
            }
            Event::Start(tag) => {
                if let (Tag::Paragraph, [.., Some(list), None]) = (tag, &open[..]) {
                    loose[*list] = true;
                }
                open.push(None);
            }
            Event::End(_) => {
                open.pop();
            }
            _ => {}
        }
    }
    loose
}

/// A block that contains blocks.
#[derive(Default)]
struct Container {
    /// True if its blocks follow each other without an empty line.
    tight: bool,
    /// True if it contains a block already.
    begun: bool,
    /// The kind of list that ended last in it. The next list of the same kind needs the other marker.
    after_list: Option<ListKind>,
    /// The indent of its lines, in characters.
    indent: usize,
    /// True if its end writes a `Close`.
    framed: bool,
    /// The index in `nodes` of its item frame.
    item_at: Option<usize>,
    /// For a list: the number of the next item, and whether the list uses the other marker.
    next_number: Option<u64>,
    other: bool,
}

/// The properties of a list from which the following list must differ.
struct ListKind {
    /// True if the list used the other marker.
    other: bool,
    /// True if its last item was numbered. A number that is too large is shown as a bullet.
    numbered: bool,
}

/// The action at the end of a span.
enum SpanEnd {
    Close,
    Nothing,
    Link { at: usize, skip: usize, framed: bool, url: String },
}

/// A supported HTML tag or a spoiler mark (`||`) without its end so far.
struct OpenHtml {
    name: &'static str,
    literal: String,
    at: usize,
    depth: usize,
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    root: Container,
    containers: Vec<Container>,
    /// The number of open containers that are items with a marker.
    items: usize,
    /// The total indent of the open containers, in characters.
    indent: usize,
    spans: Vec<SpanEnd>,
    /// The indexes in `nodes` at which the open spans begin.
    open: Vec<usize>,
    /// For each `Close` at the end of `nodes`: the length of `nodes` after it, and the index at which its span begins.
    closed: Vec<(usize, usize)>,
    html: Vec<OpenHtml>,
    /// True if the current block accepts inline content.
    inline: bool,
    heading: bool,
    links: usize,
    loose: Vec<bool>,
    lists: usize,
    code: Option<(String, String)>,
    table: Option<Table>,
    outside: Vec<Node>,
}

impl Builder {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(*tag),
            Event::Text(text) => match &mut self.code {
                Some((_, body)) => body.push_str(text),
                None => self.text(text),
            },
            Event::Code(code) => self.inline_code(code),
            Event::Html(html) => self.text(html),
            Event::InlineHtml(tag) => self.inline_html(tag),
            Event::SoftBreak => self.line(false),
            Event::HardBreak => self.line(true),
            Event::Rule => {
                self.begin_block(true);
                self.nodes.push(Node::Rule);
                self.inline = false;
            }
            Event::TaskListMarker(done) => {
                let item = self.containers.last().and_then(|c| c.item_at).map(|at| &mut self.nodes[at]);
                if let Some(Node::Open(Frame::Item { task, .. })) = item {
                    *task = Some(*done);
                }
            }
            // These extensions are not enabled.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => self.text(text),
        }
    }

    fn container(&mut self) -> &mut Container {
        self.containers.last_mut().unwrap_or(&mut self.root)
    }

    /// Marks the start of a block in the current container.
    fn begin_block(&mut self, blank: bool) {
        let container = self.container();
        let gap = container.begun.then_some(blank || !container.tight);
        container.begun = true;
        container.after_list = None;
        if let Some(blank) = gap {
            self.nodes.push(Node::Gap { blank });
        }
    }

    /// Opens a block for inline content if none is open. The text of a tight item arrives without a paragraph.
    fn begin_inline(&mut self) {
        if !self.inline && self.table.is_none() {
            self.begin_block(false);
            self.inline = true;
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => {
                self.begin_block(false);
                self.inline = true;
            }
            Tag::Heading { level, .. } => {
                self.begin_block(false);
                self.nodes.push(Node::Open(Frame::Heading(heading_level(*level))));
                self.inline = true;
                self.heading = true;
            }
            Tag::BlockQuote(_) => self.start_quote(),
            Tag::CodeBlock(kind) => {
                self.begin_block(false);
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((info, String::new()));
            }
            Tag::List(first) => self.start_list(*first),
            Tag::Item => self.start_item(),
            Tag::Table(columns) => {
                self.begin_block(true);
                self.table = Some(Table { columns: columns.iter().map(align).collect(), rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::TableCell => self.outside = std::mem::take(&mut self.nodes),
            Tag::Emphasis => self.open_span(Frame::Emphasis),
            Tag::Strong => self.open_span(Frame::Strong),
            Tag::Strikethrough => self.open_span(Frame::Strike),
            Tag::Link { dest_url, .. } => self.open_link(dest_url, false),
            Tag::Image { dest_url, .. } => self.open_link(dest_url, true),
            // These extensions are not enabled; their text is kept.
            _ => self.spans.push(SpanEnd::Nothing),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_inline(),
            TagEnd::Heading(_) => {
                self.end_inline();
                self.heading = false;
                self.nodes.push(Node::Close);
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.end_inline();
                if self.pop_container().framed {
                    self.nodes.push(Node::Close);
                }
            }
            TagEnd::List(_) => {
                let list = self.pop_container();
                let numbered = list.next_number.is_some_and(|next| next <= MARKER_NUMBER_MAX);
                self.container().after_list = Some(ListKind { other: list.other, numbered });
                self.inline = false;
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.nodes.push(Node::Table(table));
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::TableCell => {
                self.leave_html(0);
                let cell = std::mem::replace(&mut self.nodes, std::mem::take(&mut self.outside));
                if let Some(row) = self.table.as_mut().and_then(|t| t.rows.last_mut()) {
                    row.push(cell);
                }
            }
            _ => self.end_span(),
        }
    }

    fn end_inline(&mut self) {
        self.leave_html(0);
        // The lines of an HTML block already end with line breaks.
        while matches!(self.nodes.last(), Some(Node::Line { .. })) {
            self.nodes.pop();
        }
        self.inline = false;
    }

    fn start_quote(&mut self) {
        self.inline = false;
        self.begin_block(false);
        let framed = self.indent + 2 <= INDENT_MAX;
        if framed {
            self.nodes.push(Node::Open(Frame::Quote));
        }
        self.push_container(Container { framed, indent: if framed { 2 } else { 0 }, ..Container::default() });
    }

    fn start_list(&mut self, first: Option<u64>) {
        self.inline = false;
        let numbered = first.is_some_and(|first| first <= MARKER_NUMBER_MAX);
        let other = self.container().after_list.as_ref().is_some_and(|last| last.numbered == numbered && !last.other);
        self.begin_block(false);
        let tight = !self.loose.get(self.lists).copied().unwrap_or(false);
        self.lists += 1;
        self.push_container(Container { tight, next_number: first, other, ..Container::default() });
    }

    fn start_item(&mut self) {
        self.begin_block(false);
        let list = self.container();
        let (tight, other, number) = (list.tight, list.other, list.next_number);
        list.next_number = number.map(|n| n.saturating_add(1));
        let mut item = Container { tight, ..Container::default() };
        let number = number.filter(|number| *number <= MARKER_NUMBER_MAX || self.indent == 0);
        let marker = match number {
            Some(number) => Marker::Number { number, other },
            None => Marker::Bullet { other },
        };
        let width = number.map_or(2, |n| n.to_string().len() + 2);
        let indents = self.indent + width <= INDENT_MAX;
        item.indent = if indents { width } else { 0 };
        // Markers on one line cannot be split, so their number is limited to leave room for text.
        if self.items < ITEMS_MAX {
            item.framed = true;
            item.item_at = Some(self.nodes.len());
            self.nodes.push(Node::Open(Frame::Item { marker, task: None, indents }));
        }
        self.push_container(item);
        self.inline = false;
    }

    fn push_container(&mut self, container: Container) {
        self.indent += container.indent;
        self.items += usize::from(container.item_at.is_some());
        self.containers.push(container);
    }

    fn pop_container(&mut self) -> Container {
        let container = self.containers.pop().unwrap_or_default();
        self.indent -= container.indent;
        self.items -= usize::from(container.item_at.is_some());
        container
    }

    fn open_span(&mut self, frame: Frame) {
        self.begin_inline();
        let framed = self.may_open(&frame);
        if framed && !self.go_on_with(&frame) {
            self.push_open(frame);
        }
        self.spans.push(if framed { SpanEnd::Close } else { SpanEnd::Nothing });
    }

    /// Returns whether a span may open: it is not open already, and the limit of open spans is not reached.
    fn may_open(&self, frame: &Frame) -> bool {
        self.open.len() < SPANS_MAX
            && !self.open.iter().any(|at| matches!(&self.nodes[*at], Node::Open(open) if open == frame))
    }

    fn push_open(&mut self, frame: Frame) {
        self.open.push(self.nodes.len());
        self.nodes.push(Node::Open(frame));
    }

    fn push_close(&mut self) {
        let begin = self.open.pop();
        if self.closed.last().is_none_or(|(len, _)| *len != self.nodes.len()) {
            self.closed.clear();
        }
        self.nodes.push(Node::Close);
        self.closed.extend(begin.map(|begin| (self.nodes.len(), begin)));
    }

    /// Reopens a span of the same kind that has just ended, because the marks of two adjacent spans could
    /// merge. Never inside a link, which stores the index at which its text begins.
    fn go_on_with(&mut self, frame: &Frame) -> bool {
        match self.closed.last() {
            Some((len, begin))
                if *len == self.nodes.len()
                    && self.links == 0
                    && matches!(&self.nodes[*begin], Node::Open(open) if open == frame) =>
            {
                self.open.push(*begin);
                self.closed.pop();
                self.nodes.pop();
                true
            }
            _ => false,
        }
    }

    fn open_link(&mut self, url: &str, image: bool) {
        self.begin_inline();
        let url = clean_url(url);
        let frame =
            if image { Frame::Image { url: url.clone() } } else { Frame::Link { url: url.clone(), bare: false } };
        let framed = self.links == 0 && may_link(&url) && self.may_open(&frame);
        self.links += 1;
        let at = self.nodes.len();
        let mut skip = 0;
        if framed {
            self.push_open(frame);
        } else if let Some(Node::Text(before)) = self.nodes.last() {
            // The link's text will be appended to this node.
            skip = before.len();
        }
        self.spans.push(SpanEnd::Link { at: if skip > 0 { at - 1 } else { at }, skip, framed, url });
    }

    fn end_span(&mut self) {
        let depth = self.spans.len().saturating_sub(1);
        self.leave_html(depth + 1);
        match self.spans.pop() {
            Some(SpanEnd::Close) => self.push_close(),
            Some(SpanEnd::Link { at, skip, framed, url }) => self.end_link(at, skip, framed, &url),
            Some(SpanEnd::Nothing) | None => {}
        }
    }

    fn end_link(&mut self, at: usize, skip: usize, framed: bool, url: &str) {
        self.links = self.links.saturating_sub(1);
        // The address belongs on the line of the last word.
        while self.nodes.len() > at + 1 && matches!(self.nodes.last(), Some(Node::Line { .. })) {
            self.nodes.pop();
        }
        let shown: String = self.nodes[at.min(self.nodes.len())..]
            .iter()
            .filter_map(|node| if let Node::Text(text) = node { Some(text.as_str()) } else { None })
            .collect();
        let shown = shown.get(skip..).unwrap_or("").trim();
        let names_itself = shown.is_empty() || shown == url || url.strip_prefix("mailto:") == Some(shown);
        if shown.is_empty() {
            self.text(url);
        }
        if framed {
            match &mut self.nodes[at] {
                Node::Open(Frame::Link { bare, .. }) => *bare = names_itself,
                // An image without a name becomes a link that shows its address.
                node if names_itself => *node = Node::Open(Frame::Link { url: url.to_owned(), bare: true }),
                _ => {}
            }
            self.push_close();
        } else if !names_itself && self.links == 0 && !url.is_empty() {
            self.text(&format!(" ({url})"));
        }
    }

    fn inline_code(&mut self, code: &str) {
        let code: String = code.chars().map(|c| if c == '\n' { ' ' } else { c }).filter(|c| shown(*c)).collect();
        if code.is_empty() {
            return;
        }
        self.begin_inline();
        let ticks = longest_run(&code, '`');
        self.nodes.extend([Node::Open(Frame::Code { ticks }), Node::Text(code), Node::Close]);
    }

    fn inline_html(&mut self, tag: &str) {
        self.begin_inline();
        let lower = tag.to_ascii_lowercase();
        let (name, frame) = match lower.as_str() {
            "<br>" | "<br/>" | "<br />" => return self.line(true),
            "<u>" => ("</u>", Frame::Underline),
            "<ins>" => ("</ins>", Frame::Underline),
            "<tg-spoiler>" => ("</tg-spoiler>", Frame::Spoiler),
            closing => {
                let depth = self.spans.len();
                match self.html.last() {
                    Some(open) if open.name == closing && open.depth == depth => {
                        self.html.pop();
                        self.push_close();
                    }
                    _ => self.text(tag),
                }
                return;
            }
        };
        if !self.may_open(&frame) {
            return self.text(tag);
        }
        self.html.push(OpenHtml { name, literal: tag.to_owned(), at: self.nodes.len(), depth: self.spans.len() });
        self.push_open(frame);
    }

    /// Turns tags without an end in the span or block back into text.
    fn leave_html(&mut self, depth: usize) {
        while self.html.last().is_some_and(|open| open.depth >= depth) {
            if let Some(open) = self.html.pop() {
                self.open.retain(|at| *at != open.at);
                self.nodes[open.at] = Node::Text(open.literal);
            }
        }
    }

    fn line(&mut self, hard: bool) {
        if self.heading || self.table.is_some() {
            self.push_text(" ".to_owned());
        } else {
            self.begin_inline();
            self.nodes.push(Node::Line { hard, cut: true });
        }
    }

    fn text(&mut self, text: &str) {
        self.begin_inline();
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                self.line(false);
            }
            self.prose(&clean_prose(line));
        }
    }

    /// Writes one line of prose. Text between two `||` becomes a spoiler.
    fn prose(&mut self, line: &str) {
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once(HIDES) {
            self.push_text(before.to_owned());
            if !self.toggle_spoiler(behind.chars().next()) {
                self.push_text(HIDES.to_owned());
            }
            rest = behind;
        }
        self.push_text(rest.to_owned());
    }

    /// Opens or closes a spoiler at `||`; `next` is the character after it. Returns false if the two bars are
    /// text, as between the operands of an expression.
    fn toggle_spoiler(&mut self, next: Option<char>) -> bool {
        let previous = match self.nodes.last() {
            Some(Node::Text(text)) => text.chars().next_back(),
            _ => None,
        };
        let depth = self.spans.len();
        let is_open = self.html.last().is_some_and(|open| open.name == HIDES && open.depth == depth);
        if is_open {
            let filled = !matches!(self.nodes.last(), Some(Node::Open(Frame::Spoiler)));
            let closes = filled
                && previous.is_none_or(|c| !c.is_whitespace())
                && next.is_none_or(|c| !c.is_alphanumeric() && c != '|');
            if closes {
                self.html.pop();
                self.push_close();
            }
            return closes;
        }
        let opens = previous.is_none_or(|c| !c.is_alphanumeric() && c != '|')
            && next.is_none_or(|c| !c.is_whitespace() && c != '|')
            && self.table.is_none()
            && self.may_open(&Frame::Spoiler);
        if opens {
            self.html.push(OpenHtml { name: HIDES, literal: HIDES.to_owned(), at: self.nodes.len(), depth });
            self.push_open(Frame::Spoiler);
        }
        opens
    }

    fn push_text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        match self.nodes.last_mut() {
            Some(Node::Text(last)) => last.push_str(&text),
            _ => self.nodes.push(Node::Text(text)),
        }
    }

    fn end_code(&mut self) {
        let Some((info, body)) = self.code.take() else { return };
        let (language, first_line) = read_info(&info, body.trim().is_empty());
        let lines = code_lines(first_line.into_iter().chain(body.strip_suffix('\n').unwrap_or(&body).split('\n')));
        if lines.iter().all(String::is_empty) {
            self.inline = false;
            return;
        }
        let run = |c| lines.iter().map(|line| longest_run(line, c)).max().unwrap_or(0);
        self.nodes.push(Node::Open(Frame::CodeBlock { language, ticks: run('`'), tildes: run('~') }));
        push_lines(&mut self.nodes, lines);
        self.nodes.push(Node::Close);
        self.inline = false;
    }
}

/// Appends lines of code, one below the other.
pub(crate) fn push_lines(nodes: &mut Vec<Node>, lines: impl IntoIterator<Item = String>) {
    for (n, line) in lines.into_iter().enumerate() {
        if n > 0 {
            nodes.push(Node::Line { hard: false, cut: true });
        }
        if !line.is_empty() {
            nodes.push(Node::Text(line));
        }
    }
}

/// Splits the text after an opening fence into a language and a first line. A text that is
/// no language is kept as the first line of the code.
fn read_info(info: &str, body_is_empty: bool) -> (String, Option<&str>) {
    let info = info.trim();
    let word = info.split_whitespace().next().unwrap_or("");
    let is_language = !word.is_empty()
        && word.chars().count() <= LANGUAGE_CHARS_MAX
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "+#._-".contains(c));
    if is_language && (!body_is_empty || word == info) {
        (word.to_owned(), None)
    } else if info.is_empty() {
        (String::new(), None)
    } else {
        (String::new(), Some(info))
    }
}

fn code_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut blank = 0;
    for line in lines {
        let line: String = line.chars().filter(|c| shown(*c)).collect();
        let line = if line.trim().is_empty() { String::new() } else { line };
        blank = if line.is_empty() { blank + 1 } else { 0 };
        if blank <= BLANK_LINES_MAX {
            kept.push(line);
        }
    }
    kept
}

fn clean_prose(line: &str) -> String {
    let mut blanks = 0;
    line.chars()
        .filter(|c| {
            blanks = if c.is_whitespace() { blanks + 1 } else { 0 };
            shown(*c) && blanks <= BLANKS_MAX
        })
        .collect()
}

/// Returns whether a character is kept. Control characters other than tab, and the guard of marks, are removed.
fn shown(c: char) -> bool {
    c == '\t' || !(c.is_control() || c == GUARD)
}

fn clean_url(url: &str) -> String {
    let mut clean = String::with_capacity(url.len());
    for c in url.chars().filter(|c| shown(*c) && *c != '\t') {
        match c {
            ' ' => clean.push_str("%20"),
            '<' => clean.push_str("%3C"),
            '>' => clean.push_str("%3E"),
            '\\' => clean.push_str("%5C"),
            '`' => clean.push_str("%60"),
            c if c.is_whitespace() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Returns whether `url` may become a link on a platform. Addresses that could run code, and relative ones, stay text.
fn may_link(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once(':') else { return false };
    !rest.is_empty()
        && ["http", "https", "mailto", "tel", "tg", "xmpp", "matrix", "ftp"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns the length of the longest run of `wanted`.
pub(crate) fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

fn heading_level(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn align(alignment: &Alignment) -> Align {
    match alignment {
        Alignment::None => Align::None,
        Alignment::Left => Align::Left,
        Alignment::Center => Align::Center,
        Alignment::Right => Align::Right,
    }
}

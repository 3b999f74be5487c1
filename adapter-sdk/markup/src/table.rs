//! Lowering of a tree for a renderer: tables become lines, and frames whose marks would
//! leave no room for words become quiet.

use unicode_segmentation::UnicodeSegmentation;

use crate::measure::{Unit, measure};
use crate::parse::{longest_run, push_lines};
use crate::plain::Plain;
use crate::render::{Renderer, Writer};
use crate::tree::{Align, Frame, Node, Table, Tree};

/// The maximum width of a padded column. Longer cells are written without padding.
const COLUMN_WIDTH_MAX: usize = 40;
/// The room that must remain for words next to all marks, in units.
pub(crate) const WORDS_MIN: usize = 6;

/// The room in a part.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// The room for the rendered text without suffix; `usize::MAX` without a limit.
    pub(crate) rendered: usize,
    /// The room for the plain source.
    pub(crate) source: usize,
    pub(crate) unit: Unit,
}

/// Returns the nodes of `tree` as `renderer` can write them within `room`.
pub(crate) fn lower(tree: &Tree, renderer: &dyn Renderer, room: Room) -> Vec<Node> {
    let mut lowering =
        Lowering { renderer, room, nodes: Vec::with_capacity(tree.nodes.len()), open: Vec::new(), cost: 0 };
    for node in &tree.nodes {
        lowering.node(node);
    }
    lowering.nodes
}

/// The effect of closing a frame: the room that it returns, and the text that follows.
struct OpenFrame {
    cost: usize,
    closes: bool,
    after: Option<String>,
}

struct Lowering<'r> {
    renderer: &'r dyn Renderer,
    room: Room,
    nodes: Vec<Node>,
    open: Vec<OpenFrame>,
    cost: usize,
}

impl Lowering<'_> {
    fn node(&mut self, node: &Node) {
        match node {
            Node::Open(frame) | Node::Quiet(frame) => self.open(frame),
            Node::Close => {
                let Some(open) = self.open.pop() else { return };
                self.cost -= open.cost;
                if let Some(text) = open.after {
                    self.push_text(&text);
                }
                if open.closes {
                    self.nodes.push(Node::Close);
                }
            }
            Node::Table(table) => self.table(table),
            Node::Text(text) => self.push_text(text),
            other => self.nodes.push(other.clone()),
        }
    }

    fn push_text(&mut self, text: &str) {
        match self.nodes.last_mut() {
            Some(Node::Text(last)) => last.push_str(text),
            _ => self.nodes.push(Node::Text(text.to_owned())),
        }
    }

    fn open(&mut self, frame: &Frame) {
        if let Frame::Link { url, bare } = frame {
            let fits = *bare || self.source_has_room(url);
            return self.open_link(frame, fits, (!bare).then_some(url));
        }
        if let Frame::Image { url } = frame {
            return self.open_link(frame, self.source_has_room(url), Some(url));
        }
        let cost = self.marks(frame);
        if self.has_room(cost) {
            return self.push(Node::Open(frame.clone()), cost);
        }
        if let Frame::CodeBlock { ticks, tildes, .. } = frame {
            let bare = Frame::CodeBlock { language: String::new(), ticks: *ticks, tildes: *tildes };
            let cost = self.marks(&bare);
            if self.has_room(cost) {
                return self.push(Node::Open(bare), cost);
            }
        }
        self.push(Node::Quiet(frame.clone()), 0);
    }

    /// Opens a link. Without room for its address the link becomes text followed by the address.
    fn open_link(&mut self, frame: &Frame, fits: bool, url: Option<&String>) {
        let cost = self.marks(frame);
        if fits && self.has_room(cost) {
            self.push(Node::Open(frame.clone()), cost);
        } else {
            self.open.push(OpenFrame { cost: 0, closes: false, after: url.map(|url| format!(" ({url})")) });
        }
    }

    fn push(&mut self, node: Node, cost: usize) {
        self.nodes.push(node);
        self.open.push(OpenFrame { cost, closes: true, after: None });
        self.cost += cost;
    }

    /// Returns the room that a frame's marks take in a part that begins and ends inside it.
    fn marks(&self, frame: &Frame) -> usize {
        let opened = self.renderer.open(frame, None);
        let closed = self.renderer.close(frame, &opened);
        let indent =
            self.renderer.indent(frame).map_or(0, |indent| self.len(&indent.first).max(self.len(&indent.rest)));
        let lines = 1 + opened.matches('\n').count() + closed.matches('\n').count();
        self.len(&opened) + self.len(&closed) + indent * lines
    }

    fn has_room(&self, cost: usize) -> bool {
        let room = (self.room.rendered / 2).max(self.room.rendered.min(25));
        self.cost.saturating_add(cost).saturating_add(WORDS_MIN) <= room
    }

    fn source_has_room(&self, url: &str) -> bool {
        self.len(url) + 3 <= self.room.source / 4
    }

    fn len(&self, text: &str) -> usize {
        measure(text, self.room.unit)
    }

    fn table(&mut self, table: &Table) {
        let lines = aligned(table);
        let rows = if self.renderer.tables() { self.piped(table, &lines) } else { None };
        if let Some(rows) = rows {
            self.nodes.extend(rows);
            return;
        }
        let run = |c| lines.iter().map(|line| longest_run(line, c)).max().unwrap_or(0);
        self.open(&Frame::CodeBlock { language: String::new(), ticks: run('`'), tildes: run('~') });
        push_lines(&mut self.nodes, lines);
        self.node(&Node::Close);
    }

    /// Writes a table with pipes. Returns `None` if a row and the repeated header do not fit in one part.
    fn piped(&self, table: &Table, lines: &[String]) -> Option<Vec<Node>> {
        let mut rendered = table.rows.iter().map(|row| self.piped_row(table, row));
        let header = rendered.next()?;
        let rule = table.columns.iter().fold(String::from("|"), |line, align| {
            line + match align {
                Align::None => "---|",
                Align::Left => ":--|",
                Align::Center => ":-:|",
                Align::Right => "--:|",
            }
        });
        let head = format!("{header}\n{rule}");
        let rows: Vec<String> = [header, rule].into_iter().chain(rendered).collect();
        let longest =
            rows.iter().map(|row| self.len(row)).max()?.saturating_add(self.len(&head)).saturating_add(self.cost);
        let longest_line = lines.iter().map(|line| self.len(line)).max()?.saturating_add(18);
        if longest.saturating_add(32) > self.room.rendered || longest_line > self.room.source {
            return None;
        }
        let mut nodes = vec![Node::Open(Frame::Table { header: head })];
        for (n, (rendered, source)) in rows.into_iter().zip(lines).enumerate() {
            if n > 0 {
                // A header without its rule would not be a table.
                nodes.push(Node::Line { hard: false, cut: n > 1 });
            }
            nodes.push(Node::Row { source: source.clone(), rendered });
        }
        nodes.push(Node::Close);
        Some(nodes)
    }

    fn piped_row(&self, table: &Table, row: &[Vec<Node>]) -> String {
        let mut line = String::from("|");
        for n in 0..table.columns.len().min(row.len().max(1)) {
            let cell = row.get(n).map(|cell| write_cell(cell, self.renderer, true)).unwrap_or_default();
            line.push(' ');
            line.push_str(cell.trim());
            line.push_str(" |");
        }
        line
    }
}

fn write_cell(cell: &[Node], renderer: &dyn Renderer, lazy: bool) -> String {
    let mut writer = Writer::cell(renderer, Unit::Bytes, lazy);
    for node in cell {
        match node {
            Node::Text(text) => {
                for (at, grapheme) in text.grapheme_indices(true) {
                    writer.grapheme(grapheme, &text[at + grapheme.len()..]);
                }
            }
            other => writer.node(other),
        }
    }
    writer.finish().0
}

/// Writes a table as lines of plain text: header, rule, rows.
fn aligned(table: &Table) -> Vec<String> {
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let mut cells: Vec<String> =
                row.iter().map(|cell| write_cell(cell, &Plain, false).trim().to_owned()).collect();
            while cells.last().is_some_and(String::is_empty) {
                cells.pop();
            }
            cells
        })
        .collect();
    let mut widths = vec![1; table.columns.len()];
    for row in &rows {
        for (cell, width) in row.iter().zip(&mut widths) {
            *width = (*width).max(display_width(cell)).min(COLUMN_WIDTH_MAX);
        }
    }
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .zip(&table.columns)
            .map(|((cell, width), align)| pad(cell, *width, *align))
            .collect();
        cells.join(" | ").trim_end().to_owned()
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("-+-");
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.insert(lines.len().min(1), rule);
    lines
}

fn pad(cell: &str, width: usize, align: Align) -> String {
    let missing = width.saturating_sub(display_width(cell));
    let left = match align {
        Align::None | Align::Left => 0,
        Align::Center => missing / 2,
        Align::Right => missing,
    };
    format!("{}{cell}{}", " ".repeat(left), " ".repeat(missing - left))
}

/// Returns the width of a text in columns of a fixed-width font. Wide letters take two.
fn display_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true)
        .map(|grapheme| {
            let first = grapheme.chars().next().map_or(0, u32::from);
            let wide = matches!(first, 0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F
                | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD);
            if wide { 2 } else { 1 }
        })
        .sum()
}

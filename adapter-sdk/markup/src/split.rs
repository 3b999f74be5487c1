//! The splitter: it decides where one part ends and the next begins.
//!
//! A part takes two walks from its start. The first walk only measures and remembers the
//! best places to end; the second writes up to the chosen place. Both run the same
//! [`Writer`], so the measured length equals the written length. Each walk covers at most
//! one part, and a part fills at least a quarter of its room, so the total time is linear
//! in the text's length.

use unicode_segmentation::UnicodeSegmentation;

use crate::Part;
use crate::measure::{Limit, Unit, measure};
use crate::plain::Plain;
use crate::render::{Renderer, Writer};
use crate::table::{Room, WORDS_MIN, lower};
use crate::tree::{Node, Tree};

/// The smallest effective limit. A lower limit is raised to it, because marks and suffix would leave no room for words.
pub const LIMIT_MIN: u32 = 32;

/// Renders a tree and splits it into parts within `limit`.
pub fn split_rendered(tree: &Tree, renderer: &dyn Renderer, limit: Limit) -> Vec<Part> {
    let max = match limit.max {
        0 => usize::MAX,
        max => max.max(LIMIT_MIN) as usize,
    };
    let whole = Room { rendered: usize::MAX, source: usize::MAX, unit: limit.unit };
    let nodes = lower(tree, renderer, whole);
    let pieces = cut(&nodes, renderer, whole);
    let fits = |part: &Piece| part.len <= max && part.source_len <= max;
    if pieces.iter().all(fits) {
        return pieces.into_iter().map(|piece| Part { text: piece.text, source: piece.source }).collect();
    }
    for digits in 1..=6 {
        let room = Room { rendered: max - suffix_len_max(digits), source: max, unit: limit.unit };
        let nodes = lower(tree, renderer, room);
        let pieces = cut(&nodes, renderer, room);
        if pieces.len() < 10_usize.pow(digits) || digits == 6 {
            return number(pieces);
        }
    }
    Vec::new()
}

/// Returns the plain text of a tree, which equals the joined `source` texts of every split.
pub(crate) fn plain_text(tree: &Tree) -> String {
    let room = Room { rendered: usize::MAX, source: usize::MAX, unit: Unit::Scalars };
    let nodes = lower(tree, &Plain, room);
    cut(&nodes, &Plain, room).into_iter().map(|piece| piece.source).collect()
}

/// Returns the maximum length of a suffix whose numbers have `digits` digits, including an empty line before it.
fn suffix_len_max(digits: u32) -> usize {
    5 + 2 * digits as usize
}

fn number(pieces: Vec<Piece>) -> Vec<Part> {
    let n = pieces.len();
    let numbered = |(i, piece): (usize, Piece)| {
        // Directly after a fence, a table or a quote the suffix would become part of that block.
        let space = if piece.after_block { "\n\n" } else { " " };
        let text = if n > 1 { format!("{}{space}({}/{n})", piece.text, i + 1) } else { piece.text };
        Part { text, source: piece.source }
    };
    pieces.into_iter().enumerate().map(numbered).collect()
}

/// A part before it is numbered.
struct Piece {
    text: String,
    source: String,
    len: usize,
    source_len: usize,
    after_block: bool,
}

/// A position: an index into the nodes and a byte offset in that node's text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pos {
    node: usize,
    at: usize,
}

/// A place where a part may end.
#[derive(Clone, Copy)]
struct Candidate {
    /// The end of the rendered text.
    end: Pos,
    /// The start of the next part, after the line break if there is one.
    next: Pos,
    /// The length written up to here.
    written: usize,
}

/// The quality of a place to end a part, the best last.
#[derive(Clone, Copy)]
enum Quality {
    Letter = 0,
    Word = 1,
    Line = 2,
    Block = 3,
}

fn cut(nodes: &[Node], renderer: &dyn Renderer, room: Room) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut writer = Writer::new(renderer, room.unit, true);
    let mut source = Writer::new(&Plain, room.unit, false);
    let mut start = Pos { node: 0, at: 0 };
    while start.node < nodes.len() {
        let cut = find_cut(nodes, start, writer.clone(), source.clone(), room);
        walk(nodes, start, cut.end, |step| apply(step, &mut writer));
        walk(nodes, start, cut.next, |step| apply(step, &mut source));
        let following = writer.resume();
        let (len, mut source_len) = (writer.total(), source.written());
        let (text, after_block, visible) = std::mem::replace(&mut writer, following).finish();
        let mut text_source = source.take();
        // Empty quotes write lines before any visible text, and a cut needs visible text.
        while source_len > room.source {
            let Some((_, rest)) = text_source.split_once('\n') else { break };
            text_source = rest.to_owned();
            source_len = measure(&text_source, room.unit);
        }
        // So do nested markers on one line; the words follow them.
        if source_len > room.source {
            text_source = last_of(&text_source, room);
            source_len = measure(&text_source, room.unit);
        }
        start = cut.next;
        if len > room.rendered && nodes.len() > words_max(&text_source) {
            // The marks leave no room for a single letter: write the words without marks.
            pieces.extend(self::cut(&words_of(&text_source), renderer, room));
        } else if visible && !text.is_empty() {
            pieces.push(Piece { text, source: text_source, len, source_len, after_block });
        } else if let Some(last) = pieces.last_mut().filter(|last| last.source_len + source_len <= room.source) {
            // White space alone cannot be sent.
            last.source.push_str(&text_source);
            last.source_len += source_len;
        }
    }
    pieces
}

/// Returns nodes with only the words of a source.
fn words_of(source: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (n, line) in source.split('\n').enumerate() {
        if n > 0 {
            nodes.push(Node::Line { hard: false, cut: true });
        }
        nodes.push(Node::Text(line.to_owned()));
    }
    nodes
}

/// Returns the number of nodes that [`words_of`] makes. A part with no more nodes than that has no marks to drop.
fn words_max(source: &str) -> usize {
    2 * source.split('\n').count() - 1
}

/// Returns the longest end of a text that fits.
fn last_of(text: &str, room: Room) -> String {
    let mut left = room.source;
    let fitting = text.graphemes(true).rev().take_while(|grapheme| {
        let size = measure(grapheme, room.unit);
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    let kept: usize = fitting.map(str::len).sum();
    text[text.len() - kept..].to_owned()
}

/// One step of a walk.
enum Step<'t> {
    Node(&'t Node),
    Grapheme(&'t str, &'t str),
}

fn apply<'t>(step: Step<'t>, writer: &mut Writer<'t, '_>) {
    match step {
        Step::Node(node) => writer.node(node),
        Step::Grapheme(grapheme, rest) => writer.grapheme(grapheme, rest),
    }
}

/// Walks from `from` to `to`. If `to` is inside a grapheme, the grapheme is cut there.
fn walk<'t>(nodes: &'t [Node], from: Pos, to: Pos, mut each: impl FnMut(Step<'t>)) {
    let mut pos = from;
    while pos < to && pos.node < nodes.len() {
        if let Node::Text(text) = &nodes[pos.node] {
            let end = if pos.node == to.node { to.at } else { text.len() };
            while pos.at < end {
                let grapheme = first_grapheme(&text[pos.at..end]);
                pos.at += grapheme.len();
                each(Step::Grapheme(grapheme, &text[pos.at..]));
            }
            if pos.node == to.node {
                return;
            }
        } else {
            each(Step::Node(&nodes[pos.node]));
        }
        pos = Pos { node: pos.node + 1, at: 0 };
    }
}

fn first_grapheme(text: &str) -> &str {
    // Two consecutive ASCII characters are two graphemes, because texts contain no line ends.
    match text.as_bytes() {
        [first, second, ..] if first.is_ascii() && second.is_ascii() => &text[..1],
        _ => text.graphemes(true).next().unwrap_or(""),
    }
}

/// Returns the place where the part that begins at `start` ends.
fn find_cut<'t>(
    nodes: &'t [Node],
    start: Pos,
    mut writer: Writer<'t, '_>,
    mut source: Writer<'t, '_>,
    room: Room,
) -> Candidate {
    let end = Pos { node: nodes.len(), at: 0 };
    let source_start = source.written();
    let mut best: [Option<Candidate>; 4] = [None; 4];
    let mut pos = start;
    while pos.node < nodes.len() {
        let (next, quality) = match &nodes[pos.node] {
            Node::Text(text) if pos.at >= text.len() => {
                pos = Pos { node: pos.node + 1, at: 0 };
                continue;
            }
            Node::Text(text) => {
                let grapheme = first_grapheme(&text[pos.at..]);
                let next = Pos { node: pos.node, at: pos.at + grapheme.len() };
                let indentation = writer.in_code_block() && writer.line_is_blank();
                let rest = &text[next.at..];
                apply(Step::Grapheme(grapheme, rest), &mut writer);
                apply(Step::Grapheme(grapheme, rest), &mut source);
                let blank = grapheme.chars().all(char::is_whitespace) && !indentation;
                (next, if blank { Quality::Word } else { Quality::Letter })
            }
            node => {
                let next = Pos { node: pos.node + 1, at: 0 };
                let quality = match node {
                    Node::Gap { blank: true } => Some(Quality::Block),
                    Node::Gap { blank: false } | Node::Line { cut: true, .. } => Some(Quality::Line),
                    _ => None,
                };
                let written = writer.written();
                apply(Step::Node(node), &mut source);
                let fits = written > 0 && source.written() - source_start <= room.source;
                if let Some(quality) = quality.filter(|_| fits) {
                    best[quality as usize] = Some(Candidate { end: pos, next, written });
                }
                apply(Step::Node(node), &mut writer);
                (next, Quality::Letter)
            }
        };
        if writer.total() > room.rendered || source.written() - source_start > room.source {
            return choose(&best, room).unwrap_or_else(|| forced(nodes, pos, next, room));
        }
        pos = next;
        let breakable = !matches!(nodes.get(pos.node), Some(Node::Line { cut: false, .. }));
        if writer.written() > 0 && breakable {
            best[quality as usize] = Some(Candidate { end: pos, next: pos, written: writer.written() });
        }
    }
    Candidate { end, next: end, written: writer.written() }
}

/// Returns the best place that fills enough of the part.
fn choose(best: &[Option<Candidate>; 4], room: Room) -> Option<Candidate> {
    let worth = |quality: Quality, share: usize| {
        best[quality as usize].filter(|candidate| candidate.written >= room.rendered / share)
    };
    worth(Quality::Block, 2)
        .or_else(|| worth(Quality::Line, 2))
        .or_else(|| worth(Quality::Block, 3))
        .or_else(|| worth(Quality::Word, 3))
        .or_else(|| worth(Quality::Line, 4))
        .or_else(|| worth(Quality::Word, 4))
        .or_else(|| best.iter().flatten().copied().max_by_key(|candidate| candidate.next))
}

/// Returns the end of a single step that does not fit at the start of a part. A grapheme
/// longer than the room is cut after some of its characters; any other step is taken whole.
fn forced(nodes: &[Node], pos: Pos, next: Pos, room: Room) -> Candidate {
    let mut next = next;
    if let Node::Text(text) = &nodes[pos.node] {
        let mut left = (room.rendered / 4).max(WORDS_MIN);
        let mut at = pos.at;
        for c in text[pos.at..next.at].chars() {
            let size = measure(c.encode_utf8(&mut [0; 4]), room.unit);
            if size > left {
                break;
            }
            left -= size;
            at += c.len_utf8();
        }
        next = Pos { node: pos.node, at };
    }
    Candidate { end: next, next, written: 0 }
}

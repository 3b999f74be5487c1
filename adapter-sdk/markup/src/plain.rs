//! Rendering without markup, as a person would type the text.

use crate::render::{Indent, Place, Renderer};
use crate::tree::{Frame, Marker};

/// The renderer without markup. A link shows its address in parentheses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Renderer for Plain {
    fn escape(&self, grapheme: &str, _: Place<'_>, out: &mut String) {
        out.push_str(grapheme);
    }

    fn open(&self, _: &Frame, _: Option<char>) -> String {
        String::new()
    }

    fn close(&self, frame: &Frame, _: &str) -> String {
        match frame {
            Frame::Link { url, bare: false } | Frame::Image { url } => format!(" ({url})"),
            _ => String::new(),
        }
    }

    fn indent(&self, frame: &Frame) -> Option<Indent> {
        match frame {
            Frame::Quote => Some(Indent { first: "> ".to_owned(), rest: "> ".to_owned() }),
            Frame::Item { marker, task, indents } => {
                Some(item_indent(*marker, *task, *indents, ["- ", "* "], ["[ ] ", "[x] "]))
            }
            _ => None,
        }
    }
}

/// Returns the indent of an item, from a dialect's bullets (usual, other) and boxes (open, done).
pub(crate) fn item_indent(
    marker: Marker,
    task: Option<bool>,
    indents: bool,
    bullets: [&str; 2],
    boxes: [&str; 2],
) -> Indent {
    let marker = match marker {
        Marker::Bullet { other } => bullets[usize::from(other)].to_owned(),
        Marker::Number { number, other } => format!("{number}{} ", if other { ')' } else { '.' }),
    };
    let rest = if indents { " ".repeat(marker.chars().count()) } else { String::new() };
    let first = match task {
        Some(done) => marker + boxes[usize::from(done)],
        None => marker,
    };
    Indent { first, rest }
}

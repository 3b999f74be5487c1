//! The mrkdwn of Slack.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text>. Only `&`, `<` and `>` can be escaped, so `<!channel>`
//! never notifies anybody; a literal `*`, `_` or `~` cannot be escaped and stays as written. Slack reads a mark only
//! next to a character that is not a letter; next to a letter the renderer inserts a zero-width space, and also
//! between two literal backticks. Marks inside a link are not read, and bold cannot contain bold. Headings, lists and
//! tables do not exist: headings are bold, lists are written with bullets, tables are aligned in a code block.

use crate::plain::item_indent;
use crate::render::{Indent, Place, Renderer};
use crate::tree::Frame;

/// An invisible separator between two characters (zero-width space).
const APART: char = '\u{200b}';

/// The renderer for Slack's mrkdwn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mrkdwn;

impl Renderer for Mrkdwn {
    fn escape(&self, grapheme: &str, place: Place<'_>, out: &mut String) {
        if grapheme == "`" && place.previous == Some('`') {
            out.push(APART);
        }
        escaped(grapheme, out);
    }

    fn open(&self, frame: &Frame, _: Option<char>) -> String {
        match frame {
            Frame::Strong | Frame::Heading(_) => "*".to_owned(),
            Frame::Emphasis => "_".to_owned(),
            Frame::Strike => "~".to_owned(),
            // Inline code cannot contain a backtick.
            Frame::Code { ticks: 0 } => "`".to_owned(),
            Frame::Link { url, .. } | Frame::Image { url } => format!("<{}|", address(url)),
            Frame::CodeBlock { .. } => "```\n".to_owned(),
            _ => String::new(),
        }
    }

    fn close(&self, frame: &Frame, opened: &str) -> String {
        match frame {
            Frame::Link { .. } | Frame::Image { .. } => ">".to_owned(),
            Frame::CodeBlock { .. } => "\n```".to_owned(),
            _ => opened.to_owned(),
        }
    }

    fn nests(&self, outer: &Frame, inner: &Frame) -> bool {
        match outer {
            Frame::Link { .. } | Frame::Image { .. } => false,
            Frame::Strong | Frame::Heading(_) => !matches!(inner, Frame::Strong | Frame::Heading(_)),
            Frame::Emphasis => *inner != Frame::Emphasis,
            Frame::Strike => *inner != Frame::Strike,
            _ => true,
        }
    }

    fn apart(&self, outside: char, mark: char, _: char) -> Option<String> {
        touches(outside, mark).then(|| format!("{outside}{APART}"))
    }

    fn apart_after(&self, outside: char, mark: char, _: char) -> Option<String> {
        touches(outside, mark).then(|| format!("{APART}{outside}"))
    }

    fn indent(&self, frame: &Frame) -> Option<Indent> {
        match frame {
            Frame::Quote => Some(Indent { first: "> ".to_owned(), rest: "> ".to_owned() }),
            Frame::Item { marker, task, indents } => {
                Some(item_indent(*marker, *task, *indents, ["• ", "◦ "], ["☐ ", "☑ "]))
            }
            _ => None,
        }
    }
}

/// Returns whether Slack ignores `mark` directly next to `outside`.
fn touches(outside: char, mark: char) -> bool {
    matches!(mark, '*' | '_' | '~' | '`') && outside.is_alphanumeric()
}

fn escaped(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
}

/// Returns the escaped address. A `|` would start the link's text, so it is percent-encoded.
fn address(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    escaped(&url.replace('|', "%7C"), &mut out);
    out
}

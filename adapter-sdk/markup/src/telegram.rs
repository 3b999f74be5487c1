//! The HTML subset of the Telegram Bot API.
//!
//! <https://core.telegram.org/bots/api#html-style>. Only `&`, `<` and `>` are escaped in
//! text, and `"` in attributes; tags are always closed in the part that opens them.
//! Telegram has no headings, lists or tables: headings are bold, lists are written with
//! bullets, tables are aligned in `<pre>`.

use crate::plain::item_indent;
use crate::render::{Indent, Place, Renderer};
use crate::tree::Frame;

/// The renderer for the HTML of Telegram's Bot API.
#[derive(Clone, Copy, Debug, Default)]
pub struct Telegram;

impl Renderer for Telegram {
    fn escape(&self, grapheme: &str, _: Place<'_>, out: &mut String) {
        for c in grapheme.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                c => out.push(c),
            }
        }
    }

    fn open(&self, frame: &Frame, _: Option<char>) -> String {
        match frame {
            Frame::Strong | Frame::Heading(_) => "<b>".to_owned(),
            Frame::Emphasis => "<i>".to_owned(),
            Frame::Strike => "<s>".to_owned(),
            Frame::Underline => "<u>".to_owned(),
            Frame::Spoiler => "<tg-spoiler>".to_owned(),
            Frame::Code { .. } => "<code>".to_owned(),
            Frame::Quote => "<blockquote>".to_owned(),
            Frame::Link { url, .. } | Frame::Image { url } => format!("<a href=\"{}\">", attribute(url)),
            Frame::CodeBlock { language, .. } if language.is_empty() => "<pre>".to_owned(),
            Frame::CodeBlock { language, .. } => format!("<pre><code class=\"language-{}\">", attribute(language)),
            _ => String::new(),
        }
    }

    fn close(&self, frame: &Frame, _: &str) -> String {
        match frame {
            Frame::Strong | Frame::Heading(_) => "</b>",
            Frame::Emphasis => "</i>",
            Frame::Strike => "</s>",
            Frame::Underline => "</u>",
            Frame::Spoiler => "</tg-spoiler>",
            Frame::Code { .. } => "</code>",
            Frame::Quote => "</blockquote>",
            Frame::Link { .. } | Frame::Image { .. } => "</a>",
            Frame::CodeBlock { language, .. } if language.is_empty() => "</pre>",
            Frame::CodeBlock { .. } => "</code></pre>",
            _ => "",
        }
        .to_owned()
    }

    fn indent(&self, frame: &Frame) -> Option<Indent> {
        match frame {
            Frame::Item { marker, task, indents } => {
                Some(item_indent(*marker, *task, *indents, ["• ", "◦ "], ["☐ ", "☑ "]))
            }
            _ => None,
        }
    }
}

fn attribute(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

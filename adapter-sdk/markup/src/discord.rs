//! The markdown of Discord.
//!
//! It looks like CommonMark and is not: `__` underlines, fences are backticks only, nothing is written by its
//! number, a masked link may not show an address, and there are neither tables nor lines across the text. A
//! backslash shows any punctuation as it is. Runs of backticks in code cannot be escaped; an invisible space
//! keeps them from ending it. `<@1>`, `<#1>` and `<t:1>` stay what they are: who is called by them is the
//! adapter's to bound. <https://support.discord.com/hc/en-us/articles/210298617>

use crate::plain::item_indent;
use crate::render::{CodeKind, Indent, LinePosition, Place, Renderer};
use crate::tree::Frame;

/// The deepest heading that there is.
const HEADING_MAX: u8 = 3;

/// The markdown of Discord.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discord;

impl Renderer for Discord {
    fn escape(&self, grapheme: &str, place: Place<'_>, out: &mut String) {
        match place.code {
            Some(kind) => {
                out.push_str(grapheme);
                let (run, joins) = match kind {
                    CodeKind::Block => ("``", grapheme == "`"),
                    CodeKind::Inline => ("`", grapheme == "`"),
                };
                if joins && place.rest.starts_with(run) {
                    out.push('\u{200b}');
                }
            }
            None => {
                // Inside an address a backslash would be a part of it.
                if !place.address && is_special(grapheme, &place) {
                    out.push('\\');
                }
                out.push_str(grapheme);
            }
        }
    }

    fn open(&self, frame: &Frame, previous: Option<char>) -> String {
        match frame {
            Frame::Strong => "**".to_owned(),
            // Within a word only `*` is a mark; elsewhere `_` does not run together with `**`.
            Frame::Emphasis => {
                if previous.is_some_and(|c| c.is_alphanumeric() || c == '_') { "*" } else { "_" }.to_owned()
            }
            Frame::Strike => "~~".to_owned(),
            Frame::Underline => "__".to_owned(),
            Frame::Spoiler => "||".to_owned(),
            Frame::Code { ticks: 0 } => "`".to_owned(),
            Frame::Code { .. } => "`` ".to_owned(),
            Frame::Link { bare: false, .. } | Frame::Image { .. } => "[".to_owned(),
            Frame::Heading(level) => "#".repeat(usize::from((*level).min(HEADING_MAX))) + " ",
            Frame::CodeBlock { language, .. } => format!("```{}\n", known_language(language)),
            _ => String::new(),
        }
    }

    fn close(&self, frame: &Frame, opened: &str) -> String {
        match frame {
            Frame::Strong | Frame::Emphasis | Frame::Strike | Frame::Underline | Frame::Spoiler => opened.to_owned(),
            Frame::Code { .. } => opened.chars().rev().collect(),
            Frame::Link { url, bare: false } | Frame::Image { url } => {
                if url.contains(['(', ')']) {
                    format!("](<{url}>)")
                } else {
                    format!("]({url})")
                }
            }
            Frame::CodeBlock { .. } => "\n```".to_owned(),
            _ => String::new(),
        }
    }

    fn indent(&self, frame: &Frame) -> Option<Indent> {
        match frame {
            Frame::Quote => Some(Indent { first: "> ".to_owned(), rest: "> ".to_owned() }),
            Frame::Item { marker, task, indents } => {
                Some(item_indent(*marker, *task, *indents, ["- ", "* "], ["☐ ", "☑ "]))
            }
            _ => None,
        }
    }

    fn flattens_items(&self) -> bool {
        true
    }
}

/// A language that is read as one behind a fence; any other would be shown as code.
fn known_language(language: &str) -> &str {
    let fits = language.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-.#".contains(&b));
    if fits { language } else { "" }
}

fn is_special(grapheme: &str, place: &Place<'_>) -> bool {
    let next = place.rest.chars().next();
    let between_words = place.previous.is_some_and(char::is_alphanumeric) && next.is_some_and(char::is_alphanumeric);
    match grapheme {
        "\\" | "`" | "*" | "~" | "|" => true,
        "_" => !between_words,
        "[" => place.rest.contains("]("),
        "#" | ">" | "-" => place.line == LinePosition::Start,
        "." => place.line == LinePosition::AfterDigits,
        _ => false,
    }
}

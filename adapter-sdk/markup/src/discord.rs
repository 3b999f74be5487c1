//! The markdown of Discord.
//!
//! Discord's dialect resembles CommonMark but differs: `__` underlines, fences use backticks only, character
//! references are not decoded, the text of a masked link may not be an address, and tables and horizontal
//! rules do not exist. A backslash escapes any punctuation. A run of backticks inside code cannot be escaped;
//! a zero-width space splits the run, so that the run does not end the code. Mentions such as `<@1>`, `<#1>`
//! and `<t:1>` stay as written; the adapter limits who they notify.
//! <https://support.discord.com/hc/en-us/articles/210298617>

use crate::plain::item_indent;
use crate::render::{CodeKind, Indent, LinePosition, Place, Renderer};
use crate::tree::Frame;

/// The deepest heading level of Discord.
const HEADING_MAX: u8 = 3;

/// The renderer for Discord's markdown.
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
                // Inside an address the backslash would become part of the address.
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
            // Inside a word only `*` is a mark. Elsewhere `_` is used, which does not merge with `**`.
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

/// Returns the language if Discord accepts it after a fence, else an empty string: Discord
/// would show any other word as code.
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

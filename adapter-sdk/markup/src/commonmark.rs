//! CommonMark with tables, strikethrough and task lists.
//!
//! The renderer writes the text from the tree, so oddities of the input do not survive: a
//! fence is longer than any run of its mark inside the block, and a character is escaped
//! only where CommonMark would read it as markup. If a letter next to a mark would keep
//! the mark from being read, the letter becomes a numeric character reference (`&#98;`):
//! its `&` and `;` count as punctuation, so the mark can open or close there.

use crate::plain::item_indent;
use crate::render::{Indent, LinePosition, Place, Renderer};
use crate::tree::Frame;

/// The CommonMark renderer.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonMark;

impl Renderer for CommonMark {
    fn escape(&self, grapheme: &str, place: Place<'_>, out: &mut String) {
        let special = match (place.code, grapheme) {
            (Some(_), "|") => place.table,
            (Some(_), _) => false,
            (None, _) => is_special(grapheme, &place),
        };
        if special {
            out.push('\\');
        }
        out.push_str(grapheme);
    }

    fn open(&self, frame: &Frame, previous: Option<char>) -> String {
        match frame {
            // Two adjacent runs of the same mark would merge.
            Frame::Strong => if previous == Some('*') { "__" } else { "**" }.to_owned(),
            Frame::Emphasis => if previous == Some('*') { "_" } else { "*" }.to_owned(),
            Frame::Strike => "~~".to_owned(),
            Frame::Underline => "<u>".to_owned(),
            Frame::Spoiler => "<tg-spoiler>".to_owned(),
            Frame::Code { ticks: 0 } => "`".to_owned(),
            Frame::Code { ticks } => "`".repeat(ticks + 1) + " ",
            Frame::Link { .. } => "[".to_owned(),
            Frame::Image { .. } => "![".to_owned(),
            Frame::Heading(level) => "#".repeat(usize::from(*level)) + " ",
            Frame::CodeBlock { language, ticks, tildes } => format!("{}{language}\n", fence(*ticks, *tildes)),
            _ => String::new(),
        }
    }

    fn close(&self, frame: &Frame, opened: &str) -> String {
        match frame {
            Frame::Strong | Frame::Emphasis | Frame::Strike => opened.to_owned(),
            Frame::Underline => "</u>".to_owned(),
            Frame::Spoiler => "</tg-spoiler>".to_owned(),
            Frame::Code { .. } => opened.chars().rev().collect(),
            Frame::Link { url, .. } | Frame::Image { url } => {
                let url = url.replace('|', "%7C");
                if url.contains(['(', ')']) { format!("](<{url}>)") } else { format!("]({url})") }
            }
            Frame::CodeBlock { ticks, tildes, .. } => format!("\n{}", fence(*ticks, *tildes)),
            _ => String::new(),
        }
    }

    fn apart(&self, outside: char, mark: char, inside: char) -> Option<String> {
        match mark {
            '*' | '_' | '~' if separates(outside) => None,
            // Inside a word `_` is never a mark, and `*` or `~` only if its inner neighbour is a letter.
            '*' | '~' if is_letter(inside) => None,
            '*' | '_' | '~' => Some(format!("&#{};", u32::from(outside))),
            // `!` and `[` together would start an image.
            '[' if outside == '!' => Some("\\!".to_owned()),
            _ => None,
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

    fn flattens_items(&self) -> bool {
        true
    }

    fn tables(&self) -> bool {
        true
    }

    fn hard_break(&self) -> &'static str {
        "\\\n"
    }

    fn rule(&self) -> &'static str {
        "***"
    }
}

/// Returns whether every CommonMark parser treats `c` as white space or punctuation. Symbols
/// outside ASCII do not count: older parsers treat them as letters.
fn separates(c: char) -> bool {
    c.is_whitespace()
        || c.is_ascii_punctuation()
        || matches!(c,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿'
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{2043}'
            | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}'
            | '！'..='＃' | '％'..='＊' | '，'..='／' | '：' | '；' | '？' | '＠' | '［'..='］' | '＿' | '｛' | '｝'
            | '｟'..='･')
}

/// Returns whether every CommonMark parser treats `c` as a letter.
fn is_letter(c: char) -> bool {
    // Enclosed letters (circled, squared) are symbols.
    c.is_alphanumeric() && !matches!(c, '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f189}')
}

fn fence(ticks: usize, tildes: usize) -> String {
    if ticks < 3 {
        "```".to_owned()
    } else if tildes < 3 {
        "~~~".to_owned()
    } else {
        "`".repeat(ticks + 1)
    }
}

fn is_special(grapheme: &str, place: &Place<'_>) -> bool {
    let next = place.rest.chars().next();
    let between_words = place.previous.is_some_and(char::is_alphanumeric) && next.is_some_and(char::is_alphanumeric);
    match grapheme {
        "\\" | "`" | "*" | "[" | "]" | "~" | "|" => true,
        "_" => !between_words,
        "<" => next.is_none_or(|c| c.is_ascii_alphabetic() || "/!?".contains(c)),
        "&" => next.is_none_or(|c| c.is_ascii_alphanumeric() || c == '#'),
        "#" | ">" | "+" | "-" | "=" => place.line == LinePosition::Start,
        "." | ")" => place.line == LinePosition::AfterDigits,
        _ => false,
    }
}

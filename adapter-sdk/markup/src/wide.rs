//! Emphasis next to wide text.
//!
//! CommonMark decides by the neighbours whether a mark counts, and expects blanks between words. Chinese,
//! Japanese, Korean, Thai and related scripts have no blanks between words, so `**label：**text` would keep its
//! asterisks. A guard between a mark and its neighbour counts as a letter, so the mark is read. The rule
//! follows the CommonMark proposal for these scripts: <https://github.com/tats-u/markdown-cjk-friendly>.

use std::borrow::Cow;

/// A noncharacter between a mark and its neighbour. The parser removes it from all text.
pub(crate) const GUARD: char = '\u{fdd0}';

/// Returns `markdown` with a guard on both sides of each mark next to wide text.
pub(crate) fn guard_marks(markdown: &str) -> Cow<'_, str> {
    if !markdown.chars().any(is_wide) {
        return Cow::Borrowed(markdown);
    }
    let mut out = String::with_capacity(markdown.len() + 64);
    let mut at = 0;
    while let Some(c) = markdown[at..].chars().next() {
        let rest = &markdown[at..];
        let run = rest.len() - rest.trim_start_matches(c).len();
        let is_mark = c == '*' || (c == '~' && run > 1);
        let end = at + if is_mark { run } else { c.len_utf8() };
        let (before, after) = (markdown[..at].chars().rev(), markdown[end..].chars());
        // An underscore is a mark only next to punctuation, which a guard would hide.
        let untouched = markdown[..at].ends_with(['\\', '_']) || markdown[end..].starts_with('_');
        let guarded = is_mark && !untouched && (is_beside(before.clone()) || is_beside(after.clone()));
        if guarded && before.clone().next().is_some_and(|c| !c.is_whitespace()) {
            out.push(GUARD);
        }
        out.push_str(&markdown[at..end]);
        if guarded && after.clone().next().is_some_and(|c| !c.is_whitespace()) {
            out.push(GUARD);
        }
        at = end;
    }
    Cow::Owned(out)
}

/// Returns whether wide text follows: a wide character, or punctuation and then a wide character.
fn is_beside(mut neighbours: impl Iterator<Item = char>) -> bool {
    match neighbours.next() {
        Some(first) if is_wide(first) => true,
        Some(first) if first.is_whitespace() || first.is_alphanumeric() || matches!(first, '*' | '~' | '\\') => false,
        Some(_) => neighbours.next().is_some_and(is_wide),
        None => false,
    }
}

/// Returns whether `c` belongs to a script that is written without blanks between words.
fn is_wide(c: char) -> bool {
    !c.is_whitespace()
        && matches!(u32::from(c),
            0x0e00..=0x0fff | 0x1000..=0x109f | 0x1100..=0x115f | 0x1780..=0x17ff | 0x2e80..=0x4dbf
            | 0x4e00..=0xa4cf | 0xa960..=0xa97f | 0xac00..=0xd7fb | 0xf900..=0xfaff | 0xfe30..=0xfe4f
            | 0xff01..=0xffef | 0x1b000..=0x1b2ff | 0x1f200..=0x1f2ff | 0x20000..=0x3fffd)
}

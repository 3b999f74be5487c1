//! Short forms of texts.

use std::borrow::Cow;

/// Returns the longest beginning of `text` that has at most `bytes_max` bytes. It ends between two characters.
///
/// ```
/// assert_eq!(hermes_protocol::text::prefix("naïve", 3), "na");
/// ```
pub fn prefix(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Returns `text` with at most `chars_max` characters. The last character of a truncated text is `…`.
///
/// ```
/// assert_eq!(hermes_protocol::text::truncate("weather", 7), "weather");
/// assert_eq!(hermes_protocol::text::truncate("weather report", 7), "weathe…");
/// ```
pub fn truncate(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => text.into(),
        Some(_) if chars_max == 0 => "".into(),
        Some(_) => text.chars().take(chars_max - 1).chain(['…']).collect(),
    }
}

/// Returns `text` on one line: its words, separated by single spaces. White space and control characters separate
/// words.
///
/// ```
/// assert_eq!(hermes_protocol::text::one_line(" two\nlines\u{7}"), "two lines");
/// ```
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_short_form_keeps_its_limit_and_begins_like_the_text(text in "\\PC{0,12}", max in 0usize..16) {
            let start = prefix(&text, max);
            prop_assert!(text.starts_with(start) && start.len() <= max && max - start.len() < 4 || start == text);
            let short = truncate(&text, max);
            prop_assert!(short.chars().count() <= max);
            prop_assert!(short == text || max == 0 || text.starts_with(short.trim_end_matches('…')));
        }

        #[test]
        fn a_line_holds_no_control_character_and_no_word_less(text in "[a-c \\n\\t\\x00\\x1b\u{85}\u{2028}]{0,12}") {
            let line = one_line(&text);
            let apart = |c: char| c.is_whitespace() || c.is_control();
            prop_assert!(!line.chars().any(char::is_control) && line.trim() == line && !line.contains("  "));
            let letters = |text: &str| text.chars().filter(|c| !apart(*c)).collect::<String>();
            prop_assert_eq!(letters(&line), letters(&text));
        }
    }
}

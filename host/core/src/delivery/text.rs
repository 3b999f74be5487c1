//! Text processing of replies before delivery.

use std::iter::Peekable;
use std::str::Chars;

use super::take_media;
use crate::limits::SILENCE_CHARS_MAX;

/// Replies that request silence.
const SILENCE_WORDS: [&str; 3] = ["silent", "no_reply", "no reply"];

/// Returns true if the whole reply is a marker of silence, such as `[SILENT]` or `NO_REPLY`. Case, whitespace
/// and punctuation around it are ignored. The marker stays in the transcript.
pub fn silence(text: &str) -> bool {
    if text.chars().nth(SILENCE_CHARS_MAX).is_some() {
        return false;
    }
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric());
    SILENCE_WORDS.iter().any(|word| bare.eq_ignore_ascii_case(word))
}

/// Returns the part of an unfinished reply that may be shown. Lines that name files are removed, as is a last
/// line that may become one. The result is empty while the reply may still become a marker of silence.
pub fn preview(text: &str) -> String {
    if may_become_silence(text) {
        return String::new();
    }
    let mut said = take_media(text).said;
    let last = said.rfind('\n').map_or(0, |at| at + 1);
    if "MEDIA:".starts_with(said[last..].trim()) || said[last..].trim_start().starts_with("MEDIA:") {
        said.truncate(last);
    }
    said.truncate(said.trim_end().len());
    said
}

fn may_become_silence(text: &str) -> bool {
    if text.chars().nth(SILENCE_CHARS_MAX).is_some() {
        return false;
    }
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    SILENCE_WORDS.iter().any(|word| word.starts_with(&bare))
}

/// Removes terminal escape sequences (such as ANSI) and control characters from a text. Line ends become `\n`
/// and tabs stay. Of an incomplete sequence only the beginning is removed, not the text behind it.
pub fn strip_control(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => clean.push(c),
            '\r' => {
                // A lone carriage return overwrites the line on a terminal; in a chat it is a line end.
                if rest.peek() != Some(&'\n') {
                    clean.push('\n');
                }
            }
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Skips the rest of a sequence after ESC.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_csi(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        _ => {
            while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// Skips a control sequence: parameters, intermediates, one final character.
fn skip_csi(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| matches!(c, '0'..='?')).is_some() {}
    while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// Skips a control string up to its terminator on the same line. Without a terminator nothing is skipped.
fn skip_string(rest: &mut Peekable<Chars<'_>>) {
    let mut ahead = rest.clone();
    while let Some(c) = ahead.next() {
        match c {
            '\u{7}' | '\u{9c}' => {
                *rest = ahead;
                return;
            }
            '\u{1b}' if ahead.peek() == Some(&'\\') => {
                ahead.next();
                *rest = ahead;
                return;
            }
            // Any other control character ends the string, so that each character is inspected once and not
            // once per introducer.
            c if c.is_control() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_marker_alone_is_silence() {
        for silent in ["[SILENT]", "silent.", "*NO_REPLY*", "NO REPLY!", " no_reply\n"] {
            assert!(silence(silent), "{silent:?}");
        }
        for said in ["", "I am silent", "NO REPLY from them", &format!("[SILENT]{}", "!".repeat(60)), "silently"] {
            assert!(!silence(said), "{said:?}");
        }
    }

    #[test]
    fn an_unfinished_reply_shows_neither_files_nor_what_may_become_silence() {
        for hidden in ["", "[", "[SIL", "NO_RE", "no reply", "MEDIA", "MEDIA:/a/b", "\nMEDIA: /a"] {
            assert_eq!(preview(hidden), "", "{hidden:?}");
        }
        assert_eq!(preview("Look:\nMEDIA:/a.png\nand more\nMED"), "Look:\nand more");
        assert_eq!(preview("Mediation "), "Mediation");
        assert_eq!(preview("No report yet"), "No report yet");
        assert_eq!(preview("```\nMEDIA:/code\n"), "```\nMEDIA:/code");
    }

    #[test]
    fn terminal_sequences_are_taken_out() {
        assert_eq!(
            strip_control("\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b]8;;u\x1b\\!\x1b(B\u{9b}2Jx"),
            "red plain!x"
        );
        assert_eq!(strip_control("a\r\nb\rc\0d\u{7f}\u{85}"), "a\nb\ncd");
    }

    #[test]
    fn a_sequence_that_was_cut_off_does_not_swallow_the_text() {
        assert_eq!(strip_control("\x1b[31"), "");
        assert_eq!(strip_control("\x1b]0;never ends\nnext"), "0;never ends\nnext");
        assert_eq!(strip_control("\x1bPhello"), "hello");
        assert_eq!(strip_control("\x1b[31ünder"), "ünder");
    }

    #[test]
    fn an_unterminated_string_costs_no_more_than_its_line() {
        for introducer in ["\x1b]", "\u{9d}", "\x1bP\t"] {
            let hostile = introducer.repeat(200_000);
            assert_eq!(strip_control(&hostile).trim(), "");
        }
    }

    proptest! {
        #[test]
        fn no_control_character_is_left_and_stripping_again_changes_nothing(
            text in "[\\x1b\\x07\\x00-\\x1f\u{7f}-\u{9f}\\[\\];a-f0-9 ü\u{4e00}\\\\]{0,60}",
        ) {
            let clean = strip_control(&text);
            prop_assert!(clean.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            prop_assert_eq!(strip_control(&clean), clean);
        }

        #[test]
        fn clean_text_stays_as_it_is(text in "[^\\p{Cc}]{0,80}") {
            prop_assert_eq!(strip_control(&text), text);
        }
    }
}

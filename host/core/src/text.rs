//! Times and texts for people.

/// Formats a time in its largest sensible unit: `12 s`, `3 min`, `5 h`, `9 d`.
pub fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns `true` if a character is safe to show: it moves no cursor and does not change the text direction.
pub fn is_shown(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

/// Returns `text` on one line without unsafe characters, at most `chars_max` characters long.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line: String = flat.chars().filter(|c| is_shown(*c)).take(chars_max).collect();
    if flat.chars().count() > chars_max && line.pop().is_some() {
        line.push('…');
    }
    line
}

/// Formats a count with its noun, whose plural ends in `s`: `1 turn`, `2 turns`.
pub fn counted(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The longest quotation of user text in an answer, in characters.
const ECHO_CHARS_MAX: usize = 60;

/// Quotes the beginning of user text. The result contains no formatting and is short.
pub fn echo(text: &str) -> String {
    format!("\"{}\"", one_line(text, ECHO_CHARS_MAX).replace('`', "'"))
}

/// Returns the text with a final full stop, unless it ends a sentence already.
pub fn sentence(words: impl Into<String>) -> String {
    let mut words = words.into();
    if !words.ends_with(['.', '?', '!', '…']) {
        words.push('.');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_sentence_already() {
        let near = "there is no instance \"telegrm\"; did you mean \"telegram\"?";
        assert_eq!(sentence(near), near);
        assert_eq!(sentence("the host has gone"), "the host has gone.");
    }

    #[test]
    fn one_of_a_thing_is_no_several() {
        assert_eq!([0_u32, 1, 2].map(|n| counted(n, "turn")), ["0 turns", "1 turn", "2 turns"]);
    }

    #[test]
    fn what_is_repeated_is_one_short_line_that_ends_no_code() {
        assert_eq!(echo("the `trip`\nto Rome"), "\"the 'trip' to Rome\"");
        assert_eq!(echo(&"x".repeat(10_000)).chars().count(), ECHO_CHARS_MAX + 2);
    }

    #[test]
    fn a_span_is_told_in_its_largest_sensible_unit() {
        let cases = [(-5, "0 s"), (0, "0 s"), (119_000, "119 s"), (120_000, "2 min"), (7_199_000, "119 min")];
        for (ms, text) in
            cases.into_iter().chain([(7_200_000, "2 h"), (172_800_000, "2 d"), (i64::MAX, "106751991167 d")])
        {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn a_line_has_no_escape_sequences_and_ends_at_its_bound() {
        assert_eq!(one_line("a\n\tb \u{1b}[31mred", 20), "a b [31mred");
        assert_eq!(one_line("Eve\u{202e}nimda\u{2066}\u{9b}2J", 20), "Evenimda2J");
        assert_eq!(one_line("äöüß", 3), "äö…");
        assert_eq!(one_line("abc", 3), "abc");
        assert_eq!(one_line("abc", 0), "");
    }
}

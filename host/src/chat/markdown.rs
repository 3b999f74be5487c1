//! Markdown as it comes, piece by piece, into lines that a terminal can show.
//!
//! A line is shown when it is complete or when it fills the width, so that nothing
//! that stands on the screen has to be taken back. Bold, headings and code are
//! styled; everything else is left as it was written, which reads well. Control
//! characters never get through. Without a style the text stays as it is.

use crate::status::human::is_shown;

/// Ends every style.
const PLAIN: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";

/// The longest word that is held back until its end is known, in characters.
const WORD_CHARS_MAX: usize = 512;

/// How lines are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether they are styled.
    pub styled: bool,
    /// Columns after which a line is broken; 0: never.
    pub width: usize,
}

/// What a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Its first characters decide.
    #[default]
    Open,
    /// Text with marks.
    Text,
    /// A heading: bold to its end.
    Heading,
    /// The line that opens or closes a block of code.
    Fence,
    /// Shown as it is: code, or a row of a table.
    Verbatim,
}

/// A text on its way to the screen.
#[derive(Debug, Default)]
pub struct Flow {
    look: Look,
    kind: Kind,
    in_code: bool,
    /// The beginning of a line that may still become something else.
    start: String,
    /// A run of marks whose meaning depends on what follows.
    run: Option<(char, usize)>,
    bold: bool,
    code: bool,
    word: Piece,
    line: Piece,
    /// Blanks between the line and the word.
    blanks: usize,
    /// Whether the last visible character was a blank, or there was none.
    after_blank: bool,
    done: Vec<String>,
}

/// Text with its styles, and how wide it is.
#[derive(Debug, Default)]
struct Piece {
    text: String,
    width: usize,
}

impl Piece {
    fn push(&mut self, char: char) {
        self.text.push(char);
        self.width += 1;
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Flow {
    /// An empty text.
    pub fn new(look: Look) -> Self {
        Self { look, after_blank: true, ..Self::default() }
    }

    /// Takes more of the text and returns the lines that are complete by it.
    pub fn feed(&mut self, text: &str) -> Vec<String> {
        for char in text.chars() {
            match char {
                '\n' => self.end_line(),
                '\t' => self.take("    "),
                char if is_shown(char) => self.take(char.encode_utf8(&mut [0; 4])),
                _ => {}
            }
        }
        std::mem::take(&mut self.done)
    }

    /// Ends the text, or a part of it, and returns what is left.
    pub fn finish(&mut self) -> Vec<String> {
        let is_empty = self.start.is_empty() && self.run.is_none() && self.word.text.is_empty();
        if !(is_empty && self.line.text.is_empty()) {
            self.end_line();
        }
        self.in_code = false;
        std::mem::take(&mut self.done)
    }

    fn take(&mut self, text: &str) {
        for char in text.chars() {
            if self.kind == Kind::Open && self.still_open(char) {
                continue;
            }
            self.take_inside(char);
        }
    }

    /// Whether the line's beginning does not yet say what it is; if it does by `char`, that is noted.
    fn still_open(&mut self, char: char) -> bool {
        if !self.look.styled {
            self.kind = Kind::Verbatim;
            return false;
        }
        let marks = self.start.trim_start();
        let can_go_on = match char {
            ' ' => marks.is_empty(),
            '`' | '~' if !marks.is_empty() => marks.chars().all(|mark| mark == char),
            '`' | '~' => true,
            '#' => !self.in_code && marks.chars().all(|mark| mark == '#'),
            _ => false,
        };
        if can_go_on {
            self.start.push(char);
            return true;
        }
        let start = std::mem::take(&mut self.start);
        let marks = start.trim_start();
        if marks.starts_with("```") || marks.starts_with("~~~") {
            self.begin(Kind::Fence, &start);
            return false;
        }
        if self.in_code || (marks.is_empty() && char == '|') {
            self.begin(Kind::Verbatim, &start);
            return false;
        }
        if marks.starts_with('#') && char == ' ' {
            self.begin(Kind::Heading, "");
            return true;
        }
        self.begin(Kind::Text, "");
        for char in start.chars() {
            self.take_inside(char);
        }
        false
    }

    fn begin(&mut self, kind: Kind, start: &str) {
        self.kind = kind;
        self.line.text.push_str(self.style());
        for char in start.chars() {
            self.line.push(char);
        }
    }

    /// What is switched on at this place.
    fn style(&self) -> &'static str {
        match self.kind {
            _ if !self.look.styled => "",
            Kind::Fence => DIM,
            Kind::Verbatim if self.in_code => CODE,
            Kind::Heading => BOLD,
            Kind::Text if self.code => CODE,
            Kind::Text if self.bold => BOLD,
            _ => "",
        }
    }

    fn take_inside(&mut self, char: char) {
        match self.kind {
            Kind::Text if matches!(char, '`' | '*') => return self.mark(char),
            Kind::Text => self.settle_run(Some(char)),
            _ => {}
        }
        self.put(char);
    }

    /// One more mark: alone it is a character, together they may switch a style.
    fn mark(&mut self, char: char) {
        match &mut self.run {
            Some((mark, count)) if *mark == char => *count += 1,
            _ => {
                self.settle_run(Some(char));
                self.run = Some((char, 1));
            }
        }
    }

    /// What a run of marks means before this character.
    fn settle_run(&mut self, next: Option<char>) {
        let Some((mark, count)) = self.run.take() else { return };
        let before_blank = next.is_none_or(char::is_whitespace);
        let switches = match mark {
            '`' => count == 1,
            _ => count == 2 && !self.code && if self.bold { !self.after_blank } else { !before_blank },
        };
        if !switches {
            for _ in 0..count {
                self.put(mark);
            }
            return;
        }
        match mark {
            '`' => self.code = !self.code,
            _ => self.bold = !self.bold,
        }
        self.word.text.push_str(PLAIN);
        self.word.text.push_str(self.style());
    }

    fn put(&mut self, char: char) {
        let breaks = self.look.width > 0 && !matches!(self.kind, Kind::Verbatim | Kind::Fence);
        if char == ' ' {
            self.settle_word();
            self.blanks += 1;
        } else {
            self.word.push(char);
            if !breaks || self.word.width > WORD_CHARS_MAX {
                self.settle_word();
            }
        }
        self.after_blank = char == ' ';
    }

    /// Puts the word behind the line, or onto the next one.
    fn settle_word(&mut self) {
        if self.word.text.is_empty() {
            return;
        }
        let word = self.word.take();
        let blanks = std::mem::take(&mut self.blanks);
        let breaks = self.look.width > 0 && !matches!(self.kind, Kind::Verbatim | Kind::Fence);
        if breaks && self.line.width > 0 && word.width > 0 && self.line.width + blanks + word.width > self.look.width {
            let style = self.style_before(&word.text);
            self.emit();
            self.line.text.push_str(style);
        } else {
            for _ in 0..blanks {
                self.line.push(' ');
            }
        }
        self.line.text.push_str(&word.text);
        self.line.width += word.width;
    }

    /// What was switched on before a word, which may switch it itself.
    fn style_before(&self, word: &str) -> &'static str {
        if word.contains('\x1b') { "" } else { self.style() }
    }

    fn emit(&mut self) {
        let mut line = self.line.take().text;
        if line.contains('\x1b') {
            line.push_str(PLAIN);
        }
        self.done.push(line);
    }

    fn end_line(&mut self) {
        if self.kind == Kind::Open {
            let start = std::mem::take(&mut self.start);
            let marks = start.trim_start();
            let is_fence = marks.starts_with("```") || marks.starts_with("~~~");
            self.begin(if is_fence { Kind::Fence } else { Kind::Text }, &start);
        }
        self.settle_run(None);
        self.settle_word();
        self.blanks = 0;
        if self.kind == Kind::Fence {
            self.in_code = !self.in_code;
        }
        self.emit();
        (self.kind, self.bold, self.code, self.after_blank) = (Kind::Open, false, false, true);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(look: Look, pieces: &[&str]) -> Vec<String> {
        let mut flow = Flow::new(look);
        let mut lines: Vec<String> = pieces.iter().flat_map(|piece| flow.feed(piece)).collect();
        lines.extend(flow.finish());
        lines
    }

    const STYLED: Look = Look { styled: true, width: 0 };
    const NARROW: Look = Look { styled: false, width: 12 };

    #[test]
    fn without_a_style_the_text_stays_as_it_was_written() {
        let text = "# Title\n\n**bold** and `code`\n```rust\nlet x = 1;\n```\n| a | b |";
        assert_eq!(shown(Look::default(), &[text]).join("\n"), text);
    }

    #[test]
    fn bold_code_and_headings_are_styled() {
        let lines = shown(STYLED, &["# Title\nsome **bold** and `code` here"]);
        assert_eq!(lines[0], "\x1b[1mTitle\x1b[0m");
        assert_eq!(lines[1], "some \x1b[0m\x1b[1mbold\x1b[0m and \x1b[0m\x1b[36mcode\x1b[0m here\x1b[0m");
    }

    #[test]
    fn what_only_looks_like_a_mark_stays() {
        for text in ["2 * 3 * 4", "* a point", "a ** b", "#hashtag", "C#", "~ home"] {
            assert_eq!(shown(STYLED, &[text]), [text]);
        }
    }

    #[test]
    fn a_block_of_code_is_shown_as_it_is() {
        let lines = shown(STYLED, &["```\n# no **heading**\n    x\n```\n**yes**"]);
        assert_eq!(lines[0], "\x1b[2m```\x1b[0m");
        assert_eq!(lines[1], "\x1b[36m# no **heading**\x1b[0m");
        assert_eq!(lines[2], "\x1b[36m    x\x1b[0m");
        assert!(lines[4].contains("\x1b[1myes"), "{lines:?}");
    }

    #[test]
    fn lines_are_broken_between_words_and_shown_as_soon_as_they_are_full() {
        let styled = Look { styled: true, ..NARROW };
        let mut flow = Flow::new(styled);
        assert!(flow.feed("one two thr").is_empty());
        assert_eq!(flow.feed("ee four "), ["one two"], "the third word did not fit");
        assert_eq!(flow.feed("five\n"), ["three four", "five"]);
        let lines = shown(styled, &["**one two three four**"]);
        assert_eq!(lines, ["\x1b[0m\x1b[1mone two\x1b[0m", "\x1b[1mthree four\x1b[0m\x1b[0m"]);
    }

    #[test]
    fn control_characters_never_get_through() {
        let lines = shown(Look::default(), &["a\x1b[2Jb\u{9b}c\u{202e}d\x07"]);
        assert_eq!(lines, ["a[2Jbcd"]);
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_where_a_text_is_cut(
            text in "[ab *`#~|\n]{0,60}", at in any::<prop::sample::Index>(), styled: bool, width in 0usize..20,
        ) {
            let look = Look { styled, width };
            let (one, other) = text.split_at(at.index(text.len() + 1).min(text.len()));
            prop_assert_eq!(shown(look, &[&text]), shown(look, &[one, other]));
        }

        #[test]
        fn every_letter_arrives_in_order(text in "[a-z *`#~|\n]{0,80}", width in 0usize..20) {
            let lines = shown(Look { styled: true, width }, &[&text]).concat();
            let mut plain = lines.clone();
            for style in [PLAIN, BOLD, CODE, DIM] {
                plain = plain.replace(style, "");
            }
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).collect::<String>();
            prop_assert_eq!(letters(&plain), letters(&text));
        }
    }
}

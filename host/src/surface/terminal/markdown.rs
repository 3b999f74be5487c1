//! The conversion of streamed Markdown into lines for a terminal.
//!
//! A line is shown when it is complete or fills the width, so that no shown text has to change. Bold, headings and code
//! are styled; other markup is shown as written. Control characters are always removed. Without styling the text is
//! shown as written.

use hermes_core::text::is_shown;

/// Ends every style.
const PLAIN: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";

/// The longest word that is held back until its end arrives, in characters.
const WORD_CHARS_MAX: usize = 512;

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// `true` if text is styled.
    pub styled: bool,
    /// Columns after which a line is broken; 0: never.
    pub width: usize,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Not known until its first characters arrive.
    #[default]
    Open,
    /// Text with inline markup.
    Text,
    /// A heading: bold to its end.
    Heading,
    /// The line that opens or closes a block of code.
    Fence,
    /// Shown as written: code, or a row of a table.
    Verbatim,
}

/// The converter of one text.
#[derive(Debug, Default)]
pub struct Flow {
    look: Look,
    kind: Kind,
    in_code: bool,
    /// The beginning of a line whose kind is still open.
    start: String,
    /// A run of markup characters whose meaning depends on the next character.
    run: Option<(char, usize)>,
    bold: bool,
    code: bool,
    word: Piece,
    line: Piece,
    /// Blanks between the line and the word.
    blanks: usize,
    /// `true` if the last visible character was a blank, or there was none.
    after_blank: bool,
    done: Vec<String>,
}

/// Text with its styles, and its width in columns.
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
    /// Creates a converter without text.
    pub fn new(look: Look) -> Self {
        Self { look, after_blank: true, ..Self::default() }
    }

    /// Adds text and returns the lines that are complete.
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

    /// Ends the text, or a part of it, and returns the remaining lines.
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

    /// Returns `true` while the kind of the line is open. Sets the kind if `char` decides it.
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

    /// Returns the style at the current position.
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

    /// Adds a markup character. A single one is text; a run of them may switch a style.
    fn mark(&mut self, char: char) {
        match &mut self.run {
            Some((mark, count)) if *mark == char => *count += 1,
            _ => {
                self.settle_run(Some(char));
                self.run = Some((char, 1));
            }
        }
    }

    /// Applies or prints a run of markup characters before this character.
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

    /// Appends the word to the line, or starts the next line with it.
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

    /// Returns the style before a word, unless the word contains a style itself.
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

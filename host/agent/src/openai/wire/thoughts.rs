//! Reasoning that a server left in the text, separated from the answer while the text arrives.
//!
//! The usual shapes are understood: a pair of tags at the beginning or later, a closing tag alone (the template of the
//! model already held the opening one), and the channels of the harmony format. A tag inside of code or of quotation
//! marks, or in the middle of a sentence, is text that mentions the tag.

/// Opening and closing marks, in small letters.
const PAIRS: [(&str, &str); 15] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reason>", "</reason>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<antthinking>", "</antthinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<|thinking|>", "<|/thinking|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|start_thinking|>", "<|end_thinking|>"),
    ("<|channel>thought", "<channel|>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
];

/// Marks around the answer itself, which say nothing.
const WRAPPERS: [&str; 4] = ["<|begin_of_solution|>", "<|end_of_solution|>", "<|start_response|>", "<|end_response|>"];

/// Marks of the harmony format.
const HARMONY: [&str; 6] = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>"];

/// The first characters of all marks.
const BEGINS: [char; 3] = ['<', '[', '◁'];

/// The longest role or channel name of the harmony format, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// A harmony answer whose marks were removed: `analysisThe user … assistantfinalHello`.
const BARE_OPEN: &str = "analysis";
const BARE_CLOSE: &str = "assistantfinal";

/// The effect of one piece of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::openai) struct Split {
    /// Whether everything that was given as text before turned out to be reasoning.
    pub retracts: bool,
    /// Reasoning.
    pub thought: String,
    /// Text of the answer.
    pub text: String,
}

/// The state between two pieces.
#[derive(Debug, Default)]
pub(in crate::openai) struct Thoughts {
    mode: Mode,
    pending: String,
    context: Context,
    /// Whether a closing mark came without an opening one.
    bare_close: bool,
    harmony: bool,
    /// Whether blanks are dropped until the next visible character.
    skips_blanks: bool,
    /// Blanks before the first visible character; reasoning at the beginning takes them along.
    blanks: String,
}

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Text,
    Thought(Thought),
    /// Inside of a harmony header, up to `<|message|>`: the header from its mark on.
    Header(String),
}

#[derive(Debug)]
struct Thought {
    /// The mark that began it; empty when the reasoning began without one.
    open: String,
    close: &'static str,
    /// Whether it is reasoning even when it never ends.
    certain: bool,
    /// What came so far, unless it is certain.
    held: String,
}

/// A mark that begins at some place of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Open(usize),
    Close(usize),
    Wrapper(usize),
    Harmony(usize),
    /// The text may still become a mark.
    Unfinished,
    None,
}

impl Thoughts {
    /// A splitter for a model that begins to reason without an opening mark: all text is held back until the closing
    /// mark comes, or the answer ends.
    pub(in crate::openai) fn held_back() -> Self {
        let thought = Thought { open: String::new(), close: "</think>", certain: false, held: String::new() };
        Self { mode: Mode::Thought(thought), ..Self::default() }
    }

    /// Whether a closing mark came without an opening one.
    pub(in crate::openai) fn had_bare_close(&self) -> bool {
        self.bare_close
    }

    /// Takes the next piece.
    pub(in crate::openai) fn take(&mut self, piece: &str) -> Split {
        self.pending.push_str(piece);
        let mut split = Split::default();
        while self.step(&mut split) {}
        split
    }

    /// Ends the text. `cut`: the answer ended before the model was done.
    pub(in crate::openai) fn end(&mut self, cut: bool) -> Split {
        let mut split = Split::default();
        let pending = std::mem::take(&mut self.pending);
        match std::mem::take(&mut self.mode) {
            Mode::Text => match mark(&pending) {
                Mark::Close(n) if pending.len() == PAIRS[n].1.len() => self.closes_alone(&pending, None, &mut split),
                _ => self.show(&pending, &mut split),
            },
            Mode::Header(_) if self.harmony => {}
            Mode::Header(header) => self.show(&(header + &pending), &mut split),
            Mode::Thought(thought) if thought.certain => split.thought.push_str(&pending),
            // A model that begins without a mark may also answer at once.
            Mode::Thought(thought) if cut && !thought.open.is_empty() => {
                split.thought = thought.held + &pending;
            }
            Mode::Thought(thought) => self.show(&(thought.open + &thought.held + &pending), &mut split),
        }
        split.text.push_str(&std::mem::take(&mut self.blanks));
        split
    }

    /// Decides about the beginning of what is pending. Returns whether there may be more to decide.
    fn step(&mut self, split: &mut Split) -> bool {
        match &self.mode {
            _ if self.pending.is_empty() => false,
            Mode::Text => self.step_text(split),
            Mode::Thought(_) => self.step_thought(split),
            Mode::Header(_) => self.step_header(split),
        }
    }

    fn step_text(&mut self, split: &mut Split) -> bool {
        if self.context.is_first() {
            match self.bare_beginning() {
                Some(true) => {
                    self.pending.drain(..BARE_OPEN.len());
                    self.begin(BARE_OPEN.to_owned(), BARE_CLOSE, false);
                    return true;
                }
                None => return false,
                Some(false) => {}
            }
        }
        let at = self.pending.find(BEGINS).unwrap_or(self.pending.len());
        if at > 0 {
            let text: String = self.pending.drain(..at).collect();
            self.show(&text, split);
            return true;
        }
        match mark(&self.pending) {
            Mark::Unfinished => return false,
            Mark::None => {
                let first = self.pending.chars().next().map_or(0, char::len_utf8);
                let text: String = self.pending.drain(..first).collect();
                self.show(&text, split);
            }
            Mark::Open(n) => {
                let open: String = self.pending.drain(..PAIRS[n].0.len()).collect();
                if self.context.is_literal() || !self.context.may_begin() {
                    self.context.mentions = true;
                    self.show(&open, split);
                } else {
                    // A mark that may as well be a word of the answer has to be closed.
                    let certain = self.context.is_first() && !open.starts_with('[') && !is_word(&open);
                    self.begin(open, PAIRS[n].1, certain);
                }
            }
            Mark::Close(n) => return self.close_alone(PAIRS[n].1.len(), split),
            Mark::Wrapper(n) => {
                let wrapper: String = self.pending.drain(..WRAPPERS[n].len()).collect();
                if self.context.is_literal() {
                    self.show(&wrapper, split);
                } else {
                    self.skips_blanks = true;
                }
            }
            Mark::Harmony(n) => {
                let token: String = self.pending.drain(..HARMONY[n].len()).collect();
                let opens = matches!(HARMONY[n], "<|channel|>" | "<|start|>");
                if self.context.is_literal() || !(self.harmony || opens && self.context.may_begin()) {
                    self.show(&token, split);
                } else if opens {
                    self.mode = Mode::Header(token);
                } else {
                    self.skips_blanks |= HARMONY[n] == "<|message|>";
                }
            }
        }
        true
    }

    /// A closing mark that no opening one preceded: the text before it was reasoning.
    fn close_alone(&mut self, bytes: usize, split: &mut Split) -> bool {
        let Some(next) = self.pending[bytes..].chars().next() else {
            // The next character tells whether it stands in the middle of a sentence.
            return false;
        };
        let mark: String = self.pending.drain(..bytes).collect();
        self.closes_alone(&mark, Some(next), split);
        true
    }

    fn closes_alone(&mut self, mark: &str, next: Option<char>, split: &mut Split) {
        let in_sentence = self.context.last == Some(' ') && next == Some(' ');
        if self.context.is_literal() || self.context.mentions || in_sentence {
            return self.show(mark, split);
        }
        self.bare_close = true;
        split.retracts = true;
        split.thought.push_str(&std::mem::take(&mut split.text));
        self.context = Context::default();
        self.blanks.clear();
        self.skips_blanks = true;
    }

    fn step_thought(&mut self, split: &mut Split) -> bool {
        let Mode::Thought(thought) = &mut self.mode else { return false };
        if thought.open.is_empty() && thought.held.trim().is_empty() && self.pending.trim_start().starts_with(BEGINS) {
            // It begins with a mark after all.
            self.mode = Mode::Text;
            return true;
        }
        let harmony = thought.open == HARMONY[0];
        let Some((at, bytes)) = closing(&self.pending, thought.close, harmony) else {
            let kept = unfinished(&self.pending, thought.close, harmony);
            let rest = self.pending.split_off(self.pending.len() - kept);
            let content = std::mem::replace(&mut self.pending, rest);
            match thought.certain {
                true => split.thought.push_str(&content),
                false => thought.held.push_str(&content),
            }
            return false;
        };
        let content: String = self.pending.drain(..at).collect();
        // The next header begins with the same mark that ends this message.
        let begins_next = harmony && ["<|start|>", "<|channel|>"].iter().any(|next| self.pending.starts_with(next));
        if !begins_next {
            self.pending.drain(..bytes);
        }
        split.thought.push_str(&std::mem::take(&mut thought.held));
        split.thought.push_str(&content);
        self.bare_close |= thought.open.is_empty();
        self.mode = Mode::Text;
        self.skips_blanks = true;
        true
    }

    fn step_header(&mut self, split: &mut Split) -> bool {
        let Mode::Header(header) = &mut self.mode else { return false };
        let Some(at) = self.pending.find("<|message|>") else {
            if self.pending.len() > NAME_BYTES_MAX {
                // No header is that long.
                let text = std::mem::take(header) + &std::mem::take(&mut self.pending);
                self.mode = Mode::Text;
                self.show(&text, split);
            }
            return false;
        };
        header.extend(self.pending.drain(..at));
        self.pending.drain(.."<|message|>".len());
        let channel = header.rsplit("<|channel|>").next().unwrap_or_default();
        let word = channel.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        self.harmony = true;
        self.skips_blanks = true;
        match word.as_str() {
            "analysis" | "commentary" | "thought" | "thinking" | "reasoning" => {
                self.begin(HARMONY[0].to_owned(), "<|end|>", true);
            }
            _ => self.mode = Mode::Text,
        }
        true
    }

    fn begin(&mut self, open: String, close: &'static str, certain: bool) {
        self.blanks.clear();
        self.mode = Mode::Thought(Thought { open, close, certain, held: String::new() });
    }

    /// Whether the text begins as a harmony answer without marks; `None` while it is too short to tell.
    fn bare_beginning(&self) -> Option<bool> {
        let begun = self.pending.as_str();
        match begun.strip_prefix(BARE_OPEN) {
            Some(rest) => rest.chars().next().map(|next| next.is_ascii_uppercase()),
            None if BARE_OPEN.starts_with(begun) => None,
            None => Some(false),
        }
    }

    fn show(&mut self, text: &str, split: &mut Split) {
        let text = match self.skips_blanks {
            true => text.trim_start(),
            false => text,
        };
        if text.is_empty() {
            return;
        }
        if self.context.is_first() && text.trim().is_empty() {
            return self.blanks.push_str(text);
        }
        self.skips_blanks = false;
        let text = std::mem::take(&mut self.blanks) + text;
        self.context.passed(&text);
        split.text.push_str(&text);
    }
}

fn is_word(open: &str) -> bool {
    ["<reason", "<scratchpad"].iter().any(|word| begins_with(open, word) == Some(true))
}

/// Returns the mark with which `text` begins.
fn mark(text: &str) -> Mark {
    let marks = (0..PAIRS.len())
        .flat_map(|n| [(PAIRS[n].0, Mark::Open(n)), (PAIRS[n].1, Mark::Close(n))])
        .chain((0..WRAPPERS.len()).map(|n| (WRAPPERS[n], Mark::Wrapper(n))))
        .chain((0..HARMONY.len()).map(|n| (HARMONY[n], Mark::Harmony(n))));
    let mut found = Mark::None;
    for (word, mark) in marks {
        match begins_with(text, word) {
            Some(true) => return mark,
            Some(false) => {}
            None => found = Mark::Unfinished,
        }
    }
    found
}

/// Whether `text` begins with `mark`, letters of both cases alike; `None` when the text ends before that is sure.
fn begins_with(text: &str, mark: &str) -> Option<bool> {
    let length = text.len().min(mark.len());
    let same = text.as_bytes()[..length].eq_ignore_ascii_case(&mark.as_bytes()[..length]);
    match same {
        false => Some(false),
        true if text.len() >= mark.len() => Some(true),
        true => None,
    }
}

fn closers(close: &'static str, harmony: bool) -> impl Iterator<Item = &'static str> {
    let others: &[&str] = if harmony { &["<|return|>", "<|call|>", "<|start|>", "<|channel|>"] } else { &["</think>"] };
    std::iter::once(close).chain(others.iter().copied())
}

/// Finds the first closing mark, and its length. One between backticks is a mention.
fn closing(text: &str, close: &'static str, harmony: bool) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    closers(close, harmony)
        .filter_map(|close| {
            let mark = close.as_bytes();
            let found = bytes.windows(mark.len()).enumerate().find(|(at, window)| {
                let mentioned = *at > 0 && bytes[at - 1] == b'`' && bytes.get(at + mark.len()) == Some(&b'`');
                window.eq_ignore_ascii_case(mark) && !mentioned
            });
            found.map(|(at, _)| (at, mark.len()))
        })
        .min()
}

/// Returns the length of the end of `text` that may be the beginning of a closing mark.
fn unfinished(text: &str, close: &'static str, harmony: bool) -> usize {
    let longest = |mark: &str| {
        let bytes = text.as_bytes();
        let lengths = (1..mark.len()).rev();
        lengths
            .filter(|&n| n <= bytes.len() && text.is_char_boundary(bytes.len() - n))
            .find(|&n| bytes[bytes.len() - n..].eq_ignore_ascii_case(&mark.as_bytes()[..n]))
            .unwrap_or(0)
    };
    closers(close, harmony).map(longest).max().unwrap_or(0)
}

/// The visible text so far, as far as it decides whether a mark is one.
#[derive(Debug, Default)]
struct Context {
    /// The last character.
    last: Option<char>,
    /// The last character of the line that is no blank.
    last_of_line: Option<char>,
    /// Whether anything but blanks was shown.
    shown: bool,
    /// Whether an opening mark was mentioned as text.
    mentions: bool,
    /// The run of backticks or tildes that the text ends with, and whether it begins its line.
    run: Option<(char, usize, bool)>,
    /// The fence of the code block that is open.
    fence: Option<(char, usize)>,
    /// The backticks of the code that is open within the line.
    ticks: Option<usize>,
}

impl Context {
    fn passed(&mut self, text: &str) {
        for c in text.chars() {
            if let Some((of, count, begins_line)) = self.run
                && of == c
            {
                self.run = Some((of, count + 1, begins_line));
            } else {
                self.settle();
                if matches!(c, '`' | '~') {
                    self.run = Some((c, 1, self.last_of_line.is_none()));
                }
            }
            self.last = Some(c);
            match c {
                '\n' => {
                    self.last_of_line = None;
                    self.ticks = None;
                }
                c if c.is_whitespace() => {}
                c => {
                    self.last_of_line = Some(c);
                    self.shown = true;
                }
            }
        }
    }

    /// Decides about a run of backticks that has ended.
    fn settle(&mut self) {
        let Some((of, count, begins_line)) = self.run.take() else { return };
        match self.fence {
            Some((open, least)) if begins_line && of == open && count >= least => self.fence = None,
            Some(_) => {}
            None if begins_line && count >= 3 => self.fence = Some((of, count)),
            None if of == '`' => self.ticks = if self.ticks == Some(count) { None } else { self.ticks.or(Some(count)) },
            None => {}
        }
    }

    fn is_first(&self) -> bool {
        !self.shown
    }

    /// Whether a mark at this place stands in code or behind a quotation mark.
    fn is_literal(&mut self) -> bool {
        self.settle();
        let quoted = matches!(self.last, Some('`' | '"' | '\'' | '“' | '‘' | '„' | '«' | '「'));
        self.fence.is_some() || self.ticks.is_some() || quoted
    }

    /// Whether reasoning may begin here: at the beginning of a line, or behind a sentence.
    fn may_begin(&self) -> bool {
        self.last_of_line.is_none_or(|c| matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a text that comes in pieces of `size` characters.
    fn split(text: &str, size: usize, cut: bool) -> (String, String) {
        let mut thoughts = Thoughts::default();
        let (mut shown, mut thought) = (String::new(), String::new());
        let mut add = |split: Split| {
            if split.retracts {
                thought.push_str(&std::mem::take(&mut shown));
            }
            thought.push_str(&split.thought);
            shown.push_str(&split.text);
        };
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            add(thoughts.take(&piece.iter().collect::<String>()));
        }
        add(thoughts.end(cut));
        (shown, thought)
    }

    fn at_every_size(text: &str, shown: &str, thought: &str) {
        for size in 1..=text.chars().count() {
            let (is_shown, is_thought) = split(text, size, false);
            assert_eq!(is_shown, shown, "{text:?} in pieces of {size}");
            assert_eq!(is_thought.trim(), thought, "{text:?} in pieces of {size}");
        }
    }

    #[test]
    fn every_shape_of_reasoning_stays_out_of_the_text() {
        for (text, shown) in [
            ("<think>\nhm\n</think>\n\nyes", "yes"),
            ("\n<THINK>hm</THINK>yes", "yes"),
            ("<thinking>hm</thinking>yes", "yes"),
            ("<thinking>hm</think>yes", "yes"),
            ("<thought>\nhm</thought>yes", "yes"),
            ("<reasoning>hm</reasoning>yes", "yes"),
            ("[THINK]hm[/THINK]yes", "yes"),
            ("◁think▷hm◁/think▷yes", "yes"),
            ("<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", "yes"),
            ("<|channel>thought\nhm<channel|>yes", "yes"),
            ("hm\n</think>\n\nyes", "yes"),
            ("hm</think>yes", "yes"),
            ("Let me see.\n\n<think>hm</think>\n\nyes", "Let me see.\n\nyes"),
            ("Let me see. <think>hm</think> yes", "Let me see. yes"),
            (
                "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>",
                "yes",
            ),
            (
                "<|start|>assistant<|channel|>analysis<|message|>hm<|start|>assistant<|channel|>final<|message|>yes",
                "yes",
            ),
            ("<|channel|>commentary to=functions.x <|constrain|>json<|message|>hm<|call|>yes", "yes"),
            ("analysisHmassistantfinalyes", "yes"),
        ] {
            let thought = if text.starts_with("analysisH") { "Hm" } else { "hm" };
            at_every_size(text, shown, thought);
        }
    }

    #[test]
    fn a_mention_of_a_tag_is_text() {
        for text in [
            "Models write `<think>` and `</think>` around it.",
            "```xml\n<think>\nhm\n</think>\n```\nThat is how.",
            "~~~\n</think>\n~~~",
            "The tag \"<think>\" begins it and \"</think>\" ends it.",
            "Put it between <think> and </think> please.",
            "a </think> closes it",
            "<thinner>",
            "1 < 2 and [think] is a word",
            "analysis of it",
            "analysis: fine",
            "<th",
            "`a\n<|channel|>",
            "the <|end|> token",
        ] {
            at_every_size(text, text, "");
        }
    }

    #[test]
    fn reasoning_that_never_ends_is_reasoning_at_the_beginning_and_where_the_answer_was_cut() {
        assert_eq!(split("<think>never ends", 3, false), (String::new(), "never ends".to_owned()));
        assert_eq!(split("So.\n<think>never", 3, true), ("So.\n".to_owned(), "never".to_owned()));
        let mention = "Tags:\n<think> begins it.";
        assert_eq!(split(mention, 3, false), (mention.to_owned(), String::new()));
    }

    #[test]
    fn a_model_that_reasons_without_an_opening_mark_is_held_back() {
        let mut thoughts = Thoughts::held_back();
        assert_eq!(thoughts.take("hm, 17"), Split::default());
        let split = thoughts.take(" times</think>\nyes");
        assert_eq!((split.text.as_str(), split.thought.as_str(), split.retracts), ("yes", "hm, 17 times", false));
        assert!(thoughts.had_bare_close());
        let mut at_once = Thoughts::held_back();
        assert_eq!(at_once.take("yes"), Split::default());
        assert_eq!(at_once.end(false).text, "yes");
        let mut tagged = Thoughts::held_back();
        let split = tagged.take("<think>hm</think>yes");
        assert_eq!((split.text.as_str(), split.thought.as_str()), ("yes", "hm"));
    }
}

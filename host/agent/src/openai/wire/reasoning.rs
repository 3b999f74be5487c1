//! Separation of reasoning from the answer while the text arrives.
//!
//! Some servers leave the reasoning in the text. The known forms are: a pair of tags at the beginning or later,
//! a closing tag alone (the opening one is part of the model's template), and the channels of the harmony
//! format. A tag inside of code or quotation marks, or in the middle of a sentence, is ordinary text that
//! mentions the tag.

/// Opening and closing tags, in lower case.
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

/// Tags around the answer itself, which are removed.
const WRAPPERS: [&str; 4] = ["<|begin_of_solution|>", "<|end_of_solution|>", "<|start_response|>", "<|end_response|>"];

/// Tags of the harmony format.
const HARMONY: [&str; 6] = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>"];

/// First characters of all tags.
const BEGINS: [char; 3] = ['<', '[', '◁'];

/// Longest role or channel name of the harmony format, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// Start of a harmony answer without its tags: `analysisThe user … assistantfinalHello`.
const BARE_OPEN: &str = "analysis";
const BARE_CLOSE: &str = "assistantfinal";

/// The effect of one piece of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::openai) struct Split {
    /// True if all text returned before was reasoning.
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
    /// True if a closing tag arrived without an opening one.
    bare_close: bool,
    harmony: bool,
    /// True if whitespace is dropped until the next visible character.
    skips_blanks: bool,
    /// Whitespace before the first visible character; removed together with leading reasoning.
    blanks: String,
}

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Text,
    Thought(Thought),
    /// Inside of a harmony header, up to `<|message|>`: the header from its tag on.
    Header(String),
}

#[derive(Debug)]
struct Thought {
    /// Opening tag; empty if the reasoning began without one.
    open: String,
    close: &'static str,
    /// True if the text is reasoning even without a closing tag.
    certain: bool,
    /// Text so far, unless the reasoning is certain.
    held: String,
}

/// The tag at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Open(usize),
    Close(usize),
    Wrapper(usize),
    Harmony(usize),
    /// The text may still become a tag.
    Unfinished,
    None,
}

impl Thoughts {
    /// Creates a splitter for a model that starts to reason without an opening tag. All text is held back until
    /// a closing tag or the end of the answer.
    pub(in crate::openai) fn held_back() -> Self {
        let thought = Thought { open: String::new(), close: "</think>", certain: false, held: String::new() };
        Self { mode: Mode::Thought(thought), ..Self::default() }
    }

    /// Returns true if a closing tag arrived without an opening one.
    pub(in crate::openai) fn had_bare_close(&self) -> bool {
        self.bare_close
    }

    /// Processes the next piece.
    pub(in crate::openai) fn take(&mut self, piece: &str) -> Split {
        self.pending.push_str(piece);
        let mut split = Split::default();
        while self.step(&mut split) {}
        split
    }

    /// Ends the text. `cut` is true if the answer ended before the model was done.
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
            // A model that may start without a tag may also answer directly.
            Mode::Thought(thought) if cut && !thought.open.is_empty() => {
                split.thought = thought.held + &pending;
            }
            Mode::Thought(thought) => self.show(&(thought.open + &thought.held + &pending), &mut split),
        }
        split.text.push_str(&std::mem::take(&mut self.blanks));
        split
    }

    /// Processes the beginning of the pending text. Returns true if more may be processed.
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
                    // A tag that is also an ordinary word needs a closing tag.
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

    /// Handles a closing tag without an opening one: the text before it was reasoning.
    fn close_alone(&mut self, bytes: usize, split: &mut Split) -> bool {
        let Some(next) = self.pending[bytes..].chars().next() else {
            // The next character is needed to detect the middle of a sentence.
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
            // The reasoning begins with a tag.
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
        // The tag that ends this message also begins the next header.
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

    /// Returns true if the text begins as a harmony answer without tags, or `None` if it is still too short.
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

/// Returns the tag at the start of `text`.
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

/// Returns true if `text` begins with `mark`, ignoring case, or `None` if the text is too short.
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

/// Returns the position and length of the first closing tag. A tag between backticks is skipped.
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

/// Returns the length of the suffix of `text` that may be the beginning of a closing tag.
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

/// The context of the visible text that decides whether a tag is literal.
#[derive(Debug, Default)]
struct Context {
    /// Last character.
    last: Option<char>,
    /// Last visible character of the line.
    last_of_line: Option<char>,
    /// True once a visible character was shown.
    shown: bool,
    /// True if an opening tag was mentioned as text.
    mentions: bool,
    /// Run of backticks or tildes at the end of the text, and whether it starts its line.
    run: Option<(char, usize, bool)>,
    /// Fence of the open code block.
    fence: Option<(char, usize)>,
    /// Number of backticks of the open inline code.
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

    /// Evaluates a completed run of backticks or tildes.
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

    /// Returns true if a tag at this position is inside of code or after a quotation mark.
    fn is_literal(&mut self) -> bool {
        self.settle();
        let quoted = matches!(self.last, Some('`' | '"' | '\'' | '“' | '‘' | '„' | '«' | '「'));
        self.fence.is_some() || self.ticks.is_some() || quoted
    }

    /// Returns true if reasoning may begin here: at the start of a line or after a sentence.
    fn may_begin(&self) -> bool {
        self.last_of_line.is_none_or(|c| matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a text that arrives in pieces of `size` characters.
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

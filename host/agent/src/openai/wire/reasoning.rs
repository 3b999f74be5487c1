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
pub(in crate::openai) struct Separated {
    /// True if all text returned before was reasoning.
    pub retracts: bool,
    /// Reasoning.
    pub reasoning: String,
    /// Text of the answer.
    pub text: String,
}

/// The state between two pieces.
#[derive(Debug, Default)]
pub(in crate::openai) struct ReasoningFilter {
    mode: FilterMode,
    pending: String,
    context: TextPosition,
    /// True if a closing tag arrived without an opening one.
    bare_close: bool,
    harmony: bool,
    /// True if whitespace is dropped until the next visible character.
    skips_blanks: bool,
    /// Whitespace before the first visible character; removed together with leading reasoning.
    blanks: String,
}

#[derive(Debug, Default)]
enum FilterMode {
    #[default]
    Text,
    Reasoning(ReasoningBlock),
    /// Inside of a harmony header, up to `<|message|>`: the header from its tag on.
    Header(String),
}

#[derive(Debug)]
struct ReasoningBlock {
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
enum Tag {
    Open(usize),
    Close(usize),
    Wrapper(usize),
    Harmony(usize),
    /// The text may still become a tag.
    Unfinished,
    None,
}

impl ReasoningFilter {
    /// Creates a splitter for a model that starts to reason without an opening tag. All text is held back until
    /// a closing tag or the end of the answer.
    pub(in crate::openai) fn held_back() -> Self {
        let reasoning = ReasoningBlock { open: String::new(), close: "</think>", certain: false, held: String::new() };
        Self { mode: FilterMode::Reasoning(reasoning), ..Self::default() }
    }

    /// Returns true if a closing tag arrived without an opening one.
    pub(in crate::openai) fn had_bare_close(&self) -> bool {
        self.bare_close
    }

    /// Processes the next piece.
    pub(in crate::openai) fn take(&mut self, piece: &str) -> Separated {
        self.pending.push_str(piece);
        let mut separated = Separated::default();
        while self.step(&mut separated) {}
        separated
    }

    /// Ends the text. `cut` is true if the answer ended before the model was done.
    pub(in crate::openai) fn end(&mut self, cut: bool) -> Separated {
        let mut separated = Separated::default();
        let pending = std::mem::take(&mut self.pending);
        match std::mem::take(&mut self.mode) {
            FilterMode::Text => match tag(&pending) {
                Tag::Close(n) if pending.len() == PAIRS[n].1.len() => self.closes_alone(&pending, None, &mut separated),
                _ => self.show(&pending, &mut separated),
            },
            FilterMode::Header(_) if self.harmony => {}
            FilterMode::Header(header) => self.show(&(header + &pending), &mut separated),
            FilterMode::Reasoning(reasoning) if reasoning.certain => separated.reasoning.push_str(&pending),
            // A model that may start without a tag may also answer directly.
            FilterMode::Reasoning(reasoning) if cut && !reasoning.open.is_empty() => {
                separated.reasoning = reasoning.held + &pending;
            }
            FilterMode::Reasoning(reasoning) => {
                self.show(&(reasoning.open + &reasoning.held + &pending), &mut separated)
            }
        }
        separated.text.push_str(&std::mem::take(&mut self.blanks));
        separated
    }

    /// Processes the beginning of the pending text. Returns true if more may be processed.
    fn step(&mut self, separated: &mut Separated) -> bool {
        match &self.mode {
            _ if self.pending.is_empty() => false,
            FilterMode::Text => self.step_text(separated),
            FilterMode::Reasoning(_) => self.step_reasoning(separated),
            FilterMode::Header(_) => self.step_header(separated),
        }
    }

    fn step_text(&mut self, separated: &mut Separated) -> bool {
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
            self.show(&text, separated);
            return true;
        }
        match tag(&self.pending) {
            Tag::Unfinished => return false,
            Tag::None => {
                let first = self.pending.chars().next().map_or(0, char::len_utf8);
                let text: String = self.pending.drain(..first).collect();
                self.show(&text, separated);
            }
            Tag::Open(n) => {
                let open: String = self.pending.drain(..PAIRS[n].0.len()).collect();
                if self.context.is_literal() || !self.context.may_begin() {
                    self.context.mentions = true;
                    self.show(&open, separated);
                } else {
                    // A tag that is also an ordinary word needs a closing tag.
                    let certain = self.context.is_first() && !open.starts_with('[') && !is_word(&open);
                    self.begin(open, PAIRS[n].1, certain);
                }
            }
            Tag::Close(n) => return self.close_alone(PAIRS[n].1.len(), separated),
            Tag::Wrapper(n) => {
                let wrapper: String = self.pending.drain(..WRAPPERS[n].len()).collect();
                if self.context.is_literal() {
                    self.show(&wrapper, separated);
                } else {
                    self.skips_blanks = true;
                }
            }
            Tag::Harmony(n) => {
                let token: String = self.pending.drain(..HARMONY[n].len()).collect();
                let opens = matches!(HARMONY[n], "<|channel|>" | "<|start|>");
                if self.context.is_literal() || !(self.harmony || opens && self.context.may_begin()) {
                    self.show(&token, separated);
                } else if opens {
                    self.mode = FilterMode::Header(token);
                } else {
                    self.skips_blanks |= HARMONY[n] == "<|message|>";
                }
            }
        }
        true
    }

    /// Handles a closing tag without an opening one: the text before it was reasoning.
    fn close_alone(&mut self, bytes: usize, separated: &mut Separated) -> bool {
        let Some(next) = self.pending[bytes..].chars().next() else {
            // The next character is needed to detect the middle of a sentence.
            return false;
        };
        let tag: String = self.pending.drain(..bytes).collect();
        self.closes_alone(&tag, Some(next), separated);
        true
    }

    fn closes_alone(&mut self, tag: &str, next: Option<char>, separated: &mut Separated) {
        let in_sentence = self.context.last == Some(' ') && next == Some(' ');
        if self.context.is_literal() || self.context.mentions || in_sentence {
            return self.show(tag, separated);
        }
        self.bare_close = true;
        separated.retracts = true;
        separated.reasoning.push_str(&std::mem::take(&mut separated.text));
        self.context = TextPosition::default();
        self.blanks.clear();
        self.skips_blanks = true;
    }

    fn step_reasoning(&mut self, separated: &mut Separated) -> bool {
        let FilterMode::Reasoning(reasoning) = &mut self.mode else { return false };
        if reasoning.open.is_empty()
            && reasoning.held.trim().is_empty()
            && self.pending.trim_start().starts_with(BEGINS)
        {
            // The reasoning begins with a tag.
            self.mode = FilterMode::Text;
            return true;
        }
        let harmony = reasoning.open == HARMONY[0];
        let Some((at, bytes)) = closing(&self.pending, reasoning.close, harmony) else {
            let kept = unfinished(&self.pending, reasoning.close, harmony);
            let rest = self.pending.split_off(self.pending.len() - kept);
            let content = std::mem::replace(&mut self.pending, rest);
            match reasoning.certain {
                true => separated.reasoning.push_str(&content),
                false => reasoning.held.push_str(&content),
            }
            return false;
        };
        let content: String = self.pending.drain(..at).collect();
        // The tag that ends this message also begins the next header.
        let begins_next = harmony && ["<|start|>", "<|channel|>"].iter().any(|next| self.pending.starts_with(next));
        if !begins_next {
            self.pending.drain(..bytes);
        }
        separated.reasoning.push_str(&std::mem::take(&mut reasoning.held));
        separated.reasoning.push_str(&content);
        self.bare_close |= reasoning.open.is_empty();
        self.mode = FilterMode::Text;
        self.skips_blanks = true;
        true
    }

    fn step_header(&mut self, separated: &mut Separated) -> bool {
        let FilterMode::Header(header) = &mut self.mode else { return false };
        let Some(at) = self.pending.find("<|message|>") else {
            if self.pending.len() > NAME_BYTES_MAX {
                // No header is that long.
                let text = std::mem::take(header) + &std::mem::take(&mut self.pending);
                self.mode = FilterMode::Text;
                self.show(&text, separated);
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
            _ => self.mode = FilterMode::Text,
        }
        true
    }

    fn begin(&mut self, open: String, close: &'static str, certain: bool) {
        self.blanks.clear();
        self.mode = FilterMode::Reasoning(ReasoningBlock { open, close, certain, held: String::new() });
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

    fn show(&mut self, text: &str, separated: &mut Separated) {
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
        separated.text.push_str(&text);
    }
}

fn is_word(open: &str) -> bool {
    ["<reason", "<scratchpad"].iter().any(|word| begins_with(open, word) == Some(true))
}

/// Returns the tag at the start of `text`.
fn tag(text: &str) -> Tag {
    let marks = (0..PAIRS.len())
        .flat_map(|n| [(PAIRS[n].0, Tag::Open(n)), (PAIRS[n].1, Tag::Close(n))])
        .chain((0..WRAPPERS.len()).map(|n| (WRAPPERS[n], Tag::Wrapper(n))))
        .chain((0..HARMONY.len()).map(|n| (HARMONY[n], Tag::Harmony(n))));
    let mut found = Tag::None;
    for (word, tag) in marks {
        match begins_with(text, word) {
            Some(true) => return tag,
            Some(false) => {}
            None => found = Tag::Unfinished,
        }
    }
    found
}

/// Returns true if `text` begins with `tag`, ignoring case, or `None` if the text is too short.
fn begins_with(text: &str, tag: &str) -> Option<bool> {
    let length = text.len().min(tag.len());
    let same = text.as_bytes()[..length].eq_ignore_ascii_case(&tag.as_bytes()[..length]);
    match same {
        false => Some(false),
        true if text.len() >= tag.len() => Some(true),
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
            let tag = close.as_bytes();
            let found = bytes.windows(tag.len()).enumerate().find(|(at, window)| {
                let mentioned = *at > 0 && bytes[at - 1] == b'`' && bytes.get(at + tag.len()) == Some(&b'`');
                window.eq_ignore_ascii_case(tag) && !mentioned
            });
            found.map(|(at, _)| (at, tag.len()))
        })
        .min()
}

/// Returns the length of the suffix of `text` that may be the beginning of a closing tag.
fn unfinished(text: &str, close: &'static str, harmony: bool) -> usize {
    let longest = |tag: &str| {
        let bytes = text.as_bytes();
        let lengths = (1..tag.len()).rev();
        lengths
            .filter(|&n| n <= bytes.len() && text.is_char_boundary(bytes.len() - n))
            .find(|&n| bytes[bytes.len() - n..].eq_ignore_ascii_case(&tag.as_bytes()[..n]))
            .unwrap_or(0)
    };
    closers(close, harmony).map(longest).max().unwrap_or(0)
}

/// The context of the visible text that decides whether a tag is literal.
#[derive(Debug, Default)]
struct TextPosition {
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

impl TextPosition {
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
    fn separated(text: &str, size: usize, cut: bool) -> (String, String) {
        let mut filter = ReasoningFilter::default();
        let (mut shown, mut reasoning) = (String::new(), String::new());
        let mut add = |separated: Separated| {
            if separated.retracts {
                reasoning.push_str(&std::mem::take(&mut shown));
            }
            reasoning.push_str(&separated.reasoning);
            shown.push_str(&separated.text);
        };
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            add(filter.take(&piece.iter().collect::<String>()));
        }
        add(filter.end(cut));
        (shown, reasoning)
    }

    fn at_every_size(text: &str, shown: &str, reasoning: &str) {
        for size in 1..=text.chars().count() {
            let (is_shown, is_thought) = separated(text, size, false);
            assert_eq!(is_shown, shown, "{text:?} in pieces of {size}");
            assert_eq!(is_thought.trim(), reasoning, "{text:?} in pieces of {size}");
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
            let reasoning = if text.starts_with("analysisH") { "Hm" } else { "hm" };
            at_every_size(text, shown, reasoning);
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
        assert_eq!(separated("<think>never ends", 3, false), (String::new(), "never ends".to_owned()));
        assert_eq!(separated("So.\n<think>never", 3, true), ("So.\n".to_owned(), "never".to_owned()));
        let mention = "Tags:\n<think> begins it.";
        assert_eq!(separated(mention, 3, false), (mention.to_owned(), String::new()));
    }

    #[test]
    fn a_model_that_reasons_without_an_opening_mark_is_held_back() {
        let mut reasoning = ReasoningFilter::held_back();
        assert_eq!(reasoning.take("hm, 17"), Separated::default());
        let separated = reasoning.take(" times</think>\nyes");
        assert_eq!(
            (separated.text.as_str(), separated.reasoning.as_str(), separated.retracts),
            ("yes", "hm, 17 times", false)
        );
        assert!(reasoning.had_bare_close());
        let mut at_once = ReasoningFilter::held_back();
        assert_eq!(at_once.take("yes"), Separated::default());
        assert_eq!(at_once.end(false).text, "yes");
        let mut tagged = ReasoningFilter::held_back();
        let separated = tagged.take("<think>hm</think>yes");
        assert_eq!((separated.text.as_str(), separated.reasoning.as_str()), ("yes", "hm"));
    }
}

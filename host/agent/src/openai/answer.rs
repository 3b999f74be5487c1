//! The answer as far as it has come, and how pieces of it are read.

use hermes_protocol::Usage;
use serde_json::Value;

use super::calls::Calls;
use super::failure::Trouble;

/// The longest text, and the longest reasoning, that one answer may have.
pub(super) const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// What was said.
    pub text: String,
    /// What was thought, kept apart.
    pub reasoning: String,
    /// Why the model stopped, once it has.
    pub finish_reason: Option<String>,
    /// The model, as the endpoint names it.
    pub model: Option<String>,
    /// What it cost, as far as the endpoint tells.
    pub usage: Usage,
    /// The tools that the model calls.
    pub calls: Calls,
    /// What stands between the text before this answer and its own; said with its first piece.
    lead: &'static str,
    think: ThinkTag,
}

/// What one piece changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Text to show.
    pub text: String,
    /// Whether the answer came on at all; a piece that says nothing is no sign of life.
    pub moved: bool,
}

impl Answer {
    /// An answer whose text is said behind another one's.
    pub(super) fn behind(lead: &'static str) -> Self {
        Self { lead, ..Self::default() }
    }

    /// Forgets what has come.
    pub(super) fn begin_again(&mut self) {
        *self = Self::behind(self.lead);
    }

    /// Whether nothing has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.finish_reason.is_none() && self.calls.is_empty()
    }

    /// The text as it was said.
    pub(super) fn said(&self) -> String {
        if self.text.is_empty() { String::new() } else { format!("{}{}", self.lead, self.text) }
    }

    fn extent(&self) -> (usize, usize, bool, usize) {
        (self.text.len(), self.reasoning.len(), self.finish_reason.is_some(), self.calls.bytes())
    }

    /// Takes one JSON object of the stream, or a whole completion.
    pub(super) fn take(&mut self, piece: &Value) -> Result<Step, Trouble> {
        if !piece["error"].is_null() {
            return Err(Trouble::of_error_object(&piece["error"]));
        }
        let is_ours = piece["choices"].is_array() || piece["usage"].is_object();
        if !is_ours {
            return Err(Trouble::NotACompletion { why: "a JSON object without choices" });
        }
        let before = self.extent();
        if self.model.is_none() {
            self.model = piece["model"].as_str().filter(|model| !model.is_empty()).map(str::to_owned);
        }
        self.take_usage(&piece["usage"]);
        let shown = self.text.len();
        let choice = &piece["choices"][0];
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        self.take_delta(delta);
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
            self.flush();
        }
        let longest = self.text.len().max(self.reasoning.len()).max(self.calls.bytes());
        if longest >= ANSWER_BYTES_MAX {
            self.finish_reason = Some("length".to_owned());
        }
        let said = &self.text[shown..];
        let lead = if shown == 0 && !said.is_empty() { self.lead } else { "" };
        Ok(Step { text: format!("{lead}{said}"), moved: before != self.extent() })
    }

    /// Gives out what was held back to see whether it would become a tag.
    pub(super) fn flush(&mut self) {
        let held = self.think.end();
        push_bounded(&mut self.text, &held);
    }

    fn take_delta(&mut self, delta: &Value) {
        for key in ["reasoning_content", "reasoning"] {
            if let Some(thought) = delta[key].as_str().filter(|thought| !thought.is_empty()) {
                push_bounded(&mut self.reasoning, thought);
                break;
            }
        }
        let refusal = delta["refusal"].as_str().unwrap_or_default();
        for text in texts(&delta["content"]).chain([refusal]) {
            let (thought, said) = self.think.split(text);
            push_bounded(&mut self.reasoning, &thought);
            push_bounded(&mut self.text, &said);
        }
        self.calls.take(delta);
    }

    fn take_usage(&mut self, usage: &Value) {
        let number = |keys: [&str; 2]| keys.into_iter().find_map(|key| usage[key].as_u64());
        if let Some(tokens) = number(["prompt_tokens", "input_tokens"]) {
            self.usage.input_tokens = tokens;
        }
        if let Some(tokens) = number(["completion_tokens", "output_tokens"]) {
            self.usage.output_tokens = tokens;
        }
    }
}

/// Content is a string, or a list of parts that have a text.
fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    content.as_str().into_iter().chain(parts.iter().filter_map(|part| part["text"].as_str()))
}

fn push_bounded(to: &mut String, text: &str) {
    let left = ANSWER_BYTES_MAX.saturating_sub(to.len());
    let end = (0..=left.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    to.push_str(&text[..end]);
}

/// Servers of small models leave the reasoning in the text, between `<think>`
/// and `</think>` at its very beginning.
#[derive(Debug, Default)]
struct ThinkTag {
    state: ThinkState,
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThinkState {
    #[default]
    Before,
    Inside,
    /// The blank lines behind the tag, which belong to neither.
    Behind,
    After,
}

impl ThinkTag {
    const OPEN: &'static str = "<think>";
    const CLOSE: &'static str = "</think>";

    /// Returns what is thought and what is said of the next piece.
    fn split(&mut self, piece: &str) -> (String, String) {
        match self.state {
            ThinkState::After => return (String::new(), piece.to_owned()),
            ThinkState::Behind => return (String::new(), self.behind(piece)),
            ThinkState::Before | ThinkState::Inside => {}
        }
        self.held.push_str(piece);
        if self.state == ThinkState::Before {
            let begun = self.held.trim_start();
            if begun.len() < Self::OPEN.len() && Self::OPEN.starts_with(begun) {
                return Default::default();
            }
            match begun.strip_prefix(Self::OPEN) {
                Some(rest) => {
                    self.held = rest.to_owned();
                    self.state = ThinkState::Inside;
                }
                None => {
                    self.state = ThinkState::After;
                    return (String::new(), std::mem::take(&mut self.held));
                }
            }
        }
        if let Some((thought, said)) = self.held.split_once(Self::CLOSE) {
            let (thought, said) = (thought.to_owned(), said.to_owned());
            self.held.clear();
            self.state = ThinkState::Behind;
            return (thought, self.behind(&said));
        }
        let kept = (1..Self::CLOSE.len()).rev().find(|&n| self.held.ends_with(&Self::CLOSE[..n])).unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        (std::mem::replace(&mut self.held, rest), String::new())
    }

    fn behind(&mut self, piece: &str) -> String {
        let said = piece.trim_start();
        if !said.is_empty() {
            self.state = ThinkState::After;
        }
        said.to_owned()
    }

    /// Returns what was held back and is said after all, because the text ends.
    fn end(&mut self) -> String {
        match std::mem::replace(&mut self.state, ThinkState::After) {
            ThinkState::Before => std::mem::take(&mut self.held),
            ThinkState::Inside | ThinkState::Behind | ThinkState::After => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn piece(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn read(pieces: &[&str]) -> Answer {
        let mut answer = Answer::default();
        for text in pieces {
            answer.take(&piece(json!({"content": text}))).unwrap();
        }
        answer.flush();
        answer
    }

    #[test]
    fn reasoning_never_becomes_text() {
        let mut answer = Answer::default();
        let step = answer.take(&piece(json!({"reasoning_content": "hm", "content": null}))).unwrap();
        assert_eq!(step, Step { text: String::new(), moved: true });
        answer.take(&piece(json!({"reasoning": " hm", "content": "yes"}))).unwrap();
        assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("yes", "hm hm"));
    }

    #[test]
    fn a_think_tag_at_the_beginning_is_reasoning_however_it_is_cut() {
        let stream = "\n<think>a < b </thin </think>\n\nyes <think>no</think>";
        for cut in 1..stream.len() {
            let answer = read(&[&stream[..cut], &stream[cut..]]);
            assert_eq!(answer.text, "yes <think>no</think>", "cut at {cut}");
            assert_eq!(answer.reasoning, "a < b </thin ", "cut at {cut}");
        }
    }

    #[test]
    fn what_only_looks_like_a_tag_is_text() {
        assert_eq!(read(&["<thi", "nk of it"]).text, "<think of it");
        assert_eq!(read(&["<th"]).text, "<th");
        assert_eq!(read(&["  ", "hi"]).text, "  hi");
        let endless = read(&["<think>", "never ends"]);
        assert_eq!((endless.text.as_str(), endless.reasoning.as_str()), ("", "never ends"));
    }

    #[test]
    fn parts_refusals_usage_and_model_are_read() {
        let mut answer = Answer::default();
        answer.take(&piece(json!({"content": [{"type": "text", "text": "a"}, {"type": "image"}]}))).unwrap();
        answer.take(&piece(json!({"refusal": "b"}))).unwrap();
        let last = json!({"model": "m-1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
        assert!(!answer.take(&last).unwrap().moved);
        assert_eq!(answer.text, "ab");
        assert_eq!(answer.model.as_deref(), Some("m-1"));
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (3, 4));
    }

    #[test]
    fn an_endless_answer_is_ended() {
        let mut answer = Answer::default();
        let big = "ü".repeat(300_000);
        for _ in 0..3 {
            answer.take(&piece(json!({"content": big}))).unwrap();
        }
        assert_eq!(answer.finish_reason.as_deref(), Some("length"));
        assert!(answer.text.len() <= ANSWER_BYTES_MAX);
    }

    #[test]
    fn no_json_makes_it_panic() {
        for odd in [json!(null), json!([]), json!("x"), json!({"choices": {}}), json!({"choices": [7]}), json!(7)] {
            let _ = Answer::default().take(&odd);
        }
        assert!(Answer::default().take(&json!({"choices": [{"delta": 7, "finish_reason": 7}]})).is_ok());
    }
}

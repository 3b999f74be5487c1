//! The answer received so far, and the parser of its pieces.

use hermes_protocol::Usage;
use hermes_protocol::text::prefix;
use serde_json::Value;

use super::calls::Calls;
use super::json::SurrogateJoiner;
use super::reasoning::{ReasoningFilter, Separated};
use crate::openai::error::EndpointError;

/// Longest text, and longest reasoning, of one answer in bytes.
pub(in crate::openai) const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Finish reason of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::openai) enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The length limit was reached.
    Length,
    /// The model calls tools.
    Calls,
    /// A content filter withheld the answer.
    Filter,
    /// The endpoint failed.
    Failed(String),
    /// An unknown word. It ends an answer only together with its stream.
    Unknown,
}

impl FinishReason {
    /// Parses a `finish_reason`. `None` means that the answer continues.
    fn of(word: &str) -> Option<Self> {
        let word = word.trim().to_ascii_lowercase();
        Some(match word.as_str() {
            "" | "null" | "none" | "nil" | "undefined" => return None,
            "stop" | "end_turn" | "eos" | "eos_token" | "stop_sequence" | "complete" | "completed" | "finish"
            | "finished" | "done" | "normal" | "end" => Self::Stop,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" | "max_length" | "max_new_tokens"
            | "token_limit" => Self::Length,
            "tool_calls" | "tool_call" | "function_call" | "function_calls" | "tool_use" => Self::Calls,
            "content_filter" | "safety" | "recitation" | "sensitive" | "blocklist" | "prohibited_content" | "spii" => {
                Self::Filter
            }
            "error" | "network_error" | "insufficient_system_resource" | "abort" | "aborted" => Self::Failed(word),
            _ => Self::Unknown,
        })
    }

    fn is_precise(&self) -> bool {
        !matches!(self, Self::Stop | Self::Unknown)
    }
}

/// The answer received so far.
#[derive(Debug, Default)]
pub(in crate::openai) struct Answer {
    /// Text.
    pub text: String,
    /// Reasoning, kept separate from the text.
    pub reasoning: String,
    /// Finish reason, once there is one.
    pub end: Option<FinishReason>,
    /// Model, as named by the endpoint.
    pub model: Option<String>,
    /// Usage, as reported by the endpoint.
    pub usage: Usage,
    /// Tool calls.
    pub calls: Calls,
    /// Events that are not pieces of an answer.
    pub skipped: u64,
    /// True if reasoning arrived in a separate field.
    pub separates_reasoning: bool,
    /// Separator from the text before this answer; sent with its first piece.
    lead: &'static str,
    filter: ReasoningFilter,
    join: SurrogateJoiner,
    /// Received content, to recognise a message that repeats all of it.
    raw: String,
    /// Index of the choice that is read, after the first piece.
    index: Option<u64>,
    /// Length of the part of `text` that was returned, in bytes.
    given: usize,
    /// Received bytes of content, reasoning and calls.
    received: usize,
    /// Value of `received` at the last finish reason.
    received_at_end: usize,
    /// True if content arrived after a finish reason.
    continued: bool,
    /// True if a piece had the form of a completion.
    recognised: bool,
}

/// The effect of one piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::openai) struct AnswerDelta {
    /// Text to show.
    pub text: String,
    /// True if the answer grew; an empty piece is not progress.
    pub moved: bool,
    /// True if the answer grew and ended with the same piece.
    pub ended_with_content: bool,
}

impl Answer {
    /// Creates an answer whose text follows another one.
    pub(in crate::openai) fn behind(lead: &'static str) -> Self {
        Self { lead, ..Self::default() }
    }

    /// Discards the received data. `held_back` is true for models that start to reason without an opening tag.
    pub(in crate::openai) fn begin(&mut self, held_back: bool) {
        let filter = if held_back { ReasoningFilter::held_back() } else { ReasoningFilter::default() };
        *self = Self { filter, ..Self::behind(self.lead) };
    }

    /// Returns true if there is neither text nor a call.
    pub(in crate::openai) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }

    /// Returns true if text was returned already.
    pub(in crate::openai) fn was_shown(&self) -> bool {
        self.given > 0
    }

    /// Returns true if a piece had the form of a completion.
    pub(in crate::openai) fn is_recognised(&self) -> bool {
        self.recognised
    }

    /// Returns true if there is a finish reason and nothing arrived after it.
    pub(in crate::openai) fn is_complete(&self) -> bool {
        let known = self.end.as_ref().is_some_and(|end| *end != FinishReason::Unknown);
        known && self.received == self.received_at_end
    }

    /// Returns true if the answer would be complete even if the stream broke off now.
    pub(in crate::openai) fn is_certain(&self) -> bool {
        self.is_complete() && !self.continued && (self.calls.is_empty() || self.calls.are_whole())
    }

    /// Returns true if the size limit is reached.
    pub(in crate::openai) fn is_full(&self) -> bool {
        self.received >= ANSWER_BYTES_MAX
    }

    /// Returns true if a closing tag of reasoning arrived without an opening one.
    pub(in crate::openai) fn had_bare_close(&self) -> bool {
        self.filter.had_bare_close()
    }

    /// Returns the text, preceded by its separator from the text before.
    pub(in crate::openai) fn shown_text(&self) -> String {
        if self.text.is_empty() { String::new() } else { format!("{}{}", self.lead, self.text) }
    }

    /// Processes one JSON value of the stream, or a whole completion. `is_error` is true if the event is named
    /// as an error.
    pub(in crate::openai) fn take(&mut self, piece: &Value, is_error: bool) -> Result<AnswerDelta, EndpointError> {
        let received = self.received;
        let had_ended = self.end.is_some();
        let pieces = piece.as_array().map_or(std::slice::from_ref(piece), Vec::as_slice);
        let mut ended = false;
        for piece in pieces {
            ended |= self.take_piece(piece, is_error)?;
        }
        let moved = self.received > received;
        self.continued |= moved && had_ended;
        if ended {
            self.received_at_end = self.received;
        }
        if self.is_full() {
            self.end = Some(FinishReason::Length);
            self.received_at_end = self.received;
        }
        Ok(AnswerDelta { text: self.give(), moved: moved || ended && !had_ended, ended_with_content: ended && moved })
    }

    /// Returns the text that was held back, after the end of the answer.
    pub(in crate::openai) fn finish(&mut self) -> String {
        let rest = self.join.end();
        let separated = self.filter.take(&rest);
        self.apply(separated);
        let separated = self.filter.end(self.end == Some(FinishReason::Length));
        self.apply(separated);
        self.give()
    }

    /// Processes one object of the stream. Returns true if it ends the answer.
    fn take_piece(&mut self, piece: &Value, is_error: bool) -> Result<bool, EndpointError> {
        if let Some(error) = error_of(piece, is_error) {
            if self.is_certain() {
                tracing::debug!(%error, "endpoint reported an error after the answer was complete");
                return Ok(false);
            }
            return Err(EndpointError::of_error_object(error));
        }
        if self.model.is_none() {
            self.model = piece["model"].as_str().filter(|model| !model.is_empty()).map(str::to_owned);
        }
        self.take_usage(&piece["usage"]);
        self.take_usage(&piece["x_groq"]["usage"]);
        let is_chunk = piece["choices"].is_array() || piece["choices"].is_object();
        let is_known = is_chunk || piece["usage"].is_object() || piece["object"].as_str().is_some_and(is_completion);
        self.recognised |= is_chunk || piece["usage"].is_object();
        let Some(choice) = self.choice(&piece["choices"]) else {
            self.skipped += u64::from(!is_known);
            return Ok(false);
        };
        self.take_usage(&choice["usage"]);
        self.take_delta(&choice["delta"]);
        self.take_whole(&choice["message"]);
        if choice["delta"].is_null() && choice["message"].is_null() {
            // Format of completions without chat.
            self.take_content(choice["text"].as_str().unwrap_or_default());
        }
        let reason = choice["finish_reason"].as_str().or(choice["finishReason"].as_str()).unwrap_or_default();
        let Some(end) = FinishReason::of(reason) else { return Ok(false) };
        if let FinishReason::Failed(word) = end {
            return Err(EndpointError::ErrorInAnswer { message: format!("finish_reason {word}") });
        }
        // A "stop" after "tool_calls" does not cancel the calls.
        if end.is_precise() || !self.end.as_ref().is_some_and(FinishReason::is_precise) {
            self.end = Some(end);
        }
        Ok(true)
    }

    /// Returns the choice to read: the first one that arrived, with any index.
    fn choice<'v>(&mut self, choices: &'v Value) -> Option<&'v Value> {
        let choices = choices.as_array().map_or(std::slice::from_ref(choices), Vec::as_slice);
        let number = |choice: &Value| choice["index"].as_u64().unwrap_or(0);
        let mut objects = choices.iter().filter(|choice| choice.is_object());
        let choice = match self.index {
            Some(index) => objects.find(|choice| number(choice) == index),
            None => objects.min_by_key(|choice| number(choice)),
        }?;
        self.index = Some(number(choice));
        Some(choice)
    }

    fn take_delta(&mut self, delta: &Value) {
        if !delta.is_object() {
            return;
        }
        if let Some(reasoning) = reasoning_of(delta) {
            self.separates_reasoning = true;
            self.received += reasoning.len();
            push_bounded(&mut self.reasoning, &reasoning);
        }
        for part in parts(&delta["content"]) {
            match part {
                ContentPart::Text(text) => self.take_content(&text),
                ContentPart::Reasoning(reasoning) => {
                    self.separates_reasoning = true;
                    self.received += reasoning.len();
                    push_bounded(&mut self.reasoning, &reasoning);
                }
            }
        }
        self.take_content(delta["refusal"].as_str().unwrap_or_default());
        let bytes = self.calls.bytes();
        self.calls.take(delta);
        self.received += self.calls.bytes() - bytes;
    }

    /// Processes a complete message. Some servers repeat the whole answer at the end of its stream.
    fn take_whole(&mut self, message: &Value) {
        if !message.is_object() {
            return;
        }
        if self.received == 0 {
            return self.take_delta(message);
        }
        let whole: String = parts(&message["content"]).into_iter().filter_map(ContentPart::into_text).collect();
        if let Some(rest) = whole.strip_prefix(self.raw.as_str()) {
            self.take_content(rest);
        }
        if self.calls.is_empty() {
            self.calls.take(message);
            self.received += self.calls.bytes();
        }
    }

    fn take_content(&mut self, content: &str) {
        if content.is_empty() {
            return;
        }
        self.received += content.len();
        push_bounded(&mut self.raw, content);
        let joined = self.join.take(content);
        let separated = self.filter.take(&joined);
        self.apply(separated);
    }

    fn apply(&mut self, separated: Separated) {
        if separated.retracts {
            let reasoning = std::mem::take(&mut self.text);
            push_bounded(&mut self.reasoning, &reasoning);
            self.given = 0;
        }
        push_bounded(&mut self.reasoning, &separated.reasoning);
        push_bounded(&mut self.text, &separated.text);
    }

    /// Returns the new text. Leading whitespace is held back until text follows, because an answer of
    /// whitespace counts as empty.
    fn give(&mut self) -> String {
        if self.given == 0 && self.text.trim().is_empty() {
            return String::new();
        }
        let lead = if self.given == 0 { self.lead } else { "" };
        let text = format!("{lead}{}", &self.text[self.given..]);
        self.given = self.text.len();
        text
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

fn is_completion(object: &str) -> bool {
    object.starts_with("chat.completion") || object.starts_with("text_completion")
}

/// Returns the error of a piece, in any of the common formats.
fn error_of(piece: &Value, is_error: bool) -> Option<&Value> {
    if !piece.is_object() {
        return (is_error && piece.is_string()).then_some(piece);
    }
    let error = &piece["error"];
    let says = match error {
        Value::Object(fields) => fields.values().any(|value| !value.is_null() && value != ""),
        Value::String(words) => !words.trim().is_empty(),
        _ => false,
    };
    if says {
        return Some(error);
    }
    if let Some(first) = piece["errors"].as_array().and_then(|errors| errors.first()) {
        return Some(first);
    }
    if !piece["choices"].is_null() {
        return None;
    }
    let words = ["message", "msg", "detail"].iter().any(|key| piece[key].as_str().is_some_and(|text| !text.is_empty()));
    let code = match &piece["code"] {
        Value::Number(code) => !matches!(code.as_i64(), Some(0 | 200)),
        Value::String(code) => !matches!(code.as_str(), "" | "0" | "200" | "ok" | "success"),
        _ => false,
    };
    let is_named = is_error || piece["object"] == "error" || piece["type"] == "error" || error == true;
    let is_detail = piece["detail"].is_string() && piece["id"].is_null();
    (is_named || words && code || is_detail).then_some(piece)
}

/// Returns the reasoning of a piece, from the first field that contains some.
fn reasoning_of(delta: &Value) -> Option<String> {
    let fields = ["reasoning_content", "reasoning", "thinking"];
    let text = fields.iter().find_map(|key| delta[key].as_str().filter(|text| !text.is_empty()));
    if let Some(text) = text {
        return Some(text.to_owned());
    }
    let details = delta["reasoning_details"].as_array()?;
    let of = |detail: &Value| detail["text"].as_str().or(detail["summary"].as_str()).map(str::to_owned);
    Some(details.iter().filter_map(of).collect::<String>()).filter(|text| !text.is_empty())
}

enum ContentPart {
    Text(String),
    Reasoning(String),
}

impl ContentPart {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Reasoning(_) => None,
        }
    }
}

/// Splits content into parts. Content is a string, a part, or a list of parts.
fn parts(content: &Value) -> Vec<ContentPart> {
    let parts = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    parts.iter().filter_map(part).collect()
}

fn part(part: &Value) -> Option<ContentPart> {
    if let Some(text) = part.as_str() {
        return Some(ContentPart::Text(text.to_owned()));
    }
    let text = |value: &Value| value.as_str().or(value["value"].as_str()).map(str::to_owned);
    let kind = part["type"].as_str().unwrap_or_default();
    if matches!(kind, "thinking" | "reasoning" | "thought") || part["thought"] == true {
        let inner = &part["thinking"];
        let nested = inner.as_array().map(|parts| parts.iter().filter_map(|part| text(&part["text"])).collect());
        return nested.or_else(|| text(inner)).or_else(|| text(&part["text"])).map(ContentPart::Reasoning);
    }
    text(&part["text"]).or_else(|| text(&part["refusal"])).map(ContentPart::Text)
}

fn push_bounded(to: &mut String, text: &str) {
    let left = ANSWER_BYTES_MAX.saturating_sub(to.len());
    to.push_str(prefix(text, left));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn piece(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn take(answer: &mut Answer, piece: &Value) -> AnswerDelta {
        answer.take(piece, false).unwrap()
    }

    #[test]
    fn reasoning_never_becomes_text() {
        let mut answer = Answer::default();
        let step = take(&mut answer, &piece(json!({"reasoning_content": "hm", "content": null})));
        assert_eq!((step.text.as_str(), step.moved), ("", true));
        take(&mut answer, &piece(json!({"reasoning": " hm", "content": "yes"})));
        assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("yes", "hm hm"));
    }

    #[test]
    fn blanks_are_given_out_with_the_text_behind_them() {
        let mut answer = Answer::behind("--");
        assert_eq!(take(&mut answer, &piece(json!({"content": " \n"}))).text, "");
        assert_eq!(take(&mut answer, &piece(json!({"content": "b"}))).text, "-- \nb");
        assert_eq!(take(&mut answer, &piece(json!({"content": " "}))).text, " ");
        assert_eq!(answer.shown_text(), "-- \nb ");
    }

    #[test]
    fn an_end_is_a_known_word_and_what_follows_it_belongs_to_the_answer() {
        let ended = |reason: Value| {
            let mut answer = Answer::default();
            let piece = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": reason}]});
            let moved = take(&mut answer, &piece).moved;
            (moved, answer.is_complete(), answer.end)
        };
        for reason in [json!(null), json!(""), json!("null"), json!("None"), json!(7), json!({})] {
            assert_eq!(ended(reason.clone()), (true, false, None), "{reason}");
        }
        for reason in ["stop", "STOP", "length", "tool_calls", "end_turn"] {
            assert!(ended(json!(reason)).1, "{reason}");
        }
        assert_eq!(ended(json!("because")), (true, false, Some(FinishReason::Unknown)));
        let mut answer = Answer::default();
        let stop = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]});
        take(&mut answer, &stop);
        assert!(answer.is_certain());
        take(&mut answer, &stop);
        assert_eq!((answer.text.as_str(), answer.is_complete(), answer.is_certain()), ("aa", true, false));
        take(&mut answer, &json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
        take(&mut answer, &json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
        assert_eq!(answer.end, Some(FinishReason::Calls));
    }

    #[test]
    fn what_is_no_piece_is_skipped_and_counted() {
        let mut answer = Answer::default();
        for odd in [json!(null), json!({}), json!({"type": "ping"}), json!(7), json!("x"), json!({"message": "hi"})] {
            assert_eq!(take(&mut answer, &odd), AnswerDelta::default(), "{odd}");
        }
        assert_eq!((answer.skipped, answer.is_recognised()), (6, false));
        for known in [json!({"choices": []}), json!({"choices": null, "object": "chat.completion.chunk"})] {
            take(&mut answer, &known);
        }
        assert_eq!(answer.skipped, 6);
        for odd in
            [json!({"choices": {}}), json!({"choices": [7]}), json!({"choices": [{"delta": 7, "finish_reason": 7}]})]
        {
            take(&mut answer, &odd);
        }
    }

    #[test]
    fn errors_are_recognised_in_all_their_forms() {
        for error in [
            json!({"error": "broken"}),
            json!({"error": {"message": "broken"}, "choices": [{"delta": {}}]}),
            json!([{"error": {"code": 400, "message": "broken"}}]),
            json!({"object": "error", "message": "broken", "code": 400}),
            json!({"type": "error", "message": "broken"}),
            json!({"code": "InvalidParameter", "message": "broken"}),
            json!({"errors": [{"message": "broken"}], "success": false}),
            json!({"detail": "broken"}),
            json!({"choices": [{"delta": {}, "finish_reason": "error"}]}),
        ] {
            assert!(Answer::default().take(&error, false).is_err(), "{error}");
        }
        assert!(Answer::default().take(&json!({"hello": "world"}), true).is_err());
        for fine in [json!({"error": null, "choices": []}), json!({"error": {}, "choices": []}), json!({"error": ""})] {
            assert!(Answer::default().take(&fine, false).is_ok(), "{fine}");
        }
    }

    #[test]
    fn a_message_that_repeats_the_stream_adds_only_what_is_new() {
        let mut answer = Answer::default();
        take(&mut answer, &piece(json!({"content": "<think>hm</think>one "})));
        let whole = json!({"choices": [{"message": {"content": "<think>hm</think>one two"}, "finish_reason": "stop"}]});
        take(&mut answer, &whole);
        take(&mut answer, &whole);
        assert_eq!(answer.text, "one two");
    }

    #[test]
    fn parts_refusals_usage_and_model_are_read() {
        let mut answer = Answer::default();
        let parts = json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "a"},
            {"type": "image"},
        ]);
        take(&mut answer, &piece(json!({"content": parts})));
        take(&mut answer, &piece(json!({"refusal": "b"})));
        let last = json!({"model": "m-1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
        assert!(!take(&mut answer, &last).moved);
        assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("ab", "hm"));
        assert_eq!(answer.model.as_deref(), Some("m-1"));
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (3, 4));
    }

    #[test]
    fn one_of_several_choices_is_read() {
        let mut answer = Answer::default();
        for n in [0, 1, 0, 1] {
            take(&mut answer, &json!({"choices": [{"index": n, "delta": {"content": n.to_string()}}]}));
        }
        assert_eq!(answer.text, "00");
    }

    #[test]
    fn an_endless_answer_is_ended() {
        let mut answer = Answer::default();
        let big = "ü".repeat(300_000);
        for _ in 0..3 {
            take(&mut answer, &piece(json!({"content": big})));
        }
        assert_eq!(answer.end, Some(FinishReason::Length));
        assert!(answer.is_full() && answer.text.len() <= ANSWER_BYTES_MAX);
    }
}

//! The size of messages in tokens, and their reduction to the context window of a model.

use serde_json::Value;

/// Tokens of one message in addition to its text.
const MESSAGE_TOKENS: usize = 4;

/// Tokens of one picture.
const PICTURE_TOKENS: usize = 1_000;

/// Results of the running turn that stay complete as long as possible.
const RESULTS_KEPT: usize = 2;

/// Messages that belong together: one message, or an answer with calls and their results.
#[derive(Clone, Debug)]
pub(super) struct MessageGroup {
    pub messages: Vec<Value>,
    tokens: usize,
    /// Number of transcript messages in this group.
    count: usize,
}

impl MessageGroup {
    pub(super) fn new(messages: Vec<Value>, count: usize) -> Self {
        let tokens = messages.iter().map(tokens_of).sum();
        Self { messages, tokens, count }
    }

    /// Cuts the longest texts so that none exceeds `tokens`.
    fn cut(&mut self, tokens: usize) {
        for message in &mut self.messages {
            if let Some(text) = message["content"].as_str().filter(|text| tokens_of_text(text) > tokens) {
                message["content"] = Value::String(shortened(text, tokens));
            }
        }
        *self = Self::new(std::mem::take(&mut self.messages), self.count);
    }
}

/// Shrinks history and input to `room` tokens in three steps: cuts long history messages, omits the oldest
/// ones, and cuts older results of the turn. Returns the number of omitted messages.
pub(super) fn fit(
    history: &mut Vec<MessageGroup>,
    input: &mut [MessageGroup],
    instructions: usize,
    room: usize,
) -> usize {
    let total = |history: &[MessageGroup], input: &[MessageGroup]| -> usize {
        instructions + history.iter().chain(input).map(|group| group.tokens).sum::<usize>()
    };
    if total(history, input) <= room {
        return 0;
    }
    history.iter_mut().filter(|group| group.tokens > room / 4).for_each(|group| group.cut(room / 8));
    let mut size = total(history, input);
    let mut dropped = 0;
    for group in history.iter() {
        let begins_with_answer = dropped > 0 && group.messages.first().is_some_and(|first| first["role"] != "user");
        if size <= room && !begins_with_answer {
            break;
        }
        size -= group.tokens;
        dropped += 1;
    }
    let left_out = history.drain(..dropped).map(|group| group.count).sum();
    let with_results: Vec<usize> =
        (0..input.len()).filter(|&at| input[at].messages.iter().any(|message| message["role"] == "tool")).collect();
    for (keep, cut_to) in [(RESULTS_KEPT, room / 16), (0, room / 16), (0, room / 64)] {
        for &at in &with_results[..with_results.len().saturating_sub(keep)] {
            if total(history, input) > room {
                input[at].cut(cut_to.max(16));
            }
        }
    }
    left_out
}

/// Estimates the tokens of a text: one per four ASCII characters, and one per other character.
pub(in crate::openai) fn tokens_of_text(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    ascii.div_ceil(4) + text.chars().filter(|c| !c.is_ascii()).count()
}

/// Estimates the tokens of a JSON value, such as tool definitions.
pub(in crate::openai) fn tokens_of_json(value: &Value) -> usize {
    if value.is_null() { 0 } else { tokens_of_text(&value.to_string()) }
}

pub(super) fn tokens_of(message: &Value) -> usize {
    let content = match &message["content"] {
        Value::String(text) => tokens_of_text(text),
        Value::Array(parts) => {
            let part = |part: &Value| part["text"].as_str().map_or(PICTURE_TOKENS, tokens_of_text);
            parts.iter().map(part).sum()
        }
        _ => 0,
    };
    MESSAGE_TOKENS + content + tokens_of_json(&message["tool_calls"])
}

/// Returns the beginning and the end of a text, with the number of omitted characters between them.
fn shortened(text: &str, tokens: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    // A text in other scripts has one token per character.
    let per_token = (chars.len() / tokens_of_text(text).max(1)).clamp(1, 4);
    let kept = (tokens * per_token).saturating_sub(48).min(chars.len());
    let (head, tail) = (kept - kept / 4, kept / 4);
    let left_out = chars.len() - kept;
    let (begin, end) = (&chars[..head], &chars[chars.len() - tail..]);
    format!("{}\n[… {left_out} characters omitted …]\n{}", String::from_iter(begin), String::from_iter(end))
}

//! The text and the blocks of a message: sections of text, and buttons.

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::text::prefix;
use serde_json::{Value, json};

use crate::text::{escape, link_addresses};

/// The maximum length of a section, in UTF-16 units. <https://docs.slack.dev/reference/block-kit/blocks/section-block>
const SECTION_UTF16_MAX: usize = 3000;
/// The length of the marks of a code block that continues in the next section, in UTF-16 units.
const FENCE_UTF16: usize = 8;
/// The maximum number of buttons in a row. <https://docs.slack.dev/reference/block-kit/blocks/actions-block>
const BUTTONS_MAX: usize = 25;
/// The maximum length of a label, in characters.
/// <https://docs.slack.dev/reference/block-kit/block-elements/button-element>
const LABEL_CHARS_MAX: usize = 75;
/// The maximum length of `text`, in bytes; a longer text is sent as blocks. `chat.update` rejects a longer one,
/// and `chat.postMessage` splits it into several messages.
/// <https://docs.slack.dev/reference/methods/chat.update#errors>
pub(crate) const TEXT_BYTES_MAX: usize = 4000;

/// Returns the text alone, or the beginning of the text for notifications with the whole text in blocks.
pub(crate) fn text_and_blocks(message: &Outgoing) -> (String, Option<Value>) {
    let text = text(message);
    match &message.choices {
        None if text.len() <= TEXT_BYTES_MAX => (text, None),
        choices => {
            let beginning = truncate_escaped(&escape(&message.source), TEXT_BYTES_MAX).to_owned();
            (beginning, Some(blocks(message, choices.as_ref())))
        }
    }
}

pub(crate) fn text(message: &Outgoing) -> String {
    match message.format {
        Format::Plain => escape(&message.text),
        _ => message.text.clone(),
    }
}

/// Returns the text in sections, with the buttons below.
fn blocks(message: &Outgoing, choices: Option<&Choices>) -> Value {
    let is_plain = message.format == Format::Plain;
    let section = |text: String| match is_plain {
        true => json!({ "type": "section", "text": { "type": "plain_text", "text": text } }),
        // Otherwise Slack parses names in the text, and `@channel` notifies everybody.
        false => json!({ "type": "section", "text": { "type": "mrkdwn", "text": text, "verbatim": true } }),
    };
    // Verbatim text has explicit links only.
    let text = if is_plain { message.text.clone() } else { link_addresses(&message.text) };
    let mut blocks: Vec<Value> = sections(&text).into_iter().map(section).collect();
    let Some(choices) = choices else { return Value::Array(blocks) };
    for (row, options) in choices.options.chunks(BUTTONS_MAX).enumerate() {
        let button = |(n, option): (usize, &ChoiceOption)| {
            let label: String = option.label.chars().take(LABEL_CHARS_MAX).collect();
            let mut button = json!({
                "type": "button",
                // Unique within the row.
                "action_id": format!("choice_{n}"),
                "text": { "type": "plain_text", "text": label },
                "value": format!("{}:{}", choices.ask, option.id),
            });
            if matches!(option.style.as_str(), "primary" | "danger") {
                button["style"] = json!(option.style);
            }
            button
        };
        let elements: Vec<Value> = options.iter().enumerate().map(button).collect();
        blocks.push(json!({ "type": "actions", "block_id": format!("{}_{row}", choices.ask), "elements": elements }));
    }
    Value::Array(blocks)
}

/// Splits a text into pieces that fit a section: at the end of a line if possible, never inside a link or an
/// escaped character. A split code block is closed and opened again.
fn sections(text: &str) -> Vec<String> {
    let (mut found, mut rest, mut fenced) = (Vec::new(), text, false);
    while !rest.is_empty() {
        let open = if fenced { "```\n" } else { "" };
        let is_last = rest.encode_utf16().count() + open.len() <= SECTION_UTF16_MAX;
        let at = if is_last { rest.len() } else { split_position(rest, SECTION_UTF16_MAX - FENCE_UTF16 - open.len()) };
        let (piece, after) = rest.split_at(at);
        fenced ^= piece.matches("```").count() % 2 == 1;
        let close = if fenced && !is_last { "\n```" } else { "" };
        let piece = format!("{open}{}{close}", piece.trim_end_matches('\n'));
        if !piece.trim().is_empty() {
            found.push(piece);
        }
        rest = after.trim_start_matches('\n');
    }
    found
}

/// Returns the position at which to split a text longer than `max` UTF-16 units.
fn split_position(text: &str, max: usize) -> usize {
    let mut units = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        units += c.len_utf16();
        (units > max).then_some(at)
    });
    let end = end.unwrap_or(text.len());
    let head = &text[..end];
    let line = head.rfind('\n').filter(|at| *at > 0);
    let word = line.or_else(|| head.rfind(' ').filter(|at| *at > 0)).unwrap_or(end);
    let head = &text[..word];
    let incomplete = [head.rfind('<').filter(|at| !head[*at..].contains('>')), incomplete_escape(head)];
    match incomplete.into_iter().flatten().min() {
        Some(at) if at > 0 => at,
        _ => word,
    }
}

/// Returns the start of an escaped character that is incomplete at the end of `head`.
fn incomplete_escape(head: &str) -> Option<usize> {
    head.rfind('&').filter(|at| head.len() - at < "&amp;".len() && !head[*at..].contains(';'))
}

/// Returns the beginning of an escaped text, at most `max` bytes long.
fn truncate_escaped(text: &str, max: usize) -> &str {
    let head = prefix(text, max);
    if head.len() == text.len() { text } else { &head[..incomplete_escape(head).unwrap_or(head.len())] }
}

#[cfg(test)]
mod tests;

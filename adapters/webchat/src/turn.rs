//! A running turn, as the page shows it.

use hermes_adapter_sdk::markup::html;
use hermes_adapter_sdk::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

/// The maximum size of streamed text per turn, in bytes; `send` delivers the final text anyway.
const TURN_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum length of a line of progress, in characters.
const PROGRESS_CHARS_MAX: usize = 300;
/// The text is rendered again when it has grown by one part in this many. So all renderings of a turn together take a
/// time that is linear in the length of its text.
const RENDER_SHARE: usize = 128;

/// A running turn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Turn {
    pub(crate) conversation: String,
    pub(crate) inbox_id: i64,
    /// The answer so far.
    pub(crate) text: String,
    /// The rendered answer. The last words of a long one may follow with the next event.
    html: String,
    /// The current activity.
    progress: String,
    /// One of `waiting`, `running`, `done`, `failed`.
    pub(crate) state: &'static str,
    /// The cause of the failure, or the finish reason.
    reason: String,
    /// The number of the last event.
    #[serde(skip)]
    seq: Option<u64>,
    /// The length of `text` in UTF-16 units, as the page counts it.
    #[serde(skip)]
    text_utf16: usize,
    /// The length of the rendered text, in bytes.
    #[serde(skip)]
    rendered: usize,
}

impl Turn {
    /// Creates the turn of an event. It waits.
    pub(crate) fn new(conversation: &str, inbox_id: i64) -> Self {
        Self {
            conversation: conversation.to_owned(),
            inbox_id,
            text: String::new(),
            html: String::new(),
            progress: String::new(),
            state: "waiting",
            reason: String::new(),
            seq: None,
            text_utf16: 0,
            rendered: 0,
        }
    }

    /// Returns whether the turn has ended without an answer to show.
    pub(crate) fn is_silent(&self) -> bool {
        self.state == "done" && (self.text.is_empty() || self.reason == "silent")
    }

    /// Processes one event. Returns the events for the page; none for a repeated event.
    pub(crate) fn apply(&mut self, seq: u64, event: &TurnEvent) -> Vec<Value> {
        let restarted = matches!(event, TurnEvent::Metadata { .. });
        if !restarted && self.seq.is_some_and(|last| seq <= last) {
            return Vec::new();
        }
        self.seq = Some(seq);
        let (conversation, inbox_id) = (self.conversation.clone(), self.inbox_id);
        let event = match event {
            TurnEvent::Metadata { .. } => {
                // A resumed turn starts from the beginning.
                *self = Self { seq: self.seq, state: "running", ..Self::new(&conversation, inbox_id) };
                json!({ "type": "turn", "turn": self })
            }
            TurnEvent::Progress { text, tool, .. } => {
                let line = tool.as_ref().filter(|_| text.is_empty()).unwrap_or(text);
                self.progress = line.chars().take(PROGRESS_CHARS_MAX).collect();
                self.state = "running";
                json!({ "type": "progress", "conversation": conversation, "inbox_id": inbox_id, "text": self.progress })
            }
            TurnEvent::Chunk { text } => {
                if self.text.len() + text.len() > TURN_TEXT_BYTES_MAX {
                    return Vec::new();
                }
                self.text.push_str(text);
                self.progress.clear();
                self.state = "running";
                let grown = self.text.len() - self.rendered;
                return vec![self.chunk(text, grown * RENDER_SHARE >= self.text.len())];
            }
            TurnEvent::Error { code, message, .. } => {
                self.state = "failed";
                self.reason = message.clone();
                json!({ "type": "turn_end", "conversation": conversation, "inbox_id": inbox_id, "state": "failed", "code": code, "reason": message })
            }
            TurnEvent::Done { finish_reason, .. } => {
                self.state = "done";
                self.reason = finish_reason.clone();
                json!({ "type": "turn_end", "conversation": conversation, "inbox_id": inbox_id, "state": "done", "reason": finish_reason })
            }
            _ => return Vec::new(),
        };
        let words = (self.rendered < self.text.len()).then(|| self.chunk("", true));
        words.into_iter().chain([event]).collect()
    }

    /// Returns the event for `text`, which is the end of the whole text, and for the change of the HTML: everything
    /// from `html_at` on, in UTF-16 units, is replaced by `html`.
    fn chunk(&mut self, text: &str, is_rendered: bool) -> Value {
        let (conversation, inbox_id, at) = (&self.conversation, self.inbox_id, self.text_utf16);
        let mut event =
            json!({ "type": "chunk", "conversation": conversation, "inbox_id": inbox_id, "at": at, "text": text });
        self.text_utf16 += text.encode_utf16().count();
        if is_rendered {
            let html = html(&self.text);
            let mut pairs = html.char_indices().zip(self.html.chars());
            let differs = pairs.find(|((_, new), old)| new != old).map(|((at, _), _)| at);
            let (same, changed) = html.split_at(differs.unwrap_or_else(|| html.len().min(self.html.len())));
            event["html_at"] = json!(same.encode_utf16().count());
            event["html"] = json!(changed);
            self.html = html;
            self.rendered = self.text.len();
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the events to HTML as the page does.
    fn replay(html: &mut String, events: &[Value]) {
        for event in events.iter().filter(|event| event["html"].is_string()) {
            let mut units: Vec<u16> = html.encode_utf16().collect();
            units.truncate(usize::try_from(event["html_at"].as_u64().unwrap()).unwrap());
            *html = String::from_utf16(&units).unwrap() + event["html"].as_str().unwrap();
        }
    }

    fn chunk(text: &str) -> TurnEvent {
        TurnEvent::Chunk { text: text.to_owned() }
    }

    #[test]
    fn the_pieces_of_a_streamed_text_are_the_html_of_the_whole() {
        let text =
            "# 😀 **a** <b>\n\n- c\n- *d\n  e*\n\n```js\nf < g\n```\n\n| h |\n|---|\n| [i](https://j.k) |\n".repeat(40);
        let (mut turn, mut page) = (Turn::new("c", 7), String::new());
        for (seq, c) in (1..).zip(text.chars()) {
            replay(&mut page, &turn.apply(seq, &chunk(&c.to_string())));
            assert_eq!(page, turn.html);
        }
        replay(
            &mut page,
            &turn.apply(1_000_000, &TurnEvent::Done { finish_reason: "stop".to_owned(), usage: Usage::default() }),
        );
        assert_eq!(page, html(&text));
    }

    #[test]
    fn a_long_text_is_not_rendered_for_each_of_its_words() {
        let (mut turn, mut renderings, mut bytes) = (Turn::new("c", 7), 0, 0);
        for seq in 1..20_000 {
            let event = turn.apply(seq, &chunk("word ")).remove(0);
            renderings += usize::from(event["html"].is_string());
            bytes += event.to_string().len();
        }
        assert!(renderings < 1_500, "{renderings} renderings");
        assert!(bytes < 20_000 * 150, "{bytes} bytes");
        let words =
            turn.apply(20_000, &TurnEvent::Progress { stage: "tool".to_owned(), text: "x".to_owned(), tool: None });
        assert_eq!(words.len(), 2, "the last words come before the progress");
        assert_eq!(turn.html, html(&turn.text));
    }
}

//! The result of a turn: for the transcript, for the chat, and for observers. One function, no state.

use std::borrow::Cow;

use hermes_agent::{Message, TurnOutcome};
use hermes_core::delivery::{silence, strip_control};
use hermes_protocol::{TurnEvent, Usage};
use serde_json::Value;

use crate::engine::config_snapshot::Live;
use hermes_store::TurnEnd;

/// The notice about a turn that will not be resumed.
pub const GIVEN_UP: &str =
    "Your last message was interrupted by a restart and could not be finished. Please send it again.";

/// The notice about a turn without any output.
const EMPTY: &str = "The agent finished without an answer. Please try again or rephrase your message.";

/// The notice about a turn that was inactive for too long.
const INACTIVE: &str =
    "The agent was silent for too long, so its turn was ended. Your conversation is intact; please try again.";

/// The mark after a text that was cut.
const CUT: &str = "\n\n(the rest was cut)";

/// The mark after an answer that reached the model's length limit.
pub const USED_UP: &str = "\n\n(The answer ends here because it reached the model's length limit.)";

/// The cause of the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The runtime finished.
    Itself,
    /// A user stopped it.
    Stopped,
    /// A later message is answered instead.
    Interrupted,
    /// The turn was inactive for too long.
    Inactive,
}

/// The consequences of the end of a turn.
#[derive(Debug)]
pub struct Conclusion {
    /// The kind of the end.
    pub end: TurnEnd,
    /// The error, for the log and the row.
    pub error: Option<String>,
    /// The new messages of the transcript after the input.
    pub messages: Vec<Message>,
    /// The text for the chat.
    pub says: Option<String>,
    /// The model that answered; empty: none did.
    pub model: String,
    /// The usage of the turn.
    pub usage: Usage,
    /// The runtime's own continuity data.
    pub state: Option<Value>,
    /// The last event for observers.
    pub last: TurnEvent,
}

/// Concludes a turn.
pub fn conclude(outcome: TurnOutcome, cause: Cause, live: &Live) -> Conclusion {
    match outcome {
        TurnOutcome::Finished { text, messages, usage, finish_reason, state, model } => {
            let messages = messages.into_iter().map(|message| clean_message(message, live)).collect();
            let text = clean(&text, live);
            let (says, finish_reason) = if silence(&text) {
                (None, "silent".to_owned())
            } else if text.trim().is_empty() {
                (Some(EMPTY.to_owned()), "empty".to_owned())
            } else {
                (Some(text), finish_reason)
            };
            let last = TurnEvent::Done { finish_reason, usage };
            Conclusion { end: TurnEnd::Finished, error: None, messages, says, model, usage, state, last }
        }
        TurnOutcome::Interrupted { text } => interrupted(&text, cause, live),
        TurnOutcome::Failed(failure) => {
            let sentence = clean(&failure.sentence, live);
            let last = TurnEvent::Error {
                code: failure.code.to_owned(),
                message: sentence.clone(),
                retryable: failure.retryable,
            };
            Conclusion {
                end: TurnEnd::Failed,
                error: Some(live.masker.mask(format!("{}: {}", failure.code, failure.detail)).into_owned()),
                // A half answer would harm the next turn more than none; the model has to know that there was no
                // answer.
                messages: vec![Message::assistant(format!("(no answer: the turn failed with {})", failure.code))],
                says: Some(sentence),
                model: String::new(),
                usage: Usage::default(),
                state: None,
                last,
            }
        }
    }
}

fn interrupted(text: &str, cause: Cause, live: &Live) -> Conclusion {
    let text = clean(text, live);
    let messages = match text.trim() {
        "" => Vec::new(),
        text => vec![Message::assistant(format!("{text}\n\n(interrupted)"))],
    };
    let (says, last) = match cause {
        Cause::Inactive => (
            Some(INACTIVE.to_owned()),
            TurnEvent::Error { code: "runtime_timeout".to_owned(), message: INACTIVE.to_owned(), retryable: true },
        ),
        Cause::Stopped | Cause::Interrupted | Cause::Itself => {
            (None, TurnEvent::Done { finish_reason: "stopped".to_owned(), usage: Usage::default() })
        }
    };
    Conclusion {
        end: TurnEnd::Interrupted,
        error: (cause == Cause::Inactive).then(|| "silent for too long".to_owned()),
        messages,
        says,
        model: String::new(),
        usage: Usage::default(),
        state: None,
        last,
    }
}

/// Prepares a text for output: no control sequences, no secrets, bounded.
fn clean(text: &str, live: &Live) -> String {
    cut(live.masker.mask(strip_control(text)).into_owned(), live.config.limits.reply_bytes_max)
}

fn cut(text: String, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text;
    }
    let at = bytes_max.saturating_sub(CUT.len());
    let end = (0..=at).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{CUT}", &text[..end])
}

fn clean_message(mut message: Message, live: &Live) -> Message {
    if let Cow::Owned(masked) = live.masker.mask(&message.content) {
        message.content = masked;
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_too_long_is_cut_at_a_character() {
        let cut = cut("äöü".repeat(20), 40);
        assert!(cut.len() <= 40 && cut.ends_with(CUT) && cut.starts_with("äöü"), "{cut}");
        assert_eq!(super::cut("short".to_owned(), 40), "short");
    }
}
